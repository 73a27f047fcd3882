"""Shares against a number: logistic regression with clusters, and the trend it tests.

log(p / (1 - p)) = a + b x by maximum likelihood, without a penalty: where a threshold parts all
of one outcome from all of the other, or an outcome does not vary, there is no estimate and none
is made up. Rows may count in part: an outcome of 0.5 is half of each.
"""

from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np

from harness.stats.estimate import Bounds, Estimate, Floats, Gap, Significance
from harness.stats.resampling import Figure, Resamples, bounds

_STEPS, _TOLERANCE, _STEEPEST = 40, 1e-9, 25.0
_LEAST = 3  # rows a line of two numbers is fitted to


@dataclass(frozen=True, slots=True)
class Line:
    """A fitted line in log-odds: `value(x)` is the share it gives."""

    intercept: float
    slope: float

    def share(self, x: Floats) -> Floats:
        """The share at each x, 0 to 1."""
        return _shares(self.intercept + self.slope * x)


FLAT = Line(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Trend:
    """How a share moves with a number: the slope in log-odds a unit, and whether it is none.

    The interval is of resampled clusters; the test is Wald's with a variance robust to clusters
    (Liang and Zeger 1986), times C / (C - 1) for C clusters.
    """

    slope: Figure
    test: Significance


def line(x: Floats, y: Floats) -> Line | Gap:
    """The line of greatest likelihood; the reason where there is none."""
    if len(x) < _LEAST:
        return Gap.TOO_FEW
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return Gap.CONSTANT
    found = lines(x, y, np.ones((1, len(x))))[0]
    return Gap.DEGENERATE if np.isnan(found).any() else Line(float(found[0]), float(found[1]))


def lines(x: Floats, y: Floats, weights: Floats, *, start: Line = FLAT) -> Floats:
    """Intercept and slope for each row of weights [draws, rows]: [draws, 2], NaN for none.

    The likelihood has one peak: where the search starts changes how long it takes and no more.
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
    """The slope of a share against x, its interval over clusters, and the test of no slope."""
    found = line(x, y)
    if isinstance(found, Gap):
        lost = Figure(Estimate(None, len(x), reason=found), Bounds(None, None, n=0, reason=found))
        return Trend(lost, Significance(None, None, len(x), reason=found))
    estimate = Estimate(found.slope, len(x))
    drawn = drawn_lines(x, y, clusters)[:, 1]
    return Trend(Figure(estimate, bounds(estimate, drawn, clusters)), _wald(x, y, found, clusters))


def drawn_lines(x: Floats, y: Floats, clusters: Resamples) -> Floats:
    """Intercept and slope of each draw of clusters, [draws, 2], NaN where a draw has none."""
    found = line(x, y)
    start = FLAT if isinstance(found, Gap) else found
    parts = [lines(x, y, counts, start=start) for counts in clusters.row_counts()]
    return np.vstack([np.zeros((0, 2)), *parts])


def _newton(z: Floats, y: Floats, weights: Floats, a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """One step towards the greatest likelihood, for each row of weights."""
    shares = _shares(a[:, None] + b[:, None] * z)
    excess, spread = weights * (y - shares), weights * shares * (1 - shares)
    score_a, score_b = excess.sum(axis=1), _products(excess, z)
    aa, ab, bb = spread.sum(axis=1), _products(spread, z), _products(spread, z * z)
    area = aa * bb - ab * ab
    area = np.where(area > 1e-12, area, np.nan)
    return (bb * score_a - ab * score_b) / area, (aa * score_b - ab * score_a) / area


def _products(rows: Floats, column: Floats) -> Floats:
    """Each row times a column.

    A matrix product rounds a row by how many stand beside it, and the size of a block of draws
    must not show.
    """
    return np.asarray(np.einsum("ij,j->i", rows, column), dtype=np.float64)


def _wald(x: Floats, y: Floats, fitted: Line, clusters: Resamples) -> Significance:
    """The two-sided test that the slope is zero."""
    if clusters.clusters < 2:
        return Significance(None, None, len(x), reason=Gap.TOO_FEW)
    shares = fitted.share(x)
    rows = np.column_stack([np.ones(len(x)), x])
    information = (rows * (shares * (1 - shares))[:, None]).T @ rows
    scores = np.zeros((clusters.clusters, 2))
    np.add.at(scores, clusters.places, rows * (y - shares)[:, None])
    inverse = np.linalg.inv(information)
    spread = inverse @ (scores.T @ scores) @ inverse
    error = sqrt(spread[1, 1] * clusters.clusters / (clusters.clusters - 1))
    if error == 0:
        return Significance(None, None, len(x), reason=Gap.DEGENERATE)
    statistic = fitted.slope / error
    return Significance(statistic, erfc(abs(statistic) / sqrt(2)), len(x))


def _shares(odds: Floats) -> Floats:
    """Log-odds as shares, without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(odds / 2)), dtype=np.float64)
