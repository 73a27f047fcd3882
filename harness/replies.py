"""Replies of hosted models, whoever sends them: several as one, and those without an answer.

A reply that was paid for and holds no answer is a response that tells what was paid. Nothing here
knows a provider's form, retries or stores.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace

from harness.core import Request, Response
from harness.parts import Failure, Reason, Usage

Heard = MutableMapping[str, list[Response]]


async def several(
    request: Request, heard: Heard, ask: Callable[[Request], Awaitable[Response]]
) -> Response:
    """The replies to a request, one call after the other; those `heard` before are not asked again.

    The first that holds no answer ends it: the request has all of its replies, or none.
    """
    if request.decoding.n == 1:
        return await ask(request)
    replies = heard.setdefault(request.key, [])
    while len(replies) < request.decoding.n and not (replies and replies[-1].failure):
        replies.append(await ask(one_of(request, len(replies))))
    return joined(request, heard.pop(request.key))


def one_of(request: Request, place: int) -> Request:
    """A request for one of the replies that a request is for; each has a seed of its own."""
    decoding = request.decoding
    seed = None if decoding.seed is None else decoding.seed + place
    return replace(request, decoding=replace(decoding, n=1, seed=seed))


def joined(request: Request, replies: Sequence[Response]) -> Response:
    """The replies to one request as one response.

    It is cut where one of them is, and a failure where one of them is; all tokens count.
    """
    first = replies[0]
    failure = next((reply.failure for reply in replies if reply.failure), None)
    texts = tuple(text for reply in replies for text in reply.texts or ())
    return Response(
        key=request.key,
        texts=None if failure else texts,
        failure=failure,
        stop="length" if "length" in [reply.stop for reply in replies] else first.stop,
        usage=Usage(
            _sum([reply.usage.prompt_tokens for reply in replies]),
            _sum([reply.usage.completion_tokens for reply in replies]),
            reasoning_tokens=_sum([reply.usage.reasoning_tokens for reply in replies]),
        ),
        served=first.served,
    )


def withheld(
    request: Request, reason: Reason, message: str, *, usage: Usage, served: str | None
) -> Response:
    """A reply that holds no answer; its tokens are charged all the same."""
    return Response(request.key, failure=Failure(reason, message), usage=usage, served=served)


def cut_short(request: Request, *, usage: Usage, served: str | None) -> Response:
    """A reply that was cut before the first word of an answer."""
    spent = usage.completion_tokens
    told = "" if spent is None else f" after {spent} tokens"
    if usage.reasoning_tokens:
        told += f", {usage.reasoning_tokens} of them of reasoning"
    message = (
        f"cut before the first word of an answer{told}: give it more room (max_tokens of the "
        "decoding, or reasoning_max_tokens in the model's YAML), or have it reason less"
    )
    return withheld(request, Reason.TRUNCATED, message, usage=usage, served=served)


def reasoning_in(details: object, name: str = "reasoning_tokens") -> int | None:
    """The tokens of reasoning that the details of an account of tokens tell."""
    told = details.get(name) if isinstance(details, Mapping) else None
    return told if isinstance(told, int) else None


def sound(text: str) -> str:
    """A text that can be stored: an emoji cut in half becomes the replacement character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _sum(counts: Sequence[int | None]) -> int | None:
    """The sum of some counts; null where one is missing."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
