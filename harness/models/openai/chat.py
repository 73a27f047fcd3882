"""Bodies of OpenAI-compatible replies to Responses: texts, refusals, vectors, token counts.

Pure. What cannot be read is Transient where another attempt may mend it, else Refused.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any

import msgspec
from msgspec import Struct

from harness.core import Request, Response
from harness.models.client.endpoint import Endpoint
from harness.models.client.replies import (
    merge,
    no_answer,
    reasoning_in,
    repair_surrogates,
    truncated,
)
from harness.models.client.retry import PermanentError, RetryableError, attach_usage
from harness.parts import Reason, Usage

ENDED = frozenset(
    {
        *("stop", "eos", "eos_token", "stop_sequence", "end_turn", "complete", "normal"),
        *("tool_calls", "tool_use", "function_call", "repetition"),
    }
)
"""Words of servers, in small letters, for a reply that the model or its settings ended."""
CUT = frozenset({"length", "max_tokens", "model_length", "model_context_window_exceeded"})
FILTERED = frozenset({"content_filter", "safety", "sensitive"})
IGNORES_N = "the server ignores n; set sends_n: false in the model's YAML"


class TooFew(Exception):
    """Fewer replies came than were asked for; `response` is the failure, and tells its cost."""

    def __init__(self, response: Response) -> None:
        """Keep what is to be stored."""
        super().__init__(response.failure.message if response.failure else IGNORES_N)
        self.response = response


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


def read_reply(content: bytes, request: Request, server: Endpoint) -> Response:
    """The response in the body of a chat completion, or why there is none."""
    body = read_object(content, server, key="choices")
    usage, served = read_usage(body.get("usage")), read_served(body)
    with attach_usage(usage):
        choices, count = _read_choices(body), request.decoding.n
    if len(choices) < count:
        told = f"{count} answers were asked for and {len(choices)} came: {IGNORES_N}"
        raise TooFew(no_answer(request, Reason.FAILED, told, usage=usage, served=served))
    paid = Response(request.key, ("",), usage=usage, served=served)
    replies = [_read_choice(choice, request, server, paid=paid) for choice in choices[:count]]
    return replace(merge(request, replies), usage=usage)


def _read_choice(
    choice: _Choice, request: Request, server: Endpoint, *, paid: Response
) -> Response:
    """One reply; `paid` has what all replies of a call tell together."""
    word, text = (
        (choice.finish_reason or "stop").lower(),
        repair_surrogates(choice.message.content or ""),
    )
    without = partial(no_answer, request, usage=paid.usage, served=paid.served)
    if word in FILTERED:
        return without(Reason.FILTERED, "the answer was held back by a content filter")
    if choice.message.refusal:
        return without(Reason.REFUSED, server.told(choice.message.refusal))
    if word not in ENDED | CUT:
        told = f"the answer did not come to its end (finish_reason {choice.finish_reason})"
        return without(Reason.FAILED, server.told(told))
    if word in CUT and not text:
        return truncated(request, usage=paid.usage, served=paid.served)
    return replace(paid, texts=(text,), stop="length" if word in CUT else choice.finish_reason)


def read_vector(content: bytes, request: Request, server: Endpoint) -> Response:
    """The response in the body of an embedding: one vector that has a direction."""
    body = read_object(content, server, key="data")
    # Servers tell of no completion here, and there is none.
    usage = Usage(read_usage(body.get("usage")).prompt_tokens, 0)
    with attach_usage(usage):
        vector = _read_numbers(body)
    return Response(request.key, vectors=(vector,), usage=usage, served=read_served(body))


def _read_numbers(body: Mapping[str, Any]) -> tuple[float, ...]:
    """The first vector of a reply."""
    try:
        vector = msgspec.convert(body["data"][0], _Embedding).embedding
    except msgspec.ValidationError as error:
        raise PermanentError(Reason.FAILED, f"the reply is not an embedding: {error}") from None
    if not all(map(isfinite, vector)) or not any(vector):
        told = "not finite" if any(vector) else "empty or all zeros"
        raise PermanentError(Reason.FAILED, f"the vector of {len(vector)} numbers is {told}")
    return vector


def read_object(content: bytes, server: Endpoint, *, key: str) -> dict[str, Any]:
    """The JSON object of a reply whose list under `key` holds something."""
    body = read_json(content, server)
    if not isinstance(body, dict):
        raise RetryableError(f"{server.address} sent no {key}")
    if isinstance(body.get(key), list) and body[key]:
        return body
    told = f": {server.told(json.dumps(body['error']))}" if body.get("error") else ""
    usage = read_usage(body.get("usage"))
    raise RetryableError(f"{server.address} sent no {key}{told}", usage=usage)


def read_json(content: bytes, server: Endpoint) -> object:
    """Whatever JSON a reply holds, without our key; halves of emojis pass."""
    try:
        body: object = server.masked(json.loads(content))
    except (ValueError, RecursionError) as error:
        raise RetryableError(f"{server.address} sent what is not JSON ({error})") from None
    return body


def _read_choices(body: Mapping[str, Any]) -> list[_Choice]:
    """The choices, in the order of their indices."""
    try:
        choices = msgspec.convert(body["choices"], list[_Choice])
    except msgspec.ValidationError as error:
        raise PermanentError(
            Reason.FAILED, f"the reply is not a chat completion: {error}"
        ) from None
    return sorted(choices, key=lambda choice: choice.index or 0)


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
