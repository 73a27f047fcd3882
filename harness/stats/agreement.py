"""Ratings of units x raters, NaN where one is missing, and a judge's, to how far they agree."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from harness.stats import correlation
from harness.stats import estimate as estimates
from harness.stats.clustered import jackknife_interval
from harness.stats.estimate import Estimate, Floats, Indices, NoValue, Resamples, ratio, table
from harness.stats.intervals import Parts
from harness.stats.scales import Range

Scale = Literal["nominal", "ordinal", "interval"]

# The krippendorff package holds units x values x values numbers at once: 256 MiB of them here.
_MOST_COINCIDENCES = 1 << 25


@dataclass(frozen=True, slots=True)
class PairableRatings:
    """The ratings of units that have two or more: `row`, `size` and `unequal` have a unit each."""

    row: Indices
    size: Indices
    unit: Indices
    code: Indices
    domain: Floats
    unequal: Floats


def alpha(ratings: ArrayLike, scale: Scale) -> Estimate:
    """Krippendorff's alpha (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability").

    At most 1; 0 is what chance gives. `n` counts the units with two ratings or more. None: "one
    rater" where fewer rated anything, "too few" without such a unit, "constant" for one value.
    """
    rows = table(ratings)
    pairs = pairable(rows)
    n, skipped = len(pairs.row), len(rows) - len(pairs.row)
    if (~np.isnan(rows)).any(axis=0).sum() < 2:
        return Estimate(None, n, skipped, NoValue.ONE_RATER)
    if n == 0 or len(pairs.domain) == 1:
        return Estimate(None, n, skipped, NoValue.CONSTANT if n else NoValue.TOO_FEW)
    if n * len(pairs.domain) ** 2 > _MOST_COINCIDENCES:
        return Estimate(weighted_alpha(pairs, np.ones(n), scale), n, skipped)
    import krippendorff

    value = krippendorff.alpha(rows[pairs.row].T, level_of_measurement=scale)
    return Estimate(float(value), n, skipped)


def percent_agreement(
    ratings: ArrayLike, pairs: Sequence[tuple[int, int]] | None = None
) -> Estimate:
    """The share of common units two raters rate alike, 0 to 1, the mean over pairs of columns.

    `n` counts the pairs with a common unit. None: "one rater", or "too few" where none has one.
    """
    rows = table(ratings)
    pairs = list(combinations(range(rows.shape[1]), 2)) if pairs is None else pairs
    if len(pairs) == 0:
        return Estimate(None, 0, reason=NoValue.ONE_RATER)
    both = [rows[~np.isnan(rows[:, pair]).any(axis=1)][:, pair] for pair in map(list, pairs)]
    shares = [float((cells[:, 0] == cells[:, 1]).mean()) for cells in both if len(cells)]
    skipped = len(pairs) - len(shares)
    if len(shares) == 0:
        return Estimate(None, 0, skipped, NoValue.TOO_FEW)
    return Estimate(float(np.mean(shares)), len(shares), skipped)


def cohen_kappa(ratings: ArrayLike) -> Estimate:
    """Cohen's kappa of two raters, unweighted (Cohen 1960), -1 to 1; values are nominal.

    `n` counts units both rated. None: "too few" without one, "constant" where both give one value.
    """
    rows = table(ratings)
    if rows.shape[1] != 2:
        raise ValueError(f"kappa compares two raters, not {rows.shape[1]}: give two columns")
    both = rows[~np.isnan(rows).any(axis=1)]
    n, skipped = len(both), len(rows) - len(both)
    if n == 0:
        return Estimate(None, 0, skipped, NoValue.TOO_FEW)
    values, codes = np.unique(both, return_inverse=True)
    first, second = (np.bincount(c, minlength=len(values)) / n for c in codes.reshape(n, 2).T)
    observed, expected = float((both[:, 0] == both[:, 1]).mean()), float(first @ second)
    if len(values) == 1:
        return Estimate(None, n, skipped, NoValue.CONSTANT)
    return Estimate((observed - expected) / (1 - expected), n, skipped)


def attainable_r(human: Estimate) -> Estimate:
    """The correlation of means of this reliability with the truth, 0 to 1 (Spearman 1904)."""
    if human.value is not None and human.value >= 0:
        return Estimate(sqrt(human.value), human.n, human.skipped)
    return Estimate(None, human.n, human.skipped, human.reason or NoValue.UNRELIABLE)


def through(result: Estimate, change: Callable[[Estimate], Estimate]) -> Estimate:
    """A result through a function that only grows, its interval with it; below 0 is 0 there."""
    estimate = change(result)
    if estimate.value is None or result.low is None or result.high is None:
        return estimate.unbounded(estimate.reason or result.why, clusters=result.clusters)
    ends = (change(Estimate(max(0.0, end), n=1)).value for end in (result.low, result.high))
    low, high = (0.0 if end is None else end for end in ends)
    return estimate.between(low, high, clusters=result.clusters)


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
    """Alpha with each unit as often as its weight says; NaN where only one value is left."""
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


def agreement_stats(
    human: ArrayLike,
    judge: ArrayLike,
    resamples: Resamples,
    *,
    documents: Sequence[str] | None = None,
) -> dict[str, Estimate]:
    """Every correlation of a judge with people, by name, with intervals over clusters of documents.

    Of cells and documents the jackknife's, from five clusters on; of systems, which are given,
    percentiles of resampled documents, from twenty on. Rows of one of `documents` are averaged.
    """
    rows, others = estimates.complete(human, judge)
    means, drawn = (
        correlation.system_means(rows, others),
        _drawn_system_means(rows, others, resamples),
    )

    def of_systems(estimate: Estimate, coefficient: correlation.Coefficient) -> Estimate:
        values = _of_systems(*drawn, coefficient)
        found = estimates.drawn_interval(estimate, values, resamples)
        if found.low is not None and resamples.clusters < _FEWEST_DRAWN:
            return found.unbounded(NoValue.TOO_FEW, clusters=resamples.clusters)
        return found

    def of_documents(*, is_zero_filled: bool) -> Estimate:
        whole = correlation.document_tau(rows, others, is_zero_filled=is_zero_filled)
        taus = correlation.document_taus(rows, others, is_zero_filled=is_zero_filled)
        places, taus = document_means(taus, resamples, documents)
        known = estimates.mean_estimate(taus, whole.reason or NoValue.CONSTANT)
        return mean_jackknife(taus, known, places, range_="correlation")

    r = correlation.dataset_pearson(rows, others)
    without = pearsons_without(rows, others, resamples)
    return {
        "pearson_dataset": jackknife_ci(r, without, "correlation", resamples),
        "kendall_document": of_documents(is_zero_filled=False),
        "kendall_document_zero": of_documents(is_zero_filled=True),
        "spearman_system": of_systems(correlation.spearman(*means), "spearman"),
        "pearson_system": of_systems(correlation.pearson(*means), "pearson"),
    }


_FEWEST = 5  # clusters of a jackknife: with fewer, simulated intervals covered 92 to 100 of 100
_FEWEST_DRAWN = 20  # clusters of percentiles: with 10, simulated ones covered 91 of 100


def jackknife_ci(
    estimate: Estimate, without: Floats, range_: Range, clusters: estimates.Clusters
) -> Estimate:
    """An estimate with its interval by leaving out clusters: "too few" below five of them."""
    if estimate.value is not None and len(without) < _FEWEST:
        return estimate.unbounded(NoValue.TOO_FEW, clusters=len(without))
    sizes = np.bincount(clusters.places, minlength=clusters.clusters).astype(np.float64)
    return jackknife_interval(estimate, without, range_=range_, sizes=sizes)


def difference_ci(
    estimate: Estimate, without: Floats, moves: Floats, clusters: estimates.Clusters
) -> Estimate:
    """`jackknife_ci` of a difference, with its test that it is 0.

    `moves` says how far each row, or each cell of one, moves it, NaN for none: how alike the moves
    of a cluster are sets the degrees of freedom.
    """
    cells = moves.reshape(len(moves), -1)
    row, _ = known = np.nonzero(~np.isnan(cells))
    own, places = np.unique(clusters.places[row], return_inverse=True)
    if len(own) < _FEWEST:
        return estimate.unbounded(NoValue.TOO_FEW, clusters=len(own))
    values = cells[known]
    parts = Parts.of(values, float(values.mean()), estimates.Clusters(places, len(own)))
    return jackknife_interval(estimate, without[own], range_="any", parts=parts)


def sums_without(rows: Floats, resamples: Resamples) -> Floats:
    """The sum of the rows' columns over all clusters but one, for each: clusters x columns."""
    totals = resamples.totals(rows)
    return np.asarray(totals.sum(axis=0) - totals, dtype=np.float64)


