"""Several raters' ratings of the same units to how far they agree, and what that allows a judge.

A table here is units x raters, NaN where a rater saw nothing. A unit is whatever was rated once
by each: a response, or a cell of a table of documents and systems.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from harness.stats.estimate import Estimate, Floats, Indices, NoValue, ratio, table

Scale = Literal["nominal", "ordinal", "interval"]
Measure = Callable[[Floats], Estimate]

# The krippendorff package holds units x values x values numbers at once: 256 MiB of them here.
_MOST_COINCIDENCES = 1 << 25


@dataclass(frozen=True, slots=True)
class Spread:
    """The mean of a measure over raters and its standard deviation (of a sample, n - 1)."""

    mean: Estimate
    sd: Estimate


@dataclass(frozen=True, slots=True)
class PairableRatings:
    """The ratings of the units that have two or more: one entry a rating, in units' order.

    `row` and `size` are a unit's row in the table and its number of ratings; `code` is a
    rating's place among the `domain` of values; `unequal` is what a unit adds to the observed
    nominal disagreement.
    """

    row: Indices
    size: Indices
    unit: Indices
    code: Indices
    domain: Floats
    unequal: Floats

    @property
    def values(self) -> Floats:
        """The ratings themselves."""
        return self.domain[self.code]


def alpha(ratings: ArrayLike, scale: Scale) -> Estimate:
    """Krippendorff's alpha (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability").

    1 is perfect agreement, 0 what chance gives, below 0 less than chance. `n` counts the units
    with two ratings or more, `skipped` the others. Null: "one rater" where fewer than two
    raters rated anything, "too few" where no unit has two ratings, "constant" where all
    ratings are one value.
    """
    rows = table(ratings)
    found = pairable(rows)
    n, skipped = len(found.row), len(rows) - len(found.row)
    if reason := _why_no_alpha(rows, found):
        return Estimate(None, n=n, skipped=skipped, reason=reason)
    if n * len(found.domain) ** 2 > _MOST_COINCIDENCES:
        return Estimate(weighted_alpha(found, np.ones(n), scale), n=n, skipped=skipped)
    import krippendorff

    value = krippendorff.alpha(rows[found.row].T, level_of_measurement=scale)
    return Estimate(float(value), n=n, skipped=skipped)


def alpha_with_judge(raters: ArrayLike, judge: ArrayLike, scale: Scale) -> Estimate:
    """Krippendorff's alpha with the judge as one more rater of the same units."""
    return alpha(_with_judge(raters, judge), scale)


def against_each(raters: ArrayLike, judge: ArrayLike, measure: Measure) -> Spread:
    """A measure of the judge with each rater alone: its mean over raters and its spread.

    `measure` takes a table of two columns, as every measure of this module does. `n` counts
    the raters that gave a value, `skipped` the others. Null: "one rater" without raters, else
    the first rater's reason where none gave a value; the spread of one value: "too few".
    """
    together = _with_judge(raters, judge)
    results = [measure(together[:, [k, -1]]) for k in range(together.shape[1] - 1)]
    found = [result.value for result in results if result.value is not None]
    n, skipped = len(found), len(results) - len(found)
    if n == 0:
        reason = results[0].reason if results else NoValue.ONE_RATER
        none = Estimate(None, n=0, skipped=skipped, reason=reason)
        return Spread(none, none)
    mean = Estimate(float(np.mean(found)), n=n, skipped=skipped)
    if n == 1:
        return Spread(mean, Estimate(None, n=1, skipped=skipped, reason=NoValue.TOO_FEW))
    return Spread(mean, Estimate(float(np.std(found, ddof=1)), n=n, skipped=skipped))


def percent_agreement(ratings: ArrayLike) -> Estimate:
    """The share of common units two raters rate alike, 0 to 1, averaged over pairs of raters.

    `n` counts pairs of raters, `skipped` those without a common unit. Null: "one rater", or
    "too few" where no two raters share a unit.
    """
    rows = table(ratings)
    pairs = list(combinations(range(rows.shape[1]), 2))
    if len(pairs) == 0:
        return Estimate(None, n=0, reason=NoValue.ONE_RATER)
    shares = [_share_alike(rows[:, first], rows[:, second]) for first, second in pairs]
    found = [share for share in shares if share is not None]
    skipped = len(pairs) - len(found)
    if len(found) == 0:
        return Estimate(None, n=0, skipped=skipped, reason=NoValue.TOO_FEW)
    return Estimate(float(np.mean(found)), n=len(found), skipped=skipped)


def cohen_kappa(ratings: ArrayLike) -> Estimate:
    """Cohen's kappa of two raters, unweighted (Cohen 1960), -1 to 1.

    `n` counts units both rated, `skipped` the others. Null: "too few" without a common unit,
    "constant" where both give one and the same value throughout.
    """
    rows = table(ratings)
    if rows.shape[1] != 2:
        raise ValueError(f"kappa compares two raters, not {rows.shape[1]}: give two columns")
    both = rows[~np.isnan(rows).any(axis=1)]
    n, skipped = len(both), len(rows) - len(both)
    if n == 0:
        return Estimate(None, n=0, skipped=skipped, reason=NoValue.TOO_FEW)
    values, codes = np.unique(both, return_inverse=True)
    first, second = (np.bincount(c, minlength=len(values)) / n for c in codes.reshape(n, 2).T)
    observed, expected = float((both[:, 0] == both[:, 1]).mean()), float(first @ second)
    if len(values) == 1:
        return Estimate(None, n=n, skipped=skipped, reason=NoValue.CONSTANT)
    return Estimate((observed - expected) / (1 - expected), n=n, skipped=skipped)


