"""Bounds hold whatever is missing."""

from itertools import product

import numpy as np
import pytest

from harness.stats.missing import difference_bounds, mean_bounds

A, B = np.array([1.0, np.nan, 0.0, np.nan]), np.array([np.nan, 0.0, 0.0, np.nan])
WHOLE = (0.0, 1.0)


def test_bounds_of_a_mean_are_all_wrong_and_all_right() -> None:
    # 9 of 10 right and 5 missing: 9 of 15 at worst, 14 of 15 at best.
    assert mean_bounds(0.9, 10, 5, WHOLE) == pytest.approx((9 / 15, 14 / 15))


def test_bounds_of_a_difference_are_the_ends_of_all_ways_to_fill_it() -> None:
    found = []
    for fill in product(WHOLE, repeat=4):
        first, second = A.copy(), B.copy()
        first[np.isnan(A)], second[np.isnan(B)] = fill[:2], fill[2:]
        found.append((first - second).mean())

    assert difference_bounds(A, B, (WHOLE, WHOLE)) == (min(found), max(found))
