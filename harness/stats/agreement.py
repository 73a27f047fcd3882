"""Ratings of the same units by several raters, and by a judge, to how far they agree.

A table here is units x raters, NaN where a rater saw nothing. A unit is whatever was rated once
by each: a response, or a cell of a table of documents and systems. At the end: every statistic of
a judge and people together, with bootstrap intervals. Statistics that are made of sums over
documents are computed for all draws at once by one matrix product.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from harness.stats.correlation import (
    Coefficient,
    dataset_pearson,
    document_tau,
    document_taus,
    pearson,
    row_correlations,
    spearman,
    system_pearson,
    system_spearman,
)
from harness.stats.estimate import (
    Estimate,
    EstimateCI,
    Floats,
    Indices,
    NoValue,
    Resamples,
    bounds,
    complete,
    drawn_means,
    ratio,
    table,
)

Scale = Literal["nominal", "ordinal", "interval"]

# The krippendorff package holds units x values x values numbers at once: 256 MiB of them here.
_MOST_COINCIDENCES = 1 << 25


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


def alpha(ratings: ArrayLike, scale: Scale) -> Estimate:
    """Krippendorff's alpha (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability").

    1 is perfect agreement, 0 what chance gives, below 0 less than chance. `n` counts the units
    with two ratings or more, `skipped` the others. None: "one rater" where fewer than two
    raters rated anything, "too few" where no unit has two ratings, "constant" where all
    ratings are one value. It assumes that raters are interchangeable.
    """
    rows = table(ratings)
    pairs = pairable(rows)
    n, skipped = len(pairs.row), len(rows) - len(pairs.row)
    if (~np.isnan(rows)).any(axis=0).sum() < 2:
        return Estimate(None, n=n, skipped=skipped, reason=NoValue.ONE_RATER)
    if n == 0 or len(pairs.domain) == 1:
        reason = NoValue.CONSTANT if n else NoValue.TOO_FEW
        return Estimate(None, n=n, skipped=skipped, reason=reason)
    if n * len(pairs.domain) ** 2 > _MOST_COINCIDENCES:
        return Estimate(weighted_alpha(pairs, np.ones(n), scale), n=n, skipped=skipped)
    import krippendorff

    value = krippendorff.alpha(rows[pairs.row].T, level_of_measurement=scale)
    return Estimate(float(value), n=n, skipped=skipped)


def percent_agreement(
    ratings: ArrayLike, pairs: Sequence[tuple[int, int]] | None = None
) -> Estimate:
    """The share of common units two raters rate alike, 0 to 1, averaged over pairs of raters.

    The pairs are columns of the table, None for all pairs, such as those of a judge with each.
    `n` counts pairs of raters, `skipped` those without a common unit. None: "one rater", or
    "too few" where no two raters share a unit. It is not corrected for chance.
    """
    rows = table(ratings)
    pairs = list(combinations(range(rows.shape[1]), 2)) if pairs is None else pairs
    if len(pairs) == 0:
        return Estimate(None, n=0, reason=NoValue.ONE_RATER)
    both = [rows[~np.isnan(rows[:, pair]).any(axis=1)][:, pair] for pair in map(list, pairs)]
    shares = [float((cells[:, 0] == cells[:, 1]).mean()) for cells in both if len(cells)]
    skipped = len(pairs) - len(shares)
    if len(shares) == 0:
        return Estimate(None, n=0, skipped=skipped, reason=NoValue.TOO_FEW)
    return Estimate(float(np.mean(shares)), n=len(shares), skipped=skipped)


def cohen_kappa(ratings: ArrayLike) -> Estimate:
    """Cohen's kappa of two raters, unweighted (Cohen 1960), -1 to 1.

    `n` counts units both rated, `skipped` the others. None: "too few" without a common unit,
    "constant" where both give one and the same value throughout. Values are nominal.
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
    0 to 1. None: as the alpha, or "unreliable" where that is below 0. It assumes raters that
    are equally reliable and err independently.
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
    """The highest correlation that two means of these reliabilities can have, 0 to 1.

    sqrt(human x judge) (Spearman 1904): their correlation if they measured the same. A judge
    that always answers alike has reliability 1. None: the first reason of the two, or
    "unreliable" where a reliability is below 0.
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
    is_there, sizes = ~np.isnan(rows[kept]), sizes[kept]
    domain, code = np.unique(rows[kept][is_there], return_inverse=True)
    unit = np.nonzero(is_there)[0]
    # For each unit of m ratings, its ordered pairs of unequal ratings over m - 1.
    span = int(code.max(initial=0)) + 1
    cells, alike = np.unique(unit * span + code, return_counts=True)
    squares = np.bincount(cells // span, alike**2, minlength=len(sizes))
    unequal = np.asarray((sizes**2 - squares) / (sizes - 1), dtype=np.float64)
    return PairableRatings(kept, sizes, unit, code, domain, unequal)


def weighted_alpha(pairs: PairableRatings, weights: Floats, scale: Scale) -> float:
    """Alpha with each unit as often as its weight says; NaN where only one value is left.

    The coincidence matrix is never built. The ordinal distance is the interval distance of
    mid-ranks, and squared differences within a unit of m ratings sum to 2 (m Sxx - Sx Sx),
    so that a weighted alpha is a handful of sums over the ratings.
    """
    counts = np.asarray(
        np.bincount(pairs.code, weights[pairs.unit], len(pairs.domain)), dtype=np.float64
    )
    if scale == "nominal":
        n = counts.sum()
        expected = n**2 - (counts**2).sum()
        return float(1 - ratio(weights @ pairs.unequal * (n - 1), expected))
    if scale == "ordinal":
        points = (np.cumsum(counts) - (counts + counts.sum()) / 2)[pairs.code]
    else:
        points = pairs.domain[pairs.code] - pairs.domain.mean()
    return float(alphas_of_sums(weights @ interval_sums(pairs, points)))


def interval_sums(pairs: PairableRatings, points: Floats) -> Floats:
    """What a unit adds to alpha: disagreement, number, sum and sum of squares of its ratings."""
    units = len(pairs.row)
    sums = np.bincount(pairs.unit, points, minlength=units)
    squares = np.bincount(pairs.unit, points**2, minlength=units)
    disagreement = 2 * (pairs.size * squares - sums**2) / (pairs.size - 1)
    return np.column_stack([disagreement, pairs.size, sums, squares])


def alphas_of_sums(sums: Floats) -> Floats:
    """Alpha from the totals of `interval_sums` along the last axis, NaN where nothing varies."""
    disagreement, n, total, squares = np.moveaxis(np.asarray(sums), -1, 0)
    expected = 2 * (n * squares - total**2)
    # Rounding leaves a trace of a variance where there is none.
    varies = expected > 1e-12 * n * squares
    return 1 - ratio(disagreement * (n - 1), np.where(varies, expected, 0))


@dataclass(frozen=True, slots=True)
class AgreementStats:
    """A judge's correlations with people at every level, from one set of resamples."""

    dataset_pearson: EstimateCI
    document_tau: EstimateCI
    system_spearman: EstimateCI
    system_pearson: EstimateCI


