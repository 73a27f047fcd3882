"""Stored runs to hits and false alarms along implicitness: rows of a table, and a picture.

Bins are those of the scores, with those told of that hold too few texts; beside them stand
continuous curves, which no edge of a bin moves. Readings of one signature make one set of bins
and curves; no other reading joins them. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from harness.analysis.panels import StoredRun
from harness.analysis.plots import Plot, Series, svg
from harness.errors import StoreError
from harness.implicitness.bins import COLUMN
from harness.parts import digest
from harness.pipeline import detection_scores
from harness.pipeline.detection_scores import Answered, Part
from harness.pipeline.score import ALL, ScoreBlock, blocks, by_snapshot, signature
from harness.specs.tasks import ImplicitnessSpec
from harness.stats.detection import Curve, effective_n, isotonic_curve, logistic_curve
from harness.stats.estimate import NoValue
from harness.stats.intervals import mean_interval
from harness.storage.csv import csv_line
from harness.storage.runs import JudgeEntry, RunFile
from harness.storage.signature import short_labels

PUBLISHED, EQUAL_MASS = "bin", "equal-mass bin"
PLACES = 41
TOO_FEW = "too few"
_NAMES = {detection_scores.HITS: "TPR (hits)", detection_scores.FALSE_ALARMS: "FPR (false alarms)"}


@dataclass(frozen=True, slots=True)
class CurveRow:
    """A rate in one bin, from `at` to `to`, or of one curve at one place, where `to` is null.

    `value` is null with the reason in `note`; `n` and `clusters` count the answered texts of the
    kind that the rate is of, in the bin or behind the whole curve. `signature` is the recipe of
    the readings in one line, as in the tables of scores, and tells sets of rows apart.
    """

    task: str
    model: str
    variant: str
    decoding: str
    judge: str
    rate: str
    shape: str
    at: float | None
    to: float | None
    value: float | None
    low: float | None
    high: float | None
    n: int
    clusters: int
    effective_n: float | None
    note: str
    source: str
    data: str
    signature: str


COLUMNS = tuple(field.name for field in fields(CurveRow))


def curve_rows(
    run: StoredRun, judge: str, *, variants: Sequence[str] = (), seed: str = "0"
) -> list[CurveRow]:
    """Every bin and curve of one run as a judge has read it; of some variants where named.

    Where several served snapshots answered, each has bins and curves of its own.
    """
    spec = run.file.task.implicitness
    entry = next((entry for entry in run.file.judges if entry.name == judge), None)
    if spec is None or entry is None:
        return []
    return [
        row
        for told in _blocks(run, entry)
        if not variants or told.block.variant in variants
        for row in _rows(told, detection_scores.answered(told.block.pairs, spec), spec, seed=seed)
    ]


def together(tables: Sequence[Sequence[CurveRow]]) -> list[CurveRow]:
    """The rows of several runs, to lie in one table and picture; what is told twice stands once.

    Refuses runs of several tasks, of implicitness on several scales, and those that only their
    numbers tell apart.
    """
    found: dict[str, list[CurveRow]] = {}
    for table in tables:
        for name in dict.fromkeys(row.signature for row in table):
            members = [row for row in table if row.signature == name]
            if found.setdefault(name, members) != members:
                raise StoreError(
                    f"two of these runs have one signature and other numbers ({name}): nothing "
                    "tells them apart; draw them one by one"
                )
    rows = [row for members in found.values() for row in members]
    if len(tasks := sorted({row.task for row in rows})) > 1:
        raise StoreError(
            f"these runs are of tasks {' and '.join(tasks)}; draw those of one task together"
        )
    if len(scales := sorted({_scale(row) for row in rows})) > 1:
        raise StoreError(
            f"these runs are measured by {' and '.join(scales)}, whose scales differ; draw those "
            "of one scale together, or run all of them again with one --scorer: no answer is "
            "asked twice"
        )
    return rows


def _scale(row: CurveRow) -> str:
    """What implicitness was measured by; a column says nothing of another table's column."""
    texts, _, scorer = row.data.partition("+")
    return f"the column of data {texts}" if scorer == COLUMN else scorer


@dataclass(frozen=True, slots=True)
class _Told:
    """What all rows of one block say alike."""

    file: RunFile
    judge: str
    block: ScoreBlock
    signature: str

    def row(
        self,
        rate: str,
        shape: str,
        *,
        edges: tuple[float | None, float | None],
        values: tuple[float | None, float | None, float | None],
        behind: tuple[int, int, float | None],
        note: str = "",
    ) -> CurveRow:
        """One row: its edges or place, its value with its interval, and what is behind it."""
        n, clusters, size = behind
        return CurveRow(
            task=self.file.run.task,
            model=self.file.model.name,
            variant=self.block.variant,
            decoding=self.block.decoding,
            judge=self.judge,
            rate=rate,
            shape=shape,
            at=edges[0],
            to=edges[1],
            value=values[0],
            low=values[1],
            high=values[2],
            n=n,
            clusters=clusters,
            effective_n=size,
            note=note,
            source=self.file.data.source,
            data=self.file.data.label,
            signature=self.signature,
        )


def _blocks(run: StoredRun, judge: JudgeEntry) -> Iterator[_Told]:
    """The readings of each variant, decoding and pair of snapshots."""
    for snapshots, readings in by_snapshot(run.rows, judge):
        for block in blocks(readings, run.file.task):
            if block.group == ALL:
                ways = {"variant": block.variant, "decoding": block.decoding}
                recipe = signature(run.file, judge, **ways, snapshots=snapshots)
                yield _Told(run.file, judge.name, block, recipe)


