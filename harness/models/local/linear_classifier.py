"""Requests to choose among labels to the scores of a trained linear classifier.

It reads the text and no prompt. A logistic regression tells log-probabilities; a support vector
machine its choice, and its decision scores beside it.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from harness.core import Request, Response
from harness.models.labels import Asked, Questions, alike, batched, picked, probable
from harness.models.local.linear import LinearHead, load_head, log_shares
from harness.models.local.trained import TRAINED_ON, Trained
from harness.models.vectors import Vectors
from harness.parts import Mode

TOGETHER = 2048


class SklearnModel:
    """A trained linear classifier on the vectors of an encoder."""

    kind = "sklearn"
    modes = frozenset({Mode.CHOOSE})

    def __init__(
        self,
        name: str,
        trained: Trained,
        questions: Questions,
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
        yield from (alike(one) for one in asked if one.text is None)
        for part in batched([one for one in asked if one.text is not None], TOGETHER):
            rows = self._encode([one.text or "" for one in part])
            scores = self._head.scores(rows)
            told = log_shares(scores) if self._has_odds else scores
            for one, values in zip(part, told.tolist(), strict=True):
                yield self._response(one, values)

    @cached_property
    def _head(self) -> LinearHead:
        return load_head(self._trained.folder)

    def _response(self, asked: Asked, values: list[float]) -> Response:
        """The response to one request, from the value of each class."""
        by_label = dict(zip(self._trained.card.labels, values, strict=True))
        detail = {TRAINED_ON: 1.0} if self._trained.has_seen(asked.text or "") else {}
        if self._has_odds:
            return probable(asked, by_label, detail)
        detail |= {f"score_{label}": value for label, value in by_label.items()}
        return picked(asked, max(by_label, key=lambda label: by_label[label]), detail)
