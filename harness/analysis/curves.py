"""Stored runs to hit and false alarm rates along implicitness: rows of a table.

The bins are those of the scores, with those that hold too few texts; continuous curves, which no
edge of a bin moves, go with them. Verdicts of one signature make one set of bins and curves.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.errors import StoreError
from harness.implicitness.open import COLUMN
from harness.parts import digest
from harness.pipeline.columns import choice_scores
from harness.pipeline.columns.choice_scores import SLOPE, SLOPE_P, Answers, EarlierPart
from harness.pipeline.columns.readings import Readings
from harness.pipeline.columns.run import RunColumns
from harness.pipeline.columns.score import ALL, blocks, by_snapshot, signature
from harness.specs.tasks import ImplicitnessSpec
from harness.stats.classification import effective_n, isotonic_curve, logistic_curve
from harness.stats.estimate import Indices, NoValue, mean_interval
from harness.storage.runs import JudgeEntry, RunFile, ScoreRow, StoredRun
from harness.storage.signature import short_labels

PUBLISHED, EQUAL_MASS = "bin", "equal-mass bin"
PLACES = 41
TOO_FEW = "too few"
_SURE, _FALSE = 0.05, "false alarms"
NAMES = {choice_scores.HITS: "TPR (hits)", choice_scores.FALSE_ALARMS: "FPR (false alarms)"}


@dataclass(frozen=True, slots=True)
class CurveRow:
    """A rate in one bin, from `at` to `to`, or of one curve at one place, where `to` is None.

    `value`, 0 to 1, is None with the reason in `note`; `n` and `clusters` count the answered texts
    of the kind that the rate is of, in the bin or behind the whole curve. `signature` is the
    recipe in one line, as in the tables of scores; each has its own bins and curves.
    """

    task: str
    model: str
    variant: str
    decoding: str
    judge: str
    rate: str = ""
    shape: str = ""
    at: float | None = None
    to: float | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    clusters: int = 0
    effective_n: float | None = None
    note: str = ""
    source: str = ""
    data: str = ""
    signature: str = ""


def curve_rows(run: StoredRun, judge: str, *, variants: Sequence[str] = ()) -> list[CurveRow]:
    """Every bin and curve of one run by one judge; of some variants where named.

    Where several served snapshots answered, each has bins and curves of its own.
    """
    entry = next((entry for entry in run.file.judges if entry.name == judge), None)
    if run.file.task.implicitness is None or entry is None:
        return []
    columns = RunColumns.of(run.file.task, run.rows)
    rows = curve_rows_of(run.file, columns, entry)
    return [row for row in rows if not variants or row.variant in variants]


def curve_rows_of(file: RunFile, columns: RunColumns, judge: JudgeEntry) -> list[CurveRow]:
    """Every bin and curve of one run by one judge, from the run's columns."""
    if (spec := file.task.implicitness) is None:
        return []
    return [
        row
        for blank, readings in _blocks(file, columns, judge)
        for row in _rows(blank, choice_scores.answered(readings, spec.positive), spec)
    ]


def together(tables: Sequence[Sequence[CurveRow]]) -> list[CurveRow]:
    """The rows of several runs for one table and picture, equal ones once.

    StoreError for runs of several tasks, of implicitness on several scales, and for those of one
    signature with different numbers.
    """
    by_signature: dict[str, list[CurveRow]] = {}
    for table in tables:
        for name in dict.fromkeys(row.signature for row in table):
            members = [row for row in table if row.signature == name]
            if by_signature.setdefault(name, members) != members:
                raise StoreError(
                    f"two of these runs have one signature and other numbers ({name}): nothing "
                    "distinguishes them; draw them one by one"
                )
    rows = [row for members in by_signature.values() for row in members]
    if len(tasks := sorted({row.task for row in rows})) > 1:
        raise StoreError(
            f"these runs are of tasks {' and '.join(tasks)}; draw those of one task together"
        )
    if len(scales := sorted({scale_of(row) for row in rows})) > 1:
        raise StoreError(
            f"these runs are measured by {' and '.join(scales)}, whose scales differ; draw those "
            "of one scale together, or run all of them again with one --scorer: no answer is "
            "asked twice"
        )
    return rows


def scale_of(row: CurveRow) -> str:
    """By what the implicitness of a row was measured, for messages and pictures."""
    texts, _, scorer = row.data.partition("+")
    return f"the column of data {texts}" if scorer == COLUMN else scorer


