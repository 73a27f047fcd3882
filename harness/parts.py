"""What the nouns are made of: reasons, modes, messages, decodings, counts, and their digest."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf, isfinite
from typing import Literal

from msgspec import UNSET, UnsetType, json


class Reason(StrEnum):
    """Why a value is missing; each has its own column in every table."""

    FAILED = "failed"
    REFUSED = "refused"
    FILTERED = "filtered"
    EMPTY = "empty"
    TRUNCATED = "truncated"
    UNPARSED = "unparsed"
    UNSUPPORTED = "unsupported"


NO_REPLY = frozenset({Reason.FAILED, Reason.UNSUPPORTED})
"""Why a call may have had no reply; what is missing for another reason has one that stands."""


class Mode(StrEnum):
    """What a request wants back: texts, a log-probability a choice, or vectors.

    CHOOSE_TOKEN is the less exact way of servers that tell the likeliest next tokens alone: it
    is for choices of one token, and its answers never stand beside those of CHOOSE.
    """

    GENERATE = "generate"
    CHOOSE = "choose"
    CHOOSE_TOKEN = "choose_token"  # noqa: S105 - a mode, no secret
    EMBED = "embed"


def digest(value: object) -> str:
    """The sha256, in hex, of a value's canonical JSON: equal on every machine."""
    return hashlib.sha256(json.encode(value, order="deterministic")).hexdigest()


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Decoding:
    """How an answer is drawn: temperature 0 is greedy; seed null where nothing is drawn."""

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
    """Log-probability of one choice: its sum in nats over its tokens, given what precedes it.

    `tokens` is null where nobody counted them, as in imported answers; `bytes` are those of the
    choice in UTF-8, any leading space among them, and 0 where a class and no text was scored.
    `spanned` counts the characters of the context that are scored with it, because a token reaches
    across the boundary; it is equal for all choices of a response. `is_bound` says that the
    log-probability is at most this: the choice is not among those that were told.
    """

    logprob: float
    tokens: int | None
    bytes: int
    spanned: int = 0
    is_bound: bool = False

    def __post_init__(self) -> None:
        if not isfinite(self.logprob):
            raise ValueError(f"a choice's log-probability is a finite number, not {self.logprob}")


@dataclass(frozen=True, slots=True)
class Option:
    """One choice as a request lays it out: its index among the sample's, and the answer it takes.

    `answer` is what is scored or written: " 1", or " " and the words of the choice.
    """

    index: int
    answer: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request has no answer."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens a call was charged for, and what they cost; null where nobody says.

    Tokens that a model spends on reasoning count as tokens of its completion; `reasoning_tokens`
    are those among them, where a server tells. `unanswered` counts further calls for the same
    answer that may have been charged for and told nothing: those that timed out or were cut off.
    It is absent, also from what is stored, where there were none and where nobody counts them.
    `superseded` are the stored calls that this one takes the place of; absent where it is alone.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    reasoning_tokens: int | None = None
    unanswered: int | UnsetType = UNSET
    superseded: "tuple[Superseded, ...] | UnsetType" = UNSET

    @property
    def each(self) -> "tuple[Usage, ...]":
        """What this call was charged, and each of those that it takes the place of."""
        return (self, *(part.usage for part in self.superseded or ()))

    @property
    def is_told(self) -> bool:
        """Whether somebody says how many tokens it was."""
        return self.prompt_tokens is not None and self.completion_tokens is not None


@dataclass(frozen=True, slots=True)
class Superseded:
    """A stored call with another in its place: its charge, and why it has no answer, if so."""

    usage: Usage
    reason: Reason | None = None


UNTOLD = Usage()
"""Of a call that may have been charged for, which nobody tells."""
UNCHARGED = Usage(0, 0, reasoning_tokens=0)
"""Of a call that was turned away with an error status, or that never reached its server."""


def added(usages: Sequence[Usage]) -> Usage:
    """What calls were charged together; null where one of them does not tell."""
    return Usage(
        _whole([usage.prompt_tokens for usage in usages]),
        _whole([usage.completion_tokens for usage in usages]),
        reasoning_tokens=_whole([usage.reasoning_tokens for usage in usages]),
        unanswered=sum(usage.unanswered or 0 for usage in usages) or UNSET,
    )


def _whole(counts: Sequence[int | None]) -> int | None:
    """The sum of some counts; null where one is missing."""
    told = [count for count in counts if count is not None]
    return sum(told) if len(told) == len(counts) else None
