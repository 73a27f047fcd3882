"""A statistic's value and its interval, or the reason why it has none.

A table of ratings is documents x systems, NaN where one is missing. No statistic warns or returns
zero where it has no value: it gives a `NoValue`; tables that do not belong together are a
ValueError. Clusters count as independent, and rows within one may depend on each other in any way.
What is drawn depends on a seed's text and the number of clusters alone; the order of the rows
changes no interval.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import fsum, isfinite

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.parts import digest
from harness.stats import scales

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.intp]
Names = Sequence[str] | NDArray[np.intp] | NDArray[np.int32]
"""One name a row, or one number: those of names in their alphabetical order."""
Limits = tuple[float, float]
"""The least and the greatest that a value can be."""


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
    """A value with its interval and, where there is one, its test.

    `n` counts the units behind the value, and `skipped` those left out; `clusters` the independent
    clusters behind the interval, or the draws that have a value, and `worth` how many clusters of
    one size would have as sure an error. What is missing has a reason: `reason` a value, `why` an
    interval. `p` is of the test that the value is zero, `statistic` its t; `sd` is the standard
    deviation of what a mean is over.
    """

    value: float | None
    n: int
    skipped: int = 0
    reason: NoValue | None = None
    low: float | None = None
    high: float | None = None
    clusters: int = 0
    why: NoValue | None = None
    statistic: float | None = None
    p: float | None = None
    sd: float | None = None
    worth: float | None = None

    def __post_init__(self) -> None:
        value, ends = self.value, (self.low, self.high)
        if (value is None) == (self.reason is None) or not isfinite(value or 0):
            raise ValueError(f"give a finite value or a reason, not {value!r} and {self.reason!r}")
        if None not in ends and (self.why or not all(isfinite(end or 0) for end in ends)):
            raise ValueError(f"give two finite ends or a reason, not {ends}")

    @classmethod
    def missing(
        cls, reason: NoValue | None, n: int, *, skipped: int = 0, clusters: int = 0
    ) -> "Estimate":
        """No value of `n` units, and no interval, for one reason."""
        return cls(None, n, skipped, reason, clusters=clusters, why=reason)

    def between(
        self, low: float, high: float, *, clusters: int, degrees: float | None = None
    ) -> "Estimate":
        """The same value with its interval."""
        worth = float(clusters) if degrees is None else degrees + 1
        return replace(self, low=low, high=high, clusters=clusters, why=None, worth=worth)

    def unbounded(self, why: NoValue | None, *, clusters: int) -> "Estimate":
        """The same value, and the reason for no interval."""
        return replace(self, low=None, high=None, clusters=clusters, why=why)

    def within(self, least: float, most: float) -> "Estimate":
        """The interval cut off at the ends of what the statistic can be."""
        if self.low is None or self.high is None:
            return self
        low, high = (min(max(end, least), most) for end in (self.low, self.high))
        return replace(self, low=low, high=high)

    @property
    def why_no_interval(self) -> str | None:
        """The reason in words where a value has no interval; None where it has, or no value."""
        is_missing = self.value is not None and self.low is None and self.why is not None
        return f"no interval: {self.why}" if is_missing else None


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
    """Both tables, a cell kept only where both have one."""
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


_NEAREST = 1e-12  # rounding of a mean, as a share of the largest value


def snapped(values: ArrayLike) -> Floats:
    """The values, neighbours nearer than 1e-12 of the largest magnitude made the least of them."""
    given = np.asarray(values, dtype=np.float64)
    return snapped_rows(given.reshape(1, -1)).reshape(given.shape)


def snapped_rows(rows: Floats) -> Floats:
    """`snapped` of each row of a table by itself."""
    order = np.argsort(rows, axis=1)
    known = np.take_along_axis(rows, order, axis=1)
    nearest = _NEAREST * np.fmax.reduce(np.abs(rows), axis=1, initial=0)[:, None]
    is_first = np.ones(rows.shape, dtype=bool)
    with np.errstate(over="ignore", invalid="ignore"):
        is_first[:, 1:] = ~(np.diff(known, axis=1) <= nearest)
    least = np.maximum.accumulate(np.where(is_first, known, -np.inf), axis=1)
    found = np.empty(rows.shape)
    np.put_along_axis(found, order, least, axis=1)
    return found


def pair_directions(rows: Floats) -> NDArray[np.int8]:
    """For each row and pair of its columns: 1 if the first is greater, -1 if smaller, else 0."""
    first, second = np.triu_indices(rows.shape[1], 1)
    values = snapped(rows)
    left, right = values[:, first], values[:, second]
    return (left > right).astype(np.int8) - (left < right).astype(np.int8)


_CELLS = 1 << 20  # numbers in a block of draws: 8 MiB
LEAST_DEFINED = 0.95  # an interval of the draws that happen to have a value is another interval


@dataclass(frozen=True, slots=True)
class BootstrapSettings:
    """The seed and the number of draws of intervals and permutation tests."""

    seed: int = 0
    draws: int = 2000

    def resamples(self, clusters: Sequence[str]) -> "Resamples":
        """The draws of the clusters of some rows: one cluster's name a row."""
        return Resamples.of(clusters, seed=str(self.seed), draws=self.draws)


