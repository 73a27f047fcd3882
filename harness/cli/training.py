"""The command that trains classifiers: train."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options
from harness.cli.options import HOME, RESULTS, AsJson, Data, Home, Results
from harness.cli.output import Progress, put, put_json


def train(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A model of kind sklearn or classifier."),
    ],
    task: Annotated[str, typer.Option("--task", help="Task whose labels it is to give.")],
    data: Data = None,
    table: options.TableMap = None,
    augment: Annotated[
        str | None,
        typer.Option("--augment", help="Methods whose made rows to add, comma-separated, or all."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of all that is drawn.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder to keep it in. Default: below the results."),
    ] = None,
    results: Results = RESULTS,
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Train a classifier on the texts that a task's table has for training.

    `harness run` with the same model and task then evaluates it, on other texts.
    """
    from harness.pipeline import train_classifier as training

    space = options.workspace(home, results, data=data)
    chosen = training.TrainOptions(model, task, table, options.names(augment), seed, out)
    found = training.train(space, chosen, Progress("done"))
    card = found.card
    if is_json:
        put_json({"folder": str(found.folder), "digest": card.digest, "card": card})
        return 0
    put(f"{card.model} for {card.task}: {card.recipe}; seed {card.seed}")
    put(f"trained on {_counted(card.rows)} of column {card.text}, data {card.data}")
    if card.made:
        put(f"made of others: {_counted(card.made)}")
    put(f"kept in {found.folder} ({card.digest[:7]})")
    return 0


def _counted(rows: Mapping[str, int]) -> str:
    """Counts by name, as in `12 plain, 3 subtle`."""
    return ", ".join(f"{count} {name}" for name, count in rows.items())
