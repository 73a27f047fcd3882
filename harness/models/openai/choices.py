"""Choices to their log-probabilities, from OpenAI-compatible servers: exact, or of likely tokens.

Exact: the server gets context and choice as one prompt and returns the log-probability of each
token; the texts of the tokens say which of them belong to the choice. Of likely tokens: a chat
server returns the likeliest first tokens of its reply. Where a number would be a guess, there is
none, but a PermanentError: FAILED where the server left out or mangled what it was asked for,
UNPARSED where its tokens hold no choice, UNSUPPORTED where there can be no number.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, fsum, inf, log
from typing import Any
from weakref import proxy

from msgspec import Struct

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.boundary import choice_starts
from harness.models.client.endpoint import Endpoint
from harness.models.client.hosted import HostedModel
from harness.models.client.http import Connection, HttpError
from harness.models.client.replies import (
    read_as,
    read_body,
    read_list,
    read_served,
    read_usage,
)
from harness.models.client.retry import PermanentError, attach_usage
from harness.parts import UNCHARGED, ChoiceScore, Decoding, Message, Mode, Reason
from harness.specs.models import OpenAISpec

MOST_TOKENS = 20
"""Next tokens that a server is asked for: the most that OpenAI and vLLM return."""
UNABLE = frozenset({400, 404, 405, 415, 422, 501})
"""HTTP statuses of servers that cannot do what they were asked for."""
REMEDIES = {
    Mode.CHOOSE: (
        "serve the model with vLLM, whose completions echo a prompt's log-probabilities, or run it "
        "here with kind: vllm or transformers, or set `choices: top_logprobs` or `choices: none`"
    ),
    Mode.CHOOSE_TOKEN: (
        "use a model whose chat completions return log-probabilities, or serve an open model "
        "with vLLM and set `choices: echo`, or set `choices: none`"
    ),
}
SLACK = 1e-3
"""How far above 0 rounding may lift a log-probability."""
PROBE = Request(
    *("probe", "base", "answer", ""),
    messages=(Message("user", "One, two,"),),
    decoding=Decoding(max_tokens=1),
    choices=(" three", " four"),
)
"""A request as small as can be."""
SPILL = 0.01
"""What share of the choices' probability a token that begins one may have, to be left out."""
Spans = list[tuple[int, int]]
_AS_THEY_ARE = (*range(33, 127), *range(161, 173), *range(174, 256))
_OTHERS = (byte for byte in range(256) if byte not in _AS_THEY_ARE)
BYTES = {chr(byte): byte for byte in _AS_THEY_ARE}
BYTES |= {chr(256 + index): byte for index, byte in enumerate(_OTHERS)}
"""The byte of each letter of a byte-level vocabulary, as GPT-2 has it."""


class Logprobs(Struct):
    """Texts and log-probabilities of a prompt's tokens, and of a token generated after it."""

    tokens: list[str]
    token_logprobs: list[float | None]


class NextToken(Struct, frozen=True):
    """A token that may come next."""

    token: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Echo:
    """The tokens of a prompt, with their log-probabilities and their spans of characters."""

    tokens: Sequence[bytes]
    logprobs: Sequence[float | None]
    spans: Spans


class _Completion(Struct):
    logprobs: Logprobs | None = None
    index: int | None = None


class _Position(Struct):
    top_logprobs: list[NextToken]


class _Chat(Struct):
    message: dict[str, Any]
    logprobs: dict[str, Any] | None = None
    finish_reason: str | None = None


