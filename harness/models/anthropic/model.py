"""Requests to Responses through Anthropic's API, with the official client.

Exceptions of the client library are translated in one function; `replies` reads the replies.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.anthropic.replies import FORM, is_filtered, read_reply
from harness.models.client.endpoint import Endpoint
from harness.models.client.hosted import HostedModel
from harness.models.client.replies import RepliesByKey, collect_n
from harness.models.client.retry import Call, PartialReply, PermanentError
from harness.models.client.transport import ClientLibrary, connection_error, passing_error, post
from harness.parts import UNCHARGED, Mode, Reason, digest
from harness.specs.models import AnthropicSpec

if TYPE_CHECKING:
    import anthropic

LIBRARY = ClientLibrary("anthropic", "Anthropic")
RATE_LIMITS = frozenset({429, 529})


class AnthropicModel(HostedModel[AnthropicSpec]):
    """A model behind Anthropic's API, or a server that speaks its language."""

    kind = "anthropic"
    library = LIBRARY
    modes = frozenset({Mode.GENERATE})

    def _identity_parts(self) -> list[str]:
        spec, parts = self.spec, [self.kind, self.spec.model]
        if spec.extra_body or not spec.sends_temperature:
            parts.append(f"body={digest((spec.extra_body, spec.sends_temperature))[:12]}")
        parts += [] if spec.is_structured_output else ["unstructured"]
        parts += [] if spec.form == "tool" else [f"form={spec.form}"]
        parts += [f"reasoning={spec.reasoning_max_tokens}"] if spec.reasoning_max_tokens else []
        return parts

    def _translated(self, error: Exception, *, has_form: bool = False) -> Exception:
        return translate_error(error, self.server, model=self.spec.model, has_form=has_form)

    def _call(self, client: "anthropic.AsyncAnthropic") -> Call:
        return partial(self._ask, client, {})

    async def _ask(
        self, client: "anthropic.AsyncAnthropic", replies: RepliesByKey, request: Request
    ) -> Response | PartialReply:
        """Make one call for the next reply to a request; the API gives one a call."""
        if request.mode not in self.modes:
            raise PermanentError(
                Reason.UNSUPPORTED,
                f"Anthropic's API cannot be asked to {request.mode}; it returns no "
                "log-probabilities and no vectors: use kind: transformers, vllm or openai",
                usage=UNCHARGED,
            )
        return await collect_n(request, replies, partial(self._reply, client))

    async def _reply(self, client: "anthropic.AsyncAnthropic", request: Request) -> Response:
        has_form = request.schema is not None and self.spec.is_structured_output
        with self.translating(has_form=has_form):
            content = await post(client, "/v1/messages", message_arguments(request, self.spec))
            return read_reply(content, request, self.server)


def message_arguments(request: Request, spec: AnthropicSpec) -> dict[str, Any]:
    """A request as arguments of the client library; `extra_body` has those it does not know.

    The library knows no temperature since its version 1.0; the API does, for older models.
    """
    arguments: dict[str, Any] = {
        "model": spec.model,
        "max_tokens": request.decoding.max_tokens + spec.reasoning_max_tokens,
        "messages": [
            {"role": m.role, "content": m.content} for m in request.messages if m.role != "system"
        ],
    }
    if system := "\n\n".join(m.content for m in request.messages if m.role == "system"):
        arguments["system"] = system
    temperature = {"temperature": request.decoding.temperature} if spec.sends_temperature else {}
    extra = {**temperature, **spec.extra_body}
    if request.schema is not None and spec.is_structured_output:
        if spec.form == "tool":
            arguments["tools"] = [{"name": FORM, "input_schema": dict(request.schema)}]
            arguments["tool_choice"] = {"type": "tool", "name": FORM}
        else:
            form = {"type": "json_schema", "schema": _unbounded(request.schema)}
            extra["output_config"] = {**(extra.get("output_config") or {}), "format": form}
    if extra:
        arguments["extra_body"] = extra
    return arguments


def _unbounded(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without the bounds of numbers, which the API refuses."""
    kept = {name: value for name, value in schema.items() if name not in ("minimum", "maximum")}
    if "properties" in kept:
        kept["properties"] = {name: _unbounded(p) for name, p in kept["properties"].items()}
    return kept


def translate_error(
    error: Exception, server: Endpoint, *, model: str, has_form: bool = False
) -> Exception:
    """An exception of anthropic, or of aiohttp below it, as one of our errors.

    `has_form` says that the model was asked to fill in a form.
    """
    import anthropic

    if isinstance(error, anthropic.APIStatusError):
        return _status_error(error, server, model=model, has_form=has_form)
    return connection_error(error, server, library=LIBRARY, model=model)


def _status_error(
    error: "anthropic.APIStatusError", server: Endpoint, *, model: str, has_form: bool
) -> Exception:
    """Our error for an HTTP status and the words of the reply's body."""
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("error")
    words = inner.get("message") if isinstance(inner, dict) else None
    words = server.quote(str(words or error.message))
    status, message = error.status_code, f"{server.address} answered {error.status_code}: {words}"
    if is_filtered(words):
        return PermanentError(Reason.FILTERED, message, usage=UNCHARGED)
    if passing := passing_error(error, message, rate_limits=RATE_LIMITS):
        return passing
    remedies = server.remedies(model, hint=_hint(server))
    if status == 400 and "credit balance" in words:
        return ModelError(f"{message}; {remedies[402]}")
    if status == 400 and has_form and ("tool" in words or "output_config" in words):
        settings = "form: schema or is_structured_output: false"
        return ModelError(f"{message}; if it cannot be made to, set {settings} for {model!r}")
    if status == 400 and "temperature" in words:
        return ModelError(f"{message}; or set sends_temperature: false for {model!r}")
    if remedy := remedies.get(status):
        return ModelError(f"{message}; {remedy}")
    return PermanentError(Reason.FAILED, message, usage=UNCHARGED)


def _hint(server: Endpoint) -> str:
    """What an address has too much of: the client library appends /v1."""
    cut = server.address.removesuffix("/v1")
    return "" if cut == server.address else f" to {cut}, without /v1, which is put behind it"
