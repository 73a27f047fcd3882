"""Labelled texts to trained classifiers in folders, and requests to choose to their scores.

A head reads an encoder's vectors: a logistic regression gives log-probabilities, a support vector
machine its choice. Both it and a sequence classifier read the text and no prompt. Training texts
are kept as fingerprints and sketches, so that an evaluation on them or on near copies is noticed;
no pickles.
"""

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.core import Response, Sample
from harness.data.readers.labelled_table import LABEL
from harness.errors import ModelError, SpecError
from harness.lazy import PreTrainedModel, PreTrainedTokenizerBase, Tensor, torch
from harness.models import labels as label_names
from harness.models.extras import require
from harness.models.labels import NEARLY, TRAINED_ON
from harness.models.local.checkpoints import checksum, device_of, explain, resolve
from harness.models.local.heads import Arrays, load_head, log_shares, scores
from harness.models.vectors import Progress, Vectors, chunks, without_surrogates
from harness.parts import digest
from harness.specs.models import ClassifierSpec
from harness.storage.cells import decode_json
from harness.storage.files import inside, write_whole
from harness.storage.runs import DataEntry
from harness.text.dedup import MOST_SKETCHES, SKETCH, are_like, fingerprint, sketches

_log = logging.getLogger(__name__)
BATCH = 2048
CARD, TEXTS, SKETCHES, CHECKPOINT = "card.json", "texts.txt", "sketches.bin", "checkpoint"
NEARLY_SEEN = 0.1  # the share of a label's texts nearly trained on from which a figure is suspect