class ChoiceAsker:
    """Scores choices on one server, after a tiny call that shows whether the server can."""

    def __init__(self, model: HostedModel[OpenAISpec]) -> None:
        """Ask the server of a model; nothing is called yet."""
        # The model holds this one, and is freed with its last run.
        self._hosted: HostedModel[OpenAISpec] = proxy(model)
        self._unable = dict[Mode, str]()  # by the modes that were tried: why not; empty if able

    async def answer(
        self, connection: Connection, request: Request, lock: asyncio.Lock
    ) -> Response:
        """Make one attempt at one request; ModelError if the server cannot score choices.

        Under `lock` the first attempt is preceded by a call that shows it.
        """
        async with lock:
            if request.mode not in self._unable:
                self._unable[request.mode] = await self._why_unable(connection, request.mode)
        if why := self._unable[request.mode]:
            raise ModelError(why)
        return await self._scored(connection, request)

    async def _why_unable(self, connection: Connection, mode: Mode) -> str:
        server = self._hosted.server
        try:
            await self._scored(connection, replace(PROBE, mode=mode))
            return ""
        except PermanentError as error:
            if error.reason not in (Reason.FAILED, Reason.UNSUPPORTED):
                return ""
            fact = str(error)
        except HttpError as error:
            if error.status not in UNABLE:
                raise
            fact = f"it answered {error.status}: {server.quote(error.text)}"
        return (
            f"{server.address} cannot score choices with model {self._hosted.model!r}: {fact}; "
            f"{REMEDIES[mode]}"
        )

    async def _scored(self, connection: Connection, request: Request) -> Response:
        is_exact = request.mode is Mode.CHOOSE
        refuse(request.choices, is_exact=is_exact)
        path, sent = (
            ("/completions", self._echo_body(request))
            if is_exact
            else (
                "/chat/completions",
                self._chat_body(request),
            )
        )
        server, content = self._hosted.server, await connection.request("POST", path, sent)
        body = read_body(content, server)
        usage = read_usage(body)
        with attach_usage(usage):
            if is_exact:
                scores = await self._echo_scores(connection, request, body, sent["prompt"])
            else:
                scores = token_scores(request.choices, read_next_tokens(body, server))
        return Response(request.key, choice_scores=scores, usage=usage, served=read_served(body))

    def _echo_body(self, request: Request) -> dict[str, Any]:
        context = "\n".join(message.content for message in request.messages)
        return {
            "model": self._hosted.model,
            "prompt": [context + choice for choice in request.choices],
            "max_tokens": 1,
            "temperature": 0.0,
            "echo": True,
            "logprobs": 1,
            **self._hosted.spec.extra_body,
        }

    def _chat_body(self, request: Request) -> dict[str, Any]:
        spec = self._hosted.spec
        sent: dict[str, Any] = {
            "model": self._hosted.model,
            "messages": [{"role": m.role, "content": m.content} for m in request.messages],
            spec.token_field: 1,
            "logprobs": True,
            "top_logprobs": MOST_TOKENS,
        }
        sent |= {"temperature": 0.0} if spec.sends_temperature else {}
        sent |= {"reasoning_effort": spec.reasoning_effort} if spec.reasoning_effort else {}
        return sent | spec.extra_body

    async def _echo_scores(
        self,
        connection: Connection,
        request: Request,
        body: Mapping[str, Any],
        prompts: Sequence[str],
    ) -> tuple[ChoiceScore, ...]:
        found = read_logprobs(body, len(prompts), self._hosted.server)
        pairs = list(zip(prompts, found, strict=True))
        echoes = [echo for prompt, tokens in pairs if (echo := echo_of(prompt, tokens))]
        if len(echoes) < len(pairs):
            echoes = [await self._echo_by_tokenizer(connection, *pair) for pair in pairs]
        boundary = len(prompts[0]) - len(request.choices[0])
        return echo_scores(request.choices, echoes, boundary=boundary)

    async def _echo_by_tokenizer(
        self, connection: Connection, prompt: str, logprobs: Logprobs
    ) -> Echo:
        server = self._hosted.server
        body = {"model": self._hosted.model, "prompt": prompt, "return_token_strs": True}
        url = f"{server.url.rstrip('/').removesuffix('/v1')}/tokenize"
        pieces = list[str]()
        try:
            reply = read_body(await connection.request("POST", url, body), server)
            pieces = read_as(list[str], reply.get("token_strs") or [], what="a tokenization")
        except HttpError as error:
            if error.status not in UNABLE:
                raise
        for tokens in spellings(pieces) if pieces else ():
            if (spans := spans_in(tokens, prompt)) and are_alike(tokens, logprobs.tokens):
                return Echo(tokens, logprobs.token_logprobs, spans)
        why = "and neither do those of /tokenize" if pieces else "and it has no /tokenize"
        raise PermanentError(
            Reason.UNSUPPORTED,
            f"the {len(logprobs.tokens)} token texts of {server.address} do not spell the prompt, "
            f"{why}, so that it is not known which are a choice's; serve the model with vLLM, or "
            "run it here with kind: vllm or transformers",
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


def spellings(pieces: Sequence[str]) -> tuple[list[bytes], list[bytes]]:
    """Entries of a vocabulary as bytes, read in two ways.

    Byte-level, with one letter a byte, and SentencePiece, which writes a space as a low line and
    some bytes like <0x0A>. Any other piece is its text.
    """
    byte_level, sentence_piece = [], []
    for piece in pieces:
        is_letters = all(letter in BYTES for letter in piece)
        byte_level.append(bytes(map(BYTES.__getitem__, piece)) if is_letters else _utf8(piece))
        byte = re.fullmatch("<0x([0-9A-F]{2})>", piece)
        text = _utf8(piece.replace("\u2581", " "))
        sentence_piece.append(bytes([int(byte[1], 16)]) if byte else text)
    return byte_level, sentence_piece


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def spans_in(tokens: Sequence[bytes], prompt: str) -> Spans | None:
    """First character of each token and the one after its last; None where they spell another text.

    An empty token is one that ends inside a character: its span is that of the next token. Markers
    before the prompt are at (0, 0).
    """
    data = _utf8(prompt)
    owners = [at for at, letter in enumerate(prompt) for _ in _utf8(letter)]
    spans: Spans = []
    end = len(data)
    for token in reversed(tokens):
        start = _start(token, data, end)
        if start is None or not (token or spans):
            return None
        if start < end:
            spans.append((owners[start], owners[end - 1] + 1))
        else:
            spans.append((0, 0) if token else spans[-1])
        end = start
    return None if end else spans[::-1]


def _start(token: bytes, data: bytes, end: int) -> int | None:
    """Where a token begins that ends at `end`; None where it does not end there."""
    # A space that the tokenizer itself puts before a prompt is not in the prompt.
    if not end or data.endswith(token, 0, end):
        return max(end - len(token), 0)
    return 0 if token.removeprefix(b" ") == data[:end] else None


def are_alike(tokens: Sequence[bytes], texts: Sequence[str]) -> bool:
    """Whether the texts, as far as they are whole, are those of the tokens.

    There may be one text more: the token generated after the prompt.
    """
    return len(texts) - len(tokens) in (0, 1) and all(map(_is_alike, tokens, texts))


def _is_alike(token: bytes, text: str) -> bool:
    try:
        word = token.decode("utf-8").strip()
    except UnicodeDecodeError:
        return True
    return text.strip() in ("", word) or "\ufffd" in text


def read_logprobs(body: Mapping[str, Any], count: int, server: Endpoint) -> list[Logprobs]:
    """The log-probabilities of `count` prompts in a reply, in their order."""
    completions = read_list(body, "choices", _Completion, server)
    completions.sort(key=lambda completion: completion.index or 0)
    found = [c.logprobs for c in completions if c.logprobs and len(c.logprobs.token_logprobs) > 1]
    fact = None
    if len(completions) != count:
        fact = f"{count} prompts were sent in one call and {len(completions)} came back"
    elif len(found) < count:
        fact = "the reply holds no log-probabilities of the prompt"
    elif odd := [one for one in found if len(one.tokens) != len(one.token_logprobs)]:
        counts = f"{len(odd[0].token_logprobs)} log-probabilities for {len(odd[0].tokens)}"
        fact = f"the reply holds {counts} tokens"
    if fact:
        raise PermanentError(Reason.FAILED, fact)
    return found


def echo_of(prompt: str, logprobs: Logprobs) -> Echo | None:
    """The tokens of a prompt by their texts; None where these do not spell it.

    Most servers add a token that was generated after the prompt.
    """
    for count in (len(logprobs.tokens) - 1, len(logprobs.tokens)):
        tokens = [*map(_utf8, logprobs.tokens[:count])]
        if spans := spans_in(tokens, prompt):
            return Echo(tokens, logprobs.token_logprobs, spans)
    return None


def echo_scores(
    choices: Sequence[str], echoes: Sequence[Echo], *, boundary: int
) -> tuple[ChoiceScore, ...]:
    """The scores of choices after a context of `boundary` characters."""
    firsts, spanned = choice_starts(
        [echo.spans for echo in echoes], boundary, tokens=[echo.tokens for echo in echoes]
    )
    if min(firsts) < 1:
        raise PermanentError(
            Reason.UNSUPPORTED,
            "there is nothing before the choices to score them by; give the prompt a text",
        )
    rows = [
        echo.logprobs[first : len(echo.tokens)] for echo, first in zip(echoes, firsts, strict=True)
    ]
    return tuple(
        ChoiceScore(_sum(logprobs), len(logprobs), len(choice.encode()), spanned)
        for choice, logprobs in zip(choices, rows, strict=True)
    )


def _sum(logprobs: Sequence[float | None]) -> float:
    if bad := [value for value in logprobs if value is None or not -inf < value <= SLACK]:
        fact = f"a token of a choice has {bad[0]} for its log-probability"
        raise PermanentError(Reason.FAILED, f"{fact}: it must be a finite number up to 0")
    return fsum(value for value in logprobs if value is not None)


def read_next_tokens(body: Mapping[str, Any], server: Endpoint) -> list[NextToken]:
    """The likeliest first tokens of a chat reply."""
    chat = read_list(body, "choices", _Chat, server)[0]
    if chat.finish_reason == "content_filter":
        raise PermanentError(Reason.FILTERED, "the answer was held back by a content filter")
    if refusal := chat.message.get("refusal"):
        raise PermanentError(Reason.REFUSED, server.quote(str(refusal)))
    content = (chat.logprobs or {}).get("content") or []
    positions = read_as(list[_Position], content, what="a chat completion")
    if not positions or not positions[0].top_logprobs:
        raise PermanentError(Reason.FAILED, "the reply holds no log-probabilities of next tokens")
    return list(dict.fromkeys(positions[0].top_logprobs))


def token_scores(
    choices: Sequence[str], next_tokens: Sequence[NextToken]
) -> tuple[ChoiceScore, ...]:
    """The scores of choices of one token, with or without a space before it.

    A choice that is not among the tokens gets the log-probability of the least likely of them,
    which its own cannot exceed. A token that is only the beginning of a choice may go on to it or
    not, so that a bound alone is known; hardly likely ones are left out of account.
    """
    least = _sum([min(each.logprob for each in next_tokens)])
    words = [choice.strip() for choice in choices]
    rows = [[n.logprob for n in next_tokens if n.token in (word, f" {word}")] for word in words]
    begun = [_beginnings(word, next_tokens) for word in words]
    known = fsum(exp(value) for row in rows for value in row)
    is_begun = [fsum(exp(each.logprob) for each in part) > SPILL * known for part in begun]
    if all(is_begun):
        raise PermanentError(
            Reason.UNPARSED,
            f"each choice is more than one token for this model, which begins with "
            f"{begun[0][0].token!r}, and what follows is not listed; use `--answers written`, a "
            "model of kind vllm or transformers, or a server with `choices: echo`",
        )
    if not any(rows):
        first = ", ".join(repr(each.token) for each in next_tokens[:5])
        raise PermanentError(
            Reason.UNPARSED,
            f"none of the choices is among the {len(next_tokens)} likeliest first tokens: {first}, "
            "...",
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
