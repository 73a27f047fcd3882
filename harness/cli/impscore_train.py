"""The commands that train the implicitness metric: impscore train, ablate and lint."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.options import HOME, AsJson, Home
from harness.cli.output import ProgressLine, echo, echo_json, echo_table, number
from harness.cli.text_input import opened
from harness.errors import DataError

if TYPE_CHECKING:
    from harness.implicitness.pairs import TrainingPair
    from harness.implicitness.training.ablation import AblationRow
    from harness.implicitness.training.lint import LintMeasure

DONE, BROKEN = 0, 1
File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Sentence pairs (JSON lines, CSV, Parquet): implicit, explicit, topic, intention, "
        "levels; or pos_implicit, pos_explicit, neg_implicit, neg_explicit, source.",
    ),
]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder to write to.")]
RecipeName = Annotated[
    str, typer.Option("--recipe", help="Name in configs/recipes/, or path of a recipe's YAML.")
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        help="Column whose values a split never parts. Default: topic, original or group.",
    ),
]
RECIPE = "impscore"


def train(
    file: File,
    out: Out,
    recipe: RecipeName = RECIPE,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the head. Default: the recipe's.")
    ] = None,
    group: Group = None,
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Train a head of the metric on sentence pairs, with a card of how it was made and how it does.

    Writes NAME.safetensors and NAME.json: give either to --scorer. Each sentence is encoded once.
    The same file, recipe and machine give the same bytes.
    """
    from harness.implicitness.head import save_head
    from harness.implicitness.training.train import Data, make_head
    from harness.storage.files import refuse_file

    refuse_file(out)
    registry = options.registry(home)
    known, spec = registry.recipe(recipe)
    called = options.plain_name(name or known, option="--name")
    data = Data(file.name, _pairs(file, group))
    encoder = registry.encoder(spec.encoder)
    head = make_head(called, data, spec, encoder=encoder, progress=ProgressLine("done"))
    path = save_head(head, out / head.name)
    metrics = head.card.metrics if head.card is not None else {}
    if is_json:
        echo_json({"head": path, "digest": head.digest, "metrics": metrics})
        return DONE
    if metrics:
        echo_table(head.name, ("figure", "value"), [(k, _figure(v)) for k, v in metrics.items()])
    echo(f"{head.name}@{head.digest[:8]} in {path}")
    return DONE


def ablate(
    file: File,
    out: Out,
    recipe: RecipeName = RECIPE,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Trainings of each, by seed.")] = 3,
    group: Group = None,
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Train each of the twelve forms of the metric, and each setting the paper swept.

    Writes ablation.csv, a row a training with its figures on the test pairs and what it was made
    of, and ablation.svg.
    """
    from harness.implicitness.training.ablation import COLUMNS, Origin, picture, run_trials
    from harness.implicitness.training.examples import embed
    from harness.implicitness.training.splits import split
    from harness.storage.cells import delimited
    from harness.storage.files import refuse_file, write_whole

    refuse_file(out)
    registry = options.registry(home)
    known, spec = registry.recipe(recipe)
    if not spec.split[2]:
        raise DataError(f"recipe {recipe} keeps no pairs to test on; give its split a third share")
    pairs, progress = _pairs(file, group), ProgressLine("done")
    encoder = registry.encoder(spec.encoder)
    embedded = embed(pairs, encoder, progress)
    parts = split(pairs, seed=spec.seed, shares=spec.split)
    rows = [*run_trials(parts, embedded, spec, runs=runs, progress=progress)]
    origin = Origin.of(file.name, pairs, recipe=(known, spec), encoder=encoder)
    cells = [row.cells(origin) for row in rows]
    write_whole(out / "ablation.csv", delimited(COLUMNS, cells, separator=","))
    write_whole(out / "ablation.svg", picture(rows).encode())
    if is_json:
        echo_json({"origin": origin, "trainings": rows})
        return DONE
    head = ("setting", "value", "runs", "implicitness", "pragmatics", "tau", "rho")
    graded = sum(bool(pair.levels) for pair in parts.test)
    title = f"Means over the runs, on {len(parts.test)} test pairs, {graded} of them with levels"
    echo_table(title, head, _means(rows))
    echo(f"{len(rows)} trainings in {out / 'ablation.csv'}, drawn in {out / 'ablation.svg'}")
    return DONE


def lint(file: File, group: Group = None, is_json: AsJson = False) -> int:
    """Tell whether anything but the meaning tells the sides and levels of sentence pairs apart.

    The exit code is 1 where a limit is broken. The limits are those that our own pairs keep.
    """
    from harness.implicitness.training.lint import measures

    found = measures(_pairs(file, group))
    if is_json:
        echo_json(found)
    else:
        rows = [
            (one.name, _figure(one.value), number(one.least), number(one.most), _verdict(one))
            for one in found
        ]
        echo_table(str(file), ("measure", "value", "at least", "at most", ""), rows)
    return DONE if all(one.is_kept for one in found) else BROKEN


def _figure(value: float | None) -> str:
    return str(value) if isinstance(value, int) else number(value)


def _verdict(measure: "LintMeasure") -> str:
    return "" if measure.is_kept else "broken"


def _means(rows: "Sequence[AblationRow]") -> list[tuple[str, ...]]:
    """A row a form or setting: the mean of each figure over its runs."""
    found: list[tuple[str, ...]] = []
    for (setting, value), some in groupby(rows, key=lambda row: (row.setting, row.value)):
        runs = [row.figures for row in some]
        columns = zip(*((f.implicitness, f.pragmatics, f.tau, f.rho) for f in runs), strict=True)
        means = [[part for part in column if part is not None] for column in columns]
        told = (number(fmean(mean)) if mean else "" for mean in means)
        found.append((setting, value, str(len(runs)), *told))
    return found


def _pairs(file: Path, group: str | None) -> "list[TrainingPair]":
    """The pairs of a file."""
    from harness.implicitness.pairs import read_pairs

    table, where = opened(str(file), None, has_column=True)
    return read_pairs(table, where=where, group=group)
