"""Answers to classification metrics: of classes, of bins and curves along a number, and AUC.

Rows are answers: 1 for chosen or flagged, 0 for not, a share for a tie. A quotient without a
divisor has no value and is never 0: precision where a class was never chosen, recall where no row
is of it, F1 where both hold. Clusters of rows are assumed to be independent; every interval has
Student's t and an error robust to clusters, unless it is Wilson's of a share of independent rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum, sqrt
from typing import Literal

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


@dataclass(frozen=True, slots=True)
class ClassificationMetrics:
    """The metrics of every class in the order of the columns, and the mean of their F1.

    The mean is over the classes that have an F1: those that are right or were chosen somewhere,
    as in scikit-learn's macro average.
    """

    classes: tuple[ClassMetrics, ...]
    macro_f1: Estimate


def classification_metrics(
    actual: Floats, chosen: Floats, clusters: Clusters
) -> ClassificationMetrics:
    """The metrics of rows x classes: the shares `chosen`, and 1 where a class is the right one.

    F1 is 2 hits / (chosen + actual), the harmonic mean of precision and recall (van Rijsbergen
    1979) wherever both have a value, and 0 where one of them is 0 or has none. None: "too few"
    without a divisor. Precision and recall have the interval of a share, F1 and its mean that of
    `cluster_interval` with the jackknife's error: none, "constant", where they are 0 or 1.
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
    return ClassificationMetrics(classes, _score(macro, len(actual), others))


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


BINS = 10


def calibration_error(
    confidences: Sequence[float] | Floats, credits: Sequence[float] | Floats
) -> float | None:
    """The expected calibration error over ten bins of equal width (Guo et al. 2017, eq. 3); 0 to 1.

    The mean, over all choices, of how far the mean confidence of a bin is from the mean credit
    of its choices; a confidence on a border belongs to the lower bin. None without any choice. It
    has no interval: a bootstrap of it is biased upwards.
    """
    if len(confidences) != len(credits):
        raise ValueError(f"{len(confidences)} confidences for {len(credits)} credits")
    sure = np.asarray(confidences, dtype=np.float64)
    if len(bad := np.nonzero(~((sure >= 0) & (sure <= 1)))[0]):
        raise ValueError(f"a confidence lies between 0 and 1, not at {float(sure[bad[0]])}")
    if not len(sure):
        return None
    bins = np.maximum(np.ceil(sure * BINS), 1)
    gaps = sure - np.asarray(credits, dtype=np.float64)
    # Summed exactly, so that the order of the choices changes no digit.
    return fsum(abs(exact_total(gaps[bins == at])) for at in range(1, BINS + 1)) / len(sure)


_STEPS, _TOLERANCE, _STEEPEST = 40, 1e-9, 25.0
_LEAST = 3  # rows a line of two numbers is fitted to
_LEFT = 1e-9  # a cluster that leaves less to the others decides alone, and has no residual


@dataclass(frozen=True, slots=True)
class LogisticLine:
    """A fitted line in log-odds: `share(x)` is what it predicts."""

    intercept: float
    slope: float

    def share(self, x: Floats) -> Floats:
        """The share at each x, 0 to 1."""
        return _shares(self.intercept + self.slope * x)


FLAT = LogisticLine(0.0, 0.0)


def line(x: Floats, y: Floats) -> LogisticLine | NoValue:
    """The line of greatest likelihood of a logistic regression, or the reason for none.

    "too few" below three rows, "constant" where x or y is, "degenerate" where x separates y.
    """
    if len(x) < _LEAST:
        return NoValue.TOO_FEW
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return NoValue.CONSTANT
    [(intercept, slope)] = lines(x, y, np.ones((1, len(x)))).tolist()
    return NoValue.DEGENERATE if np.isnan(slope) else LogisticLine(intercept, slope)


