"""Bodies of OpenAI-compatible replies to Responses: texts, refusals, vectors, token counts.

Pure. What cannot be read is Transient where another attempt may mend it, else Refused.
"""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec
from msgspec import Struct

from harness.calls import Refused, Transient
from harness.core import Request, Response
from harness.parts import Reason, Usage
from harness.replies import cut_short, reasoning_in, sound, withheld
from harness.servers import Server


class _Message(Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(Struct):
    message: _Message
    index: int | None = None
    finish_reason: str | None = None


class _Embedding(Struct):
    embedding: tuple[float, ...]


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    completion_tokens_details: Any = None


def read_reply(content: bytes, request: Request, server: Server) -> Response:
    """The response in the body of a chat completion, or why there is none."""
    body = read_object(content, server, key="choices")
    choices = _read_choices(body, request.decoding.n)
    usage, served = read_usage(body.get("usage")), read_served(body)
    if any(choice.finish_reason == "content_filter" for choice in choices):
        message = "the answer was held back by a content filter"
        return withheld(request, Reason.FILTERED, message, usage=usage, served=served)
    if refusal := next((c.message.refusal for c in choices if c.message.refusal), None):
        message = server.told(refusal)
        return withheld(request, Reason.REFUSED, message, usage=usage, served=served)
    stops = [choice.finish_reason for choice in choices]
    texts = tuple(sound(choice.message.content or "") for choice in choices)
    if "length" in stops and not any(texts):
        return cut_short(request, usage=usage, served=served)
    stop = "length" if "length" in stops else stops[0]
    return Response(request.key, texts, stop=stop, usage=usage, served=served)


def read_vector(content: bytes, request: Request, server: Server) -> Response:
    """The response in the body of an embedding: one vector that has a direction."""
    body = read_object(content, server, key="data")
    try:
        vector = msgspec.convert(body["data"][0], _Embedding).embedding
    except msgspec.ValidationError as error:
        raise Refused(Reason.FAILED, f"the reply is not an embedding: {error}") from None
    if not all(map(isfinite, vector)) or not any(vector):
        told = "not finite" if any(vector) else "empty or all zeros"
        raise Refused(Reason.FAILED, f"the vector of {len(vector)} numbers is {told}")
    # Servers tell of no completion here, and there is none.
    usage = Usage(read_usage(body.get("usage")).prompt_tokens, 0)
    return Response(request.key, vectors=(vector,), usage=usage, served=read_served(body))


def read_object(content: bytes, server: Server, *, key: str) -> dict[str, Any]:
    """The JSON object of a reply whose list under `key` holds something."""
    body = read_json(content, server)
    if isinstance(body, dict) and isinstance(body.get(key), list) and body[key]:
        return body
    problem = body.get("error") if isinstance(body, dict) else None
    told = f": {server.told(json.dumps(problem))}" if problem else ""
    raise Transient(f"{server.address} sent no {key}{told}")


def read_json(content: bytes, server: Server) -> object:
    """Whatever JSON a reply holds; halves of emojis pass."""
    try:
        body: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Transient(f"{server.address} sent what is not JSON ({error})") from None
    return body


def _read_choices(body: Mapping[str, Any], count: int) -> list[_Choice]:
    """The first `count` choices, in the order of their indices."""
    try:
        choices = msgspec.convert(body["choices"], list[_Choice])
    except msgspec.ValidationError as error:
        raise Refused(Reason.FAILED, f"the reply is not a chat completion: {error}") from None
    if len(choices) < count:
        raise Refused(
            Reason.FAILED,
            f"{count} answers were asked for and {len(choices)} came: the server ignores n; set "
            "sends_n: false in the model's YAML",
        )
    return sorted(choices, key=lambda choice: choice.index or 0)[:count]


def read_usage(usage: object) -> Usage:
    """The tokens a reply accounts for; unknown where it does so in another form."""
    try:
        read = msgspec.convert(usage, _Usage)
    except msgspec.ValidationError:
        return Usage()
    reasoning = reasoning_in(read.completion_tokens_details)
    return Usage(read.prompt_tokens, read.completion_tokens, reasoning_tokens=reasoning)


def read_served(body: Mapping[str, Any]) -> str | None:
    """The model the server says it used."""
    served = body.get("model")
    return served if isinstance(served, str) else None