def agreement_stats(
    human: ArrayLike, judge: ArrayLike, resamples: Resamples, *, level: float = 0.95
) -> AgreementStats:
    """Every correlation of a judge with people, with intervals over clusters of documents.

    Resampling documents shows how the values would move with other documents, not with other
    systems: for that, see `fisher_interval` and the number of systems.
    """
    rows, others = complete(human, judge)
    taus = document_taus(rows, others)
    means = _drawn_system_means(rows, others, resamples)

    def with_ci(estimate: Estimate, values: Floats) -> EstimateCI:
        return EstimateCI(estimate, bounds(estimate, values, resamples, level=level))

    return AgreementStats(
        with_ci(dataset_pearson(rows, others), _drawn_pearson(rows, others, resamples)),
        with_ci(document_tau(rows, others), drawn_means(taus, resamples)),
        with_ci(system_spearman(rows, others), _of_systems(*means, "spearman")),
        with_ci(system_pearson(rows, others), _of_systems(*means, "pearson")),
    )


def alpha_ci(
    ratings: ArrayLike, resamples: Resamples, *, scale: Scale, level: float = 0.95
) -> EstimateCI:
    """Krippendorff's alpha with its interval over clusters of units.

    `ratings` are units x raters, or documents x systems x raters: rows are what was resampled,
    and all cells of a document go with it.
    """
    cells = np.asarray(ratings, dtype=np.float64)
    if len(cells) != len(resamples.places):
        raise ValueError(f"{len(resamples.places)} rows were resampled, not {len(cells)}")
    flat = table(cells.reshape(int(np.prod(cells.shape[:-1])), cells.shape[-1]))
    pairs, estimate = pairable(flat), alpha(flat, scale)
    row = pairs.row // (cells.shape[1] if cells.ndim == 3 else 1)
    if estimate.value is None:
        values = np.zeros(0)
    elif scale == "interval":
        units = interval_sums(pairs, pairs.domain[pairs.code] - pairs.domain.mean())
        documents = np.zeros((len(cells), units.shape[1]))
        np.add.at(documents, row, units)
        values = alphas_of_sums(resamples.sums(documents))
    else:
        values = np.array([weighted_alpha(pairs, w[row], scale) for w in resamples.weights()])
    return EstimateCI(estimate, bounds(estimate, values, resamples, level=level))