def _blocks(
    file: RunFile, columns: RunColumns, judge: JudgeEntry
) -> Iterator[tuple[CurveRow, Readings]]:
    for snapshots, readings in by_snapshot(columns, judge):
        for block in blocks(readings, file.task):
            if block.group == ALL:
                labels = {"variant": block.variant, "decoding": block.decoding}
                blank = CurveRow(
                    task=file.run.task,
                    model=file.model.name,
                    variant=block.variant,
                    decoding=block.decoding,
                    judge=judge.name,
                    source=file.data.source,
                    data=file.data.label,
                    signature=signature(file, judge, **labels, snapshots=snapshots),
                )
                yield blank, block.readings


def _rows(blank: CurveRow, answers: Answers, spec: ImplicitnessSpec) -> Iterator[CurveRow]:
    whole, *bins = choice_scores.parts(answers, spec, everything=ALL)
    for rate in choice_scores.RATES:
        of_rate, is_hits = replace(blank, rate=rate), rate == choice_scores.HITS
        for part in bins:
            if len(places := choice_scores.kind(part, answers, is_positive=is_hits)):
                is_enough = choice_scores.is_enough(part, places, answers, spec.least)
                note = f"{TOO_FEW}: fewer than {spec.least} independent texts"
                row = _bin(of_rate, part, places, answers)
                lost = replace(row, value=None, low=None, high=None, note=note)
                yield row if is_enough else lost
        places = choice_scores.kind(whole, answers, is_positive=is_hits)
        yield from _curves(of_rate, choice_scores.with_both(places, answers), answers)


def _bin(blank: CurveRow, part: EarlierPart, places: Indices, answers: Answers) -> CurveRow:
    counted = places[answers.is_known[places]]
    values, clusters = answers.flagged[counted], answers.cluster[counted]
    share = mean_interval(values, clusters, is_share=True)
    return replace(
        blank,
        shape=EQUAL_MASS if part.is_equal_mass else PUBLISHED,
        at=part.low,
        to=part.high,
        value=share.value,
        low=share.low,
        high=share.high,
        n=share.n,
        clusters=share.clusters,
        effective_n=effective_n(values, clusters),
    )


def _curves(blank: CurveRow, places: Indices, answers: Answers) -> Iterator[CurveRow]:
    if not len(places):
        return
    x, y = answers.at[places], answers.flagged[places]
    clusters = choice_scores.originals(places, answers)
    size = effective_n(y, answers.cluster[places])
    blank = replace(blank, n=len(places), clusters=clusters.clusters, effective_n=size)
    for name, fit in (("logistic", logistic_curve), ("isotonic", isotonic_curve)):
        curve = fit(x, y, clusters, np.linspace(x.min(), x.max(), PLACES))
        if isinstance(curve, NoValue):
            yield replace(blank, shape=name, note=str(curve))
            continue
        columns = (curve.at, curve.value, curve.low, curve.high)
        for at, value, *band in zip(*(column.tolist() for column in columns), strict=True):
            low, high = (None if np.isnan(end) else end for end in band)
            yield replace(blank, shape=curve.kind, at=at, value=value, low=low, high=high)


def curve_name(rows: Sequence[CurveRow]) -> str:
    """The name of the files of some rows: the task, and a digest of the signatures."""
    return f"{rows[0].task}-{digest(sorted({row.signature for row in rows}))[:8]}"


def slope_words(scores: Mapping[str, ScoreRow]) -> str:
    """Whether hits and false alarms change with implicitness, by the overall scores of one run."""
    return "; ".join(
        _slope_words(word, *(scores.get(name.format(rate)) for name in (SLOPE, SLOPE_P)))
        for rate, word in ((choice_scores.HITS, "hits"), (choice_scores.FALSE_ALARMS, _FALSE))
    )


def _slope_words(word: str, slope: ScoreRow | None, tested: ScoreRow | None) -> str:
    if slope is None or (value := slope.score.value) is None:
        return f"no slope of {word} is known"
    p = tested.score.value if tested else None
    ends = slope.score.low, slope.score.high
    shown = "" if None in ends else f", {ends[0]:.2f} to {ends[1]:.2f}"
    facts = f"slope {value:.2f} log-odds a unit{shown}"
    if p is None:
        return f"{word} have a slope without a test ({facts})"
    verb = "fall" if value < 0 else "rise"
    said = f"{verb} with implicitness" if p < _SURE else "neither rise nor fall beyond chance"
    return f"{word} {said} ({facts}, p {p:.3f})"


def names(rows: Sequence[CurveRow]) -> dict[str, str]:
    """A short label for each signature, for tables and pictures: the model, and what differs."""
    return short_labels({row.signature: row.source for row in rows})
