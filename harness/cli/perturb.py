"""The commands of robustness to small changes of a text: perturb, and perturb report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.options import (
    HOME,
    RESULTS,
    AsJson,
    BudgetUsd,
    Data,
    DataMode,
    Home,
    Offline,
    PromptPack,
    Results,
    Retry,
)
from harness.cli.output import echo, echo_json, echo_table, log, number, span
from harness.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.analysis.robustness import FlipRate
    from harness.core import Model, Sample
    from harness.pipeline.perturb import PerturbationCounts, PerturbationPlan
    from harness.registry import Registry
    from harness.specs.tasks import TaskSpec
    from harness.specs.transforms import PerturbationSpec
    from harness.workspace import Workspace

DONE, DONE_WITH_MISSING = 0, 1
MISSING = "no verdict/no original"
MARK = "# Made by harness perturb; another perturb under this name replaces it.\n"

app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def perturb(
    context: typer.Context,
    task: Annotated[
        str | None, typer.Option("--task", help="Task whose samples are perturbed.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            help="Perturbations: names in configs/perturbations/, comma-separated; eda for its "
            "four. Default: all that ask no model.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Model that writes texts anew, where one does.")
    ] = None,
    field: Annotated[
        str | None,
        typer.Option("--field", help="Field to perturb. Default: text, else the longest."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Home folder that the new task goes to. Default: that of --home."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--as", help="Name of the new task. Default: TASK_perturbed.")
    ] = None,
    limit: options.Limit = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of draws and subsets.")] = 0,
    backend: options.BackendName = None,
    data: Data = None,
    data_mode: DataMode = "corrected",
    table: options.TableMap = None,
    prompts: PromptPack = None,
    results: Results = RESULTS,
    home: Home = HOME,
    is_offline: Offline = False,
    retry: Retry = "failed",
    budget: BudgetUsd = None,
    is_json: AsJson = False,
) -> int | None:
    """Perturb the texts of a task, and write them beside their originals as a task to run.

    A text that a perturbation cannot change is counted and left out. With `report`, tell how many
    verdicts of a run of such a task the perturbations turn.
    """
    if context.invoked_subcommand is not None:
        return None
    if task is None:
        raise SpecError("perturb: name a task with --task, or a run with `perturb report RUN`")
    from harness.implicitness.bins import with_options
    from harness.pipeline.perturb import PerturbationPlan, field_of, perturbed_task
    from harness.pipeline.plan import subsample

    new = _new_name(task, name, out)
    terms = options.terms(is_offline=is_offline, retry=retry, budget_usd=budget)
    space = options.workspace(
        home, results, data=data, data_mode=data_mode, prompts=prompts, terms=terms
    )
    spec = with_options(space.registry.task(task), name=task, table=table, scorer=None)
    specs = _chosen(space.registry, method)
    asked = _asked(space.registry, specs, model, backend=backend)
    samples, entry = space.samples(spec.data)
    chosen = subsample(samples, limit, seed=seed)
    plan = PerturbationPlan(field_of(chosen, field), specs, seed)
    found, made = _perturbed(space, chosen, spec, plan=plan, model=asked)
    told = f"{task}, data {entry.label}"
    about = f"Task {told}, with its {plan.field} perturbed (seed {seed}): {', '.join(specs)}."
    fresh = perturbed_task(spec, name=new, of=task, about=about)
    path = _write(out or home, new, fresh, samples=found)
    if is_json:
        echo_json({"task": new, "file": path, "originals": len(chosen), "perturbations": made})
    else:
        _put_made(made, originals=len(chosen), field=plan.field)
        echo(f"{len(found)} samples of task {new} in {path}")
        echo(f"next: harness run --task {new} --model MODEL --home {out or home}")
    return DONE_WITH_MISSING if any(part.missing for part in made) else DONE


@app.command()
def report(
    run: options.RunName,
    judge: Annotated[
        list[str] | None,
        typer.Option("--judge", help="Judge whose verdicts are told; repeatable. Default: all."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="CSV file. Default: RESULTS/flips/, named for the run."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of resampled clusters.")] = 0,
    results: Results = RESULTS,
    is_json: AsJson = False,
) -> int:
    """Tell how many verdicts and answers each perturbation turns, with intervals by original."""
    from harness.analysis.robustness import FlipRate, flip_rows
    from harness.analysis.run_views import judge_named
    from harness.analysis.stored_runs import StoredRun
    from harness.storage.csv import records_csv
    from harness.storage.files import write_whole
    from harness.storage.runs import find_run

    folder = find_run(results, run)
    stored = StoredRun.read(folder)
    judges = [judge_named(stored, one) for one in judge] if judge else stored.file.judges
    rows = flip_rows(stored, judges, seed=str(seed))
    table = out or results / "flips" / f"{stored.file.digest[:16]}.csv"
    write_whole(table, records_csv(FlipRate, rows).encode())
    if is_json:
        echo_json(rows)
    else:
        _put_flips(rows)
        echo(f"{len(rows)} rows in {table}")
    missing = max((row.missing for row in rows), default=0)
    unmatched = max((row.unmatched for row in rows), default=0)
    if missing or unmatched:
        log(
            f"left out: at most {missing} pairs without a verdict, and {unmatched} perturbed "
            "samples whose original was not run"
        )
    return DONE_WITH_MISSING if missing or unmatched else DONE


def _new_name(task: str, name: str | None, out: Path | None) -> str:
    """What the new task is called; that name and the folder are refused before any work."""
    from harness.storage.files import refuse_file

    if out is not None:
        refuse_file(out)
    return f"{task}_perturbed" if name is None else options.plain_name(name, option="--as")


def _chosen(registry: "Registry", method: str | None) -> "dict[str, PerturbationSpec]":
    """The perturbations of some names, in their order; a name may begin those of several."""
    known = registry.names("configs/perturbations")
    found: dict[str, PerturbationSpec] = {}
    for one in options.names(method) if method is not None else ("all",):
        if one == "all":
            found |= _unasked(registry, known)
            continue
        members = [name for name in known if name.startswith(f"{one}_")]
        names = [one] if one in known or not members else members
        found |= {name: registry.perturbation_spec(name) for name in names}
    return found


def _unasked(registry: "Registry", known: "Sequence[str]") -> "Mapping[str, PerturbationSpec]":
    """The perturbations that ask no model and need nothing that is not here."""
    from harness.specs.transforms import AskedSpec, WordNetSpec
    from harness.text.words import is_installed

    specs = {name: registry.perturbation_spec(name) for name in known}
    found = {name: spec for name, spec in specs.items() if not isinstance(spec, AskedSpec)}
    absent = [name for name, spec in found.items() if isinstance(spec, WordNetSpec)]
    if absent and not is_installed():
        log(f"left out: {', '.join(absent)}, for no WordNet is installed")
        return {name: spec for name, spec in found.items() if name not in absent}
    return found


def _asked(
    registry: "Registry",
    specs: "Mapping[str, PerturbationSpec]",
    model: str | None,
    *,
    backend: str | None,
) -> "Model | None":
    """The model that writes texts anew, where a perturbation has one do so."""
    from harness.specs.transforms import AskedSpec

    asking = [name for name, spec in specs.items() if isinstance(spec, AskedSpec)]
    if model is None and asking:
        raise SpecError(f"perturbation {asking[0]} asks a model: name one with --model")
    if model is None:
        return None
    if not asking:
        raise SpecError(f"--model {model}: none of these perturbations asks a model; leave it out")
    return registry.model(model, registry.model_spec(model, options.backend(backend)))


def _perturbed(
    space: "Workspace",
    samples: "Sequence[Sample]",
    task: "TaskSpec",
    *,
    plan: "PerturbationPlan",
    model: "Model | None",
) -> "tuple[list[Sample], list[PerturbationCounts]]":
    """The samples and their perturbed ones, and what each perturbation came to."""
    from harness.pipeline.perturb import Writer, perturbed

    if model is None:
        return perturbed(samples, task, plan, writer=None)
    with space.desk(model) as desk:
        return perturbed(samples, task, plan, writer=Writer(desk, space.registry.prompts))


def _write(folder: Path, name: str, spec: "TaskSpec", *, samples: "Sequence[Sample]") -> Path:
    """Write the new task and its samples into a home folder; no task of anybody's is replaced."""
    import msgspec
    import yaml

    from harness.pipeline.perturb import line
    from harness.storage.files import write_whole

    home = options.registry(folder) if folder.is_dir() else options.registry(Path())
    path = folder / "tasks" / f"{name}.yaml"
    is_ours = path.is_file() and path.read_text("utf-8").startswith(MARK)
    if name in home.names("tasks") and not is_ours:
        raise SpecError(f"there is a task {name!r} already; give the new one another with --as")
    text = yaml.safe_dump(msgspec.to_builtins(spec), sort_keys=False, allow_unicode=True, width=100)
    target = folder / "tasks" / "samples" / f"{name}.jsonl"
    lines = [msgspec.json.encode(line(part), order="deterministic") for part in samples]
    write_whole(target, b"".join(part + b"\n" for part in lines))
    write_whole(path, (MARK + text).encode())
    return target


