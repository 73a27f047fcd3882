"""Requests to choose among labels to the log-probabilities of a transformers sequence classifier.

The harness trained it, or it is a checkpoint whose own labels the YAML names. It reads the text and
no prompt.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from harness.core import Request, Response
from harness.errors import ModelError, SpecError
from harness.models.extras import require
from harness.models.identity import Resolvable
from harness.models.labels import (
    LabelQuestion,
    LabelQuestions,
    undecided,
    with_probabilities,
)
from harness.models.local.checkpoints import ResolvedCheckpoint, device_of, explain, resolve
from harness.models.local.trained import TRAINED_ON, TrainedClassifier
from harness.models.vectors import Progress, chunks, without_surrogates
from harness.parts import Mode, digest
from harness.specs.models import ClassifierSpec

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class LabelledTexts:
    """Texts to train on, each with the place of its label, from 0."""

    texts: tuple[str, ...]
    places: tuple[int, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TunedClassifier:
    """The files of a trained checkpoint, and the exact version of its base."""

    files: tuple[Path, ...]
    base: str


@dataclass(frozen=True, slots=True)
class ClassifierNetwork:
    """A loaded sequence classifier with its tokenizer."""

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    max_tokens: int

    def logits(self, texts: Sequence[str]) -> "Tensor":
        """Score texts in one batch: [texts, classes]."""
        batch = self.tokenizer(
            [without_surrogates(text) for text in texts],
            truncation=True,
            max_length=self.max_tokens,
            padding=True,
            return_tensors="pt",
        )
        logits: Tensor = self.model(**batch.to(self.model.device)).logits
        return logits


def tune(
    examples: LabelledTexts,
    spec: ClassifierSpec,
    folder: Path,
    *,
    seed: int,
    progress: Progress,
) -> TunedClassifier:
    """Train a checkpoint on the examples; save it below a folder, as safetensors."""
    import torch

    require("torch", "transformers")
    base = resolve(spec.model, revision=spec.revision)
    # The caller's random state is restored.
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = opened(base.source, spec, commit=base.commit, labels=examples.labels)
        _train(network, examples, spec, seed=seed, progress=progress)
    return TunedClassifier(_saved(network, folder), base.version)


def opened(
    source: str, spec: ClassifierSpec, *, commit: str | None, labels: Sequence[str] = ()
) -> ClassifierNetwork:
    """Load a checkpoint as a classifier; `labels` give it a head for them, new where needed.

    Without labels every weight must be in the checkpoint, the head's too.
    """
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    names: dict[str, Any] = {}
    if labels:
        by_place = dict(enumerate(labels))
        names = {"id2label": by_place, "label2id": {name: at for at, name in by_place.items()}}
        names |= {"num_labels": len(labels), "ignore_mismatched_sizes": True}
    with explain(source):
        tokenizer = AutoTokenizer.from_pretrained(source, revision=commit or "main")
        model, loading = AutoModelForSequenceClassification.from_pretrained(
            source,
            revision=commit or "main",
            dtype=torch.float32,
            output_loading_info=True,
            **names,
        )
    if not labels and (missing := sorted(loading["missing_keys"])):
        raise ModelError(
            f"{source}: {missing[0]} and {len(missing) - 1} other weights of the classifier are "
            "not in the checkpoint; train it first"
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
        model.config.pad_token_id = tokenizer.pad_token_id
    model.to(device_of(spec.device))
    return ClassifierNetwork(model, tokenizer, _room(model, tokenizer, spec.max_tokens))


def _room(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", wanted: int) -> int:
    """The most tokens read of a text: `wanted`, or the checkpoint's places if fewer."""
    places = getattr(model.config, "max_position_embeddings", None)
    # RoBERTa and its kin leave the first two places to padding.
    return min(wanted, tokenizer.model_max_length, places - 2 if places else wanted)


