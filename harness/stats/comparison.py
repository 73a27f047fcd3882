"""Tests of two judges against people, and of two sets of verdicts; the value is the statistic."""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.stats.clustered import jackknife_interval
from harness.stats.estimate import Bools, Clusters, Estimate, Floats, Names, NoValue, ratio, table
from harness.stats.intervals import Parts, mean_interval
from harness.stats.scales import ROUNDING

Flags = Sequence[bool] | Bools
Alternative = Literal["two-sided", "greater"]


def williams_test(
    first: float, second: float, between: float, *, n: int, alternative: Alternative = "two-sided"
) -> Estimate:
    """Williams' test of two correlations that share a variable (Williams 1959; Steiger 1980).

    `first` and `second` are the two judges' Pearson correlations with people, `between` that of
    the judges, over `n` cells; "greater" asks whether the first is greater. It assumes independent
    cells: where judges err alike within a dialogue, it finds what is not there in 11 to 33 of 100
    comparisons. None: "too few" below four cells, "degenerate" without a variance.
    """
    if n < 4:
        return Estimate.missing(NoValue.TOO_FEW, n)
    determinant = 1 - first**2 - second**2 - between**2 + 2 * first * second * between
    mean = (first + second) / 2
    variance = 2 * determinant * (n - 1) / (n - 3) + mean**2 * (1 - between) ** 3
    if determinant < -ROUNDING or variance <= ROUNDING**2:
        return Estimate.missing(NoValue.DEGENERATE, n)
    from scipy.stats import t

    statistic = (first - second) * sqrt((n - 1) * (1 + between) / variance)
    tail = t.sf(abs(statistic), n - 3) * 2 if alternative == "two-sided" else t.sf(statistic, n - 3)
    return Estimate(statistic, n, p=float(tail))


def holm(p: Sequence[float | None]) -> tuple[float | None, ...]:
    """The p-values as adjusted by Holm (1979); None stays None and is not counted."""
    if bad := [value for value in p if value is not None and not 0 <= value <= 1]:
        raise ValueError(f"p-values lie in 0..1, not {bad[0]!r}")
    found = iter(holm_of(np.array([value for value in p if value is not None])).tolist())
    return tuple(None if value is None else next(found) for value in p)