def mean_jackknife(
    values: Floats, estimate: Estimate, resamples: Resamples, *, range_: Range
) -> Estimate:
    """A mean of rows, NaN where a row has no value, with its interval over clusters."""
    return jackknife_ci(estimate, means_without(values, resamples), range_, resamples)


def means_without(values: Floats, resamples: Resamples) -> Floats:
    """The mean of the rows' values without each cluster, NaN where no row is left with one."""
    is_there = ~np.isnan(values)
    sums = sums_without(np.column_stack([np.nan_to_num(values), is_there]), resamples)
    return ratio(sums[:, 0], sums[:, 1])


def document_means(
    values: Floats, resamples: Resamples, documents: Sequence[str] | None
) -> tuple[Resamples, Floats]:
    """The clusters of documents, each of one, and the mean over its rows, NaN without a value."""
    if documents is None:
        return resamples, values
    _, first, places = np.unique(
        np.asarray(documents, dtype=str), return_index=True, return_inverse=True
    )
    is_there = ~np.isnan(values)
    sums = np.bincount(places, np.nan_to_num(values), minlength=len(first))
    means = ratio(sums, np.bincount(places, is_there, minlength=len(first)))
    return replace(resamples, places=resamples.places[first]), means


def alpha_ci(ratings: ArrayLike, resamples: Resamples, *, scale: Scale) -> Estimate:
    """Alpha of units x raters, or documents x systems x raters, with the jackknife's interval."""
    estimate, without = _alpha_without(ratings, resamples, scale)
    return jackknife_ci(estimate, without, "correlation", resamples)


