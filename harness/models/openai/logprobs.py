"""Bodies of OpenAI-compatible replies that tell log-probabilities, to scores of choices.

Pure. What cannot be read is Refused: FAILED where the server left out or mangled what it was asked
for, UNPARSED where its tokens hold no choice, UNSUPPORTED where there can be no number.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, log
from typing import Any

import msgspec
from msgspec import Struct

from harness.models.boundary import choice_starts
from harness.models.client.endpoint import Endpoint
from harness.models.client.retry import PermanentError
from harness.parts import UNCHARGED, ChoiceScore, Reason

Places = list[tuple[int, int]]
_AS_THEY_ARE = (*range(33, 127), *range(161, 173), *range(174, 256))
_OTHERS = (byte for byte in range(256) if byte not in _AS_THEY_ARE)
BYTES = {chr(byte): byte for byte in _AS_THEY_ARE}


BYTES |= {chr(256 + place): byte for place, byte in enumerate(_OTHERS)}
"""The byte that each letter of a byte-level vocabulary stands for, as GPT-2 has it."""


def written(texts: Sequence[str]) -> list[bytes]:
    """Tokens as a server writes them for people to read."""
    return [text.encode("utf-8", "surrogatepass") for text in texts]


def spellings(pieces: Sequence[str]) -> tuple[list[bytes], list[bytes]]:
    """Tokens as a vocabulary writes them, read letter by byte and as SentencePiece has it."""
    return [_by_letters(piece) for piece in pieces], [_by_pieces(piece) for piece in pieces]


def places(tokens: Sequence[bytes], prompt: str) -> Places | None:
    """First character of each token and the one after its last, null where they spell another text.

    An empty token is one that ends inside a character: it stands where the next does. Markers
    before the prompt are at (0, 0).
    """
    data = prompt.encode("utf-8", "surrogatepass")
    owners = [at for at, letter in enumerate(prompt) for _ in written([letter])[0]]
    found: Places = []
    end = len(data)
    for token in reversed(tokens):
        start = _start(token, data, end)
        if start is None or not (token or found):
            return None
        if start < end:
            found.append((owners[start], owners[end - 1] + 1))
        else:
            found.append((0, 0) if token else found[-1])
        end = start
    return None if end else found[::-1]


def are_alike(spelled: Sequence[bytes], texts: Sequence[str]) -> bool:
    """Whether the texts, as far as they are whole, are those of the tokens so spelled.

    There may be one text more: what was drawn behind the prompt.
    """
    return len(texts) - len(spelled) in (0, 1) and all(map(_is_alike, spelled, texts))


def _is_alike(token: bytes, text: str) -> bool:
    """Whether a text is that of a token, but for the spaces around it."""
    try:
        word = token.decode("utf-8").strip()
    except UnicodeDecodeError:
        return True
    return text.strip() in ("", word) or "\ufffd" in text


def _start(token: bytes, data: bytes, end: int) -> int | None:
    """Where a token begins that ends at `end`, null where it does not stand there.

    A tokenizer's own space before a prompt is not the prompt's.
    """
    if not end or data.endswith(token, 0, end):
        return max(end - len(token), 0)
    return 0 if token.removeprefix(b" ") == data[:end] else None


def _by_letters(piece: str) -> bytes:
    """The bytes of a token whose letters stand for one each; of another, its text."""
    if all(letter in BYTES for letter in piece):
        return bytes(BYTES[letter] for letter in piece)
    return piece.encode("utf-8", "surrogatepass")


def _by_pieces(piece: str) -> bytes:
    """The bytes of a token that has a space as a low line, or is a byte."""
    if byte := re.fullmatch("<0x([0-9A-F]{2})>", piece):
        return bytes([int(byte[1], 16)])
    return piece.replace("\u2581", " ").encode("utf-8", "surrogatepass")


SLACK = 1e-3
"""How far above 0 rounding may lift a log-probability."""


class Logprobs(Struct):
    """The texts of a prompt's tokens, and of what was drawn behind it, with their logarithms."""

    tokens: list[str]
    token_logprobs: list[float | None]


class Next(Struct, frozen=True):
    """A token that may come next."""

    token: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Echo:
    """The tokens of a prompt with their log-probabilities and the characters they stand for."""

    tokens: Sequence[bytes]
    logprobs: Sequence[float | None]
    places: Places


class _Completion(Struct):
    logprobs: Logprobs | None = None
    index: int | None = None


class _Position(Struct):
    top_logprobs: list[Next]


class _Positions(Struct):
    content: list[_Position] | None = None


class _Message(Struct):
    refusal: str | None = None


class _Chat(Struct):
    message: _Message
    logprobs: _Positions | None = None
    finish_reason: str | None = None


def read_echoes(body: Mapping[str, Any], count: int) -> list[Logprobs]:
    """What a reply tells of `count` prompts, in their order."""
    try:
        told = msgspec.convert(body["choices"], list[_Completion])
    except msgspec.ValidationError as error:
        raise PermanentError(Reason.FAILED, f"the reply is not a completion: {error}") from None
    if len(told) != count:
        fact = f"{count} prompts were sent in one call and {len(told)} came back"
        raise PermanentError(Reason.FAILED, fact)
    in_order = sorted(told, key=lambda completion: completion.index or 0)
    return [_whole(completion.logprobs) for completion in in_order]


