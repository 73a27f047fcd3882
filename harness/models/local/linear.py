"""Vectors and labels to a linear classifier by scikit-learn, and vectors to its scores without it.

What is kept are two arrays: scores are rows @ weights.T + offsets, one column a class.
"""

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError, ModelError
from harness.models.local.checkpoints import need
from harness.models.vectors import Vectors
from harness.specs.models import SklearnSpec
from harness.storage.runs import write_whole

_log = logging.getLogger(__name__)
FILE = "head.safetensors"
Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LinearHead:
    """A linear classifier: weights, classes x width, and offsets, one a class."""

    weights: Scores
    offsets: Scores

    def scores(self, rows: Vectors) -> Scores:
        """Rows x classes: distances from the planes that part the classes, or log-odds."""
        return np.asarray(rows.astype(np.float64) @ self.weights.T + self.offsets)


def fit(rows: Vectors, places: Sequence[int], spec: SklearnSpec, *, seed: int) -> LinearHead:
    """A head trained on rows whose classes have these places, from 0; every one must be there."""
    need("sklearn", extra="classic")
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    weight = None if spec.class_weight == "none" else spec.class_weight
    if spec.head == "svm":
        model = LinearSVC(C=spec.c, class_weight=weight, max_iter=spec.max_iter, random_state=seed)
    else:
        model = LogisticRegression(
            C=spec.c, class_weight=weight, max_iter=spec.max_iter, random_state=seed
        )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(rows, np.asarray(places))
    if any(issubclass(one.category, ConvergenceWarning) for one in told):
        _log.warning("training stopped at max_iter %d before it settled: raise it", spec.max_iter)
    return _of_all_classes(np.asarray(model.coef_), np.asarray(model.intercept_), spec)


def _of_all_classes(weights: Scores, offsets: Scores, spec: SklearnSpec) -> LinearHead:
    """A row for each class, also where scikit-learn keeps one for two."""
    if len(weights) > 1:
        return LinearHead(weights.astype(np.float64), offsets.astype(np.float64))
    # Of two classes the first is what the second is not; its log-odds are the 0 it is beside.
    first = -1.0 if spec.head == "svm" else 0.0
    return LinearHead(np.vstack([first * weights, weights]), np.append(first * offsets, offsets))


def log_shares(scores: Scores) -> Scores:
    """The log-probability of each class, from log-odds: rows x classes, in nats."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def check_classes(labels: Sequence[str], places: Sequence[int]) -> None:
    """Refuse rows among which a class is missing."""
    if lost := [name for at, name in enumerate(labels) if at not in set(places)]:
        raise DataError(f"no text of the class {lost[0]!r} to train on; give data that has some")


def save_head(head: LinearHead, folder: Path) -> Path:
    """Write a head's two arrays, and nothing that could run."""
    from safetensors.numpy import save

    path = folder / FILE
    # safetensors writes an array's memory as it lies, and scikit-learn's lies by columns.
    arrays = {"weights": head.weights, "offsets": head.offsets}
    write_whole(path, save({name: np.ascontiguousarray(part) for name, part in arrays.items()}))
    return path


def load_head(folder: Path) -> LinearHead:
    """A head as it was saved."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        found = load_file(folder / FILE)
        return LinearHead(found["weights"], found["offsets"])
    except (OSError, KeyError, SafetensorError) as error:
        raise ModelError(f"{folder / FILE}: damaged ({error}); train it again") from error