def lines(x: Floats, y: Floats, weights: Floats, *, start: LogisticLine = FLAT) -> Floats:
    """Intercept and slope for each row of weights [draws, rows]: [draws, 2], NaN for none.

    By Newton's method. The likelihood has one peak: the start changes the time alone.
    """
    middle, spread = x.mean(), x.std() or 1.0
    z = (x - middle) / spread
    a = np.full(len(weights), start.intercept + start.slope * middle)
    b = np.full(len(weights), start.slope * spread)
    is_open = np.ones(len(weights), dtype=bool)
    for _ in range(_STEPS):
        at = np.nonzero(is_open)[0]
        if not len(at):
            break
        step_a, step_b = _newton(z, y, weights[at], a[at], b[at])
        a[at], b[at] = a[at] + step_a, b[at] + step_b
        moved = np.maximum(np.abs(step_a), np.abs(step_b))
        # A line that only grows steeper has no end: NaN moves nowhere and stays NaN.
        is_lost = ~(np.abs(b[at]) < _STEEPEST) | ~(np.abs(a[at]) < _STEEPEST)
        a[at[is_lost]] = b[at[is_lost]] = np.nan
        is_open[at] = ~is_lost & (moved > _TOLERANCE)
    a[is_open] = b[is_open] = np.nan
    return np.column_stack([a - b * middle / spread, b / spread])


def trend(x: Floats, y: Floats, clusters: Clusters) -> Estimate:
    """The slope of a share against x in log-odds a unit, its interval, and the test of no slope.

    Interval and test are Wald's with a variance robust to clusters, corrected for few of them (CR2:
    Bell & McCaffrey 2002; Pustejovsky & Tipton 2018), and Student's t of two degrees less than
    clusters. None: as for `line`; interval and test alone "too few" below three clusters.
    """
    fitted, n, count = line(x, y), len(x), clusters.clusters
    if isinstance(fitted, NoValue):
        return Estimate.missing(fitted, n)
    error, estimate = sqrt(_of_line(x, y, fitted, clusters)[1, 1]), Estimate(fitted.slope, n)
    statistic, p = _wald(fitted.slope, error, count)
    if p is None:
        why = NoValue.TOO_FEW if count < LEAST_CLUSTERS else NoValue.DEGENERATE
        return estimate.unbounded(why, clusters=count)
    reach = student_t(count - 2) * error
    ends = fitted.slope - reach, fitted.slope + reach
    return replace(estimate.between(*ends, clusters=count), statistic=statistic, p=p)


def _newton(z: Floats, y: Floats, weights: Floats, a: Floats, b: Floats) -> tuple[Floats, Floats]:
    shares = _shares(a[:, None] + b[:, None] * z)
    excess, spread = weights * (y - shares), weights * shares * (1 - shares)
    score_a, score_b = excess.sum(axis=1), _products(excess, z)
    aa, ab, bb = spread.sum(axis=1), _products(spread, z), _products(spread, z * z)
    area = aa * bb - ab * ab
    area = np.where(area > 1e-12, area, np.nan)
    return (bb * score_a - ab * score_b) / area, (aa * score_b - ab * score_a) / area


def _products(rows: Floats, column: Floats) -> Floats:
    # A matrix product rounds a row by the number of rows, and the size of a block of draws must
    # not show.
    return np.asarray(np.einsum("ij,j->i", rows, column), dtype=np.float64)


def _wald(slope: float, error: float, count: int) -> tuple[float | None, float | None]:
    """Student's t of a slope and its p, with two degrees less than clusters; None without one."""
    if count < LEAST_CLUSTERS or error == 0:
        return None, None
    return slope / error, student_p(slope / error, count - 2)


def _of_line(x: Floats, y: Floats, fitted: LogisticLine, clusters: Clusters) -> Floats:
    """The variance of a fitted line's intercept and slope, robust to clusters."""
    shares = fitted.share(x)
    return _robust_variance(x, y - shares, shares * (1 - shares), clusters)


