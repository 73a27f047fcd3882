"""The commands for robustness to small changes of texts: perturb, and perturb report."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.command import ExitCode, Only, option
from harness.cli.options import RESULTS, AsJson, Calling, Results, RunName, Seed, Where
from harness.cli.output import echo, echo_json, echo_table, log, put_rows
from harness.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.analysis.compare import FlipRate
    from harness.core import Model, Sample
    from harness.pipeline.transforms import PerturbationCounts, PerturbationPlan
    from harness.registry import Registry
    from harness.specs.tasks import TaskSpec
    from harness.specs.transforms import PerturbationSpec
    from harness.workspace import Workspace

MISSING = "no verdict/no original"
MARK = "# Made by harness perturb; another perturb under this name replaces it.\n"


@dataclass(frozen=True, kw_only=True)
class PerturbChoice:
    """Which texts are changed, how, and where the new task goes."""

    task: str | None = option("--task", "Task whose samples are perturbed.", None)
    method: str | None = option(
        "--method",
        "Perturbations: names in configs/perturbations/, comma-separated; eda for the four of EDA. "
        "Default: all that need no model.",
        None,
    )
    model: str | None = option(
        "--model", "Model that rewrites texts, for perturbations that need one.", None
    )
    field: str | None = option(
        "--field", "Field of the sample to perturb. Default: text, else the longest.", None
    )
    out: Path | None = option(
        "-o --out", "Home folder for the new task. Default: that of --home.", None
    )
    name: str | None = option("--as", "Name of the new task. Default: TASK_perturbed.", None)
    limit: options.Limit = None
    seed: Seed = 0
    backend: options.BackendName = None

    def new_name(self) -> str:
        """The name of the new task; an unfit name or folder is refused before any work."""
        from harness.storage.files import refuse_file

        if self.out is not None:
            refuse_file(self.out)
        if self.name is None:
            return f"{self.task}_perturbed"
        return options.plain_name(self.name, option="--as")


def perturb(
    context: typer.Context,
    choice: PerturbChoice,
    where: Where,
    calling: Annotated[Calling, Only("is_offline", "retry", "budget")],
    is_json: AsJson = False,
) -> int | None:
    """Write a new task with a task's samples and slightly changed copies of them.

    Run it like any task; `harness perturb report RUN` then counts the verdicts that changed. A
    text that a perturbation cannot change is counted and left out.
    """
    if context.invoked_subcommand is not None:
        return None
    if choice.task is None:
        raise SpecError("perturb: name a task with --task, or a run with `perturb report RUN`")
    from harness.implicitness.open import with_options
    from harness.pipeline.plan import subsample
    from harness.pipeline.transforms import PerturbationPlan, field_of, perturbed_task

    name, home = choice.new_name(), choice.out or where.home
    space = where.workspace(calling)
    spec = space.registry.load("tasks", choice.task)
    spec = with_options(spec, name=choice.task, table=where.table, scorer=None)
    specs = _chosen(space.registry, choice.method)
    model = _model(space.registry, specs, choice)
    every, entry = space.samples(spec.data)
    samples = subsample(every, choice.limit, seed=choice.seed)
    plan = PerturbationPlan(field_of(samples, choice.field), specs, choice.seed)
    all_samples, counts = _perturbed(space, samples, spec, plan=plan, model=model)
    about = (
        f"Task {choice.task}, data {entry.label}, with its {plan.field} perturbed "
        f"(seed {choice.seed}): {', '.join(specs)}."
    )
    new = perturbed_task(spec, name=name, of=choice.task, about=about)
    path = _write(home, name, new, samples=all_samples)
    if is_json:
        result = {"task": name, "file": path, "originals": len(samples)}
        echo_json({**result, "perturbations": counts})
    else:
        _put_counts(counts, originals=len(samples), field=plan.field)
        echo(f"{len(all_samples)} samples of task {name} in {path}")
        echo(f"next: harness run --task {name} --model MODEL --home {home}")
    return ExitCode.of(any(part.missing for part in counts))


def report(
    run: RunName,
    judge: list[str] | None = option("--judge", "Judge; repeat for more. Default: all.", None),
    out: Path | None = option("-o --out", "CSV file. Default: below RESULTS/flips/.", None),
    seed: Seed = 0,
    results: Results = RESULTS,
    is_json: AsJson = False,
) -> int:
    """Count the verdicts and answers that each perturbation changes, with intervals by original."""
    from harness.analysis.compare import FlipRate, flip_rows
    from harness.analysis.pairings import judge_named
    from harness.storage.cells import records_csv
    from harness.storage.runs import StoredRun, find_run

    folder = find_run(results, run)
    stored = StoredRun.read(folder)
    judges = [judge_named(stored, one) for one in judge] if judge else stored.file.judges
    rows = flip_rows(stored, judges, seed=str(seed))
    table = out or results / "flips" / f"{stored.file.digest[:16]}.csv"
    put_rows(
        rows, {table: records_csv(FlipRate, rows)}, is_json=is_json, show=lambda: _put_flips(rows)
    )
    missing = max((row.missing for row in rows), default=0)
    unmatched = max((row.unmatched for row in rows), default=0)
    if missing or unmatched:
        log(
            f"left out: at most {missing} pairs without a verdict, and {unmatched} perturbed "
            "samples whose original was not run"
        )
    return ExitCode.of(missing or unmatched)


def _chosen(registry: "Registry", method: str | None) -> "dict[str, PerturbationSpec]":
    """The perturbations of names in their order; eda is all whose name begins with eda_."""
    known = registry.names("configs/perturbations")
    found: dict[str, PerturbationSpec] = {}
    for one in options.names(method, "--method") if method is not None else ("all",):
        if one == "all":
            found |= _without_model(registry, known)
            continue
        members = [name for name in known if name.startswith(f"{one}_")]
        names = [one] if one in known or not members else members
        found |= {name: registry.load("configs/perturbations", name) for name in names}
    return found


def _without_model(
    registry: "Registry", known: "Sequence[str]"
) -> "Mapping[str, PerturbationSpec]":
    """The perturbations that need no model, and no WordNet where none is installed."""
    from harness.specs.transforms import AskedSpec, WordNetSpec
    from harness.text.edits import is_wordnet_installed

    specs = {name: registry.load("configs/perturbations", name) for name in known}
    found = {name: spec for name, spec in specs.items() if not isinstance(spec, AskedSpec)}
    absent = [name for name, spec in found.items() if isinstance(spec, WordNetSpec)]
    if absent and not is_wordnet_installed():
        log(f"left out: {', '.join(absent)}, because no WordNet is installed")
        return {name: spec for name, spec in found.items() if name not in absent}
    return found


def _model(
    registry: "Registry", specs: "Mapping[str, PerturbationSpec]", choice: PerturbChoice
) -> "Model | None":
    """The model that rewrites texts, where a perturbation needs one."""
    from harness.specs.transforms import AskedSpec

    asking = [name for name, spec in specs.items() if isinstance(spec, AskedSpec)]
    model = choice.model
    if model is None and asking:
        raise SpecError(f"perturbation {asking[0]} asks a model: name one with --model")
    if model is None:
        return None
    if not asking:
        raise SpecError(f"--model {model}: none of these perturbations asks a model; leave it out")
    return registry.model(
        model, registry.load("configs/models", model, options.backend(choice.backend))
    )


def _perturbed(
    space: "Workspace",
    samples: "Sequence[Sample]",
    task: "TaskSpec",
    *,
    plan: "PerturbationPlan",
    model: "Model | None",
) -> "tuple[list[Sample], list[PerturbationCounts]]":
    """The samples with their perturbed copies, and the counts of each perturbation."""
    from harness.pipeline.transforms import Writer, perturbed

    if model is None:
        return perturbed(samples, task, plan, writer=None)
    with space.desk(model) as desk:
        return perturbed(samples, task, plan, writer=Writer(desk, space.registry.prompts))


def _write(folder: Path, name: str, spec: "TaskSpec", *, samples: "Sequence[Sample]") -> Path:
    """Write the new task and its samples into a home folder; only a task made here is replaced."""
    import msgspec
    import yaml

    from harness.pipeline.transforms import sample_line
    from harness.storage.files import write_whole

    home = options.registry(folder) if folder.is_dir() else options.registry(Path())
    path = folder / "tasks" / f"{name}.yaml"
    is_ours = path.is_file() and path.read_text("utf-8").startswith(MARK)
    if name in home.names("tasks") and not is_ours:
        raise SpecError(f"there is a task {name!r} already; give the new one another with --as")
    text = yaml.safe_dump(msgspec.to_builtins(spec), sort_keys=False, allow_unicode=True, width=100)
    target = folder / "tasks" / "samples" / f"{name}.jsonl"
    lines = [msgspec.json.encode(sample_line(part), order="deterministic") for part in samples]
    write_whole(target, b"".join(part + b"\n" for part in lines))
    write_whole(path, (MARK + text).encode())
    return target


def _put_counts(counts: "Sequence[PerturbationCounts]", *, originals: int, field: str) -> None:
    lines = [
        (
            *(part.perturbation, part.keeps_meaning, part.changed, part.unchanged),
            ", ".join(f"{n} {reason}" for reason, n in sorted(part.missing.items())) or "0",
        )
        for part in counts
    ]
    head = ("perturbation", "keeps meaning", "changed", "unchanged", "missing")
    echo_table(f"{originals} samples, field {field}", head, lines)


def _put_flips(rows: "Sequence[FlipRate]") -> None:
    """Print a table of flips for each variant, decoding and judge."""
    head = ("perturbation", "keeps meaning", "flips", "95% interval", "n", "originals")
    more = ("to wrong", "to right", "other answer", "mean before", "after", MISSING, "note")
    tables: dict[tuple[str, ...], list[FlipRate]] = {}
    for row in rows:
        key = (row.model, row.task, row.variant, row.decoding, row.judge)
        tables.setdefault(key, []).append(row)
    for (model, task, variant, decoding, judge), members in tables.items():
        lines = [
            (
                *(row.perturbation, row.keeps_meaning, row.value, (row.low, row.high), row.n),
                *(row.clusters, row.to_wrong, row.to_right, row.answers, row.original),
                *(row.perturbed, f"{row.missing}/{row.unmatched}", row.reason or ""),
            )
            for row in members
        ]
        title = f"{model} on {task}, {variant} ({decoding}), by {judge}"
        echo_table(title, (*head, *more), lines)
