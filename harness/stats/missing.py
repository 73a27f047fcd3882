"""What answers that are missing may hide: how far a mean or a difference could lie with them."""

import numpy as np

from harness.stats.estimate import Floats, Limits


def mean_bounds(mean: float, n: int, missing: int, limits: Limits) -> Limits:
    """The mean of `n` values and of as many missing ones, were these all the least or the greatest.

    No assumption is made of why they are missing (Manski 1989, Journal of Human Resources 24:343).
    """
    share = missing / (n + missing)
    low, high = (mean * (1 - share) + end * share for end in limits)
    return low, high


def difference_bounds(
    first: Floats,
    second: Floats,
    limits: tuple[Limits | None, Limits | None],
    chances: Limits = (0.0, 0.0),
) -> tuple[float | None, float | None]:
    """The mean of first less second over all items, NaN where one is missing, at worst and at best.

    At worst all that the first misses are the least that they can be, and all that the second
    misses the greatest. Each side counts from its chance level, 0, to 1. None where no limits of a
    side are known.
    """
    ends = []
    for side, own, chance in zip((first, second), limits, chances, strict=True):
        if own is None:
            return None, None
        ends.append([(np.where(np.isnan(side), end, side) - chance) / (1 - chance) for end in own])
    (low, high), (least, most) = ends
    return float(np.mean(low - most)), float(np.mean(high - least))
