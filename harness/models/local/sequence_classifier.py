"""Requests to choose among labels to the log-probabilities of a transformers sequence classifier.

Trained by the harness, or a checkpoint as it is whose own labels the YAML names. It reads the text
and no prompt.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
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
from harness.models.labels import (
    LabelQuestion,
    LabelQuestions,
    batched,
    undecided,
    with_probabilities,
)
from harness.models.local.checkpoints import ResolvedCheckpoint, explain, resolve
from harness.models.local.trained import TRAINED_ON, TrainedClassifier
from harness.models.vectors import without_surrogates
from harness.parts import Mode, digest
from harness.specs.models import ClassifierSpec

if TYPE_CHECKING:
    from torch import Tensor

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


TrainingProgress = Callable[[str, int, int], None]
CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class LabelledTexts:
    """Texts to learn from, each with the place of its label, from 0."""

    texts: tuple[str, ...]
    places: tuple[int, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TunedClassifier:
    """The files of a trained checkpoint, and the exact version of what it was trained from."""

    files: tuple[Path, ...]
    base: str


@dataclass(frozen=True, slots=True)
class ClassifierNetwork:
    """A sequence classifier with its tokenizer, ready to read texts."""

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    max_tokens: int

    def logits(self, texts: Sequence[str]) -> "Tensor":
        """Texts x classes, in one batch."""
        read = self.tokenizer(
            [without_surrogates(text) for text in texts],
            truncation=True,
            max_length=self.max_tokens,
            padding=True,
            return_tensors="pt",
        )
        found: Tensor = self.model(**read.to(self.model.device)).logits
        return found


def tune(
    examples: LabelledTexts,
    spec: ClassifierSpec,
    folder: Path,
    *,
    seed: int,
    progress: TrainingProgress,
) -> TunedClassifier:
    """Train a checkpoint on the examples and keep it below a folder, as safetensors."""
    import torch

    require("torch", "transformers")
    found = resolve(spec.model, revision=spec.revision)
    # What is drawn comes from a state of its own: whoever called has theirs back.
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        reader = opened(found.source, spec, commit=found.commit, labels=examples.labels)
        _train(reader, examples, spec, seed=seed, progress=progress)
    return TunedClassifier(_saved(reader, folder), found.version)


def opened(
    source: str, spec: ClassifierSpec, *, commit: str | None, labels: Sequence[str] = ()
) -> ClassifierNetwork:
    """A checkpoint as a classifier; with `labels` under a head for them, new where it must be.

    Without labels every weight must be in the checkpoint, its head's too.
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
    cuda = torch.cuda.is_available() and spec.device != "cpu"
    model.to("cuda" if cuda or spec.device == "cuda" else "cpu")
    return ClassifierNetwork(model, tokenizer, _room(model, tokenizer, spec.max_tokens))


def _room(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", wanted: int) -> int:
    """The most tokens of a text that are read: as many as wanted, if the checkpoint has places."""
    places = getattr(model.config, "max_position_embeddings", None)
    # RoBERTa and its kin leave the first two places to padding.
    return min(wanted, tokenizer.model_max_length, places - 2 if places else wanted)


def _train(
    reader: ClassifierNetwork,
    examples: LabelledTexts,
    spec: ClassifierSpec,
    *,
    seed: int,
    progress: TrainingProgress,
) -> None:
    """Take every step of every epoch."""
    import torch

    steps = spec.epochs * -(-len(examples.texts) // spec.batch)
    optimiser = torch.optim.AdamW(_groups(reader.model, spec), lr=spec.learning_rate)
    falling = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: max(0.0, 1 - step / steps))
    reader.model.train()
    for step, batch in enumerate(_batches(len(examples.texts), spec, seed), 1):
        wanted = torch.tensor([examples.places[at] for at in batch], device=reader.model.device)
        logits = reader.logits([examples.texts[at] for at in batch])
        loss = torch.nn.functional.cross_entropy(logits.float(), wanted)
        if not torch.isfinite(loss):
            raise ModelError(
                f"training broke at step {step}: its loss is {loss.item()}; lower the learning_rate"
            )
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        torch.nn.utils.clip_grad_norm_(reader.model.parameters(), 1.0)
        optimiser.step()
        falling.step()
        optimiser.zero_grad()
        progress("training steps", step, steps)
    reader.model.eval()  # type: ignore[no-untyped-call]  # transformers'


def _groups(model: "PreTrainedModel", spec: ClassifierSpec) -> list[dict[str, Any]]:
    """The weights that decay, and biases and norms, which do not."""
    named = list(model.named_parameters())
    is_plain = [value.ndim < 2 for _, value in named]
    decays = [value for (_, value), plain in zip(named, is_plain, strict=True) if not plain]
    stays = [value for (_, value), plain in zip(named, is_plain, strict=True) if plain]
    return [
        {"params": decays, "weight_decay": spec.weight_decay},
        {"params": stays, "weight_decay": 0.0},
    ]


def _batches(count: int, spec: ClassifierSpec, seed: int) -> Iterator[list[int]]:
    """The places of each batch: every text once an epoch, in an order of the epoch's own."""
    for epoch in range(spec.epochs):
        order = Random(f"{seed}:{epoch}").sample(range(count), count)  # noqa: S311 - a reproducible order
        yield from (order[start : start + spec.batch] for start in range(0, count, spec.batch))


def _saved(reader: ClassifierNetwork, folder: Path) -> tuple[Path, ...]:
    """Write the checkpoint beside, then put it in the place of an earlier one."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / CHECKPOINT
    with TemporaryDirectory(dir=folder) as part:
        made = Path(part) / CHECKPOINT
        reader.model.save_pretrained(made)
        reader.tokenizer.save_pretrained(made)
        if place.is_dir():
            rmtree(place)
        made.replace(place)
    return tuple(sorted(place.iterdir()))


class SequenceClassifier:
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
        yield from (undecided(one) for one in asked if one.text is None)
        texts = sorted((one for one in asked if one.text is not None), key=_length)
        for part in batched(texts, self._spec.batch):
            rows = self._shares([one.text or "" for one in part]).tolist()
            for one, values in zip(part, rows, strict=True):
                by_label = dict(zip(self._labels, values, strict=True))
                is_seen = self._trained is not None and self._trained.has_seen(one.text or "")
                detail = {TRAINED_ON: 1.0} if is_seen else {}
                yield with_probabilities(one, {name: by_label[name] for name in one.labels}, detail)

    @cached_property
    def _settled(self) -> ResolvedCheckpoint:
        """The version of a checkpoint that is used as it is."""
        return resolve(self._spec.model, revision=self._spec.revision)

    @cached_property
    def _reader(self) -> ClassifierNetwork:
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


def _length(asked: LabelQuestion) -> tuple[int, str]:
    return len(asked.text or ""), asked.text or ""
