"""Two readings of the same items: how often they agree, and whether one is right more often.

A reading is right or wrong; items lacking either, and ties, are left out before. Items may come in
clusters, which are drawn and flipped whole; the counts of a fourfold table know no clusters, so
its tests are for items that are independent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from harness.parts import digest
from harness.stats.estimate import Bounds, Estimate, Floats, NoValue, Significance, ratio
from harness.stats.intervals import mean_interval
from harness.stats.resampling import EstimateCI, Resamples, bounds, mean_figure

_ROUNDING = 1e-12  # sums nearer than this, relative to what they are made of, are equal
_CELLS = 1 << 21  # signs drawn at a time: 16 MiB of numbers


@dataclass(frozen=True, slots=True)
class Fourfold:
    """How many items both readings have right, the first alone, the second alone, neither."""

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
        """The items that one reading alone has right."""
        return self.only_first + self.only_second


def fourfold(first: Sequence[bool], second: Sequence[bool]) -> Fourfold:
    """The fourfold table of two readings, an item at each place."""
    pairs = list(zip(first, second, strict=True))
    return Fourfold(
        both=pairs.count((True, True)),
        only_first=pairs.count((True, False)),
        only_second=pairs.count((False, True)),
        neither=pairs.count((False, False)),
    )


def mcnemar_exact(table: Fourfold) -> Significance:
    """McNemar's test as the exact binomial test it is: is one reading right more often?

    McNemar (1947, Psychometrika 12); Dixon & Mood (1946, "The Statistical Sign Test"): if neither
    is, each discordant item is a fair coin. p, two-sided, is twice the binomial tail that begins
    at the smaller count, at most 1. The statistic is the count of the first alone less that of
    the second, `n` the discordant items. Without any p is 1: the table is then the only one there
    can be. Null: "too few" without an item.
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
    rejects more often than the exact test, which rejects too seldom. Null: "degenerate" without
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
    section 3.8). `n` counts items. Null: "too few" without an item; no interval where all items
    differ alike ("constant") or stand in one cluster ("too few").
    """
    differences = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    if not (count := len(differences)):
        estimate = Estimate(None, n=0, reason=NoValue.TOO_FEW)
    else:
        estimate = Estimate(float(differences.mean()), n=count)
    return mean_figure(differences, estimate, resamples)


def share_given(
    readings: tuple[Sequence[bool], Sequence[bool]],
    clusters: Sequence[str],
    *,
    given: bool,
    seed: str,
    draws: int = 2000,
) -> EstimateCI:
    """How often the second reading is right, of the items where the first is as `given`.

    The share of those items and its interval are `intervals.mean_interval`'s: a share of 0 or 1
    has the exact bounds of Clopper & Pearson. `n` counts these items, `skipped` the others. Null:
    "too few" where there is none.
    """
    triples = list(zip(*readings, clusters, strict=True))
    held = [(float(second), cluster) for first, second, cluster in triples if first == given]
    found = mean_interval([v for v, _ in held], [c for _, c in held], seed=seed, draws=draws)
    gap = NoValue.TOO_FEW if found.value is None else None
    estimate = Estimate(found.value, n=found.n, skipped=len(triples) - found.n, reason=gap)
    is_bounded = found.low is not None
    ends = Bounds(found.low, found.high, n=draws, reason=None if is_bounded else NoValue.TOO_FEW)
    return EstimateCI(estimate, ends)


def phi(first: Sequence[bool], second: Sequence[bool], resamples: Resamples) -> EstimateCI:
    """The phi coefficient of two readings: Pearson's r of two variables that are 0 or 1.

    (both x neither - only first x only second) over the root of the product of the four margins
    (Yule 1912, "On the Methods of Measuring Association between Two Attributes"), -1 to 1, its
    interval from clusters drawn anew. Null: "constant" where a reading is always right or always
    wrong, "too few" without an item.
    """
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    columns = np.column_stack([one * other, one, other, np.ones(len(one))])
    value = float(_phis(columns.sum(axis=0)[None, :])[0])
    if np.isnan(value):
        gap = NoValue.CONSTANT if len(one) else NoValue.TOO_FEW
        estimate = Estimate(None, n=len(one), reason=gap)
    else:
        estimate = Estimate(value, n=len(one))
    return EstimateCI(estimate, bounds(estimate, _phis(resamples.sums(columns)), resamples))


def sign_flip_test(
    differences: ArrayLike, clusters: Sequence[str], *, seed: str, draws: int = 2000
) -> Significance:
    """The paired permutation test: could the sum of the differences as well have been its mirror?

    If the two readings are exchangeable, each cluster's differences might as well have had the
    other sign (Fisher 1935, "The Design of Experiments", section 21); clusters are flipped whole.
    All signs are gone through where there are at most `draws` of them, else they are drawn and
    the data at hand is counted among them. p is two-sided, the statistic the mean difference,
    `n` the clusters. Without any difference p is 1. Null: "too few" without an item.
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
        found = np.abs(_all_signs(len(there)) @ there)
        p = float((found >= least).mean())
    else:
        p = (_reached(there, float(least), seed=seed, draws=draws) + 1) / (draws + 1)
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


def _reached(sums: Floats, least: float, *, seed: str, draws: int) -> int:
    """How many draws of signs give a sum at least so far from 0."""
    generator = np.random.default_rng(int(digest(seed), 16))
    found, step = 0, max(1, _CELLS // len(sums))
    for start in range(0, draws, step):
        size = (min(step, draws - start), len(sums))
        signs = generator.integers(0, 2, size=size, dtype=np.int8) * 2.0 - 1
        found += int((np.abs(signs @ sums) >= least).sum())
    return found
