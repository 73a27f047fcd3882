"""Bodies of Anthropic replies to Responses: texts, forms, refusals, token counts.

Pure: what cannot be read raises RetryableError where another attempt may help, else PermanentError.
"""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from harness.core import Request, Response
from harness.models.client.endpoint import Endpoint
from harness.models.client.replies import (
    no_answer,
    read_as,
    read_object,
    read_served,
    reasoning_in,
    truncated,
)
from harness.models.client.retry import attach_usage
from harness.parts import Reason, Usage
from harness.text.cleanup import repair_surrogates

FORM = "reply"
"""The name of the one tool that a reply in a given form is a call of."""
CUT = frozenset({"max_tokens", "model_context_window_exceeded"})


class _Block(Struct):
    type: str
    text: str = ""
    name: str = ""
    input: dict[str, Any] | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: Any = None


def read_reply(content: bytes, request: Request, server: Endpoint) -> Response:
    """The response in the body of a message, or why there is none."""
    body = read_object(content, server, key="content", usage_of=_read_usage, may_be_empty=True)
    stop, usage, served = body.get("stop_reason"), _read_usage(body.get("usage")), read_served(body)
    with attach_usage(usage):
        blocks = read_as(list[_Block], body["content"], what="a message")
    if stop == "refusal":
        why = _read_explanation(body.get("stop_details"))
        message = server.quote(f"the model refused (stop_reason refusal){why}")
        return no_answer(request, Reason.REFUSED, message, usage=usage, served=served)
    text = _text(blocks, is_form=request.schema is not None)
    if stop in CUT and not text:
        return truncated(request, usage=usage, served=served)
    stop = "length" if stop in CUT else stop if isinstance(stop, str) else None
    return Response(request.key, (text,), stop=stop, usage=usage, served=served)


def is_filtered(message: str) -> bool:
    """Whether an error's words say that a filter held the answer, or the prompt, back."""
    return "content filtering policy" in message.lower()


def _text(blocks: Sequence[_Block], *, is_form: bool) -> str:
    """The text of a reply without thoughts; a form that was filled in, as JSON."""
    forms = [b.input for b in blocks if b.type == "tool_use" and b.name == FORM]
    if is_form and forms and forms[0] is not None:
        text = json.dumps(forms[0], ensure_ascii=False)
    else:
        text = "".join(block.text for block in blocks if block.type == "text")
    return repair_surrogates(text)


def _read_usage(usage: object) -> Usage:
    """The token counts of a reply, those of a cached prompt included."""
    try:
        read = msgspec.convert(usage, _Usage)
    except msgspec.ValidationError:
        return Usage()
    cached = (read.cache_creation_input_tokens or 0) + (read.cache_read_input_tokens or 0)
    prompt = None if read.input_tokens is None else read.input_tokens + cached
    thinking = reasoning_in(read.output_tokens_details, "thinking_tokens")
    return Usage(prompt, read.output_tokens, reasoning_tokens=thinking)


def _read_explanation(details: object) -> str:
    """The server's explanation of a refusal, after a colon; empty where there is none."""
    explanation = details.get("explanation") if isinstance(details, dict) else None
    return f": {explanation}" if isinstance(explanation, str) else ""
