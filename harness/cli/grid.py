"""The command grid: trainings of models by augmentations and tasks, each evaluated, as a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from harness.cli import options
from harness.cli.options import AsJson, ExitCode, Only, Where, option
from harness.cli.output import ProgressLine, echo_records, log, put_rows
from harness.parts import digest
from harness.pipeline.grid import GridPlan, GridRow, carry_out, grid_cells
from harness.storage.cells import records_csv


@dataclass(frozen=True, kw_only=True)
class GridChoice:
    """What a grid crosses."""

    model: str = option("Models of kind sklearn or classifier, comma-separated.")
    task: str = option("Tasks, comma-separated.")
    augment: str | None = option(
        "Augmentations, comma-separated: none, a method, all, or several joined by a plus. "
        "Default: none, each method of the table, and all.",
        None,
    )
    is_oversampled: bool = option(
        "Repeat texts of rarer classes until all classes are equally frequent.",
        False,
        flags="--oversample",
    )
    seed: options.Seed = 0
    out: Path | None = option("CSV file. Default: in RESULTS/grids/.", None, flags="-o --out")


def grid(
    choice: GridChoice,
    where: Annotated[Where, Only("data table results home")],
    is_json: AsJson = False,
) -> int:
    """Train models under each augmentation for each task, evaluate them, and print a table.

    Finished trainings and answers are kept: run the same command again to resume. Each training is
    a model of its own, MODEL+AUGMENTATION, in all tables and boards.

    \b
    Example:
      harness grid --model minilm-svm,minilm-svm-rbf --task ishate_implicit --augment none,bt,all
    """
    plan = GridPlan(
        models=options.names(choice.model, "--model"),
        tasks=options.names(choice.task, "--task"),
        augment=options.names(choice.augment, "--augment"),
        maps=options.names(where.table, "--map"),
        seed=choice.seed,
        is_oversampled=choice.is_oversampled,
    )
    space = where.workspace(progress=ProgressLine())
    cells = grid_cells(space, plan)
    rows: list[GridRow] = []
    for place, cell in enumerate(cells, 1):
        log(f"[{place}/{len(cells)}] {cell.options.label} for {cell.options.task}")
        rows += carry_out(space, cell, ProgressLine("done"))
    table = choice.out or where.results / "grids" / f"{digest(plan)[:16]}.csv"
    files = {table: records_csv(GridRow, rows)}
    put_rows(rows, files, lambda: _put_rows(rows), is_json=is_json)
    return ExitCode.of(any(row.missing for row in rows))


def _put_rows(rows: Sequence[GridRow]) -> None:
    for task, label in dict.fromkeys((row.task, row.label) for row in rows):
        echo_records(
            f"{task}: class {label}",
            [row for row in rows if (row.task, row.label) == (task, label)],
            "model, augmentation; precision, recall, F1=f1, interval, macro F1=macro_f1, n, missing",
        )
