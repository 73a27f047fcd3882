"""Requests to bodies of OpenAI-compatible calls, and bodies of replies to Responses.

Chat completions and embeddings. Pure: what cannot be read raises RetryableError where another
attempt may help, else PermanentError.
"""

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
    read_as,
    read_object,
    read_served,
    reasoning_in,
    truncated,
)
from harness.models.client.retry import PermanentError, attach_usage
from harness.parts import Reason, Usage
from harness.specs.models import OpenAISpec
from harness.text.cleanup import repair_surrogates

ENDED = frozenset(
    {
        *("stop", "eos", "eos_token", "stop_sequence", "end_turn", "complete", "normal"),
        *("tool_calls", "tool_use", "function_call", "repetition"),
    }
)
"""Servers' words, in small letters, for a reply that the model or its settings ended."""
CUT = frozenset({"length", "max_tokens", "model_length", "model_context_window_exceeded"})
FILTERED = frozenset({"content_filter", "safety", "sensitive"})
IGNORES_N = "the server ignores n; set sends_n: false in the model's YAML"


class TooFewRepliesError(Exception):
    """Fewer replies came than were asked for; `response` is the failure, with its usage."""

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


def chat_arguments(request: Request, model: str, spec: OpenAISpec) -> dict[str, Any]:
    """A request for texts as arguments of the client library."""
    decoding = request.decoding
    arguments: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        spec.token_field: decoding.max_tokens + spec.reasoning_max_tokens,
    }
    if spec.reasoning_effort is not None:
        arguments["reasoning_effort"] = spec.reasoning_effort
    if spec.sends_temperature:
        arguments["temperature"] = decoding.temperature
    if decoding.n > 1:
        arguments["n"] = decoding.n
    if decoding.seed is not None and spec.sends_seed:
        arguments["seed"] = decoding.seed
    if request.schema is not None and spec.is_structured_output:
        form = {"name": "reply", "strict": True, "schema": dict(request.schema)}
        arguments["response_format"] = {"type": "json_schema", "json_schema": form}
    if spec.extra_body:
        arguments["extra_body"] = spec.extra_body
    return arguments


def embedding_arguments(request: Request, model: str, spec: OpenAISpec) -> dict[str, Any]:
    """A request for a vector as arguments of the client library."""
    return {
        "model": model,
        "input": "\n".join(message.content for message in request.messages),
        "encoding_format": "float",
        "extra_body": spec.extra_body or None,
    }


def read_reply(content: bytes, request: Request, server: Endpoint) -> Response:
    """The response in the body of a chat completion, or why there is none."""
    body = read_object(content, server, key="choices", usage_of=read_usage)
    usage, served = read_usage(body.get("usage")), read_served(body)
    with attach_usage(usage):
        choices = read_as(list[_Choice], body["choices"], what="a chat completion")
    count = request.decoding.n
    if len(choices) < count:
        fact = f"{count} answers were asked for and {len(choices)} came: {IGNORES_N}"
        response = no_answer(request, Reason.FAILED, fact, usage=usage, served=served)
        raise TooFewRepliesError(response)
    choices.sort(key=lambda choice: choice.index or 0)
    paid = Response(request.key, ("",), usage=usage, served=served)
    replies = [_read_choice(choice, request, server, paid=paid) for choice in choices[:count]]
    return replace(merge(request, replies), usage=usage)


def _read_choice(
    choice: _Choice, request: Request, server: Endpoint, *, paid: Response
) -> Response:
    """One reply; `paid` has what all replies of a call share: usage and snapshot."""
    stop = (choice.finish_reason or "stop").lower()
    text = repair_surrogates(choice.message.content or "")
    failure = partial(no_answer, request, usage=paid.usage, served=paid.served)
    if stop in FILTERED:
        return failure(Reason.FILTERED, "the answer was held back by a content filter")
    if choice.message.refusal:
        return failure(Reason.REFUSED, server.quote(choice.message.refusal))
    if stop not in ENDED | CUT:
        fact = f"the answer did not come to its end (finish_reason {choice.finish_reason})"
        return failure(Reason.FAILED, server.quote(fact))
    if stop in CUT and not text:
        return truncated(request, usage=paid.usage, served=paid.served)
    return replace(paid, texts=(text,), stop="length" if stop in CUT else choice.finish_reason)


def read_vector(content: bytes, request: Request, server: Endpoint) -> Response:
    """The response in the body of an embedding: one vector that is not all zeros."""
    body = read_object(content, server, key="data", usage_of=read_usage)
    # Servers report no completion tokens here, and there are none.
    usage = Usage(read_usage(body.get("usage")).prompt_tokens, 0)
    with attach_usage(usage):
        vector = _read_numbers(body)
    return Response(request.key, vectors=(vector,), usage=usage, served=read_served(body))


def _read_numbers(body: Mapping[str, Any]) -> tuple[float, ...]:
    """The first vector of a reply."""
    vector = read_as(_Embedding, body["data"][0], what="an embedding").embedding
    if not all(map(isfinite, vector)) or not any(vector):
        fault = "not finite" if any(vector) else "empty or all zeros"
        raise PermanentError(Reason.FAILED, f"the vector of {len(vector)} numbers is {fault}")
    return vector


def read_usage(usage: object) -> Usage:
    """The token counts of a reply; None where it reports them in another form."""
    try:
        read = msgspec.convert(usage, _Usage)
    except msgspec.ValidationError:
        return Usage()
    reasoning = reasoning_in(read.completion_tokens_details)
    return Usage(read.prompt_tokens, read.completion_tokens, reasoning_tokens=reasoning)
