"""Bounds hold whatever is missing."""

from itertools import product

import numpy as np
import pytest

from harness.stats.clustered import clustered_mean, paired_gap
from harness.stats.missing import difference_bounds, mean_bounds

A, B = np.array([1.0, np.nan, 0.0, np.nan]), np.array([np.nan, 0.0, 0.0, np.nan])
WHOLE = (0.0, 1.0)


def test_bounds_of_a_mean_are_all_wrong_and_all_right() -> None:
    # 9 of 10 right and 5 missing: 9 of 15 at worst, 14 of 15 at best.
    assert mean_bounds(0.9, 10, 5, WHOLE) == pytest.approx((9 / 15, 14 / 15))


def test_bounds_of_a_difference_are_the_outer_ends_of_all_ways_to_fill_it() -> None:
    found, names = [], ["a", "b", "c", "d"]
    for fill in product(WHOLE, repeat=4):
        first, second = A.copy(), B.copy()
        first[np.isnan(A)], second[np.isnan(B)] = fill[:2], fill[2:]
        found.append(paired_gap(first, second, names))

    low, high = difference_bounds(A, B, names, (WHOLE, WHOLE))

    assert low == min(one.low or 0 for one in found)
    assert high == max(one.high or 0 for one in found)
    assert difference_bounds(A[:1], B[:1], names[:1], (WHOLE, WHOLE)) == (0, 1)
    assert difference_bounds(A, B, names, (WHOLE, None)) == (None, None)
    rated = difference_bounds(A, B, names, ((0, 4), (0, 4)))
    assert rated[0] == clustered_mean([-3, 0, 0, -4], names).low


def test_two_equal_models_are_not_better_for_what_one_refuses() -> None:
    # The second refuses the 30 of 100 items that it gets wrong: without them it has them all.
    first, second = np.repeat([1.0, 0.0], [70, 30]), np.repeat([1.0, np.nan], [70, 30])
    names = [f"{n:03}" for n in range(100)]
    low, high = difference_bounds(np.roll(first, 10), second, names, (WHOLE, WHOLE))

    assert low is not None
    assert high is not None
    assert low < 0 < high
