"""Requests to the texts and labels they are about, and labels back to responses.

For models that give a text a label and read no prompt: classifiers and moderation. They read the
field `text` of a sample as a prompt would show it, whatever the words around it are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Protocol, runtime_checkable

from harness.core import Request, Response, Sample
from harness.data.choices import LABELS, lay_out
from harness.errors import SpecError
from harness.parts import ChoiceScore, Mode
from harness.specs.tasks import ChoiceSpec, TaskSpec
from harness.text.prompts import as_data

TEXT = "text"
AT_MOST = log(0.5)
"""The log-probability, in nats, that a label which was not given has at most."""


@dataclass(frozen=True, slots=True)
class LabelQuestion:
    """One request: its text, None at a step that shows none, and its options' labels."""

    request: Request
    text: str | None
    labels: tuple[str, ...]


@runtime_checkable
class ReadsText(Protocol):
    """A model that reads the text of a request, and no prompt."""

    def text_of(self, request: Request) -> str | None:
        """The text it reads; None at a step that shows none."""


@dataclass(frozen=True, slots=True)
class LabelQuestions:
    """The questions of one task: its samples, its layouts, its steps without a text."""

    labels: tuple[str, ...]
    samples: Mapping[str, Sample]
    layouts: Mapping[str, ChoiceSpec]
    neutral: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, task: TaskSpec, samples: Sequence[Sample], *, model: str) -> "LabelQuestions":
        """Collect the questions of a task whose samples have labels and a text."""
        for sample in samples:
            if TEXT not in sample.fields or LABELS not in sample.references:
                raise SpecError(
                    f"model {model} gives texts a label, and sample {sample.id} has no "
                    f"{'field text' if TEXT not in sample.fields else 'labels'}; ask it about a "
                    "task such as hate_speech"
                )
        labels = dict.fromkeys(name for part in samples for name in part.references[LABELS])
        steps = [(name, step) for name, spec in task.variants.items() for step in spec.steps]
        return cls(
            labels=tuple(labels),
            samples={sample.id: sample for sample in samples},
            layouts={n: spec.choice for n, spec in task.variants.items() if spec.choice},
            neutral=frozenset((name, step.name) for name, step in steps if step.is_unconditional),
        )

    def asked(self, request: Request) -> LabelQuestion:
        """The question of one request."""
        if request.mode is not Mode.CHOOSE:
            raise SpecError(f"{request.model}: gives labels and cannot {request.mode}")
        sample = self.samples[request.sample_id]
        options = lay_out(sample, self.layouts[request.variant])
        labels = tuple(sample.references[LABELS][option.index] for option in options)
        is_neutral = (request.variant, request.step) in self.neutral
        return LabelQuestion(request, None if is_neutral else shown(sample), labels)


def shown(sample: Sample) -> str:
    """The text of a sample as a prompt shows it, so that equal prompts have equal answers."""
    return as_data(sample.fields[TEXT])


def undecided(asked: LabelQuestion) -> Response:
    """The response where no text is shown: all labels are equally likely."""
    scores = tuple(ChoiceScore(0.0, None, 0) for _ in asked.labels)
    return Response(asked.request.key, choice_scores=scores)


def with_probabilities(
    asked: LabelQuestion, logprobs: Mapping[str, float], detail: Mapping[str, float]
) -> Response:
    """The response of a model that gives the log-probability, in nats, of each label."""
    scores = tuple(ChoiceScore(logprobs[label], None, 0) for label in asked.labels)
    return Response(asked.request.key, choice_scores=scores, detail=detail)


def chosen(asked: LabelQuestion, label: str, detail: Mapping[str, float]) -> Response:
    """The response of a model that gives a label but no probability.

    The other labels get an upper bound only, so that nobody reads a probability out of them.
    """
    scores = tuple(
        ChoiceScore(0.0, None, 0) if name == label else ChoiceScore(AT_MOST, None, 0, is_bound=True)
        for name in asked.labels
    )
    return Response(asked.request.key, choice_scores=scores, detail=detail)
