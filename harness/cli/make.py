"""The commands that make samples, tasks and classifiers: build, train, grid, perturb."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from harness.analysis.boards.scores import shown_decoding
from harness.analysis.flips import flip_rates
from harness.analysis.pairings import judge_named
from harness.cli import options
from harness.cli.options import AsJson, ExitCode, Only, Where, argument, option, output, switch
from harness.cli.put import put_frame
from harness.core import Sample
from harness.errors import SpecError
from harness.implicitness.open import with_options
from harness.lazy import DataFrame, pandas
from harness.parts import Reason, digest
from harness.pipeline import training, transforms
from harness.pipeline.plan import subsample
from harness.pipeline.training import TrainOptions, training_samples
from harness.present.screen import ProgressLine, intervals, say, show, show_json, warn
from harness.specs.tasks import AskedSpec
from harness.storage.find_runs import find_run
from harness.storage.frames import plain_rows
from harness.storage.tables import write_named
from harness.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class BuildChoice:
    """What is made, from which samples, by which model."""

    name: str = argument("JOB", "Job: a name in configs/builds/.")
    file: Path = argument("FILE", "Samples: one JSON object in each line.")
    model: str | None = option("Model to ask, for jobs that ask: a name in configs/models/.")
    out: Path = output("File for the new samples.", ".jsonl", flags="-o --output")
    backend: options.BackendName = None
    seed: options.Seed = 0


def build(
    choice: BuildChoice,
    where: Annotated[Where, Only("prompts results home")],
    calling: Annotated[options.Calling, Only("is_offline budget")],
    is_json: AsJson = False,
) -> int:
    """Let a model make new samples: meanings, chains, pairs, graded sentences or choices.

    A prompt contains only the fields that the job's YAML lists. Finished calls are stored and
    never repeated: run the same command again to resume.
    """
    space = where.workspace(calling)
    registry = space.registry
    spec = registry.load("configs/builds", choice.name)
    samples = registry.read("samples_jsonl", [choice.file], None)
    with _model(space, choice, [choice.name] if spec.steps else [], samples) as ask:
        built = (ask or transforms.chosen)(samples, spec)
    lines = (transforms.sample_line(*one) for one in built.finished)
    write_named(choice.out, transforms.json_lines(lines))
    made, dropped = len(built.finished), built.dropped
    show_json({"made": made, "dropped": dropped, "missing": built.missing}, is_json)
    say(f"wrote {made} samples to {choice.out}; {dropped} dropped")
    for reason, missing in sorted(built.missing.items()):
        warn(f"missing: {missing} {reason}")
    return ExitCode.of(built.missing)


@dataclass(frozen=True, kw_only=True)
class Lessons:
    """What classifiers are trained on, and where what is made goes."""

    task: str = option("Task whose labels are learned; with --grid several, comma-separated.", ...)
    augment: str | None = option(
        "Train on made rows too, comma-separated: methods of the table's, all, or tasks of "
        "`perturb --training`. With --grid a training each, by default none, each method, and all."
    )
    is_oversampled: bool = switch(
        "--oversample", "Repeat texts of rarer classes until all are as frequent."
    )
    seed: options.Seed = 0

    @property
    def base(self) -> TrainOptions:
        """What all trainings share."""
        return TrainOptions("", "", seed=self.seed, is_oversampled=self.is_oversampled)


def train(
    lessons: Lessons,
    where: Annotated[Where, Only("data table results home")],
    model: str = argument("MODEL", "Model of kind sklearn or classifier."),
    out: Path | None = output("Folder of the trained model.", default=None),
    is_json: AsJson = False,
) -> None:
    """Train a classifier on the training texts of a task's table.

    `harness run` with the same model and task then evaluates it on the other texts.
    """
    augment = options.names(lessons.augment, "--augment")
    wanted = replace(lessons.base, model=model, task=lessons.task, table=where.table)
    wanted = replace(wanted, augment=augment, out=out)
    trained = training.train(where.workspace(), wanted, ProgressLine("done"))
    card = trained.card
    show_json({"folder": str(trained.folder), "digest": card.digest, "card": card}, is_json)
    say(f"{card.model} for {card.task}: {card.recipe}; seed {card.seed}")
    say(f"trained on {_counts(card.rows)} of column {card.text}, data {card.data}")
    if card.made:
        say(f"of these augmented: {_counts(card.made)}")
    say(f"stored in {trained.folder} ({card.digest[:7]})")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def grid(
    lessons: Lessons,
    where: Annotated[Where, Only("data table results home")],
    model: str = option("Models of kind sklearn or classifier, comma-separated.", ...),
    out: Path | None = output("CSV file. Default: in RESULTS/grids/.", ".csv", default=None),
    is_json: AsJson = False,
) -> int:
    """Train models under each augmentation for each task, evaluate them, and print a table.

    Finished trainings and answers are kept: run the same command again to resume.
    """
    space = where.workspace()
    planned = training.grid(
        space,
        options.names(model, "--model"),
        [(task, where.table) for task in options.names(lessons.task, "--task")],
        options.names(lessons.augment, "--augment"),
        base=lessons.base,
    )
    rows: list[dict[str, Any]] = []
    for place, one in enumerate(planned, 1):
        warn(f"[{place}/{len(planned)}] {one.label} for {one.task}")
        rows += training.evaluate(space, one, ProgressLine("done"))
    found = pandas.DataFrame(rows)
    table = where.results / "grids" / f"{digest(planned)[:16]}.csv"
    put_frame(found, out, lambda: _put_grid(found), is_json=is_json, default=table)
    return ExitCode.of(found["missing"].any())


def _put_grid(found: DataFrame) -> None:
    near = found["near"].astype(str) + " of " + found["texts"].astype(str)
    shown = found.assign(interval=intervals(found), near_copies=near)
    names = ["augmentation", "precision", "recall", "f1", "interval", "macro_f1", "near_copies"]
    names += ["missing"] * bool(found["missing"].any())
    for (task, label, model), own in shown.groupby(["task", "label", "model"], sort=False):
        show(own[names], f"{task}, class {label}: {model}")


@dataclass(frozen=True, kw_only=True)
class PerturbChoice:
    """Which texts are changed, how, and where the new task goes."""

    task: str = option("Task whose samples are perturbed.", ...)
    method: str | None = option(
        "Names in configs/perturbations/, comma-separated, or eda. Default: all without a model."
    )
    model: str | None = option("Model that rewrites texts, for perturbations that need one.")
    field: str | None = option("Field to perturb. Default: text, else the longest.")
    out: Path | None = output("Home folder for the task. Default: --home.", default=None)
    name: str | None = option("Name. Default: TASK_perturbed or _training.", flags="--as")
    is_training: bool = switch(
        "--training", "Perturb texts to train on, of rarer classes till equal."
    )
    limit: options.Limit = None
    seed: options.Seed = 0
    backend: options.BackendName = None


def perturb(
    choice: PerturbChoice,
    where: Where,
    calling: Annotated[options.Calling, Only("is_offline retry budget")],
    is_json: AsJson = False,
) -> int:
    """Write a new task with a task's samples and slightly changed copies of them.

    Run it like any task; `harness perturb report RUN` then counts the verdicts that changed. A
    text that a perturbation cannot change is counted and left out.
    """
    name = f"{choice.task}_{'training' if choice.is_training else 'perturbed'}"
    name = options.plain_name(name if choice.name is None else choice.name, option="--as")
    home, space = choice.out or where.home, where.workspace(calling)
    task = space.registry.load("tasks", choice.task)
    spec = with_options(task, name=choice.task, table=where.table, scorer=None)
    methods = options.names(choice.method, "--method")
    specs = transforms.perturbations_of(space.registry, methods)
    given = training_samples(space, spec, name=choice.task) if choice.is_training else None
    every, entry, *_ = given or space.samples(spec.data)
    samples = subsample(every, choice.limit, seed=choice.seed)
    field = transforms.field_of(samples, choice.field)
    plan = transforms.PerturbationPlan(field, specs, choice.seed)
    asking = [name for name, one in specs.items() if isinstance(one, AskedSpec)]
    with _model(space, choice, asking) as ask:
        make = transforms.balanced if choice.is_training else transforms.perturbed
        perturbed, counts = make(samples, spec, plan, ask)
    how = f"with its {field} perturbed (seed {choice.seed}): {', '.join(specs)}"
    about = f"Task {choice.task}, data {entry.label}, {how}."
    new = transforms.perturbed_task(spec, name=name, of=choice.task, about=about)
    path = transforms.write_task(home, name, new, samples=perturbed)
    made = {"task": name, "file": path, "originals": len(samples)}
    show_json(made | {"perturbations": plain_rows(counts)}, is_json)
    show(counts, f"{len(samples)} samples, field {field}", missing=_by_reason)
    say(f"wrote {len(perturbed)} samples of task {name} to {path}")
    after = f"train MODEL --task {choice.task} --augment {name}"
    say(f"next: harness {after if choice.is_training else f'run --task {name} --model MODEL'}")
    return ExitCode.of(counts["missing"].any())


@contextmanager
def _model(
    space: Workspace,
    choice: BuildChoice | PerturbChoice,
    asking: Sequence[str],
    samples: Sequence[Sample] = (),
) -> Iterator[transforms.Ask | None]:
    """What asks the model of the jobs or perturbations that ask one; None where none does."""
    if choice.model is None or not asking:
        if asking or choice.model is not None:
            fact = (
                f"{asking[0]} asks a model; name one with" if asking else "none asks one; leave out"
            )
            raise SpecError(f"{fact} --model")
        yield None
        return
    registry, backend = space.registry, options.backend(choice.backend)
    model = registry.load("configs/models", choice.model, backend)
    with space.desk(registry.model(choice.model, model, samples=samples)) as desk:
        yield partial(transforms.build, prompts=registry.prompts, client=desk, seed=choice.seed)


def _by_reason(missing: Mapping[Reason, int]) -> str:
    return ", ".join(f"{count} {why}" for why, count in sorted(missing.items())) or "0"


def report(
    run: options.RunName,
    judge: list[str] | None = option("Judges, comma-separated. Default: all."),
    out: Path | None = output("CSV file. Default: in RESULTS/flips/.", ".csv", default=None),
    results: options.Results = options.RESULTS,
    is_json: AsJson = False,
) -> int:
    """Count the verdicts and answers that each perturbation changes; originals are the clusters."""
    folder = find_run(results, run)
    file, wanted = folder.read(), options.names(judge, "--judge")
    found = flip_rates(folder, [judge_named(file, one) for one in wanted] or file.judges)
    table = results / "flips" / f"{file.digest[:16]}.csv"
    put_frame(found, out, lambda: _put_flips(found), is_json=is_json, default=table)
    missing, unmatched = (max(found.get(name, ()), default=0) for name in ("missing", "unmatched"))
    if missing or unmatched:
        warn(
            f"left out: at most {missing} pairs without a verdict, and {unmatched} perturbed "
            "samples whose original was not run"
        )
    return ExitCode.of(missing or unmatched)


def _put_flips(found: DataFrame) -> None:
    lost = found["missing"].astype(str) + "/" + found["unmatched"].astype(str)
    shown = found.assign(interval=intervals(found), lost=lost)
    names = {"value": "flips", "clusters": "originals", "answers": "other answer"}
    names |= {"original": "mean before", "perturbed": "after", "reason": "note"}
    columns = ["perturbation", "keeps_meaning", "value", "interval", "n", "clusters", "to_wrong"]
    columns += ["to_right", "answers", "original", "perturbed", "lost", "reason"]
    names["lost"] = "no verdict/no original"
    ways = ["model", "task", "variant", "decoding", "signature", "judge"]
    for (model, task, variant, decoding, made, judge), own in shown.groupby(ways, sort=False):
        title = f"{model} on {task}, {variant} ({shown_decoding(decoding, made)}), by {judge}"
        show(own[columns].rename(columns=names), title)
