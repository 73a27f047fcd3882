"""Intervals of means and shares of rows in clusters, whatever the sizes of the clusters."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import frexp, fsum, isfinite, ldexp, sqrt

import numpy as np

from harness.stats import scales
from harness.stats.estimate import Clusters, Estimate, Floats, Limits, Names, NoValue

LEAST_CLUSTERS = 3
"""Two are too few: t of one degree of freedom reaches thirteen errors, beyond any scale."""

_NOISE, _NOISE_OF_ONE = 1e-6, 1e-5
"""What two processors' single precision may differ by: of any value, and of cosines and shares."""
_GREATEST_OF_ONE = 2.0  # neither a cosine, a share, nor the difference of two is beyond it


@dataclass(frozen=True)
class Parts:
    """How far each of G clusters moves a weighted mean, and how large each is.

    `sums` of weight times residual add up to 0, `weights` to 1; `squares` are the sums of squared
    weights; `within` is the sum of weight times squared residual over all rows. Trials are clusters
    of one size that are right or wrong as a whole; one of a single row may be half right.
    """

    sums: Floats
    weights: Floats
    squares: Floats
    within: float
    are_trials: bool = False

    @classmethod
    def of(
        cls, values: Floats, mean: float, clusters: Clusters, weights: Floats | None = None
    ) -> "Parts":
        """Those of values about their mean, of equal weights or of some that add up to 1."""
        n, residuals, are_trials = len(values), values - mean, False
        if weights is None or np.ptp(weights) <= scales.ROUNDING:
            totals, counts = clusters.exact_sums(values)
            trials = (0, 0.5, 1) if clusters.clusters == n else (0, counts[0])
            are_trials = bool(np.ptp(counts) == 0 and np.isin(totals, trials).all())
        # Sums that the order of the rows does not change.
        if weights is None:
            within = float(np.sort(residuals**2).sum()) / n
            sums = (totals - mean * counts) / n
            return cls(sums, counts / n, counts / n**2, within, are_trials)
        columns = np.column_stack([weights * residuals, weights, weights**2])
        sums, sizes, squares = clusters.totals(columns).T
        within = float(np.sort(weights * residuals**2).sum())
        return cls(sums, sizes, squares, within, are_trials)

    @cached_property
    def scaled(self) -> Floats:
        """The sums over the root of what a cluster's weight leaves to the others (CR2)."""
        return np.asarray(self.sums / np.sqrt(1 - self.weights), dtype=np.float64)

    @cached_property
    def error(self) -> float:
        """The standard error: the root of the sum of squares of `scaled`."""
        scaled = self.scaled
        # By a power of two, which changes no digit and keeps squares from overflowing.
        power = frexp(float(np.abs(scaled).max()))[1]
        return ldexp(sqrt(fsum((np.ldexp(scaled, -power) ** 2).tolist())), power)

    @cached_property
    def degrees(self) -> float:
        """Student's t's degrees of freedom: G - 1 where clusters are of one size, else fewer."""
        return freedom(self.weights, (1 - self.alike) * self.squares + self.alike * self.weights**2)

    @cached_property
    def alike(self) -> float:
        """The correlation of rows of one cluster by analysis of variance, 0 to 1."""
        rows = float((self.squares / self.weights).sum())  # clusters a row
        with np.errstate(over="ignore"):
            between = float((self.sums**2 / self.weights).sum())
        if not isfinite(between + self.within):
            return 1.0
        inside = max(0.0, self.within - between) / (1 - rows) if 1 - rows > _NOISE else 0.0
        among = between - inside * (rows - float(self.squares.sum()))
        among = max(0.0, among / (1 - float((self.weights**2).sum())))
        return among / (among + inside) if among > 0 else 0.0


