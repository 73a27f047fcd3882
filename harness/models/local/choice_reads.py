"""Choices' tokens to the prompts an engine reads, and what it tells of them to sums.

An engine reads all of a choice but its last token, and is asked for the log-probability of that
one as the next. Choices that differ in their last token alone, as digits do, share one prompt.
An engine that cannot score prompts reads more of them. Pure; knows no engine.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from harness.models.local.batches import windows
from harness.models.local.choice_tokens import ChoiceTokens

MOST_NEXTS = 128
"""Next tokens asked about at once: vLLM's limit."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One prompt, and the tokens whose log-probability as its next one is wanted.

    `is_scored` says that the log-probabilities of the prompt's own tokens are wanted too.
    """

    prompt: tuple[int, ...]
    nexts: tuple[int, ...]
    is_scored: bool


@dataclass(frozen=True, slots=True)
class Told:
    """What an engine tells of a reading: in nats, of each token given all that precede it.

    `own` has an entry for each token of the prompt but the first where the reading is scored.
    """

    reading: Reading
    own: Sequence[float]
    nexts: Mapping[int, float]


def readings(tokens: ChoiceTokens, *, is_stepwise: bool = False) -> list[Reading]:
    """The distinct prompts of a request's choices; every choice needs a token before it.

    Stepwise no prompt is scored: each token of a choice is the next one of a prompt of its own.
    """
    found: dict[tuple[int, ...], dict[int, bool]] = {}
    for row, first in zip(tokens.rows, tokens.firsts, strict=True):
        last = len(row) - 1
        for at in range(first if is_stepwise else last, last + 1):
            found.setdefault(row[:at], {})[row[at]] = not is_stepwise and first < last
    return [
        Reading(prompt, tuple(nexts), any(wanted.values()))
        for prompt, wanted in found.items()
        for nexts in windows(wanted, MOST_NEXTS)
    ]


def sums(tokens: ChoiceTokens, told: Iterable[Told]) -> list[float]:
    """The log-probability of each choice, from what was told of all readings."""
    known = {(each.reading.prompt, token): each for each in told for token in each.reading.nexts}
    return [
        fsum(_parts(known, row, first))
        for row, first in zip(tokens.rows, tokens.firsts, strict=True)
    ]


def _parts(
    known: Mapping[tuple[tuple[int, ...], int], Told], row: tuple[int, ...], first: int
) -> list[float]:
    """The log-probabilities of a row's tokens from the first scored one on."""
    whole = known[row[:-1], row[-1]]
    if not whole.reading.is_scored:
        return [known[row[:at], row[at]].nexts[row[at]] for at in range(first, len(row))]
    wanted, own = len(row) - 1 - first, whole.own[first - 1 :]
    if len(own) != wanted:
        raise ValueError(f"{wanted} log-probabilities of a prompt are needed, {len(own)} were told")
    return [*own, whole.nexts[row[-1]]]