def _robust_variance(
    x: Floats, residuals: Floats, weights: Floats, clusters: Clusters, *, power: float = 0.5
) -> Floats:
    """The variance of intercept and slope, 2 x 2, each cluster's score over what it leaves.

    CR2 takes the root of what a cluster leaves to the others; a power of 1 is CR3, the jackknife,
    which errs towards caution, but for its factor (G - 1) / G.
    """
    # About the mean, so that no digits are lost where x is far from 0.
    middle = float(x.mean())
    rows = np.column_stack([np.ones(len(x)), x - middle])
    scores = clusters.totals(rows * residuals[:, None])
    information = clusters.totals(weights[:, None, None] * rows[:, :, None] * rows[:, None, :])
    root = np.linalg.cholesky(np.linalg.inv(information.sum(axis=0)))
    left, axes = np.linalg.eigh(np.eye(2) - root.T @ information @ root)
    scale = np.where(left > _LEFT, np.where(left > _LEFT, left, 1) ** -power, 0)
    moved = np.einsum("gij,gj,gkj,gk->gi", axes, scale, axes, scores @ root)
    back = np.array([[1.0, -middle], [0.0, 1.0]]) @ root
    return np.asarray(back @ (moved.T @ moved) @ back.T, dtype=np.float64)


def _shares(odds: Floats) -> Floats:
    """Log-odds to shares, without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(odds / 2)), dtype=np.float64)


PUBLISHED_EDGES = tuple(step / 4 for step in range(9))
"""The bins of the ImpScore paper: a quarter wide from 0 to 2, the last one closed."""
Kind = Literal["logistic", "isotonic falling", "isotonic flat", "isotonic rising"]
_LEVEL = 0.05  # of the test that lets an isotonic curve rise or fall


@dataclass(frozen=True, slots=True)
class Curve:
    """A share along a number: its value at each place, and the 95% band, place by place.

    `kind` is what was fitted; a bound is NaN where none is known.
    """

    kind: Kind
    at: Floats
    value: Floats
    low: Floats
    high: Floats


def bins_of(values: Floats, edges: Sequence[float]) -> Indices:
    """The bin of each value, from 0: closed below, open above, the last closed; -1 outside.

    NaN is outside too.
    """
    above = np.searchsorted(np.asarray(edges, dtype=np.float64), values, side="right")
    is_inside = (values >= edges[0]) & (values <= edges[-1]) if len(edges) else False
    return np.where(is_inside, np.minimum(above, len(edges) - 1) - 1, -1)


def equal_mass_edges(values: Sequence[float] | Floats, count: int) -> tuple[float, ...]:
    """The edges of `count` bins that hold equally many values; fewer where values are equal.

    Empty without two different values.
    """
    given = np.asarray(values, dtype=np.float64)
    if not len(given) or given.min() == given.max():
        return ()
    edges = np.unique(np.quantile(given, np.linspace(0, 1, count + 1)))
    return tuple(edges.tolist())


def effective_n(values: Sequence[float] | Floats, clusters: Names) -> float | None:
    """The number of independent rows that would give a mean as exact as these clustered rows do.

    Kish's n over the design effect 1 + (m - 1) r, with m the mean size of a row's cluster and r
    the correlation within clusters by analysis of variance (Donner and Koval 1980), not below 0.
    Where r has no value - all values alike, or a single cluster - r is 1, as if a cluster's rows
    repeated one another. None without rows.
    """
    if not len(values):
        return None
    places = Clusters.named(clusters).places
    sizes = np.bincount(places).astype(np.float64)
    n, typical = len(values), float((sizes**2).sum() / sizes.sum())
    within = _within(np.asarray(values, dtype=np.float64), places, sizes)
    return n / (1 + (typical - 1) * within)


def _within(values: Floats, places: Indices, sizes: Floats) -> float:
    """The intraclass correlation, 0 to 1; 1 where it has no value."""
    n, count = len(values), len(sizes)
    if count < 2 or n == count or np.ptp(values) == 0:
        return 1.0
    means = np.bincount(places, weights=values) / sizes
    between = float((sizes * (means - values.mean()) ** 2).sum() / (count - 1))
    inside = float(((values - means[places]) ** 2).sum() / (n - count))
    size = (n - float((sizes**2).sum()) / n) / (count - 1)
    total = between + (size - 1) * inside
    return float(np.clip((between - inside) / total, 0, 1)) if total > 0 else 1.0


def auc(scores: Floats, is_positive: Sequence[bool] | Bools, clusters: Clusters) -> Estimate:
    """The chance that a positive scores above a negative, ties counting half, with its interval.

    The area under the ROC curve (Hanley and McNeil 1982), 0 to 1; .5 for scores that are all
    alike. The error is DeLong's (1988), by clusters as Obuchowski's (1997); no interval,
    "constant", where the area is 0 or 1. None: "too few" without rows, "constant"
    where all are positive, or all negative. ValueError for a score that is not finite.
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
    estimate = Estimate(value, len(truth))
    return cluster_interval(estimate, parts, is_share=True)


