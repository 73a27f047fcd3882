"""The commands that make and extend runs: run, judge, read, import.

`run` is where the life of a run begins: options become RunOptions, and the pipeline does the rest.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from harness.cli import options
from harness.cli.command import ExitCode, Only, argument, option
from harness.cli.options import OFFLINE, AsJson, Calling, RunName, Where
from harness.cli.output import echo, echo_json, echo_table, log
from harness.cli.run_summary import put_dry_runs, put_runs

if TYPE_CHECKING:
    from harness.importers.import_files import Imported
    from harness.pipeline.resolve import JudgePlan, RunOptions, RunPlan


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """How judges that ask a model ask it."""

    judge_model: str | None = option(
        "--judge-model",
        "Model for the judges that ask one, instead of their own; such a judge is JUDGE/MODEL.",
        None,
    )
    is_self_judge_allowed: bool = option(
        "--allow-self-judge", "Let a model judge its own answers.", False
    )
    is_dry: bool = option("--dry-run", "Print the planned calls and prices; make none.", False)


@dataclass(frozen=True, kw_only=True)
class RunChoice:
    """What a run asks, of which models."""

    task: str = option("--task", "Task: a name in tasks/.")
    model: str = option("--model", "Models: names in configs/models/, comma-separated.")
    judge: list[str] | None = option(
        "--judge", "Judge; repeat for more. Default: the task's judges.", None
    )
    variant: str | None = option(
        "--variant", "Variants, comma-separated, or all. Default: the task's.", None
    )
    limit: options.Limit = None
    seed: options.Seed = 0
    backend: options.BackendName = None
    answers: str | None = option(
        "--answers", "How the model answers choices: logprob, top_logprobs or written.", None
    )
    scorer: str | None = option(
        "--scorer",
        "Source of implicitness: a name in configs/scorers/, `column` (of the data) or `none`.",
        None,
    )

    def resolved(self, asking: JudgeOptions, table: str | None) -> "list[RunOptions]":
        """The options of each model's run."""
        from harness.pipeline.resolve import RunOptions

        shared = RunOptions(
            task=self.task,
            model=self.model,
            judges=tuple(self.judge or ()),
            variants=options.names(self.variant),
            backend=options.backend(self.backend),
            answers=options.answer_mode(self.answers),
            judge_model=asking.judge_model,
            seed=self.seed,
            limit=self.limit,
            is_self_judge_allowed=asking.is_self_judge_allowed,
            table=table,
            scorer=self.scorer,
        )
        models = options.names(self.model, "--model")
        return [replace(shared, model=model) for model in models]


def run(
    choice: RunChoice,
    asking: JudgeOptions,
    where: Where,
    calling: Calling,
    is_json: AsJson = False,
) -> int:
    """Answer a task with models, have judges read the answers, and score them.

    Finished calls are stored at once and never repeated: run the same command again to resume.

    \b
    Examples:
      harness run --task intent_resolution --model oracle,literal --judge minilm-cosine
      harness run --task intent_resolution --model gpt-4o --limit 20 --dry-run
    """
    from harness.pipeline.execute import run_each
    from harness.pipeline.resolve import resolve

    space = where.workspace(calling)
    if not choice.judge:
        judges = ", ".join(space.registry.load("tasks", choice.task).judges)
        log(f"judges of task {choice.task}: {judges} (choose others with --judge)")
    plans = [resolve(space, one) for one in choice.resolved(asking, where.table)]
    if not asking.is_dry:
        return put_runs(run_each(plans), is_json=is_json, is_all=calling.retry == "all")
    from harness.pipeline.preview import dry_runs

    calls = dict(zip(map(_title, plans), dry_runs(plans), strict=True))
    return put_dry_runs(calls, is_json=is_json, terms=space.terms)


