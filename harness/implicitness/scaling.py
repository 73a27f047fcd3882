"""Vectors to equally wide columns for training, and matrices learned there back to the vectors.

Columns of hidden states differ in width by orders of magnitude, and Adam learns the wide ones
alone. Because a head begins with a matrix, what it learned of scaled columns is a matrix on the
vectors themselves: a trained head knows nothing of this. Where the encoder has a column that
never changes, it takes up the shift to mean 0; where it has none, columns are only scaled.
"""

from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from harness.implicitness.formula import Maps, Matrix
from harness.models.vectors import Vectors

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