def reliability_of_mean(single: Estimate, raters: float) -> Estimate:
    """The reliability of the mean of `raters` raters from that of one, by Spearman-Brown.

    k a / (1 + (k - 1) a) (Spearman 1910; Brown 1910), with alpha as the reliability of one.
    0 to 1. Null: as the alpha, or "unreliable" where that is below 0.
    """
    if not raters >= 1:
        raise ValueError(f"a mean has one rater or more, not {raters!r}")
    if single.value is None:
        return single
    if single.value < 0:
        return Estimate(None, n=single.n, skipped=single.skipped, reason=NoValue.UNRELIABLE)
    value = raters * single.value / (1 + (raters - 1) * single.value)
    return Estimate(value, n=single.n, skipped=single.skipped)


def attainable_r(human: Estimate, judge: Estimate) -> Estimate:
    """The noise ceiling: the correlation two such reliable means would have if they measured
    the same, sqrt(human x judge) (Spearman 1904). 0 to 1.

    A judge that always answers alike has reliability 1. Null: as the first null of the two,
    or "unreliable" where a reliability is below 0.
    """
    n, skipped = min(human.n, judge.n), max(human.skipped, judge.skipped)
    if reason := human.reason or judge.reason:
        return Estimate(None, n=n, skipped=skipped, reason=reason)
    first, second = human.value or 0.0, judge.value or 0.0
    if min(first, second) < 0:
        return Estimate(None, n=n, skipped=skipped, reason=NoValue.UNRELIABLE)
    return Estimate(sqrt(first * second), n=n, skipped=skipped)


def pairable(ratings: ArrayLike) -> PairableRatings:
    """The ratings of the units that have at least two."""
    rows = table(ratings)
    sizes = (~np.isnan(rows)).sum(axis=1)
    kept = np.nonzero(sizes >= 2)[0]
    there = ~np.isnan(rows[kept])
    domain, code = np.unique(rows[kept][there], return_inverse=True)
    unit = np.nonzero(there)[0]
    return PairableRatings(
        row=kept,
        size=sizes[kept],
        unit=unit,
        code=code,
        domain=domain,
        unequal=_unequal(unit, code, sizes[kept]),
    )


def weighted_alpha(found: PairableRatings, weights: Floats, scale: Scale) -> float:
    """Alpha with each unit as often as its weight says; NaN where only one value is left.

    The coincidence matrix is never built. The ordinal distance is the interval distance of
    mid-ranks, and squared differences within a unit of m ratings sum to 2 (m Sxx - Sx Sx),
    so that a weighted alpha is a handful of sums over the ratings.
    """
    counts = np.asarray(
        np.bincount(found.code, weights[found.unit], len(found.domain)), dtype=np.float64
    )
    if scale == "nominal":
        n = counts.sum()
        expected = n**2 - (counts**2).sum()
        return float(1 - ratio(weights @ found.unequal * (n - 1), expected))
    if scale == "ordinal":
        points = (np.cumsum(counts) - (counts + counts.sum()) / 2)[found.code]
    else:
        points = found.values - found.domain.mean()
    return float(alphas_of_sums(weights @ interval_sums(found, points)))


def interval_sums(found: PairableRatings, points: Floats) -> Floats:
    """What a unit adds to alpha: disagreement, number, sum and sum of squares of its ratings."""
    units = len(found.row)
    sums = np.bincount(found.unit, points, minlength=units)
    squares = np.bincount(found.unit, points**2, minlength=units)
    disagreement = 2 * (found.size * squares - sums**2) / (found.size - 1)
    return np.column_stack([disagreement, found.size, sums, squares])


def alphas_of_sums(sums: Floats) -> Floats:
    """Alpha from the totals of `interval_sums` along the last axis, NaN where nothing varies."""
    disagreement, n, total, squares = np.moveaxis(np.asarray(sums), -1, 0)
    expected = 2 * (n * squares - total**2)
    # Rounding leaves a trace of a variance where there is none.
    varies = expected > 1e-12 * n * squares
    return 1 - ratio(disagreement * (n - 1), np.where(varies, expected, 0))


def _unequal(unit: Indices, code: Indices, sizes: Indices) -> Floats:
    """For each unit of m ratings, its ordered pairs of unequal ratings over m - 1."""
    span = int(code.max(initial=0)) + 1
    cells, alike = np.unique(unit * span + code, return_counts=True)
    squares = np.bincount(cells // span, alike**2, minlength=len(sizes))
    return np.asarray((sizes**2 - squares) / (sizes - 1), dtype=np.float64)


def _why_no_alpha(rows: Floats, found: PairableRatings) -> NoValue | None:
    if (~np.isnan(rows)).any(axis=0).sum() < 2:
        return NoValue.ONE_RATER
    if len(found.row) == 0:
        return NoValue.TOO_FEW
    return NoValue.CONSTANT if len(found.domain) == 1 else None


def _share_alike(x: Floats, y: Floats) -> float | None:
    """The share of common units rated alike, null where there is none."""
    common = ~(np.isnan(x) | np.isnan(y))
    return float((x[common] == y[common]).mean()) if common.any() else None


def _with_judge(raters: ArrayLike, judge: ArrayLike) -> Floats:
    rows, column = table(raters), table(np.reshape(judge, (-1, 1)))
    if len(rows) != len(column):
        raise ValueError(f"the judge rates the raters' {len(rows)} units, not {len(column)}")
    return np.hstack([rows, column])
