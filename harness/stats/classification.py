"""Answers to classification metrics: of classes, of bins and curves along a number, and AUC.

Rows are answers: 1 for chosen or flagged, 0 for not, a share for a tie. A quotient without a
divisor has no value and is never 0: precision where a class was never chosen, recall where no row
is of it, F1 where both hold. Clusters of rows are assumed to be independent, and are drawn whole
in every interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, erfc, fsum, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from harness.stats.estimate import (
    Estimate,
    EstimateCI,
    Floats,
    Indices,
    NoValue,
    Resamples,
    Significance,
    bounds,
    ratio,
)


@dataclass(frozen=True, slots=True)
class ClassMetrics:
    """Precision, recall and F1 of one class, 0 to 1; `n` counts the rows of the divisor."""

    precision: EstimateCI
    recall: EstimateCI
    f1: EstimateCI


@dataclass(frozen=True, slots=True)
class ClassificationMetrics:
    """The metrics of every class in the order of the columns, and the mean of their F1.

    The mean is over the classes that have an F1: those that are right or were chosen somewhere,
    as in scikit-learn's macro average.
    """

    classes: tuple[ClassMetrics, ...]
    macro_f1: EstimateCI


def classification_metrics(
    actual: Floats, chosen: Floats, clusters: Resamples
) -> ClassificationMetrics:
    """The metrics of rows x classes: the shares `chosen`, and 1 where a class is the right one.

    F1 is 2 hits / (chosen + actual), the harmonic mean of precision and recall (van Rijsbergen
    1979) wherever both have a value, and 0 where one of them is 0 or has none. None: "too few"
    without a divisor. A cluster is drawn with all its rows.
    """
    columns = np.hstack([actual * chosen, chosen, actual])
    sizes = [(chosen > 0).sum(axis=0), (actual > 0).sum(axis=0)]
    sizes.append(((chosen > 0) | (actual > 0)).sum(axis=0))
    whole = _rates(columns.sum(axis=0, keepdims=True))
    drawn = _rates(clusters.sums(columns))
    classes = tuple(
        ClassMetrics(
            *(
                _estimate(float(value[0, at]), int(size[at]), values[:, at], clusters)
                for value, size, values in zip(whole, sizes, drawn, strict=True)
            )
        )
        for at in range(actual.shape[1])
    )
    macro, n = float(_mean(whole[2])[0]), len(actual)
    return ClassificationMetrics(classes, _estimate(macro, n, _mean(drawn[2]), clusters))


def _rates(sums: Floats) -> tuple[Floats, Floats, Floats]:
    hits, chosen, actual = np.split(sums, 3, axis=1)
    return ratio(hits, chosen), ratio(hits, actual), ratio(2 * hits, chosen + actual)


def _mean(rows: Floats) -> Floats:
    is_there = ~np.isnan(rows)
    return ratio(np.nan_to_num(rows).sum(axis=1), is_there.sum(axis=1))


def _estimate(value: float, n: int, drawn: Floats, clusters: Resamples) -> EstimateCI:
    estimate = Estimate(None, n, reason=NoValue.TOO_FEW) if np.isnan(value) else Estimate(value, n)
    return EstimateCI(estimate, bounds(estimate, drawn, clusters))


def one_hot(places: Sequence[int], count: int) -> Floats:
    """Rows x classes, 1 at each row's place."""
    rows = np.zeros((len(places), count))
    rows[np.arange(len(places)), list(places)] = 1.0
    return rows


BINS = 10


def calibration_error(confidences: Sequence[float], credits: Sequence[float]) -> float | None:
    """The expected calibration error over ten bins of equal width (Guo et al. 2017, eq. 3); 0 to 1.

    The mean, over all choices, of how far the mean confidence of a bin is from the mean credit
    of its choices; a confidence on a border belongs to the lower bin. None without any choice. It
    has no interval: a bootstrap of it is biased upwards.
    """
    if len(confidences) != len(credits):
        raise ValueError(f"{len(confidences)} confidences for {len(credits)} credits")
    gaps: dict[int, list[float]] = {}
    for confidence, credit in zip(confidences, credits, strict=True):
        if not 0 <= confidence <= 1:
            raise ValueError(f"a confidence lies between 0 and 1, not at {confidence}")
        gaps.setdefault(max(ceil(confidence * BINS), 1), []).append(confidence - credit)
    if not gaps:
        return None
    # Summed exactly, so that the order of the choices changes no digit.
    return fsum(abs(fsum(part)) for part in gaps.values()) / len(confidences)


_STEPS, _TOLERANCE, _STEEPEST = 40, 1e-9, 25.0
_LEAST = 3  # rows a line of two numbers is fitted to


