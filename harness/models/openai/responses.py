"""Requests to bodies of OpenAI's responses API, and bodies of its replies to Responses.

One call gives one reply, and the server keeps nothing. Pure: what cannot be read raises
RetryableError where another attempt may help, else PermanentError.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from harness.core import Request, Response
from harness.models.client.endpoint import Endpoint
from harness.models.client.replies import (
    error_in,
    no_answer,
    read_as,
    read_json,
    read_served,
    reasoning_in,
    truncated,
)
from harness.models.client.retry import PermanentError, RetryableError, attach_usage
from harness.models.openai.errors import FILTERED
from harness.parts import Reason, Usage
from harness.specs.models import OpenAISpec
from harness.text.cleanup import repair_surrogates

LEAST_TOKENS = 16
"""The API refuses a smaller max_output_tokens."""
PASSING = frozenset({"server_error", "rate_limit_exceeded"})
UNFINISHED = frozenset({"queued", "in_progress", "cancelled"})
OURS = "of the responses API"


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
    most_tokens = request.decoding.max_tokens + spec.reasoning_max_tokens
    arguments: dict[str, Any] = {
        "model": model,
        "input": [{"role": m.role, "content": m.content} for m in request.messages],
        "max_output_tokens": max(LEAST_TOKENS, most_tokens),
        "store": False,
    }
    if spec.sends_temperature:
        arguments["temperature"] = request.decoding.temperature
    if spec.reasoning_effort is not None:
        arguments["reasoning"] = {"effort": spec.reasoning_effort}
    if request.schema is not None and spec.is_structured_output:
        form = {"name": "reply", "strict": True, "schema": dict(request.schema)}
        text = spec.extra_body.get("text") or {}
        arguments["text"] = {**text, "format": {"type": "json_schema", **form}}
    if extra := {name: value for name, value in spec.extra_body.items() if name not in arguments}:
        arguments["extra_body"] = extra
    return arguments


def read_response(content: bytes, request: Request, server: Endpoint) -> Response:
    """The response in the body of a reply of the responses API, or why there is none."""
    body = _read_object(content, server)
    usage, served = _read_usage(body.get("usage")), read_served(body)
    read = read_as(_Body, {**body, "output": body.get("output") or []}, what=OURS)
    why_cut = (read.incomplete_details or _Incomplete()).reason
    with attach_usage(usage):
        if read.status == "failed" or read.status in UNFINISHED:
            raise _error_of(read, server)
        parts = _answer_parts(read.output) if why_cut != "content_filter" else []
    failure = partial(no_answer, request, usage=usage, served=served)
    if why_cut == "content_filter":
        return failure(Reason.FILTERED, "the answer was held back by a content filter")
    if refusal := next((part.refusal for part in parts if part.type == "refusal"), None):
        return failure(Reason.REFUSED, server.quote(refusal))
    text = "".join(part.text for part in parts if part.type == "output_text")
    is_cut = why_cut == "max_output_tokens"
    if read.status == "incomplete" and not is_cut:
        fact = f"the answer did not come to its end (incomplete: {why_cut})"
        return failure(Reason.FAILED, server.quote(fact))
    if is_cut and not text:
        return truncated(request, usage=usage, served=served)
    return Response(
        key=request.key,
        texts=(repair_surrogates(text),),
        stop="length" if is_cut else "stop",
        usage=usage,
        served=served,
    )


def _read_object(content: bytes, server: Endpoint) -> dict[str, Any]:
    """The JSON object of a reply of this API; RetryableError for anything else."""
    body = read_json(content, server)
    if not isinstance(body, dict):
        raise RetryableError(f"{server.address} sent no output")
    if not isinstance(body.get("output"), list) and body.get("status") != "failed":
        raise RetryableError(f"{server.address} sent no output{error_in(body, server)}")
    return body


def _error_of(read: _Body, server: Endpoint) -> Exception:
    """The error for a reply that the server did not finish."""
    error = read.error or _Error()
    words = server.quote(f"{error.code or read.status}: {error.message or 'it does not say why'}")
    message = f"{server.address} did not answer: {words}"
    if error.code in PASSING:
        return RetryableError(message)
    if error.code in FILTERED:
        return PermanentError(Reason.FILTERED, message)
    if read.status != "failed":
        message += "; leave background out of extra_body"
    return PermanentError(Reason.FAILED, message)


def _answer_parts(output: Sequence[_Item]) -> list[_Part]:
    """The parts of a model's answer, without its thoughts and its remarks on the way."""
    messages = [item for item in output if item.type == "message" and item.phase != "commentary"]
    return [
        part for item in messages for part in read_as(list[_Part], item.content or [], what=OURS)
    ]


def _read_usage(usage: object) -> Usage:
    """The token counts of a reply; None where it reports them in another form."""
    try:
        read = msgspec.convert(usage, _Usage)
    except msgspec.ValidationError:
        return Usage()
    reasoning = reasoning_in(read.output_tokens_details)
    return Usage(read.input_tokens, read.output_tokens, reasoning_tokens=reasoning)