def _put_made(made: "Sequence[PerturbationCounts]", *, originals: int, field: str) -> None:
    """Print what each perturbation came to."""
    lines = [
        (
            *(part.perturbation, "yes" if part.keeps_meaning else "no"),
            *(str(part.changed), str(part.unchanged)),
            ", ".join(f"{n} {reason}" for reason, n in sorted(part.missing.items())) or "0",
        )
        for part in made
    ]
    head = ("perturbation", "keeps meaning", "changed", "unchanged", "missing")
    echo_table(f"{originals} samples, field {field}", head, lines)


def _put_flips(rows: "Sequence[FlipRate]") -> None:
    """Print the flips, a table for each variant, decoding and judge."""
    head = ("perturbation", "keeps meaning", "flips", "95% interval", "n", "originals")
    more = ("to wrong", "to right", "other answer", "mean before", "after", MISSING, "note")
    tables: dict[tuple[str, ...], list[FlipRate]] = {}
    for row in rows:
        tables.setdefault((row.model, row.task, row.variant, row.decoding, row.judge), []).append(
            row
        )
    for (model, task, variant, decoding, judge), members in tables.items():
        lines = [
            (
                *(row.perturbation, "yes" if row.keeps_meaning else "no"),
                *(number(row.value), span(row.low, row.high), str(row.n), str(row.clusters)),
                *("-" if count is None else str(count) for count in (row.to_wrong, row.to_right)),
                *map(number, (row.answers, row.original, row.perturbed)),
                *(f"{row.missing}/{row.unmatched}", row.reason or ""),
            )
            for row in members
        ]
        title = f"{model} on {task}, {variant} ({decoding}), by {judge}"
        echo_table(title, (*head, *more), lines)
