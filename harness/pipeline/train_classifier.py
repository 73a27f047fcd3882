"""Tables of labelled texts to trained classifiers, each in a folder of its own.

Trains what a model's YAML says on the texts that `lessons` reads, and writes weights and card.
Nothing here evaluates: the run does, on other texts.
"""

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
from msgspec import UNSET

from harness.errors import DataError, ModelError, SpecError
from harness.models.encoders.encoders import CachedEncoder
from harness.models.local.classifiers import (
    ClassifierCard,
    TrainedClassifier,
    read_trained,
    tune,
    write_trained,
)
from harness.models.local.heads import fit, save_head
from harness.models.vectors import Vectors
from harness.pipeline.lessons import Lesson, TrainOptions, read_lesson, task_of
from harness.pipeline.setup import VECTORS, recipe, trained_folder
from harness.specs.models import ClassifierSpec, SklearnSpec, TrainedSpec
from harness.workspace import Workspace

TrainingProgress = Callable[[str, int, int], None]


def train(
    workspace: Workspace,
    options: TrainOptions,
    progress: TrainingProgress,
    *,
    is_kept: bool = False,
) -> TrainedClassifier:
    """Train a model for a task and keep it; of one seed on one machine's CPU the same, bit for bit.

    Sums on a GPU may differ in their last digits from one training to the next. If `is_kept`, a
    training of the same settings on the same texts is returned as it is.
    """
    options = options.spelled(workspace.registry)
    spec = trainable(workspace, options.model)
    lesson = read_lesson(workspace, options, task_of(workspace, options))
    if missing := [name for at, name in enumerate(lesson.labels) if at not in lesson.places]:
        raise DataError(f"no text of the class {missing[0]!r} to train on; give data that has some")
    is_elsewhere = bool(options.out or spec.trained)
    card = _card(workspace, options, spec, lesson)
    card = replace(card, model=options.model if is_elsewhere else options.label)
    folder = options.out or trained_folder(
        workspace.results, spec, name=card.model, task=options.task
    )
    if is_kept and (trained := _same(folder, card)) is not None:
        return trained
    return _train(workspace, spec, lesson, (card, folder), progress)


def trainable(workspace: Workspace, name: str) -> TrainedSpec:
    """The spec of a model that is trained here; SpecError for another."""
    spec = workspace.registry.load("configs/models", name)
    if not isinstance(spec, TrainedSpec):
        raise SpecError(f"model {name} is not trained here; name one of kind sklearn or classifier")
    if isinstance(spec, ClassifierSpec) and (spec.labels or spec.flags):
        key = "labels" if spec.labels else "flags"
        raise SpecError(
            f"model {name} is used as it is: `{key}` says so; leave that out to train it"
        )
    return spec


def _card(
    workspace: Workspace, options: TrainOptions, spec: TrainedSpec, lesson: Lesson
) -> ClassifierCard:
    """The card of a training that is to be, without the checksums of its files."""
    is_head = isinstance(spec, SklearnSpec)
    encoder = workspace.registry.encoder(spec.encoder) if isinstance(spec, SklearnSpec) else None
    packages = ("scikit-learn", "numpy") if is_head else ("transformers", "torch")
    return ClassifierCard(
        model=options.model,
        kind=str(spec.__struct_config__.tag),
        task=options.task,
        labels=lesson.labels,
        recipe=recipe(spec, encoder),
        seed=options.seed,
        data=lesson.data.label,
        files=lesson.data.files,
        text=lesson.column,
        rows=lesson.rows,
        made=lesson.made,
        checksums={},
        versions={name: version(name) for name in packages},
        repeated=lesson.repeated or UNSET,
    )


def _same(folder: Path, card: ClassifierCard) -> TrainedClassifier | None:
    """The training in a folder if its card says what this one says; None for another, or none."""
    try:
        trained = read_trained(folder, model=card.model, task=card.task)
    except ModelError:
        return None
    known = {name: text for name, text in trained.card.versions.items() if name != BASE}
    return trained if replace(trained.card, checksums={}, versions=known) == card else None


BASE = "base"
"""The entry of a card's versions that names the checkpoint which the training began with."""


def _train(
    workspace: Workspace,
    spec: TrainedSpec,
    lesson: Lesson,
    place: tuple[ClassifierCard, Path],
    progress: TrainingProgress,
) -> TrainedClassifier:
    card, folder = place
    if isinstance(spec, SklearnSpec):
        encoder = workspace.registry.encoder(spec.encoder)
        cached = CachedEncoder(encoder, workspace.registry.cache / VECTORS, progress)
        encoded = _encoded(cached, lesson)
        files = [save_head(fit(encoded, lesson.places, spec, seed=card.seed), folder)]
        return write_trained(folder, card, lesson.texts, files)
    tuned, origin = tune(lesson, spec, folder, seed=card.seed, progress=progress)
    card = replace(card, versions={**card.versions, BASE: origin})
    return write_trained(folder, card, lesson.texts, tuned)


def _encoded(encoder: CachedEncoder, lesson: Lesson) -> Vectors:
    """The vectors of the texts, in their order, encoded part by part.

    Vectors are stored by batches: another augmentation of the same texts finds those of each part.
    """
    places: dict[tuple[str, str], list[int]] = {}
    for at, part in enumerate(lesson.parts):
        places.setdefault(part, []).append(at)
    found = [encoder.encode([lesson.texts[at] for at in own]) for own in places.values()]
    order = np.argsort([at for own in places.values() for at in own])
    return np.concatenate(found)[order]