def _twice_below(values: Floats, others: Floats) -> Floats:
    """For each value how many of the others are below it, twice, and how many are equal."""
    ends = [np.searchsorted(np.sort(others), values, side=side) for side in ("left", "right")]
    return np.asarray(ends[0] + ends[1], dtype=np.float64)


def logistic_curve(x: Floats, y: Floats, clusters: Clusters, at: Floats) -> Curve | NoValue:
    """The logistic curve of a share at some places, or the reason for none, as for `line`.

    The band is Wald's in log-odds, with the variance and t of `trend`; NaN below three clusters.
    """
    fitted = line(x, y)
    if isinstance(fitted, NoValue):
        return fitted
    reach = np.full(len(at), np.nan)
    if clusters.clusters >= LEAST_CLUSTERS:
        rows = np.column_stack([np.ones(len(at)), at])
        variance = np.einsum("pi,ij,pj->p", rows, _of_line(x, y, fitted, clusters), rows)
        reach = student_t(clusters.clusters - 2) * np.sqrt(np.maximum(variance, 0))
    odds = fitted.intercept + fitted.slope * at
    return Curve("logistic", at, fitted.share(at), _shares(odds - reach), _shares(odds + reach))


def isotonic_curve(x: Floats, y: Floats, clusters: Clusters, at: Floats) -> Curve | NoValue:
    """The best curve that only falls, or only rises, at some places; flat where neither is shown.

    Least squares (Barlow et al. 1972), straight between the places of the data and flat outside
    them. It goes the way of the trend of y along the ranks of x where a test robust to clusters
    has p <= .05, and is the mean elsewhere: the better of two directions always seems to go one
    way. It has no band, as draws of clusters kept to one direction never cover a flat truth.
    """
    if len(x) < 2:
        return NoValue.TOO_FEW
    if np.ptp(x) == 0:
        return NoValue.CONSTANT
    way, none = _direction(x, y, clusters), np.full(len(at), np.nan)
    if way == 0:
        return Curve("isotonic flat", at, np.full(len(at), y.mean()), none, none)
    value = _isotonic(x, y, at, is_rising=way > 0)
    return Curve("isotonic rising" if way > 0 else "isotonic falling", at, value, none, none)


def _direction(x: Floats, y: Floats, clusters: Clusters) -> float:
    """The sign of the trend of y along the ranks of x; 0 where it might be chance."""
    ranks = _twice_below(x, x) / (2 * len(x)) - 0.5
    slope = float(ranks @ (y - y.mean()) / (ranks @ ranks))
    residuals = y - y.mean() - slope * ranks
    variance = _robust_variance(ranks, residuals, np.ones(len(x)), clusters, power=1)
    error, count = sqrt(variance[1, 1]), clusters.clusters
    _, p = _wald(slope, error, count)
    return float(np.sign(slope)) if p is not None and p <= _LEVEL else 0.0


def _isotonic(x: Floats, y: Floats, at: Floats, *, is_rising: bool) -> Floats:
    """The fitted values at some places; rows of equal x are pooled first."""
    from scipy.optimize import isotonic_regression

    places, own, counts = np.unique(x, return_inverse=True, return_counts=True)
    means = np.bincount(own, weights=y) / counts
    fitted = isotonic_regression(means, weights=counts, increasing=is_rising).x
    return np.asarray(np.interp(at, places, fitted), dtype=np.float64)
