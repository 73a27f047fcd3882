"""Stored runs to the bins and curves of a table, and to a figure."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import numpy as np
import pytest
from pandas import DataFrame, concat
from support.each import each
from support.hate_rows import constant, planted, run_of, stored, text
from support.run_tables import score_rows

from harness.analysis.curves import curve_rows, together
from harness.errors import StoreError
from harness.parts import Reason
from harness.present.figures.figure import Figure
from harness.present.figures.scores import curve_figure
from harness.storage.frames import records
from harness.storage.run_tables import RunTables, SampleRecord
from harness.storage.runs import DataEntry, StoredRun
from harness.storage.signature import Signature

PLANTED = planted()


def curves_of(run: StoredRun, judge: str = "gold") -> DataFrame:
    tables = RunTables(Path(gettempdir()))
    tables.add(list(run.rows))
    return curve_rows(run.file, tables.files, judge)


def some(rows: DataFrame, rate: str, shape: str) -> list[Any]:
    return records(rows[(rows["rate"] == rate) & (rows["shape"] == shape)])


@pytest.fixture(scope="module")
def found() -> DataFrame:
    return curves_of(stored(PLANTED))


def test_a_planted_monotone_model_is_recovered_by_its_curve(found: DataFrame) -> None:
    rows = some(found, "tpr", "logistic")

    at = np.array([row.at for row in rows], dtype=float)
    value = np.array([row.value for row in rows], dtype=float)
    truth = 1 / (1 + np.exp(-(2 - 2 * at)))
    assert np.abs(value - truth).max() < 0.15
    assert None not in {row.low for row in rows}


def test_bins_are_those_of_the_scores(found: DataFrame) -> None:
    scored = {
        row.score.group: (row.score.value, row.score.low, row.score.high, row.score.n)
        for row in score_rows(run_of(PLANTED), PLANTED)
        if row.score.metric == "fpr" and row.score.group.startswith("implicitness [")
    }

    rows = some(found, "fpr", "bin")

    assert [(r.value, r.low, r.high, r.n) for r in rows] == list(scored.values())


def test_a_bin_a_curve_or_a_judge_without_values_says_why() -> None:
    rows = [*constant(1.0), text("x", is_hateful=True, at=1.9, said=1.0)]
    last = some(curves_of(stored(rows)), "tpr", "bin")[-1]
    assert (last.at, last.value, last.n) == (1.75, None, 1)
    assert last.note.startswith("too few")

    rows = curves_of(stored(constant(1.0)))
    [row] = some(rows, "tpr", "logistic")
    assert (row.value, row.note) == (None, "too few")

    assert not len(curves_of(stored(constant(1.0)), "other"))


def by(model: str, rows: DataFrame) -> DataFrame:
    names = rows["signature"].str.replace("small", model)
    return rows.assign(model=model, signature=names)


def drawn(rows: DataFrame) -> Figure:
    return curve_figure(rows, "standin")


def test_columns_and_points_are_those_of_each_bin(found: DataFrame) -> None:
    own = found.assign(data="d1f3+impscore-published@r1")
    bins = drawn(own).panels[0].bins
    assert bins is not None
    assert list(bins.x) == [n * 0.25 for n in range(8)]
    assert sum(bins.n) == sum(row.n for row in some(found, "tpr", "bin")) == 600

    rows = drawn(concat([own, by("other", own)])).panels[0].rows
    places = list(rows[rows.mark == "points"].x)
    assert len(set(places)) == len(places) == 16

    # On the scale of another scorer the paper's bins may hold few texts.
    bins = drawn(found).panels[0].bins
    assert bins is not None
    assert list(bins.x) == [row.at for row in some(found, "tpr", "equal-mass bin")]


FLAT = constant(1.0)


def measured(label: str, rows: Sequence[SampleRecord] = FLAT, source: str = "toy") -> StoredRun:
    return stored(rows, data=DataEntry(source, "released", label, {}))


def written(run: StoredRun) -> StoredRun:
    return StoredRun(run.file, [replace(row, decoding="T0") for row in run.rows])


def limited() -> StoredRun:
    run = stored(FLAT)
    return StoredRun(replace(run.file, run=replace(run.file.run, limit=40)), run.rows)


def served(*snapshots: str) -> StoredRun:
    """A run that these snapshots answered by turns."""
    count = len(snapshots)
    return stored([replace(r, served=snapshots[n % count]) for n, r in enumerate(FLAT)])


def laid(*runs: StoredRun) -> DataFrame:
    return together([curves_of(run) for run in runs])


@pytest.mark.slow
@each(
    ("other", "expected"),
    [
        (written(stored(FLAT)), ["small, logprob", "small, T0"]),
        (measured("e4b7"), ["small, data d1f3", "small, data e4b7"]),
        (measured("e4b7", source="toxigen"), ["small, toy", "small, toxigen"]),
        (limited(), ["small, all samples", "small, 40 samples"]),
        (served("s1"), ["small, a1b2c3d", "small, a1b2c3d+s1"]),
    ],
)
def test_runs_that_differ_are_never_one_series(other: StoredRun, expected: list[str]) -> None:
    rows = laid(stored(FLAT), other)

    assert not rows.duplicated(["signature", "rate", "shape", "at"]).any()
    figure = drawn(rows)
    # Those of one data set share panels, others have panels of their own.
    assert figure.labels == expected or len(figure.panels) == 4


def test_panels_of_two_data_sets_are_named_for_them() -> None:
    rows = laid(stored(FLAT), measured("e4b7", source="toxigen"))
    titles = [panel.title for panel in drawn(rows).panels]

    assert titles[:2] == ["TPR (hits), toy", "FPR (false alarms), toy"]
    assert titles[2:] == ["TPR (hits), toxigen", "FPR (false alarms), toxigen"]


def test_each_snapshot_that_answered_has_bins_of_its_own() -> None:
    rows = laid(served("s1", "s2", "s2", "s1"))

    versions = [Signature.parse(name).version for name in rows["signature"].unique()]
    assert [version.rpartition("+")[2] for version in versions] == ["s1", "s2"]
    counts = [row.n for row in some(rows, "tpr", "bin")]
    assert sum(counts) == 20  # hateful texts, each once


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (measured("d1f3+near@77ab"), "near@77ab, whose scales differ"),
        (measured("d1f3+column"), "the column of data d1f3"),
    ],
)
def test_runs_that_no_picture_can_hold_are_refused(other: StoredRun, told: str) -> None:
    with pytest.raises(StoreError, match=told):
        laid(stored(FLAT), other)


def test_what_differs_in_column_or_task_is_refused() -> None:
    one, other = measured("aa+column"), measured("bb+column")
    assert len(laid(one, written(one)))
    with pytest.raises(StoreError, match="the column of data aa and the column of data bb"):
        laid(one, other)

    run = stored(FLAT)
    other = StoredRun(replace(run.file, run=replace(run.file.run, task="other")), run.rows)
    with pytest.raises(StoreError, match="of tasks other and toy"):
        laid(run, other)


def test_a_run_without_an_answer_has_bins_without_values() -> None:
    rows = laid(stored([text("t", is_hateful=True, at=0.1, said=Reason.FAILED)]))
    assert rows["value"].isna().all()
