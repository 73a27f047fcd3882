"""Measured numbers become the page of results, and the README says what the page says."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import machine, results
from benchmarks.results import Comparison, Results, Row, Scale, Setting, Stage

ROOT = Path(__file__).parents[2]
QUIET = Setting("a processor, 2 cores", {"torch": "2"}, "2026-01-01", is_idle=True, others=0.01)
DIGITS = Comparison(
    "choices-digits",
    "Choices, digits",
    "170 prompts",
    QUIET,
    (
        Row(
            "program", "this program", (2.0, 4.0, 3.0), (3.0, 6.0, 4.0), (500.0, 502.0, 501.0), 0.0
        ),
        Row("lm_eval", "lm-eval", (6.0, 8.0, 12.0), (9.0, 9.0, 9.0), (900.0, 900.0, 900.0), 2e-6),
        Row("hand", "by hand", (1.0, 4.0, 2.0), (1.0, 1.0, 1.0), (100.0, 100.0, 100.0), 1e-5),
    ),
)


def lines_of(page: str, start: str) -> list[list[str]]:
    """The cells of the rows of a table that begin with a word."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith(f"| {start}")
    ]


def test_a_ratio_is_the_median_of_the_ratios_of_each_turn_and_not_of_the_medians() -> None:
    # 6/2, 8/4, 12/3: the ratio of the medians would be 8/3
    assert DIGITS.ratio("lm_eval") == 3.0
    assert DIGITS.ratio("program", "hand") == 1.5
    assert DIGITS.ratio("vllm") is None


def test_the_page_has_a_line_a_way_with_medians_and_spread() -> None:
    page = results.page(Results((DIGITS,)))

    [row] = lines_of(page, "lm-eval")
    assert row[1] == "8.00 (6.00 to 12.0)"
    assert row[2] == "3.00 (2.00 to 4.00)"
    assert row[3] == "9.00"
    assert row[5:] == ["900", "2.0e-06"]
    assert "2026-01-01: a processor, 2 cores; torch 2." in page
    assert "medians of 3 turns" in page


def test_what_was_forced_or_disturbed_is_marked_and_not_in_the_readme() -> None:
    for setting in (replace(QUIET, is_idle=False), replace(QUIET, others=0.4)):
        page = results.page(Results((replace(DIGITS, setting=setting),)))

        assert "not to be quoted" in page
        assert "Nothing has been measured on an idle machine" in page
    assert "not to be quoted" not in results.page(Results((DIGITS,)))


def test_the_sentences_say_the_ratios_to_peers_and_to_the_limit() -> None:
    texts = replace(DIGITS, name="choices-texts", rows=DIGITS.rows[:2])

    assert results.speed(Results((DIGITS, texts))).splitlines()[2:] == [
        "| Choices by log-probability (digits) | lm-evaluation-harness 3.00 | 1.50 |",
        "| Choices by log-probability (texts) | lm-evaluation-harness 3.00 |  |",
    ]


def test_the_scale_has_time_and_memory_an_item() -> None:
    stages = (Stage("run", 10_000, 1, 4.0, 5.0, 300.0), Stage("read", 1_000_000, 1, 120.0, 1, 100))
    page = results.page(Results(scale=Scale(QUIET, 200.0, stages)))

    assert lines_of(page, "run") == [["run", "10,000", "1", "4.00", "5.00", "400", "300", "10.24"]]
    assert lines_of(page, "read")[0][-1] == "0.00"


def test_beyond_what_was_measured_the_capacity_page_counts_from_the_cost_of_an_item() -> None:
    stages = [Stage("run", 10_000, 1, 5.0, 5.0, 300.0), Stage("run", 110_000, 1, 15.0, 1.0, 400.0)]
    page = results.capacity(Scale(QUIET, 200.0, (*stages, Stage("run", 110_000, 2, 9.0, 1, 1))))

    [row] = lines_of(page, "run")
    assert row[1] == "5.0 s, 300 MB"
    # 100 microseconds and 1 kB an item: 15 + 89 s, 400 + 890 MB
    assert row[2] == "104.0 s, 1290 MB (counted from 110,000)"
    assert row[3] == "2.8 h, 97.9 GB (counted from 110,000)"


def test_what_is_written_is_read_again_and_a_part_replaces_its_earlier_one(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    readme, capacity = tmp_path / "README.md", tmp_path / "docs" / "money.md"
    readme.write_text(f"above\n{results.BEGIN}\nold\n{results.END}\nbelow\n")
    capacity.write_text("\nold\n".join(results.CAPACITY))
    scale = Scale(QUIET, 200.0, (Stage("run", 1000, 1, 1.0, 1.0, 210.0),))
    both = Results((DIGITS, replace(DIGITS, name="calls")), scale)

    results.write(both, tmp_path, tmp_path)
    known = results.read(tmp_path / "results.json")
    later = known.having(replace(DIGITS, work="20 prompts"))

    assert known == both
    assert [one.work for one in later.comparisons] == ["20 prompts", "170 prompts"]
    assert (tmp_path / "results.md").read_text() == results.page(both)
    said = f"above\n{results.BEGIN}\n{results.speed(both)}\n{results.END}\nbelow\n"
    assert readme.read_text() == said
    assert results.capacity(scale) in capacity.read_text()


def test_a_loaded_machine_is_refused_with_its_load_and_the_remedy_unless_forced() -> None:
    with pytest.raises(machine.Busy, match=r"11\.40 on 2 cores.* below 0\.50 .*--force"):
        machine.check_idle(11.4, 2, is_forced=False)

    assert machine.check_idle(11.4, 2, is_forced=True) is False
    assert machine.check_idle(0.4, 2, is_forced=False) is True


def test_the_page_is_that_of_the_measured_numbers_and_the_readme_says_the_same() -> None:
    measured = results.read()
    readme = (ROOT / "README.md").read_text("utf-8")

    assert results.PAGE.read_text("utf-8") == results.page(measured)
    assert f"{results.BEGIN}\n{results.speed(measured)}\n{results.END}" in readme
    pages = (ROOT / "docs" / "money.md").read_text("utf-8")
    assert f"{results.CAPACITY[0]}\n{results.capacity(measured.scale)}\n" in pages
    elsewhere = readme.split(results.BEGIN)[0] + readme.split(results.END)[1]
    assert re.findall(r"[\d.]+ times (?:as|\()", elsewhere) == []


def test_the_limits_import_nothing_of_this_program() -> None:
    scripts = sorted((ROOT / "benchmarks" / "by_hand").glob("*.py"))

    assert [path.stem for path in scripts] == ["bertscore", "choices", "implicitness"]
    for path in scripts:
        text = path.read_text("utf-8")
        assert re.findall(r"^\s*(?:from|import) (?:harness|benchmarks)\b", text, re.MULTILINE) == []