@dataclass(frozen=True, slots=True)
class Clusters:
    """Which of some clusters each row is of: `places`, in the alphabetical order of their names."""

    places: Indices
    clusters: int

    @classmethod
    def named(cls, names: Names) -> "Clusters":
        """The clusters of rows: one cluster's name a row, or its number in the names' order."""
        if isinstance(names, np.ndarray) and names.dtype.kind == "i":
            return cls(*scales.compact(names))
        ranks = {name: rank for rank, name in enumerate(sorted(set(names)))}
        places = np.fromiter((ranks[name] for name in names), np.intp, len(names))
        return cls(places, len(ranks))

    def exact_sums(self, values: Floats) -> tuple[Floats, Floats]:
        """The sum of each cluster's values, rounded once, and the number of its rows."""
        sizes = np.bincount(self.places, minlength=self.clusters)
        return scales.exact_sums(values, self.places, sizes), sizes.astype(np.float64)

    def totals(self, rows: Floats) -> Floats:
        """The sum of the rows' columns in each cluster, clusters x columns."""
        totals = np.zeros((self.clusters, *rows.shape[1:]))
        np.add.at(totals, self.places, rows)
        return totals


@dataclass(frozen=True, slots=True)
class Resamples(Clusters):
    """Draws of as many clusters as there are, with replacement; the same each time."""

    seed: str
    draws: int

    @classmethod
    def of(cls, clusters: Sequence[str], *, seed: str, draws: int = 1000) -> "Resamples":
        """Draws of the clusters of rows: one cluster's name a row."""
        found = Clusters.named(clusters)
        return cls(found.places, found.clusters, seed, draws)

    def counts(self) -> Iterator[Floats]:
        """How often each draw takes each cluster, draws x clusters, some draws at a time."""
        # Whole numbers are drawn, not multinomial counts: the same resampling, eight times faster,
        # and without floating point. How many are drawn at a time does not change them.
        numbers, count = generator(self.seed), self.clusters
        step = max(1, _CELLS // max(1, count))
        for start in range(0, self.draws if count else 0, step):
            size = min(step, self.draws - start)
            drawn = numbers.integers(0, count, size=(size, count))
            drawn += np.arange(size)[:, None] * count
            counts = np.bincount(drawn.ravel(), minlength=size * count)
            yield counts.reshape(size, count).astype(np.float64)

    def sums(self, rows: Floats) -> Floats:
        """The sum of the rows' columns in each draw, draws x columns."""
        totals = self.totals(rows)
        blocks = (counts @ totals for counts in self.counts())
        return np.vstack([np.zeros((0, rows.shape[1])), *blocks])


def generator(seed: str) -> np.random.Generator:
    """The random numbers of a seed's text, equal on every machine."""
    return np.random.default_rng(int(digest(seed), 16))


_SIGNS = 1 << 21  # signs drawn at a time: 16 MiB of numbers


def flips(
    count: int, *, seed: str, draws: int, least: int = 0
) -> tuple[int, int, Iterator[Floats]]:
    """Ways to flip `count` clusters: the ways of the data at hand, of all, and signs by blocks.

    Signs are draws x clusters. All ways are tried where there are at most `draws`; else that many
    are drawn, or `least`, and the data at hand is one more, without signs.
    """
    if 2**count <= draws:
        bits = np.arange(2**count)[:, None] >> np.arange(count) & 1
        return 0, len(bits), iter([np.asarray(1 - 2 * bits, dtype=np.float64)])
    drawn, numbers = max(draws, least), generator(seed)
    step = max(1, _SIGNS // max(1, count))
    sizes = (min(step, drawn - start) for start in range(0, drawn, step))
    blocks = (numbers.integers(0, 2, (size, count), np.int8) for size in sizes)
    return 1, drawn + 1, ((2 * block - 1).astype(np.float64) for block in blocks)


def drawn_interval(estimate: Estimate, values: Floats, resamples: Resamples) -> Estimate:
    """An estimate with the percentile interval of its draws (Efron & Tibshirani 1993, chapter 13).

    No interval: the estimate's reason; "too few" for fewer than two clusters or where more than one
    draw in twenty is NaN; "constant" where the draws do not differ.
    """
    defined = values[~np.isnan(values)]
    if estimate.value is None:
        return estimate.unbounded(estimate.reason, clusters=0)
    if resamples.clusters < 2 or len(defined) < LEAST_DEFINED * resamples.draws:
        return estimate.unbounded(NoValue.TOO_FEW, clusters=len(defined))
    if np.ptp(defined) <= scales.ROUNDING:
        return estimate.unbounded(NoValue.CONSTANT, clusters=len(defined))
    tail = (1 - 0.95) / 2
    low, high = np.quantile(defined, [tail, 1 - tail])
    return estimate.between(float(low), float(high), clusters=len(defined))
