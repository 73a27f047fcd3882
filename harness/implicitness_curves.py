"""Stored runs to hits and false alarms along implicitness: rows of a table, and a picture.

Bins are those of the scores, with those told of that hold too few texts; beside them stand
continuous curves, which no edge of a bin moves. Pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from harness import detection_scores as detection
from harness.detection_scores import Answered, Part
from harness.panels import StoredRun
from harness.parts import digest
from harness.pictures import Plot, Series, svg
from harness.scores import csv_line
from harness.scoring import ALL, Block, Reading, blocks
from harness.specs.tasks import ImplicitnessSpec
from harness.stats.detection import (
    Curve,
    effective_n,
    isotonic_curve,
    logistic_curve,
)
from harness.stats.estimate import Gap
from harness.stats.intervals import mean_interval

PUBLISHED, EQUAL_MASS = "bin", "equal-mass bin"
PLACES = 41
TOO_FEW = "too few"
_NAMES = {detection.HITS: "TPR (hits)", detection.FALSE_ALARMS: "FPR (false alarms)"}


@dataclass(frozen=True, slots=True)
class CurveRow:
    """A rate in one bin, from `at` to `to`, or of one curve at one place, where `to` is null.

    `value` is null with the reason in `note`; `n` and `clusters` count the answered texts of the
    kind that the rate is of, in the bin or behind the whole curve.
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
    data: str


COLUMNS = tuple(field.name for field in fields(CurveRow))


def curve_rows(
    run: StoredRun, judge: str, *, variants: Sequence[str] = (), seed: str = "0"
) -> list[CurveRow]:
    """Every bin and curve of one run as a judge has read it; of some variants where named."""
    spec = run.file.task.implicitness
    readings = [Reading(row, row.verdicts[judge]) for row in run.rows if judge in row.verdicts]
    if spec is None or not readings:
        return []
    found: list[CurveRow] = []
    for block in blocks(readings, run.file.task):
        if block.group == ALL and (not variants or block.variant in variants):
            held = detection.answered(block.pairs, spec)
            found += _rows(_Told(run, judge, block), held, spec, seed=seed)
    return found


@dataclass(frozen=True, slots=True)
class _Told:
    """What all rows of one block say alike."""

    run: StoredRun
    judge: str
    block: Block

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
        file, (n, clusters, size) = self.run.file, behind
        return CurveRow(
            task=file.run.task,
            model=file.model.name,
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
            data=file.data.label,
        )


def _rows(
    told: _Told, held: Sequence[Answered], spec: ImplicitnessSpec, *, seed: str
) -> Iterator[CurveRow]:
    whole, *bins = detection.parts(held, spec, everything=ALL)
    for rate in detection.RATES:
        for part in bins:
            places = detection.kind(part, held, is_positive=rate == detection.HITS)
            if places:
                yield _bin(told, rate, part, held, spec, seed=seed)
        places = detection.kind(whole, held, is_positive=rate == detection.HITS)
        yield from _curves(told, rate, detection.with_both(places, held), held, seed=seed)


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
    places = detection.kind(part, held, is_positive=rate == detection.HITS)
    counted = [held[at] for at in places if held[at].flagged is not None]
    values, clusters = [one.flagged or 0.0 for one in counted], [one.cluster for one in counted]
    found = mean_interval(values, clusters, seed=seed)
    is_enough = detection.is_enough(part, places, held, spec.least)
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
    x, y = detection.xy(places, held)
    drawn = detection.resamples(places, held, seed=seed)
    at = np.linspace(x.min(), x.max(), PLACES)
    size = effective_n(y.tolist(), [held[place].cluster for place in places])
    behind = (len(places), drawn.clusters, size)
    for name, fit in (("logistic", logistic_curve), ("isotonic", isotonic_curve)):
        found = fit(x, y, drawn, at)
        if isinstance(found, Gap):
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


def scales(rows: Sequence[CurveRow]) -> list[str]:
    """What the implicitness of some rows was measured by: scales of scorers differ."""
    return sorted({row.data.partition("+")[2] for row in rows})


def curve_text(rows: Sequence[CurveRow]) -> str:
    """The rows as CSV."""
    lines = [[getattr(row, name) for name in COLUMNS] for row in rows]
    return "".join(map(csv_line, [COLUMNS, *lines]))


def curve_name(rows: Sequence[CurveRow]) -> str:
    """What the files of some rows are called: the task, and a digest of what they are of."""
    told = sorted({(r.task, r.model, r.variant, r.decoding, r.judge, r.data) for r in rows})
    return f"{rows[0].task}-{digest(told)[:8]}"


def picture(rows: Sequence[CurveRow]) -> str:
    """Hits and false alarms side by side: published bins as points, curves as lines, as SVG."""
    places = [v for row in rows for v in (row.at, row.to) if v is not None]
    x_range = (min(places, default=0.0), max(places, default=2.0))
    plots = [
        Plot(
            _NAMES[rate],
            "implicitness",
            "share flagged",
            tuple(_series([row for row in rows if row.rate == rate])),
            x_range if x_range[0] < x_range[1] else (0.0, 2.0),
            (0.0, 1.0),
        )
        for rate in detection.RATES
    ]
    data = ", ".join(sorted({row.data for row in rows}))
    return svg(plots, title=f"{rows[0].task}, data {data}: points are bins, dashes isotonic")


def _series(rows: Sequence[CurveRow]) -> Iterator[Series]:
    """What is drawn of one rate: for each model and variant its bins and its curves."""
    named: dict[tuple[str, str], list[CurveRow]] = {}
    several = len({row.variant for row in rows}) > 1
    for row in rows:
        label = f"{row.model}, {row.variant}" if several else row.model
        if row.value is not None and row.shape != EQUAL_MASS:
            named.setdefault((label, row.shape), []).append(row)
    for (label, shape), members in named.items():
        form = {PUBLISHED: "points", "logistic": "line"}.get(shape, "dashed")
        yield Series(
            label,
            form,  # type: ignore[arg-type]  # one of the forms above
            [
                (row.at or 0.0) if row.to is None else ((row.at or 0.0) + row.to) / 2
                for row in members
            ],
            [_drawn(row.value) for row in members],
            # The band of one curve is enough; two would hide one another.
            [] if form == "dashed" else [_drawn(row.low) for row in members],
            [] if form == "dashed" else [_drawn(row.high) for row in members],
        )


def _drawn(value: float | None) -> float:
    return float("nan") if value is None else value