def _whole(told: Logprobs | None) -> Logprobs:
    """Log-probabilities of which there is one a token."""
    if told is None or len(told.token_logprobs) < 2:
        raise PermanentError(Reason.FAILED, "the reply holds no log-probabilities of the prompt")
    if len(told.tokens) != len(told.token_logprobs):
        counts = f"{len(told.token_logprobs)} log-probabilities for {len(told.tokens)} tokens"
        raise PermanentError(Reason.FAILED, f"the reply holds {counts}")
    return told


def echo_of(prompt: str, told: Logprobs) -> Echo | None:
    """The tokens of a prompt by their texts, null where these do not spell it.

    Behind the prompt there is, from most servers, a token drawn.
    """
    for count in (len(told.tokens) - 1, len(told.tokens)):
        tokens = written(told.tokens[:count])
        if found := places(tokens, prompt):
            return Echo(tokens, told.token_logprobs, found)
    return None


def echo_scores(
    choices: Sequence[str], echoes: Sequence[Echo], *, boundary: int
) -> tuple[ChoiceScore, ...]:
    """The scores of choices behind a context of `boundary` characters."""
    firsts, spanned = choice_starts(
        [echo.places for echo in echoes], boundary, tokens=[echo.tokens for echo in echoes]
    )
    if min(firsts) < 1:
        raise PermanentError(
            Reason.UNSUPPORTED,
            "nothing stands before the choices to score them by; give the prompt a text",
        )
    parts = [
        echo.logprobs[first : len(echo.tokens)] for echo, first in zip(echoes, firsts, strict=True)
    ]
    return tuple(
        ChoiceScore(_sum(part), len(part), len(choice.encode()), spanned)
        for choice, part in zip(choices, parts, strict=True)
    )


def _sum(part: Sequence[float | None]) -> float:
    """The sum of log-probabilities that are there and can be such."""
    if bad := [value for value in part if value is None or not value <= SLACK]:
        fact = f"a token of a choice has {bad[0]} for its log-probability"
        raise PermanentError(Reason.FAILED, f"{fact}: it must be a number up to 0")
    return fsum(value for value in part if value is not None)


def read_nexts(body: Mapping[str, Any], server: Endpoint) -> list[Next]:
    """The likeliest first tokens of a chat reply."""
    try:
        [chat, *_] = msgspec.convert(body["choices"], list[_Chat])
    except msgspec.ValidationError as error:
        raise PermanentError(
            Reason.FAILED, f"the reply is not a chat completion: {error}"
        ) from None
    if chat.finish_reason == "content_filter":
        raise PermanentError(Reason.FILTERED, "the answer was held back by a content filter")
    if chat.message.refusal:
        raise PermanentError(Reason.REFUSED, server.told(chat.message.refusal))
    positions = chat.logprobs.content if chat.logprobs else None
    if not positions or not positions[0].top_logprobs:
        raise PermanentError(Reason.FAILED, "the reply holds no log-probabilities of next tokens")
    return list(dict.fromkeys(positions[0].top_logprobs))


def token_scores(choices: Sequence[str], told: Sequence[Next]) -> tuple[ChoiceScore, ...]:
    """The scores of choices of one token, with or without a space before it.

    One that is not among the tokens told gets the log-probability of the least likely of them,
    which its own cannot exceed.
    """
    least = _sum([min(each.logprob for each in told)])
    found = [_likely(choice.strip(), told) for choice in choices]
    if not any(found):
        names = ", ".join(repr(each.token) for each in told[:5])
        raise PermanentError(
            Reason.UNPARSED,
            f"none of the choices is among the {len(told)} likeliest first tokens: {names}, ...",
        )
    return tuple(
        ChoiceScore(_total(parts) if parts else least, 1, len(choice.encode()), is_bound=not parts)
        for choice, parts in zip(choices, found, strict=True)
    )


def _likely(word: str, told: Sequence[Next]) -> list[float]:
    """The log-probabilities of the tokens that spell a word."""
    return [each.logprob for each in told if each.token in (word, f" {word}")]


def _total(parts: Sequence[float]) -> float:
    """The logarithm of the sum of probabilities."""
    _sum(parts)
    most = max(parts)
    return most + log(fsum(exp(part - most) for part in parts))


def refuse_wordless(choices: Sequence[str]) -> None:
    """Refuse choices of which there is nothing to score."""
    if not all(choice.strip() for choice in choices):
        told = f"a choice without a word cannot be scored: {choices!r}"
        raise PermanentError(Reason.UNSUPPORTED, told, usage=UNCHARGED)


def refuse_long(choices: Sequence[str]) -> None:
    """Refuse choices that cannot be one token each."""
    refuse_wordless(choices)
    if long := [choice for choice in choices if len(choice.split()) > 1]:
        raise PermanentError(
            Reason.UNSUPPORTED,
            f"{long[0]!r} is more than one token, and the likeliest next tokens tell of single "
            "ones; ask for the number of a choice, or use a model of kind vllm or transformers "
            "or a server with `choices: echo`",
            usage=UNCHARGED,
        )