@dataclass(frozen=True, slots=True)
class LogisticLine:
    """A fitted line in log-odds: `share(x)` is what it predicts."""

    intercept: float
    slope: float

    def share(self, x: Floats) -> Floats:
        """The share at each x, 0 to 1."""
        return _shares(self.intercept + self.slope * x)


FLAT = LogisticLine(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Trend:
    """The slope of a share along a number, in log-odds a unit, and the test that it is zero.

    The interval is of resampled clusters; the test is Wald's with a variance robust to clusters
    (Liang and Zeger 1986), times C / (C - 1) for C clusters. It takes many clusters.
    """

    slope: EstimateCI
    test: Significance


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


def trend(x: Floats, y: Floats, clusters: Resamples) -> Trend:
    """The slope of a share against x, its interval over clusters, and the test of no slope.

    None: as for `line`; the test alone "too few" for one cluster.
    """
    fitted, n = line(x, y), len(x)
    if isinstance(fitted, NoValue):
        return Trend(EstimateCI.missing(fitted, n), Significance(None, None, n, reason=fitted))
    estimate = Estimate(fitted.slope, n)
    interval = bounds(estimate, drawn_lines(x, y, clusters)[:, 1], clusters)
    return Trend(EstimateCI(estimate, interval), _wald(x, y, fitted, clusters))


def drawn_lines(x: Floats, y: Floats, clusters: Resamples) -> Floats:
    """Intercept and slope of each draw of clusters, [draws, 2], NaN where a draw has none."""
    fitted = line(x, y)
    start = FLAT if isinstance(fitted, NoValue) else fitted
    parts = [lines(x, y, counts, start=start) for counts in clusters.row_counts()]
    return np.vstack([np.zeros((0, 2)), *parts])


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


def _wald(x: Floats, y: Floats, fitted: LogisticLine, clusters: Resamples) -> Significance:
    if clusters.clusters < 2:
        return Significance(None, None, len(x), reason=NoValue.TOO_FEW)
    shares = fitted.share(x)
    rows = np.column_stack([np.ones(len(x)), x])
    information = (rows * (shares * (1 - shares))[:, None]).T @ rows
    scores = np.zeros((clusters.clusters, 2))
    np.add.at(scores, clusters.places, rows * (y - shares)[:, None])
    inverse = np.linalg.inv(information)
    spread = inverse @ (scores.T @ scores) @ inverse
    error = sqrt(spread[1, 1] * clusters.clusters / (clusters.clusters - 1))
    if error == 0:
        return Significance(None, None, len(x), reason=NoValue.DEGENERATE)
    statistic = fitted.slope / error
    return Significance(statistic, erfc(abs(statistic) / sqrt(2)), len(x))


def _shares(odds: Floats) -> Floats:
    """Log-odds to shares, without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(odds / 2)), dtype=np.float64)


PUBLISHED_EDGES = tuple(step / 4 for step in range(9))
"""The bins of the ImpScore paper: a quarter wide from 0 to 2, the last one closed."""
Kind = Literal["logistic", "isotonic falling", "isotonic flat", "isotonic rising"]
_AS_GOOD = 1e-9  # a difference of squared errors, or of shares, that rounding may make


@dataclass(frozen=True, slots=True)
class Curve:
    """A share along a number: its value at each place, and the 95% band of resampled clusters.

    `kind` is what was fitted; a bound is NaN where fewer than nineteen draws in twenty have a
    curve.
    """

    kind: Kind
    at: Floats
    value: Floats
    low: Floats
    high: Floats


def bin_of(value: float, edges: Sequence[float]) -> int | None:
    """The bin of a value, from 0: closed below, open above, the last closed; None outside."""
    if not edges[0] <= value <= edges[-1]:
        return None
    above = int(np.searchsorted(np.asarray(edges), value, side="right"))
    return min(above, len(edges) - 1) - 1


def equal_mass_edges(values: Sequence[float], count: int) -> tuple[float, ...]:
    """The edges of `count` bins that hold equally many values; fewer where values are equal.

    Empty without two different values.
    """
    if len(set(values)) < 2:
        return ()
    edges = np.unique(np.quantile(np.asarray(values), np.linspace(0, 1, count + 1)))
    return tuple(edges.tolist())


def effective_n(values: Sequence[float], clusters: Sequence[str]) -> float | None:
    """The number of independent rows that would give a mean as exact as these clustered rows do.

    Kish's n over the design effect 1 + (m - 1) r, with m the mean size of a row's cluster and r
    the correlation within clusters by analysis of variance (Donner and Koval 1980), not below 0.
    Where r has no value - all values alike, or a single cluster - r is 1, as if a cluster's rows
    repeated one another. None without rows.
    """
    if not values:
        return None
    _, places = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
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


def auc(scores: Floats, is_positive: Sequence[bool], clusters: Resamples) -> EstimateCI:
    """The chance that a positive scores above a negative, ties counting half, with its interval.

    The area under the ROC curve (Hanley and McNeil 1982), 0 to 1; .5 for scores that are all
    alike. None: "too few" without rows, "constant" where all are positive, or all negative.
    """
    truth = np.asarray(is_positive, dtype=bool)
    if truth.all() or not truth.any():
        reason = NoValue.CONSTANT if len(truth) else NoValue.TOO_FEW
        return EstimateCI.missing(reason, n=len(truth))
    order = np.argsort(scores, kind="stable")
    ranked, truth = np.asarray(scores)[order], truth[order]
    starts = np.nonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))[0]
    value = float(_areas(np.ones((1, len(truth))), truth, starts)[0])
    estimate = Estimate(value, len(truth))
    drawn = [_areas(counts[:, order], truth, starts) for counts in clusters.row_counts()]
    return EstimateCI(estimate, bounds(estimate, np.concatenate(drawn), clusters))


def _areas(weights: Floats, is_positive: NDArray[np.bool_], starts: Indices) -> Floats:
    """The area for each row of weights; rows of equal score begin at `starts`."""
    positive = np.add.reduceat(weights * is_positive, starts, axis=1)
    negative = np.add.reduceat(weights * ~is_positive, starts, axis=1)
    below = np.cumsum(negative, axis=1) - negative
    wins = (positive * (below + negative / 2)).sum(axis=1)
    pairs = positive.sum(axis=1) * negative.sum(axis=1)
    return np.where(pairs > 0, wins / np.where(pairs > 0, pairs, 1), np.nan)


def logistic_curve(x: Floats, y: Floats, clusters: Resamples, at: Floats) -> Curve | NoValue:
    """The logistic curve of a share at some places, or the reason for none, as for `line`."""
    fitted = line(x, y)
    if isinstance(fitted, NoValue):
        return fitted
    drawn = [LogisticLine(*row).share(at) for row in drawn_lines(x, y, clusters).tolist()]
    return _curve("logistic", at, fitted.share(at), np.array(drawn).reshape(-1, len(at)))


def isotonic_curve(x: Floats, y: Floats, clusters: Resamples, at: Floats) -> Curve | NoValue:
    """The best curve that only falls, or only rises, whichever fits better, at some places.

    Least squares (Barlow et al. 1972), straight between the places of the data and flat outside
    them; falling where both fit as well, and called flat where it does not move. The direction
    is that of the data, kept in all draws: it is a choice made by looking.
    """
    if len(x) < 2:
        return NoValue.TOO_FEW
    if np.ptp(x) == 0:
        return NoValue.CONSTANT
    order = np.argsort(x, kind="stable")
    x, y, one = x[order], y[order], np.ones(len(x))
    falling, rising = (_isotonic(x, y, one, x, is_rising) for is_rising in (False, True))
    errors = [float(((y - fitted) ** 2).sum()) for fitted in (falling, rising)]
    is_rising = errors[1] < errors[0] - _AS_GOOD
    kind: Kind = "isotonic rising" if is_rising else "isotonic falling"
    if np.ptp(rising if is_rising else falling) <= _AS_GOOD:
        kind = "isotonic flat"
    drawn = [_isotonic(x, y, weights[order], at, is_rising) for weights in clusters.weights()]
    value = _isotonic(x, y, one, at, is_rising)
    return _curve(kind, at, value, np.array(drawn).reshape(-1, len(at)))


def _isotonic(x: Floats, y: Floats, weights: Floats, at: Floats, is_rising: bool) -> Floats:
    """The fitted values at some places; rows of equal x are pooled first."""
    from scipy.optimize import isotonic_regression

    starts = np.nonzero(np.concatenate([[True], x[1:] != x[:-1]]))[0]
    mass = np.add.reduceat(weights, starts)
    total = np.add.reduceat(weights * y, starts)
    there = mass > 0
    if not there.any():
        return np.full(len(at), np.nan)
    means = total[there] / mass[there]
    fitted = isotonic_regression(means, weights=mass[there], increasing=is_rising).x
    return np.asarray(np.interp(at, x[starts][there], fitted), dtype=np.float64)


def _curve(kind: Kind, at: Floats, value: Floats, drawn: Floats) -> Curve:
    low, high = np.full(len(at), np.nan), np.full(len(at), np.nan)
    is_there = ~np.isnan(drawn).any(axis=1)
    if is_there.sum() >= max(2, 0.95 * len(drawn)):
        low, high = np.quantile(drawn[is_there], [0.025, 0.975], axis=0)
    return Curve(kind, at, value, low, high)
