"""Requests to Responses through any OpenAI-compatible server, with the official client.

Whatever the client library raises is translated in one function. Texts are handed on as they
came; nothing here parses, retries or stores.
"""

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from harness.calls import Call, Policy, Refused, Transient, answer_all, wait_asked_for
from harness.core import Request, Response
from harness.errors import ModelError
from harness.parts import Mode, Reason, Usage, digest
from harness.servers import Server
from harness.specs.models import OpenAISpec

if TYPE_CHECKING:
    import openai

Create = Callable[..., Awaitable[Any]]

PREFLIGHT_S = 10.0
PASSING = frozenset({408, 409, 425, 429})
NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
FILTERED = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "data_inspection_failed",
        "invalid_prompt",
        "moderation_blocked",
        "ResponsibleAIPolicyViolation",
    }
)


class OpenAIModel:
    """A model behind an OpenAI-compatible server."""

    kind = "openai"
    revision: str | None = None
    modes = frozenset({Mode.GENERATE})

    def __init__(self, name: str, spec: OpenAISpec, environ: Mapping[str, str]) -> None:
        """Keep the settings; the key is read and the server reached when first needed."""
        self.name = name
        self._spec = spec
        self._environ = environ
        self._is_checked = False

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
        return "|".join(parts + ([f"host={host}"] if host else []))

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once, in the order in which the answers come."""
        spec = self._spec
        policy = Policy(spec.concurrency, spec.attempts, spec.timeout_s)
        return answer_all(requests, self._connect, policy)

    @cached_property
    def _server(self) -> Server:
        spec = self._spec
        return Server.found(
            spec.base_url, self._environ, url_env=spec.base_url_env, key_env=spec.key_env
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
            told = self._server.told(str(error))
            raise ModelError(
                f"{self._server.address} does not list its models ({told}); "
                "name the model instead of auto"
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
        with openai.OpenAI(**_client_options(self._server), timeout=timeout_s) as client:
            reply = client.models.with_raw_response.list()
        body = json.loads(reply.http_response.content)
        entries = body.get("data") if isinstance(body, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ValueError("the reply holds no list of models")
        return entries

    def _connect(self) -> AbstractAsyncContextManager[Call]:
        """See once that a server is there and takes the key; then open connections to it."""
        import openai

        model = self._model
        try:
            if not self._is_checked:
                self._list_models()
        except openai.APIConnectionError as error:
            if type(error.__cause__).__name__ == "ConnectError":
                raise self._no_server(error) from None
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise translated(error, self._server, model=model) from None
        except (openai.OpenAIError, ValueError):
            pass  # many a server lists nothing and answers well
        self._is_checked = True
        return self._session(model)

    @asynccontextmanager
    async def _session(self, model: str) -> AsyncIterator[Call]:
        """One client, made and closed inside the loop that uses it."""
        import openai

        spec = self._spec
        http = openai.DefaultAsyncHttpxClient(limits=_limits(spec.concurrency))
        async with openai.AsyncOpenAI(
            **_client_options(self._server), timeout=spec.timeout_s, http_client=http
        ) as client:
            yield partial(self._ask, client.chat.completions.with_raw_response.create, model)

    async def _ask(self, create: Create, model: str, request: Request) -> Response:
        """One attempt at one request."""
        import openai

        if request.mode not in self.modes:
            raise Refused(
                Reason.UNSUPPORTED,
                f"chat servers are not asked for {request.mode}; use kind: transformers or vllm",
            )
        try:
            reply = await create(**_arguments(request, model, self._spec))
        except openai.OpenAIError as error:
            # The library's message may repeat the key: it is not chained.
            raise translated(error, self._server, model=model) from None
        return read_reply(reply.http_response.content, request, self._server)

    def _no_server(self, error: Exception) -> ModelError:
        """What to do where nobody answers."""
        server = self._server
        told = server.told(str(error.__cause__ or error))
        return ModelError(f"no server at {server.address} ({told}): start it, or {server.remedy}")


def _client_options(server: Server) -> dict[str, Any]:
    """What every client is built with; its own retries are off."""
    return {"api_key": server.key or "none", "base_url": server.url, "max_retries": 0}


def _limits(connections: int) -> Any:  # noqa: ANN401 - a class of whichever package openai uses
    """Connection limits in the classes of the HTTP package below the client library."""
    import openai

    package = sys.modules[openai.DefaultAsyncHttpxClient.__base__.__module__]
    return package.Limits(max_connections=connections, max_keepalive_connections=connections)


def _arguments(request: Request, model: str, spec: OpenAISpec) -> dict[str, Any]:
    """A request as arguments of the client library."""
    decoding = request.decoding
    arguments: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        spec.token_field: decoding.max_tokens,
    }
    if spec.sends_temperature:
        arguments["temperature"] = decoding.temperature
    if decoding.n > 1:
        arguments["n"] = decoding.n
    if decoding.seed is not None and spec.sends_seed:
        arguments["seed"] = decoding.seed
    if spec.extra_body:
        arguments["extra_body"] = spec.extra_body
    return arguments


def translated(error: "openai.OpenAIError", server: Server, *, model: str) -> Exception:
    """What an exception of the client library amounts to: Transient, Refused or ModelError."""
    import openai

    if isinstance(error, openai.APIStatusError):
        return _of_status(error, server, model=model)
    cause = f" ({error.__cause__})" if error.__cause__ else ""
    message = f"{server.address}: {server.told(f'{error}{cause}')}"
    if isinstance(error, openai.APIConnectionError | openai.APIResponseValidationError):
        return Transient(message)
    if isinstance(error, openai.ContentFilterFinishReasonError):
        return Refused(Reason.FILTERED, message)
    if isinstance(error, openai.LengthFinishReasonError):
        return Refused(Reason.FAILED, message)
    return ModelError(f"{message}; see the settings of model {model}")


def _of_status(error: "openai.APIStatusError", server: Server, *, model: str) -> Exception:
    """What an HTTP status, and the code in its body, amount to."""
    body = error.body if isinstance(error.body, dict) else {}
    told = server.told(str(body.get("message") or error.message))
    message = f"{server.address} answered {error.status_code}: {told}"
    if error.status_code < 500 and _is_filtered(body):
        return Refused(Reason.FILTERED, message)
    if error.status_code == 429 and NO_CREDIT & _codes(body):
        return ModelError(f"{message}; see the account's limits, then repeat the command")
    if error.status_code in PASSING or error.status_code >= 500:
        retry_after = error.response.headers.get("retry-after")
        return Transient(message, wait_asked_for(retry_after, datetime.now(UTC)))
    key = f"the key in {server.key_env}" if server.key_env else "key_env, which names none,"
    remedies = {
        401: f"check {key}",
        403: f"check that {key} may use model {model!r}",
        404: f"check that there is a model {model!r}, or {server.remedy}",
    }
    if remedy := remedies.get(error.status_code):
        return ModelError(f"{message}; {remedy}")
    return Refused(Reason.FAILED, message)


def _is_filtered(body: Mapping[str, Any]) -> bool:
    """Whether an error says that a filter held the prompt back, in the dialects we know."""
    inner, metadata = body.get("innererror"), body.get("metadata")
    codes = _codes(body) | (_codes(inner) if isinstance(inner, dict) else set())
    return bool(codes & FILTERED) or (isinstance(metadata, dict) and "flagged_input" in metadata)


def _codes(body: Mapping[str, Any]) -> set[str]:
    """What an error calls itself."""
    return {str(body.get("code")), str(body.get("type"))}


class _Message(Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(Struct):
    message: _Message
    index: int | None = None
    finish_reason: str | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


def read_reply(content: bytes, request: Request, server: Server) -> Response:
    """The response in the body of a chat completion, or why there is none."""
    body = _read_object(content, server)
    choices = _read_choices(body, request.decoding.n)
    if any(choice.finish_reason == "content_filter" for choice in choices):
        raise Refused(Reason.FILTERED, "the answer was held back by a content filter")
    if refusal := next((c.message.refusal for c in choices if c.message.refusal), None):
        raise Refused(Reason.REFUSED, server.told(refusal))
    stops = [choice.finish_reason for choice in choices]
    served = body.get("model")
    return Response(
        key=request.key,
        texts=tuple(_sound(choice.message.content or "") for choice in choices),
        stop="length" if "length" in stops else stops[0],
        usage=_read_usage(body.get("usage")),
        served=served if isinstance(served, str) else None,
    )


def _read_object(content: bytes, server: Server) -> dict[str, Any]:
    """The JSON object of a reply that holds at least one choice."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Transient(f"{server.address} sent what is not JSON ({error})") from None
    if isinstance(body, dict) and isinstance(body.get("choices"), list) and body["choices"]:
        return body
    problem = body.get("error") if isinstance(body, dict) else None
    told = f": {server.told(json.dumps(problem))}" if problem else ""
    raise Transient(f"{server.address} sent no choices{told}")


def _read_choices(body: Mapping[str, Any], count: int) -> list[_Choice]:
    """The first `count` choices, in the order of their indices."""
    try:
        choices = msgspec.convert(body["choices"], list[_Choice])
    except msgspec.ValidationError as error:
        raise Refused(Reason.FAILED, f"the reply is not a chat completion: {error}") from None
    if len(choices) < count:
        raise Refused(
            Reason.FAILED,
            f"{count} answers were asked for and {len(choices)} came: the server ignores n",
        )
    return sorted(choices, key=lambda choice: choice.index or 0)[:count]


def _read_usage(usage: object) -> Usage:
    """The tokens a reply accounts for; unknown where it does so in another form."""
    try:
        read = msgspec.convert(usage, _Usage)
    except msgspec.ValidationError:
        return Usage()
    return Usage(read.prompt_tokens, read.completion_tokens)


def _sound(text: str) -> str:
    """A text that can be stored: an emoji cut in half becomes the replacement character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
