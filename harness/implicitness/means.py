"""Held-out pairs to the means of both sides: how implicit they are, and how far apart."""

from collections.abc import Sequence
from statistics import fmean

from harness.implicitness.pairs import TrainingPair
from harness.implicitness.scorer import Embedded, Head


def side_means(
    head: Head, held: Sequence[TrainingPair], embedded: Embedded
) -> dict[str, float | None]:
    """Mean implicitness of both sides, and mean pragmatic distance of pairs and of negatives.

    `implicit mean` and `explicit mean` are 0 to 2 where the head's distance is cosine, `pair
    distance` and `negative distance` 0 or more; None without a pair, or one with a negative.
    All sentences must be embedded.
    """
    scores = head.implicitness(embedded.vectors)

    def mean_score(texts: Sequence[str]) -> float | None:
        return fmean(float(scores[embedded.places[text]]) for text in texts) if texts else None

    def mean_distance(pairs: Sequence[tuple[str, str]]) -> float | None:
        if not pairs:
            return None
        first, second = (
            embedded.vectors[[embedded.places[text] for text in side]]
            for side in zip(*pairs, strict=True)
        )
        return float(head.pragmatic_distance(first, second).mean())

    return {
        "implicit mean": mean_score([pair.implicit for pair in held]),
        "explicit mean": mean_score([pair.explicit for pair in held]),
        "pair distance": mean_distance([(pair.implicit, pair.explicit) for pair in held]),
        "negative distance": mean_distance([pair.negative for pair in held if pair.negative]),
    }
