"""Scales on which intervals are made: Student's t, Wilson's score, ranges without ends, sums."""

from collections.abc import Sequence
from math import fsum, inf, isfinite, sqrt
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Range = Literal["any", "correlation", "share"]
"""Where a statistic lies: anywhere, in -1..1, or in 0..1."""
ROUNDING = 1e-12
"""Statistics nearer than this to one another, or to an end of their range, are equal."""
SIGNIFICANT, POWER = 0.05, 0.8
"""The largest p that is called significant, and the power of what would have been seen."""
_EXACT = 2.0**52  # whole numbers up to here add up without rounding


def exact_total(values: NDArray[np.float64]) -> float:
    """The sum of an array, rounded once; infinite beyond the numbers of a computer."""
    return float(values.sum()) if _is_whole(values) else _exact_sum(values.tolist())


def exact_mean(values: NDArray[np.float64]) -> float:
    """The mean of an array of one value or more, summed exactly; finite wherever the values are."""
    total, count = exact_total(values), len(values)
    return total / count if isfinite(total) else fsum((values / count).tolist())


def exact_sums(
    values: NDArray[np.float64], places: NDArray[np.intp], sizes: NDArray[np.intp]
) -> NDArray[np.float64]:
    """The sum of the values at each place, rounded once; `sizes` counts the values of each."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.asarray(np.bincount(places, values, len(sizes)), dtype=np.float64)
    large = np.nonzero(sizes > 2)[0]  # one addition is rounded once anyway
    if not len(large) or _is_whole(values):
        return sums
    ordered, ends = values[np.argsort(places, kind="stable")], np.cumsum(sizes)
    for at, end, size in zip(large.tolist(), ends[large], sizes[large], strict=True):
        sums[at] = _exact_sum(ordered[end - size : end].tolist())
    return sums


def _exact_sum(values: Sequence[float]) -> float:
    try:
        return fsum(values)
    except OverflowError:
        return inf


def _is_whole(values: NDArray[np.float64]) -> bool:
    """Whether all are whole numbers whose sums are exact in any order."""
    with np.errstate(over="ignore"):
        is_small = float(np.abs(values).sum()) < _EXACT
    return is_small and bool((values == np.rint(values)).all())


_SPARSE = 4  # numbers a row beyond which sorting them is quicker than counting


def compact(numbers: NDArray[np.intp] | NDArray[np.int32]) -> tuple[NDArray[np.intp], int]:
    """Numbers of some kinds as their ranks among those that are there, and how many there are."""
    most = int(numbers.max(initial=-1)) + 1
    if most > _SPARSE * len(numbers):
        found, places = np.unique(numbers, return_inverse=True)
        return np.asarray(places, dtype=np.intp), len(found)
    is_there = np.zeros(most, dtype=bool)
    is_there[numbers] = True
    return np.asarray((np.cumsum(is_there) - 1)[numbers], dtype=np.intp), int(is_there.sum())


def student_t(degrees: float, *, level: float = 0.95) -> float:
    """How many errors the interval of Student's t reaches to either side."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + level) / 2))


def normal_reach(level: float = 0.95) -> float:
    """How many errors the interval of a normal distribution reaches to either side."""
    return NormalDist().inv_cdf((1 + level) / 2)


def student_p(statistic: float, degrees: float) -> float:
    """The two-sided p of Student's t."""
    from scipy.special import stdtr

    return 2 * float(stdtr(degrees, -abs(statistic)))


def wilson_ends(share: float, n: float, reach: float) -> tuple[float, float]:
    """The score interval of a share of `n` rows (Wilson 1927), `reach` errors to either side."""
    square = reach**2 / n
    spread = reach * sqrt(share * (1 - share) / n + square / (4 * n))
    low, high = ((share + square / 2 + sign * spread) / (1 + square) for sign in (-1, 1))
    return 0.0 if share == 0 else low, 1.0 if share == 1 else high


def widened(values: NDArray[np.float64], range_: Range) -> NDArray[np.float64]:
    """Statistics on a scale without ends, infinite at the ends of their range."""
    with np.errstate(divide="ignore"):
        if range_ == "correlation":
            return np.arctanh(np.where(np.abs(values) >= 1 - ROUNDING, np.sign(values), values))
        if range_ == "share":
            ends = np.where(values >= 1 - ROUNDING, 1.0, values)
            ends = np.where(values <= ROUNDING, 0.0, ends)
            return np.asarray(np.log(ends) - np.log1p(-ends), dtype=np.float64)
    return np.asarray(values, dtype=np.float64)


def narrowed(values: NDArray[np.float64], range_: Range) -> NDArray[np.float64]:
    """The inverse of `widened`."""
    if range_ == "correlation":
        return np.tanh(values)
    return 0.5 * (1 + np.tanh(values / 2)) if range_ == "share" else values
