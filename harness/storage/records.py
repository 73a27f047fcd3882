"""The records of a run while it is answered and judged: steps, verdicts, answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from harness.core import Sample
from harness.parts import ChoiceScore, Message, Reason, Usage


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of a response: its key in the ledger, what came as it came, its cost.

    `messages` are the prompt while it is asked; of stored records they are empty unless they were
    looked up in the ledger.
    """

    step: str
    key: str
    messages: tuple[Message, ...] = ()
    text: str | None = None
    reason: Reason | None = None
    note: str = ""
    stop: str | None = None
    choice_scores: tuple[ChoiceScore, ...] = ()
    usage: Usage = field(default_factory=Usage)
    detail: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VerdictRecord:
    """One judge's verdict, with the keys of what it asked, the replies it read and their cost."""

    value: float | None
    reason: Reason | None = None
    note: str = ""
    detail: Mapping[str, float] = field(default_factory=dict)
    shares: tuple[float, ...] = ()
    served: str | None = None
    keys: tuple[str, ...] = ()
    replies: tuple[str | None, ...] = ()
    usages: tuple[Usage, ...] = ()


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """A planned answer: a sample, what was asked, what came back, how judges read it.

    `answer` is a text, or the answer of the likeliest choice.
    """

    sample: Sample
    variant: str
    decoding: str
    steps: tuple[StepRecord, ...]
    answer: str | None
    served: str | None = None
    verdicts: Mapping[str, VerdictRecord] = field(default_factory=dict)

    @property
    def unprompted(self) -> "SampleRecord":
        """The record as it is stored: without prompts, which are in the ledger."""
        return replace(self, steps=tuple(replace(step, messages=()) for step in self.steps))
