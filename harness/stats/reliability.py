"""Ratings of the same cells by several raters to how reliable the mean of each cell is.

A rating is cell + rater + error: the analysis of variance of two ways, also where raters saw
different cells (Shrout & Fleiss 1979; Brennan 2001, "Generalizability Theory"). Rater severity
counts as noise only as far as it differs between cells: where all raters rate all cells it moves
every mean alike. `ratings` are documents x systems x raters, NaN where a rater saw nothing, and
taken for numbers on an interval scale.
"""

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import ArrayLike

from harness.stats.clustered import jackknife_interval
from harness.stats.estimate import (
    Estimate,
    Floats,
    NoValue,
    Resamples,
    ratio,
)
from harness.stats.scales import ROUNDING

_MOST_WORK = 1 << 31  # clusters x raters cubed: a minute
_LEAST_CLUSTERS = 5
_MOST_SEVERITY = 0.1  # two groups of twenty raters each


@dataclass(frozen=True, slots=True)
class _Sums:
    """What the components need, all of it sums over cells; weights are 1 / raters of the cell."""

    cells: float
    ratings: float
    within: float
    inverse: float
    mean: float
    square: float
    meetings: Floats
    residual: Floats
    weight: Floats
    products: Floats

    @classmethod
    def of(cls, units: Floats) -> "_Sums":
        """The sums over units x raters; units that nobody rated do not count."""
        rated = units[(~np.isnan(units)).any(axis=1)]
        is_there = ~np.isnan(rated)
        number = is_there.sum(axis=1)
        values = np.nan_to_num(rated)
        means = values.sum(axis=1) / number
        left = np.where(is_there, values - means[:, None], 0)
        weights = is_there / number[:, None]
        return cls(
            cells=float(len(rated)),
            ratings=float(number.sum()),
            within=float((left**2).sum()),
            inverse=float((1 / number).sum()),
            mean=float(means.sum()),
            square=float((means**2).sum()),
            meetings=np.diag(is_there.sum(axis=0)) - is_there.T @ weights,
            residual=left.sum(axis=0),
            weight=weights.sum(axis=0),
            products=weights.T @ weights,
        )

    def less(self, other: "_Sums") -> "_Sums":
        """The sums without those of some of the cells."""
        names = self.__slots__
        return _Sums(*(getattr(self, name) - getattr(other, name) for name in names))


def reliability_of_means(ratings: ArrayLike, resamples: Resamples) -> Estimate:
    """The share of the variance of the cells' mean ratings that is no noise of raters.

    1 - (s + e m) / v: v is the variance of the means over cells, e that of a rating's error, m
    the mean of 1 / number of raters, s the variance over cells of the mean severity of their
    raters. It is ICC(3,k) of Shrout & Fleiss (1979) where all raters rate all cells. 0 to 1. The
    interval is the jackknife's over clusters, of -log(1 - value). `n` counts cells with a rating.
    None: "one rater"; "too few" where ratings do not separate error from raters, "constant" where
    all means are one, "unreliable" where the noise exceeds the variance.
    """
    cells = np.asarray(ratings, dtype=np.float64)
    known = cells[~np.isnan(cells)]
    cells = cells - (known.mean() if len(known) else 0)
    sums = _Sums.of(_units(cells))
    n, skipped = int(sums.cells), cells.shape[0] * cells.shape[1] - int(sums.cells)
    value = _reliability(sums)
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


def _interval(found: Estimate, cells: Floats, sums: _Sums, resamples: Resamples) -> Estimate:
    count, raters, value = resamples.clusters, cells.shape[2], found.value or 0.0
    if count < _LEAST_CLUSTERS or count * raters**3 > _MOST_WORK:
        reason = NoValue.TOO_FEW if count < _LEAST_CLUSTERS else NoValue.TOO_MANY
        return found.unbounded(reason, clusters=count)
    without = np.full(count, np.nan)
    for cluster in range(count):
        inside = _Sums.of(_units(cells[resamples.places == cluster]))
        rest = _reliability(sums.less(inside))
        without[cluster] = np.nan if isinstance(rest, NoValue) else rest
    if max(value, np.nanmax(without, initial=0)) >= 1 - ROUNDING:
        return found.unbounded(NoValue.DEGENERATE, clusters=count)
    middle = Estimate(-log(1 - value), n=count)
    ends = jackknife_interval(middle, -np.log(1 - without), range_="any")
    if ends.low is None or ends.high is None:
        return found.unbounded(ends.why, clusters=count)
    low, high = (max(0.0, 1 - float(np.exp(-end))) for end in (ends.low, ends.high))
    return found.between(low, high, clusters=count)


def _reliability(sums: _Sums) -> float | NoValue:
    if sums.cells < 2 or sums.ratings <= sums.cells:
        return NoValue.TOO_FEW
    values, vectors = np.linalg.eigh(sums.meetings)
    is_kept = values > 1e-9 * max(1.0, float(values.max()))
    inverse = (vectors[:, is_kept] / values[is_kept]) @ vectors[:, is_kept].T
    severity = inverse @ sums.residual
    freedom = sums.ratings - sums.cells - is_kept.sum()
    if freedom < 0.5:
        return NoValue.TOO_FEW
    variance = (sums.square - sums.mean**2 / sums.cells) / (sums.cells - 1)
    if variance <= ROUNDING * sums.square / sums.cells:
        return NoValue.CONSTANT
    error = max(0.0, sums.within - float(sums.residual @ severity)) / freedom
    spread = sums.products - np.outer(sums.weight, sums.weight) / sums.cells
    # The estimated severities vary by their own errors too.
    moved = severity @ spread @ severity - error * (spread * inverse).sum()
    noise = max(0.0, float(moved) / (sums.cells - 1)) + error * sums.inverse / sums.cells
    return float(1 - noise / variance)


def rater_groups(ratings: ArrayLike) -> int:
    """Into how many groups the raters fall that rated no cell together, directly or in a chain.

    Between groups a severe rater looks like a poor response.
    """
    units = ~np.isnan(_units(np.asarray(ratings, dtype=np.float64)))
    units = units[:, units.any(axis=0)].astype(np.float64)
    shared = units.T @ units > 0
    groups = np.arange(len(shared))
    for place, others in enumerate(shared):
        joined = np.isin(groups, groups[others])
        groups[joined] = groups[place]
    return len(np.unique(groups))


def is_severity_confounded(ratings: ArrayLike) -> bool:
    """Whether the systems had different raters, so that severity shifts their means.

    True where two systems share no rater, or where their means differ by a tenth of the variance
    of severity between raters or more: the sum over raters of the squared differences of their
    shares in the two systems' means (2 / k for two groups of k raters each).
    """
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
