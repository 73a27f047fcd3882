"""Ratings of the same cells by several raters to how reliable the mean of each cell is.

A rating is cell + rater + error: the analysis of variance of two ways, also where raters saw
different cells (Shrout & Fleiss 1979; Brennan 2001, "Generalizability Theory"). `ratings` are
documents x systems x raters, NaN where a rater saw nothing, and on an interval scale.
"""

from math import log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from harness.stats.clustered import jackknife_interval
from harness.stats.estimate import Estimate, Floats, NoValue, Resamples, ratio
from harness.stats.scales import ROUNDING

_MOST_WORK = 1 << 31  # clusters x raters cubed: a minute
_LEAST_CLUSTERS = 5
_MOST_SEVERITY = 0.1  # two groups of twenty raters each


def reliability_of_means(ratings: ArrayLike, resamples: Resamples) -> Estimate:
    """The share of the variance of the cells' mean ratings that is no noise of raters.

    1 - (s + e m) / v: v is the variance of the means over cells, e that of a rating's error, m
    the mean of 1 / number of raters, s the variance of the mean severity of a cell's raters; 0 to
    1. The interval is the jackknife's over clusters, of -log(1 - value). `n` counts cells. None:
    "one rater"; "too few" where ratings do not separate error from raters, "constant" where all
    means are one, "unreliable" where the noise exceeds the variance.
    """
    cells = np.asarray(ratings, dtype=np.float64)
    known = cells[~np.isnan(cells)]
    cells = cells - (known.mean() if len(known) else 0)
    sums = _sums(cells)
    n = int(sums[0])
    skipped, value = cells.shape[0] * cells.shape[1] - n, _reliability(sums)
    if (~np.isnan(cells)).any(axis=(0, 1)).sum() < 2:
        value = NoValue.ONE_RATER
    if isinstance(value, NoValue):
        return Estimate.missing(value, n, skipped=skipped)
    if value < 0:
        return Estimate.missing(NoValue.UNRELIABLE, n=n)
    return _interval(Estimate(value, n, skipped), cells, sums, resamples)


def _units(cells: Floats) -> Floats:
    """Documents x systems x raters as units x raters."""
    return cells.reshape(cells.shape[0] * cells.shape[1], cells.shape[2])


def _sums(cells: Floats) -> list[Any]:
    """What the components need, all of it sums over cells that were rated."""
    units = _units(cells)
    rated = units[(~np.isnan(units)).any(axis=1)]
    is_there = ~np.isnan(rated)
    number = is_there.sum(axis=1)
    values = np.nan_to_num(rated)
    means = values.sum(axis=1) / number
    left = np.where(is_there, values - means[:, None], 0)
    weights = is_there / number[:, None]
    of_cells = [len(rated), number.sum(), (left**2).sum(), (1 / number).sum()]
    of_raters = [left.sum(axis=0), weights.sum(axis=0), weights.T @ weights]
    meetings = np.diag(is_there.sum(axis=0)) - is_there.T @ weights
    return [*map(float, [*of_cells, means.sum(), (means**2).sum()]), meetings, *of_raters]


def _interval(found: Estimate, cells: Floats, sums: list[Any], resamples: Resamples) -> Estimate:
    count, raters, value = resamples.clusters, cells.shape[2], found.value or 0.0
    if count < _LEAST_CLUSTERS or count * raters**3 > _MOST_WORK:
        reason = NoValue.TOO_FEW if count < _LEAST_CLUSTERS else NoValue.TOO_MANY
        return found.unbounded(reason, clusters=count)
    without = np.full(count, np.nan)
    for cluster in range(count):
        inside = _sums(cells[resamples.places == cluster])
        rest = _reliability([one - other for one, other in zip(sums, inside, strict=True)])
        without[cluster] = np.nan if isinstance(rest, NoValue) else rest
    if max(value, np.nanmax(without, initial=0)) >= 1 - ROUNDING:
        return found.unbounded(NoValue.DEGENERATE, clusters=count)
    middle = Estimate(-log(1 - value), n=count)
    ends = jackknife_interval(middle, -np.log(1 - without), range_="any")
    if ends.low is None or ends.high is None:
        return found.unbounded(ends.why, clusters=count)
    low, high = (max(0.0, 1 - float(np.exp(-end))) for end in (ends.low, ends.high))
    return found.between(low, high, clusters=count)


def _reliability(sums: list[Any]) -> float | NoValue:
    cells, ratings, within, inverse, mean, square, meetings, residual, weight, products = sums
    if cells < 2 or ratings <= cells:
        return NoValue.TOO_FEW
    values, vectors = np.linalg.eigh(meetings)
    is_kept = values > 1e-9 * max(1.0, float(values.max()))
    inverted = (vectors[:, is_kept] / values[is_kept]) @ vectors[:, is_kept].T
    severity = inverted @ residual
    freedom = ratings - cells - is_kept.sum()
    if freedom < 0.5:
        return NoValue.TOO_FEW
    variance = (square - mean**2 / cells) / (cells - 1)
    if variance <= ROUNDING * square / cells:
        return NoValue.CONSTANT
    error = max(0.0, within - float(residual @ severity)) / freedom
    spread = products - np.outer(weight, weight) / cells
    # The estimated severities vary by their own errors too.
    moved = severity @ spread @ severity - error * (spread * inverted).sum()
    noise = max(0.0, float(moved) / (cells - 1)) + error * inverse / cells
    return float(1 - noise / variance)


def rater_groups(ratings: ArrayLike) -> int:
    """Into how many groups the raters fall that rated no cell together, directly or in a chain."""
    units = ~np.isnan(_units(np.asarray(ratings, dtype=np.float64)))
    units = units[:, units.any(axis=0)].astype(np.float64)
    shared = units.T @ units > 0
    groups = np.arange(len(shared))
    for place, others in enumerate(shared):
        joined = np.isin(groups, groups[others])
        groups[joined] = groups[place]
    return len(np.unique(groups))


def is_severity_confounded(ratings: ArrayLike) -> bool:
    """Whether two systems share no rater, or raters' severity may shift their means."""
    cells = np.asarray(ratings, dtype=np.float64)
    is_there = ~np.isnan(cells)
    number = is_there.sum(axis=2, keepdims=True)
    shares = np.nan_to_num(ratio(is_there, number)).sum(axis=0)
    shares = shares[shares.sum(axis=1) > 0]
    if len(shares) < 2:
        return False
    shares = shares / shares.sum(axis=1, keepdims=True)
    products = shares @ shares.T
    squares = np.diag(products)
    apart = squares[:, None] + squares[None, :] - 2 * products
    return bool((products <= 0).any() or (apart >= _MOST_SEVERITY).any())
