"""Verdicts on labelled texts to charts: curves by bin, confusions, calibration, ROC and precision.

A text without an answer is in no curve and no cell, and is counted in a note.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, nan
from typing import Final

import numpy as np

from harness.analysis.curves import EQUAL_MASS, NAMES, PUBLISHED, CurveRow, names, scale_of
from harness.analysis.figures.chart import Chart, Columns, Plot, Series
from harness.data.choices import LABELS
from harness.errors import StoreError
from harness.judges.gold import LABELLED
from harness.pipeline import choice_scores
from harness.stats.classification import BINS, auc
from harness.stats.estimate import Clusters, Floats, mean_interval
from harness.storage.runs import JudgeEntry, SampleRecord, StoredRun, VerdictRecord

_FORMS: Final = {PUBLISHED: "points", "logistic": "line"}
_MOST_LABELS: Final = 12
_SHARES: Final = (-0.03, 1.03)


def curve_chart(rows: Sequence[CurveRow], *, with_curves: bool = True) -> Chart:
    """Hits and false alarms by implicitness, above columns of how many texts each bin has.

    Bins are points; with curves, also the logistic curve with its band and the isotonic one. Each
    data set has its own panels.
    """
    sets = list(dict.fromkeys(row.data for row in rows))
    sources = {row.data: row.source for row in rows}
    is_told = len(set(sources.values())) == len(sets)
    texts = {data: sources[data] if is_told else f"data {data.partition('+')[0]}" for data in sets}
    plots = [
        _rate_plot(
            [row for row in rows if row.data == data],
            rate,
            f"{NAMES[rate]}, {texts[data]}" if len(sets) > 1 else NAMES[rate],
            with_curves=with_curves,
        )
        for data in sets
        for rate in choice_scores.RATES
    ]
    by = sets[0] if len(sets) == 1 else f"measured by {scale_of(rows[0])}"
    forms = "lines are logistic with their 95% band, dots isotonic" if with_curves else ""
    notes = "; ".join(filter(None, ("points are bins with 95% intervals", forms)))
    return Chart(f"{rows[0].task}: share flagged, by implicitness", tuple(plots), (by, notes))


def _rate_plot(rows: Sequence[CurveRow], rate: str, title: str, *, with_curves: bool) -> Plot:
    drawn = [row for row in rows if with_curves or row.shape == PUBLISHED]
    places = [v for row in drawn for v in (row.at, row.to) if v is not None]
    ends = (min(places, default=0.0), max(places, default=2.0))
    own = [row for row in drawn if row.rate == rate]
    return Plot(
        title,
        "implicitness",
        "share flagged",
        tuple(_of_rate(own, names(rows))),
        ends if ends[0] < ends[1] else (0.0, 2.0),
        _SHARES,
        columns=_texts([row for row in rows if row.rate == rate]),
    )


def _of_rate(rows: Sequence[CurveRow], labels: dict[str, str]) -> Iterator[Series]:
    by_shape: dict[tuple[str, str], list[CurveRow]] = {}
    for row in rows:
        if row.shape and row.shape != EQUAL_MASS:
            by_shape.setdefault((row.signature, row.shape), []).append(row)
    order = list(labels)
    for (name, shape), members in by_shape.items():
        # Side by side within their bin, so that none hides another.
        share = (order.index(name) + 1) / (len(order) + 1)
        is_banded = shape in _FORMS
        yield Series(
            labels[name],
            _FORMS.get(shape, "dashed"),  # type: ignore[arg-type]  # each is a form
            [_place(row, share) for row in members],
            [_drawn(row.value) for row in members],
            # One curve's band is enough; two would hide one another.
            low=[_drawn(row.low) for row in members] if is_banded else [],
            high=[_drawn(row.high) for row in members] if is_banded else [],
            n=[row.n for row in members],
        )


def _place(row: CurveRow, share: float) -> float:
    start = row.at or 0.0
    return start if row.to is None else start + share * (row.to - start)


def _drawn(value: float | None) -> float:
    return nan if value is None else value


def _texts(rows: Sequence[CurveRow]) -> Columns | None:
    """How many answered texts each bin has, at most, over the runs."""
    counts: dict[tuple[float, float], int] = {}
    for row in rows:
        if row.shape == PUBLISHED and row.at is not None and row.to is not None:
            counts[row.at, row.to] = max(counts.get((row.at, row.to), 0), row.n)
    if not counts:
        return None
    bins = sorted(counts)
    ends = [low for low, _ in bins], [high for _, high in bins]
    return Columns(*ends, [counts[place] for place in bins])


@dataclass(frozen=True, slots=True)
class _Held:
    """The readings of one run by its judge under one variant."""

    label: str
    readings: tuple[tuple[SampleRecord, VerdictRecord], ...]
    run: StoredRun

    def with_more(self, what: str) -> "_Held":
        """The same, its label with its data or its digest."""
        file = self.run.file
        more = f"data {file.data.label.partition('+')[0]}" if what == "data" else file.digest[:6]
        return replace(self, label=f"{self.label} ({more})")


def _held(runs: Sequence[StoredRun], judge: str, variants: Sequence[str]) -> list[_Held]:
    found, tasks = [], {run.file.run.task for run in runs if _entry(run, judge)}
    for run in runs:
        entry = _entry(run, judge)
        if entry is None:
            continue
        known = list(dict.fromkeys(row.variant for row in run.rows))
        for variant in known:
            rows = [
                (row, row.verdicts[entry.name])
                for row in run.rows
                if row.variant == variant and entry.name in row.verdicts
            ]
            if rows and (not variants or variant in variants):
                parts = [run.file.run.task] * (len(tasks) > 1) + [run.file.model.name]
                name = ", ".join([*parts, *([variant] if len(known) > 1 else [])])
                found.append(_Held(name, tuple(rows), run))
    if not found:
        raise StoreError(f"nothing to draw: no run was read by judge {judge}; see --judge")
    for more in ("data", "digest"):
        counts = Counter(one.label for one in found)
        found = [one if counts[one.label] == 1 else one.with_more(more) for one in found]
    return found


def _entry(run: StoredRun, judge: str) -> JudgeEntry | None:
    return next((entry for entry in run.file.judges if entry.name == judge), None)


def confusion(runs: Sequence[StoredRun], judge: str, variants: Sequence[str] = ()) -> Chart:
    """True labels against given ones: counts, shaded by their share of the true label.

    A tie counts for each of its labels with its share.
    """
    plots, lost = [], 0
    for held in _held(runs, judge, variants):
        cells, missing = _cells(held)
        lost += missing
        if cells:
            plots.append(_confusion(held.label, cells))
    if not plots:
        raise StoreError("nothing to draw: the choices of these runs have no labels")
    notes = ("numbers are texts, shades their share of the true label",)
    more = (f"{lost} texts without an answer are not counted",) if lost else ()
    return Chart("Given labels by true label", tuple(plots), (*notes, *more))


def _cells(held: _Held) -> tuple[Counter[tuple[str, str]], int]:
    """How often each true label got each given one, and how many texts have no answer."""
    cells, lost = Counter[tuple[str, str]](), 0
    for row, verdict in held.readings:
        labels = row.sample.references.get(LABELS, ())
        if not labels:
            continue
        true = labels[row.sample.choices.index(row.sample.gold or "")]
        given = {
            label: share
            for label in dict.fromkeys(labels)
            if (share := verdict.detail.get(LABELLED[0] + label, 0.0)) > 0
        }
        lost += not given
        for label, share in given.items():
            cells[true, label] += share  # type: ignore[assignment]  # a tie is a share
    return cells, lost


def _confusion(title: str, cells: Counter[tuple[str, str]]) -> Plot:
    labels = sorted({label for pair in cells for label in pair})[:_MOST_LABELS]
    totals = {true: sum(cells[true, given] for given in labels) for true in labels}
    places = [(x, y) for y in range(len(labels)) for x in range(len(labels))]
    counts = [cells[labels[y], labels[x]] for x, y in places]
    series = Series(
        "share",
        "cells",
        [x + 1 for x, _ in places],
        [y + 1 for _, y in places],
        z=[
            counts[at] / totals[labels[y]] if totals[labels[y]] else nan
            for at, (_, y) in enumerate(places)
        ],
        n=[round(totals[labels[y]]) for _, y in places],
        names=[f"{count:g}" if count == round(count) else f"{count:.1f}" for count in counts],
    )
    rows = tuple(f"{label} (n={totals[label]:g})" for label in labels)
    given, true = "given label", "true label"
    return Plot(
        title, given, true, (series,), z_range=(0.0, 1.0), x_names=tuple(labels), y_names=rows
    )


def reliability(runs: Sequence[StoredRun], judge: str, variants: Sequence[str] = ()) -> Chart:
    """How often the likeliest choice is right, by its probability, over ten bins of equal width."""
    series, columns = [], None
    held = _held(runs, judge, variants)
    for one in held:
        sure = [
            (max(v.shares), v.value or 0.0, r.sample.cluster) for r, v in one.readings if v.shares
        ]
        bins: dict[int, list[tuple[float, float, str]]] = {}
        for confidence, credit, cluster in sure:
            bins.setdefault(max(ceil(confidence * BINS), 1) - 1, []).append(
                (confidence, credit, cluster)
            )
        if not bins:
            continue
        series.append(_reliable(one.label, [bins[place] for place in sorted(bins)]))
        if len(held) == 1:
            starts = sorted(bins)
            edges = [at / BINS for at in starts], [(at + 1) / BINS for at in starts]
            columns = Columns(*edges, [len(bins[at]) for at in starts])
    if not series:
        raise StoreError(
            "nothing to draw: these verdicts have no probabilities of the choices; answer by "
            "--answers logprob"
        )
    plot = Plot(
        "",
        "probability of the likeliest choice",
        "share that is right",
        tuple(series),
        _SHARES,
        _SHARES,
        columns=columns,
        has_diagonal=True,
    )
    return Chart("Reliability", (plot,), ("ten bins; 95% intervals; dots: perfectly calibrated",))


def _reliable(label: str, bins: Sequence[Sequence[tuple[float, float, str]]]) -> Series:
    shares = [
        mean_interval([credit for _, credit, _ in own], [c for _, _, c in own], is_share=True)
        for own in bins
    ]
    return Series(
        label,
        "line",
        [float(np.mean([confidence for confidence, _, _ in own])) for own in bins],
        [_drawn(share.value) for share in shares],
        low=[_drawn(share.low) for share in shares],
        high=[_drawn(share.high) for share in shares],
        n=[len(own) for own in bins],
    )


@dataclass(frozen=True, slots=True)
class _Scored:
    """The probability that each text is positive, and whether it is."""

    label: str
    sure: Floats
    is_positive: tuple[bool, ...]
    clusters: tuple[str, ...]


def roc(runs: Sequence[StoredRun], judge: str, variants: Sequence[str] = ()) -> Chart:
    """ROC curves and precision by recall, over every threshold of the probability.

    Positive is what the task calls so, or the class of which it counts what was missed.
    """
    scored = [_scored(one) for one in _held(runs, judge, variants)]
    known = [one for one in scored if one is not None and sum(one.is_positive) > 0]
    known = [one for one in known if sum(one.is_positive) < len(one.is_positive)]
    if not known:
        raise StoreError(
            "nothing to draw: no run has probabilities of positive and of negative texts; answer "
            "by --answers logprob"
        )
    curves = [_threshold_curves(one) for one in known]
    shares = {sum(one.is_positive) / len(one.is_positive) for one in known}
    base = (shares.pop(), "share of positive texts") if len(shares) == 1 else None
    ends = _SHARES
    plots = (
        Plot(
            "ROC", "false alarms (FPR)", "hits (TPR)", tuple(first for first, _ in curves), ends,
            ends, is_square=True, has_diagonal=True,
        ),
        Plot(
            "Precision and recall", "recall", "precision", tuple(second for _, second in curves),
            ends, ends, is_square=True, line=base,
        ),
    )  # fmt: skip
    return Chart("Every threshold", plots, tuple(map(_area, known)) if len(known) <= 6 else ())


def _area(one: _Scored) -> str:
    found = auc(one.sure, one.is_positive, Clusters.named(list(one.clusters)))
    low, high = found.low, found.high
    ends = "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
    return f"{one.label}: AUC {_drawn(found.value):.2f}{ends}, n {len(one.sure)}"


def _scored(held: _Held) -> _Scored | None:
    spec, classes = held.run.file.task.implicitness, held.run.file.task.classes
    positive = spec.positive if spec else classes.missed[:1] if classes else ()
    found = []
    for row, verdict in held.readings:
        labels = row.sample.references.get(LABELS, ())
        sure = [verdict.detail.get(LABELLED[1] + label) for label in positive if label in labels]
        known = [value for value in sure if value is not None]
        if known and len(known) == len(sure):
            gold = labels[row.sample.choices.index(row.sample.gold or "")]
            found.append((sum(known), gold in positive, row.sample.cluster))
    if not found:
        return None
    sure_of, truth, clusters = zip(*found, strict=True)
    return _Scored(held.label, np.array(sure_of), truth, clusters)


def _threshold_curves(one: _Scored) -> tuple[Series, Series]:
    """The points of both curves, one for each different probability, the highest first."""
    order = np.argsort(-one.sure, kind="stable")
    truth, sure = np.array(one.is_positive)[order], one.sure[order]
    last = np.append(np.nonzero(np.diff(sure))[0], len(sure) - 1)
    hits, alarms = np.cumsum(truth)[last], np.cumsum(~truth)[last]
    tpr, fpr = hits / truth.sum(), alarms / (~truth).sum()
    precision, n = hits / (hits + alarms), [len(sure)] * (len(last) + 1)
    first = Series(one.label, "line", [0.0, *fpr.tolist()], [0.0, *tpr.tolist()], n=n)
    second = Series(one.label, "line", tpr.tolist(), precision.tolist(), n=n[1:])
    return first, second
