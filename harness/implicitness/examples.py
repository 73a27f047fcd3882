"""Training pairs and an encoder to rows of vectors and what is to be learned of them.

Each sentence is encoded once for all epochs, splits and settings. Nothing here trains.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import sqrt
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError, StoreError
from harness.implicitness.formula import Maps, Matrix
from harness.implicitness.pairs import RELEASED, TrainingPair
from harness.models.encoders.encoders import Encoder
from harness.models.vectors import Vectors
from harness.storage.files import write_whole
from harness.storage.layouts import layout_of
from harness.storage.table_files import Table, read_table
from harness.text.dedup import fingerprint

AT_ONCE: Final = 1024  # sentences between two reports of progress
Places = NDArray[np.int64]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """The vector of each sentence: a row of `vectors` [n, dim] at its place."""

    vectors: Vectors
    places: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class PairExamples:
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


def examples(pairs: Sequence[TrainingPair], embedded: Embedded) -> PairExamples:
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
    return PairExamples(embedded.vectors, table, known[:, :2], known[:, 2])


SMALLEST: Final = 1e-6  # a column that is narrower counts as one that never changes
VARIED: Final = 2 / 3  # of a scaled row's mean squared length; the rest is the column that does not


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """What is taken from each column [dim] and by what [dim] it is multiplied.

    `constant` is the place of a column that never changes and `value` what it holds, null where
    there is none; then nothing is taken.
    """

    shift: NDArray[np.float64]
    factor: NDArray[np.float64]
    constant: int | None = None
    value: float | None = None

    def scaled(self, vectors: Vectors) -> Vectors:
        """The vectors [n, dim] with columns as wide as one another, rows about 1 long."""
        rows: Vectors = ((vectors - self.shift) * self.factor).astype(np.float32)
        return rows

    def unscaled(self, maps: Maps[Matrix]) -> Maps[Matrix]:
        """The matrices that make of the vectors what `maps` make of scaled ones."""
        return replace(
            maps, semantic=self._back(maps.semantic), pragmatic=self._back(maps.pragmatic)
        )

    def _back(self, matrix: Matrix) -> Matrix:
        """A matrix [dim, k] on scaled rows as one on the rows themselves."""
        found = matrix.astype(np.float64) * self.factor[:, None]
        if self.constant is not None and self.value is not None:
            found[self.constant] -= self.shift @ found / self.value
        return found.astype(np.float32)


def scaling(vectors: Vectors) -> Scaling:
    """The scaling by the means and standard deviations of some vectors [n, dim]."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    wide = vectors.std(axis=0, dtype=np.float64)
    is_varied = wide > SMALLEST
    unit = sqrt(VARIED / max(is_varied.sum(), 1))
    factor = np.where(is_varied, unit / np.where(is_varied, wide, 1), 0.0)
    still = np.flatnonzero(~is_varied & (np.abs(mean) > SMALLEST))
    if not len(still):
        return Scaling(np.zeros_like(mean), factor)
    constant = int(still[0])
    factor[constant] = sqrt(1 - VARIED) / mean[constant]
    return Scaling(np.where(is_varied, mean, 0.0), factor, constant, float(mean[constant]))


_log = logging.getLogger(__name__)
COLUMNS: Final = (*RELEASED, "implicit", "explicit", "levels", "text")


def trained_on(path: Path, kept: Path) -> frozenset[str]:
    """The fingerprints (sameness) of the texts in a file, from the folder where they are kept."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); correct `trained_on:` in the scorer's YAML"
        ) from error
    known = kept / f"{hashlib.sha256(data).hexdigest()}.txt"
    if known.is_file():
        return frozenset(known.read_text("utf-8").split())
    layout = layout_of(path.name, data, has_column=True)
    found = fingerprints(read_table(str(path), data, layout), where=str(path))
    try:
        write_whole(known, "".join(f"{one}\n" for one in sorted(found)).encode())
    except StoreError as error:
        _log.warning("%s; the fingerprints will be computed again", error)
    return found


def fingerprints(table: Table, *, where: str) -> frozenset[str]:
    """The fingerprints of the texts of a table, in whichever of COLUMNS it has.

    Lists of texts count as the texts in them; cells without a text do not count.
    """
    places = [place for place, name in enumerate(table.columns) if name in COLUMNS]
    cells = [cell for place in places for cell in table.cells(place)]
    parts = [part for cell in cells for part in (cell if isinstance(cell, list) else [cell])]
    texts = {part for part in parts if isinstance(part, str) and part.strip()}
    if not texts:
        raise DataError(
            f"{where}: no texts in any column of {', '.join(COLUMNS)}; call the column of the "
            "texts `text`"
        )
    return frozenset(map(fingerprint, texts))