def freedom(weights: Floats, spread: Floats) -> float:
    """Student's t's degrees of freedom of a mean over clusters of some weights.

    `spread` has the variances of the clusters' sums in any unit.
    """
    if np.ptp(weights) <= scales.ROUNDING and np.ptp(spread) <= scales.ROUNDING * spread.max():
        return len(weights) - 1.0
    root = np.sqrt(1 - weights)
    columns = np.column_stack([weights / root, spread / root])
    kernel = np.array([[spread.sum(), -1.0], [-1.0, 0.0]])
    return satterthwaite(spread / root**2, columns, kernel)


def satterthwaite(diagonal: Floats, columns: Floats, kernel: Floats) -> float:
    """The degrees of freedom of a sum of squares of numbers whose covariance is known.

    That is `diagonal` on its diagonal, and to all of it columns x kernel x columns is added, which
    has few columns, so that nothing of clusters x clusters is made (Satterthwaite 1946).
    """
    added = np.einsum("gi,ij,gj->g", columns, kernel, columns)
    inner = np.einsum("ij,gj,gk->ik", kernel, columns, columns)
    trace = float(diagonal.sum() + np.trace(inner))
    squares = float((diagonal * (diagonal + 2 * added)).sum() + (inner * inner.T).sum())
    return trace**2 / squares


def cluster_interval(
    estimate: Estimate, parts: Parts, *, is_share: bool = False, level: float = 0.95
) -> Estimate:
    """An estimate that is nearly linear in sums over clusters, with its interval.

    The error is robust to clusters and corrected for few of them, and for large ones (CR2: Bell &
    McCaffrey 2002); Student's t has Satterthwaite's degrees of freedom, for rows that correlate
    within clusters as these do (Imbens & Kolesar 2016, Review of Economics and Statistics 98:701).
    What lies in 0..1 `is_share`: Wilson's interval (1927, JASA 22) with this t and the number of
    rows that would give a share this error (Korn & Graubard 1998; Dean & Pagano 2015). No interval:
    the estimate's reason; "too few" below three clusters; "constant" where none moves it;
    "degenerate" where the error or an end is beyond the numbers of a computer.
    """
    count, value = len(parts.sums), estimate.value
    if value is None:
        return estimate.unbounded(estimate.reason, clusters=count)
    if count < LEAST_CLUSTERS:
        return estimate.unbounded(NoValue.TOO_FEW, clusters=count)
    if not isfinite(float(np.abs(parts.sums).max()) * count + abs(value)):
        return estimate.unbounded(NoValue.DEGENERATE, clusters=count)
    if _is_constant(value, parts):
        return estimate.unbounded(NoValue.CONSTANT, clusters=count)
    degrees, error = parts.degrees, parts.error
    reach = scales.student_t(degrees, level=level)
    if not isfinite(reach * error + abs(value)):
        return estimate.unbounded(NoValue.DEGENERATE, clusters=count)
    ends = value - reach * error, value + reach * error
    if is_share:
        ends = scales.wilson_ends(value, value * (1 - value) / error**2, reach)
    return estimate.between(*ends, clusters=count, degrees=degrees)


def _is_constant(value: float, parts: Parts) -> bool:
    """Whether no cluster moves a value by more than single precision may."""
    of_one = _NOISE_OF_ONE if abs(value) <= _GREATEST_OF_ONE else 0
    spread = float(np.abs(parts.sums).max()) * len(parts.sums)
    return spread <= max(_NOISE * abs(value), of_one)


@dataclass(frozen=True, slots=True)
class Share:
    """A share, how many independent rows it is worth, and Student's t's degrees of freedom.

    Without degrees the interval is Wilson's own, of the normal distribution.
    """

    value: float
    rows: float
    degrees: float | None

    @classmethod
    def of(cls, value: float, parts: Parts) -> "Share":
        """A share of rows in clusters: worth as many rows as have its error.

        That is at most what its rows would be worth without clusters, and for trials their number.
        Where all rows are right, or all wrong, clusters are trials, as nothing shows how alike
        their rows are: as many of one size as theirs are worth.
        """
        spread, trials = value * (1 - value), 1 / float((parts.weights**2).sum())
        if spread <= scales.ROUNDING:
            return cls(float(round(value)), trials, None)
        if parts.are_trials or parts.within <= scales.ROUNDING:
            return cls(value, trials, None)
        alone, error = spread / float(parts.squares.sum()) / parts.within, parts.error
        return cls(value, min(alone, spread / error**2) if error > 0 else alone, parts.degrees)

    def ends(self, level: float = 0.95) -> tuple[float, float]:
        """The ends of Wilson's interval (1927, JASA 22) with the effective number of rows."""
        if self.degrees is None:
            return scales.wilson_ends(self.value, self.rows, scales.normal_reach(level))
        return scales.wilson_ends(
            self.value, self.rows, scales.student_t(self.degrees, level=level)
        )


