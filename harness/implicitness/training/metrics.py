"""A head and held-out pairs to its accuracy on pairs, on meanings and on graded levels.

The baseline, word presence, knows no meaning: it adds up how much more often each word occurred on
the implicit side of the training pairs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean

import numpy as np

from harness.implicitness.evaluate import tau
from harness.implicitness.head import Head, Numbers
from harness.implicitness.pairs import TrainingPair
from harness.implicitness.training.examples import Embedded
from harness.stats.correlation import spearman
from harness.text.dedup import normal


@dataclass(frozen=True, slots=True)
class HeadMetrics:
    """How well a head scores held-out pairs; None where there are none of a kind.

    `implicitness` is the share of pairs whose implicit side scores above the explicit one,
    `pragmatics` that of pairs whose sides are nearer in meaning than its negative's, 0 to 1, ties
    half. `tau` (tau-b) and `rho` are the means of the rank correlations of each set of levels
    with its order, -1 to 1; `words` is the implicitness accuracy of word presence.
    """

    implicitness: float | None
    pragmatics: float | None
    tau: float | None
    rho: float | None
    words: float | None = None


def head_metrics(
    head: Head,
    held: Sequence[TrainingPair],
    embedded: Embedded,
    *,
    words: Callable[[str], float] | None = None,
) -> HeadMetrics:
    """Measure a head on held-out pairs, whose sentences are all embedded."""
    scores = head.implicitness(embedded.vectors)

    def score(text: str) -> float:
        return float(scores[embedded.places[text]])

    differences = [score(pair.implicit) - score(pair.explicit) for pair in held]
    graded = [[score(text) for text in pair.levels] for pair in held if pair.levels]
    return HeadMetrics(
        implicitness=accuracy(differences),
        pragmatics=accuracy(_nearer(head, held, embedded).tolist()),
        tau=mean_known([tau(range(len(found)), found) for found in graded]),
        rho=mean_known([spearman(range(len(found)), found).value for found in graded]),
        words=accuracy([words(p.implicit) - words(p.explicit) for p in held]) if words else None,
    )


def word_presence(known: Sequence[TrainingPair]) -> Callable[[str], float]:
    """Train the baseline: a function from a text to its score by words alone.

    The score is the sum, over the text's distinct words, of the log of how often each occurred on
    implicit sides over how often on explicit ones, each plus one (naive Bayes).
    """
    implicit = _counts(pair.implicit for pair in known)
    explicit = _counts(pair.explicit for pair in known)

    def score(text: str) -> float:
        words = sorted(set(normal(text).split()))
        return sum(log((implicit[word] + 1) / (explicit[word] + 1)) for word in words)

    return score


def _counts(texts: Iterable[str]) -> Counter[str]:
    return Counter(word for text in texts for word in set(normal(text).split()))


def _nearer(head: Head, held: Sequence[TrainingPair], embedded: Embedded) -> Numbers:
    """By how much each pair's sides are nearer than its negative's."""
    fours = [(p.implicit, p.explicit, *p.negative) for p in held if p.negative]
    if not fours:
        return np.empty(0)
    implicit, explicit, *negative = (
        embedded.vectors[[embedded.places[text] for text in side]]
        for side in zip(*fours, strict=True)
    )
    near = head.pragmatic_distance(implicit, explicit)
    return head.pragmatic_distance(negative[0], negative[1]) - near


def accuracy(apart: Sequence[float]) -> float | None:
    """The share of differences above zero, those of zero half; None without any."""
    return mean_known([(one > 0) + 0.5 * (one == 0) for one in apart])


def mean_known(values: Sequence[float | None]) -> float | None:
    """The mean of the values that are not None; None if there are none."""
    there = [value for value in values if value is not None]
    return fmean(there) if there else None
