"""The command that has a model make data: build."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options
from harness.cli.options import (
    HOME,
    RESULTS,
    AsJson,
    BudgetUsd,
    Data,
    Home,
    Offline,
    PromptPack,
    Results,
)
from harness.cli.output import ProgressLine, echo, echo_json, log


def build(
    name: Annotated[str, typer.Argument(metavar="JOB", help="A name in configs/builds/.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Samples, one JSON object a line.")],
    model: Annotated[str, typer.Option("--model", help="Model that is asked.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the samples made go.")],
    backend: options.BackendName = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of draws.")] = 0,
    prompts: PromptPack = None,
    results: Results = RESULTS,
    home: Home = HOME,
    is_offline: Offline = False,
    budget: BudgetUsd = None,
    is_json: AsJson = False,
) -> int:
    """Have a model extend a sample set: keep agreeing meanings, write chains or pairs.

    Each question shows only what the job's YAML lists. Finished calls are stored and never asked
    again: repeat the command to resume.
    """
    import msgspec

    from harness.pipeline.build import build as build_samples
    from harness.pipeline.build import line
    from harness.storage.files import refuse_source, write_whole

    refuse_source(output, file)
    terms = options.terms(is_offline=is_offline, budget_usd=budget)
    space = options.workspace(home, results, prompts=prompts, terms=terms)
    spec = space.registry.build_spec(name)
    samples = space.registry.read("samples_jsonl", [file], None)
    model_spec = space.registry.model_spec(model, options.backend(backend))
    asked = space.registry.model(model, model_spec, samples=samples)
    with space.desk(asked) as desk:
        built = build_samples(samples, spec, prompts=space.registry.prompts, client=desk, seed=seed)
    lines = [msgspec.json.encode(line(draft), order="deterministic") for draft in built.finished]
    write_whole(output, b"".join(part + b"\n" for part in lines))
    if is_json:
        counts = {str(reason): count for reason, count in built.missing.items()}
        echo_json({"made": len(lines), "dropped": built.dropped, "missing": counts})
    else:
        echo(f"{len(lines)} samples in {output}; {built.dropped} dropped")
        for reason, count in sorted(built.missing.items()):
            log(f"missing: {count} {reason}")
    return 1 if built.missing else 0


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
    from harness.pipeline import train_classifier

    space = options.workspace(home, results, data=data)
    chosen = train_classifier.TrainOptions(model, task, table, options.names(augment), seed, out)
    found = train_classifier.train(space, chosen, ProgressLine("done"))
    card = found.card
    if is_json:
        echo_json({"folder": str(found.folder), "digest": card.digest, "card": card})
        return 0
    echo(f"{card.model} for {card.task}: {card.recipe}; seed {card.seed}")
    echo(f"trained on {_counted(card.rows)} of column {card.text}, data {card.data}")
    if card.made:
        echo(f"made of others: {_counted(card.made)}")
    echo(f"kept in {found.folder} ({card.digest[:7]})")
    return 0


def _counted(rows: Mapping[str, int]) -> str:
    """Counts by name, as in `12 plain, 3 subtle`."""
    return ", ".join(f"{count} {name}" for name, count in rows.items())
