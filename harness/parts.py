"""The small records inside the nouns of core: reasons, messages, decodings, usage, digest."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import fsum, inf, isfinite
from sys import float_info
from typing import Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType, json


class Reason(StrEnum):
    """Why a value is missing; each has its own column in every table."""

    FAILED = "failed"
    REFUSED = "refused"
    FILTERED = "filtered"
    EMPTY = "empty"
    TRUNCATED = "truncated"
    UNPARSED = "unparsed"
    UNSUPPORTED = "unsupported"


# The reasons of a call that got no reply; with any other reason there is a stored reply.
NO_REPLY = frozenset({Reason.FAILED, Reason.UNSUPPORTED})
NO_CHOICE = "no choice is one token"
NO_WORD = "cut before the first word of an answer"
"""How the message of a reply begins that was cut while the model reasoned."""


class Mode(StrEnum):
    """What a request asks for: texts, the log-probability of each choice, or vectors.

    CHOOSE_TOKEN is the less exact mode for servers that return only the most likely next tokens;
    no table mixes its answers with those of CHOOSE.
    """

    GENERATE = "generate"
    CHOOSE = "choose"
    CHOOSE_TOKEN = "choose_token"  # noqa: S105 - a mode, no secret
    EMBED = "embed"


_ENCODER = json.Encoder(order="deterministic")


def digest(value: object) -> str:
    """The sha256, in hex, of a value's canonical JSON; it is equal on every machine."""
    return hashlib.sha256(_ENCODER.encode(value)).hexdigest()


def digest_with(head: Sequence[object], last: Iterable[object]) -> str:
    """The digest of a list: of `head`, then the list of all that `last` gives, one by one."""
    found = hashlib.sha256(b"[" + b"".join(_ENCODER.encode(part) + b"," for part in head) + b"[")
    for place, part in enumerate(last):
        found.update(b"," * (place > 0) + _ENCODER.encode(part))
    found.update(b"]]")
    return found.hexdigest()


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Decoding:
    """How a model samples `n` texts of at most `max_tokens` each; temperature 0 is greedy."""

    temperature: float = 0.0
    max_tokens: int = 256
    n: int = 1
    seed: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < inf or self.max_tokens < 1 or self.n < 1:
            raise ValueError(f"temperature >= 0, max_tokens >= 1 and n >= 1, not {self!r}")
        # 0 and -0.0 are greedy too, and must not have a digest of their own.
        object.__setattr__(self, "temperature", float(self.temperature) + 0.0)


@dataclass(frozen=True, slots=True)
class ChoiceScore:
    """The log-probability of one choice given its context: the sum over its tokens, in nats.

    `tokens` is None where their number is unknown. `bytes` counts the choice in UTF-8 with its
    leading space, and is 0 for a class. `spanned` counts the characters of the context that a token
    across the boundary scores with it, equal for all choices of a response. `is_bound` marks an
    upper bound: the server did not return this choice among its most likely ones.
    """

    logprob: float
    tokens: int | None
    bytes: int
    spanned: int = 0
    is_bound: bool = False

    def __post_init__(self) -> None:
        if not isfinite(self.logprob):
            raise ValueError(f"a choice's log-probability is a finite number, not {self.logprob}")


class Option(Struct, frozen=True):
    """One choice as a prompt shows it: its index, from 0, and its answer with the space before."""

    index: int
    answer: str


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a request has no answer."""

    reason: Reason
    message: str


_Amount = TypeVar("_Amount", int, float)
MOST = 10**15  # more tokens, or US dollars, than all calls of a results folder together


def possible(amount: _Amount | None) -> _Amount | None:
    """A number of tokens, or of US dollars; None for one below 0 or above MOST, and for NaN."""
    return None if amount is None or not 0 <= amount <= MOST else amount


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens a call was charged for, and their cost in US dollars; None where unknown.

    `reasoning_tokens` are part of `completion_tokens`. `unanswered` counts further calls for the
    same answer that were cut off and may have been charged; `superseded` are stored calls that this
    one replaces. Both are absent where there are none. An impossible count or cost becomes None.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    reasoning_tokens: int | None = None
    unanswered: int | UnsetType = UNSET
    superseded: "tuple[Superseded, ...] | UnsetType" = UNSET

    def __post_init__(self) -> None:
        for name in ("prompt_tokens", "completion_tokens", "cost_usd", "reasoning_tokens"):
            object.__setattr__(self, name, possible(getattr(self, name)))

    @property
    def with_superseded(self) -> "tuple[Usage, ...]":
        """The usage of this call, then that of each call that it replaces."""
        return (self, *(part.usage for part in self.superseded or ()))

    @property
    def is_known(self) -> bool:
        """Whether the numbers of prompt and completion tokens are known."""
        return self.prompt_tokens is not None and self.completion_tokens is not None


@dataclass(frozen=True, slots=True)
class Superseded:
    """A stored call that another one replaces: its usage, and the reason if it has no answer."""

    usage: Usage
    reason: Reason | None = None


MOST_NUMBERS = 100_000


def vector_fault(vector: Sequence[float]) -> str | None:
    """Why no cosine can be taken of a vector; None where one can."""
    if len(vector) > MOST_NUMBERS:
        return f"more than {MOST_NUMBERS}"
    if not any(vector):
        return "empty or all zeros"
    square = fsum(number * number for number in vector) if all(map(isfinite, vector)) else inf
    if not isfinite(square):
        return "not finite"
    return None if square >= float_info.min else "too small to have a direction"


UNKNOWN_USAGE = Usage()  # the usage of a call that may have been charged, by an unknown amount
# The usage of a call that an error status turned away, or that never reached its server.
UNCHARGED = Usage(0, 0, reasoning_tokens=0)


def total_usage(usages: Sequence[Usage]) -> Usage:
    """The usage of several calls together; a count is None where one call's is."""
    totals: dict[str, int | None] = {}
    for name in ("prompt_tokens", "completion_tokens", "reasoning_tokens"):
        counts = [getattr(usage, name) for usage in usages]
        totals[name] = None if None in counts else sum(counts)
    unanswered = sum(usage.unanswered or 0 for usage in usages)
    return Usage(**totals, unanswered=unanswered or UNSET)  # type: ignore[arg-type]  # by name
