"""One table of people to statistics of any judge's table, for tests that ask a thousand times.

The values are those of `correlation`, from sums prepared once; the judge's tables must have
their missing cells where the people's table has them, as those of a permutation test do.
"""

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.stats.comparison import Statistic
from harness.stats.estimate import Estimate, Floats, Gap, pair_directions, ratio, table


def pearson_against(human: ArrayLike) -> Statistic:
    """`dataset_pearson` with these people."""
    rows = table(human)
    is_there = ~np.isnan(rows)
    scaled = _scaled(np.where(is_there, rows, 0).ravel())
    centred = np.where(is_there.ravel(), scaled - scaled.sum() / max(1, is_there.sum()), 0)
    n, length = int(is_there.sum()), sqrt(_product(centred, centred))

    def statistic(_: Floats, judge: Floats) -> Estimate:
        values = _scaled(np.nan_to_num(judge).ravel())
        if n < 2:
            return Estimate(None, n=n, reason=Gap.TOO_FEW)
        squares = _product(values, values)
        spread = squares - float(values.sum()) ** 2 / n
        # Rounding leaves a trace of a variance where there is none.
        if spread <= 1e-12 * squares or length <= 1e-12 * sqrt(n):
            return Estimate(None, n=n, reason=Gap.CONSTANT)
        return Estimate(_product(centred, values) / (length * sqrt(spread)), n=n)

    return statistic


def tau_against(human: ArrayLike) -> Statistic:
    """`document_tau` with these people."""
    rows = table(human)
    first, second = np.triu_indices(rows.shape[1], 1)
    left: NDArray[np.int8] = pair_directions(rows).T.copy()
    untied = np.sqrt((left != 0).sum(axis=0))

    def statistic(_: Floats, judge: Floats) -> Estimate:
        systems = np.ascontiguousarray(judge.T)
        one, other = systems[first], systems[second]
        right = (one > other).view(np.int8) - (one < other).view(np.int8)
        balance = (left * right).sum(axis=0, dtype=np.int32)
        taus = ratio(balance, untied * np.sqrt(np.abs(right).sum(axis=0, dtype=np.int32)))
        found = taus[~np.isnan(taus)]
        if len(found) == 0:
            return Estimate(None, n=0, skipped=len(taus), reason=Gap.CONSTANT)
        return Estimate(float(found.mean()), n=len(found), skipped=len(taus) - len(found))

    return statistic


def _scaled(values: Floats) -> Floats:
    """The values divided by their largest magnitude, so that no square overflows."""
    largest = max(abs(values.max(initial=0)), abs(values.min(initial=0)))
    return values / largest if largest else values


def _product(x: Floats, y: Floats) -> float:
    # Not x @ y: many short products wait longer for threads than they take.
    return float((x * y).sum())