def _rows(
    told: _Told, held: Sequence[Answered], spec: ImplicitnessSpec, *, seed: str
) -> Iterator[CurveRow]:
    whole, *bins = detection_scores.parts(held, spec, everything=ALL)
    for rate in detection_scores.RATES:
        for part in bins:
            places = detection_scores.kind(part, held, is_positive=rate == detection_scores.HITS)
            if places:
                yield _bin(told, rate, part, held, spec, seed=seed)
        places = detection_scores.kind(whole, held, is_positive=rate == detection_scores.HITS)
        yield from _curves(told, rate, detection_scores.with_both(places, held), held, seed=seed)


def _bin(
    told: _Told,
    rate: str,
    part: Part,
    held: Sequence[Answered],
    spec: ImplicitnessSpec,
    *,
    seed: str,
) -> CurveRow:
    """The rate of one bin; without a value where it holds too few texts."""
    places = detection_scores.kind(part, held, is_positive=rate == detection_scores.HITS)
    counted = [held[at] for at in places if held[at].flagged is not None]
    values, clusters = [one.flagged or 0.0 for one in counted], [one.cluster for one in counted]
    found = mean_interval(values, clusters, seed=seed)
    is_enough = detection_scores.is_enough(part, places, held, spec.least)
    return told.row(
        rate,
        EQUAL_MASS if part.is_equal_mass else PUBLISHED,
        edges=(part.low, part.high),
        values=(found.value, found.low, found.high) if is_enough else (None, None, None),
        behind=(found.n, found.clusters, effective_n(values, clusters)),
        note="" if is_enough else f"{TOO_FEW}: fewer than {spec.least} independent texts",
    )


def _curves(
    told: _Told, rate: str, places: Sequence[int], held: Sequence[Answered], *, seed: str
) -> Iterator[CurveRow]:
    """The logistic and the isotonic curve of one rate, or why there is none."""
    if not places:
        return
    x, y = detection_scores.xy(places, held)
    drawn = detection_scores.resamples(places, held, seed=seed)
    at = np.linspace(x.min(), x.max(), PLACES)
    size = effective_n(y.tolist(), [held[place].cluster for place in places])
    behind = (len(places), drawn.clusters, size)
    for name, fit in (("logistic", logistic_curve), ("isotonic", isotonic_curve)):
        found = fit(x, y, drawn, at)
        if isinstance(found, NoValue):
            nothing = (None, None, None)
            yield told.row(
                rate, name, edges=(None, None), values=nothing, behind=behind, note=str(found)
            )
            continue
        for place in range(PLACES):
            values = (float(found.value[place]), *_band(found, place))
            edges = (float(at[place]), None)
            yield told.row(rate, found.kind, edges=edges, values=values, behind=behind)


def _band(found: Curve, place: int) -> tuple[float | None, float | None]:
    low, high = float(found.low[place]), float(found.high[place])
    return (None, None) if np.isnan(low) else (low, high)


def curve_text(rows: Sequence[CurveRow]) -> str:
    """The rows as CSV."""
    lines = [[getattr(row, name) for name in COLUMNS] for row in rows]
    return "".join(map(csv_line, [COLUMNS, *lines]))


def curve_name(rows: Sequence[CurveRow]) -> str:
    """What the files of some rows are called: the task, and a digest of what they are of."""
    return f"{rows[0].task}-{digest(sorted({row.signature for row in rows}))[:8]}"


def names(rows: Sequence[CurveRow]) -> dict[str, str]:
    """What tables and pictures call the rows of each signature: the model, and what differs."""
    return short_labels({row.signature: row.source for row in rows})


def picture(rows: Sequence[CurveRow]) -> str:
    """Hits and false alarms side by side: published bins as points, curves as lines, as SVG."""
    called = names(rows)
    places = [v for row in rows for v in (row.at, row.to) if v is not None]
    x_range = (min(places, default=0.0), max(places, default=2.0))
    plots = [
        Plot(
            _NAMES[rate],
            "implicitness",
            "share flagged",
            tuple(_series([row for row in rows if row.rate == rate], called)),
            x_range if x_range[0] < x_range[1] else (0.0, 2.0),
            (0.0, 1.0),
        )
        for rate in detection_scores.RATES
    ]
    by = ", ".join(sorted({row.data for row in rows}))
    if len({row.data for row in rows}) > 1:
        by = f"measured by {_scale(rows[0])}"
    forms = "points are bins, the line is logistic with its 95% band, dashes are isotonic"
    return svg(plots, title=f"{rows[0].task}, {by}: {forms}")


def _series(rows: Sequence[CurveRow], called: Mapping[str, str]) -> Iterator[Series]:
    """What is drawn of one rate: for each signature its bins and its curves."""
    found: dict[tuple[str, str], list[CurveRow]] = {}
    for row in rows:
        if row.value is not None and row.shape != EQUAL_MASS:
            found.setdefault((row.signature, row.shape), []).append(row)
    order = list(called)
    for (name, shape), members in found.items():
        form = {PUBLISHED: "points", "logistic": "line"}.get(shape, "dashed")
        # Side by side within their bin, so that none hides another.
        share = (order.index(name) + 1) / (len(order) + 1)
        yield Series(
            called[name],
            form,  # type: ignore[arg-type]  # one of the forms above
            [_place(row, share) for row in members],
            [_drawn(row.value) for row in members],
            # The band of one curve is enough; two would hide one another.
            [] if form == "dashed" else [_drawn(row.low) for row in members],
            [] if form == "dashed" else [_drawn(row.high) for row in members],
        )


def _place(row: CurveRow, share: float) -> float:
    """Where a row stands: at its place, or so far into its bin."""
    start = row.at or 0.0
    return start if row.to is None else start + share * (row.to - start)


def _drawn(value: float | None) -> float:
    return float("nan") if value is None else value
