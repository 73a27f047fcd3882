"""Requests to choose among labels to the scores of a trained linear classifier.

It reads the text and no prompt. A logistic regression tells log-probabilities; a support vector
machine its choice, and its decision scores beside it.
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
    batched,
    chosen,
    undecided,
    with_probabilities,
)
from harness.models.local.trained import TRAINED_ON, TrainedClassifier
from harness.models.vectors import Vectors
from harness.parts import Mode
from harness.specs.models import SklearnSpec
from harness.storage.files import write_whole

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


TOGETHER = 2048


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
        """Answer `questions` by what was trained; `has_odds` says that scores are log-odds."""
        self.name = name
        self._trained = trained
        self._questions = questions
        self._encode = encode
        self._has_odds = has_odds
        self.identity = f"sklearn@{trained.card.digest}"
        self.revision: str | None = trained.card.digest[:7]

    def text_of(self, request: Request) -> str | None:
        """The text it would read; null at a step that shows none."""
        return self._questions.asked(request).text

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once, some at a time."""
        asked = [self._questions.asked(request) for request in requests]
        yield from (undecided(one) for one in asked if one.text is None)
        for part in batched([one for one in asked if one.text is not None], TOGETHER):
            rows = self._encode([one.text or "" for one in part])
            scores = self._head.scores(rows)
            told = log_shares(scores) if self._has_odds else scores
            for one, values in zip(part, told.tolist(), strict=True):
                yield self._response(one, values)

    @cached_property
    def _head(self) -> LinearHead:
        return load_head(self._trained.folder)

    def _response(self, asked: LabelQuestion, values: list[float]) -> Response:
        """The response to one request, from the value of each class."""
        by_label = dict(zip(self._trained.card.labels, values, strict=True))
        detail = {TRAINED_ON: 1.0} if self._trained.has_seen(asked.text or "") else {}
        if self._has_odds:
            return with_probabilities(asked, by_label, detail)
        detail |= {f"score_{label}": value for label, value in by_label.items()}
        return chosen(asked, max(by_label, key=lambda label: by_label[label]), detail)
