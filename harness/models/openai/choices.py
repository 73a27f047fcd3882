"""Choices to their log-probabilities, from OpenAI-compatible servers: exact, or of likely tokens.

Exact: the server returns the log-probability of each token of context and choice. Of likely tokens:
a chat server returns the likeliest first tokens of its reply. Where a number would be a guess,
there is none, but a PermanentError.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, fsum, inf, log
from typing import Any

from msgspec import Struct

from harness.core import Request, Response
from harness.models.boundary import choice_starts
from harness.models.client import replies
from harness.models.client.endpoint import Endpoint
from harness.models.client.hosted import HostedModel
from harness.models.client.http import Connection
from harness.models.client.retry import PermanentError, attach_usage
from harness.models.openai.bodies import body_of
from harness.parts import NO_CHOICE, UNCHARGED, ChoiceScore, Decoding, Mode, Reason
from harness.specs.models import OpenAISpec

MOST_TOKENS = 20  # next tokens that a server is asked for: the most that OpenAI and vLLM return
NO_ECHO = (
    "the reply holds no log-probabilities of the prompt; serve the model with vLLM, whose "
    "completions echo them, or run it here with kind: vllm or transformers, or set `choices: "
    "top_logprobs` or `choices: none`"
)
NO_NEXT = (
    "the reply holds no log-probabilities of next tokens; use a model whose chat completions "
    "return them, or serve an open model with vLLM and set `choices: echo`, or set `choices: none`"
)
SLACK = 1e-3  # how far above 0 rounding may lift a log-probability
# What share of the choices' probability a token that begins one may have, to be left out.
SPILL = 0.01
Spans = list[tuple[int, int]]


class Logprobs(Struct):
    """Texts and log-probabilities of a prompt's tokens, and of a token generated after it."""

    tokens: list[str] = []
    token_logprobs: list[float | None] = []


class NextToken(Struct, frozen=True):
    """A token that may come next."""

    token: str
    logprob: float


class _Completion(Struct):
    logprobs: Logprobs | None = None
    index: int | None = None


class _Chat(Struct):
    message: dict[str, Any]
    logprobs: dict[str, Any] | None = None
    finish_reason: str | None = None


async def score_choices(
    connection: Connection, request: Request, hosted: HostedModel[OpenAISpec]
) -> Response:
    """Make one attempt at one request, which asks for the log-probabilities of its choices."""
    is_exact, server, spec = request.mode is Mode.CHOOSE, hosted.server, hosted.spec
    refuse(request.choices, is_exact=is_exact)
    sent: dict[str, Any] = {"model": hosted.model}
    if is_exact:
        context = "\n".join(message.content for message in request.messages)
        prompts = [context + choice for choice in request.choices]
        sent |= {"prompt": prompts, "max_tokens": 1, "temperature": 0.0}
        sent |= {"echo": True, "logprobs": 1}
    else:
        token = replace(request, mode=Mode.GENERATE, choices=(), decoding=Decoding(max_tokens=1))
        sent |= body_of(token, hosted.model, spec)
        sent |= {spec.token_field: 1, "logprobs": True, "top_logprobs": MOST_TOKENS}
    path = "/completions" if is_exact else "/chat/completions"
    body = replies.read_body(await connection.request("POST", path, sent | spec.extra_body), server)
    usage = replies.read_usage(body)
    with attach_usage(usage):
        if is_exact:
            found = read_logprobs(body, len(prompts), server)
            scores = echo_scores(request.choices, prompts, found)
        else:
            scores = token_scores(request.choices, read_next_tokens(body, server))
    return Response(
        request.key, choice_scores=scores, usage=usage, served=replies.read_served(body)
    )


def refuse(choices: Sequence[str], *, is_exact: bool) -> None:
    """Raise PermanentError for choices with nothing to score, or that cannot be one token each."""
    fact = None
    if not all(choice.strip() for choice in choices):
        fact = f"a choice without a word cannot be scored: {choices!r}"
    elif not is_exact and (long := [choice for choice in choices if len(choice.split()) > 1]):
        fact = (
            f"{long[0]!r} is more than one token, and the likeliest next tokens are single "
            "ones; ask for the number of a choice, or use a model of kind vllm or transformers "
            "or a server with `choices: echo`"
        )
    if fact:
        raise PermanentError(Reason.UNSUPPORTED, fact, usage=UNCHARGED)


def spans_in(tokens: Sequence[str], prompt: str) -> Spans | None:
    """First character of each token and the one after its last; None where they spell another text.

    An empty token ends inside a character: its span is that of the next token. Only where tokens
    spell no prompt so, they are read as SentencePiece's, which drops the space that opens a token.
    Markers before the prompt are at (0, 0).
    """
    return _spans(tokens, prompt, has_spaces=True) or _spans(tokens, prompt, has_spaces=False)


def _spans(tokens: Sequence[str], prompt: str, *, has_spaces: bool) -> Spans | None:
    spans: Spans = []
    end = len(prompt)
    for token in reversed(tokens):
        is_space = not has_spaces and prompt.endswith(f"{token} ", 0, end)
        if token and is_space and not prompt.endswith(token, 0, end):
            end -= 1
        text = token or (" " if is_space else "")
        is_first = token.removeprefix(" ") == prompt[:end]
        if end and not is_first and not (prompt.endswith(text, 0, end) and (text or spans)):
            return None
        start = max(end - len(text), 0)
        spans.append((start, end) if text or not end else spans[-1])
        end = start
    return None if end else spans[::-1]