def holm_of(p: Floats) -> Floats:
    """An array of p-values as adjusted by Holm."""
    order = np.argsort(p, kind="stable")
    found = np.empty(len(p))
    found[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.minimum(found, 1.0)


Alignment = Literal["accuracy", "rmse"]
_RATE = 0.05  # the false discovery rate of the paper


def annotator_test(
    raters: ArrayLike,
    judge: ArrayLike,
    *,
    alignment: Alignment,
    epsilon: float,
    least_units: int = 30,
    clusters: Sequence[str] | None = None,
) -> tuple[Estimate, ...]:
    """The alternative annotator test: winning and losing rate of the judge, and its advantage.

    Calderon, Reichart & Dror (ACL 2025, arXiv 2501.10970): each rater is left out in turn, and the
    judge has to agree with the remaining raters as well; it passes with a winning rate of one half
    or more. The losing rate is of the raters that agree better than it does by more than epsilon:
    with less than one half of both the ratings cannot tell. The advantage is the mean share of a
    rater's units where the judge is at least as near. `raters` is units x raters; "accuracy" is for
    labels, "rmse" for ratings. Units with two raters and a judge's rating count; raters with fewer
    than `least_units`, or all of one cluster, are skipped. The t-test keeps clusters whole, as
    `Parts`, where given. `n` counts raters. None: "one rater" where fewer than two rated
    anything, "too few" without such a rater.
    """
    rows, column = table(raters), table(np.reshape(judge, (-1, 1)))
    names = np.arange(len(rows)) if clusters is None else np.asarray(clusters, dtype=str)
    has_two = (~np.isnan(rows)).any(axis=0).sum() >= 2
    is_kept = ((~np.isnan(rows)).sum(axis=1) >= 2) & ~np.isnan(column[:, 0])
    rows, column, names = rows[is_kept], column[is_kept], names[is_kept]
    seen = [~np.isnan(ratings) for ratings in rows.T]
    enough = [s.sum() >= max(2, least_units) and len(np.unique(names[s])) > 1 for s in seen]
    places = [place for place, is_enough in enumerate(enough) if is_enough]
    skipped = rows.shape[1] - len(places)
    if not places:
        none = Estimate(None, 0, skipped, NoValue.TOO_FEW if has_two else NoValue.ONE_RATER)
        return none, none, none
    wins = [_wins(rows, column, rater=place, alignment=alignment) for place in places]
    known = [(them - it, names[seen[at]]) for at, (it, them) in zip(places, wins, strict=True)]
    won = _share_found([_p_below(gap - epsilon, own) for gap, own in known])
    lost = _share_found([_p_below(epsilon - gap, own) for gap, own in known])
    found = won, lost, float(np.mean([machine.mean() for machine, _ in wins]))
    return tuple(Estimate(value, len(wins), skipped) for value in found)


def _share_found(ps: Sequence[float]) -> float:
    from scipy.stats import false_discovery_control

    return float(np.mean(false_discovery_control(ps, method="by") <= _RATE))


def _wins(
    rows: Floats, judge: Floats, *, rater: int, alignment: Alignment
) -> tuple[Floats, Floats]:
    """For each unit: is the judge as near to the other raters as this one, and the reverse?"""
    # 1 or 0; both are 1 where they tie.
    own = rows[:, [rater]]
    seen = ~np.isnan(own[:, 0])
    others = np.delete(rows, rater, axis=1)[seen]
    lead = _near(judge[seen], others, alignment) - _near(own[seen], others, alignment)
    return (lead >= -ROUNDING).astype(np.float64), (lead <= ROUNDING).astype(np.float64)


def _near(ratings: Floats, others: Floats, alignment: Alignment) -> Floats:
    """How near a rating is to the others of its unit: share alike, or minus the RMSE."""
    if alignment == "accuracy":
        alike = np.where(np.isnan(others), np.nan, ratings == others)
        return np.asarray(np.nanmean(alike, axis=1), dtype=np.float64)
    return np.asarray(-np.sqrt(np.nanmean((ratings - others) ** 2, axis=1)), dtype=np.float64)


def _p_below(differences: Floats, clusters: NDArray[np.generic]) -> float:
    """The one-sided p of Student's t that the mean lies below 0, by the error of `Parts`."""
    from scipy.special import stdtr

    mean = float(differences.mean())
    parts = Parts.of(differences, mean, Clusters.named(clusters.tolist()))
    if parts.error <= ROUNDING:  # t is infinite, and p 0 or 1: all units agree
        return float(mean > -ROUNDING)
    return float(stdtr(parts.degrees, mean / parts.error))


def most_over_constant(sizes: Sequence[int], right: Sequence[float], clusters: int) -> float:
    """By how much at most an accuracy is above that of the best constant answer: a sure bound.

    `sizes` are the numbers of texts of each kind, `right` the shares of them named rightly.
    On one text the difference of both accuracies is 1 if a rarer kind is named rightly, and -1 if
    the most common one is not. Its mean is normal, with no more independent texts than clusters:
    the bound is the upper end of its 95 % interval.
    """
    most, total = max(range(len(sizes)), key=sizes.__getitem__), sum(sizes)
    named = [n * share for n, share in zip(sizes, right, strict=True)]
    gained, lost = sum(named) - named[most], sizes[most] - named[most]
    mean = (gained - lost) / total
    return mean + 1.96 * sqrt(max(0.0, (gained + lost) / total - mean**2) / clusters)


Fourfold = tuple[int, int, int, int]
"""How many items are right in both, in the first alone, in the second alone, in neither."""


def fourfold(first: Flags, second: Flags) -> Fourfold:
    """The fourfold table of two sets of verdicts, an item at each place."""
    one, other = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    both, ours, theirs = int((one & other).sum()), int(one.sum()), int(other.sum())
    return both, ours - both, theirs - both, len(one) - ours - theirs + both


def share_given(readings: tuple[Flags, Flags], clusters: Names, *, given: bool) -> Estimate:
    """How often the second is right, of the items where the first is as `given`; 0 to 1.

    The interval is that of a share. None: "too few" without such an item.
    """
    first, second = (np.asarray(side, dtype=bool) for side in readings)
    own, values = first == given, second.astype(np.float64)
    places = Clusters.named(clusters).places
    found = mean_interval(values[own], places[own], is_share=True)
    return replace(found, skipped=len(first) - found.n)


def phi(first: Flags, second: Flags, clusters: Names) -> Estimate:
    """The phi coefficient of two variables that are 0 or 1 (Yule 1912), -1 to 1, by the jackknife.

    None: "constant" where one is always right or always wrong, "too few" without an item.
    """
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    columns = np.column_stack([one * other, one, other, np.ones(len(one))])
    sums = Clusters.named(clusters).totals(columns)
    total = sums.sum(axis=0, keepdims=True)
    value = float(_phis(total)[0])
    if np.isnan(value):
        return Estimate.missing(NoValue.CONSTANT if len(one) else NoValue.TOO_FEW, n=len(one))
    estimate = Estimate(value, n=len(one))
    found = jackknife_interval(estimate, _phis(total - sums), range_="any", sizes=sums[:, 3])
    return found.within(-1, 1)


def _phis(sums: Floats) -> Floats:
    """Phi from rows of: both right, first right, second right, all; NaN where a margin is empty."""
    both, first, second, n = sums.T
    margins = first * (n - first) * second * (n - second)
    return ratio(n * both - first * second, np.sqrt(margins))
