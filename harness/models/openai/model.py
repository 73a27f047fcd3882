"""Requests to Responses through any OpenAI-compatible server.

It uses chat completions, or the responses API if the YAML says so. `bodies` words requests and
reads replies and errors; `choices` scores choices. `ModerationModel` gives texts one of two labels:
the moderation endpoint gets the text of a sample, and no prompt. `GuardModel` asks a model that
says `safe`, or `unsafe` and what is: a reply of another form is missing, never taken for safe.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any, TypeVar

from msgspec import Struct, field

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.client.hosted import HostedModel
from harness.models.client.http import Connection, ConnectionFailed, HttpError
from harness.models.client.replies import (
    LONGEST_NAME,
    Ask,
    RepliesByKey,
    collect_n,
    no_answer,
    read_as,
    read_object,
    read_served,
)
from harness.models.client.retry import Call, PartialReply, PermanentError, RetryableError
from harness.models.labels import (
    FLAGGED,
    LabelQuestion,
    LabelQuestions,
    TextLabeller,
    chosen,
    other_label,
)
from harness.models.openai.bodies import (
    TooFewRepliesError,
    chat_body,
    embedding_body,
    read_reply,
    read_response,
    read_usage,
    read_vector,
    response_body,
    status_error,
)
from harness.models.openai.choices import OpenAIChoiceScorer
from harness.parts import UNCHARGED, Mode, Reason, digest
from harness.specs.models import GuardSpec, ModerationSpec, OpenAISpec
from harness.text.parsers import SafetyVerdict, safety_verdict

CHOICES: Mapping[str, frozenset[Mode]] = {
    "none": frozenset(),
    "echo": frozenset({Mode.CHOOSE}),
    "top_logprobs": frozenset({Mode.CHOOSE_TOKEN}),
}
MOST_CATEGORIES = 100


_Spec = TypeVar("_Spec", OpenAISpec, ModerationSpec)


class OpenAIServed(HostedModel[_Spec]):
    """A model behind an OpenAI-compatible server: how it is given the key, and words errors."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers that carry the key."""
        return {"Authorization": f"Bearer {key}"} if (key := self.server.key) else {}

    def translated(self, error: HttpError, *, has_form: bool = False) -> Exception:
        """Our error for one with an HTTP status."""
        return status_error(error, self.server, model=self.model, has_form=has_form)


