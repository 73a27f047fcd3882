"""Answers to classification metrics: of classes, of bins and curves along a number, and AUC.

Rows are answers: 1 for chosen or flagged, 0 for not, a share for a tie. A quotient without a
divisor has no value and is never 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum, sqrt

import numpy as np

from harness.stats.estimate import (
    LEAST_CLUSTERS,
    Bools,
    Clusters,
    Estimate,
    Floats,
    Indices,
    Names,
    NoValue,
    cluster_interval,
    clustered_share,
    ratio,
)
from harness.stats.scales import exact_total, student_p, student_t


@dataclass(frozen=True, slots=True)
class ClassMetrics:
    """Precision, recall and F1 of one class, 0 to 1; `n` counts the rows of the divisor."""

    precision: Estimate
    recall: Estimate
    f1: Estimate


def classification_metrics(
    actual: Floats, chosen: Floats, clusters: Clusters
) -> tuple[tuple[ClassMetrics, ...], Estimate]:
    """The metrics of each class, and the mean F1 of the classes that have one.

    Of rows x classes: the shares `chosen`, and 1 where a class is the right one. F1 is 2 hits /
    (chosen + actual), 0 where precision or recall is 0 or has no value (van Rijsbergen 1979). None:
    "too few" without a divisor. Precision and recall have the interval of a share, F1 and its mean
    that of `cluster_interval` with the jackknife's error.
    """
    hits, either = actual * chosen, chosen + actual
    f1 = ratio(2 * hits.sum(axis=0), either.sum(axis=0))
    lost = clusters.totals(hits), clusters.totals(either)
    without = ratio(2 * (hits.sum(axis=0) - lost[0]), either.sum(axis=0) - lost[1])
    there = lost[1] > 0
    classes = tuple(
        ClassMetrics(
            precision=_share(hits[:, at], chosen[:, at], clusters),
            recall=_share(hits[:, at], actual[:, at], clusters),
            f1=_score(f1[at], int((either[:, at] > 0).sum()), without[there[:, at], at]),
        )
        for at in range(actual.shape[1])
    )
    macro, others = _means(f1[None, :])[0], _means(without)[there.any(axis=1)]
    return classes, _score(macro, len(actual), others)


def _means(rows: Floats) -> Floats:
    """The mean of the numbers of each row that are not NaN."""
    return ratio(np.nan_to_num(rows).sum(axis=1), (~np.isnan(rows)).sum(axis=1))


def _share(hits: Floats, sizes: Floats, clusters: Clusters) -> Estimate:
    """The share of hits among rows that each count as much as their size."""
    there = sizes > 0
    hits, sizes, n = hits[there], sizes[there], int(there.sum())
    if not n:
        return Estimate.missing(NoValue.TOO_FEW, n=0)
    own = Clusters.named(clusters.places[there])
    estimate = Estimate(float(ratio(hits.sum(), sizes.sum())), n)
    return clustered_share(estimate, own.totals(hits), own.totals(sizes))


def _score(value: float, n: int, without: Floats) -> Estimate:
    """A value and, from its values without each cluster, the jackknife's error of it."""
    if np.isnan(value):
        return Estimate.missing(NoValue.TOO_FEW, n=n)
    estimate, known = Estimate(float(value), n), without[~np.isnan(without)]
    parts = (known.mean() - known) * (1 - 1 / len(known)) if len(known) else known
    return cluster_interval(estimate, parts, is_share=True)


def one_hot(places: Sequence[int] | Indices, count: int) -> Floats:
    """Rows x classes, 1 at each row's place."""
    rows = np.zeros((len(places), count))
    rows[np.arange(len(places)), np.asarray(places, dtype=np.intp)] = 1.0
    return rows


_BINS = 10


def calibration_error(
    confidences: Sequence[float] | Floats, credits: Sequence[float] | Floats
) -> float | None:
    """The expected calibration error over ten bins of equal width (Guo et al. 2017, eq. 3); 0 to 1.

    A confidence on a border belongs to the lower bin. None without any choice.
    """
    if len(confidences) != len(credits):
        raise ValueError(f"{len(confidences)} confidences for {len(credits)} credits")
    sure = np.asarray(confidences, dtype=np.float64)
    if len(bad := np.nonzero(~((sure >= 0) & (sure <= 1)))[0]):
        raise ValueError(f"a confidence lies between 0 and 1, not at {float(sure[bad[0]])}")
    if not len(sure):
        return None
    bins = np.maximum(np.ceil(sure * _BINS), 1)
    gaps = sure - np.asarray(credits, dtype=np.float64)
    # Summed exactly, so that the order of the choices changes no digit.
    return fsum(abs(exact_total(gaps[bins == at])) for at in range(1, _BINS + 1)) / len(sure)


