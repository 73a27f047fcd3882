"""Tables of labelled texts to trained classifiers, each in a folder of its own.

Reads the files a column map names for training, trains what a model's YAML says, and writes weights
and card. Nothing here evaluates: the run does, on other texts.
"""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from msgspec import structs

from harness.core import Sample
from harness.data.readers.labelled_table import LABEL, MADE
from harness.errors import DataError, SpecError, did_you_mean
from harness.implicitness.open import with_options
from harness.models.encoders.encoders import CachedEncoder
from harness.models.labels import shown
from harness.models.local.classifiers import (
    ClassifierCard,
    LabelledTexts,
    TrainedClassifier,
    tune,
    write_trained,
)
from harness.models.local.heads import fit, save_head
from harness.pipeline.setup import VECTORS, recipe, trained_folder
from harness.specs.data import TableSpec
from harness.specs.models import ClassifierSpec, SklearnSpec
from harness.specs.tasks import TaskSpec
from harness.storage.runs import DataEntry
from harness.workspace import Workspace

_log = logging.getLogger(__name__)
EVERY = "all"
TrainingProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """What to train: a model on a task's table, with rows made by some methods, or none.

    `table` is another column map than the task's, `out` another folder than the one below results.
    """

    model: str
    task: str
    table: str | None = None
    augment: tuple[str, ...] = ()
    seed: int = 0
    out: Path | None = None


@dataclass(frozen=True, slots=True)
class TrainingTexts(LabelledTexts):
    """Texts to learn from, with what a card says of them."""

    rows: dict[str, int]
    made: dict[str, int]
    data: DataEntry
    column: str


def train(
    workspace: Workspace, options: TrainOptions, progress: TrainingProgress
) -> TrainedClassifier:
    """Train a model for a task and keep it; of one seed on one machine's CPU the same, bit for bit.

    Sums on a GPU may differ in their last digits from one training to the next.
    """
    task = with_options(
        workspace.registry.load("tasks", options.task),
        name=options.task,
        table=options.table,
        scorer=None,
    )
    spec = workspace.registry.load("configs/models", options.model)
    if not isinstance(spec, SklearnSpec | ClassifierSpec):
        raise SpecError(
            f"model {options.model} is not trained here; name one of kind sklearn or classifier"
        )
    if isinstance(spec, ClassifierSpec) and spec.labels:
        raise SpecError(
            f"model {options.model} is used as it is: `labels` says so; leave that out to train it"
        )
    lesson = read_lesson(workspace, options, task)
    if missing := [name for at, name in enumerate(lesson.labels) if at not in lesson.places]:
        raise DataError(f"no text of the class {missing[0]!r} to train on; give data that has some")
    folder = options.out or trained_folder(
        workspace.results, spec, name=options.model, task=options.task
    )
    return _train(workspace, options, spec, lesson, folder, progress)


def _train(
    workspace: Workspace,
    options: TrainOptions,
    spec: SklearnSpec | ClassifierSpec,
    lesson: TrainingTexts,
    folder: Path,
    progress: TrainingProgress,
) -> TrainedClassifier:
    seed, packages, base = options.seed, ("scikit-learn", "numpy"), {}
    if isinstance(spec, SklearnSpec):
        registry = workspace.registry
        encoder = registry.encoder(spec.encoder)
        encoded = CachedEncoder(encoder, registry.cache / VECTORS, progress).encode(lesson.texts)
        files = [save_head(fit(encoded, lesson.places, spec, seed=seed), folder)]
        words = recipe(spec, encoder)
    else:
        tuned, origin = tune(lesson, spec, folder, seed=seed, progress=progress)
        files, words, base = [*tuned], recipe(spec), {"base": origin}
        packages = ("transformers", "torch")
    card = ClassifierCard(
        model=options.model,
        kind=str(spec.__struct_config__.tag),
        task=options.task,
        labels=lesson.labels,
        recipe=words,
        seed=seed,
        data=lesson.data.label,
        files=lesson.data.files,
        text=lesson.column,
        rows=lesson.rows,
        made=lesson.made,
        checksums={},  # of files that are not written yet
        versions={name: version(name) for name in packages} | base,
    )
    return write_trained(folder, card, lesson.texts, files)


def read_lesson(workspace: Workspace, options: TrainOptions, task: TaskSpec) -> TrainingTexts:
    """The texts that a task's table has for training, made ones by the chosen methods alone."""
    if task.made_of is not None:
        raise SpecError(
            f"task {options.task} was made of {task.made_of}, and what is trained for that one "
            f"answers both: `harness train {options.model} --task {task.made_of}`"
        )
    if task.data.map is None:
        raise SpecError(f"task {options.task} reads no table of labelled texts to train on")
    table, augment = workspace.registry.load("configs/tables", task.data.map), options.augment
    rule = table.originals
    if augment and (rule is None or rule.column not in table.keep.values()):
        raise SpecError(
            "--augment: the column map does not say which rows were made of others; give it "
            "`originals`, and name that column in `keep`"
        )
    # The originals of made rows, which only scores need, are not found.
    changed = rule and structs.replace(rule, with_made=bool(augment), likeness=None)
    samples, data = workspace.training(task.data, structs.replace(table, originals=changed))
    known = sorted({str(_method(one, table)) for one in samples if MADE in one.flags})
    if unknown := [name for name in augment if name not in (EVERY, *known)]:
        raise SpecError(f"--augment: no method {unknown[0]!r}{did_you_mean(unknown[0], known)}")
    is_all = EVERY in augment
    kept = [s for s in samples if MADE not in s.flags or is_all or _method(s, table) in augment]
    labels = tuple(task.data.choices)
    names = [sample.references[LABEL][0] for sample in kept]
    made = Counter(_method(sample, table) for sample in kept if MADE in sample.flags)
    return TrainingTexts(
        texts=tuple(map(shown, kept)),
        places=tuple(map(labels.index, names)),
        labels=labels,
        rows=dict(Counter(names)),
        made={str(name): count for name, count in sorted(made.items(), key=str)},
        data=data,
        column=table.text,
    )


def _method(sample: Sample, table: TableSpec) -> str | None:
    rule = table.originals
    names = [name for name, column in table.keep.items() if rule and column == rule.column]
    return sample.references.get(names[0], (None,))[0] if names else None
