"""Tables of labelled texts, and copies of them that were made, to trained classifiers.

A made row is one that the table marks as such, or one of a task that `harness perturb --training`
wrote. A grid is a loop over trainings, each evaluated as a run of its own.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from msgspec import structs

from harness.core import Sample
from harness.data.readers.labelled_table import LABEL, MADE
from harness.errors import DataError, ModelError, SpecError, check_names
from harness.implicitness.open import with_options
from harness.models.encoders.encoders import CachedEncoder
from harness.models.labels import NEARLY, TRAINED_ON, shown
from harness.models.local import classifiers
from harness.models.local.checkpoints import checksum
from harness.models.local.classifiers import ClassifierCard, Lesson
from harness.models.local.heads import FILE, fit, write_arrays
from harness.models.vectors import Progress, Vectors
from harness.pipeline import execute, resolve
from harness.pipeline.choice_scores import F1, MACRO, PRECISION, RECALL
from harness.pipeline.score import ALL
from harness.pipeline.setup import VECTORS, recipe, trained_folder
from harness.pipeline.transforms import BY, FROM
from harness.registry import Registry
from harness.specs.data import TableSpec
from harness.specs.models import ClassifierSpec, SklearnSpec, TrainedSpec
from harness.specs.tasks import TaskSpec
from harness.storage.runs import DataEntry
from harness.workspace import Workspace

BASE = "base"
"""The entry of a card's versions that names the checkpoint which the training began with."""
EVERY, OVERSAMPLED, PLAIN = "all", "oversampled", "none"
"""Augmentations: every method of the table, repeated texts, nothing."""


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """What to train: a model on a task's table, or by another column map `table`.

    Of `augment` each is a method of the table's made rows, `all` of these, or a task that
    `harness perturb --training` made. `is_oversampled` repeats texts of rarer classes.
    """

    model: str
    task: str
    table: str | None = None
    augment: tuple[str, ...] = ()
    seed: int = 0
    out: Path | None = None
    is_oversampled: bool = False

    @property
    def label(self) -> str:
        """The name of what is trained: the model and what its texts are augmented by."""
        return "+".join([self.model, *self.augment, *([OVERSAMPLED] * self.is_oversampled)])

    def spelled(self, registry: Registry) -> "TrainOptions":
        """The same, where the model's name says augmentations, as minilm-svm+bt does."""
        base = registry.file("configs/models", self.model).stem
        if base == self.model:
            return replace(self, augment=tuple(sorted({*self.augment})))
        named = self.model.removeprefix(f"{base}+").split("+")
        augment = tuple(sorted({*self.augment, *named} - {OVERSAMPLED}))
        is_oversampled = self.is_oversampled or OVERSAMPLED in named
        return replace(self, model=base, augment=augment, is_oversampled=is_oversampled)


def task_of(workspace: Workspace, options: TrainOptions) -> TaskSpec:
    """The task to train for, with the column map of the options; SpecError for a perturbed one."""
    task = workspace.registry.load("tasks", options.task)
    task = with_options(task, name=options.task, table=options.table, scorer=None)
    if task.made_of is not None:
        raise SpecError(
            f"task {options.task} was made of {task.made_of}, and what is trained for that one "
            f"answers both: `harness train {options.model} --task {task.made_of}`"
        )
    return task


def training_samples(
    workspace: Workspace, task: TaskSpec, *, name: str, with_made: bool = False
) -> tuple[list[Sample], DataEntry, TableSpec]:
    """The samples of a task's table that classifiers are trained on, made rows only if wanted."""
    if task.data.map is None:
        raise SpecError(f"task {name} reads no table of labelled texts to train on")
    table = workspace.registry.load("configs/tables", task.data.map)
    # The originals of made rows, which only scores need, are not found.
    rule = table.originals
    changed = rule and structs.replace(rule, with_made=with_made, likeness=None)
    samples, data = workspace.training(task.data, structs.replace(table, originals=changed))
    return samples, data, table


def read_lesson(workspace: Workspace, options: TrainOptions) -> Lesson:
    """The texts that a task's table has for training, with made ones by the chosen methods."""
    task = task_of(workspace, options)
    known = workspace.registry.names("tasks")
    own = [name for name in options.augment if name in known]
    methods = [name for name in options.augment if name not in own]
    samples, data, table = training_samples(
        workspace, task, name=options.task, with_made=bool(methods)
    )
    kept = _with_made(samples, table, methods)
    for name in own:
        copies, path = _copies(workspace, name, options.task, samples)
        kept = [*kept, *copies]
        data = replace(data, files={**data.files, path.name: checksum(path)})
    parts = [(sample.references[LABEL][0], _method(sample, table)) for sample in kept]
    names, made = [name for name, _ in parts], Counter(method for _, method in parts if method)
    again = _repeats(names, options.seed) if options.is_oversampled else []
    places = [*range(len(kept)), *again]
    labels = tuple(task.data.choices)
    return Lesson(
        texts=tuple(shown(kept[at]) for at in places),
        places=tuple(labels.index(names[at]) for at in places),
        labels=labels,
        parts=tuple(parts[at] for at in places),
        rows=dict(Counter(names[at] for at in places)),
        made=dict(sorted(made.items())),
        data=data,
        column=table.text,
    )


