"""Requests to choose one of two labels, answered by OpenAI's moderation endpoint.

Any flag makes a text positive. The response also has the score of every category, 0 to 1, and
which categories were flagged. The endpoint gets the text of a sample, and no prompt.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

from msgspec import Struct, field

from harness.core import Request, Response
from harness.errors import SpecError
from harness.models.client.hosted import HostedModel
from harness.models.client.replies import read_as, read_object, read_served
from harness.models.client.retry import Call, PermanentError
from harness.models.client.transport import post
from harness.models.labels import LabelQuestion, LabelQuestions, chosen, undecided
from harness.models.openai.chat import read_usage
from harness.models.openai.errors import LIBRARY, translate_error
from harness.parts import Mode, Reason
from harness.specs.models import ModerationSpec

if TYPE_CHECKING:
    import openai

FLAGGED = "flagged_{}"
"""The name of a number that is 1 where a category is flagged, else 0."""


class _Result(Struct):
    """The result for one text; a category that does not apply may be None."""

    flagged: bool
    categories: dict[str, bool | None] = field(default_factory=dict)
    category_scores: dict[str, float | None] = field(default_factory=dict)


class ModerationModel(HostedModel[ModerationSpec]):
    """The moderation endpoint of OpenAI, or of a server that answers as it does."""

    kind = "moderation"
    library = LIBRARY
    modes = frozenset({Mode.CHOOSE})

    def __init__(
        self, name: str, spec: ModerationSpec, questions: LabelQuestions, environ: Mapping[str, str]
    ) -> None:
        """Keep the settings; SpecError unless the task has two labels, `positive` among them."""
        super().__init__(name, spec, environ)
        self._questions = questions
        labels = questions.labels
        if len(labels) != 2 or spec.positive not in labels:
            raise SpecError(
                f"model {name} separates flagged from other texts, and the task has the labels "
                f"{', '.join(labels)}; ask it about one of two labels, with `positive` among them"
            )
        self._negative = next(label for label in labels if label != spec.positive)

    def text_of(self, request: Request) -> str | None:
        """The text of a request that it reads; None at a step that shows none."""
        return self._questions.question(request).text

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once, in the order in which the answers come."""
        questions = [self._questions.question(request) for request in requests]
        yield from (undecided(question) for question in questions if question.text is None)
        yield from super().answer(q.request for q in questions if q.text is not None)

    def _identity_parts(self) -> list[str]:
        return [self.kind, self.spec.model, f"positive={self.spec.positive}"]

    def _translated(self, error: Exception, *, has_form: bool = False) -> Exception:
        return translate_error(error, self.server, model=self.spec.model, has_form=has_form)

    def _connect(self) -> AbstractAsyncContextManager[Call]:
        return self._session()  # without a check: a key for moderation alone may list no models

    def _call(self, client: "openai.AsyncOpenAI") -> Call:
        return partial(self._ask, client)

    async def _ask(self, client: "openai.AsyncOpenAI", request: Request) -> Response:
        """Make one attempt at one request."""
        question = self._questions.question(request)
        body = {"model": self.spec.model, "input": question.text}
        with self.translating():
            return self._read(await post(client, "/moderations", body), question)

    def _read(self, content: bytes, question: LabelQuestion) -> Response:
        body = read_object(content, self.server, key="results", usage_of=read_usage)
        result = read_as(_Result, body["results"][0], what="a moderation")
        is_flagged = result.flagged or any(result.categories.values())
        label = self.spec.positive if is_flagged else self._negative
        response = chosen(question, label, _numbers(result))
        return replace(response, served=read_served(body))


def _numbers(result: _Result) -> dict[str, float]:
    """The score of each category that has one, and which categories are flagged."""
    scores = {name: score for name, score in result.category_scores.items() if score is not None}
    if not all(map(isfinite, scores.values())):
        raise PermanentError(Reason.FAILED, "a category's score is no finite number")
    flags = {name: is_on for name, is_on in result.categories.items() if is_on is not None}
    return scores | {FLAGGED.format(name): float(is_on) for name, is_on in flags.items()}