class OpenAIModel(OpenAIServed[OpenAISpec]):
    """A model behind an OpenAI-compatible server."""

    kind = "openai"

    def __init__(self, name: str, spec: OpenAISpec, environ: Mapping[str, str]) -> None:
        """Keep the settings; nothing is read or called yet."""
        super().__init__(name, spec, environ)
        self._probed: set[Mode] = set()
        self._replies: RepliesByKey = {}
        self._fatal_error: ModelError | None = None
        self._auto: dict[str, Any] = {}

    @property
    def modes(self) -> frozenset[Mode]:
        """Texts and vectors, and the choices that the YAML says the server can score."""
        choices = self.spec.choices if self.spec.api == "chat" else "none"
        return frozenset({Mode.GENERATE, Mode.EMBED}) | CHOICES[choices]

    @property
    def model(self) -> str:
        """The model's name in a request; for `auto`, the name that the server lists."""
        if self.spec.model == "auto":
            _ = self.identity  # a bug before it is resolved
        return str(self._auto.get("id", self.spec.model))

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once, in the order in which the answers come.

        ModelError after the first answer of a server that gives too few replies a call.
        """
        yield from super().answer(requests)
        if self._fatal_error is not None:
            raise self._fatal_error

    def _identity_parts(self) -> list[str]:
        spec = self.spec
        if spec.model == "auto":
            self._auto = self._only_model()
        name, root = str(self._auto.get("id", spec.model)), self._auto.get("root")
        parts = [self.kind, name] + ([] if root in (None, name) else [f"root={root}"])
        if spec.extra_body or not (spec.sends_temperature and spec.sends_seed):
            sent = (spec.extra_body, spec.sends_temperature, spec.sends_seed)
            parts.append(f"body={digest(sent)[:12]}")
        parts += [] if spec.is_structured_output else ["unstructured"]
        parts += [] if spec.api == "chat" else [f"api={spec.api}"]
        parts += [f"effort={spec.reasoning_effort}"] if spec.reasoning_effort else []
        parts += [f"reasoning={spec.reasoning_max_tokens}"] if spec.reasoning_max_tokens else []
        return parts + ([] if spec.sends_n else ["n=1"])

    def _only_model(self) -> dict[str, Any]:
        """The one model that the server lists."""
        server = self.server
        self.wait_for_server()
        try:
            listed = self._list_models()
        except ConnectionFailed as error:
            if error.is_unmade:
                raise self._no_server(error) from None
            raise self._unlisted(error) from None
        except (HttpError, RetryableError, PermanentError, ValueError, RecursionError) as error:
            raise self._unlisted(error) from None
        names = server.quote(", ".join(sorted(str(entry.get("id")) for entry in listed)))
        if len(listed) != 1 or not names:
            raise ModelError(
                f"model: auto needs a server of exactly one model; {server.address} has "
                f"{len(listed)}: {names or 'none'}; set model to the one that is meant"
            )
        for part in ("id", "root"):
            if len(name := str(listed[0].get(part, ""))) > LONGEST_NAME:
                raise ModelError(
                    f"{server.address} lists a model whose {part} has {len(name)} characters; "
                    "name the model instead of auto"
                )
        self._is_checked = True
        return listed[0]

    def _unlisted(self, error: Exception) -> ModelError:
        server = self.server
        hint = server.hint if isinstance(error, HttpError) and error.status == 404 else ""
        return ModelError(
            f"{server.address} does not list its models ({server.quote(str(error))}){hint}; "
            f"{server.remedy}, or name the model instead of auto"
        )

    def _call(self, connection: Connection) -> Call:
        self._replies.clear()  # a request that was given up starts again; its usage is stored
        scorer = OpenAIChoiceScorer(connection, self.model, server=self.server, spec=self.spec)
        choose = partial(self._choose, scorer, asyncio.Lock())
        return partial(self._ask, partial(self._reply, connection, choose))

    async def _ask(self, ask: Ask, request: Request) -> Response | PartialReply:
        if self._fatal_error is not None:
            raise self._fatal_error
        if request.mode not in self.modes:
            raise PermanentError(
                Reason.UNSUPPORTED,
                f"this server is not asked to {request.mode}; use kind: transformers or vllm, or "
                "for a server that returns log-probabilities set api: chat and choices",
                usage=UNCHARGED,
            )
        try:
            if self.spec.is_one_by_one:
                return await collect_n(request, self._replies, ask)
            return await ask(request)
        except TooFewRepliesError as error:
            self._fatal_error = ModelError(f"{self.server.address}: {error}")
            return error.response

    async def _reply(self, connection: Connection, choose: Ask, request: Request) -> Response:
        model, spec, server = self.model, self.spec, self.server
        has_form = request.schema is not None and spec.is_structured_output
        with self.translating(has_form=has_form):
            if request.mode in (Mode.CHOOSE, Mode.CHOOSE_TOKEN):
                return await choose(request)
            if request.mode is Mode.EMBED:
                body = embedding_body(request, model, spec)
                return read_vector(
                    await connection.request("POST", "/embeddings", body), request, server
                )
            if spec.api == "responses":
                # Some servers stream here unless the request says that they must not.
                body = response_body(request, model, spec) | {"stream": False}
                return read_response(
                    await connection.request("POST", "/responses", body), request, server
                )
            body = chat_body(request, model, spec)
            return read_reply(
                await connection.request("POST", "/chat/completions", body), request, server
            )

    async def _choose(
        self, scorer: OpenAIChoiceScorer, lock: asyncio.Lock, request: Request
    ) -> Response:
        async with lock:
            if request.mode not in self._probed:
                await scorer.probe(request.mode)
                self._probed.add(request.mode)
        return await scorer.answer(request)


class _Result(Struct):
    """The result for one text; a category that does not apply may be None."""

    flagged: bool
    categories: dict[str, bool | None] = field(default_factory=dict)
    category_scores: dict[str, float | None] = field(default_factory=dict)


class ModerationModel(TextLabeller, OpenAIServed[ModerationSpec]):
    """The moderation endpoint of OpenAI, or of a server that answers as it does."""

    kind = "moderation"

    def __init__(
        self, name: str, spec: ModerationSpec, questions: LabelQuestions, environ: Mapping[str, str]
    ) -> None:
        """Keep the settings; SpecError unless the task has two labels, `positive` among them."""
        super().__init__(name, spec, environ)
        self._questions = questions
        self._negative = other_label(questions.labels, spec.positive, model=name)

    def _labelled(self, asked: Sequence[LabelQuestion]) -> Iterator[Response]:
        return OpenAIServed.answer(self, [question.request for question in asked])

    def _identity_parts(self) -> list[str]:
        return [self.kind, self.spec.model, f"positive={self.spec.positive}"]

    def connect(self) -> AbstractAsyncContextManager[Call]:
        """How one attempt is made; a key for moderation alone may list no models."""
        self.wait_for_server()
        return self._session()

    def _call(self, connection: Connection) -> Call:
        return partial(self._ask, connection)

    async def _ask(self, connection: Connection, request: Request) -> Response:
        question = self._questions.question(request)
        body = {"model": self.spec.model, "input": question.text}
        with self.translating():
            content = await connection.request("POST", "/moderations", body)
        reply = read_object(content, self.server, key="results", usage_of=read_usage)
        result = read_as(_Result, reply["results"][0], what="a moderation")
        categories = {*result.categories, *result.category_scores}  # each is a metric of the tables
        if len(categories) > MOST_CATEGORIES:
            raise PermanentError(Reason.FAILED, f"the reply has {len(categories)} categories")
        if any(len(name) > LONGEST_NAME or not name.isprintable() for name in categories):
            raise PermanentError(Reason.FAILED, "the reply has a name that no category has")
        is_flagged = result.flagged or any(result.categories.values())
        label = self.spec.positive if is_flagged else self._negative
        scores = {n: score for n, score in result.category_scores.items() if score is not None}
        if not all(map(isfinite, scores.values())):
            raise PermanentError(Reason.FAILED, "a category's score is no finite number")
        flags = {n: float(is_on) for n, is_on in result.categories.items() if is_on is not None}
        numbers = scores | {FLAGGED.format(name): flag for name, flag in flags.items()}
        response = chosen(question, label, numbers)
        return replace(response, served=read_served(reply))


class GuardModel(ModerationModel):
    """A guard model behind an OpenAI-compatible server."""

    kind = "guard"
    spec: GuardSpec

    def _identity_parts(self) -> list[str]:
        spec = self.spec
        hazards, counted = ",".join(spec.hazards), ",".join(spec.counted)
        parts = [*super()._identity_parts(), f"hazards={hazards}", f"max_tokens={spec.max_tokens}"]
        return parts + ([f"counted={counted}"] if counted else [])

    async def _ask(self, connection: Connection, request: Request) -> Response:
        asked = {"role": "user", "content": self._questions.question(request).text}
        limits = {"temperature": 0, "max_tokens": self.spec.max_tokens}
        body = {"model": self.spec.model, "messages": [asked], **limits}
        with self.translating():
            content = await connection.request("POST", "/chat/completions", body)
        reply = read_reply(content, request, self.server)
        return self._read_label(request, reply) if reply.texts else reply

    def _read_label(self, request: Request, reply: Response) -> Response:
        """The reply as a label; UNPARSED where it is of another form or names an unknown hazard."""
        said = (reply.texts or ("",))[0]
        found = safety_verdict(said)
        if isinstance(found, Reason) or not self._is_clear(found):
            note = f"neither safe nor unsafe with known hazards: {self.server.quote(said)}"
            return no_answer(request, Reason.UNPARSED, note, usage=reply.usage, served=reply.served)
        counted = self.spec.counted or self.spec.hazards
        is_flagged = bool({*counted} & {*found.hazards}) or not (found.is_safe or self.spec.counted)
        flags = {FLAGGED.format(n): float(n in found.hazards) for n in self.spec.hazards}
        label = self.spec.positive if is_flagged else self._negative
        response = chosen(self._questions.question(request), label, flags)
        return replace(response, usage=reply.usage, served=reply.served)

    def _is_clear(self, found: SafetyVerdict) -> bool:
        """Whether it names known hazards alone, and where single ones count, names them."""
        has_codes = bool(found.hazards) or found.is_safe or not self.spec.counted
        return has_codes and {*found.hazards} <= {*self.spec.hazards}
