"""What a layout finds in a file: answers somebody else's model gave, and to what."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log
from pathlib import Path

from harness.parts import ChoiceScore, Message


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The texts one prompt was answered with, or what each of its choices scored.

    `choices` are the strings that were scored, in the order of the scores and of the options as
    the variant shows them. `place` is the file and item, as errors name it, `model` the name of
    the model where the file says it. No messages: nobody knows what was asked.
    """

    place: str
    sample_id: str
    variant: str
    messages: tuple[Message, ...] = ()
    texts: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    scores: tuple[ChoiceScore, ...] = ()
    model: str = ""

    def __post_init__(self) -> None:
        if bool(self.texts) == bool(self.scores) or len(self.choices) != len(self.scores):
            raise ValueError(f"{self.place}: give texts or one score for each of the choices")

    @property
    def question(self) -> tuple[object, ...]:
        """What was asked, and for how many replies or of which choices."""
        return self.messages, len(self.texts), self.choices

    @property
    def answer(self) -> tuple[object, ...]:
        """What came back."""
        return self.texts, self.scores


@dataclass(frozen=True, slots=True)
class StatedAnswer:
    """Something about some rows of a file that whoever imports it should know."""

    path: Path
    what: str
    rows: int


@dataclass(frozen=True, slots=True)
class FileAnswers:
    """All that a layout finds in one file."""

    answers: tuple[StoredAnswer, ...]
    told: tuple[StatedAnswer, ...] = ()


LEAST = log(5e-324)
"""The log-probability of a choice whose probability is printed as 0: about -744.44 nats."""
# What rounding may add to a probability, and to a sum of some.
_SLACK = 1e-3
_LONGEST = 10_000
_NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_ENTRY = rf"""(?:'[0-9]+'|"[0-9]+"|[0-9]+)\s*:\s*{_NUMBER}"""
_PLACES = re.compile(rf"\{{\s*{_ENTRY}(?:\s*,\s*{_ENTRY})*(?:\s*,)?\s*\}}")
_SPLIT = re.compile(rf"""([0-9]+)['"]?\s*:\s*({_NUMBER})""")


def by_place(text: str, count: int) -> list[float]:
    """The numbers of places 1 to `count` in a mapping as Python or JSON writes it.

    The keys are the places, with or without quotes. Raises ValueError with the fact.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"{len(text)} characters, more than {_LONGEST}")
    if not _PLACES.fullmatch(text.strip()):
        raise ValueError(f"{text[:80]!r} is no mapping of places to numbers")
    pairs = [(int(found[1]), float(found[2])) for found in _SPLIT.finditer(text)]
    if sorted(place for place, _ in pairs) != list(range(1, count + 1)):
        named = ", ".join(str(place) for place, _ in pairs)
        raise ValueError(f"it has numbers for places {named}, not for 1 to {count}")
    return [value for _, value in sorted(pairs)]


def of_probabilities(values: Sequence[float], choices: Sequence[str]) -> tuple[ChoiceScore, ...]:
    """The scores of some choices by their probabilities. Raises ValueError with the fact."""
    for value in values:
        if not 0 <= value <= 1 + _SLACK:
            raise ValueError(f"{value} is no probability")
    if values and not any(values):
        raise ValueError("the probability of every choice is 0, which tells nothing of any")
    if sum(values) > 1 + _SLACK:
        raise ValueError(f"the probabilities {list(values)} add up to {sum(values):.4g}")
    return _scores([log(value) if value else LEAST for value in values], choices)


def of_logprobs(values: Sequence[float], choices: Sequence[str]) -> tuple[ChoiceScore, ...]:
    """The scores of some choices by their log-probabilities. Raises ValueError with the fact."""
    for value in values:
        if not value <= _SLACK:
            raise ValueError(f"{value} is no log-probability in nats")
    return _scores([LEAST if value == -inf else value for value in values], choices)


def _scores(values: Sequence[float], choices: Sequence[str]) -> tuple[ChoiceScore, ...]:
    """A score a choice; raises ValueError where there are more or fewer of them."""
    if len(values) != len(choices):
        raise ValueError(f"{len(values)} numbers for {len(choices)} choices")
    return tuple(
        ChoiceScore(value, None, len(choice.encode()))
        for value, choice in zip(values, choices, strict=True)
    )