def judge(
    run: RunName,
    *,
    judge: list[str] = option("--judge", "Judge; repeat for more."),
    asking: JudgeOptions,
    where: Annotated[Where, Only("prompts", "results", "home")],
    calling: Calling,
    is_json: AsJson = False,
) -> int:
    """Have more judges read a stored run; the model under test is not loaded.

    \b
    Example:
      harness judge 3f9a --judge gpt4-contextual --budget 5
    """
    from harness.pipeline.execute import judge as judge_stored
    from harness.pipeline.resolve import resolve_stored
    from harness.pipeline.setup import JudgeModelOptions
    from harness.storage.runs import find_run

    folder = find_run(where.results, run)
    space = where.workspace(calling, folder.results(where.results))
    how = JudgeModelOptions(asking.judge_model, asking.is_self_judge_allowed)
    plan = resolve_stored(space, folder, judge, asking=how)
    if not asking.is_dry:
        return put_runs([judge_stored(plan)], is_json=is_json, is_all=calling.retry == "all")
    from harness.pipeline.preview import dry_judges

    return put_dry_runs({_title(plan): dry_judges(plan)}, is_json=is_json, terms=space.terms)


def read(
    run: RunName,
    where: Annotated[Where, Only("prompts", "results", "home")],
    is_json: AsJson = False,
) -> int:
    """Parse a run's stored replies with the current parsers and list the verdicts that change.

    No call is made.
    """
    from harness.pipeline.execute import reread
    from harness.pipeline.resolve import resolve_reread
    from harness.storage.runs import find_run

    folder = find_run(where.results, run)
    space = where.workspace(OFFLINE, folder.results(where.results))
    found = reread(resolve_reread(space, folder))
    if is_json:
        echo_json(found)
        return ExitCode.DONE
    for change in found.changes:
        row = change.row
        before, after = (f"{v.reason or v.value}" for v in (change.before, change.after))
        echo(f"{change.judge}: {row.sample.id} {row.variant} {row.decoding}: {before} -> {after}")
    echo(f"{len(found.changes)} verdicts changed; no call was made")
    if found.altered:
        log(
            f"{', '.join(found.altered)}: changed since this run was scored, so nothing was "
            "written; repeat `harness run` or `harness judge` to score the answers anew"
        )
    for name, count in found.stale.items():
        if count:
            log(
                f"judge {name}: the wording of {count} questions has changed since; to ask the new "
                f"ones: `harness judge {run} --judge {name}`"
            )
    return ExitCode.DONE


@dataclass(frozen=True, kw_only=True)
class ImportChoice:
    """Which files hold answers, to what, by whom."""

    files: list[Path] = argument("FILE...", "Files of stored answers.")
    task: str = option("--task", "Task that was answered: a name in tasks/.")
    model: str = option("--model", "Name for the model that answered; it is not called.")
    column_map: str | None = option(
        "--map",
        "Column map: a name in configs/imports/, or the path of a YAML file. Default: the format "
        "is recognised by its content.",
        None,
    )


def import_files(
    choice: ImportChoice,
    where: Annotated[Where, Only("data", "results", "home")],
    is_json: AsJson = False,
) -> int:
    """Make a run of answers that others have stored, and have the task's judges read them.

    No model is called. Importing the same files again changes nothing.
    """
    from harness.importers import import_files as importer

    space = where.workspace(OFFLINE)
    files = tuple(choice.files)
    wanted = importer.ImportOptions(files, choice.task, choice.model, choice.column_map)
    found = importer.import_answers(space, wanted)
    for note in found.notes:
        log(f"{note.path}: {note.rows} row{'s' * (note.rows != 1)} {note.what}")
    for path in found.replaced:
        log(f"run {path}: removed; the new run below holds its answers")
    if is_json:
        done = found.done
        result = {"folder": done.folder.path, "scores": done.scores, "counts": found.counts}
        echo_json({**result, "groups": found.groups, "ratings": found.ratings, "told": found.notes})
        return ExitCode.of(done.missing)
    code = put_runs([found.done], is_json=False)
    _put_counts(found)
    if found.ratings is not None:
        echo(f"ratings {found.ratings}")
    return code


def _put_counts(found: "Imported") -> None:
    """Print how many samples of each variant and group have an answer."""
    for count in found.counts:
        echo(f"{count.variant}: answers to {count.found} of {count.samples} samples")
    groups = sorted({part.group for part in found.groups})
    cells = {(p.variant, p.group): f"{p.found} of {p.samples}" for p in found.groups}
    if len(groups) > 1:
        lines = [
            (count.variant, *(cells.get((count.variant, group), "-") for group in groups))
            for count in found.counts
        ]
        echo_table("answers found, of the samples of each group", ("variant", *groups), lines)


def _title(plan: "RunPlan | JudgePlan") -> str:
    return f"{plan.file.run.task}, {plan.file.model.name}"
