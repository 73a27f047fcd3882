"""Models on the same items, to ranks, and to groups of models whose order is not known.

The pairs of models are tested as in the shared tasks of WMT (Kocmi et al. 2023, "Findings of the
2023 Conference on Machine Translation"): by flips of whole clusters, corrected by Holm over pairs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from harness.stats.comparison import holm
from harness.stats.estimate import Floats, flip_p, ratio
from harness.stats.scales import ROUNDING

Pooled = Callable[[Floats], Floats]
"""Sums over items, one row a model, to the score of each row; NaN where it has none."""
_DRAWS_PER_PAIR = 40  # so that the smallest p, of draws, times the number of pairs is small


@dataclass(frozen=True, slots=True)
class ModelRanking:
    """Scores of models on the same items, their ranks, and the groups that these fall into.

    Rank and group 1 are the best; models of equal score share the better rank. A group ends only
    where each model above is better than each below by `p`, the pairs' p-values after Holm, by
    the places of two models, the smaller first.
    """

    values: tuple[float, ...]
    ranks: tuple[int, ...]
    groups: tuple[int, ...]
    p: Mapping[tuple[int, int], float]


def rank_groups(
    sums: Floats, pooled: Pooled, *, seed: str, draws: int = 2000, level: float = 0.05
) -> ModelRanking:
    """Rank models by a score of all items together, and say which differ.

    `sums` is models x clusters x features: what each cluster of items adds to the sums that
    `pooled` turns into a score. If two models are alike, each cluster's items might as well have
    been the other's: they are swapped whole (Fisher 1935, section 21), and p, two-sided, is the
    share of swaps with as large a difference, of all or of `draws` or 40 a pair. ValueError where a
    model has no score.
    """
    values = pooled(sums.sum(axis=1))
    if np.isnan(values).any():
        raise ValueError(f"each model needs a score, not {values.tolist()}")
    pairs = list(combinations(range(len(sums)), 2))
    found = flip_p(
        sums.shape[1],
        lambda signs: _reached(signs, sums, pooled),
        seed=seed,
        draws=draws,
        least=_DRAWS_PER_PAIR * len(pairs),
    )
    adjusted = holm(found.tolist())
    p = {pair: 1.0 if one is None else one for pair, one in zip(pairs, adjusted, strict=True)}
    ranks = tuple(1 + int((values > own + ROUNDING).sum()) for own in values)
    return ModelRanking(tuple(map(float, values)), ranks, _groups(values, p, level), p)


def _groups(values: Floats, p: Mapping[tuple[int, int], float], level: float) -> tuple[int, ...]:
    order = sorted(range(len(values)), key=lambda place: -values[place])
    ordered = [[p.get((min(a, b), max(a, b)), 1.0) for b in order] for a in order]
    is_apart = np.array(ordered) <= level
    groups, group = dict.fromkeys(order[:1], 1), 1
    for cut in range(1, len(order)):
        group += bool(is_apart[:cut, cut:].all())
        groups[order[cut]] = group
    return tuple(groups[place] for place in range(len(values)))


def _reached(signs: Floats, sums: Floats, pooled: Pooled) -> Floats:
    """For each pair of models, how many of some swaps differ by as much as the data."""
    models, clusters, features = sums.shape
    totals = sums.sum(axis=1)
    observed = pooled(totals)
    columns = sums.transpose(1, 0, 2).reshape(clusters, models * features)
    drawn = (signs @ columns).reshape(len(signs), models, features)
    found = [np.zeros(0)]
    for a in range(models - 1):
        half = (drawn[:, a : a + 1] - drawn[:, a + 1 :]) / 2
        middle = (totals[a] + totals[a + 1 :]) / 2
        gaps = np.abs(pooled(middle + half) - pooled(middle - half))
        least = np.abs(observed[a] - observed[a + 1 :]) - ROUNDING
        # A swap after which one has no score counts for no difference.
        found.append((~(gaps < least)).sum(axis=0))
    return np.concatenate(found)


def mean_of(sums: Floats) -> Floats:
    """The mean, of a sum of values and a count."""
    return ratio(sums[..., 0], sums[..., 1])


def informedness(sums: Floats) -> Floats:
    """Youden's J (1950): TPR less FPR, of flagged and all positives, then negatives."""
    return ratio(sums[..., 0], sums[..., 1]) - ratio(sums[..., 2], sums[..., 3])


def macro_f1_of(sums: Floats) -> Floats:
    """The mean F1 over classes: of the hits of each, then the times it is given or true."""
    hits, times = np.split(sums, 2, axis=-1)
    is_there = times > ROUNDING
    each = np.where(is_there, 2 * hits / np.where(is_there, times, 1.0), 0.0)
    return ratio(each.sum(axis=-1), is_there.sum(axis=-1))
