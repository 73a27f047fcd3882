"""Sentences that people graded, paired or chose among, to how well a scorer agrees.

An item with a sentence that cannot be scored is missing, and counted; it is never zero.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any, Final

import numpy as np

from harness.implicitness.pairs import Item, Items
from harness.implicitness.scorer import Scorer
from harness.lazy import DataFrame, pandas
from harness.models.vectors import Progress
from harness.stats.correlation import document_taus, spearman
from harness.stats.intervals import mean_interval

MEASURED: Final = ("metric", "value", "low", "high", "n", "topics", "missing", "chance")
NEITHER: Final = (None, None)
Value = float | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How well a scorer does: the means, and each ranking by itself; docs/impscore.md has more.

    A row of `measured` is the mean of a metric over items, with its 95 % interval over topics: tau
    and rho are -1 to 1, the others shares, a tie counting as half. `value` is NaN without items,
    `low` and `high` where there is no interval. `missing` items have a sentence without a score, or
    scores that are all equal. `rankings` are dicts of topic, scores, tau and rho, None where there
    is none. `closest` has the credit of each choice, 0 to 1; None where one cannot be scored.
    `trained_on` counts the items that the scorer was trained on; None where nobody knows.
    """

    scorer: str
    items: int
    trained_on: int | None
    measured: DataFrame
    rankings: list[dict[str, Any]]
    means: DataFrame
    closest: list[Value]


def evaluate(items: Items, scorer: Scorer, *, progress: Progress | None = None) -> Evaluation:
    """Evaluate a scorer on the items: tau, rho and shares right, for the kinds there are."""
    rankings, pairs, choices = items.rankings, items.pairs, items.choices
    asked = [*(one.sentences for one in rankings), *(one.sentences[:2] for one in pairs)]
    scored = iter(scorer.score([text for texts in asked for text in texts], progress))
    scores = [tuple(next(scored).value for _ in texts) for texts in asked]
    ranked, sides = scores[: len(rankings)], scores[len(rankings) :]
    taus, rhos = (
        [_correlated(how, one, own) for one, own in zip(rankings, ranked, strict=True)]
        for how in (tau, rho)
    )
    two = [*(one.sentences[:2] for one in pairs), *(one.sentences[2:] or NEITHER for one in pairs)]
    apart = _distances(two, scorer, progress)
    near, far = apart[: len(pairs)], apart[len(pairs) :]
    whole = [at for at, one in enumerate(pairs) if len(one.sentences) > 2]
    nearer = [_higher(far[at], near[at]) for at in whole]
    closest = _closest(choices, scorer, progress)
    by_chance = sum(1 / (len(one.sentences) - 1) for one in choices) / max(len(choices), 1)
    found: list[tuple[str, Sequence[Item], Sequence[Value], float]] = [
        ("tau", rankings, taus, 0.0),
        ("rho", rankings, rhos, 0.0),
        ("ordered", rankings, [*map(_ordered, rankings, ranked)], 0.5),
        ("ends", rankings, [*map(_ends, rankings, ranked)], 0.5),
        ("pairs", pairs, [_higher(*own) for own in sides], 0.5),
        ("pragmatics", [pairs[at] for at in whole], nearer, 0.5),
        ("closest", choices, closest, by_chance),
    ]
    columns = {"implicit": [one for one, _ in sides], "explicit": [other for _, other in sides]}
    means = pandas.DataFrame(columns | {"pair": near, "negative": far}, dtype=float)
    means = means.agg(["mean", "std", "count"]).T.rename_axis("of").reset_index()
    means = means.set_axis(["of", "mean", "sd", "n"], axis=1).astype({"n": int})
    each = zip(rankings, ranked, taus, rhos, strict=True)
    return Evaluation(
        scorer=scorer.signature,
        items=len(items.all),
        trained_on=scorer.overlap(item.sentences for item in items.all),
        measured=pandas.DataFrame([_measured(*one) for one in found if one[2]], columns=MEASURED),
        rankings=[{"topic": i.topic, "scores": s, "tau": t, "rho": r} for i, s, t, r in each],
        means=means if near else means[:0],
        closest=closest,
    )


def tau(levels: Sequence[float], scores: Sequence[float]) -> Value:
    """Kendall's tau-b of scores with their levels; None where all are equal."""
    found = float(document_taus([levels], [scores])[0])
    return None if np.isnan(found) else found


def rho(levels: Sequence[float], scores: Sequence[float]) -> Value:
    """Spearman's rho of scores with their levels; None where all are equal."""
    return spearman(levels, scores).value


def _correlated(
    how: Callable[[Sequence[float], Sequence[float]], Value], item: Item, scores: Sequence[Value]
) -> Value:
    known = [score for score in scores if score is not None]
    return how(item.levels, known) if len(known) == len(scores) else None


def _distances(
    pairs: Sequence[tuple[object, ...]], scorer: Scorer, progress: Progress | None
) -> list[Value]:
    asked = [(first, second) for first, second in pairs]
    return [one.value for one in scorer.distances(asked, progress)] if asked else []


def _higher(first: Value, second: Value) -> Value:
    if first is None or second is None:
        return None
    return 0.5 * (1 + (first > second) - (first < second))


def _ordered(item: Item, scores: Sequence[Value]) -> Value:
    graded = zip(item.levels, scores, strict=True)
    both = [sorted(two, key=lambda one: one[0]) for two in combinations(graded, 2)]
    credits = [_higher(high[1], low[1]) for low, high in both if low[0] != high[0]]
    return mean_known(credits) if None not in credits else None


def _ends(item: Item, scores: Sequence[Value]) -> Value:
    low, high = (item.levels.index(end(item.levels)) for end in (min, max))
    return _higher(scores[high], scores[low])


def _closest(choices: Sequence[Item], scorer: Scorer, progress: Progress | None) -> list[Value]:
    """The credit of each choice: 1 for the right one alone, its share of a tie, else 0."""
    asked = [(one.sentences[0], other) for one in choices for other in one.sentences[1:]]
    values = iter(_distances(asked, scorer, progress))
    credits: list[Value] = []
    for one in choices:
        apart = [next(values) for _ in one.sentences[1:]]
        there = [value for value in apart if value is not None]
        share = (apart[one.answer] == min(there)) / there.count(min(there)) if there else None
        credits.append(share if len(there) == len(apart) else None)
    return credits


def mean_known(values: Sequence[Value]) -> Value:
    """The mean of the values that are not None; None if there are none."""
    there = [value for value in values if value is not None]
    return fmean(there) if there else None


def _measured(
    metric: str, items: Sequence[Item], values: Sequence[Value], chance: float
) -> tuple[object, ...]:
    """The mean of the values of items (None: missing), and how many are missing."""
    # Rounded, because a rho of 1 comes out a little less.
    known = [(round(v, 12), i.topic) for v, i in zip(values, items, strict=True) if v is not None]
    own, topics = [value for value, _ in known], [topic for _, topic in known]
    found = mean_interval(own, topics, is_share=metric not in ("tau", "rho")).within(-1, 1)
    missing = len(values) - found.n
    return metric, found.value, found.low, found.high, found.n, found.clusters, missing, chance