def _with_made(samples: Sequence[Sample], table: TableSpec, methods: Sequence[str]) -> list[Sample]:
    """The originals, and the made rows of some methods."""
    rule = table.originals
    if methods and (rule is None or rule.column not in table.keep.values()):
        raise SpecError(
            "--augment: the column map does not say which rows were made of others; give it "
            "`originals`, and name that column in `keep`; or name a task that `harness perturb "
            "--training` made"
        )
    known = sorted({_method(one, table) for one in samples if MADE in one.flags})
    check_names("--augment: no method", [one for one in methods if one != EVERY], known)
    chosen = known if EVERY in methods else methods
    return [one for one in samples if MADE not in one.flags or _method(one, table) in chosen]


def _copies(
    workspace: Workspace, name: str, task: str, originals: Sequence[Sample]
) -> tuple[list[Sample], Path]:
    """The perturbed copies of a made task; SpecError unless they are of the texts trained on."""
    spec = workspace.registry.load("tasks", name)
    make = f"make it by `harness perturb --task {task} --training`, of the same data"
    if spec.made_of != task:
        raise SpecError(f"--augment {name}: that task was not made of {task}; {make}")
    path = workspace.registry.resource(spec.data.sample)
    every = workspace.registry.read("samples_jsonl", [path], None)
    copies = [one for one in every if BY in one.references]
    known = {one.id for one in originals}
    if strange := sum(one.references[FROM][0] not in known for one in copies):
        fact = f"{strange} of its {len(copies)} copies are of texts that are not trained on"
        raise SpecError(f"--augment {name}: {fact}; {make}")
    return copies, path


def _repeats(names: Sequence[str], seed: int) -> list[int]:
    """Which texts are repeated, each as often as its class allows, so that classes are equal."""
    counts, found = Counter(names), []
    most = max(counts.values(), default=0)
    for name in sorted(counts):
        own = [at for at, other in enumerate(names) if other == name]
        whole, rest = divmod(most - len(own), len(own))
        drawn = Random(f"{seed}:{name}").sample(own, rest)  # noqa: S311 - a reproducible draw
        found += own * whole + sorted(drawn)
    return found


def _method(sample: Sample, table: TableSpec) -> str:
    """The method that made a sample; empty for an original."""
    if BY in sample.references:
        return sample.references[BY][0]
    rule = table.originals if MADE in sample.flags else None
    names = [name for name, column in table.keep.items() if rule and column == rule.column]
    return sample.references.get(names[0], ("",))[0] if names else ""


def train(
    workspace: Workspace, options: TrainOptions, progress: Progress
) -> classifiers.TrainedClassifier:
    """Train a model for a task and keep it; one of the same settings and texts is kept as it is."""
    options = options.spelled(workspace.registry)
    spec = trainable(workspace, options.model)
    lesson = read_lesson(workspace, options)
    if missing := [name for at, name in enumerate(lesson.labels) if at not in lesson.places]:
        raise DataError(f"no text of the class {missing[0]!r} to train on; give data that has some")
    card = _card(workspace, options, spec, lesson)
    of = {"name": card.model, "task": options.task}
    folder = options.out or trained_folder(workspace.results, spec, **of)
    if (trained := _same(folder, card)) is not None:
        return trained
    if isinstance(spec, SklearnSpec):
        encoder = workspace.registry.encoder(spec.encoder)
        cached = CachedEncoder(encoder, workspace.registry.cache / VECTORS, progress)
        head = fit(_encoded(cached, lesson), lesson.places, spec, seed=card.seed)
        files: Sequence[Path] = [write_arrays(folder / FILE, head)]
    else:
        files, origin = classifiers.tune(lesson, spec, folder, seed=card.seed, progress=progress)
        card = replace(card, versions={**card.versions, BASE: origin})
    return classifiers.write_trained(folder, card, lesson.texts, files)


def trainable(workspace: Workspace, name: str) -> TrainedSpec:
    """The spec of a model that is trained here; SpecError for another."""
    spec = workspace.registry.load("configs/models", name)
    if not isinstance(spec, TrainedSpec):
        raise SpecError(f"model {name} is not trained here; name one of kind sklearn or classifier")
    if isinstance(spec, ClassifierSpec) and (spec.labels or spec.flags):
        key = "labels" if spec.labels else "flags"
        raise SpecError(f"model {name} is used as it is: leave `{key}` out to train it")
    return spec


