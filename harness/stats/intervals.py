"""Values that come in clusters to their mean and its interval.

Pure numbers in, pure numbers out; what is drawn depends on the seed's text alone, so that
neither the order of the rows nor the machine changes an interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, isfinite

import numpy as np
from numpy.typing import NDArray

from harness.parts import digest

Floats = NDArray[np.float64]

_CELLS = 1 << 20  # cluster numbers drawn at a time: 8 MiB


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, the interval around it, and how much stands behind it.

    `value` is null without values; `low` and `high` are null where nothing can be said.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    clusters: int


def mean_interval(
    values: Sequence[float],
    clusters: Sequence[str],
    *,
    seed: str,
    draws: int = 2000,
    level: float = 0.95,
) -> Interval:
    """The mean of the values and its percentile bootstrap interval, clusters drawn whole.

    Each draw takes as many clusters as there are, with replacement, and divides the sum of
    their values by their number (Davison & Hinkley 1997, section 3.8; Efron & Tibshirani 1993,
    chapter 13). With few clusters it is too narrow, as every percentile bootstrap is.

    A sample without spread would be drawn as a point, which claims certainty nobody has. All
    ones or all zeros get the exact interval of Clopper & Pearson (Biometrika 26, 1934) with a
    cluster as the trial: from (alpha/2)^(1/clusters) to 1, and its mirror image. For another
    constant, a single cluster, or clusters that differ in nothing but their members, no bound is
    known: low and high are null.
    """
    _check(values, clusters, draws=draws, level=level)
    sums, sizes = _totals(values, clusters)
    n, count = len(values), len(sums)
    if n == 0:
        return Interval(None, None, None, n=0, clusters=0)
    value = fsum(values) / n
    if count == 1:
        return Interval(value, None, None, n=n, clusters=1)
    if min(values) == max(values):
        low, high = _constant_bounds(values[0], count, level=level)
        return Interval(values[0], low, high, n=n, clusters=count)
    if np.ptp(sums / sizes) == 0:
        return Interval(value, None, None, n=n, clusters=count)
    means = _drawn_means(sums, sizes, seed=seed, draws=draws)
    tail = (1 - level) / 2
    bounds = np.quantile(means, [tail, 1 - tail])
    return Interval(value, float(bounds[0]), float(bounds[1]), n=n, clusters=count)


def _check(values: Sequence[float], clusters: Sequence[str], *, draws: int, level: float) -> None:
    """Refuse what no interval can be made of."""
    if len(values) != len(clusters):
        raise ValueError(f"one cluster a value: {len(values)} values, {len(clusters)} clusters")
    if bad := [(c, v) for v, c in zip(values, clusters, strict=True) if not isfinite(v)]:
        raise ValueError(
            f"{len(bad)} of {len(values)} values are not finite, first {bad[0][1]!r} in cluster "
            f"{bad[0][0]!r}; a missing value has a reason and is not handed in"
        )
    if draws < 1 or not 0 < level < 1:
        raise ValueError(f"draws >= 1 and 0 < level < 1, not {draws!r} and {level!r}")


def _totals(values: Sequence[float], clusters: Sequence[str]) -> tuple[Floats, Floats]:
    """The sum and the number of values of each cluster, clusters in alphabetical order."""
    members: dict[str, list[float]] = {}
    for value, cluster in zip(values, clusters, strict=True):
        members.setdefault(cluster, []).append(value)
    ordered = [members[cluster] for cluster in sorted(members)]
    sums = np.array([fsum(part) for part in ordered], dtype=np.float64)
    return sums, np.array([len(part) for part in ordered], dtype=np.float64)


def _constant_bounds(
    value: float, clusters: int, *, level: float
) -> tuple[float | None, float | None]:
    """The exact interval of a share that was 0 or 1 in every cluster."""
    reach = ((1 - level) / 2) ** (1 / clusters)
    if value == 1:
        return reach, 1.0
    if value == 0:
        return 0.0, 1 - reach
    return None, None


def _drawn_means(sums: Floats, sizes: Floats, *, seed: str, draws: int) -> Floats:
    """The mean of each draw, so many draws at a time that they fit in memory.

    Whole numbers are drawn, not multinomial counts: the same resampling, eight times faster,
    and without floating point, so that machines agree.
    """
    generator = np.random.default_rng(int(digest(seed), 16))
    count = len(sums)
    means = np.empty(draws)
    step = max(1, _CELLS // count)
    for start in range(0, draws, step):
        part = means[start : start + step]
        drawn = generator.integers(0, count, size=(len(part), count))
        part[:] = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    return means
