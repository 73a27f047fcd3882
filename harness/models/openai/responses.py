"""Requests to arguments of OpenAI's responses API, and the bodies of its replies to Responses.

Pure. What cannot be read is Transient where another attempt may mend it, else Refused. One call
gives one reply; nothing is kept by the server.
"""

import json
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from harness.core import Request, Response
from harness.models.client.endpoint import Endpoint
from harness.models.client.replies import no_answer, reasoning_in, repair_surrogates, truncated
from harness.models.client.retry import PermanentError, RetryableError, attach_usage
from harness.models.openai.chat import read_json, read_served
from harness.models.openai.errors import FILTERED
from harness.parts import Reason, Usage
from harness.specs.models import OpenAISpec

_T = TypeVar("_T")

LEAST_TOKENS = 16
"""The API refuses a smaller max_output_tokens."""
PASSING = frozenset({"server_error", "rate_limit_exceeded"})
UNFINISHED = frozenset({"queued", "in_progress", "cancelled"})


class _Part(Struct):
    type: str
    text: str = ""
    refusal: str = ""


class _Item(Struct):
    type: str
    content: Any = None
    phase: str | None = None


class _Error(Struct):
    code: str | None = None
    message: str | None = None


class _Incomplete(Struct):
    reason: str | None = None


class _Body(Struct):
    output: list[_Item] = []
    status: str | None = None
    error: _Error | None = None
    incomplete_details: _Incomplete | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_details: Any = None


def response_arguments(request: Request, model: str, spec: OpenAISpec) -> dict[str, Any]:
    """A request as arguments of the client library; the API knows neither seed nor n."""
    room = request.decoding.max_tokens + spec.reasoning_max_tokens
    found: dict[str, Any] = {
        "model": model,
        "input": [{"role": m.role, "content": m.content} for m in request.messages],
        "max_output_tokens": max(LEAST_TOKENS, room),
        "store": False,
    }
    if spec.sends_temperature:
        found["temperature"] = request.decoding.temperature
    if spec.reasoning_effort is not None:
        found["reasoning"] = {"effort": spec.reasoning_effort}
    if request.schema is not None and spec.is_structured_output:
        form = {"name": "reply", "strict": True, "schema": dict(request.schema)}
        text = spec.extra_body.get("text") or {}
        found["text"] = {**text, "format": {"type": "json_schema", **form}}
    if extra := {name: part for name, part in spec.extra_body.items() if name not in found}:
        found["extra_body"] = extra
    return found


def read_response(content: bytes, request: Request, server: Endpoint) -> Response:
    """The response in the body of a reply of the responses API, or why there is none."""
    read, told = _read_body(content, server)
    usage, served = _read_usage(told.get("usage")), read_served(told)
    why = (read.incomplete_details or _Incomplete()).reason
    with attach_usage(usage):
        if read.status == "failed" or read.status in UNFINISHED:
            raise _failure(read, server)
        parts = _said(read.output) if why != "content_filter" else []
    if why == "content_filter":
        message = "the answer was held back by a content filter"
        return no_answer(request, Reason.FILTERED, message, usage=usage, served=served)
    if refusal := next((part.refusal for part in parts if part.type == "refusal"), None):
        message = server.told(refusal)
        return no_answer(request, Reason.REFUSED, message, usage=usage, served=served)
    text = "".join(part.text for part in parts if part.type == "output_text")
    is_cut = why == "max_output_tokens"
    if read.status == "incomplete" and not is_cut:
        message = server.told(f"the answer did not come to its end (incomplete: {why})")
        return no_answer(request, Reason.FAILED, message, usage=usage, served=served)
    if is_cut and not text:
        return truncated(request, usage=usage, served=served)
    return Response(
        key=request.key,
        texts=(repair_surrogates(text),),
        stop="length" if is_cut else "stop",
        usage=usage,
        served=served,
    )


def _read_body(content: bytes, server: Endpoint) -> tuple[_Body, dict[str, Any]]:
    """What is read of a reply, and all of it; one that is none of this API's is Transient."""
    told = read_json(content, server)
    is_ours = isinstance(told, dict) and isinstance(told.get("output"), list)
    has_failed = isinstance(told, dict) and told.get("status") == "failed"
    if not isinstance(told, dict) or not (is_ours or has_failed):
        problem = told.get("error") if isinstance(told, dict) else None
        words = f": {server.told(json.dumps(problem))}" if problem else ""
        raise RetryableError(f"{server.address} sent no output{words}")
    return _converted({**told, "output": told.get("output") or []}, _Body), told


def _converted(value: object, kind: type[_T]) -> _T:
    """A part of a reply as what it should be."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise PermanentError(
            Reason.FAILED, f"the reply is not of the responses API: {error}"
        ) from None


def _failure(read: _Body, server: Endpoint) -> Exception:
    """What a reply amounts to that the server did not bring to an end."""
    error = read.error or _Error()
    told = server.told(f"{error.code or read.status}: {error.message or 'it does not say why'}")
    message = f"{server.address} did not answer: {told}"
    if error.code in PASSING:
        return RetryableError(message)
    if error.code in FILTERED:
        return PermanentError(Reason.FILTERED, message)
    if read.status != "failed":
        message += "; leave background out of extra_body"
    return PermanentError(Reason.FAILED, message)


def _said(output: Sequence[_Item]) -> list[_Part]:
    """What a model says, without what it thinks or remarks on the way to it."""
    said = [item for item in output if item.type == "message" and item.phase != "commentary"]
    return [part for item in said for part in _converted(item.content or [], list[_Part])]


def _read_usage(usage: object) -> Usage:
    """The tokens a reply accounts for; unknown where it does so in another form."""
    try:
        read = msgspec.convert(usage, _Usage)
    except msgspec.ValidationError:
        return Usage()
    reasoning = reasoning_in(read.output_tokens_details)
    return Usage(read.input_tokens, read.output_tokens, reasoning_tokens=reasoning)