def _train(
    network: ClassifierNetwork,
    examples: LabelledTexts,
    spec: ClassifierSpec,
    *,
    seed: int,
    progress: Progress,
) -> None:
    import torch

    steps = spec.epochs * -(-len(examples.texts) // spec.batch)
    optimiser = torch.optim.AdamW(_groups(network.model, spec), lr=spec.learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: max(0.0, 1 - step / steps))
    network.model.train()
    for step, batch in enumerate(_batches(len(examples.texts), spec, seed), 1):
        wanted = torch.tensor([examples.places[at] for at in batch], device=network.model.device)
        logits = network.logits([examples.texts[at] for at in batch])
        loss = torch.nn.functional.cross_entropy(logits.float(), wanted)
        if not torch.isfinite(loss):
            raise ModelError(
                f"training broke at step {step}: its loss is {loss.item()}; lower the learning_rate"
            )
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        torch.nn.utils.clip_grad_norm_(network.model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
        progress("training steps", step, steps)
    network.model.eval()  # type: ignore[no-untyped-call]  # transformers'


def _groups(model: "PreTrainedModel", spec: ClassifierSpec) -> list[dict[str, Any]]:
    # Biases and norms, which have one dimension, do not decay.
    weights = list(model.parameters())
    return [
        {"params": [w for w in weights if w.ndim >= 2], "weight_decay": spec.weight_decay},
        {"params": [w for w in weights if w.ndim < 2], "weight_decay": 0.0},
    ]


def _batches(count: int, spec: ClassifierSpec, seed: int) -> Iterator[list[int]]:
    for epoch in range(spec.epochs):
        order = Random(f"{seed}:{epoch}").sample(range(count), count)  # noqa: S311 - a reproducible order
        yield from chunks(order, spec.batch)


def _saved(network: ClassifierNetwork, folder: Path) -> tuple[Path, ...]:
    """Write the checkpoint to a temporary folder, then replace an earlier one."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / CHECKPOINT
    with TemporaryDirectory(dir=folder) as temporary:
        fresh = Path(temporary) / CHECKPOINT
        network.model.save_pretrained(fresh)
        network.tokenizer.save_pretrained(fresh)
        if target.is_dir():
            rmtree(target)
        fresh.replace(target)
    return tuple(sorted(target.iterdir()))


class SequenceClassifier(Resolvable):
    """A sequence classifier on this machine."""

    kind = "classifier"
    modes = frozenset({Mode.CHOOSE})

    def __init__(
        self,
        name: str,
        spec: ClassifierSpec,
        questions: LabelQuestions,
        trained: TrainedClassifier | None,
    ) -> None:
        """Answer `questions` by a trained checkpoint, or without one by the YAML's."""
        self.name = name
        self._spec = spec
        self._questions = questions
        self._trained = trained
        if trained is None and sorted(spec.labels) != sorted(questions.labels):
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

    def text_of(self, request: Request) -> str | None:
        """The text it reads; None at a step that shows none."""
        return self._questions.question(request).text

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once, texts of like length together."""
        asked = [self._questions.question(request) for request in requests]
        yield from (undecided(one) for one in asked if one.text is None)
        texts = sorted((one for one in asked if one.text is not None), key=_length)
        for batch in chunks(texts, self._spec.batch):
            rows = self._shares([one.text or "" for one in batch]).tolist()
            for one, values in zip(batch, rows, strict=True):
                by_label = dict(zip(self._labels, values, strict=True))
                is_seen = self._trained is not None and self._trained.has_seen(one.text or "")
                detail = {TRAINED_ON: 1.0} if is_seen else {}
                yield with_probabilities(one, {name: by_label[name] for name in one.labels}, detail)

    @cached_property
    def _checkpoint(self) -> ResolvedCheckpoint:
        return resolve(self._spec.model, revision=self._spec.revision)

    @cached_property
    def _network(self) -> ClassifierNetwork:
        if self._trained is not None:
            network = opened(str(self._trained.folder / CHECKPOINT), self._spec, commit=None)
        else:
            network = opened(self._checkpoint.source, self._spec, commit=self._checkpoint.commit)
        network.model.eval()  # type: ignore[no-untyped-call]  # transformers'
        return network

    @cached_property
    def _labels(self) -> list[str]:
        """The task's label of each class; the class's own name where no label has it."""
        own = self._network.model.config.id2label or {}
        names = [str(name) for _, name in sorted((int(at), name) for at, name in own.items())]
        if self._trained is not None:
            return names
        if unknown := [name for name in self._spec.labels.values() if name not in names]:
            raise ModelError(
                f"model {self.name}: the checkpoint has no label {unknown[0]!r}, it has "
                f"{', '.join(names)}; correct `labels`"
            )
        ours = {own_name: label for label, own_name in self._spec.labels.items()}
        return [ours.get(name, name) for name in names]

    def _shares(self, texts: list[str]) -> "Tensor":
        """The log-probability of each class for each text, in nats."""
        import torch

        with torch.inference_mode():
            return torch.log_softmax(self._network.logits(texts).double(), dim=1)


def _length(asked: LabelQuestion) -> tuple[int, str]:
    return len(asked.text or ""), asked.text or ""
