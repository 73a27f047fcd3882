"""A statistic's value and how many units are behind it, or the reason why it has no value.

A table of ratings is a float array, documents x systems, NaN where a rating is missing. No
statistic of this package warns, crashes or returns zero where it has no value: it returns a
`NoValue`. Tables that do not belong together are the caller's mistake: ValueError.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import fsum, isfinite

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


class NoValue(StrEnum):
    """The reason why a statistic has no value; each function lists those that it gives."""

    TOO_FEW = "too few"
    CONSTANT = "constant"
    ONE_RATER = "one rater"
    ONE_SYSTEM = "one system"
    TOO_MANY = "too many"
    DEGENERATE = "degenerate"
    UNRELIABLE = "unreliable"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and the number of units behind it, or the reason for no value.

    Each function's docstring has its units. `skipped` counts the units left out: incomplete, or
    without a value of their own.
    """

    value: float | None
    n: int
    skipped: int = 0
    reason: NoValue | None = None

    def __post_init__(self) -> None:
        _check_outcome(self.value, self.reason)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The two ends of an interval of `n` units or draws, or the reason for no interval."""

    low: float | None
    high: float | None
    n: int
    reason: NoValue | None = None

    def __post_init__(self) -> None:
        _check_outcome(self.low, self.reason)
        _check_outcome(self.high, self.reason)


@dataclass(frozen=True, slots=True)
class Significance:
    """A test's statistic and its p-value, or the reason for neither."""

    statistic: float | None
    p: float | None
    n: int
    skipped: int = 0
    reason: NoValue | None = None

    def __post_init__(self) -> None:
        _check_outcome(self.p, self.reason)


def _check_outcome(value: float | None, reason: NoValue | None) -> None:
    if (value is None) == (reason is None) or (value is not None and not isfinite(value)):
        raise ValueError(f"give a finite value or a reason, not {value!r} and {reason!r}")


def table(ratings: ArrayLike) -> Floats:
    """The ratings as a table of two dimensions; infinite ratings are refused."""
    rows = np.asarray(ratings, dtype=np.float64)
    if rows.ndim != 2 or np.isinf(rows).any():
        raise ValueError(
            f"ratings are a table of finite numbers or NaN, not {rows.ndim} dimensions of shape "
            f"{rows.shape} with {int(np.isinf(rows).sum())} infinite cells"
        )
    return rows


def complete(human: ArrayLike, judge: ArrayLike) -> tuple[Floats, Floats]:
    """Both tables, a cell kept only where both have one: missing cells go pairwise."""
    first, second = table(human), table(judge)
    if first.shape != second.shape:
        raise ValueError(
            f"two tables of one shape are compared, not {first.shape} and {second.shape}"
        )
    missing = np.isnan(first) | np.isnan(second)
    return np.where(missing, np.nan, first), np.where(missing, np.nan, second)


def complete_pairs(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats, int]:
    """The numbers at places where both vectors have one, and how many places have not."""
    first, second = complete(np.reshape(x, (1, -1)), np.reshape(y, (1, -1)))
    is_there = ~np.isnan(first[0])
    return first[0][is_there], second[0][is_there], int((~is_there).sum())


def mean(values: Sequence[float]) -> float | None:
    """The mean, summed exactly; None without values."""
    return fsum(values) / len(values) if values else None


def mean_estimate(values: Floats, reason: NoValue) -> Estimate:
    """The mean of the values that are not NaN, which `skipped` counts; the reason without any."""
    known = values[~np.isnan(values)]
    n, skipped = len(known), len(values) - len(known)
    return Estimate(float(known.mean()), n, skipped) if n else Estimate(None, 0, skipped, reason)


def ratio(top: ArrayLike, bottom: ArrayLike) -> Floats:
    """The quotient place by place, NaN where the divisor is not above zero."""
    divisor = np.asarray(bottom, dtype=np.float64)
    return np.asarray(top / np.where(divisor > 0, divisor, np.nan), dtype=np.float64)


def pair_directions(rows: Floats) -> NDArray[np.int8]:
    """For each row and each pair of its columns: 1 if the first is greater, -1 if smaller.

    0 stands for a tie as for a missing cell.
    """
    first, second = np.triu_indices(rows.shape[1], 1)
    left, right = rows[:, first], rows[:, second]
    return (left > right).astype(np.int8) - (left < right).astype(np.int8)
