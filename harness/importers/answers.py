"""The records that a format reads from a file: answers of a model, and to what; their scores."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log
from pathlib import Path

from harness.parts import ChoiceScore, Message


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The texts that answer one prompt, or a score for each of its choices.

    `choices` are the scored strings, in the order in which the variant shows its options. `place`
    is the file and item, as errors name it; `model` the model's name, where the file has it. No
    messages means that the prompt is unknown.
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
        """The prompt, the number of replies and the choices."""
        return self.messages, len(self.texts), self.choices

    @property
    def answer(self) -> tuple[object, ...]:
        """The texts and scores."""
        return self.texts, self.scores


@dataclass(frozen=True, slots=True)
class FileNote:
    """A note for the user about some rows of a file, such as those that were left out."""

    path: Path
    what: str
    rows: int


@dataclass(frozen=True, slots=True)
class FileAnswers:
    """All answers that a format reads from one file, and notes about its rows."""

    answers: tuple[StoredAnswer, ...]
    notes: tuple[FileNote, ...] = ()

    @classmethod
    def of(
        cls, path: Path, answers: Iterable[StoredAnswer], counts: Mapping[str, int]
    ) -> "FileAnswers":
        """The answers of a file, with a note for each count of rows above 0."""
        notes = (FileNote(path, what, rows) for what, rows in counts.items() if rows)
        return cls(tuple(answers), tuple(notes))


LEAST = log(5e-324)
"""The log-probability of a choice whose probability is printed as 0: about -744.44 nats."""
# The most that rounding may add to a probability or a sum of them.
_SLACK = 1e-3
_LONGEST = 10_000
_NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_ENTRY = rf"""(?:'[0-9]+'|"[0-9]+"|[0-9]+)\s*:\s*{_NUMBER}"""
_PLACES = re.compile(rf"\{{\s*{_ENTRY}(?:\s*,\s*{_ENTRY})*(?:\s*,)?\s*\}}")
_SPLIT = re.compile(rf"""([0-9]+)['"]?\s*:\s*({_NUMBER})""")


def numbers_by_option(text: str, count: int) -> list[float]:
    """The numbers of options 1 to `count` in a mapping, in the notation of Python or JSON.

    The keys are the options' numbers, with or without quotes. Raises ValueError for other text.
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


def scores_of_probabilities(
    values: Sequence[float], choices: Sequence[str]
) -> tuple[ChoiceScore, ...]:
    """The scores of choices from their probabilities; raises ValueError for other numbers."""
    for value in values:
        if not 0 <= value <= 1 + _SLACK:
            raise ValueError(f"{value} is no probability")
    if values and not any(values):
        raise ValueError("the probability of every choice is 0, which is no answer")
    if sum(values) > 1 + _SLACK:
        raise ValueError(f"the probabilities {list(values)} add up to {sum(values):.4g}")
    return _scores([log(value) if value else LEAST for value in values], choices)


def scores_of_logprobs(values: Sequence[float], choices: Sequence[str]) -> tuple[ChoiceScore, ...]:
    """The scores of choices from log-probabilities in nats; raises ValueError for other numbers."""
    for value in values:
        if not value <= _SLACK:
            raise ValueError(f"{value} is no log-probability in nats")
    return _scores([LEAST if value == -inf else value for value in values], choices)


def _scores(values: Sequence[float], choices: Sequence[str]) -> tuple[ChoiceScore, ...]:
    if len(values) != len(choices):
        raise ValueError(f"{len(values)} numbers for {len(choices)} choices")
    return tuple(
        ChoiceScore(value, None, len(choice.encode()))
        for value, choice in zip(values, choices, strict=True)
    )
