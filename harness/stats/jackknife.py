"""Intervals for few clusters: leave each cluster out in turn, and use Student's t.

The variance is the jackknife's over clusters (Quenouille 1956; Tukey 1958; Efron & Tibshirani
1993, chapter 11), t has one degree of freedom less than there are clusters. A statistic with a
limited range is taken where it has none: a correlation through the inverse hyperbolic tangent, a
share or an area through log-odds, and its ends are taken back.
"""

from math import isfinite, sqrt
from typing import Literal

import numpy as np

from harness.stats.estimate import Bounds, Estimate, Floats, NoValue

Range = Literal["any", "correlation", "share"]
"""Where a statistic lies: anywhere, in -1..1, or in 0..1."""

_EDGE = 1e-12


def jackknife_bounds(
    estimate: Estimate, without: Floats, *, range_: Range, level: float = 0.95
) -> Bounds:
    """The interval of an estimate; `without` has its value without each cluster, NaN for none.

    `n` counts clusters. None: the estimate's reason; "too few" below two clusters, or where the
    estimate has no value without one of them; "constant" where leaving any out changes nothing;
    "degenerate" at the end of its range, where the scale is infinite.
    """
    if not 0 < level < 1:
        raise ValueError(f"0 < level < 1, not {level!r}")
    count = len(without)
    if estimate.value is None:
        return Bounds(None, None, n=count, reason=estimate.reason)
    if count < 2 or np.isnan(without).any():
        return Bounds(None, None, n=count, reason=NoValue.TOO_FEW)
    if np.ptp(without) <= _EDGE:
        return Bounds(None, None, n=count, reason=NoValue.CONSTANT)
    middle, values = float(_widened(np.array(estimate.value), range_)), _widened(without, range_)
    if not isfinite(middle) or not np.isfinite(values).all():
        return Bounds(None, None, n=count, reason=NoValue.DEGENERATE)
    from scipy.stats import t

    error = sqrt((count - 1) / count * float(((values - values.mean()) ** 2).sum()))
    reach = float(t.ppf((1 + level) / 2, count - 1)) * error
    low, high = _narrowed(np.array([middle - reach, middle + reach]), range_).tolist()
    return Bounds(low, high, n=count)


def _widened(values: Floats, range_: Range) -> Floats:
    with np.errstate(divide="ignore"):
        if range_ == "correlation":
            return np.arctanh(np.where(np.abs(values) >= 1 - _EDGE, np.sign(values), values))
        if range_ == "share":
            ends = np.where(values <= _EDGE, 0.0, np.where(values >= 1 - _EDGE, 1.0, values))
            return np.asarray(np.log(ends) - np.log1p(-ends), dtype=np.float64)
    return np.asarray(values, dtype=np.float64)


def _narrowed(values: Floats, range_: Range) -> Floats:
    if range_ == "correlation":
        return np.tanh(values)
    return 0.5 * (1 + np.tanh(values / 2)) if range_ == "share" else values