def _card(
    workspace: Workspace, options: TrainOptions, spec: TrainedSpec, lesson: Lesson
) -> ClassifierCard:
    """The card of a training that is to be, without the checksums of its files."""
    encoder, packages = None, ("transformers", "torch")
    if isinstance(spec, SklearnSpec):
        encoder, packages = workspace.registry.encoder(spec.encoder), ("scikit-learn", "numpy")
    return ClassifierCard(
        model=options.model if options.out or spec.trained else options.label,
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
    )


def _same(folder: Path, card: ClassifierCard) -> classifiers.TrainedClassifier | None:
    """The training in a folder if its card says what this one says; None for another, or none."""
    try:
        trained = classifiers.read_trained(folder, model=card.model, task=card.task)
    except ModelError:
        return None
    if trained.sketches is None:
        return None
    known = {name: text for name, text in trained.card.versions.items() if name != BASE}
    return trained if replace(trained.card, checksums={}, versions=known) == card else None


def _encoded(encoder: CachedEncoder, lesson: Lesson) -> Vectors:
    """The vectors of the texts, in their order; by parts, which other augmentations share."""
    places: dict[tuple[str, str], list[int]] = {}
    for at, part in enumerate(lesson.parts):
        places.setdefault(part, []).append(at)
    found = [encoder.encode([lesson.texts[at] for at in own]) for own in places.values()]
    order = np.argsort([at for own in places.values() for at in own])
    return np.concatenate(found)[order]


def grid(
    workspace: Workspace,
    models: Sequence[str],
    tasks: Sequence[tuple[str, str | None]],
    augment: Sequence[str] = (),
    *,
    base: TrainOptions,
) -> list[TrainOptions]:
    """Every training of a grid, task by task; what cannot be trained is refused before any is.

    `tasks` come with their column maps, None for their own. An augmentation is PLAIN, or methods
    joined by a plus; without any these are PLAIN, each method, and all of them.
    """
    if workspace.data is not None and workspace.data.is_file():
        raise SpecError(
            f"{workspace.data} is one file, on which a grid would train and evaluate; name two in "
            "the column map (`train` and `files`), and their folder by --data"
        )
    for task, _ in tasks:
        if workspace.registry.load("tasks", task).classes is None:
            raise SpecError(f"task {task} has no classes to score; try ishate_implicit")
    for name in models:
        if trainable(workspace, name).trained:
            raise SpecError(f"model {name}: leave `trained` out: a grid has a folder a training")
    found = []
    for task, table in tasks:
        of = replace(base, model=models[0], task=task, table=table)
        for model, arm in product(models, augment or _every_arm(workspace, of)):
            name = model if arm == PLAIN else f"{model}+{arm}"
            found.append(replace(of, model=name).spelled(workspace.registry))
    return found


def _every_arm(workspace: Workspace, options: TrainOptions) -> list[str]:
    task = task_of(workspace, options)
    samples, _, table = training_samples(workspace, task, name=options.task, with_made=True)
    methods = sorted({_method(one, table) for one in samples if MADE in one.flags})
    return [PLAIN, *methods, *([EVERY] if methods else [])]


def evaluate(
    workspace: Workspace, options: TrainOptions, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Carry out one training of a grid unless that is done, evaluate it, and give a row a class.

    Of `texts` of the class that were evaluated, `near` share about LIKENESS of their words with one
    trained on: a made row may be a rewording of them.
    """
    train(workspace, options, progress)
    wanted = resolve.RunOptions(task=options.task, model=options.label, table=options.table)
    wanted = replace(wanted, seed=options.seed)
    done = execute.run(resolve.resolve(workspace, wanted))
    task = done.file.task
    scores = {row.score.metric: row.score for row in done.scores if row.score.group == ALL}
    values = {metric: score.value for metric, score in scores.items()}
    rows = [(row.sample.references[LABEL][0], row.steps) for row in done.folder.read_rows()]
    for label in (task.classes and task.classes.missed) or tuple(task.data.choices):
        own = [steps[-1].detail for name, steps in rows if name == label]
        f1 = scores[F1.format(label)]
        yield {
            "task": options.task,
            "model": options.model,
            "augmentation": "+".join(options.augment) or PLAIN,
            "label": label,
            "precision": values.get(PRECISION.format(label)),
            "recall": values.get(RECALL.format(label)),
            "f1": f1.value,
            "low": f1.low,
            "high": f1.high,
            "macro_f1": values.get(MACRO),
            "n": scores[MACRO].n,
            "missing": done.missing,
            "run": str(done.folder.path),
            "texts": len(own),
            "near": sum(TRAINED_ON in one or NEARLY in one for one in own),
        }
