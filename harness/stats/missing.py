"""What answers that are missing may hide: how far a mean or a difference could lie with them."""

import numpy as np

from harness.stats.clustered import paired_gap
from harness.stats.estimate import Estimate, Floats, Limits, Names


def mean_bounds(mean: float, n: int, missing: int, limits: Limits) -> Limits:
    """The mean of `n` values and of as many missing ones, were these all the least or the greatest.

    No assumption is made of why they are missing (Manski 1989, Journal of Human Resources 24:343).
    """
    share = missing / (n + missing)
    low, high = (mean * (1 - share) + end * share for end in limits)
    return low, high


def difference_bounds(first: Floats, second: Floats, limits: tuple[Limits, Limits]) -> Limits:
    """The mean of first less second over all items, NaN where one is missing, at worst and at best.

    At worst all that the first misses are the least that they can be, and all that the second
    misses the greatest.
    """
    sides = (first, second)
    least, most = (
        [np.where(np.isnan(side), own[end], side) for side, own in zip(sides, limits, strict=True)]
        for end in (0, 1)
    )
    return float(np.mean(least[0] - most[1])), float(np.mean(most[0] - least[1]))


def missing_gap(first: Floats, second: Floats, clusters: Names) -> Estimate:
    """How much more of the first values are missing, as NaN, of the same items: `paired_gap`."""
    return paired_gap(np.isnan(first), np.isnan(second), clusters)
