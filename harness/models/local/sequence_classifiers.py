"""Requests to choose to the scores of sequence classifiers, which read the text and no prompt.

A classifier was trained here, or is a checkpoint whose own labels the YAML names.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from harness.core import Response
from harness.errors import ModelError, SpecError
from harness.lazy import Tensor, torch
from harness.models.custom import Resolvable
from harness.models.labels import (
    FLAGGED,
    SCORE,
    LabelQuestion,
    LabelQuestions,
    TextLabeller,
    chosen,
    other_label,
    with_probabilities,
)
from harness.models.local.checkpoints import ResolvedCheckpoint, device_of, explain, resolve
from harness.models.local.classifiers import (
    CHECKPOINT,
    ClassifierNetwork,
    TrainedClassifier,
    opened,
)
from harness.models.spread import Needs, Part, Spreadable
from harness.models.vectors import chunks
from harness.parts import digest
from harness.specs.models import ClassifierSpec, FlagSpec


class SequenceClassifier(TextLabeller, Resolvable, Spreadable):
    """A sequence classifier on this machine."""

    kind = "classifier"

    def __init__(
        self,
        name: str,
        spec: ClassifierSpec,
        questions: LabelQuestions,
        trained: TrainedClassifier | None,
    ) -> None:
        """Answer `questions` by a trained checkpoint, or without one by the YAML's."""
        self.name, self._spec = name, spec
        self._questions, self._trained = questions, trained
        if not (trained or spec.flags) and sorted(spec.labels) != sorted(questions.labels):
            raise SpecError(
                f"model {name}: `labels` names {', '.join(spec.labels)}, and the task has "
                f"{', '.join(questions.labels)}; name the checkpoint's label for each of these"
            )

    def _identify(self) -> tuple[str, str | None]:
        """Digest of the trained checkpoint's card; or the version and its labels."""
        if self._trained is not None:
            card = self._trained.card.digest
            return f"classifier@{card}", card[:7]
        settings = digest((self._spec.labels, self._spec.max_tokens))[:12]
        return f"classifier:{self._checkpoint.origin}|{settings}", self._checkpoint.version[:7]

    def _labelled(self, asked: Sequence[LabelQuestion]) -> Iterator[Response]:
        """The responses, texts of like length together."""
        texts = sorted(asked, key=lambda one: (len(one.text or ""), one.text or ""))
        batches = [*chunks(texts, self._spec.batch)]
        found = self._computed([one.text or "" for one in batch] for batch in batches)
        for batch, rows in zip(batches, found, strict=True):
            for one, values in zip(batch, rows, strict=True):
                yield self._response(one, dict(zip(self._labels, values, strict=True)))

    def compute(self, part: Part) -> list[list[float]]:
        """The value of each output for each text of a batch."""
        with torch.inference_mode():
            rows: list[list[float]] = self._values(self._network.logits(part).double()).tolist()
        return rows

    @property
    def needs(self) -> Needs:
        """What a copy takes on the device of the YAML."""
        return Needs.on(device_of(self._spec.device))

    def _values(self, logits: Tensor) -> Tensor:
        """Turn logits [texts, outputs] into log-probabilities of the outputs, in nats."""
        return logits.log_softmax(dim=1)

    def _response(self, asked: LabelQuestion, values: Mapping[str, float]) -> Response:
        detail = self._trained.detail(asked.text or "") if self._trained else {}
        return with_probabilities(asked, {name: values[name] for name in asked.labels}, detail)

    @cached_property
    def _checkpoint(self) -> ResolvedCheckpoint:
        return resolve(self._spec.model, revision=self._spec.revision)

    @cached_property
    def _network(self) -> ClassifierNetwork:
        source, commit = self._source
        network = opened(source, self._spec, commit=commit)
        network.model.eval()  # type: ignore[no-untyped-call]  # transformers'
        return network

    @property
    def _source(self) -> tuple[str, str | None]:
        """Where the checkpoint is, and its commit on the hub; None for a folder."""
        if self._trained is not None:
            return str(self._trained.folder / CHECKPOINT), None
        return self._checkpoint.source, self._checkpoint.commit

    @property
    def _own_labels(self) -> list[str]:
        """The checkpoint's labels, in the order of its outputs; no weights are loaded."""
        from transformers import AutoConfig

        source, commit = self._source
        with explain(source):
            config = AutoConfig.from_pretrained(source, revision=commit or "main")
        own = config.id2label or {}
        return [str(name) for _, name in sorted((int(at), name) for at, name in own.items())]

    @cached_property
    def _labels(self) -> list[str]:
        names = self._own_labels
        if self._trained is not None:
            return names
        if unknown := [name for name in self._spec.labels.values() if name not in names]:
            raise ModelError(
                f"model {self.name}: the checkpoint has no label {unknown[0]!r}, it has "
                f"{', '.join(names)}; correct `labels`"
            )
        ours = {own_name: label for label, own_name in self._spec.labels.items()}
        return [ours.get(name, name) for name in names]


class FlaggingClassifier(SequenceClassifier):
    """A checkpoint whose outputs do not exclude each other, such as kinds of toxicity.

    A text has one of two labels: whether an output that counts reaches the threshold. The
    probability of each output, the highest that counts, and whether each is flagged are details
    of the response.
    """

    def __init__(
        self,
        name: str,
        spec: ClassifierSpec,
        questions: LabelQuestions,
        trained: TrainedClassifier | None,
    ) -> None:
        """Answer `questions` as `flags` says; SpecError unless the task has two labels."""
        super().__init__(name, spec, questions, trained)
        self._flags = spec.flags or FlagSpec()
        self._negative = other_label(questions.labels, self._flags.positive, model=name)

    def _identify(self) -> tuple[str, str | None]:
        settings = digest((self._flags, self._spec.max_tokens))[:12]
        return f"classifier:{self._checkpoint.origin}|{settings}", self._checkpoint.version[:7]

    def _values(self, logits: Tensor) -> Tensor:
        """Turn logits [texts, outputs] into the probability of each output by itself."""
        return logits.sigmoid()

    def _response(self, asked: LabelQuestion, values: Mapping[str, float]) -> Response:
        counted = self._flags.outputs or tuple(self._labels)
        flags = {name: value >= self._flags.threshold for name, value in values.items()}
        detail = {**values, **{FLAGGED.format(name): float(on) for name, on in flags.items()}}
        detail[SCORE.format(self._flags.positive)] = max(values[name] for name in counted)
        is_flagged = any(flags[name] for name in counted)
        return chosen(asked, self._flags.positive if is_flagged else self._negative, detail)

    @cached_property
    def _labels(self) -> list[str]:
        names = self._own_labels
        if unknown := [name for name in self._flags.outputs if name not in names]:
            raise ModelError(
                f"model {self.name}: the checkpoint has no output {unknown[0]!r}, it has "
                f"{', '.join(names)}; correct `outputs`"
            )
        return names