def clustered_share(estimate: Estimate, parts: Parts) -> Estimate:
    """A share of rows in clusters with the interval of `Share`.

    None: "too few" below three clusters, "constant" where a share between 0 and 1 is that of all
    clusters, which are no trials.
    """
    count, value = len(parts.sums), estimate.value
    if value is None or count < LEAST_CLUSTERS:
        return estimate.unbounded(estimate.reason or NoValue.TOO_FEW, clusters=count)
    is_whole = min(value, 1 - value) <= scales.ROUNDING
    if not (is_whole or parts.are_trials) and _is_constant(value, parts):
        return estimate.unbounded(NoValue.CONSTANT, clusters=count)
    found = Share.of(value, parts)
    made = estimate.between(*found.ends(), clusters=count, degrees=found.degrees)
    return made if found.degrees else replace(made, worth=found.rows)


def effective_n(values: Sequence[float] | Floats, clusters: Names) -> float | None:
    """How many independent rows would give a share this error: those of `Share`, 1 of one cluster.

    None without rows.
    """
    if not (n := len(values)):
        return None
    rows, own = np.asarray(values, dtype=np.float64), Clusters.named(clusters)
    value = scales.exact_mean(rows)
    return Share.of(value, Parts.of(rows, value, own)).rows if own.clusters > 1 else min(1.0, n)


def limited(found: Estimate, values: Sequence[float], limits: Limits | None) -> Estimate:
    """The interval cut off at the least and the greatest that values can be, if they are within."""
    if limits is None or not limits[0] <= min(values) <= max(values) <= limits[1]:
        return found
    return found.within(*limits)


def mean_interval(
    values: Sequence[float] | Floats,
    clusters: Names,
    *,
    is_share: bool,
    limits: Limits | None = None,
) -> Estimate:
    """The mean of the values and its interval over clusters.

    `is_share` says that the values are by nature 0 to 1, such as right or wrong: `clustered_share`.
    Else it is that of `cluster_interval` (Miller 2024, arXiv 2411.00640), cut off at the `limits`
    of the values, where all lie within. ValueError for values that are not finite.
    """
    rows = np.asarray(values, dtype=np.float64)
    check_values(rows, clusters)
    if not len(rows):
        return Estimate.missing(NoValue.TOO_FEW, n=0)
    own, n = Clusters.named(clusters), len(rows)
    ends = least, most = float(rows.min()), float(rows.max())
    value = least if own.clusters > 1 and least == most else scales.exact_mean(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        parts = Parts.of(rows, value, own)
    if is_share and 0 <= least <= most <= 1:
        return clustered_share(Estimate(value, n), parts)
    return limited(cluster_interval(Estimate(value, n), parts), ends, limits)


def check_values(values: Sequence[float] | Floats, clusters: Names) -> None:
    """ValueError unless each value is finite and has a cluster."""
    if len(values) != len(clusters):
        raise ValueError(f"one cluster a value: {len(values)} values, {len(clusters)} clusters")
    if len(bad := np.nonzero(~np.isfinite(np.asarray(values, dtype=np.float64)))[0]):
        raise ValueError(
            f"{len(bad)} of {len(values)} values are not finite, first {float(values[bad[0]])!r} "
            f"in cluster {clusters[bad[0]]!r}; a missing value has a reason and is not handed in"
        )
