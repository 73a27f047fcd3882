"""Requests to Responses through Anthropic's API, with the official client.

Whatever the client library raises is translated in one function. Replies are read by
anthropic_replies; nothing here parses, retries or stores.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.anthropic.replies import FORM, is_filtered, read_reply
from harness.models.client.endpoint import Endpoint, is_permission_error
from harness.models.client.replies import RepliesByKey, collect_n
from harness.models.client.retry import (
    Call,
    PartialReply,
    PermanentError,
    RetryableError,
    RetryPolicy,
    retry_after_seconds,
    send_all,
)
from harness.models.client.transport import describe, http_client, post, usage_of
from harness.parts import UNCHARGED, Mode, Reason, digest
from harness.specs.models import AnthropicSpec

if TYPE_CHECKING:
    import aiohttp
    import anthropic

PREFLIGHT_S = 10.0
PASSING = frozenset({408, 409, 425, 429})


class AnthropicModel:
    """A model behind Anthropic's API, or a server that speaks its language."""

    kind = "anthropic"
    revision: str | None = None
    modes = frozenset({Mode.GENERATE})

    def __init__(self, name: str, spec: AnthropicSpec, environ: Mapping[str, str]) -> None:
        """Keep the settings; the key is read and the server reached when first needed."""
        self.name = name
        self._spec = spec
        self._environ = environ
        self._is_checked = False

    @cached_property
    def identity(self) -> str:
        """Kind, model, what is sent beside the request, and the host unless it is this machine."""
        spec, host = self._spec, self._server.remote_host
        parts = [self.kind, spec.model]
        if spec.extra_body or not spec.sends_temperature:
            parts.append(f"body={digest((spec.extra_body, spec.sends_temperature))[:12]}")
        parts += [] if spec.is_structured_output else ["unstructured"]
        parts += [] if spec.form == "tool" else [f"form={spec.form}"]
        parts += [f"reasoning={spec.reasoning_max_tokens}"] if spec.reasoning_max_tokens else []
        return "|".join(parts + ([f"host={host}"] if host else []))

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once, in the order in which the answers come."""
        spec = self._spec
        policy = RetryPolicy(spec.concurrency, spec.attempts, spec.timeout_s, total_s=spec.total_s)
        return send_all(requests, self._connect, policy)

    @property
    def access(self) -> tuple[Endpoint, AnthropicSpec]:
        """Where it is reached, and how: what else asks it needs to know."""
        return self._server, self._spec

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

    def _connect(self) -> AbstractAsyncContextManager[Call]:
        """See that a server is there; then open connections to it."""
        self.check()
        return self._session(client_options(self._server))

    def check(self) -> None:
        """See, once, that a server is there and takes the key."""
        import anthropic

        options = client_options(self._server)
        try:
            if not self._is_checked:
                timeout_s = min(PREFLIGHT_S, self._spec.timeout_s)
                with anthropic.Anthropic(**options, timeout=timeout_s) as client:
                    client.models.with_raw_response.list()
        except anthropic.APIConnectionError as error:
            if type(error.__cause__).__name__ == "ConnectError":
                told = self._server.told(str(error.__cause__))
                raise ModelError(
                    f"no server at {self._server.address} ({told}): start it, or "
                    f"{self._server.remedy}"
                ) from None
        except anthropic.AuthenticationError as error:
            if not is_permission_error(error.status_code, error.message):
                raise translated(error, self._server, model=self._spec.model) from None
        except anthropic.AnthropicError:
            pass  # a server, or a key of few rights, that lists nothing may answer well
        self._is_checked = True

    @asynccontextmanager
    async def _session(self, options: Mapping[str, Any]) -> AsyncIterator[Call]:
        """One client, made and closed inside the loop that uses it."""
        import anthropic

        spec = self._spec
        http = http_client(anthropic, spec.concurrency)
        async with anthropic.AsyncAnthropic(
            **options, timeout=spec.timeout_s, http_client=http
        ) as client:
            yield partial(self._ask, client, {})

    async def _ask(
        self,
        client: "anthropic.AsyncAnthropic",
        heard: RepliesByKey,
        request: Request,
    ) -> Response | PartialReply:
        """One call for one request: for the next reply, where more are wanted than are `heard`."""
        if request.mode not in self.modes:
            raise PermanentError(
                Reason.UNSUPPORTED,
                f"Anthropic's API cannot be asked to {request.mode}; it tells no "
                "log-probabilities and no vectors: use kind: transformers, vllm or openai",
                usage=UNCHARGED,
            )
        return await collect_n(request, heard, partial(self._reply, client))

    async def _reply(self, client: "anthropic.AsyncAnthropic", request: Request) -> Response:
        """One reply to one request; the API gives no more a call."""
        import aiohttp
        import anthropic

        spec = self._spec
        try:
            content = await post(client, "/v1/messages", arguments(request, spec))
        except (anthropic.AnthropicError, aiohttp.ClientError) as error:
            # The library's message may repeat the key: it is not chained.
            has_form = request.schema is not None and spec.is_structured_output
            raise translated(error, self._server, model=spec.model, has_form=has_form) from None
        return read_reply(content, request, self._server)


def client_options(server: Endpoint) -> dict[str, Any]:
    """What every client is built with; its own retries are off."""
    return {"api_key": server.key or "none", "base_url": server.url, "max_retries": 0}


def arguments(request: Request, spec: AnthropicSpec) -> dict[str, Any]:
    """A request as arguments of the client library, of which some go by what it does not know.

    The library knows no temperature since its version 1.0; the API does, for older models.
    """
    found: dict[str, Any] = {
        "model": spec.model,
        "max_tokens": request.decoding.max_tokens + spec.reasoning_max_tokens,
        "messages": [
            {"role": m.role, "content": m.content} for m in request.messages if m.role != "system"
        ],
    }
    if system := "\n\n".join(m.content for m in request.messages if m.role == "system"):
        found["system"] = system
    drawn = {"temperature": request.decoding.temperature} if spec.sends_temperature else {}
    extra = {**drawn, **spec.extra_body}
    if request.schema is not None and spec.is_structured_output:
        if spec.form == "tool":
            found["tools"] = [{"name": FORM, "input_schema": dict(request.schema)}]
            found["tool_choice"] = {"type": "tool", "name": FORM}
        else:
            form = {"type": "json_schema", "schema": _unbounded(request.schema)}
            extra["output_config"] = {**(extra.get("output_config") or {}), "format": form}
    if extra:
        found["extra_body"] = extra
    return found


def _unbounded(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without the bounds of numbers, which the API refuses in one."""
    kept = {name: part for name, part in schema.items() if name not in ("minimum", "maximum")}
    if "properties" in kept:
        kept["properties"] = {name: _unbounded(p) for name, p in kept["properties"].items()}
    return kept


