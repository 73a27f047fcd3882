"""A run's tables to hit and false alarm rates along implicitness: bins and continuous curves."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from harness.errors import StoreError
from harness.implicitness.open import COLUMN
from harness.lazy import DataFrame, pandas
from harness.pipeline import choice_scores
from harness.pipeline.choice_scores import FALSE_ALARMS, HITS
from harness.pipeline.score import signed_blocks
from harness.pipeline.verdict_frame import ALL, Files, verdict_frame
from harness.specs.tasks import ImplicitnessSpec
from harness.stats.classification import logistic_curve
from harness.stats.estimate import NoValue
from harness.stats.intervals import effective_n, mean_interval
from harness.storage.runs import RunFile

PUBLISHED, EQUAL_MASS = "bin", "equal-mass bin"
PLACES = 41
NAMES = {HITS: "TPR (hits)", FALSE_ALARMS: "FPR (false alarms)"}
COLUMNS: Final = (
    *("task", "model", "variant", "decoding", "judge", "rate", "shape", "at", "to"),
    *("value", "low", "high", "n", "clusters", "effective_n"),
    *("note", "source", "data", "signature"),
)
_NUMBERS = ("at", "to", "value", "low", "high", "effective_n")
Row = dict[str, Any]


def curve_rows(
    file: RunFile, files: Files, judge: str, *, variants: Sequence[str] = ()
) -> DataFrame:
    """Every bin and curve of one run by one judge; of some variants where named.

    A row is a `rate` in one bin, from `at` to `to`, or of one curve at one place, with `to` NaN.
    `n` and `clusters` count the answered texts of its kind. Snapshots have curves of their own.
    """
    spec = file.task.implicitness
    entry = next((one for one in file.judges if one.name == judge), None)
    rows: list[Row] = []
    if spec is not None and entry is not None:
        of_run = {"task": file.run.task, "model": file.model.name, "judge": judge}
        of_run |= {"source": file.data.source, "data": file.data.label, "note": ""}
        verdicts = verdict_frame(files, file.task)
        rows = [
            of_run | way | row
            for name, block in signed_blocks(file, entry, verdicts, has_groups=False)
            if not variants or block.variant in variants
            for way in [{"variant": block.variant, "decoding": block.decoding, "signature": name}]
            for row in _rows(choice_scores.flags(block.verdicts, spec.positive), spec)
        ]
    frame = pandas.DataFrame(rows, columns=[*COLUMNS])
    return frame.astype(dict.fromkeys(_NUMBERS, "float64") | {"n": "int64", "clusters": "int64"})


def together(tables: Sequence[DataFrame]) -> DataFrame:
    """The rows of several runs for one picture, equal ones once; StoreError for two scales."""
    rows = pandas.concat(tables, ignore_index=True).drop_duplicates(ignore_index=True)
    tasks = sorted(rows["task"].unique())
    scales = sorted({scale_of(data) for data in rows["data"].unique()})
    if len(tasks) > 1:
        raise StoreError(f"these runs are of tasks {' and '.join(tasks)}; draw those of one task")
    if len(scales) > 1:
        fact = f"these runs are measured by {' and '.join(scales)}, whose scales differ"
        raise StoreError(f"{fact}; run them again with one --scorer: no answer is asked twice")
    return rows


def scale_of(data: str) -> str:
    """By what the implicitness of some data was measured, by its label in signatures."""
    texts, _, scorer = data.partition("+")
    return f"the column of data {texts}" if scorer == COLUMN else scorer


def _rows(flags: DataFrame, spec: ImplicitnessSpec) -> Iterator[Row]:
    whole, *bins = choice_scores.parts(flags, spec, everything=ALL)
    for rate in choice_scores.RATES:
        for part in bins:
            if (own := choice_scores.of_rate(part, rate)).empty:
                continue
            row = _bin(choice_scores.answered(own))
            if not choice_scores.is_enough(part, own, spec.least):
                note = f"too few: fewer than {spec.least} independent texts"
                row |= {"value": None, "low": None, "high": None, "note": note}
            shape = EQUAL_MASS if part.is_equal_mass else PUBLISHED
            yield row | {"rate": rate, "shape": shape, "at": part.low, "to": part.high}
        measured = choice_scores.answered(choice_scores.of_rate(whole, rate), "at")
        for row in _curves(measured) if len(measured) else ():
            yield row | {"rate": rate}


def _bin(flags: DataFrame) -> Row:
    values, clusters = (flags[name].to_numpy() for name in ("flagged", "cluster"))
    share = mean_interval(values, clusters, is_share=True)
    return {
        **{"value": share.value, "low": share.low, "high": share.high},
        **{"n": share.n, "clusters": share.clusters},
        "effective_n": effective_n(values, clusters),
    }


def _curves(flags: DataFrame) -> Iterator[Row]:
    x, y, names = (flags[name].to_numpy() for name in ("at", "flagged", "cluster"))
    clusters = choice_scores.originals(flags)
    row: Row = {"n": len(flags), "clusters": clusters.clusters}
    row["effective_n"] = effective_n(y, names)
    row["shape"], at = "logistic", np.linspace(x.min(), x.max(), PLACES)
    curve = logistic_curve(x, y, clusters, at)
    if isinstance(curve, NoValue):
        yield row | {"note": str(curve)}
        return
    for point in zip(*(column.tolist() for column in (at, *curve)), strict=True):
        yield row | dict(zip(("at", "value", "low", "high"), point, strict=True))
