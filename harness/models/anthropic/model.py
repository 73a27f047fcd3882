"""Requests to Responses through Anthropic's API.

First what is pure: requests to bodies, bodies of replies and errors to what they mean. What cannot
be read raises RetryableError where another attempt may help, else PermanentError.
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.client.endpoint import Endpoint
from harness.models.client.hosted import HostedModel, passing_error
from harness.models.client.http import Connection, HttpError
from harness.models.client.replies import (
    RepliesByKey,
    bounded,
    collect_n,
    endless,
    no_answer,
    read_as,
    read_object,
    read_served,
    read_usage,
    truncated,
)
from harness.models.client.retry import Call, PartialReply, PermanentError, attach_usage
from harness.parts import UNCHARGED, Mode, Reason, Usage, digest
from harness.specs.models import AnthropicSpec
from harness.text.cleanup import repair_surrogates

RATE_LIMITS = frozenset({429, 529})


def message_body(request: Request, spec: AnthropicSpec) -> dict[str, Any]:
    """A request as the body of a message."""
    body: dict[str, Any] = {
        "model": spec.model,
        "max_tokens": request.decoding.max_tokens + spec.reasoning_max_tokens,
        "messages": [
            {"role": m.role, "content": m.content} for m in request.messages if m.role != "system"
        ],
    }
    if system := "\n\n".join(m.content for m in request.messages if m.role == "system"):
        body["system"] = system
    if spec.sends_temperature:
        body["temperature"] = request.decoding.temperature
    body |= spec.extra_body
    if request.schema is not None and spec.is_structured_output:
        if spec.form == "tool":
            tools = [{"name": FORM, "input_schema": dict(request.schema)}]
            return {"tools": tools, "tool_choice": {"type": "tool", "name": FORM}} | body
        form = {"type": "json_schema", "schema": _unbounded(request.schema)}
        body["output_config"] = {**(body.get("output_config") or {}), "format": form}
    return body


def _unbounded(schema: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in schema.items() if name not in ("minimum", "maximum")}
    if "properties" in kept:
        kept["properties"] = {name: _unbounded(p) for name, p in kept["properties"].items()}
    return kept


def status_error(error: HttpError, server: Endpoint, *, model: str, has_form: bool) -> Exception:
    """Our error for an HTTP status and the words of the reply's body."""
    status, words = error.status, server.quote(str(error.problem.get("message") or error.text))
    message = f"{server.address} answered {status}: {words}"
    if is_filtered(words):
        return PermanentError(Reason.FILTERED, message, usage=UNCHARGED)
    if passing := passing_error(error, message, rate_limits=RATE_LIMITS):
        return passing
    cut = server.address.removesuffix("/v1")  # the paths have it
    hint = "" if cut == server.address else f" to {cut}, without /v1, which is put behind it"
    remedies = server.remedies(model, hint=hint)
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


FORM = "reply"
"""The name of the one tool that a reply in a given form is a call of."""
CUT = frozenset({"max_tokens", "model_context_window_exceeded"})


class _Block(Struct):
    type: str
    text: str = ""
    name: str = ""
    input: dict[str, Any] | None = None


def read_reply(content: bytes, request: Request, server: Endpoint) -> Response:
    """The response in the body of a message, or why there is none."""
    body = read_object(content, server, key="content", usage_of=_read_usage, may_be_empty=True)
    reason, usage, served = (
        body.get("stop_reason"),
        _read_usage(body.get("usage")),
        read_served(body),
    )
    stop = bounded(reason) if isinstance(reason, str) else None
    with attach_usage(usage):
        blocks = read_as(list[_Block], body["content"], what="a message")
    if stop == "refusal":
        details = body.get("stop_details")
        explanation = details.get("explanation") if isinstance(details, dict) else None
        why = f": {explanation}" if isinstance(explanation, str) else ""
        message = server.quote(f"the model refused (stop_reason refusal){why}")
        return no_answer(request, Reason.REFUSED, message, usage=usage, served=served)
    text = "".join(block.text for block in blocks if block.type == "text")
    forms = [b.input for b in blocks if b.type == "tool_use" and b.name == FORM]
    if request.schema is not None and forms and forms[0] is not None:
        text = json.dumps(forms[0], ensure_ascii=False)
    if too_long := endless(text, request, server, usage=usage, served=served):
        return too_long
    text = repair_surrogates(text)
    if stop in CUT and not text:
        return truncated(request, usage=usage, served=served)
    stop = "length" if stop in CUT else stop
    return Response(request.key, (text,), stop=stop, usage=usage, served=served)


def is_filtered(message: str) -> bool:
    """Whether an error's words say that a filter held the answer, or the prompt, back."""
    return "content filtering policy" in message.lower()


def _read_usage(usage: object) -> Usage:
    return read_usage(
        usage,
        *("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
        completion="output_tokens",
        reasoning="thinking_tokens",
    )


class AnthropicModel(HostedModel[AnthropicSpec]):
    """A model behind Anthropic's API, or a server that speaks its language."""

    kind = "anthropic"
    models_path = "/v1/models"
    modes = frozenset({Mode.GENERATE})

    def _identity_parts(self) -> list[str]:
        spec, parts = self.spec, [self.kind, self.spec.model]
        if spec.extra_body or not spec.sends_temperature:
            parts.append(f"body={digest((spec.extra_body, spec.sends_temperature))[:12]}")
        parts += [] if spec.is_structured_output else ["unstructured"]
        parts += [] if spec.form == "tool" else [f"form={spec.form}"]
        parts += [f"reasoning={spec.reasoning_max_tokens}"] if spec.reasoning_max_tokens else []
        return parts

    @property
    def headers(self) -> dict[str, str]:
        """The headers that carry the key."""
        key = self.server.key
        return {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}

    def translated(self, error: HttpError, *, has_form: bool = False) -> Exception:
        """Our error for one with an HTTP status."""
        return status_error(error, self.server, model=self.model, has_form=has_form)

    def _call(self, connection: Connection) -> Call:
        return partial(self._ask, connection, {})

    async def _ask(
        self, connection: Connection, replies: RepliesByKey, request: Request
    ) -> Response | PartialReply:
        if request.mode not in self.modes:
            raise PermanentError(
                Reason.UNSUPPORTED,
                f"Anthropic's API cannot be asked to {request.mode}; it returns no "
                "log-probabilities and no vectors: use kind: transformers, vllm or openai",
                usage=UNCHARGED,
            )
        return await collect_n(request, replies, partial(self._reply, connection))

    async def _reply(self, connection: Connection, request: Request) -> Response:
        has_form = request.schema is not None and self.spec.is_structured_output
        with self.translating(has_form=has_form):
            content = await connection.request(
                "POST", "/v1/messages", message_body(request, self.spec)
            )
            return read_reply(content, request, self.server)
