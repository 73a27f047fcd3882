"""What a layout finds in a file: answers somebody else's model gave, and to what."""

from dataclasses import dataclass
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
class Told:
    """Something about some rows of a file that whoever imports it should know."""

    path: Path
    what: str
    rows: int


@dataclass(frozen=True, slots=True)
class FileAnswers:
    """All that a layout finds in one file."""

    answers: tuple[StoredAnswer, ...]
    told: tuple[Told, ...] = ()