def _drawn_pearson(human: Floats, judge: Floats, resamples: Resamples) -> Floats:
    is_there = ~np.isnan(human)
    x, y = _centred(human), _centred(judge)
    columns = [is_there.astype(np.float64), x, y, x * x, y * y, x * y]
    n, sx, sy, sxx, syy, sxy = resamples.sums(np.column_stack([c.sum(axis=1) for c in columns])).T
    spread = n * sxx - sx**2, n * syy - sy**2
    # Rounding leaves a trace of a variance where there is none.
    varies = (spread[0] > 1e-12 * n * sxx) & (spread[1] > 1e-12 * n * syy)
    length = np.sqrt(np.where(varies, spread[0], 0)) * np.sqrt(np.where(varies, spread[1], 0))
    return np.asarray(np.clip(ratio(n * sxy - sx * sy, length), -1, 1), dtype=np.float64)


def _centred(ratings: Floats) -> Floats:
    """The ratings less their mean, in units of the greatest distance, missing cells zero."""
    known = ratings[~np.isnan(ratings)]
    if len(known) == 0:
        return np.zeros(ratings.shape)
    centred = np.nan_to_num(ratings - known.mean())
    return np.asarray(centred / (np.abs(centred).max() or 1.0), dtype=np.float64)


def _drawn_system_means(
    human: Floats, judge: Floats, resamples: Resamples
) -> tuple[Floats, Floats]:
    """Each system's means in each draw, draws x systems, NaN where a draw leaves it no cell."""
    # Systems without any cell are left out.
    is_there = ~np.isnan(human)
    is_rated = is_there.any(axis=0)
    counts = resamples.sums(is_there[:, is_rated].astype(np.float64))
    sums = [resamples.sums(np.nan_to_num(rows[:, is_rated])) for rows in (human, judge)]
    return ratio(sums[0], counts), ratio(sums[1], counts)


def _of_systems(human: Floats, judge: Floats, coefficient: Coefficient) -> Floats:
    values = np.full(len(human), np.nan)
    if human.shape[1] < 2:
        return values
    is_whole = ~np.isnan(human).any(axis=1)
    values[is_whole] = row_correlations(human[is_whole], judge[is_whole], coefficient)
    measure = pearson if coefficient == "pearson" else spearman
    for draw in np.nonzero(~is_whole)[0]:
        value = measure(human[draw], judge[draw]).value
        values[draw] = np.nan if value is None else value
    return values
