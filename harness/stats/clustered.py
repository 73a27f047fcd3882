"""The mean of items that come in clusters: its standard error, Student's interval and p.

The two belong together: p is below .05 just where the 95 % interval leaves out zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from harness.stats.estimate import (
    Bounds,
    Clusters,
    Estimate,
    Floats,
    Limits,
    NoValue,
    Significance,
    check_values,
    cluster_bounds,
    limited,
    standard_error,
)
from harness.stats.scales import exact_mean, student_p


@dataclass(frozen=True, slots=True)
class ClusteredMean:
    """A mean, its interval, and the test that it is zero; these are of one standard error.

    The bounds' and the test's `n` count clusters. Both have no value for one reason: "too few"
    below three clusters, "constant" where no cluster departs from the mean, "degenerate" where the
    error is no finite number.
    """

    estimate: Estimate
    bounds: Bounds
    test: Significance

    @classmethod
    def without_error(
        cls, estimate: Estimate, reason: NoValue, *, clusters: int
    ) -> "ClusteredMean":
        """A mean, or none, whose standard error is not known."""
        bounds = Bounds(None, None, n=clusters, reason=reason)
        return cls(estimate, bounds, Significance(None, None, n=clusters, reason=reason))


def clustered_mean(
    values: ArrayLike,
    clusters: Sequence[str],
    *,
    level: float = 0.95,
    limits: Limits | None = None,
) -> ClusteredMean:
    """The mean of items by Student's t, with one degree of freedom less than there are clusters.

    Error and interval are those of `cluster_bounds` (Miller 2024, "Adding Error Bars to Evals",
    arXiv 2411.00640). The test's statistic is t, two-sided. The interval is cut off at the
    `limits` of the values, where all lie within. No value, and "too few", without an item.
    ValueError for values that are not finite.
    """
    rows: Floats = np.asarray(values, dtype=np.float64)
    check_values(rows.tolist(), clusters, level=level)
    own = Clusters.named(clusters)
    n, count = len(rows), own.clusters
    if n == 0:
        none = Estimate(None, n=0, reason=NoValue.TOO_FEW)
        return ClusteredMean.without_error(none, NoValue.TOO_FEW, clusters=0)
    estimate = Estimate(value := exact_mean(rows.tolist()), n=n)
    with np.errstate(over="ignore", invalid="ignore"):
        parts = own.totals((rows - value) / n)
    found = cluster_bounds(estimate, parts, level=level)
    if found.reason is not None:
        return ClusteredMean.without_error(estimate, found.reason, clusters=count)
    error = standard_error(parts)
    test = Significance(value / error, student_p(value / error, count - 1), n=count)
    return ClusteredMean(estimate, limited(found, rows.tolist(), limits), test)
