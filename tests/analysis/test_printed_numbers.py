"""Printed numbers next to those of a table: which belong together, and what rules make of them."""

import pandas
import pytest
from support.paper_tables import cells, values

from harness.analysis.tables.facts import facts
from harness.analysis.tables.pivot import PaperTable
from harness.analysis.tables.printed import with_printed
from harness.errors import SpecError, StoreError
from harness.specs.data import GoldenSpec
from harness.specs.layouts import CellStyle
from harness.specs.schema import load_spec

HERE = {"reason": "lost", "layout": "toy", "here": {"model": "{row}", "judge": "{column}"}}
RANKS = {"*": {"rule": "rank", "of": ["{row}, {column}", "*, {column}"]}}
WAYS = {"MOS": HERE, "*": {**HERE, "times": 100}}
COLUMNS = {"MOS": ["2.0", "2.5", "3.00"], "far": [50, 10, 20]}
OF_A = {"MOS": [3], "far": [1]}
NAMES = [(model, judge) for judge in ("people", "far") for model in ("ant", "bee", "cat")]
FOUND = facts(
    pandas.DataFrame(NAMES, columns=["model", "judge"]),
    value=[2.25, 2.0, 3.25, 0.5, 0.25, None],
    low=[2.0, 1.5, 3.0, 0.25, 0.0, None],
    high=[2.5, 2.5, 3.5, 0.75, 0.5, None],
)
TABLE = PaperTable("Mine", ("model",), ((),), (), (), cells(), CellStyle(), facts=FOUND)


def printed(**names: str) -> dict[str, GoldenSpec]:
    tables = [
        {"table": "T", "rows": ["A", "B", "C"], "columns": COLUMNS, "ways": WAYS},
        {"table": "T", "part": "rank", "rows": ["A"], "columns": OF_A, "ways": RANKS},
    ]
    known = {"A": "ant", "B": "bee", "C": "cat", "MOS": "people|nobody", **names}
    content = {"paper": "Doe 2024, A Paper", "about": "A table.", "printed": tables, "names": known}
    spec: GoldenSpec = load_spec(content, GoldenSpec, where="toy.yaml")
    return {"doe": spec}


def test_a_printed_number_has_the_one_that_is_here_and_the_difference_next_to_it() -> None:
    opinions, whole = with_printed(printed(), "toy", [TABLE])

    assert opinions.title == "Doe 2024, T; here: Mine"
    assert [*values(opinions)] == [
        ("A, MOS", "ant, people"),
        ("B, MOS", "bee, people"),
        ("C, MOS", "cat, people"),
    ]
    assert values(opinions)["A, MOS", "ant, people"] == (2.0, 2.25, 0.25)
    assert opinions.style.digits == 2
    assert values(whole)["A, far", "ant, far"] == (50, 50, 0)
    [here] = [own[1] for (name, *_), _, own in whole.lines() if name == "A, far"]
    assert (here.low, here.high) == (25, 75)
    assert whole.notes == ("Printed, and not here: C, far.",)


def test_a_rule_makes_a_number_of_what_is_here_where_all_that_it_takes_is() -> None:
    _, whole = with_printed(printed(), "toy", [TABLE])

    assert values(whole)["A, MOS, rank", ""] == (3, 2, -1)
    assert ("A, far, rank", "") not in whole.rows  # the far value of C is missing


@pytest.mark.parametrize(
    ("layout", "names", "error", "words"),
    [
        ("other", {}, SpecError, "no printed numbers of layout 'other'; name one of toy"),
        (
            "toy",
            dict.fromkeys("ABC", "elk"),
            StoreError,
            "none of the numbers that Doe 2024 prints",
        ),
    ],
)
def test_a_layout_without_printed_numbers_is_refused(
    layout: str, names: dict[str, str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        with_printed(printed(**names), layout, [TABLE])
