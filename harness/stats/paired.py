"""Two sets of verdicts on the same items to how they agree, and which is right more often.

A verdict is right or wrong; items that lack one, and ties, are left out before. Items may come in
clusters, which are drawn and flipped whole; the tests of a fourfold table assume that items are
independent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from harness.stats.estimate import Bounds, Estimate, Floats, NoValue, Significance, ratio
from harness.stats.intervals import (
    EstimateCI,
    Resamples,
    bounds,
    mean_ci,
    mean_interval,
    random_signs,
)

_ROUNDING = 1e-12  # sums nearer than this, relative to what they are made of, are equal


@dataclass(frozen=True, slots=True)
class Fourfold:
    """How many items are right in both, in the first alone, in the second alone, in neither."""

    both: int
    only_first: int
    only_second: int
    neither: int

    @property
    def n(self) -> int:
        """All items."""
        return self.both + self.discordant + self.neither

    @property
    def discordant(self) -> int:
        """The items that are right in one of the two alone."""
        return self.only_first + self.only_second


def fourfold(first: Sequence[bool], second: Sequence[bool]) -> Fourfold:
    """The fourfold table of two sets of verdicts, an item at each place."""
    pairs = list(zip(first, second, strict=True))
    return Fourfold(
        both=pairs.count((True, True)),
        only_first=pairs.count((True, False)),
        only_second=pairs.count((False, True)),
        neither=pairs.count((False, False)),
    )


def mcnemar_exact(table: Fourfold) -> Significance:
    """McNemar's exact test: is one of the two right more often?

    McNemar (1947, Psychometrika 12); Dixon & Mood (1946, "The Statistical Sign Test"): if neither
    is, each discordant item is a fair coin, items being independent. p, two-sided, is twice the
    binomial tail that begins at the smaller count, at most 1. The statistic is the count of the
    first alone less that of the second, `n` the discordant items. Without any p is 1: no other
    table is possible then. None: "too few" without an item.
    """
    if table.n == 0:
        return Significance(None, None, n=0, reason=NoValue.TOO_FEW)
    n, least = table.discordant, min(table.only_first, table.only_second)
    tail, ways = 0, 1
    for count in range(least + 1):
        tail, ways = tail + ways, ways * (n - count) // (count + 1)
    p = min(1.0, 2 * tail / 2**n)
    return Significance(float(table.only_first - table.only_second), p, n=n)


def mcnemar_mid_p(table: Fourfold) -> Significance:
    """McNemar's test by mid-p: outcomes as extreme as the one at hand count half.

    Fagerland, Lydersen & Laake (2013, BMC Medical Research Methodology 13:91): the exact p less
    the probability of the count at hand, or 1 less half of it where both counts are equal. It
    rejects more often than the exact test, which rejects too seldom. None: "degenerate" without
    a discordant item, where the formula gives .5 whatever else there is; "too few" without any.
    """
    exact = mcnemar_exact(table)
    if exact.p is None or table.discordant == 0:
        return Significance(None, None, n=0, reason=exact.reason or NoValue.DEGENERATE)
    at_hand = comb(table.discordant, table.only_first) / 2**table.discordant
    is_even = table.only_first == table.only_second
    p = 1 - at_hand / 2 if is_even else exact.p - at_hand
    return Significance(exact.statistic, p, n=exact.n)


def mean_difference(first: ArrayLike, second: ArrayLike, resamples: Resamples) -> EstimateCI:
    """The mean of the first less that of the second, over the same items, with its interval.

    Percentile bootstrap over clusters of the items' own differences (Davison & Hinkley 1997,
    section 3.8). `n` counts items. None: "too few" without an item; no interval where all items
    differ alike ("constant") or are of one cluster ("too few").
    """
    differences = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    if not (n := len(differences)):
        return EstimateCI.missing(NoValue.TOO_FEW, n=0)
    return mean_ci(differences, Estimate(float(differences.mean()), n=n), resamples)


def share_given(
    readings: tuple[Sequence[bool], Sequence[bool]],
    clusters: Sequence[str],
    *,
    given: bool,
    seed: str,
    draws: int = 2000,
) -> EstimateCI:
    """How often the second is right, of the items where the first is as `given`; 0 to 1.

    The share of those items and its interval are `intervals.mean_interval`'s: a share of 0 or 1
    has the exact bounds of Clopper & Pearson. `n` counts these items, `skipped` the others. None:
    "too few" where there is none.
    """
    triples = list(zip(*readings, clusters, strict=True))
    chosen = [(float(second), cluster) for first, second, cluster in triples if first == given]
    share = mean_interval([v for v, _ in chosen], [c for _, c in chosen], seed=seed, draws=draws)
    reasons = [NoValue.TOO_FEW if part is None else None for part in (share.value, share.low)]
    estimate = Estimate(share.value, share.n, len(triples) - share.n, reasons[0])
    return EstimateCI(estimate, Bounds(share.low, share.high, n=draws, reason=reasons[1]))


def phi(first: Sequence[bool], second: Sequence[bool], resamples: Resamples) -> EstimateCI:
    """The phi coefficient: Pearson's r of two variables that are 0 or 1.

    (both x neither - only first x only second) over the root of the product of the four margins
    (Yule 1912, "On the Methods of Measuring Association between Two Attributes"), -1 to 1, its
    interval from clusters drawn anew. None: "constant" where one of the two is always right or
    always wrong, "too few" without an item.
    """
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    columns = np.column_stack([one * other, one, other, np.ones(len(one))])
    value = float(_phis(columns.sum(axis=0)[None, :])[0])
    if np.isnan(value):
        return EstimateCI.missing(NoValue.CONSTANT if len(one) else NoValue.TOO_FEW, n=len(one))
    estimate = Estimate(value, n=len(one))
    return EstimateCI(estimate, bounds(estimate, _phis(resamples.sums(columns)), resamples))


def sign_flip_test(
    differences: ArrayLike, clusters: Sequence[str], *, seed: str, draws: int = 2000
) -> Significance:
    """The paired permutation test: is the mean difference more than chance?

    If the two sides are exchangeable, each cluster's differences might as well have had the
    other sign (Fisher 1935, "The Design of Experiments", section 21); clusters are flipped whole.
    All signs are tried where there are at most `draws` of them, else they are drawn and the data
    at hand is counted among them. p is two-sided, the statistic the mean difference, `n` the
    clusters. Without any difference p is 1. None: "too few" without an item.
    """
    values = np.asarray(differences, dtype=np.float64)
    names, places = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    if len(values) == 0:
        return Significance(None, None, n=0, reason=NoValue.TOO_FEW)
    sums: Floats = np.zeros(len(names))
    np.add.at(sums, places, values)
    there = sums[np.abs(sums) > _ROUNDING * max(1.0, float(np.abs(values).max()))]
    least = abs(there.sum()) - _ROUNDING * np.abs(there).sum()
    if 2 ** len(there) <= draws:
        p = float((np.abs(_all_signs(len(there)) @ there) >= least).mean())
    else:
        blocks = random_signs(len(there), seed=seed, draws=draws)
        reached = sum(int((np.abs(signs @ there) >= least).sum()) for signs in blocks)
        p = (reached + 1) / (draws + 1)
    return Significance(float(values.mean()), p, n=len(names))


def _phis(sums: Floats) -> Floats:
    """Phi from rows of: both right, first right, second right, all; NaN where a margin is empty."""
    both, first, second, n = sums.T
    margins = first * (n - first) * second * (n - second)
    return ratio(n * both - first * second, np.sqrt(margins))


def _all_signs(count: int) -> Floats:
    """Every way to give so many numbers a sign, a row each."""
    bits = np.arange(2**count)[:, None] >> np.arange(count) & 1
    return np.asarray(1.0 - 2.0 * bits, dtype=np.float64)
