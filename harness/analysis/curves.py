"""A run's tables to hit and false alarm rates along implicitness: rows of a frame.

The bins are those of the scores, with those that hold too few texts; a continuous curve, which no
edge of a bin moves, goes with them. Verdicts of one signature make one set of bins and one curve.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from harness.core import Score
from harness.errors import StoreError
from harness.implicitness.open import COLUMN
from harness.lazy import DataFrame, pandas
from harness.parts import digest
from harness.pipeline import choice_scores
from harness.pipeline.choice_scores import FALSE_ALARMS, HITS, SLOPE, SLOPE_P
from harness.pipeline.score import signed_blocks
from harness.pipeline.verdict_frame import ALL, Files, verdict_frame
from harness.specs.tasks import ImplicitnessSpec
from harness.stats.classification import effective_n, logistic_curve
from harness.stats.estimate import NoValue, mean_interval
from harness.storage.runs import RunFile
from harness.storage.signature import short_labels

PUBLISHED, EQUAL_MASS = "bin", "equal-mass bin"
PLACES = 41
NAMES = {HITS: "TPR (hits)", FALSE_ALARMS: "FPR (false alarms)"}
COLUMNS: Final = (
    *("task", "model", "variant", "decoding", "judge", "rate", "shape", "at", "to"),
    *("value", "low", "high", "n", "clusters", "effective_n"),
    *("note", "source", "data", "signature"),
)
_NUMBERS = ("at", "to", "value", "low", "high", "effective_n")
_SURE = 0.05
Row = dict[str, Any]


def curve_rows(
    file: RunFile, files: Files, judge: str, *, variants: Sequence[str] = ()
) -> DataFrame:
    """Every bin and curve of one run by one judge; of some variants where named.

    The columns are COLUMNS. A row is a `rate` in one bin, from `at` to `to`, or of one curve at one
    place, where `to` is NaN. `value`, 0 to 1, is NaN with the reason in `note`; `n` and `clusters`
    count the answered texts of the kind that the rate is of, in the bin or behind the whole curve.
    Each served snapshot that answered has bins and curves, and a `signature`, of its own.
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
    """The rows of several runs for one table and picture, equal ones once.

    StoreError for runs of several tasks, of implicitness on several scales, and for those of one
    signature with different numbers.
    """
    found: dict[str, DataFrame] = {}
    for table in tables:
        for name, members in table.groupby("signature", sort=False):
            own = members.reset_index(drop=True)
            if not found.setdefault(str(name), own).equals(own):
                raise StoreError(
                    f"two of these runs have one signature and other numbers ({name}): nothing "
                    "distinguishes them; draw them one by one"
                )
    rows = pandas.concat(found.values(), ignore_index=True) if found else tables[0]
    if len(tasks := sorted(rows["task"].unique())) > 1:
        raise StoreError(
            f"these runs are of tasks {' and '.join(tasks)}; draw those of one task together"
        )
    if len(scales := sorted({scale_of(data) for data in rows["data"].unique()})) > 1:
        raise StoreError(
            f"these runs are measured by {' and '.join(scales)}, whose scales differ; draw those "
            "of one scale together, or run all of them again with one --scorer: no answer is "
            "asked twice"
        )
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


def curve_name(rows: DataFrame) -> str:
    """The name of the files of some rows: the task, and a digest of the signatures."""
    return f"{rows['task'].iat[0]}-{digest(sorted(rows['signature'].unique()))[:8]}"


def slope_words(scores: Mapping[str, Score]) -> str:
    """Whether hits and false alarms change with implicitness, by one run's overall scores."""
    found = []
    for rate, word in ((HITS, "hits"), (FALSE_ALARMS, "false alarms")):
        slope, tested = (scores.get(name.format(rate)) for name in (SLOPE, SLOPE_P))
        if slope is None or slope.value is None:
            found.append(f"no slope of {word} is known")
            continue
        ends = "" if slope.low is None else f", {slope.low:.2f} to {slope.high:.2f}"
        facts = f"slope {slope.value:.2f} log-odds a unit{ends}"
        if tested is None or tested.value is None:
            found.append(f"{word} have a slope without a test ({facts})")
            continue
        verb = f"{'fall' if slope.value < 0 else 'rise'} with implicitness"
        verb = verb if tested.value < _SURE else "neither rise nor fall beyond chance"
        found.append(f"{word} {verb} ({facts}, p {tested.value:.3f})")
    return "; ".join(found)


def names(rows: DataFrame) -> dict[str, str]:
    """A short label for each signature, for tables and pictures: the model, and what differs."""
    return short_labels(dict(zip(rows["signature"], rows["source"], strict=True)))
