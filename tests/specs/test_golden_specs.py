"""What the YAML of published numbers may say, and what its digits mean."""

from typing import Any

import pytest
from support.each import each

from harness.errors import SpecError
from harness.specs.data import GoldenSpec, Printed, half_unit
from harness.specs.schema import load_spec

CELL = {"table": "t", "cell": "c", "published": 3, "recompute": "r", "value": "v"}


def golden(**content: Any) -> GoldenSpec:  # noqa: ANN401 - as YAML gives it
    spec: GoldenSpec = load_spec(
        {"paper": "p", "about": "a", **content}, GoldenSpec, where="toy.yaml"
    )
    return spec


@each(
    ("printed", "tolerance"),
    [(984, 0.5), ("1.15", 0.005), ("0.510", 0.0005), (".730", 0.0005), ("-0.891", 0.0005)],
)
def test_half_a_unit_of_the_last_digit_is_tolerated(printed: Printed, tolerance: float) -> None:
    assert half_unit(printed) == pytest.approx(tolerance)


@each("published", [0.51, "half", "1e3", "", True])
def test_a_number_is_given_as_it_is_printed(published: object) -> None:
    with pytest.raises(SpecError, match="published"):
        golden(cells=[{**CELL, "published": published}])


@each(
    ("change", "named"),
    [
        ({"value": None}, "`recompute` and `value`"),
        ({"recompute": "none"}, "`reason`"),
        ({"recompute": "none", "value": None}, "`reason`"),
        ({"reason": "lost"}, "`recompute` and `value`"),
    ],
)
def test_a_cell_has_a_value_to_compare_or_a_reason(change: dict[str, Any], named: str) -> None:
    with pytest.raises(SpecError, match=named):
        golden(cells=[{**CELL, **change}])


TABLE: dict[str, Any] = {"table": "T", "rows": ["a", "b c"], "columns": {"x": ["0.10", 2]}}


def test_a_printed_table_has_a_cell_a_number_and_ways_in_the_words_of_its_names() -> None:
    ways = {"x": {"recompute": "r_{part}", "value": "{row}_{column}"}, "*": {"reason": "lost"}}
    columns = {**TABLE["columns"], "z": [3, 4]}

    spec = golden(printed=[{**TABLE, "part": "P", "columns": columns, "ways": ways}])

    found = [(c.cell, c.published, c.recompute, c.value, c.reason) for c in spec.all_cells]
    assert found[:2] == [
        ("a, x, P", "0.10", "r_p", "a_x", None),
        ("b c, x, P", 2, "r_p", "b_c_x", None),
    ]
    assert found[2] == ("a, z, P", 3, "none", None, "lost")


def test_a_cell_has_a_name_of_its_own() -> None:
    table = {**TABLE, "ways": {"*": {"reason": "lost"}}}
    with pytest.raises(SpecError, match="cell 'a, x' is given twice"):
        golden(printed=[table, table])


def test_a_column_has_a_value_for_each_row() -> None:
    with pytest.raises(SpecError, match="argument 2 is shorter"):
        golden(printed=[{**TABLE, "columns": {"x": [1]}, "ways": {"*": {"reason": "lost"}}}])