_STEPS, _TOLERANCE, _STEEPEST = 40, 1e-9, 25.0
_LEAST = 3  # rows a line of two numbers is fitted to
_LEFT = 1e-9  # a cluster that leaves less to the others decides alone, and has no residual


def line(x: Floats, y: Floats) -> tuple[float, float] | NoValue:
    """Intercept and slope of a logistic regression; "degenerate" where x separates y."""
    if len(x) < _LEAST:
        return NoValue.TOO_FEW
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return NoValue.CONSTANT
    middle, spread = x.mean(), x.std() or 1.0
    z = (x - middle) / spread
    a = b = 0.0
    for _ in range(_STEPS):
        shares = shares_of(a + b * z)
        excess, weights = y - shares, shares * (1 - shares)
        score_a, score_b = excess.sum(), _product(excess, z)
        aa, ab, bb = weights.sum(), _product(weights, z), _product(weights, z * z)
        if not (area := aa * bb - ab * ab) > 1e-12:
            break
        step_a, step_b = (bb * score_a - ab * score_b) / area, (aa * score_b - ab * score_a) / area
        a, b = a + step_a, b + step_b
        if not (abs(a) < _STEEPEST and abs(b) < _STEEPEST):  # it only grows steeper, without end
            break
        if max(abs(step_a), abs(step_b)) <= _TOLERANCE:
            return float(a - b * middle / spread), float(b / spread)
    return NoValue.DEGENERATE


def _product(one: Floats, other: Floats) -> float:
    # Not `@`: how that rounds hangs on the processor.
    return float(np.einsum("ij,j->i", one[None], other)[0])


def shares_of(odds: Floats) -> Floats:
    """Log-odds to shares, without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(odds / 2)), dtype=np.float64)


def trend(x: Floats, y: Floats, clusters: Clusters) -> Estimate:
    """The slope of a share against x in log-odds a unit, its interval, and the test of no slope.

    Interval and test are Wald's with a variance robust to clusters, corrected for few of them (CR2:
    Bell & McCaffrey 2002; Pustejovsky & Tipton 2018), and Student's t of two degrees less than
    clusters. None: as for `line`; interval and test alone "too few" below three clusters.
    """
    fitted, n, count = line(x, y), len(x), clusters.clusters
    if isinstance(fitted, NoValue):
        return Estimate.missing(fitted, n)
    slope, error = fitted[1], sqrt(_variance(x, y, fitted, clusters)[1, 1])
    estimate = Estimate(slope, n)
    if count < LEAST_CLUSTERS or error == 0:
        why = NoValue.TOO_FEW if count < LEAST_CLUSTERS else NoValue.DEGENERATE
        return estimate.unbounded(why, clusters=count)
    reach, t = student_t(count - 2) * error, slope / error
    found = estimate.between(slope - reach, slope + reach, clusters=count)
    return replace(found, statistic=t, p=student_p(t, count - 2))


def logistic_curve(
    x: Floats, y: Floats, clusters: Clusters, at: Floats
) -> tuple[Floats, Floats, Floats] | NoValue:
    """The logistic curve of a share at some places, and the ends of its 95% band.

    Wald's in log-odds, as of `trend`; NaN below three clusters. None: as for `line`.
    """
    fitted = line(x, y)
    if isinstance(fitted, NoValue):
        return fitted
    reach = np.full(len(at), np.nan)
    if clusters.clusters >= LEAST_CLUSTERS:
        rows = np.column_stack([np.ones(len(at)), at])
        variance = np.einsum("pi,ij,pj->p", rows, _variance(x, y, fitted, clusters), rows)
        reach = student_t(clusters.clusters - 2) * np.sqrt(np.maximum(variance, 0))
    odds = fitted[0] + fitted[1] * at
    return shares_of(odds), shares_of(odds - reach), shares_of(odds + reach)


def _variance(x: Floats, y: Floats, fitted: tuple[float, float], clusters: Clusters) -> Floats:
    """CR2, 2 x 2: each cluster's score over the root of what it leaves to the others."""
    shares = shares_of(fitted[0] + fitted[1] * x)
    # About the mean, so that no digits are lost where x is far from 0.
    middle, weights = float(x.mean()), shares * (1 - shares)
    rows = np.column_stack([np.ones(len(x)), x - middle])
    scores = clusters.totals(rows * (y - shares)[:, None])
    information = clusters.totals(weights[:, None, None] * rows[:, :, None] * rows[:, None, :])
    root = np.linalg.cholesky(np.linalg.inv(information.sum(axis=0)))
    left, axes = np.linalg.eigh(np.eye(2) - root.T @ information @ root)
    scale = np.where(left > _LEFT, np.where(left > _LEFT, left, 1) ** -0.5, 0)
    moved = np.einsum("gij,gj,gkj,gk->gi", axes, scale, axes, scores @ root)
    back = np.array([[1.0, -middle], [0.0, 1.0]]) @ root
    return np.asarray(back @ (moved.T @ moved) @ back.T, dtype=np.float64)


