"""Models on the same items, to ranks, and to how far these are known.

The pairs of models are tested as in the shared tasks of WMT (Kocmi et al. 2023, "Findings of the
2023 Conference on Machine Translation"): by flips of whole clusters, corrected by Holm over pairs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import NamedTuple

import numpy as np

from harness.stats.clustered import paired_gap
from harness.stats.comparison import holm_of
from harness.stats.estimate import Clusters, Floats, Indices, Limits, flips, ratio
from harness.stats.scales import ROUNDING, SIGNIFICANT

Pooled = Callable[[Floats], Floats]
"""Sums over items, one row a model, to the score of each row; NaN where it has none."""
_DRAWS_PER_PAIR = 40  # so that the smallest p, of draws, times the number of pairs is small
_FIRST = 1000  # draws after which most pairs that do not differ are known not to


LEAST_SHARED = 0.5
"""A model without this share of the items that others have would leave them too few."""


class Held(NamedTuple):
    """What the items of one model that add something add, in their order, and their clusters."""

    items: Indices
    clusters: Indices
    sums: Floats

    def totals(self, items: Indices) -> Floats:
        """What each cluster adds, of some items that are all there."""
        at = np.searchsorted(self.items, items)
        names = np.unique(self.clusters[at], return_inverse=True)[1]
        return Clusters.named(names).totals(self.sums[at])


def shared_items(held: Sequence[Held]) -> tuple[list[int], Indices]:
    """The models with enough of the items that any has, and the items that all of these have."""
    first = held[0].items
    if all(np.array_equal(one.items, first) for one in held):
        return [*range(len(held))], first
    every = len(np.unique(np.concatenate([one.items for one in held])))
    kept = [at for at, one in enumerate(held) if len(one.items) >= LEAST_SHARED * every > 0]
    parts = [held[at].items for at in kept]
    return kept, reduce(partial(np.intersect1d, assume_unique=True), parts) if parts else first[:0]


def most_unlike(held: Sequence[Held]) -> tuple[tuple[int, int], Limits, float | None]:
    """The models that miss the most and the fewest items: their places, their shares, and p.

    p is that of `paired_gap`, times the number of pairs of models (Bonferroni).
    """
    items = np.unique(np.concatenate([one.items for one in held]))
    clusters = np.zeros(len(items), np.intp)
    for one in held:
        clusters[np.searchsorted(items, one.items)] = one.clusters
    order = sorted(range(len(held)), key=lambda place: len(held[place].items))
    most, fewest = (~np.isin(items, held[order[end]].items) for end in (0, -1))
    p, pairs = paired_gap(most, fewest, clusters).p, len(held) * (len(held) - 1) // 2
    shares = float(most.mean()), float(fewest.mean())
    return (order[0], order[-1]), shares, None if p is None else p * pairs


@dataclass(frozen=True, slots=True)
class ModelRanking:
    """Scores of models on the same items, their ranks, and the ranks that they may have.

    Rank 1 is the best; models of equal score share the better rank. The `best` rank a model may
    have is one more than the models that are significantly better, its `worst` leaves below it
    those that are significantly worse. `p` are the pairs' p-values after Holm, by the places of two
    models, the smaller first. With more pairs than `draws` are enough for, p is the least that it
    may be where nothing depends on it.
    """

    values: tuple[float, ...]
    ranks: tuple[int, ...]
    best: tuple[int, ...]
    worst: tuple[int, ...]
    p: Mapping[tuple[int, int], float]


def rank_models(sums: Floats, pooled: Pooled, *, seed: str, draws: int = 10_000) -> ModelRanking:
    """Rank models by a score of all items together, and say which differ.

    `sums` is models x clusters x features: what each cluster of items adds to the sums that
    `pooled` turns into a score. If two models are alike, each cluster's items might as well have
    been the other's: they are swapped whole (Fisher 1935, section 21), and p, two-sided, is the
    share of swaps with as large a difference, of all or of `draws` or 40 a pair. ValueError where a
    model has no score.
    """
    swaps = _Swaps(sums, pooled)
    values = swaps.scores
    if np.isnan(values).any():
        raise ValueError(f"each model needs a score, not {values.tolist()}")
    pairs = np.column_stack(np.triu_indices(len(sums), 1))
    least = _DRAWS_PER_PAIR * len(pairs)
    at_hand, ways, blocks = flips(sums.shape[1], seed=seed, draws=draws, least=least)
    reached = np.full(len(pairs), float(at_hand))
    p = holm_of(reached / ways)
    for signs in (part for block in blocks for part in np.split(block, [_FIRST])):
        # Further draws only add to p: what is too large already stays so.
        if not (is_open := p <= SIGNIFICANT).any():
            break
        reached[is_open] += swaps.reached(signs, pairs[is_open])
        p = holm_of(reached / ways)
    better = np.zeros((len(sums), len(sums)), dtype=bool)
    for one, other in pairs[p <= SIGNIFICANT].tolist():
        better[(one, other) if values[one] > values[other] else (other, one)] = True
    ranks = tuple(1 + int((values > own + ROUNDING).sum()) for own in values)
    every = dict(zip(map(tuple, pairs.tolist()), p.tolist(), strict=True))
    best, worst = 1 + better.sum(axis=0), len(sums) - better.sum(axis=1)
    return ModelRanking(
        tuple(map(float, values)), ranks, tuple(best.tolist()), tuple(worst.tolist()), every
    )


class _Swaps:
    """Models whose clusters are swapped: what of their sums no swap changes is worked out once."""

    def __init__(self, sums: Floats, pooled: Pooled) -> None:
        self.pooled, self.totals = pooled, sums.sum(axis=1)
        self.scores = pooled(self.totals)
        # Of equal divisors a score is the sum of what each cluster adds to it.
        is_fair = pooled is not macro_f1_of and bool((sums[:, :, 1::2] == sums[:1, :, 1::2]).all())
        self.is_linear, flipped = is_fair, sums
        if is_fair:
            flipped = sums.copy()
            flipped[:, :, 1::2] = self.totals[:, None, 1::2]
            flipped = pooled(flipped)[:, :, None]
        self.shape = flipped.shape[::2]
        self.columns = np.ascontiguousarray(flipped.transpose(1, 0, 2)).reshape(sums.shape[1], -1)

    def reached(self, signs: Floats, pairs: Indices) -> Floats:
        """For each of some pairs of models, how many swaps differ by as much as the data."""
        totals, least = self.totals, np.abs(np.subtract(*self.scores[pairs.T])) - ROUNDING
        drawn = (signs @ self.columns).reshape(len(signs), *self.shape)
        if self.is_linear:
            scores = drawn[:, :, 0]
            # No gap exceeds that of the extremes.
            most, fewest = scores.max(axis=1, keepdims=True), scores.min(axis=1, keepdims=True)
            furthest = np.maximum(most - scores, scores - fewest)
        found = np.zeros(len(pairs))
        for a in np.unique(pairs[:, 0]):
            at = np.flatnonzero(pairs[:, 0] == a)
            others = pairs[at, 1]
            if self.is_linear:
                near = scores[furthest[:, a] >= least[at].min()]
                gaps = np.abs(near[:, [a]] - near[:, others])
            else:
                half = (drawn[:, [a]] - drawn[:, others]) / 2
                middle = (totals[a] + totals[others]) / 2
                gaps = np.abs(self.pooled(middle + half) - self.pooled(middle - half))
            # A swap after which one has no score counts for no difference.
            found[at] = (~(gaps < least[at])).sum(axis=0)
        return found


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
