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
        ({"known_difference": "why"}, "go together"),
        ({"found": 4}, "go together"),
    ],
)
def test_a_cell_has_a_value_to_compare_or_a_reason(change: dict[str, Any], named: str) -> None:
    with pytest.raises(SpecError, match=named):
        golden(cells=[{**CELL, **change}])


def test_a_printed_table_is_inputs_and_cells_that_nobody_can_recompute() -> None:
    table = {"table": "T", "reason": "lost", "rows": ["a", "b"], "columns": {"x": ["0.10", 2]}}

    spec = golden(printed=[table], inputs={"n": [7]})

    assert spec.numbers == {"x": (0.1, 2.0), "n": (7.0,)}
    assert [(c.cell, c.published, c.reason) for c in spec.all_cells] == [
        ("a, x", "0.10", "lost"),
        ("b, x", 2, "lost"),
    ]


def test_a_table_that_goes_on_continues_its_columns() -> None:
    first = {"table": "T1", "reason": "lost", "rows": ["a"], "columns": {"x": [1], "y": [2]}}
    second = {"table": "T2", "reason": "lost", "rows": ["b", "c"], "columns": {"x": [3, 4]}}

    assert golden(printed=[first, second]).numbers == {"x": (1.0, 3.0, 4.0), "y": (2.0,)}


def test_a_column_has_a_value_for_each_row() -> None:
    table = {"table": "T", "reason": "lost", "rows": ["a", "b"], "columns": {"x": [1]}}

    with pytest.raises(SpecError, match="2 rows, and other numbers of values"):
        golden(printed=[table])