PUBLISHED_EDGES = tuple(step / 4 for step in range(9))
"""The bins of the ImpScore paper: a quarter wide from 0 to 2, the last one closed."""


def bins_of(values: Floats, edges: Sequence[float]) -> Indices:
    """The bin of each value: closed below, open above, the last closed; -1 outside, and for NaN."""
    above = np.searchsorted(np.asarray(edges, dtype=np.float64), values, side="right")
    is_inside = (values >= edges[0]) & (values <= edges[-1]) if len(edges) else False
    return np.where(is_inside, np.minimum(above, len(edges) - 1) - 1, -1)


def equal_mass_edges(values: Sequence[float] | Floats, count: int) -> tuple[float, ...]:
    """The edges of bins of equally many values; fewer where values are equal, none without two."""
    given = np.asarray(values, dtype=np.float64)
    if not len(given) or given.min() == given.max():
        return ()
    return tuple(np.unique(np.quantile(given, np.linspace(0, 1, count + 1))).tolist())


def effective_n(values: Sequence[float] | Floats, clusters: Names) -> float | None:
    """The number of independent rows that would give a mean as exact as these clustered rows do.

    Kish's n over the design effect 1 + (m - 1) r, with m the mean size of a row's cluster and r
    the correlation within clusters by analysis of variance (Donner and Koval 1980), not below 0,
    and 1 where it has no value. None without rows.
    """
    if not len(values):
        return None
    places = Clusters.named(clusters).places
    sizes = np.bincount(places).astype(np.float64)
    n, typical = len(values), float((sizes**2).sum() / sizes.sum())
    given, count, within = np.asarray(values, dtype=np.float64), len(sizes), 1.0
    if 2 <= count < n and np.ptp(given) > 0:
        means = np.bincount(places, weights=given) / sizes
        between = float((sizes * (means - given.mean()) ** 2).sum() / (count - 1))
        inside = float(((given - means[places]) ** 2).sum() / (n - count))
        size = (n - float((sizes**2).sum()) / n) / (count - 1)
        total = between + (size - 1) * inside
        within = float(np.clip((between - inside) / total, 0, 1)) if total > 0 else 1.0
    return n / (1 + (typical - 1) * within)


def auc(scores: Floats, is_positive: Sequence[bool] | Bools, clusters: Clusters) -> Estimate:
    """The chance that a positive scores above a negative, ties counting half, with its interval.

    The area under the ROC curve (Hanley and McNeil 1982), 0 to 1. The error is DeLong's (1988), by
    clusters as Obuchowski's (1997). None: "too few" without rows, "constant" where all are of one
    kind. ValueError for a score that is not finite.
    """
    if bad := int((~np.isfinite(scores)).sum()):
        raise ValueError(
            f"{bad} of {len(scores)} scores are not finite; leave such rows out before"
        )
    truth = np.asarray(is_positive, dtype=bool)
    if truth.all() or not truth.any():
        reason = NoValue.CONSTANT if len(truth) else NoValue.TOO_FEW
        return Estimate.missing(reason, n=len(truth))
    below, above = _twice_below(scores, scores[~truth]), _twice_below(-scores, -scores[truth])
    own, others = np.where(truth, truth.sum(), (~truth).sum()), np.where(truth, below, above)
    pairs = int(truth.sum()) * int((~truth).sum())
    value = float(below[truth].sum() / 2) / pairs
    parts = clusters.totals((others / 2 * own / pairs - value) / own)
    return cluster_interval(Estimate(value, len(truth)), parts, is_share=True)


def _twice_below(values: Floats, others: Floats) -> Floats:
    """For each value how many of the others are below it, twice, and how many are equal."""
    ends = [np.searchsorted(np.sort(others), values, side=side) for side in ("left", "right")]
    return np.asarray(ends[0] + ends[1], dtype=np.float64)
