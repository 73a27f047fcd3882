"""Bodies and replies of hosted models to Responses, whichever provider sends them.

A reply that was paid for and holds no answer becomes a failure with its usage. Nothing here knows
a provider's format, calls a server or stores.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard, TypeVar

import msgspec

from harness.core import Request, Response
from harness.models.client.endpoint import Endpoint
from harness.models.client.retry import PartialReply, PermanentError, RetryableError
from harness.parts import NO_REPLY, Failure, Reason, Usage, digest, total_usage
from harness.text.cleanup import repair_surrogates

Ask = Callable[[Request], Awaitable[Response]]
RepliesByKey = MutableMapping[str, list[Response]]
_T = TypeVar("_T")
SPARE_CHARACTERS, TOKEN_CHARACTERS = 10_000, 256
"""The longest text of a reply: so many characters, and so many a token (runs of spaces)."""
LONGEST_NAME = 200
"""In characters."""
MOST_TOKENS = 10**9
"""Of one call: no model reads or writes as many."""


async def collect_n(request: Request, replies: RepliesByKey, ask: Ask) -> Response | PartialReply:
    """Make one call for the next of a request's replies; the response once all are there.

    `replies` keeps those that came before, by key. One that never came ends the request; its
    failure includes the usage of the replies before it.
    """
    if request.decoding.n == 1:
        return await ask(request)
    own = replies.setdefault(request.key, [])
    try:
        reply = await ask(nth_request(request, len(own)))
    except PermanentError as error:
        failure = Failure(error.reason, str(error))
        reply = Response(request.key, failure=failure, usage=error.usage)
    own.append(reply)
    if len(own) < request.decoding.n and not _never_came(reply):
        return PartialReply(total_usage([reply.usage for reply in own]))
    return merge(request, replies.pop(request.key))


def nth_request(request: Request, index: int) -> Request:
    """The request for one of several replies, counted from 0; each has its own seed."""
    decoding = request.decoding
    seed = None if decoding.seed is None else decoding.seed + index
    return replace(request, decoding=replace(decoding, n=1, seed=seed))


def merge(request: Request, replies: Sequence[Response]) -> Response:
    """Merge the replies to one request into one response; its usage is their sum.

    Replies without an answer are listed in `lost`. The response is a failure where no reply has an
    answer, and where one never came: all replies are asked for again then. It counts as cut where
    one reply is.
    """
    answers = [reply for reply in replies if not reply.failure]
    failures = [reply for reply in replies if reply.failure]
    fatal = [*filter(_never_came, failures), *([] if answers else failures)]
    served = next((reply.served for reply in replies if reply.served), None)
    usage = total_usage([reply.usage for reply in replies])
    if fatal:
        return Response(request.key, failure=fatal[0].failure, served=served, usage=usage)
    stops = [reply.stop for reply in answers]
    return Response(
        key=request.key,
        texts=tuple(text for reply in answers for text in reply.texts or ()),
        lost=tuple(reply.failure.reason for reply in failures if reply.failure),
        served=served,
        usage=usage,
        stop="length" if "length" in stops else stops[0],
    )


def _never_came(reply: Response) -> bool:
    """Whether there is no reply at all, so that another call may bring one."""
    return reply.failure is not None and reply.failure.reason in NO_REPLY


def no_answer(
    request: Request, reason: Reason, message: str, *, usage: Usage, served: str | None
) -> Response:
    """The failure of a reply that holds no answer; its tokens are charged all the same."""
    return Response(request.key, failure=Failure(reason, message), usage=usage, served=served)


def endless(
    text: str, request: Request, server: Endpoint, *, usage: Usage, served: str | None
) -> Response | None:
    """The failure of a text of more characters than its tokens can have; None for another."""
    tokens = request.decoding.max_tokens + server.reasoning_max_tokens
    if len(text) <= SPARE_CHARACTERS + TOKEN_CHARACTERS * tokens:
        return None
    fact = f"the answer has {len(text)} characters, which no {tokens} tokens have: it is not kept"
    return no_answer(request, Reason.FAILED, fact, usage=usage, served=served)


def truncated(request: Request, *, usage: Usage, served: str | None) -> Response:
    """The failure of a reply that was cut before the first word of an answer."""
    tokens = usage.completion_tokens
    spent = "" if tokens is None else f" after {tokens} tokens"
    if usage.reasoning_tokens:
        spent += f", {usage.reasoning_tokens} of them of reasoning"
    message = (
        f"cut before the first word of an answer{spent}: give it more room (max_tokens of the "
        "decoding, or reasoning_max_tokens in the model's YAML), or have it reason less"
    )
    return no_answer(request, Reason.TRUNCATED, message, usage=usage, served=served)


def read_usage(
    usage: object,
    *prompt: str,
    completion: str = "completion_tokens",
    reasoning: str = "reasoning_tokens",
) -> Usage:
    """The token counts of a reply; None where it reports them in another form.

    Prompt tokens are the sum of the counts under the names in `prompt`, None without the first.
    A count below 0, or of more tokens than any call has, makes all of them None.
    """
    if not isinstance(usage, Mapping):
        return Usage()
    counts = [usage.get(name) for name in (completion, *prompt)]
    if not all(count is None or _is_count(count) for count in counts):
        return Usage()
    generated, first, *others = counts
    total = None if first is None else first + sum(count or 0 for count in others)
    details = usage.get(f"{completion}_details")
    thought = details.get(reasoning) if isinstance(details, Mapping) else None
    return Usage(total, generated, reasoning_tokens=thought if _is_count(thought) else None)


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= MOST_TOKENS


def read_json(content: bytes, server: Endpoint) -> object:
    """The JSON of a reply, with our key masked; halves of emojis pass. RetryableError if none."""
    try:
        body: object = server.mask(json.loads(content), content)
    except (ValueError, RecursionError) as error:
        raise RetryableError(f"{server.address} sent what is not JSON ({error})") from None
    return body


def read_object(
    content: bytes,
    server: Endpoint,
    *,
    key: str,
    usage_of: Callable[[object], Usage],
    may_be_empty: bool = False,
) -> dict[str, Any]:
    """The JSON object of a reply with a list under `key`; RetryableError without one."""
    body = read_json(content, server)
    if not isinstance(body, dict):
        raise RetryableError(f"{server.address} sent no {key}")
    if isinstance(body.get(key), list) and (may_be_empty or body[key]):
        return body
    raise RetryableError(
        f"{server.address} sent no {key}{error_in(body, server)}", usage=usage_of(body.get("usage"))
    )


def error_in(body: Mapping[str, Any], server: Endpoint) -> str:
    """The error in a reply's body, after a colon; empty where there is none."""
    return f": {server.quote(json.dumps(body['error']))}" if body.get("error") else ""


def read_served(body: Mapping[str, Any]) -> str | None:
    """The model that the server says it used, which is part of signatures."""
    served = body.get("model")
    return bounded(served) if isinstance(served, str) else None


def bounded(name: str) -> str:
    """A server's word for something, cut to LONGEST_NAME, so that it fits a cell of any table.

    It then ends in a digest: long names that differ stay different.
    """
    name = repair_surrogates(name)
    if len(name) <= LONGEST_NAME:
        return name
    mark = f"...{digest(name)[:12]}"
    return name[: LONGEST_NAME - len(mark)] + mark


def read_as(kind: type[_T], value: object, *, what: str) -> _T:
    """A part of a reply's JSON as a record; PermanentError where it is not `what` it should be."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise PermanentError(Reason.FAILED, f"the reply is not {what}: {error}") from None
