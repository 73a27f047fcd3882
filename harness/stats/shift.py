"""Two sets of numbers in clusters, some in both, to how far means and distributions are apart."""

from collections.abc import Sequence
from dataclasses import replace
from math import fsum, sqrt

import numpy as np

from harness.stats.estimate import Bools, Clusters, Estimate, NoValue, generator
from harness.stats.intervals import LEAST_CLUSTERS, Parts
from harness.stats.scales import exact_mean, student_p, student_t

Numbers = tuple[Sequence[float], Sequence[str]]
"""Some numbers, and the name of the cluster of each."""
_TIE = 1e-9


def mean_shift(old: Numbers, new: Numbers) -> Estimate:
    """How much greater the mean of the new numbers is, by Welch's t (1947) over clusters.

    The error of each side is that of `Parts`; clusters of both sides make them correlate. None:
    "too few" where a side has fewer than three clusters, "constant" where no cluster departs from
    its side's mean.
    """
    names, n = sorted({*old[1], *new[1]}), len(old[0]) + len(new[0])
    counts = [len({*clusters}) for _, clusters in (old, new)]
    if not min(counts):
        return Estimate.missing(NoValue.TOO_FEW, n=n, clusters=len(names))
    first, second = (np.asarray(values, dtype=np.float64) for values, _ in (old, new))
    value = exact_mean(second) - exact_mean(first)
    estimate = Estimate(value, n)
    if min(counts) < LEAST_CLUSTERS:
        return estimate.unbounded(NoValue.TOO_FEW, clusters=len(names))
    pairs = ((first, old[1]), (second, new[1]))
    parts = [Parts.of(own, float(own.mean()), Clusters.named(known)) for own, known in pairs]
    moved = np.zeros((2, len(names)))
    for place, (one, (_, known)) in enumerate(zip(parts, pairs, strict=True)):
        moved[place, np.isin(names, [*known])] = one.scaled
    variances = (moved**2).sum(axis=1)
    variance = fsum(((moved[1] - moved[0]) ** 2).tolist())
    if variance <= 0 or variances.sum() <= 0:
        return estimate.unbounded(NoValue.CONSTANT, clusters=len(names))
    freedom = variances.sum() ** 2 / (variances**2 / [one.degrees for one in parts]).sum()
    error, degrees = sqrt(variance), max(1.0, float(freedom))
    reach = student_t(degrees) * error
    ends = value - reach, value + reach
    found = estimate.between(*ends, clusters=len(names), degrees=degrees)
    return replace(found, statistic=value / error, p=student_p(value / error, degrees))


def shift_test(old: Numbers, new: Numbers, *, seed: str, draws: int = 1999) -> Estimate:
    """The Kolmogorov-Smirnov distance of two sets, 0 to 1, and its p by permuting clusters.

    Clusters of one set are shuffled among the sets, those of both exchange their numbers; the data
    itself counts as a draw (Phipson & Smyth 2010). None: "too few" below three clusters.
    """
    names = sorted({*old[1], *new[1]})
    if min(len({*clusters}) for _, clusters in (old, new)) < LEAST_CLUSTERS:
        return Estimate.missing(NoValue.TOO_FEW, n=len(names))
    values = np.array([*old[0], *new[0]])
    order = np.argsort(values, kind="stable")
    ends = np.append(values[order][1:] - values[order][:-1] > _TIE, True)
    is_new = np.arange(len(values)) >= len(old[0])
    places = Clusters.named([*old[1], *new[1]]).places
    both = np.isin(names, [*{*old[1]} & {*new[1]}])
    side = np.zeros(len(names), dtype=bool)
    side[places[is_new]] = True
    found = _distance(is_new[order], ends)
    numbers, alone, hits = generator(f"shift:{seed}"), np.flatnonzero(~both), 1
    for _ in range(draws):
        mine = side.copy()
        mine[alone] = numbers.permutation(side[alone])
        swapped = both & (numbers.random(len(names)) < 0.5)
        drawn = np.where(both[places], is_new ^ swapped[places], mine[places])
        hits += bool(_distance(drawn[order], ends) >= found - _TIE)
    return Estimate(found, n=len(names), p=hits / (draws + 1))


def _distance(is_new: Bools, ends: Bools) -> float:
    """The greatest distance of the two distributions; rows in order, `ends` after equal ones."""
    count = int(is_new.sum())
    if not 0 < count < len(is_new):
        return 1.0
    new = np.cumsum(is_new)
    old = np.arange(1, len(is_new) + 1) - new
    return float(np.abs(new / count - old / (len(is_new) - count))[ends].max())
