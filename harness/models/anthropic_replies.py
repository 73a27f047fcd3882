"""Bodies of Anthropic replies to Responses: texts, forms, refusals, token counts.

Pure. What cannot be read is Transient where another attempt may mend it, else Refused.
"""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from harness.calls import Refused, Transient
from harness.core import Request, Response
from harness.parts import Reason, Usage
from harness.servers import Server

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


def read_reply(content: bytes, request: Request, server: Server) -> Response:
    """The response in the body of a message, or why there is none."""
    body = _read_object(content, server)
    try:
        blocks = msgspec.convert(body["content"], list[_Block])
    except msgspec.ValidationError as error:
        raise Refused(Reason.FAILED, f"the reply is not a message: {error}") from None
    stop = body.get("stop_reason")
    if stop == "refusal":
        why = _read_explanation(body.get("stop_details"))
        raise Refused(Reason.REFUSED, server.told(f"the model refused (stop_reason refusal){why}"))
    served = body.get("model")
    return Response(
        key=request.key,
        texts=(_text(blocks, is_form=request.schema is not None),),
        stop="length" if stop in CUT else stop if isinstance(stop, str) else None,
        usage=_read_usage(body.get("usage")),
        served=served if isinstance(served, str) else None,
    )


def joined(request: Request, replies: Sequence[Response]) -> Response:
    """The replies to one request as one response; it is cut where one of them is."""
    stops = [reply.stop for reply in replies]
    first = replies[0]
    return Response(
        key=request.key,
        texts=tuple(text for reply in replies for text in reply.texts or ()),
        stop="length" if "length" in stops else first.stop,
        usage=Usage(
            _sum([reply.usage.prompt_tokens for reply in replies]),
            _sum([reply.usage.completion_tokens for reply in replies]),
        ),
        served=first.served,
    )


def _text(blocks: Sequence[_Block], *, is_form: bool) -> str:
    """The text of a reply; a form that was filled in, as JSON. Thoughts are no part of it."""
    forms = [b.input for b in blocks if b.type == "tool_use" and b.name == FORM]
    if is_form and forms and forms[0] is not None:
        text = json.dumps(forms[0], ensure_ascii=False)
    else:
        text = "".join(block.text for block in blocks if block.type == "text")
    # An emoji cut in half, which cannot be stored, becomes the replacement character.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _read_object(content: bytes, server: Server) -> dict[str, Any]:
    """The JSON object of a reply that has content, which may be empty."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Transient(f"{server.address} sent what is not JSON ({error})") from None
    if isinstance(body, dict) and isinstance(body.get("content"), list):
        return body
    problem = body.get("error") if isinstance(body, dict) else None
    told = f": {server.told(json.dumps(problem))}" if problem else ""
    raise Transient(f"{server.address} sent no content{told}")


def _read_usage(usage: object) -> Usage:
    """The tokens a reply accounts for, those of a cached prompt among them."""
    try:
        read = msgspec.convert(usage, _Usage)
    except msgspec.ValidationError:
        return Usage()
    cached = (read.cache_creation_input_tokens or 0) + (read.cache_read_input_tokens or 0)
    prompt = None if read.input_tokens is None else read.input_tokens + cached
    return Usage(prompt, read.output_tokens)


def _read_explanation(details: object) -> str:
    """What the server says of a refusal, behind a colon; nothing where it says nothing."""
    told = details.get("explanation") if isinstance(details, dict) else None
    return f": {told}" if isinstance(told, str) else ""


def _sum(counts: Sequence[int | None]) -> int | None:
    """The sum of some counts; null where one is missing."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
