"""The commands that make samples with a model, and classifiers from samples: build, train."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from harness.cli import options
from harness.cli.command import ExitCode, Only, argument, option
from harness.cli.options import AsJson, Calling, Seed, Where
from harness.cli.output import ProgressLine, echo, echo_json, log


@dataclass(frozen=True, kw_only=True)
class BuildChoice:
    """What is made of which samples, by which model."""

    name: str = argument("JOB", "Job: a name in configs/builds/.")
    file: Path = argument("FILE", "Samples, one JSON object a line.")
    model: str = option("--model", "Model that is asked.")
    output: Path = option("-o --output", "File for the new samples.")
    backend: options.BackendName = None
    seed: Seed = 0


def build(
    choice: BuildChoice,
    where: Annotated[Where, Only("prompts", "results", "home")],
    calling: Annotated[Calling, Only("is_offline", "budget")],
    is_json: AsJson = False,
) -> int:
    """Make new samples from samples with a model: agreed meanings, chains or pairs.

    A question contains only the fields that the job's YAML lists. Finished calls are stored and
    never repeated: run the same command again to resume.
    """
    import msgspec

    from harness.pipeline.transforms import build as build_samples
    from harness.pipeline.transforms import draft_line
    from harness.storage.files import refuse_source, write_whole

    refuse_source(choice.output, choice.file)
    space = where.workspace(calling)
    registry = space.registry
    spec = registry.load("configs/builds", choice.name)
    samples = registry.read("samples_jsonl", [choice.file], None)
    model_spec = registry.load("configs/models", choice.model, options.backend(choice.backend))
    model = registry.model(choice.model, model_spec, samples=samples)
    with space.desk(model) as desk:
        built = build_samples(
            samples, spec, prompts=registry.prompts, client=desk, seed=choice.seed
        )
    lines = [
        msgspec.json.encode(draft_line(draft), order="deterministic") for draft in built.finished
    ]
    write_whole(choice.output, b"".join(part + b"\n" for part in lines))
    if is_json:
        counts = {str(reason): count for reason, count in built.missing.items()}
        echo_json({"made": len(lines), "dropped": built.dropped, "missing": counts})
    else:
        echo(f"{len(lines)} samples in {choice.output}; {built.dropped} dropped")
        for reason, count in sorted(built.missing.items()):
            log(f"missing: {count} {reason}")
    return ExitCode.of(built.missing)


@dataclass(frozen=True, kw_only=True)
class TrainChoice:
    """Which classifier is trained, on which task."""

    model: str = argument("MODEL", "Model of kind sklearn or classifier.")
    task: str = option("--task", "Task whose labels the classifier learns.")
    augment: str | None = option(
        "--augment",
        "Add the augmented rows of these methods of the table, comma-separated, or all.",
        None,
    )
    seed: Seed = 0
    out: Path | None = option(
        "-o --out", "Folder for the trained model. Default: below RESULTS.", None
    )


def train(
    choice: TrainChoice,
    where: Annotated[Where, Only("data", "table", "results", "home")],
    is_json: AsJson = False,
) -> int:
    """Train a classifier on the training texts of a task's table.

    `harness run` with the same model and task then evaluates it on the other texts.
    """
    from harness.pipeline.train_classifier import TrainOptions
    from harness.pipeline.train_classifier import train as train_model

    augment = options.names(choice.augment, "--augment")
    wanted = TrainOptions(choice.model, choice.task, where.table, augment, choice.seed, choice.out)
    trained = train_model(where.workspace(), wanted, ProgressLine("done"))
    card = trained.card
    if is_json:
        echo_json({"folder": str(trained.folder), "digest": card.digest, "card": card})
        return ExitCode.DONE
    echo(f"{card.model} for {card.task}: {card.recipe}; seed {card.seed}")
    echo(f"trained on {_counts(card.rows)} of column {card.text}, data {card.data}")
    if card.made:
        echo(f"of these augmented: {_counts(card.made)}")
    echo(f"stored in {trained.folder} ({card.digest[:7]})")
    return ExitCode.DONE


def _counts(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in rows.items())
