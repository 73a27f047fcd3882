"""Vectors of texts and their classes to heads, and vectors to a head's scores.

A head is a linear classifier or a support vector machine with a radial kernel. Scikit-learn trains
it; its numbers alone are kept, as safetensors, which cannot hold code. Nothing here reads a text.
"""

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isqrt
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from harness.errors import ModelError
from harness.models.extras import require
from harness.models.vectors import Vectors
from harness.specs.models import SklearnSpec
from harness.storage.files import write_whole

_log = logging.getLogger(__name__)
Scores = NDArray[np.float64]
FILE = "head.safetensors"


class ScoringHead(Protocol):
    """What scores vectors, a score for each class."""

    def scores(self, rows: Vectors) -> Scores:
        """Score rows [n, width]: [n, classes], the highest for the class that is chosen."""

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The numbers that it is made of, by name."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearHead:
    """A linear classifier: weights [classes, width], and offsets [classes]."""

    weights: Scores
    offsets: Scores

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The numbers that it is made of, by name."""
        return {"weights": self.weights, "offsets": self.offsets}

    def scores(self, rows: Vectors) -> Scores:
        """Score rows [n, width]: [n, classes], decision scores or log-odds."""
        _check_width(rows, self.weights)
        return np.asarray(rows.astype(np.float64) @ self.weights.T + self.offsets)


@dataclass(frozen=True, slots=True, eq=False)
class RadialHead:
    """A support vector machine whose kernel is exp(-gamma |x - v|^2) of x and a support vector v.

    It has a machine for each pair of classes, (0, 1), (0, 2), ... (1, 2): `pairs` [pairs, vectors]
    and `offsets` [pairs]; above 0 the first class of the pair wins. `support` is [vectors, width],
    and `gamma` is [1].
    """

    support: Vectors
    pairs: Scores
    offsets: Scores
    gamma: Scores

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The numbers that it is made of, by name."""
        names = ("support", "pairs", "offsets", "gamma")
        return {name: getattr(self, name) for name in names}

    def scores(self, rows: Vectors) -> Scores:
        """Score rows [n, width]: [n, classes]; of two classes the decision score and its negative.

        Of more, each pair won is a vote, and its margins settle ties, as in scikit-learn's
        `decision_function` of shape ovr and its choice with `break_ties`.
        """
        _check_width(rows, self.support)
        own, theirs = rows.astype(np.float64), self.support.astype(np.float64)
        squares = (own**2).sum(axis=1)[:, None] + (theirs**2).sum(axis=1) - 2 * own @ theirs.T
        margins = np.exp(-self.gamma * np.maximum(squares, 0.0)) @ self.pairs.T + self.offsets
        if margins.shape[1] == 1:
            return np.hstack([margins, -margins])
        count = (1 + isqrt(1 + 8 * margins.shape[1])) // 2  # classes of so many pairs
        votes, sure = np.zeros((2, len(rows), count))
        for margin, (first, second) in zip(margins.T, combinations(range(count), 2), strict=True):
            votes[:, first] += margin >= 0
            votes[:, second] += margin < 0
            sure[:, first] += margin
            sure[:, second] -= margin
        return np.asarray(votes + sure / (3 * (np.abs(sure) + 1)))


def _check_width(rows: Vectors, known: NDArray[Any]) -> None:
    if rows.shape[1] != known.shape[1]:
        raise ModelError("a head of vectors of another width; train the classifier again")


def fit(rows: Vectors, places: Sequence[int], spec: SklearnSpec, *, seed: int) -> ScoringHead:
    """Train a head on rows whose classes are `places`, from 0; every class must occur."""
    require("sklearn", extra="classic")
    weight = None if spec.class_weight == "none" else spec.class_weight
    if spec.head == "svm-rbf":
        return _radial(rows, places, spec, weight)
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    kind = LinearSVC if spec.head == "svm" else LogisticRegression
    model = kind(C=spec.c, class_weight=weight, max_iter=spec.max_iter, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(rows, np.asarray(places))
    if any(issubclass(one.category, ConvergenceWarning) for one in caught):
        _log.warning("training stopped at max_iter %d before it converged: raise it", spec.max_iter)
    weights, offsets = np.asarray(model.coef_), np.asarray(model.intercept_)
    if len(weights) > 1:
        return LinearHead(weights.astype(np.float64), offsets.astype(np.float64))
    # For two classes there is one row: the first is what the second is not, its log-odds are 0.
    first = -1.0 if spec.head == "svm" else 0.0
    return LinearHead(np.vstack([first * weights, weights]), np.append(first * offsets, offsets))


def _radial(
    rows: Vectors, places: Sequence[int], spec: SklearnSpec, weight: str | None
) -> RadialHead:
    from sklearn.svm import SVC

    gamma = "scale" if spec.gamma is None else spec.gamma
    model = SVC(C=spec.c, gamma=gamma, class_weight=weight, cache_size=2000)
    model.fit(rows, np.asarray(places))
    own, count = np.asarray(model.dual_coef_), len(model.n_support_)
    of = np.repeat(np.arange(count), model.n_support_)  # the class of each support vector
    pairs = np.zeros((count * (count - 1) // 2, len(of)))
    for at, (first, second) in enumerate(combinations(range(count), 2)):
        pairs[at, of == first] = own[second - 1, of == first]
        pairs[at, of == second] = own[first, of == second]
    # Of two classes scikit-learn turns the signs: above 0 the second wins.
    sign = -1.0 if count == 2 else 1.0
    return RadialHead(
        np.asarray(model.support_vectors_, dtype=np.float32),
        sign * pairs,
        sign * np.asarray(model.intercept_, dtype=np.float64),
        np.array([model._gamma]),
    )


def log_shares(scores: Scores) -> Scores:
    """Turn log-odds [n, classes] into log-probabilities, in nats."""
    from scipy.special import log_softmax

    return np.asarray(log_softmax(scores, axis=1))


def save_head(head: ScoringHead, folder: Path) -> Path:
    """Write a head's arrays as safetensors, which cannot hold code."""
    from safetensors.numpy import save

    path = folder / FILE
    # safetensors writes an array's memory as it lies, and scikit-learn's lies by columns.
    write_whole(path, save({n: np.ascontiguousarray(part) for n, part in head.arrays.items()}))
    return path


def load_head(folder: Path, labels: int) -> ScoringHead:
    """Read a saved head; ModelError unless its numbers are finite and of that many labels."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays = load_file(folder / FILE)
        head = RadialHead(**arrays) if "support" in arrays else LinearHead(**arrays)
        is_finite = all(np.isfinite(part).all() for part in arrays.values())
        if not (is_finite and _is_of(head, labels)):
            raise SafetensorError(f"no finite weights of {labels} labels")
    except (OSError, TypeError, SafetensorError) as error:
        raise ModelError(f"{folder / FILE}: damaged ({error}); train it again") from error
    return head


def _is_of(head: LinearHead | RadialHead, labels: int) -> bool:
    if isinstance(head, LinearHead):
        return head.weights.shape[:1] == head.offsets.shape == (labels,) and head.weights.ndim == 2
    pairs = labels * (labels - 1) // 2
    shapes = (head.pairs.shape, head.offsets.shape, head.gamma.shape)
    return head.support.ndim == 2 and shapes == ((pairs, len(head.support)), (pairs,), (1,))
