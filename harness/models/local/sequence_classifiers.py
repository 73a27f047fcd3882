"""Requests to choose to the scores of sequence classifiers, which read the text and no prompt.

A classifier was trained here, or is a checkpoint whose own labels the YAML names.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from harness.core import Response
from harness.errors import ModelError, SpecError
from harness.lazy import torch
from harness.models import labels as label_names
from harness.models.custom import Resolvable
from harness.models.local.checkpoints import ResolvedCheckpoint, device_of, explain, resolve
from harness.models.local.classifiers import CHECKPOINT, Network, TrainedClassifier, logits, opened
from harness.models.spread import Needs, Part, Spreadable
from harness.models.vectors import chunks
from harness.parts import digest
from harness.specs.models import ClassifierSpec


class SequenceClassifier(label_names.TextLabeller, Resolvable, Spreadable):
    """A sequence classifier on this machine.

    With `flags` in its YAML its outputs do not exclude each other, and a text has one of two
    labels: whether an output that counts reaches the threshold.
    """

    kind = "classifier"

    def __init__(
        self,
        name: str,
        spec: ClassifierSpec,
        questions: label_names.LabelQuestions,
        trained: TrainedClassifier | None,
    ) -> None:
        """Answer `questions` by a trained checkpoint, or without one by the YAML's."""
        self.name, self._spec, self._flags = name, spec, spec.flags
        self._questions, self._trained = questions, trained
        if self._flags is not None:
            label_names.other_label(questions.labels, self._flags.positive, model=name)
        elif trained is None and sorted(spec.labels) != sorted(questions.labels):
            raise SpecError(
                f"model {name}: `labels` names {', '.join(spec.labels)}, and the task has "
                f"{', '.join(questions.labels)}; name the checkpoint's label for each of these"
            )

    def _identify(self) -> tuple[str, str | None]:
        """Digest of the trained checkpoint's card; or the version, and its labels or flags."""
        if self._trained is not None:
            card = self._trained.card.digest
            return f"classifier@{card}", card[:7]
        settings = digest((self._flags or self._spec.labels, self._spec.max_tokens))[:12]
        return f"classifier:{self._checkpoint.origin}|{settings}", self._checkpoint.version[:7]

    def _labelled(self, asked: Sequence[label_names.LabelQuestion]) -> Iterator[Response]:
        """The responses, texts of like length together."""
        texts = sorted(asked, key=lambda one: (len(one.text or ""), one.text or ""))
        batches = [*chunks(texts, self._spec.batch)]
        found = self._computed([one.text or "" for one in batch] for batch in batches)
        for batch, rows in zip(batches, found, strict=True):
            for one, values in zip(batch, rows, strict=True):
                yield self._response(one, dict(zip(self._outputs, values, strict=True)))

    def compute(self, part: Part) -> list[list[float]]:
        """The log-probability of each output for each text; with flags the probability of each."""
        with torch.inference_mode():
            found = logits(self._network, part).double()
            values = found.log_softmax(dim=1) if self._flags is None else found.sigmoid()
            rows: list[list[float]] = values.tolist()
        return rows

    @property
    def needs(self) -> Needs:
        """What a copy takes on the device of the YAML."""
        return Needs.on(device_of(self._spec.device))

    def _response(self, asked: label_names.LabelQuestion, values: Mapping[str, float]) -> Response:
        if self._flags is None:
            detail = self._trained.details([asked.text or ""])[0] if self._trained else {}
            return label_names.with_probabilities(
                asked, {name: values[name] for name in asked.labels}, detail
            )
        positive, counted = self._flags.positive, self._flags.outputs or self._outputs
        flags = {name: value >= self._flags.threshold for name, value in values.items()}
        detail = dict(values)
        detail |= {label_names.FLAGGED.format(name): float(on) for name, on in flags.items()}
        detail[label_names.SCORE.format(positive)] = max(values[name] for name in counted)
        negative = label_names.other_label(asked.labels, positive, model=self.name)
        is_flagged = any(flags[name] for name in counted)
        return label_names.chosen(asked, positive if is_flagged else negative, detail)

    @cached_property
    def _checkpoint(self) -> ResolvedCheckpoint:
        return resolve(self._spec.model, revision=self._spec.revision)

    @cached_property
    def _network(self) -> Network:
        source, commit = self._source
        network = opened(source, self._spec, commit=commit)
        network[0].eval()  # type: ignore[no-untyped-call]  # transformers'
        return network

    @property
    def _source(self) -> tuple[str, str | None]:
        """Where the checkpoint is, and its commit on the hub; None for a folder."""
        if self._trained is not None:
            return str(self._trained.folder / CHECKPOINT), None
        return self._checkpoint.source, self._checkpoint.commit

    @cached_property
    def _outputs(self) -> list[str]:
        """What each output stands for: the task's label where one is named, else its own name."""
        from transformers import AutoConfig

        source, commit = self._source
        with explain(source):
            config = AutoConfig.from_pretrained(source, revision=commit or "main")
        own = sorted((int(at), str(name)) for at, name in (config.id2label or {}).items())
        names = [name for _, name in own]
        labels = {} if self._trained else self._spec.labels
        wanted = self._flags.outputs if self._flags else labels.values()
        if unknown := [name for name in wanted if name not in names]:
            what = "output" if self._flags else "label"
            raise ModelError(
                f"model {self.name}: the checkpoint has no {what} {unknown[0]!r}, it has "
                f"{', '.join(names)}; correct `{what}s`"
            )
        ours = {own_name: label for label, own_name in labels.items()}
        return [ours.get(name, name) for name in names]
