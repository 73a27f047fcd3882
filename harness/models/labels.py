"""Requests to texts and labels, and labels back to Responses, for models that read no prompt."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log

from harness.core import Request, Response, Sample
from harness.data.choices import LABELS, lay_out
from harness.errors import SpecError
from harness.parts import ChoiceScore, Mode
from harness.specs.tasks import ChoiceSpec, TaskSpec
from harness.text.prompts import as_data

TEXT = "text"
FLAGGED = "flagged_{}"  # the name of a number that is 1 where a category is flagged, else 0
# The name of a label's score, the higher the surer, where it is no probability of the labels.
SCORE = "score_{}"
# Details of a response: 1 if the model was trained on the text, or else on a near copy of it.
TRAINED_ON, NEARLY = "trained_on", "nearly_trained_on"
AT_MOST = log(0.5)  # the highest log-probability, in nats, of a label that was not chosen


@dataclass(frozen=True, slots=True)
class LabelQuestion:
    """A request with its text, None at a step that shows none, and its options' labels in order."""

    request: Request
    text: str | None
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LabelQuestions:
    """What a task's requests ask; `neutral` has the variants and steps that show no sample."""

    labels: tuple[str, ...]
    samples: Mapping[str, Sample]
    layouts: Mapping[str, ChoiceSpec]
    neutral: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, task: TaskSpec, samples: Sequence[Sample], *, model: str) -> "LabelQuestions":
        """The questions of a task; SpecError if a sample has no labels or no text."""
        for sample in samples:
            if TEXT not in sample.fields or LABELS not in sample.references:
                fact = f"sample {sample.id} has no field text, or no labels"
                raise SpecError(f"model {model}: {fact}; ask it about a task such as hate_speech")
        labels = dict.fromkeys(name for sample in samples for name in sample.references[LABELS])
        steps = [(name, step) for name, spec in task.variants.items() for step in spec.steps]
        return cls(
            labels=tuple(labels),
            samples={sample.id: sample for sample in samples},
            layouts={n: spec.choice for n, spec in task.variants.items() if spec.choice},
            neutral=frozenset((name, step.name) for name, step in steps if step.is_unconditional),
        )

    def question(self, request: Request) -> LabelQuestion:
        """The question of one request; SpecError unless it is a choice."""
        if request.mode is not Mode.CHOOSE:
            raise SpecError(f"{request.model}: gives labels and cannot {request.mode}")
        sample = self.samples[request.sample_id]
        options = lay_out(sample, self.layouts[request.variant])
        labels = tuple(sample.references[LABELS][option.index] for option in options)
        is_neutral = (request.variant, request.step) in self.neutral
        return LabelQuestion(request, None if is_neutral else shown(sample), labels)


class TextLabeller(ABC):
    """A model that gives the texts of samples a label."""

    modes = frozenset({Mode.CHOOSE})
    _questions: LabelQuestions

    def text_of(self, request: Request) -> str | None:
        """The text of a request that it reads; None at a step that shows none."""
        return self._questions.question(request).text

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once."""
        asked = [self._questions.question(request) for request in requests]
        for one in (one for one in asked if one.text is None):  # all are equally likely
            yield with_probabilities(one, dict.fromkeys(one.labels, 0.0), {})
        yield from self._labelled([one for one in asked if one.text is not None])

    @abstractmethod
    def _labelled(self, asked: Sequence[LabelQuestion]) -> Iterator[Response]:
        """The response to each question; each has a text."""


def shown(sample: Sample) -> str:
    """The text of a sample as a prompt shows it, so that equal prompts have equal answers."""
    return as_data(sample.fields[TEXT])


def with_probabilities(
    question: LabelQuestion, logprobs: Mapping[str, float], detail: Mapping[str, float]
) -> Response:
    """The response of a model that gives the log-probability, in nats, of each label."""
    scores = tuple(ChoiceScore(logprobs[label], None, 0) for label in question.labels)
    return Response(question.request.key, choice_scores=scores, detail=detail)


def other_label(labels: Sequence[str], positive: str, *, model: str) -> str:
    """The label of a text that is not flagged; SpecError unless there are two, one `positive`."""
    if len(labels) != 2 or positive not in labels:
        fact = f"the task has the labels {', '.join(labels)}"
        raise SpecError(f"model {model}: {fact}, not two labels with `positive` among them")
    return next(label for label in labels if label != positive)


def chosen(question: LabelQuestion, label: str, detail: Mapping[str, float]) -> Response:
    """The response of a model that gives a label without its probability: a bound for others."""
    scores = tuple(
        ChoiceScore(0.0, None, 0) if name == label else ChoiceScore(AT_MOST, None, 0, is_bound=True)
        for name in question.labels
    )
    return Response(question.request.key, choice_scores=scores, detail=detail)
