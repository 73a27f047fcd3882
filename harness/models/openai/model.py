"""Requests to Responses through any OpenAI-compatible server, with the official client.

By chat completions, or by the responses API where the YAML says so. Whatever the client library
raises is translated by openai_errors, replies are read by openai_replies and openai_responses;
nothing here parses, retries or stores.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.client.endpoint import Endpoint, is_permission_error
from harness.models.client.replies import Ask, RepliesByKey, collect_n
from harness.models.client.retry import Call, PartialReply, PermanentError, RetryPolicy, send_all
from harness.models.client.transport import http_client, post
from harness.models.openai.chat import TooFew, read_reply, read_vector
from harness.models.openai.choices import OpenAIChoiceScorer
from harness.models.openai.errors import translated
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
PREFLIGHT_S = 10.0


class OpenAIModel:
    """A model behind an OpenAI-compatible server."""

    kind = "openai"
    revision: str | None = None

    def __init__(self, name: str, spec: OpenAISpec, environ: Mapping[str, str]) -> None:
        """Keep the settings; the key is read and the server reached when first needed."""
        self.name = name
        self._spec = spec
        self._environ = environ
        self._is_checked = False
        self._probed: set[Mode] = set()
        self._heard: RepliesByKey = {}
        self._end: ModelError | None = None

    @property
    def modes(self) -> frozenset[Mode]:
        """Texts and vectors, and of choices what the YAML says that the server tells of chats."""
        choices = self._spec.choices if self._spec.api == "chat" else "none"
        return frozenset({Mode.GENERATE, Mode.EMBED}) | CHOICES[choices]

    @cached_property
    def identity(self) -> str:
        """Kind, model, what is sent beside the request, and the host unless it is this machine."""
        spec, host = self._spec, self._server.remote_host
        parts = [self.kind, self._model]
        root = self._only_model.get("root") if spec.model == "auto" else None
        if root not in (None, self._model):
            parts.append(f"root={root}")
        if spec.extra_body or not (spec.sends_temperature and spec.sends_seed):
            sent = (spec.extra_body, spec.sends_temperature, spec.sends_seed)
            parts.append(f"body={digest(sent)[:12]}")
        parts += [] if spec.is_structured_output else ["unstructured"]
        parts += [] if spec.api == "chat" else [f"api={spec.api}"]
        parts += [f"effort={spec.reasoning_effort}"] if spec.reasoning_effort else []
        parts += [f"reasoning={spec.reasoning_max_tokens}"] if spec.reasoning_max_tokens else []
        parts += [] if spec.sends_n else ["n=1"]
        return "|".join(parts + ([f"host={host}"] if host else []))

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once, in the order in which the answers come.

        A server that gives too few replies a call is asked no more once one such answer is told.
        """
        spec = self._spec
        policy = RetryPolicy(spec.concurrency, spec.attempts, spec.timeout_s, total_s=spec.total_s)
        yield from send_all(requests, self._connect, policy)
        if self._end is not None:
            raise self._end

    @property
    def access(self) -> tuple[Endpoint, OpenAISpec, str]:
        """Where it is reached, how, and by which name: what else asks it needs to know."""
        return self._server, self._spec, self._model

    @cached_property
    def _server(self) -> Endpoint:
        spec = self._spec
        return Endpoint.found(
            spec.base_url,
            self._environ,
            url_env=spec.base_url_env,
            key_env=spec.key_env,
            owner=f"configs/models/{self.name}.yaml",
        )

    @property
    def _model(self) -> str:
        """The model's name in a request."""
        return self._spec.model if self._spec.model != "auto" else str(self._only_model["id"])

    @cached_property
    def _only_model(self) -> dict[str, Any]:
        """What the server says of the one model it serves."""
        import openai

        try:
            listed = self._list_models()
        except openai.APIConnectionError as error:
            raise self._no_server(error) from None
        except (openai.OpenAIError, ValueError) as error:
            server, told = self._server, self._server.told(str(error))
            hint = server.hint if getattr(error, "status_code", None) == 404 else ""
            raise ModelError(
                f"{server.address} does not list its models ({told}){hint}; "
                f"{server.remedy}, or name the model instead of auto"
            ) from None
        names = self._server.told(", ".join(sorted(str(entry.get("id")) for entry in listed)))
        if len(listed) != 1 or not names:
            raise ModelError(
                f"model: auto needs a server of exactly one model; {self._server.address} has "
                f"{len(listed)}: {names or 'none'}; set model to the one that is meant"
            )
        self._is_checked = True
        return listed[0]

    def _list_models(self) -> list[dict[str, Any]]:
        """The models the server says it serves."""
        import openai

        timeout_s = min(PREFLIGHT_S, self._spec.timeout_s)
        with openai.OpenAI(**client_options(self._server), timeout=timeout_s) as client:
            reply = client.models.with_raw_response.list()
        body = self._server.masked(json.loads(reply.http_response.content))
        entries = body.get("data") if isinstance(body, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ValueError("the reply holds no list of models")
        return entries

    def _connect(self) -> AbstractAsyncContextManager[Call]:
        """See that a server is there; then open connections to it."""
        self.check()
        return self._session(self._model)

    def check(self) -> None:
        """See, once, that a server is there and takes the key."""
        import openai

        model = self._model
        try:
            if not self._is_checked:
                self._list_models()
        except openai.APIConnectionError as error:
            if type(error.__cause__).__name__ == "ConnectError":
                raise self._no_server(error) from None
        except openai.AuthenticationError as error:
            if not is_permission_error(error.status_code, error.message):
                raise translated(error, self._server, model=model) from None
        except (openai.OpenAIError, ValueError):
            pass  # many a server, or a key of few rights, lists nothing and answers well
        self._is_checked = True

    @asynccontextmanager
    async def _session(self, model: str) -> AsyncIterator[Call]:
        """One client, made and closed inside the loop that uses it."""
        import openai

        spec = self._spec
        self._heard.clear()  # what was given up told what was heard of it: it is asked for anew
        http = http_client(openai, spec.concurrency)
        async with openai.AsyncOpenAI(
            **client_options(self._server), timeout=spec.timeout_s, http_client=http
        ) as client:
            chooser = OpenAIChoiceScorer(client, model, server=self._server, spec=spec)
            yield partial(self._ask, client, partial(self._choose, chooser, asyncio.Lock()))

    async def _ask(
        self, client: "openai.AsyncOpenAI", choose: Ask, request: Request
    ) -> Response | PartialReply:
        """One call for one request; for the next reply, where there is one a call."""
        if self._end is not None:
            raise self._end
        if request.mode not in self.modes:
            raise PermanentError(
                Reason.UNSUPPORTED,
                f"this server is not asked to {request.mode}; use kind: transformers or vllm, or "
                "for a server that tells log-probabilities set api: chat and choices",
                usage=UNCHARGED,
            )
        ask = partial(self._call, client, choose)
        try:
            if self._spec.is_one_by_one:
                return await collect_n(request, self._heard, ask)
            return await ask(request)
        except TooFew as error:
            self._end = ModelError(f"{self._server.address}: {error}")
            return error.response

    async def _call(self, client: "openai.AsyncOpenAI", choose: Ask, request: Request) -> Response:
        """What one call comes to."""
        import aiohttp
        import openai

        model = self._model
        try:
            if request.mode in (Mode.CHOOSE, Mode.CHOOSE_TOKEN):
                return await choose(request)
            if request.mode is Mode.EMBED:
                return await self._embed(client, model, request)
            return await self._reply(client, model, request)
        except (openai.OpenAIError, aiohttp.ClientError) as error:
            # The library's message may repeat the key: it is not chained.
            has_form = request.schema is not None and self._spec.is_structured_output
            raise translated(error, self._server, model=model, has_form=has_form) from None

    async def _choose(
        self, chooser: OpenAIChoiceScorer, lock: asyncio.Lock, request: Request
    ) -> Response:
        """Score choices, once the server has shown that it can; all others wait for that."""
        async with lock:
            if request.mode not in self._probed:
                await chooser.probe(request.mode)
                self._probed.add(request.mode)
        return await chooser.answer(request)

    async def _reply(self, client: "openai.AsyncOpenAI", model: str, request: Request) -> Response:
        """A reply in words, by the API that the YAML names."""
        if self._spec.api == "responses":
            # Some servers stream here unless they are told not to.
            asked = response_arguments(request, model, self._spec) | {"stream": False}
            return read_response(await post(client, "/responses", asked), request, self._server)
        asked = arguments(request, model, self._spec)
        return read_reply(await post(client, "/chat/completions", asked), request, self._server)

    async def _embed(self, client: "openai.AsyncOpenAI", model: str, request: Request) -> Response:
        """The vector of the words of one request, as numbers rather than packed."""
        content = await post(client, "/embeddings", embedding_arguments(request, model, self._spec))
        return read_vector(content, request, self._server)

    def _no_server(self, error: Exception) -> ModelError:
        """What to do where nobody answers."""
        server = self._server
        told = server.told(str(error.__cause__ or error))
        return ModelError(f"no server at {server.address} ({told}): start it, or {server.remedy}")


def client_options(server: Endpoint) -> dict[str, Any]:
    """What every client is built with; its own retries are off."""
    return {"api_key": server.key or "none", "base_url": server.url, "max_retries": 0}


def embedding_arguments(request: Request, model: str, spec: OpenAISpec) -> dict[str, Any]:
    """A request for a vector as arguments of the client library."""
    return {
        "model": model,
        "input": "\n".join(message.content for message in request.messages),
        "encoding_format": "float",
        "extra_body": spec.extra_body or None,
    }


def arguments(request: Request, model: str, spec: OpenAISpec) -> dict[str, Any]:
    """A request as arguments of the client library."""
    decoding = request.decoding
    found: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        spec.token_field: decoding.max_tokens + spec.reasoning_max_tokens,
    }
    if spec.reasoning_effort is not None:
        found["reasoning_effort"] = spec.reasoning_effort
    if spec.sends_temperature:
        found["temperature"] = decoding.temperature
    if decoding.n > 1:
        found["n"] = decoding.n
    if decoding.seed is not None and spec.sends_seed:
        found["seed"] = decoding.seed
    if request.schema is not None and spec.is_structured_output:
        form = {"name": "reply", "strict": True, "schema": dict(request.schema)}
        found["response_format"] = {"type": "json_schema", "json_schema": form}
    if spec.extra_body:
        found["extra_body"] = spec.extra_body
    return found