def read_logprobs(body: Mapping[str, Any], count: int, server: Endpoint) -> list[Logprobs]:
    """The log-probabilities of `count` prompts in a reply, in their order."""
    completions = replies.read_list(body, "choices", _Completion, server)
    completions.sort(key=lambda completion: completion.index or 0)
    found = [c.logprobs for c in completions if c.logprobs and len(c.logprobs.token_logprobs) > 1]
    fact = None
    if len(completions) != count:
        fact = f"{count} prompts were sent in one call and {len(completions)} came back"
    elif len(found) < count:
        fact = NO_ECHO
    elif odd := [one for one in found if len(one.tokens) != len(one.token_logprobs)]:
        counts = f"{len(odd[0].token_logprobs)} log-probabilities for {len(odd[0].tokens)}"
        fact = f"the reply holds {counts} tokens"
    if fact:
        raise PermanentError(Reason.FAILED, fact)
    return found


def echo_scores(
    choices: Sequence[str], prompts: Sequence[str], found: Sequence[Logprobs]
) -> tuple[ChoiceScore, ...]:
    """The scores of choices after a context, by the tokens of context and choice together."""
    tokens, spans = list[list[str]](), list[Spans]()
    for prompt, logprobs in zip(prompts, found, strict=True):
        # Most servers add a token that was generated after the prompt.
        ends = (len(logprobs.tokens) - 1, len(logprobs.tokens))
        spelled = [
            (part, at) for e in ends if (at := spans_in(part := logprobs.tokens[:e], prompt))
        ]
        if not spelled:
            raise PermanentError(
                Reason.UNSUPPORTED,
                f"the {len(logprobs.tokens)} token texts of the reply do not spell the prompt, so "
                "that it is not known which are a choice's; run the model here with kind: vllm or "
                "transformers",
            )
        tokens.append(spelled[0][0])
        spans.append(spelled[0][1])
    boundary = len(prompts[0]) - len(choices[0])
    firsts, spanned = choice_starts(spans, boundary, tokens=tokens)
    if min(firsts) < 1:
        raise PermanentError(
            Reason.UNSUPPORTED,
            "there is nothing before the choices to score them by; give the prompt a text",
        )
    rows = [
        logprobs.token_logprobs[first : len(part)]
        for logprobs, part, first in zip(found, tokens, firsts, strict=True)
    ]
    return tuple(
        ChoiceScore(_sum(row), len(row), len(choice.encode()), spanned)
        for choice, row in zip(choices, rows, strict=True)
    )


def _sum(logprobs: Sequence[float | None]) -> float:
    if bad := [value for value in logprobs if value is None or not -inf < value <= SLACK]:
        fact = f"a token of a choice has {bad[0]} for its log-probability"
        raise PermanentError(Reason.FAILED, f"{fact}: it must be a finite number up to 0")
    return fsum(value for value in logprobs if value is not None)


def read_next_tokens(body: Mapping[str, Any], server: Endpoint) -> list[NextToken]:
    """The likeliest first tokens of a chat reply."""
    chat = replies.read_list(body, "choices", _Chat, server)[0]
    if chat.finish_reason == "content_filter":
        raise PermanentError(Reason.FILTERED, "the answer was held back by a content filter")
    if refusal := chat.message.get("refusal"):
        raise PermanentError(Reason.REFUSED, server.quote(str(refusal)))
    content = (chat.logprobs or {}).get("content") or []
    positions = replies.read_as(list[dict[str, Any]], content, what="a chat completion")
    given = positions[0].get("top_logprobs") if positions else None
    found = replies.read_as(list[NextToken], given or [], what="a chat completion")
    if not found:
        raise PermanentError(Reason.FAILED, NO_NEXT)
    return list(dict.fromkeys(found))


def token_scores(
    choices: Sequence[str], next_tokens: Sequence[NextToken]
) -> tuple[ChoiceScore, ...]:
    """The scores of choices of one token, with or without a space before it.

    A choice that is not among the tokens gets the log-probability of the least likely of them,
    which its own cannot exceed. Of a token that only begins a choice a bound alone is known.
    """
    least = _sum([min(each.logprob for each in next_tokens)])
    words = [choice.strip() for choice in choices]
    rows = [[n.logprob for n in next_tokens if n.token in (word, f" {word}")] for word in words]
    begun = [_beginnings(word, next_tokens) for word in words]
    known = fsum(exp(value) for row in rows for value in row)
    is_begun = [fsum(exp(each.logprob) for each in part) > SPILL * known for part in begun]
    if all(is_begun) or not any(rows):
        first = ", ".join(repr(each.token) for each in next_tokens[:5])
        raise PermanentError(
            Reason.UNPARSED,
            f"{NO_CHOICE} among the {len(next_tokens)} likeliest first tokens: {first}, "
            "...; use `--answers written`, a model of kind vllm or transformers, or a server with "
            "`choices: echo`",
        )
    sums = [
        _total([*row, *(each.logprob for each in part)]) if more else _total(row) if row else least
        for row, part, more in zip(rows, begun, is_begun, strict=True)
    ]
    return tuple(
        ChoiceScore(total, 1, len(choice.encode()), is_bound=more or not row)
        for choice, total, row, more in zip(choices, sums, rows, is_begun, strict=True)
    )


def _beginnings(word: str, next_tokens: Sequence[NextToken]) -> list[NextToken]:
    """Listed tokens that may go on to a spelling of a word which is not listed as one token."""
    listed = {each.token for each in next_tokens}
    spellings = [text for text in (word, f" {word}") if text not in listed]
    return [
        each
        for each in next_tokens
        if each.token and any(text.startswith(each.token) for text in spellings)
    ]


def _total(logprobs: Sequence[float]) -> float:
    _sum(logprobs)
    most = max(logprobs)
    return most + log(fsum(exp(value - most) for value in logprobs))
