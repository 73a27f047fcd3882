"""Stored runs to the bins and curves of a table, and to a picture."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from hate_rows import constant, planted, run_of, stored, text

from harness.implicitness_curves import CurveRow, curve_name, curve_rows, curve_text, picture
from harness.scoring import score_rows

PLANTED = planted()


def some(rows: Sequence[CurveRow], rate: str, shape: str) -> list[CurveRow]:
    return [row for row in rows if (row.rate, row.shape) == (rate, shape)]


@pytest.fixture(scope="module")
def found() -> list[CurveRow]:
    return curve_rows(stored(PLANTED), "gold")


@pytest.mark.parametrize("shape", ["logistic", "isotonic falling"])
def test_a_planted_monotone_model_is_recovered_by_its_curve(
    found: list[CurveRow], shape: str
) -> None:
    rows = some(found, "tpr", shape)

    at = np.array([row.at for row in rows], dtype=float)
    value = np.array([row.value for row in rows], dtype=float)
    truth = 1 / (1 + np.exp(-(2 - 2 * at)))
    inside = (at > 0.1) & (at < 1.9)  # at its ends an isotonic curve follows single texts
    assert np.abs(value - truth)[inside].max() < 0.15
    assert (np.diff(value) <= 1e-12).all()
    assert all(row.low is not None and row.high is not None for row in rows)


def test_the_band_holds_the_planted_curve_nearly_everywhere(found: list[CurveRow]) -> None:
    rows = some(found, "tpr", "logistic")

    truth = [1 / (1 + np.exp(-(2 - 2 * (row.at or 0)))) for row in rows]
    held = [
        (row.low or 0) <= share <= (row.high or 1) for row, share in zip(rows, truth, strict=True)
    ]
    assert sum(held) >= 0.9 * len(held)


def test_bins_are_those_of_the_scores(found: list[CurveRow]) -> None:
    scored = {
        row.score.group: (row.score.value, row.score.low, row.score.high, row.score.n)
        for row in score_rows(run_of(PLANTED), PLANTED)
        if row.score.metric == "fpr" and row.score.group.startswith("implicitness [")
    }

    rows = some(found, "fpr", "bin")

    assert [(r.value, r.low, r.high, r.n) for r in rows] == list(scored.values())


def test_a_bin_with_too_few_texts_is_told_of_without_a_value() -> None:
    rows = [*constant(1.0), text("x", is_hateful=True, at=1.9, said=1.0)]

    last = some(curve_rows(stored(rows), "gold"), "tpr", "bin")[-1]

    assert (last.at, last.value, last.n) == (1.75, None, 1)
    assert last.note.startswith("too few")


def test_a_constant_answer_has_no_logistic_curve_and_says_why() -> None:
    rows = curve_rows(stored(constant(1.0)), "gold")

    [row] = some(rows, "tpr", "logistic")
    assert (row.value, row.note) == (None, "constant")
    assert {row.value for row in some(rows, "tpr", "isotonic falling")} == {1.0}


def test_a_judge_that_has_not_read_a_run_has_no_rows() -> None:
    assert curve_rows(stored(constant(1.0)), "other") == []


def test_the_table_has_a_line_a_row(found: list[CurveRow]) -> None:
    lines = list(csv.DictReader(io.StringIO(curve_text(found))))

    assert len(lines) == len(found)
    assert lines[0]["rate"] == "tpr"
    assert float(lines[0]["value"]) == found[0].value


def test_the_name_of_the_files_tells_what_is_in_them(found: list[CurveRow]) -> None:
    other = [replace(row, model="other") for row in found]

    assert curve_name(found) == curve_name(list(reversed(found)))
    assert curve_name(found) != curve_name([*found, *other])


def test_the_picture_has_both_rates_and_every_model(found: list[CurveRow]) -> None:
    other = [replace(row, model="other <model>") for row in found]

    root = ElementTree.fromstring(picture([*found, *other]))

    said = {element.text for element in root.iter() if element.tag.endswith("text")}
    assert {"TPR (hits)", "FPR (false alarms)", "small", "other <model>"} <= said
