"""Models, augmentations and tasks to a grid of trainings, each evaluated as a run of its own.

What is trained and stored already is not done again, so that a grid that was interrupted goes on.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from harness.data.readers.labelled_table import LABEL
from harness.errors import SpecError
from harness.models.labels import shown
from harness.pipeline import execute, resolve
from harness.pipeline.choice_scores import F1, MACRO, PRECISION, RECALL
from harness.pipeline.score import ALL
from harness.pipeline.training import (
    EVERY,
    TrainingProgress,
    TrainOptions,
    methods_of,
    read_lesson,
    task_of,
    train,
    trainable,
    training_samples,
)
from harness.text.dedup import LIKENESS, nearest_originals
from harness.workspace import Workspace

PLAIN = "none"
"""The augmentation that adds nothing."""


@dataclass(frozen=True, slots=True)
class GridPlan:
    """What a grid crosses; `augment` is empty for none, each method of the table, and all of these.

    An augmentation is `none`, or methods joined by a plus, as in the name of what is trained.
    `maps` has a column map for each task, or one for all, or is empty for those of the tasks.
    """

    models: tuple[str, ...]
    tasks: tuple[str, ...]
    augment: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()
    seed: int = 0
    is_oversampled: bool = False

    def __post_init__(self) -> None:
        if len(self.maps) not in (0, 1, len(self.tasks)):
            raise SpecError(
                f"--map names {len(self.maps)} column maps for {len(self.tasks)} tasks; name one, "
                "or one for each task"
            )

    def map_of(self, task: str) -> str | None:
        """The column map of a task; None for its own."""
        maps = self.maps * len(self.tasks) if len(self.maps) == 1 else self.maps
        return dict(zip(self.tasks, maps, strict=True)).get(task) if maps else None


@dataclass(frozen=True, slots=True)
class GridRow:
    """The scores of one training on one task; `label` is the class that the task looks for.

    `low` and `high` are the 95 % interval of `f1`; None as in the run's own scores. Of `texts` of
    the class that were evaluated, `near` share LIKENESS of their words with a text trained on: a
    made row may be a rewording of them.
    """

    task: str
    model: str
    augmentation: str
    label: str
    precision: float | None
    recall: float | None
    f1: float | None
    low: float | None
    high: float | None
    macro_f1: float | None
    n: int
    missing: int
    run: str
    texts: int = 0
    near: int = 0


@dataclass(frozen=True, slots=True)
class GridCell:
    """A training that a grid is to make: its model alone, its augmentation, and its options."""

    model: str
    augmentation: str
    options: TrainOptions


def grid_cells(workspace: Workspace, plan: GridPlan) -> list[GridCell]:
    """Every cell of a grid, task by task; what cannot be trained is refused before any is."""
    if workspace.data is not None and workspace.data.is_file():
        raise SpecError(
            f"{workspace.data} is one file: a grid would train on the texts that it evaluates; "
            "name two files in the column map (`train` and `files`), and the folder above theirs "
            "by --data; `harness data split` makes them"
        )
    for task in plan.tasks:
        if workspace.registry.load("tasks", task).classes is None:
            raise SpecError(
                f"task {task} has no classes to score; name one such as ishate_implicit"
            )
    for name in plan.models:
        if trainable(workspace, name).trained:
            raise SpecError(
                f"model {name}: its YAML names one folder with `trained`, and a grid needs one "
                "for each training; leave that out"
            )
    cells = []
    for task in plan.tasks:
        arms = plan.augment or _every_arm(workspace, plan, task)
        for model, arm in product(plan.models, arms):
            name = model if arm == PLAIN else f"{model}+{arm}"
            options = TrainOptions(name, task, plan.map_of(task), seed=plan.seed)
            options = replace(options, is_oversampled=plan.is_oversampled)
            cells.append(GridCell(model, arm, options.spelled(workspace.registry)))
    return cells


def _every_arm(workspace: Workspace, plan: GridPlan, task: str) -> tuple[str, ...]:
    spec = task_of(workspace, TrainOptions(plan.models[0], task, plan.map_of(task)))
    samples, _, table = training_samples(workspace, spec, name=task, with_made=True)
    methods = methods_of(samples, table)
    return (PLAIN, *methods, *([EVERY] if methods else []))


def carry_out(
    workspace: Workspace, cell: GridCell, progress: TrainingProgress
) -> Iterator[GridRow]:
    """Train one cell unless that is done, evaluate it, and give a row for each class looked for."""
    options = cell.options
    train(workspace, options, progress, is_kept=True)
    wanted = resolve.RunOptions(task=options.task, model=options.label, table=options.table)
    [done] = execute.run_each([resolve.resolve(workspace, wanted)])
    task = done.file.task
    labels = (task.classes and task.classes.missed) or tuple(task.data.choices)
    found = {row.score.metric: row.score for row in done.scores if row.score.group == ALL}
    values = {metric: score.value for metric, score in found.items()}
    taught = read_lesson(workspace, options, task_of(workspace, options)).texts
    samples = [record.sample for record in done.folder.read_rows()]
    for label in labels:
        texts = [shown(one) for one in samples if one.references[LABEL][0] == label]
        f1 = found[F1.format(label)]
        yield GridRow(
            *(options.task, cell.model, cell.augmentation, label),
            precision=values.get(PRECISION.format(label)),
            recall=values.get(RECALL.format(label)),
            f1=f1.value,
            low=f1.low,
            high=f1.high,
            macro_f1=values.get(MACRO),
            n=found[MACRO].n,
            missing=done.missing,
            run=str(done.folder.path),
            texts=len(texts),
            near=sum(at is not None for at in nearest_originals(texts, taught, likeness=LIKENESS)),
        )