def alpha_with_each(
    ratings: ArrayLike, judge: ArrayLike, resamples: Resamples, *, scale: Scale
) -> Estimate:
    """The mean over raters of alpha of the judge and that rater alone, with its sd.

    `ratings` are documents x systems x raters, `judge` documents x systems. `n` counts raters with
    an alpha. None: "one rater" without any, or the first one's reason.
    """
    cells, column = np.asarray(ratings, dtype=np.float64), np.asarray(judge, dtype=np.float64)
    pairs = [
        _alpha_without(np.stack([cells[:, :, rater], column], axis=2), resamples, scale)
        for rater in range(cells.shape[2])
    ]
    known = [(one.value, without) for one, without in pairs if one.value is not None]
    skipped = len(pairs) - len(known)
    if not known:
        reason = pairs[0][0].reason if pairs else None
        return Estimate.missing(reason or NoValue.ONE_RATER, 0, skipped=skipped)
    values = np.array([value for value, _ in known])
    without = np.mean([rest for _, rest in known], axis=0)
    estimate = Estimate(float(values.mean()), len(known), skipped, sd=deviation(values))
    return jackknife_ci(estimate, without, "correlation", resamples)


def pairwise_agreement(ratings: Floats, judge: Floats | None, resamples: Resamples) -> Estimate:
    """The share rated alike, over pairs of raters or of the judge with each, with its interval."""
    raters = ratings.shape[2]
    pairs = list(combinations(range(raters), 2))
    if judge is not None:
        pairs = [(place, raters) for place in range(raters)]
        ratings = np.concatenate([ratings, judge[:, :, None]], axis=2)
    units = ratings.reshape(ratings.shape[0] * ratings.shape[1], ratings.shape[2])
    estimate = percent_agreement(units, pairs)
    if estimate.value is None:
        return estimate
    total, counted = np.zeros(resamples.clusters), np.zeros(resamples.clusters)
    alone = []
    for one, other in pairs:
        both = ~np.isnan(ratings[:, :, one]) & ~np.isnan(ratings[:, :, other])
        alike = ratings[:, :, one] == ratings[:, :, other]
        columns = np.column_stack([alike.sum(axis=1), both.sum(axis=1)]).astype(np.float64)
        alone += [float(alike.sum() / both.sum())] if both.any() else []
        shares = ratio(*sums_without(columns, resamples).T)
        total += np.nan_to_num(shares)
        counted += ~np.isnan(shares)
    estimate = replace(estimate, sd=deviation(np.array(alone)))
    return jackknife_ci(estimate, ratio(total, counted), "share", resamples)


def deviation(values: Floats) -> float | None:
    """The standard deviation of a sample, None with fewer than two values."""
    return float(values.std(ddof=1)) if len(values) > 1 else None


def _alpha_without(
    ratings: ArrayLike, resamples: Resamples, scale: Scale
) -> tuple[Estimate, Floats]:
    """Alpha, and alpha without each cluster, NaN where only one value is left."""
    cells = np.asarray(ratings, dtype=np.float64)
    flat = table(cells.reshape(int(np.prod(cells.shape[:-1])), cells.shape[-1]))
    pairs, estimate = pairable(flat), alpha(flat, scale)
    if estimate.value is None:
        return estimate, np.zeros(0)
    row = pairs.row // (cells.shape[1] if cells.ndim == 3 else 1)
    if scale == "interval":
        units = interval_sums(pairs, pairs.domain[pairs.code] - pairs.domain.mean())
        of_units = replace(resamples, places=resamples.places[row])
        return estimate, alphas_of_sums(sums_without(units, of_units))
    return estimate, _alphas_without(pairs, resamples.places[row], resamples.clusters, scale)


