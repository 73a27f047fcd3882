"""Requests to choose among labels to the scores of a trained linear classifier.

It reads the text and no prompt. A logistic regression gives log-probabilities; a support vector
machine gives its choice, with its decision scores as detail.
"""

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.core import Request, Response
from harness.errors import DataError, ModelError
from harness.models.extras import require
from harness.models.labels import (
    LabelQuestion,
    LabelQuestions,
    chosen,
    undecided,
    with_probabilities,
)
from harness.models.local.trained import TRAINED_ON, TrainedClassifier
from harness.models.vectors import Vectors, chunks
from harness.parts import Mode
from harness.specs.models import SklearnSpec
from harness.storage.files import write_whole

_log = logging.getLogger(__name__)
FILE = "head.safetensors"
Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LinearHead:
    """A linear classifier: weights [classes, width], and offsets [classes]."""

    weights: Scores
    offsets: Scores

    def scores(self, rows: Vectors) -> Scores:
        """Score rows [n, width]: [n, classes], decision scores or log-odds."""
        return np.asarray(rows.astype(np.float64) @ self.weights.T + self.offsets)


def fit(rows: Vectors, places: Sequence[int], spec: SklearnSpec, *, seed: int) -> LinearHead:
    """Train a head on rows whose classes are `places`, from 0; every class must occur."""
    require("sklearn", extra="classic")
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
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(rows, np.asarray(places))
    if any(issubclass(one.category, ConvergenceWarning) for one in caught):
        _log.warning("training stopped at max_iter %d before it converged: raise it", spec.max_iter)
    return _of_all_classes(np.asarray(model.coef_), np.asarray(model.intercept_), spec)


def _of_all_classes(weights: Scores, offsets: Scores, spec: SklearnSpec) -> LinearHead:
    """A row for each class, also where scikit-learn keeps one for two."""
    if len(weights) > 1:
        return LinearHead(weights.astype(np.float64), offsets.astype(np.float64))
    # Of two classes the first is what the second is not; its log-odds are the 0 it is beside.
    first = -1.0 if spec.head == "svm" else 0.0
    return LinearHead(np.vstack([first * weights, weights]), np.append(first * offsets, offsets))


def log_shares(scores: Scores) -> Scores:
    """Turn log-odds [n, classes] into log-probabilities, in nats."""
    from scipy.special import log_softmax

    return np.asarray(log_softmax(scores, axis=1))


def check_classes(labels: Sequence[str], places: Sequence[int]) -> None:
    """Refuse training rows that lack a class."""
    if missing := [name for at, name in enumerate(labels) if at not in set(places)]:
        raise DataError(f"no text of the class {missing[0]!r} to train on; give data that has some")


def save_head(head: LinearHead, folder: Path) -> Path:
    """Write a head's two arrays as safetensors, which cannot hold code."""
    from safetensors.numpy import save

    path = folder / FILE
    # safetensors writes an array's memory as it lies, and scikit-learn's lies by columns.
    arrays = {"weights": head.weights, "offsets": head.offsets}
    write_whole(path, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
    return path


def load_head(folder: Path) -> LinearHead:
    """Read a saved head."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays = load_file(folder / FILE)
        return LinearHead(arrays["weights"], arrays["offsets"])
    except (OSError, KeyError, SafetensorError) as error:
        raise ModelError(f"{folder / FILE}: damaged ({error}); train it again") from error


BATCH = 2048


class SklearnModel:
    """A trained linear classifier on the vectors of an encoder."""

    kind = "sklearn"
    modes = frozenset({Mode.CHOOSE})

    def __init__(
        self,
        name: str,
        trained: TrainedClassifier,
        questions: LabelQuestions,
        *,
        encode: Callable[[list[str]], Vectors],
        has_odds: bool,
    ) -> None:
        """Answer `questions` by a trained head; `has_odds` says its scores are log-odds."""
        self.name = name
        self._trained = trained
        self._questions = questions
        self._encode = encode
        self._has_odds = has_odds
        self.identity = f"sklearn@{trained.card.digest}"
        self.revision: str | None = trained.card.digest[:7]

    def resolve(self) -> None:
        """Do nothing: the training has a digest."""

    def text_of(self, request: Request) -> str | None:
        """The text it reads; None at a step that shows none."""
        return self._questions.question(request).text

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once, in batches."""
        asked = [self._questions.question(request) for request in requests]
        yield from (undecided(one) for one in asked if one.text is None)
        for batch in chunks([one for one in asked if one.text is not None], BATCH):
            rows = self._encode([one.text or "" for one in batch])
            scores = self._head.scores(rows)
            values_by_class = log_shares(scores) if self._has_odds else scores
            for one, values in zip(batch, values_by_class.tolist(), strict=True):
                yield self._response(one, values)

    @cached_property
    def _head(self) -> LinearHead:
        return load_head(self._trained.folder)

    def _response(self, asked: LabelQuestion, values: list[float]) -> Response:
        by_label = dict(zip(self._trained.card.labels, values, strict=True))
        detail = {TRAINED_ON: 1.0} if self._trained.has_seen(asked.text or "") else {}
        if self._has_odds:
            return with_probabilities(asked, by_label, detail)
        detail |= {f"score_{label}": value for label, value in by_label.items()}
        return chosen(asked, max(by_label, key=lambda label: by_label[label]), detail)
