"""Replies of hosted models, whoever sends them: several as one, and those without an answer.

A reply that was paid for and holds no answer is a response that tells what was paid. Nothing here
knows a provider's form, asks again or stores.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace

from harness.core import Request, Response
from harness.models.client.retry import PartialReply, PermanentError
from harness.parts import NO_REPLY, Failure, Reason, Usage, total_usage

Ask = Callable[[Request], Awaitable[Response]]
RepliesByKey = MutableMapping[str, list[Response]]


async def collect_n(request: Request, heard: RepliesByKey, ask: Ask) -> Response | PartialReply:
    """The next of the replies to a request, by one call; the response once they are all `heard`.

    One that never came ends it; what was paid for those before it is told all the same.
    """
    if request.decoding.n == 1:
        return await ask(request)
    replies = heard.setdefault(request.key, [])
    try:
        reply = await ask(nth_request(request, len(replies)))
    except PermanentError as error:
        why = Failure(error.reason, str(error))
        reply = Response(request.key, failure=why, usage=error.usage)
    replies.append(reply)
    if len(replies) < request.decoding.n and not _never_came(reply):
        return PartialReply(total_usage([reply.usage for reply in replies]))
    return merge(request, heard.pop(request.key))


def nth_request(request: Request, place: int) -> Request:
    """A request for one of the replies that a request is for; each has a seed of its own."""
    decoding = request.decoding
    seed = None if decoding.seed is None else decoding.seed + place
    return replace(request, decoding=replace(decoding, n=1, seed=seed))


def merge(request: Request, replies: Sequence[Response]) -> Response:
    """The replies to one request as one response, whose tokens are all of theirs.

    Those that hold no answer are told as lost. It is a failure where there is no other, and where
    one never came: all are asked for again then. It is cut where one of them is.
    """
    answers = [reply for reply in replies if not reply.failure]
    without = [reply for reply in replies if reply.failure]
    failed = [*filter(_never_came, without), *([] if answers else without)]
    stops = [reply.stop for reply in answers]
    whole = Response(
        key=request.key,
        texts=None if failed else tuple(text for reply in answers for text in reply.texts or ()),
        failure=failed[0].failure if failed else None,
        lost=() if failed else tuple(part.failure.reason for part in without if part.failure),
        served=next((reply.served for reply in replies if reply.served), None),
        usage=total_usage([reply.usage for reply in replies]),
    )
    if failed:
        return whole
    return replace(whole, stop="length" if "length" in stops else stops[0])


def _never_came(reply: Response) -> bool:
    """Whether there is no reply at all, so that one may yet be had."""
    return reply.failure is not None and reply.failure.reason in NO_REPLY


def no_answer(
    request: Request, reason: Reason, message: str, *, usage: Usage, served: str | None
) -> Response:
    """A reply that holds no answer; its tokens are charged all the same."""
    return Response(request.key, failure=Failure(reason, message), usage=usage, served=served)


def truncated(request: Request, *, usage: Usage, served: str | None) -> Response:
    """A reply that was cut before the first word of an answer."""
    spent = usage.completion_tokens
    told = "" if spent is None else f" after {spent} tokens"
    if usage.reasoning_tokens:
        told += f", {usage.reasoning_tokens} of them of reasoning"
    message = (
        f"cut before the first word of an answer{told}: give it more room (max_tokens of the "
        "decoding, or reasoning_max_tokens in the model's YAML), or have it reason less"
    )
    return no_answer(request, Reason.TRUNCATED, message, usage=usage, served=served)


def reasoning_in(details: object, name: str = "reasoning_tokens") -> int | None:
    """The tokens of reasoning that the details of an account of tokens tell."""
    told = details.get(name) if isinstance(details, Mapping) else None
    return told if isinstance(told, int) else None


def repair_surrogates(text: str) -> str:
    """A text that can be stored: an emoji cut in half becomes the replacement character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
