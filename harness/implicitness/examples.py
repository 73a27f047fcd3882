"""Training pairs and an encoder to rows of vectors and what is to be learned of them.

Each sentence is encoded once for all epochs, splits and settings. Nothing here trains.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from harness.implicitness.pairs import TrainingPair
from harness.models.encoders.encoders import Encoder
from harness.models.vectors import Vectors

AT_ONCE: Final = 1024  # sentences between two reports of progress
Places = NDArray[np.int64]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """The vector of each sentence: a row of `vectors` [n, dim] at its place."""

    vectors: Vectors
    places: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """What is to be learned of rows of `vectors` [n, dim].

    `pairs` [m, 4] has the rows of a pair's implicit and explicit sentence and of its negative's.
    In `orders` [o, 2] the first row is more implicit than the second, by `steps` [o] levels.
    """

    vectors: Vectors
    pairs: Places
    orders: Places
    steps: Places

    def __len__(self) -> int:
        return len(self.pairs)


def embed(
    pairs: Iterable[TrainingPair], encoder: Encoder, progress: Progress | None = None
) -> Embedded:
    """Encode each different sentence of the pairs, the short ones first."""
    texts = {text for pair in pairs for text in pair.sentences}
    order = sorted(texts, key=lambda text: (len(text), text))
    parts = []
    for start in range(0, len(order), AT_ONCE):
        parts.append(encoder.encode(order[start : start + AT_ONCE]))
        if progress is not None:
            progress(min(start + AT_ONCE, len(order)), len(order))
    vectors = np.concatenate(parts) if parts else np.empty((0, 0), np.float32)
    return Embedded(vectors, {text: place for place, text in enumerate(order)})


def examples(pairs: Sequence[TrainingPair], embedded: Embedded) -> Examples:
    """What pairs teach: each must have its negative. Levels teach all orders of two of them."""
    place = embedded.places
    fours = [
        (place[pair.implicit], place[pair.explicit], *(place[text] for text in pair.negative or ()))
        for pair in pairs
    ]
    orders = [
        (place[pair.levels[high]], place[pair.levels[low]], high - low)
        for pair in pairs
        for low, high in combinations(range(len(pair.levels)), 2)
    ]
    known = np.array(orders, dtype=np.int64).reshape(-1, 3)
    table = np.array(fours, dtype=np.int64).reshape(-1, 4)
    return Examples(embedded.vectors, table, known[:, :2], known[:, 2])
