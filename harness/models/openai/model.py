"""Requests to Responses through any OpenAI-compatible server, with the official client.

It uses chat completions, or the responses API where the YAML says so. `chat`, `responses` and
`choices` word requests and read replies; `errors` translates what the client library raises.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.client.hosted import HostedModel
from harness.models.client.replies import Ask, RepliesByKey, collect_n
from harness.models.client.retry import Call, PartialReply, PermanentError
from harness.models.client.transport import post
from harness.models.openai.chat import (
    TooFewRepliesError,
    chat_arguments,
    embedding_arguments,
    read_reply,
    read_vector,
)
from harness.models.openai.choices import OpenAIChoiceScorer
from harness.models.openai.errors import LIBRARY, translate_error
from harness.models.openai.responses import read_response, response_arguments
from harness.parts import UNCHARGED, Mode, Reason, digest
from harness.specs.models import OpenAISpec

if TYPE_CHECKING:
    import openai

CHOICES: Mapping[str, frozenset[Mode]] = {
    "none": frozenset(),
    "echo": frozenset({Mode.CHOOSE}),
    "top_logprobs": frozenset({Mode.CHOOSE_TOKEN}),
}


class OpenAIModel(HostedModel[OpenAISpec]):
    """A model behind an OpenAI-compatible server."""

    kind = "openai"
    library = LIBRARY

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

    def _translated(self, error: Exception, *, has_form: bool = False) -> Exception:
        return translate_error(error, self.server, model=self.model, has_form=has_form)

    def _only_model(self) -> dict[str, Any]:
        """What the server lists of the one model that it serves."""
        import openai

        server = self.server
        try:
            listed = self._list_models()
        except openai.APIConnectionError as error:
            raise self._no_server(error) from None
        except (openai.OpenAIError, ValueError) as error:
            hint = server.hint if getattr(error, "status_code", None) == 404 else ""
            raise ModelError(
                f"{server.address} does not list its models ({server.quote(str(error))}){hint}; "
                f"{server.remedy}, or name the model instead of auto"
            ) from None
        names = server.quote(", ".join(sorted(str(entry.get("id")) for entry in listed)))
        if len(listed) != 1 or not names:
            raise ModelError(
                f"model: auto needs a server of exactly one model; {server.address} has "
                f"{len(listed)}: {names or 'none'}; set model to the one that is meant"
            )
        self._is_checked = True
        return listed[0]

    def _call(self, client: "openai.AsyncOpenAI") -> Call:
        self._replies.clear()  # a request that was given up starts anew; its usage is stored
        scorer = OpenAIChoiceScorer(client, self.model, server=self.server, spec=self.spec)
        return partial(self._ask, client, partial(self._choose, scorer, asyncio.Lock()))

    async def _ask(
        self, client: "openai.AsyncOpenAI", choose: Ask, request: Request
    ) -> Response | PartialReply:
        """Make one call for one request; for its next reply, where a call gives one."""
        if self._fatal_error is not None:
            raise self._fatal_error
        if request.mode not in self.modes:
            raise PermanentError(
                Reason.UNSUPPORTED,
                f"this server is not asked to {request.mode}; use kind: transformers or vllm, or "
                "for a server that returns log-probabilities set api: chat and choices",
                usage=UNCHARGED,
            )
        ask = partial(self._reply, client, choose)
        try:
            if self.spec.is_one_by_one:
                return await collect_n(request, self._replies, ask)
            return await ask(request)
        except TooFewRepliesError as error:
            self._fatal_error = ModelError(f"{self.server.address}: {error}")
            return error.response

    async def _reply(self, client: "openai.AsyncOpenAI", choose: Ask, request: Request) -> Response:
        """The response to one call: choice scores, a vector, or texts by the YAML's API."""
        model, spec, server = self.model, self.spec, self.server
        has_form = request.schema is not None and spec.is_structured_output
        with self.translating(has_form=has_form):
            if request.mode in (Mode.CHOOSE, Mode.CHOOSE_TOKEN):
                return await choose(request)
            if request.mode is Mode.EMBED:
                body = embedding_arguments(request, model, spec)
                return read_vector(await post(client, "/embeddings", body), request, server)
            if spec.api == "responses":
                # Some servers stream here unless the request says that they must not.
                body = response_arguments(request, model, spec) | {"stream": False}
                return read_response(await post(client, "/responses", body), request, server)
            body = chat_arguments(request, model, spec)
            return read_reply(await post(client, "/chat/completions", body), request, server)

    async def _choose(
        self, scorer: OpenAIChoiceScorer, lock: asyncio.Lock, request: Request
    ) -> Response:
        """Score choices, once the server has shown that it can; all others wait for that."""
        async with lock:
            if request.mode not in self._probed:
                await scorer.probe(request.mode)
                self._probed.add(request.mode)
        return await scorer.answer(request)