@dataclass(frozen=True, slots=True)
class ClassifierCard:
    """What a classifier was trained on, and how.

    `labels` are in the order of its scores, `rows` counts texts by label, as often as they are
    trained on, `made` the augmented ones among them by method. `recipe` is all in the YAML that
    changes the weights.
    """

    model: str
    kind: str
    task: str
    labels: tuple[str, ...]
    recipe: str
    seed: int
    data: str
    files: Mapping[str, str]
    text: str
    rows: Mapping[str, int]
    made: Mapping[str, int]
    checksums: Mapping[str, str]
    versions: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Digest of the whole card, with the checksums of weights and texts."""
        return digest(self)


@dataclass(frozen=True, slots=True)
class TrainedClassifier:
    """A trained classifier's folder, its card, and the fingerprints of its texts.

    `sketches` show near copies; None if it was trained before they were kept. `known` has, by
    fingerprint, whether a text asked for so far is one.
    """

    folder: Path
    card: ClassifierCard
    texts: frozenset[str]
    sketches: NDArray[np.uint8] | None
    known: dict[str, bool] = field(default_factory=dict)

    def details(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """The detail of a response to each text: TRAINED_ON if it was trained on it, or NEARLY."""
        words = [fingerprint(text) for text in texts]
        new = {one: text for one, text in zip(words, texts, strict=True) if one not in self.known}
        if new and self.sketches is not None:
            is_near = are_like([*new.values()], self.sketches)
            self.known.update(zip(new, is_near, strict=True))
        return [
            {TRAINED_ON: 1.0} if one in self.texts else {NEARLY: 1.0} if self.known.get(one) else {}
            for one in words
        ]


def write_trained(
    folder: Path, card: ClassifierCard, texts: Iterable[str], weights: Sequence[Path]
) -> TrainedClassifier:
    """Write texts and card into the folder of the weights; the card, written last, completes it."""
    own = {fingerprint(text): text for text in texts}
    seen = dict(sorted(own.items()))
    kept = sketches([*seen.values()][:MOST_SKETCHES])
    write_whole(folder / TEXTS, "".join(f"{one}\n" for one in seen).encode())
    write_whole(folder / SKETCHES, kept.tobytes())
    files = [*weights, folder / TEXTS, folder / SKETCHES]
    sums = {path.relative_to(folder).as_posix(): checksum(path) for path in files}
    card = replace(card, checksums=sums)
    content = msgspec.json.format(msgspec.json.encode(card, order="deterministic"), indent=2)
    write_whole(folder / CARD, content + b"\n")
    return TrainedClassifier(folder, card, frozenset(seen), kept)


def read_trained(folder: Path, *, model: str, task: str) -> TrainedClassifier:
    """Read a folder; every file must match the checksum on the card."""
    train = f"`harness train {model} --task {task} --data DIR` trains it"
    path = folder / CARD
    if not path.is_file():
        fact = f"model {model} is not trained for task {task} ({path} is missing)"
        raise ModelError(f"{fact}; {train}")
    try:
        card = decode_json(path.read_bytes(), ClassifierCard)
        checksums = {name: checksum(inside(folder, name)) for name in card.checksums}
        seen = (folder / TEXTS).read_text("utf-8").split()
        is_kept = SKETCHES in checksums
        kept = np.fromfile(folder / SKETCHES, np.uint8).reshape(-1, SKETCH) if is_kept else None
    except (OSError, msgspec.DecodeError, ValueError) as error:
        raise ModelError(f"{folder}: damaged ({error}); {train} again") from error
    if changed := [name for name in checksums if checksums[name] != card.checksums[name]]:
        raise ModelError(f"{folder}: {changed[0]} is not the file of its card; {train} again")
    return TrainedClassifier(folder, card, frozenset(seen), kept)


def check_fit(trained: TrainedClassifier, labels: Sequence[str], samples: Sequence[Sample]) -> None:
    """Refuse a task of other labels, and samples that are mostly training texts."""
    card = trained.card
    if sorted(card.labels) != sorted(labels):
        fact = f"trained for the labels {', '.join(card.labels)}, and the task has"
        raise SpecError(f"{trained.folder}: {fact} {', '.join(labels)}; train it for this task")
    details = trained.details([label_names.shown(sample) for sample in samples])
    seen = sum(TRAINED_ON in one for one in details)
    fact = f"model {card.model} was trained on {seen} of these {len(samples)} texts"
    if 2 * seen > len(samples):
        raise SpecError(f"{fact}: what it makes of them says nothing; evaluate on other data")
    if seen:
        _log.warning("%s, by their words: their answers say %s", fact, TRAINED_ON)
    if trained.sketches is None:
        fact = f"model {card.model} was trained by an earlier version, which kept no sketches of"
        _log.warning("%s its texts: near copies are not noticed; train it again", fact)
    _warn_of_near(card.model, samples, details)


def _warn_of_near(
    model: str, samples: Sequence[Sample], details: Sequence[Mapping[str, float]]
) -> None:
    """Warn where many texts of a label share six in ten words with a text trained on."""
    names = [sample.references.get(LABEL, ("",))[0] for sample in samples]
    near = Counter(name for name, own in zip(names, details, strict=True) if NEARLY in own)
    counts = Counter(names)
    if any(near[name] > NEARLY_SEEN * counts[name] for name in near):
        of = ", ".join(f"{name or 'texts'} {near[name]} of {counts[name]}" for name in near)
        fact = f"{near.total()} of these {len(samples)} texts ({of}) share about six in ten words"
        more = f"to find them says little of new texts; their answers say {NEARLY}"
        _log.warning("%s with a text that model %s was trained on: %s", fact, model, more)


class SklearnModel(label_names.TextLabeller):
    """A trained head on the vectors of an encoder."""

    kind = "sklearn"

    def __init__(
        self,
        name: str,
        trained: TrainedClassifier,
        questions: label_names.LabelQuestions,
        *,
        encode: Callable[[list[str]], Vectors],
        has_odds: bool,
    ) -> None:
        """Answer `questions` by a trained head; `has_odds` says its scores are log-odds."""
        self.name, self._trained, self._questions = name, trained, questions
        self._encode, self._has_odds = encode, has_odds
        self.identity = f"sklearn@{trained.card.digest}"
        self.revision: str | None = trained.card.digest[:7]

    def resolve(self) -> None:
        """Do nothing: the training has a digest."""

    def _labelled(self, asked: Sequence[label_names.LabelQuestion]) -> Iterator[Response]:
        for batch in chunks(asked, BATCH):
            rows = self._encode([one.text or "" for one in batch])
            found = scores(self._head, rows)
            values_by_class = log_shares(found) if self._has_odds else found
            details = self._trained.details([one.text or "" for one in batch])
            for one, values, own in zip(batch, values_by_class.tolist(), details, strict=True):
                by_label = dict(zip(self._trained.card.labels, values, strict=True))
                yield self._response(one, by_label, own)

    @cached_property
    def _head(self) -> Arrays:
        return load_head(self._trained.folder, len(self._trained.card.labels))

    def _response(
        self, asked: label_names.LabelQuestion, by_label: dict[str, float], detail: dict[str, float]
    ) -> Response:
        if self._has_odds:
            return label_names.with_probabilities(asked, by_label, detail)
        detail |= {label_names.SCORE.format(label): value for label, value in by_label.items()}
        return label_names.chosen(asked, max(by_label, key=lambda label: by_label[label]), detail)


@dataclass(frozen=True, slots=True)
class Lesson:
    """Texts to learn from, each with the place of its label, from 0; and what a card says of them.

    `parts` names for each text its label and the method that made it.
    """

    texts: tuple[str, ...]
    places: tuple[int, ...]
    labels: tuple[str, ...]
    parts: tuple[tuple[str, str], ...]
    rows: dict[str, int]
    made: dict[str, int]
    data: DataEntry
    column: str


Network = tuple[PreTrainedModel, PreTrainedTokenizerBase, int]
"""A loaded sequence classifier, its tokenizer, and how many tokens it reads."""


def logits(network: Network, texts: Sequence[str]) -> Tensor:
    """Score texts in one batch: [texts, classes]."""
    model, tokenizer, most = network
    clean = [without_surrogates(text) for text in texts]
    cut = {"truncation": True, "max_length": most, "padding": True}
    batch = tokenizer(clean, return_tensors="pt", **cut)
    found: Tensor = model(**batch.to(model.device)).logits
    return found


def tune(
    examples: Lesson, spec: ClassifierSpec, folder: Path, *, seed: int, progress: Progress
) -> tuple[tuple[Path, ...], str]:
    """Train a checkpoint and save it below a folder: its files, and the version of its base."""
    require("torch", "transformers")
    base = resolve(spec.model, revision=spec.revision)
    # The caller's random state is restored.
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = opened(base.source, spec, commit=base.commit, labels=examples.labels)
        _train(network, examples, spec, seed=seed, progress=progress)
    return _saved(network, folder), base.version


def opened(
    source: str, spec: ClassifierSpec, *, commit: str | None, labels: Sequence[str] = ()
) -> Network:
    """Load a checkpoint as a classifier; `labels` give it a head for them, new where needed."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    options: dict[str, Any] = {"dtype": torch.float32, "output_loading_info": True}
    if labels:
        options |= {"num_labels": len(labels), "ignore_mismatched_sizes": True}
        options["id2label"] = dict(enumerate(labels))
        options["label2id"] = {name: at for at, name in enumerate(labels)}
    kind, revision = AutoModelForSequenceClassification, commit or "main"
    with explain(source):
        tokenizer = AutoTokenizer.from_pretrained(source, revision=revision)
        model, loading = kind.from_pretrained(source, revision=revision, **options)
    if not labels and (missing := sorted(loading["missing_keys"])):
        raise ModelError(
            f"{source}: {missing[0]} and {len(missing) - 1} other weights of the classifier are "
            "not in the checkpoint; train it first"
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
        model.config.pad_token_id = tokenizer.pad_token_id
    model.to(device_of(spec.device))
    places = getattr(model.config, "max_position_embeddings", None) or sys.maxsize
    # RoBERTa and its kin leave the first two places to padding.
    most = min(spec.max_tokens, tokenizer.model_max_length, places - 2)
    return model, tokenizer, most


def _train(
    network: Network, examples: Lesson, spec: ClassifierSpec, *, seed: int, progress: Progress
) -> None:
    model, count = network[0], len(examples.texts)
    draws = (Random(f"{seed}:{epoch}") for epoch in range(spec.epochs))  # noqa: S311 - no secret
    batches = (part for d in draws for part in chunks(d.sample(range(count), count), spec.batch))
    steps = spec.epochs * -(-count // spec.batch)
    weights = list(model.parameters())
    groups = [  # biases and norms, which have one dimension, do not decay
        {"params": [w for w in weights if w.ndim >= 2], "weight_decay": spec.weight_decay},
        {"params": [w for w in weights if w.ndim < 2], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=spec.learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: max(0.0, 1 - step / steps))
    model.train()
    for step, batch in enumerate(batches, 1):
        wanted = torch.tensor([examples.places[at] for at in batch], device=model.device)
        found = logits(network, [examples.texts[at] for at in batch])
        loss = torch.nn.functional.cross_entropy(found.float(), wanted)
        if not torch.isfinite(loss):
            fact = f"training broke at step {step}: its loss is {loss.item()}"
            raise ModelError(f"{fact}; lower the learning_rate")
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
        progress("training steps", step, steps)
    model.eval()  # type: ignore[no-untyped-call]  # transformers'


def _saved(network: Network, folder: Path) -> tuple[Path, ...]:
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / CHECKPOINT
    with TemporaryDirectory(dir=folder) as temporary:
        fresh = Path(temporary) / CHECKPOINT
        for part in network[:2]:
            part.save_pretrained(fresh)
        if target.is_dir():
            rmtree(target)
        fresh.replace(target)
    return tuple(sorted(target.iterdir()))
