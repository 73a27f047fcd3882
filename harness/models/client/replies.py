"""Bodies and replies of hosted models to Responses, whichever provider sends them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard, TypeVar

import msgspec

from harness.core import Request, Response
from harness.models.client.endpoint import Endpoint
from harness.models.client.retry import PermanentError, RetryableError
from harness.parts import NO_WORD, Failure, Reason, Usage, digest
from harness.text.cleanup import repair_surrogates

_T = TypeVar("_T")
# The longest text of a reply: so many characters, and so many a token (runs of spaces).
SPARE_CHARACTERS, TOKEN_CHARACTERS = 10_000, 256
LONGEST_NAME = 200  # in characters
MOST_TOKENS = 10**9  # of one call: no model reads or writes as many


@dataclass(frozen=True, slots=True)
class Reply:
    """What a provider's reply says: its text, its usage and snapshot, and how it ended.

    `stop` is "length" where it was cut; `unended` is the word for another end than an answer's.
    """

    text: str
    usage: Usage
    served: str | None
    stop: str | None = None
    is_filtered: bool = False
    refusal: str | None = None
    unended: str | None = None


def response_of(reply: Reply, request: Request, server: Endpoint) -> Response:
    """The response in a reply, or the failure of one that holds no answer."""
    usage, served, text = reply.usage, reply.served, repair_surrogates(reply.text)
    most = request.decoding.max_tokens + server.reasoning_max_tokens
    if why := _why_missing(replace(reply, text=text), server, most_tokens=most):
        return no_answer(request, *why, usage=usage, served=served)
    return Response(request.key, (text,), stop=reply.stop, usage=usage, served=served)


def _why_missing(reply: Reply, server: Endpoint, *, most_tokens: int) -> tuple[Reason, str] | None:
    if reply.is_filtered:
        return Reason.FILTERED, "the answer was held back by a content filter"
    if reply.refusal is not None:
        return Reason.REFUSED, server.quote(reply.refusal)
    if len(reply.text) > SPARE_CHARACTERS + TOKEN_CHARACTERS * most_tokens:
        fact = f"the answer has {len(reply.text)} characters, which no {most_tokens} tokens have"
        return Reason.FAILED, f"{fact}: it is not kept"
    if reply.unended is not None:
        return Reason.FAILED, server.quote(f"the answer did not come to its end ({reply.unended})")
    if reply.stop != "length" or reply.text:
        return None
    spent = {"tokens": reply.usage.completion_tokens, "of reasoning": reply.usage.reasoning_tokens}
    after = ", ".join(f"{count} {what}" for what, count in spent.items() if count is not None)
    return Reason.TRUNCATED, (
        f"{NO_WORD}{' after ' * bool(after)}{after}: give it more room (max_tokens of the "
        "decoding, or reasoning_max_tokens in the model's YAML), or have it reason less"
    )


def no_answer(
    request: Request, reason: Reason, message: str, *, usage: Usage, served: str | None = None
) -> Response:
    """The failure of a reply that holds no answer, and was paid for all the same."""
    return Response(request.key, failure=Failure(reason, message), usage=usage, served=served)


def read_usage(
    body: Mapping[str, Any],
    *prompt: str,
    completion: str = "completion_tokens",
    reasoning: str = "reasoning_tokens",
) -> Usage:
    """The token counts of a reply; None where one is impossible, or in another form.

    Prompt tokens are the sum of the counts under the names in `prompt`, None without the first.
    """
    usage = body.get("usage")
    if not isinstance(usage, Mapping):
        return Usage()
    counts = [usage.get(name) for name in (completion, *(prompt or ("prompt_tokens",)))]
    if not all(count is None or _is_count(count) for count in counts):
        return Usage()
    generated, first, *others = counts
    total = None if first is None else first + sum(count or 0 for count in others)
    details = usage.get(f"{completion}_details")
    thought = details.get(reasoning) if isinstance(details, Mapping) else None
    return Usage(total, generated, reasoning_tokens=thought if _is_count(thought) else None)


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= MOST_TOKENS


def read_body(content: bytes, server: Endpoint) -> dict[str, Any]:
    """The JSON object of a reply, with our key masked; RetryableError if it is none."""
    try:
        body = server.read(content)
    except (ValueError, RecursionError) as error:
        raise RetryableError(f"{server.address} sent what is not JSON ({error})") from None
    if not isinstance(body, dict):
        raise RetryableError(f"{server.address} sent no JSON object")
    return body


def read_list(
    body: Mapping[str, Any], key: str, kind: type[_T], server: Endpoint, *, least: int = 1
) -> list[_T]:
    """The records under `key` of a reply; RetryableError where there is no list of them."""
    found = body.get(key)
    if isinstance(found, list) and len(found) >= least:
        return read_as(list[kind], found, what=f"well formed ({key})")  # type: ignore[valid-type]
    why = f": {server.quote(json.dumps(body['error']))}" if body.get("error") else ""
    raise RetryableError(f"{server.address} sent no {key}{why}")


def read_as(kind: type[_T], value: object, *, what: str) -> _T:
    """A part of a reply's JSON as a record; PermanentError where it is not `what` it should be."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise PermanentError(Reason.FAILED, f"the reply is not {what}: {error}") from None


def read_served(body: Mapping[str, Any]) -> str | None:
    """The model that the server says it used, which is part of signatures."""
    served = body.get("model")
    return bounded(served) if isinstance(served, str) else None


def bounded(name: str) -> str:
    """A server's word for something, cut to LONGEST_NAME with a digest of the whole at its end."""
    name = repair_surrogates(name)
    if len(name) <= LONGEST_NAME:
        return name
    mark = f"...{digest(name)[:12]}"
    return name[: LONGEST_NAME - len(mark)] + mark
