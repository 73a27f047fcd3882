"""Bodies of Anthropic replies to Responses: texts, forms, refusals, token counts.

Pure. What cannot be read is Transient where another attempt may mend it, else Refused.
"""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from harness.core import Request, Response
from harness.models.client.endpoint import Endpoint
from harness.models.client.replies import no_answer, reasoning_in, repair_surrogates, truncated
from harness.models.client.retry import PermanentError, RetryableError
from harness.parts import Reason, Usage

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
    body = _read_object(content, server)
    stop, usage = body.get("stop_reason"), _read_usage(body.get("usage"))
    try:
        blocks = msgspec.convert(body["content"], list[_Block])
    except msgspec.ValidationError as error:
        told = f"the reply is not a message: {error}"
        raise PermanentError(Reason.FAILED, told, usage=usage) from None
    served = body["model"] if isinstance(body.get("model"), str) else None
    if stop == "refusal":
        why = _read_explanation(body.get("stop_details"))
        message = server.told(f"the model refused (stop_reason refusal){why}")
        return no_answer(request, Reason.REFUSED, message, usage=usage, served=served)
    text = _text(blocks, is_form=request.schema is not None)
    if stop in CUT and not text:
        return truncated(request, usage=usage, served=served)
    stop = "length" if stop in CUT else stop if isinstance(stop, str) else None
    return Response(request.key, (text,), stop=stop, usage=usage, served=served)


def is_filtered(told: str) -> bool:
    """Whether an error's words say that a filter held the answer, or the prompt, back."""
    return "content filtering policy" in told.lower()


def _text(blocks: Sequence[_Block], *, is_form: bool) -> str:
    """The text of a reply; a form that was filled in, as JSON. Thoughts are no part of it."""
    forms = [b.input for b in blocks if b.type == "tool_use" and b.name == FORM]
    if is_form and forms and forms[0] is not None:
        text = json.dumps(forms[0], ensure_ascii=False)
    else:
        text = "".join(block.text for block in blocks if block.type == "text")
    return repair_surrogates(text)


def _read_object(content: bytes, server: Endpoint) -> dict[str, Any]:
    """The JSON object of a reply that has content, which may be empty."""
    try:
        body = server.masked(json.loads(content))
    except (ValueError, RecursionError) as error:
        raise RetryableError(f"{server.address} sent what is not JSON ({error})") from None
    if not isinstance(body, dict):
        raise RetryableError(f"{server.address} sent no content")
    if isinstance(body.get("content"), list):
        return body
    told = f": {server.told(json.dumps(body['error']))}" if body.get("error") else ""
    usage = _read_usage(body.get("usage"))
    raise RetryableError(f"{server.address} sent no content{told}", usage=usage)


def _read_usage(usage: object) -> Usage:
    """The tokens a reply accounts for, those of a cached prompt among them."""
    try:
        read = msgspec.convert(usage, _Usage)
    except msgspec.ValidationError:
        return Usage()
    cached = (read.cache_creation_input_tokens or 0) + (read.cache_read_input_tokens or 0)
    prompt = None if read.input_tokens is None else read.input_tokens + cached
    thinking = reasoning_in(read.output_tokens_details, "thinking_tokens")
    return Usage(prompt, read.output_tokens, reasoning_tokens=thinking)


def _read_explanation(details: object) -> str:
    """What the server says of a refusal, behind a colon; nothing where it says nothing."""
    told = details.get("explanation") if isinstance(details, dict) else None
    return f": {told}" if isinstance(told, str) else ""
