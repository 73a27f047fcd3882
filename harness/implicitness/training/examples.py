"""Training pairs and an encoder to rows of vectors and the examples to train on.

Each sentence is encoded once for all epochs, splits and settings. Nothing here trains.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from harness.implicitness.formula import Maps, Matrix
from harness.implicitness.pairs import TrainingPair
from harness.models.encoders.encoders import Encoder
from harness.models.vectors import Progress, Vectors, reported_chunks

AT_ONCE: Final = 1024  # sentences between two reports of progress
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """The vector of each sentence: a row of `vectors` [n, dim] at its place."""

    vectors: Vectors
    places: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class PairExamples:
    """Examples that refer to rows of `vectors` [n, dim].

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
    """Encode each distinct sentence of the pairs, the short ones first."""
    texts = {text for pair in pairs for text in pair.sentences}
    order = sorted(texts, key=lambda text: (len(text), text))
    parts = [
        encoder.encode(batch)
        for batch in reported_chunks(order, AT_ONCE, progress, stage="sentences")
    ]
    vectors = np.concatenate(parts) if parts else np.empty((0, 0), np.float32)
    return Embedded(vectors, {text: place for place, text in enumerate(order)})


def examples(pairs: Sequence[TrainingPair], embedded: Embedded) -> PairExamples:
    """Build examples of pairs, each with its negative; levels give all orders of two."""
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
    return PairExamples(embedded.vectors, table, known[:, :2], known[:, 2])


SMALLEST: Final = 1e-6  # a column that is narrower counts as one that never changes
VARIED: Final = 2 / 3  # of a scaled row's mean squared length; the rest is the column that does not


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """What is subtracted from each column [dim], and the factor [dim] it is multiplied by.

    `constant` is the place of a column that never changes and `value` its value, None where
    there is none; then nothing is subtracted.
    """

    shift: NDArray[np.float64]
    factor: NDArray[np.float64]
    constant: int | None = None
    value: float | None = None

    def scaled(self, vectors: Vectors) -> Vectors:
        """Scale vectors [n, dim] to columns of equal spread and rows of length about 1."""
        rows: Vectors = ((vectors - self.shift) * self.factor).astype(np.float32)
        return rows

    def unscaled(self, maps: Maps[Matrix]) -> Maps[Matrix]:
        """Turn matrices for scaled vectors into equivalent ones for the vectors."""
        return replace(
            maps, semantic=self._back(maps.semantic), pragmatic=self._back(maps.pragmatic)
        )

    def _back(self, matrix: Matrix) -> Matrix:
        found = matrix.astype(np.float64) * self.factor[:, None]
        if self.constant is not None and self.value is not None:
            found[self.constant] -= self.shift @ found / self.value
        return found.astype(np.float32)


def scaling(vectors: Vectors) -> Scaling:
    """Compute the scaling by the means and standard deviations of vectors [n, dim]."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    spread = vectors.std(axis=0, dtype=np.float64)
    is_varied = spread > SMALLEST
    unit = sqrt(VARIED / max(is_varied.sum(), 1))
    factor = np.where(is_varied, unit / np.where(is_varied, spread, 1), 0.0)
    constants = np.flatnonzero(~is_varied & (np.abs(mean) > SMALLEST))
    if not len(constants):
        return Scaling(np.zeros_like(mean), factor)
    constant = int(constants[0])
    factor[constant] = sqrt(1 - VARIED) / mean[constant]
    return Scaling(np.where(is_varied, mean, 0.0), factor, constant, float(mean[constant]))


_log = logging.getLogger(__name__)
