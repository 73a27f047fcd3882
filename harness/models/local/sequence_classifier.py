"""Requests to choose among labels to the log-probabilities of a transformers sequence classifier.

Trained by the harness, or a checkpoint as it is whose own labels the YAML names. It reads the text
and no prompt.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from harness.core import Request, Response
from harness.errors import ModelError, SpecError
from harness.models.labels import Asked, Questions, alike, batched, probable
from harness.models.local.checkpoints import Settled, settle
from harness.models.local.fine_tuning import CHECKPOINT, Reader, opened
from harness.models.local.trained import TRAINED_ON, Trained
from harness.parts import Mode, digest
from harness.specs.models import ClassifierSpec

if TYPE_CHECKING:
    from torch import Tensor


class SequenceClassifier:
    """A sequence classifier on this machine."""

    kind = "classifier"
    modes = frozenset({Mode.CHOOSE})

    def __init__(
        self, name: str, spec: ClassifierSpec, questions: Questions, trained: Trained | None
    ) -> None:
        """Answer `questions` by what was trained, or without it by the checkpoint as it is."""
        self.name = name
        self._spec = spec
        self._questions = questions
        self._trained = trained
        if trained is None and sorted(spec.labels) != sorted(questions.labels):
            raise SpecError(
                f"model {name}: `labels` names {', '.join(spec.labels)}, and the task has "
                f"{', '.join(questions.labels)}; name the checkpoint's label for each of these"
            )

    @cached_property
    def identity(self) -> str:
        """Digest of the card of what was trained; or the checkpoint's version and its labels."""
        if self._trained is not None:
            return f"classifier@{self._trained.card.digest}"
        found, spec = self._settled, self._spec
        name = "folder" if found.commit is None else found.source
        return f"classifier:{name}@{found.version}|{digest((spec.labels, spec.max_tokens))[:12]}"

    @property
    def revision(self) -> str | None:
        """The first digits of what tells it from others."""
        if self._trained is not None:
            return self._trained.card.digest[:7]
        return self._settled.version[:7]

    def text_of(self, request: Request) -> str | None:
        """The text it would read; null at a step that shows none."""
        return self._questions.asked(request).text

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once, texts of like length together."""
        asked = [self._questions.asked(request) for request in requests]
        yield from (alike(one) for one in asked if one.text is None)
        texts = sorted((one for one in asked if one.text is not None), key=_length)
        for part in batched(texts, self._spec.batch):
            rows = self._shares([one.text or "" for one in part]).tolist()
            for one, values in zip(part, rows, strict=True):
                by_label = dict(zip(self._labels, values, strict=True))
                is_seen = self._trained is not None and self._trained.has_seen(one.text or "")
                detail = {TRAINED_ON: 1.0} if is_seen else {}
                yield probable(one, {name: by_label[name] for name in one.labels}, detail)

    @cached_property
    def _settled(self) -> Settled:
        """The version of a checkpoint that is used as it is."""
        return settle(self._spec.model, revision=self._spec.revision)

    @cached_property
    def _reader(self) -> Reader:
        """The loaded classifier."""
        if self._trained is not None:
            found = opened(str(self._trained.folder / CHECKPOINT), self._spec, commit=None)
        else:
            found = opened(self._settled.source, self._spec, commit=self._settled.commit)
        found.model.eval()  # type: ignore[no-untyped-call]  # transformers'
        return found

    @cached_property
    def _labels(self) -> list[str]:
        """The task's label of each class of the checkpoint; its own name where no label has it."""
        own = self._reader.model.config.id2label or {}
        names = [str(name) for _, name in sorted((int(at), name) for at, name in own.items())]
        if self._trained is not None:
            return names
        if lost := [name for name in self._spec.labels.values() if name not in names]:
            raise ModelError(
                f"model {self.name}: the checkpoint has no label {lost[0]!r}, it has "
                f"{', '.join(names)}; correct `labels`"
            )
        ours = {theirs: label for label, theirs in self._spec.labels.items()}
        return [ours.get(name, name) for name in names]

    def _shares(self, texts: list[str]) -> "Tensor":
        """The log-probability of each class for each text, in nats."""
        import torch

        with torch.inference_mode():
            return torch.log_softmax(self._reader.logits(texts).double(), dim=1)


def _length(asked: Asked) -> tuple[int, str]:
    return len(asked.text or ""), asked.text or ""
