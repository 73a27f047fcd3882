"""Means and gaps of shares of items in clusters, with their tests."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, copysign, fsum, inf, isfinite, sqrt

import numpy as np
from numpy.typing import ArrayLike

from harness.stats import intervals, scales
from harness.stats.estimate import Clusters, Estimate, Floats, Limits, Names, NoValue
from harness.stats.intervals import LEAST_CLUSTERS, Parts, Share, clustered_share


def clustered_mean(
    values: ArrayLike, clusters: Names, *, level: float = 0.95, limits: Limits | None = None
) -> Estimate:
    """The mean of items with the interval of `cluster_interval`, and its test that it is zero.

    Miller 2024, "Adding Error Bars to Evals", arXiv 2411.00640. The interval is cut off at the
    `limits` of the values, where all lie within. No value, and "too few", without an item.
    ValueError for values that are not finite.
    """
    rows: Floats = np.asarray(values, dtype=np.float64)
    intervals.check_values(rows, clusters)
    own = Clusters.named(clusters)
    if not (n := len(rows)):
        return Estimate.missing(NoValue.TOO_FEW, n=0)
    estimate = Estimate(value := scales.exact_mean(rows), n=n)
    with np.errstate(over="ignore", invalid="ignore"):
        parts = Parts.of(rows, value, own)
    found = intervals.cluster_interval(estimate, parts, level=level)
    if found.why is not None:
        return found
    statistic = value / parts.error
    found = intervals.limited(found, rows.tolist(), limits)
    return replace(found, statistic=statistic, p=scales.student_p(statistic, parts.degrees))


def detectable_difference(
    reach: float, clusters: float, *, level: float = 0.95, power: float = 0.8, tests: int = 1
) -> float:
    """The true difference that a test of this precision finds with a probability of `power`.

    `reach` is how far the interval of `level` goes to either side (Bloom 1995, "Minimum Detectable
    Effects", Evaluation Review 19:547), `clusters` what an estimate is `worth`. Of several tests
    that are corrected together, each is taken to be the one of the least p (Bonferroni). ValueError
    unless more than one cluster.
    """
    if clusters <= 1:
        raise ValueError(f"{clusters} clusters have no error; give two or more")
    from scipy.special import stdtrit

    tails = (1 - level) / 2, (1 - level) / 2 / tests, 1 - power
    sure, least, found = (-float(stdtrit(clusters - 1, tail)) for tail in tails)
    return reach * (least + found) / sure


def clusters_needed(
    values: ArrayLike, clusters: Names, margin: float, *, level: float = 0.95, power: float = 0.8
) -> int:
    """How many clusters like these a mean that is truly 0 needs, so that `margin` is ruled out.

    With this `power` the interval of `level` then ends below `margin`, above 0 (normal theory; as
    for equivalence, Julious 2004, Statistics in Medicine 23:1921). One cluster more is taken to
    differ by 1, as where few do or none their share is hardly known. ValueError without a cluster.
    """
    rows: Floats = np.asarray(values, dtype=np.float64)
    if (count := (own := Clusters.named(clusters)).clusters) < 1:
        raise ValueError("no cluster; give one or more")
    error = Parts.of(rows, float(rows.mean()), own).error if count > 1 else 0.0
    reach = scales.normal_reach(level) + scales.normal_reach(2 * power - 1)
    variance = error**2 + 1 / count**2
    return ceil(count * variance * (reach / margin) ** 2)


def paired_gap(
    first: ArrayLike, second: ArrayLike, clusters: Names, *, level: float = 0.95
) -> Estimate:
    """How much greater a share is than another of the same items, -1 to 1; values are 0 to 1.

    Tango's score interval (1998, Statistics in Medicine 17:891), which holds its level where few
    items differ or none. Clusters whose items differ alike are its pairs. Else items are worth as
    many as would have this error if they were independent, with Student's t of the degrees of
    `Parts`. p of pairs is McNemar's exact one (1947): where neither is better, each that differs is
    a fair coin (Dixon & Mood 1946); it may be above .05 though the interval leaves out 0. Else p is
    of Tango's score at 0. No interval and no p: "too few" below three clusters.
    """
    rows: Floats = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    own, n = Clusters.named(clusters), len(rows)
    if n == 0:
        return Estimate.missing(NoValue.TOO_FEW, n=0)
    gap = Estimate(float(rows.mean()), n)
    if own.clusters < LEAST_CLUSTERS:
        return gap.unbounded(NoValue.TOO_FEW, clusters=own.clusters)
    sums, sizes = own.totals(rows), own.totals(np.ones(n))
    is_plain = bool(np.ptp(sizes) == 0 and (own.totals(np.abs(rows)) == np.abs(sums)).all())
    is_plain = not rows.any() or (is_plain and bool(np.isin(np.abs(sums), (0, sizes[0])).all()))
    more, less = (float(np.clip(side * rows, 0, None).mean()) for side in (1, -1))
    parts = Parts.of(rows, float(rows.mean()), own)
    worth, degrees = 1 / float((parts.weights**2).sum()), None
    if not is_plain:
        variance, degrees = parts.error**2, parts.degrees
        alone = parts.within * n / (n - 1)  # n times the variance of a mean without clusters
        worth = min(float(n), alone / variance) if variance > scales.ROUNDING**2 else worth
    reach = (
        scales.normal_reach(level) if degrees is None else scales.student_t(degrees, level=level)
    )
    low, high = (_tango_end(more, less, worth, end * reach) for end in (1, -1))
    score = (more - less) * sqrt(worth / (more + less)) if more + less > 0 else 0.0
    counts = int((sums > 0).sum()), int((sums < 0).sum())
    p = fair_coins(*counts) if degrees is None else scales.student_p(score, degrees)
    found = gap.between(low, high, clusters=own.clusters, degrees=degrees)
    return replace(found, statistic=score, p=p, worth=found.worth if degrees else worth)


def fair_coins(first: int, second: int) -> float:
    """The two-sided chance that fair coins fall at least as unevenly; 1 without any."""
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(first, second), first + second, 0.5)))


def _tango_end(more: float, less: float, n: float, score: float) -> float:
    """The gap at which Tango's score statistic of these shares of `n` items has a value."""

    def statistic(gap: float) -> float:
        b = -more - less + (2 - more + less) * gap
        root = sqrt(max(0.0, b * b + 8 * less * gap * (1 - gap)))
        other = (root - b) / 4  # the likeliest share of the other kind, given the gap
        spread = 2 * other + gap * (1 - gap)
        distance = more - less - gap
        if spread <= 0 and distance:
            return copysign(inf, distance)
        return distance * sqrt(n / spread) if distance else 0.0

    low, high = -1.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if statistic(middle) > score else (low, middle)
    return (low + high) / 2


_LEAST_P = 1e-12  # intervals of a higher level are beyond double precision
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class ShareRows:
    """Rows of a share, sum of hits over sum of sizes; a row has a cluster."""

    hits: Sequence[float] | Floats
    sizes: Sequence[float] | Floats
    clusters: Names

    @classmethod
    def alike(cls, hits: Sequence[float] | Floats, clusters: Names) -> "ShareRows":
        """Rows of size 1."""
        return cls(hits, [1.0] * len(hits), clusters)

    def parts(self) -> tuple[Estimate, Parts, Names] | None:
        """The share of the rows of a size above 0, its parts, and these rows' clusters, if any."""
        hits, sizes = (np.asarray(rows, dtype=np.float64) for rows in (self.hits, self.sizes))
        own, names = sizes > 0, np.asarray(self.clusters)
        if not own.any():
            return None
        hits, sizes, clusters = hits[own], sizes[own], names[own]
        kept = clusters if clusters.dtype.kind == "i" else clusters.tolist()
        total = fsum(sizes)
        value = fsum(hits) / total
        parts = Parts.of(hits / sizes, value, Clusters.named(kept), sizes / total)
        return Estimate(value, len(hits)), parts, kept


def share_interval(rows: ShareRows) -> Estimate:
    """The share of the rows of a size above 0, with the interval of `clustered_share`."""
    if (found := rows.parts()) is None:
        return Estimate.missing(NoValue.TOO_FEW, n=0)
    return clustered_share(found[0], found[1])


@dataclass(frozen=True, slots=True)
class _Side:
    """A share, how far each cluster of both sides moves it, and the number of its own clusters."""

    share: Share
    parts: Floats
    clusters: int


def share_gap(first: ShareRows, second: ShareRows) -> Estimate:
    """How much greater the first share is than the second, -1 to 1.

    Zou & Donner's interval (2008, Statistics in Medicine 27), for independent shares Newcombe's
    (1998, method 10): the distances of the two shares to the ends of the intervals of `Share`,
    joined as errors are. p is 1 less the level at which it just reaches zero, at least 1e-12; `n`
    counts rows. None: "too few" where a side has no row or, for the interval, fewer than three
    clusters; "constant".
    """
    names = sorted({*first.clusters, *second.clusters})
    left, right = (_side(rows, names) for rows in (first, second))
    n, count = len(first.hits) + len(second.hits), len(names)
    if left is None or right is None:
        return Estimate.missing(NoValue.TOO_FEW, n=n, clusters=count)
    gap = Estimate(left.share.value - right.share.value, n)
    if min(left.clusters, right.clusters) < LEAST_CLUSTERS:
        return gap.unbounded(NoValue.TOO_FEW, clusters=count)
    low, high = _gap_ends(left, right, 0.95)
    if high - low <= scales.ROUNDING:
        return gap.unbounded(NoValue.CONSTANT, clusters=count)
    p = _gap_p(left, right)
    return replace(gap.between(low, high, clusters=count), statistic=gap.value, p=p)


def _side(rows: ShareRows, names: Sequence[str]) -> _Side | None:
    """The share of some rows; its parts are in the order of `names`. None without a row."""
    if (known := rows.parts()) is None:
        return None
    estimate, found, clusters = known
    value, parts = min(1.0, max(0.0, estimate.value or 0.0)), np.zeros(len(names))
    if len(found.sums) < LEAST_CLUSTERS:
        return _Side(Share(value, len(found.sums), None), parts, len(found.sums))
    parts[np.isin(names, clusters)] = found.scaled
    return _Side(Share.of(value, found), parts, len(found.sums))


def _gap_ends(left: _Side, right: _Side, level: float) -> tuple[float, float]:
    scale = sqrt(float((left.parts**2).sum() * (right.parts**2).sum()))
    alike = float((left.parts * right.parts).sum()) / scale if scale > 0 else 0.0
    (low, high), (other_low, other_high) = left.share.ends(level), right.share.ends(level)
    one, other = left.share.value, right.share.value
    below, above = (
        sqrt(max(0.0, near**2 + far**2 - 2 * alike * near * far))
        for near, far in ((one - low, other_high - other), (high - one, other - other_low))
    )
    return max(-1.0, one - other - below), min(1.0, one - other + above)


def _gap_p(left: _Side, right: _Side) -> float:
    """The level at which the interval reaches zero, from 1; on the side of .05 that it is on."""

    def leaves_out_zero(p: float) -> bool:
        low, high = _gap_ends(left, right, 1 - p)
        return low > 0 or high < 0

    middle = 1 - 0.95
    is_outside = leaves_out_zero(middle)
    low, high = (_LEAST_P, middle) if is_outside else (middle, 1.0)
    if is_outside and leaves_out_zero(_LEAST_P):
        return _LEAST_P
    for _ in range(_HALVINGS):
        middle = sqrt(low * high)
        low, high = (low, middle) if leaves_out_zero(middle) else (middle, high)
    return sqrt(low * high) if is_outside else high


def jackknife_interval(
    estimate: Estimate,
    without: Floats,
    *,
    range_: scales.Range,
    sizes: Floats | None = None,
    parts: Parts | None = None,
) -> Estimate:
    """An estimate with its interval; `without` has its value without each cluster, NaN for none.

    On a scale without ends (Efron & Tibshirani 1993, chapter 11), with Student's t; `sizes` of
    clusters that are not of one size lower its degrees of freedom, as if a cluster's rows were all
    alike; or `parts` of what moves the estimate say how alike they are, and squares weigh as in
    CR2. Where the range is "any", there is the test that the value is 0, too. No interval: the
    estimate's reason; "too few" below three clusters, or where the estimate has no value without
    one of them; "constant" where leaving any out changes nothing; "degenerate" at the end of its
    range.
    """
    count = len(without)
    if estimate.value is None:
        return estimate.unbounded(estimate.reason, clusters=count)
    if count < LEAST_CLUSTERS or np.isnan(without).any():
        return estimate.unbounded(NoValue.TOO_FEW, clusters=count)
    if np.ptp(without) <= scales.ROUNDING:
        return estimate.unbounded(NoValue.CONSTANT, clusters=count)
    middle, values = (
        float(scales.widened(np.array(estimate.value), range_)),
        scales.widened(without, range_),
    )
    if not isfinite(middle) or not np.isfinite(values).all():
        return estimate.unbounded(NoValue.DEGENERATE, clusters=count)
    even = np.ones(count) / count
    shares = even if sizes is None else sizes / sizes.sum()
    degrees = parts.degrees if parts else intervals.freedom(shares, shares**2)
    # Without a cluster a mean moves by its part over what is left; CR2 takes that one's root.
    left = 1 - (parts.weights if parts else even)
    error = sqrt(float((left * (values - np.average(values, weights=left)) ** 2).sum()))
    reach = scales.student_t(degrees) * error
    low, high = scales.narrowed(np.array([middle - reach, middle + reach]), range_).tolist()
    found = estimate.between(low, high, clusters=count, degrees=degrees)
    if range_ != "any":
        return found
    return replace(found, statistic=middle / error, p=scales.student_p(middle / error, degrees))
