"""Intervals for few clusters: leave each cluster out in turn, and use Student's t.

The variance is the jackknife's over clusters (Quenouille 1956; Tukey 1958; Efron & Tibshirani
1993, chapter 11), t has one degree of freedom less than there are clusters. A statistic with a
limited range is taken where it has none: a correlation through the inverse hyperbolic tangent, a
share or an area through log-odds, and its ends are taken back.
"""

from math import isfinite, sqrt

import numpy as np

from harness.stats.estimate import LEAST_CLUSTERS, Estimate, Floats, NoValue
from harness.stats.scales import ROUNDING, Range, narrowed, student_t, widened

__all__ = ["Range", "jackknife_interval"]


def jackknife_interval(
    estimate: Estimate, without: Floats, *, range_: Range, level: float = 0.95
) -> Estimate:
    """An estimate with its interval; `without` has its value without each cluster, NaN for none.

    No interval: the estimate's reason; "too few" below three clusters, or where the
    estimate has no value without one of them; "constant" where leaving any out changes nothing;
    "degenerate" at the end of its range, where the scale is infinite.
    """
    if not 0 < level < 1:
        raise ValueError(f"0 < level < 1, not {level!r}")
    count = len(without)
    if estimate.value is None:
        return estimate.unbounded(estimate.reason, clusters=count)
    if count < LEAST_CLUSTERS or np.isnan(without).any():
        return estimate.unbounded(NoValue.TOO_FEW, clusters=count)
    if np.ptp(without) <= ROUNDING:
        return estimate.unbounded(NoValue.CONSTANT, clusters=count)
    middle, values = float(widened(np.array(estimate.value), range_)), widened(without, range_)
    if not isfinite(middle) or not np.isfinite(values).all():
        return estimate.unbounded(NoValue.DEGENERATE, clusters=count)
    error = sqrt((count - 1) / count * float(((values - values.mean()) ** 2).sum()))
    reach = student_t(count - 1, level=level) * error
    low, high = narrowed(np.array([middle - reach, middle + reach]), range_).tolist()
    return estimate.between(low, high, clusters=count)
