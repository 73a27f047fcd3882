"""Small runs of benchmarks/coverage.py and statements.py: what they measure is as they say."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "coverage.py"
SAID = SCRIPT.with_name("statements.py")
PAGE = Path(__file__).parents[2] / "benchmarks" / "coverage.md"


def lines(names: list[str], runs: int, clusters: int = 20) -> list[list[str]]:
    """The cells of the rows of the tables, without their heads."""
    made = runpy.run_path(str(SCRIPT))["tables"](names, runs, (clusters,))
    cells = [line.strip("| ").split(" | ") for line in made]
    return [row for row in cells if row != [""] and row[-1][:1].isdigit() and "±" in row[-1]]


@pytest.mark.slow
def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    names = ["share", "share_icc3", "rating", "difference_skewed", "auc", "macro_f1"]
    names += ["pearson_dataset", "kendall_document", "acc_eq", "alpha", "pearson_system"]

    # Twenty clusters seldom have ten of either kind, which a slope takes.
    found = [*lines(names, 600), *lines(["slope"], 600, 50)]

    assert len(found) == len(names) + 1
    assert [row for row in found if not 91 <= float(row[1].split()[0]) <= 99.5] == []


@pytest.mark.slow
def test_tests_seldom_find_what_is_not_there() -> None:
    found = lines(["paired", "slope_p"], 300)
    assert len(found) == 9 + 14
    assert [row for row in found if float(row[2].split()[0]) > 5 + 3 * 1.3] == []


@pytest.mark.slow
def test_statements_seldom_say_what_is_not_there_and_mostly_what_is() -> None:
    page, script = PAGE.read_text("utf-8"), runpy.run_path(str(SAID))
    lines = [line.strip("| ").split(" | ") for line in script["tables"](["above"], 24, 4)]
    silent, planted = (float(lines[at][2].split()[0]) for at in (2, -1))

    assert (len(lines), lines[2][1], silent < 20, planted > 50) == (7, "24", True, True)
    titles = [one.title for one in script["STATEMENTS"].values()]
    assert [title for title in titles if f"| {title} |" not in page] == []


def test_the_page_of_statistics_has_a_line_for_each_interval_that_is_measured() -> None:
    page, script = PAGE.read_text("utf-8"), runpy.run_path(str(SCRIPT))
    titles = [title for title, _ in [*script["COVERAGE"].values(), *script["TESTS"].values()]]
    assert [title for title in titles if f"| {title} |" not in page] == []
