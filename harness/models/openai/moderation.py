"""Requests to choose among two labels to the flags of OpenAI's moderation endpoint.

Any flag makes a text positive. The score of every category, 0 to 1, and which were flagged stand
beside the answer. It reads the text and no prompt; what the client raises is read by openai_errors.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from harness.core import Request, Response
from harness.errors import SpecError
from harness.models.client.endpoint import Endpoint
from harness.models.client.retry import Call, PermanentError, RetryPolicy, send_all
from harness.models.client.transport import http_client, post
from harness.models.labels import LabelQuestion, LabelQuestions, chosen, undecided
from harness.models.openai.chat import read_object, read_served
from harness.models.openai.errors import translated
from harness.models.openai.model import client_options
from harness.parts import Mode, Reason
from harness.specs.models import ModerationSpec

if TYPE_CHECKING:
    import openai

FLAGGED = "flagged_{}"
"""1 or 0 beside the score of a category."""


class _Result(Struct):
    """What the endpoint says of one text; a category that does not apply may be null."""

    flagged: bool
    categories: dict[str, bool | None] = field(default_factory=dict)
    category_scores: dict[str, float | None] = field(default_factory=dict)


class ModerationModel:
    """The moderation endpoint of OpenAI, or of a server that answers as it does."""

    kind = "moderation"
    modes = frozenset({Mode.CHOOSE})
    revision: str | None = None

    def __init__(
        self,
        name: str,
        spec: ModerationSpec,
        questions: LabelQuestions,
        environ: Mapping[str, str],
    ) -> None:
        """Keep the settings; the key is read and the server reached when first needed."""
        self.name = name
        self._spec = spec
        self._questions = questions
        self._server = Endpoint.found(
            spec.base_url,
            environ,
            url_env=spec.base_url_env,
            key_env=spec.key_env,
            owner=f"configs/models/{name}.yaml",
        )
        labels = questions.labels
        if len(labels) != 2 or spec.positive not in labels:
            raise SpecError(
                f"model {name} tells flagged from not flagged, and the task has the labels "
                f"{', '.join(labels)}; ask it about one of two labels, with `positive` among them"
            )
        self._negative = next(label for label in labels if label != spec.positive)

    @property
    def identity(self) -> str:
        """Kind, model, what a flag means, and the host unless it is this machine."""
        host = self._server.remote_host
        parts = [self.kind, self._spec.model, f"positive={self._spec.positive}"]
        return "|".join(parts + ([f"host={host}"] if host else []))

    def text_of(self, request: Request) -> str | None:
        """The text it would read; null at a step that shows none."""
        return self._questions.asked(request).text

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once, in the order in which the answers come."""
        spec = self._spec
        asked = [self._questions.asked(request) for request in requests]
        yield from (undecided(one) for one in asked if one.text is None)
        policy = RetryPolicy(spec.concurrency, spec.attempts, spec.timeout_s, total_s=spec.total_s)
        shown = (one.request for one in asked if one.text is not None)
        yield from send_all(shown, self._connect, policy)

    def _connect(self) -> AbstractAsyncContextManager[Call]:
        return self._session()

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Call]:
        """One client, made and closed inside the loop that uses it."""
        import openai

        spec = self._spec
        http = http_client(openai, spec.concurrency)
        async with openai.AsyncOpenAI(
            **client_options(self._server), timeout=spec.timeout_s, http_client=http
        ) as client:
            yield partial(self._ask, client)

    async def _ask(self, client: "openai.AsyncOpenAI", request: Request) -> Response:
        """One attempt at one request."""
        import aiohttp
        import openai

        asked = self._questions.asked(request)
        body = {"model": self._spec.model, "input": asked.text}
        try:
            content = await post(client, "/moderations", body)
        except (openai.OpenAIError, aiohttp.ClientError) as error:
            # The library's message may repeat the key: it is not chained.
            raise translated(error, self._server, model=self._spec.model) from None
        return self._read(content, asked)

    def _read(self, content: bytes, asked: LabelQuestion) -> Response:
        """The response in the body of a reply."""
        body = read_object(content, self._server, key="results")
        try:
            result = msgspec.convert(body["results"][0], _Result)
        except msgspec.ValidationError as error:
            raise PermanentError(Reason.FAILED, f"the reply is not a moderation: {error}") from None
        is_flagged = result.flagged or any(result.categories.values())
        label = self._spec.positive if is_flagged else self._negative
        found = chosen(asked, label, _numbers(result))
        return replace(found, served=read_served(body))


def _numbers(result: _Result) -> dict[str, float]:
    """The score of each category that has one, and which categories are flagged."""
    scores = {name: score for name, score in result.category_scores.items() if score is not None}
    if not all(map(isfinite, scores.values())):
        raise PermanentError(Reason.FAILED, "a category's score is no finite number")
    flags = {name: is_on for name, is_on in result.categories.items() if is_on is not None}
    return scores | {FLAGGED.format(name): float(is_on) for name, is_on in flags.items()}
