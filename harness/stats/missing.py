"""What answers that are missing may hide: how far a mean or a difference could lie with them."""

import numpy as np

from harness.stats.clustered import clustered_mean, paired_gap
from harness.stats.estimate import Floats, Limits, Names


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
    clusters: Names,
    limits: tuple[Limits | None, Limits | None],
    chances: Limits = (0.0, 0.0),
) -> tuple[float | None, float | None]:
    """How far the mean of first less second may lie over all items, NaN where one is missing.

    The lower end of its 95 % interval were all that the first misses the least that they can be,
    and all that the second misses the greatest, and the upper end were it the other way about: so
    they hold the truth in 95 of 100 or more, whatever is missing (Horowitz & Manski 2000, JASA
    95:77). Each side counts from its chance level, 0, to 1. None where no limits of a side are
    known; the difference itself where it has no interval.
    """
    ends = []
    for side, own, chance in zip((first, second), limits, chances, strict=True):
        if own is None:
            return None, None
        ends.append([(np.where(np.isnan(side), end, side) - chance) / (1 - chance) for end in own])
    (low, high), (least, most) = ends
    worst, best = (
        paired_gap(one, other, clusters)
        if limits == ((0, 1), (0, 1)) and not any(chances)
        else clustered_mean(one - other, clusters)
        for one, other in ((low, most), (high, least))
    )
    start = worst.value if worst.low is None else worst.low
    return start, best.value if best.high is None else best.high