def translated(
    error: "anthropic.AnthropicError | aiohttp.ClientError",
    server: Endpoint,
    *,
    model: str,
    has_form: bool = False,
) -> Exception:
    """What an exception of the client library amounts to: Transient, Refused or ModelError.

    So does one of aiohttp's, below it, that it has no name for. `has_form` says that the model was
    made to fill in a form.
    """
    import aiohttp
    import anthropic

    if isinstance(error, anthropic.APIStatusError):
        return _of_status(error, server, model=model, has_form=has_form)
    message = f"{server.address}: {server.told(describe(error))}"
    broken = (anthropic.APIConnectionError, anthropic.APIResponseValidationError)
    if isinstance(error, (*broken, aiohttp.ClientError)):
        return RetryableError(message, usage=usage_of(error))
    return ModelError(f"{message}; see the settings of model {model}")


def _hint(server: Endpoint) -> str:
    """What an address has too much of: /v1 is put behind it."""
    cut = server.address.removesuffix("/v1")
    return "" if cut == server.address else f" to {cut}, without /v1, which is put behind it"


def _of_status(
    error: "anthropic.APIStatusError", server: Endpoint, *, model: str, has_form: bool
) -> Exception:
    """What an HTTP status, and what the body says of it, amount to."""
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("error")
    told = inner.get("message") if isinstance(inner, dict) else None
    told = server.told(str(told or error.message))
    status, message = error.status_code, f"{server.address} answered {error.status_code}: {told}"
    if is_filtered(told):
        return PermanentError(Reason.FILTERED, message, usage=UNCHARGED)
    if status in PASSING or status >= 500:
        retry_after = error.response.headers.get("retry-after")
        wait_s = retry_after_seconds(retry_after, datetime.now(UTC))
        is_turned_away = status in (429, 529)
        return RetryableError(message, wait_s, is_turned_away=is_turned_away, usage=UNCHARGED)
    remedies = {
        401: server.key_remedy,
        402: "see the account's credit, then repeat the command",
        403: f"check that the key in {server.key_env} may use model {model!r}"
        if server.key_env
        else server.key_remedy,
        404: f"check that there is a model {model!r}, or {server.remedy}{_hint(server)}",
    }
    if status == 400 and "credit balance" in told:
        return ModelError(f"{message}; {remedies[402]}")
    if status == 400 and has_form and ("tool" in told or "output_config" in told):
        settings = "form: schema or is_structured_output: false"
        return ModelError(f"{message}; if it cannot be made to, set {settings} for {model!r}")
    if status == 400 and "temperature" in told:
        return ModelError(f"{message}; or set sends_temperature: false for {model!r}")
    if remedy := remedies.get(status):
        return ModelError(f"{message}; {remedy}")
    return PermanentError(Reason.FAILED, message, usage=UNCHARGED)
