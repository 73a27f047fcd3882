"""Items that people graded to how well a scorer agrees with them.

An item with a sentence that cannot be scored is missing, and counted; it is never zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from harness.implicitness.items import Choice, Items, Ranking
from harness.implicitness.scorer import Scorer
from harness.models.vectors import Progress
from harness.stats.correlation import document_taus, spearman
from harness.stats.estimate import mean_interval

Metric = Literal["tau", "rho", "ordered", "ends", "pairs", "closest"]


@dataclass(frozen=True, slots=True)
class MetricEstimate:
    """The mean of a metric over items, with a 95 % bootstrap interval over topics.

    tau (Kendall's tau-b) and rho (Spearman's) of a ranking's scores with its levels are -1 to 1.
    The others are shares, 0 to 1, a tie counting as half: `ordered`, of a ranking's sentence
    pairs of unequal level that are in order; `ends`, of rankings whose lowest level (the first
    of it) scores below the highest; `pairs`, of pairs whose implicit sentence scores higher;
    `closest`, of choices made right. `value` is None without items, `low` and `high` where
    there is no interval.
    `missing` items have a sentence without a score, or scores that are all equal.
    """

    metric: Metric
    value: float | None
    low: float | None
    high: float | None
    n: int
    topics: int
    missing: int
    chance: float


@dataclass(frozen=True, slots=True)
class RankedItem:
    """One ranking: the scores of its sentences, its tau and rho; None where there is none."""

    topic: str
    scores: tuple[float | None, ...]
    tau: float | None
    rho: float | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How well a scorer does: the means, and each ranking by itself.

    `trained_on` counts the items with a sentence that the scorer was trained on; None where
    nobody knows its training texts.
    """

    scorer: str
    items: int
    trained_on: int | None
    measured: tuple[MetricEstimate, ...]
    rankings: tuple[RankedItem, ...]


@dataclass(frozen=True, slots=True)
class _Credits:
    """The value of a metric for each item (None: missing), its topic, and chance level."""

    metric: Metric
    values: Sequence[float | None]
    topics: Sequence[str]
    chance: float


def evaluate(
    items: Items,
    scorer: Scorer,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate a scorer on the items: tau, rho and shares right, for the kinds there are."""
    sentences = [text for one in items.rankings for text in one.sentences]
    sentences += [text for one in items.pairs for text in (one.implicit, one.explicit)]
    values = iter([scored.value for scored in scorer.score(sentences, progress)])
    ranked = [_ranked(one, [next(values) for _ in one.sentences]) for one in items.rankings]
    pairs = [_higher(next(values), next(values)) for _ in items.pairs]
    topics = [one.topic for one in items.rankings]
    found = [
        _Credits("tau", [one.tau for one in ranked], topics, 0.0),
        _Credits("rho", [one.rho for one in ranked], topics, 0.0),
        _Credits("ordered", [*map(_ordered, items.rankings, ranked)], topics, 0.5),
        _Credits("ends", [*map(_ends, items.rankings, ranked)], topics, 0.5),
        _Credits("pairs", pairs, [one.topic for one in items.pairs], 0.5),
        _closest(items.choices, scorer, progress),
    ]
    measured = [_measured(one, seed=f"{seed}:{one.metric}") for one in found if one.values]
    return Evaluation(
        scorer=scorer.signature,
        items=len(items.all),
        trained_on=scorer.overlap(item.sentences for item in items.all),
        measured=tuple(measured),
        rankings=tuple(ranked),
    )


def _ranked(ranking: Ranking, values: Sequence[float | None]) -> RankedItem:
    """A ranking's tau and rho, None where a sentence has no score or all have one."""
    scores = tuple(values)
    if None in scores:
        return RankedItem(ranking.topic, scores, None, None)
    known = [value for value in values if value is not None]
    rho = spearman(ranking.levels, known).value
    return RankedItem(ranking.topic, scores, tau(ranking.levels, known), rho)


def tau(levels: Sequence[float], scores: Sequence[float]) -> float | None:
    """Kendall's tau-b of scores with their levels; None where all are equal."""
    found = float(document_taus([levels], [scores])[0])
    return None if np.isnan(found) else found


def _ordered(ranking: Ranking, ranked: RankedItem) -> float | None:
    graded = [*zip(ranking.levels, ranked.scores, strict=True)]
    credits = [
        _higher(high[1], low[1])
        for one, other in combinations(graded, 2)
        if one[0] != other[0]
        for low, high in [(one, other) if one[0] < other[0] else (other, one)]
    ]
    known = [credit for credit in credits if credit is not None]
    return sum(known) / len(known) if known and len(known) == len(credits) else None


def _ends(ranking: Ranking, ranked: RankedItem) -> float | None:
    low = ranking.levels.index(min(ranking.levels))
    high = ranking.levels.index(max(ranking.levels))
    return _higher(ranked.scores[high], ranked.scores[low])


def _higher(first: float | None, second: float | None) -> float | None:
    """1 where the first is greater, 0 where the second is, a half where neither."""
    if first is None or second is None:
        return None
    return 0.5 * (1 + (first > second) - (first < second))


def _closest(choices: Sequence[Choice], scorer: Scorer, progress: Progress | None) -> _Credits:
    """The credit of each choice: 1 for the right one alone, its share of a tie, else 0."""
    asked = [(one.sentence, other) for one in choices for other in one.choices]
    values = iter([scored.value for scored in scorer.distances(asked, progress)])
    credits: list[float | None] = []
    for one in choices:
        apart = [next(values) for _ in one.choices]
        there = [value for value in apart if value is not None]
        if len(there) < len(apart):
            credits.append(None)
        else:
            is_right = apart[one.answer] == min(there)
            credits.append(is_right / there.count(min(there)))
    chance = sum(1 / len(one.choices) for one in choices) / max(len(choices), 1)
    return _Credits("closest", credits, [one.topic for one in choices], chance)


def _measured(credits: _Credits, *, seed: str) -> MetricEstimate:
    """The mean of the values, and how many are missing.

    Intervals are drawn for shares; a correlation is mapped to one, (r + 1) / 2.
    """
    pairs = [*zip(credits.values, credits.topics, strict=True)]
    known = [(value, topic) for value, topic in pairs if value is not None]
    floor = -1 if credits.metric in ("tau", "rho") else 0
    # Rounded, because a rho of 1 comes out a little less.
    shares = [round((value - floor) / (1 - floor), 12) for value, _ in known]
    estimate = mean_interval(shares, [topic for _, topic in known], seed=seed)
    value, low, high = (
        None if share is None else share * (1 - floor) + floor
        for share in (estimate.value, estimate.low, estimate.high)
    )
    return MetricEstimate(
        metric=credits.metric,
        value=value,
        low=low,
        high=high,
        n=estimate.n,
        topics=estimate.clusters,
        missing=len(pairs) - estimate.n,
        chance=credits.chance,
    )