def _alphas_without(
    pairs: PairableRatings, cluster: Indices, clusters: int, scale: Scale
) -> Floats:
    """Nominal or ordinal alpha without each cluster, from the coincidences of values in each."""
    values = len(pairs.domain)
    if max(len(pairs.row), clusters) * values**2 > _MOST_COINCIDENCES:
        weights = ((cluster != left).astype(np.float64) for left in range(clusters))
        return np.array([weighted_alpha(pairs, each, scale) for each in weights])
    counts = np.zeros((len(pairs.row), values))
    np.add.at(counts, (pairs.unit, pairs.code), 1)
    both = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(values)
    together = np.zeros((clusters, values, values))
    np.add.at(together, cluster, both / (pairs.size - 1)[:, None, None])
    together = together.sum(axis=0) - together
    number = together.sum(axis=2)
    points = np.cumsum(number, axis=1) - number / 2
    apart = (points[:, :, None] - points[:, None, :]) ** 2
    if scale == "nominal":
        apart = np.broadcast_to(1 - np.eye(values), together.shape)
    observed = (together * apart).sum(axis=(1, 2))
    expected = (number[:, :, None] * number[:, None, :] * apart).sum(axis=(1, 2))
    varies = expected > 1e-9 * number.sum(axis=1) ** 2
    return 1 - ratio(observed * (number.sum(axis=1) - 1), np.where(varies, expected, 0))


def acc_eq(
    human: Floats,
    judge: Floats,
    resamples: Resamples,
    *,
    clusters: Sequence[str],
    documents: Sequence[str],
) -> tuple[Estimate, float | None]:
    """Cross-fitted pairwise accuracy with the jackknife's interval, and the mean epsilon, if any.

    Rows of one document are averaged. The folds, by the seed of the draws, keep their epsilons
    while clusters are left out.
    """
    fit, epsilons, shares = correlation.cross_fitted_acc_eq(
        human, judge, clusters, seed=resamples.seed
    )
    places, shares = document_means(shares, resamples, documents)
    mean = estimates.mean_estimate(shares, fit.reason or NoValue.TOO_FEW)
    found = mean_jackknife(shares, mean, places, range_="share")
    return found, float(np.mean(epsilons)) if epsilons else None


def taus_without(human: Floats, judge: Floats, resamples: Resamples) -> Floats:
    """The mean zero-filled tau of `document_tau`, without the documents of each cluster."""
    return means_without(correlation.document_taus(human, judge, is_zero_filled=True), resamples)


def pearsons_without(human: Floats, judge: Floats, resamples: Resamples) -> Floats:
    """Pearson's r over the cells without those of each cluster, NaN where a side is constant."""
    is_there = ~np.isnan(human)
    x, y = _centred(human), _centred(judge)
    columns = [is_there.astype(np.float64), x, y, x * x, y * y, x * y]
    rows = np.column_stack([column.sum(axis=1) for column in columns])
    n, sx, sy, sxx, syy, sxy = sums_without(rows, resamples).T
    spread = n * sxx - sx**2, n * syy - sy**2
    # Rounding leaves a trace of a variance where there is none.
    varies = (spread[0] > 1e-12 * n * sxx) & (spread[1] > 1e-12 * n * syy)
    length = np.sqrt(np.where(varies, spread[0], 0)) * np.sqrt(np.where(varies, spread[1], 0))
    return np.asarray(np.clip(ratio(n * sxy - sx * sy, length), -1, 1), dtype=np.float64)


def pearson_moves(human: Floats, judge: Floats) -> Floats:
    """How far each cell moves Pearson's r, times their number: its influence (Devlin et al. 1975).

    NaN for a cell without ratings, and for all where a side is constant.
    """
    with np.errstate(invalid="ignore"):
        x, y = ((side - np.nanmean(side)) / np.nanstd(side) for side in (human, judge))
    return np.asarray(x * y - np.nanmean(x * y) * (x**2 + y**2) / 2, dtype=np.float64)


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
    is_there = ~np.isnan(human)
    is_rated = is_there.any(axis=0)  # systems without any cell are left out
    counts = resamples.sums(is_there[:, is_rated].astype(np.float64))
    sums = [resamples.sums(np.nan_to_num(rows[:, is_rated])) for rows in (human, judge)]
    return ratio(sums[0], counts), ratio(sums[1], counts)


def _of_systems(human: Floats, judge: Floats, coefficient: correlation.Coefficient) -> Floats:
    values = np.full(len(human), np.nan)
    if human.shape[1] < 2:
        return values
    is_whole = ~np.isnan(human).any(axis=1)
    values[is_whole] = correlation.row_correlations(human[is_whole], judge[is_whole], coefficient)
    measure = correlation.pearson if coefficient == "pearson" else correlation.spearman
    for draw in np.nonzero(~is_whole)[0]:
        value = measure(human[draw], judge[draw]).value
        values[draw] = np.nan if value is None else value
    return values
