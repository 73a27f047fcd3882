"""The commands run, judge, merge, read, import: options become RunOptions of the pipeline."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from harness.cli import options
from harness.cli.options import AsJson, ExitCode, Only, Shown, Where, argument, one_of, option
from harness.cli.plans.shards import part_of, put_parts
from harness.errors import SpecError
from harness.present.screen import ProgressLine, say, show_json, warn
from harness.storage.find_runs import find_run
from harness.storage.frames import plain_rows

if TYPE_CHECKING:
    from harness.cli.plans.plan import PlanCommand
    from harness.importers.import_files import Imported
    from harness.pipeline import execute, resolve


ASKED = "plan task model judge variant limit seed backend answers scorer"
"""What says which calls are those of a run."""


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """How judges that ask a model ask it."""

    judge_model: str | None = option(
        "Model that the judges ask, instead of their own: of the judge JUDGE/MODEL.", None
    )
    is_self_judge_allowed: bool = option(
        "Let a model judge its own answers.", False, flags="--allow-self-judge"
    )
    tag: str | None = options.TAG
    is_dry: bool = option(
        "Print the planned calls and prices; make none.", False, flags="--dry-run"
    )
    shard: str | None = option(
        "Make only part i/N of the calls, and write no run; `harness merge` makes it of all parts.",
        None,
        metavar="I/N",
    )


@dataclass(frozen=True, kw_only=True)
class RunChoice:
    """What a run asks, and the models it asks."""

    plan: str | None = argument(
        "PLAN",
        "Plan: a name in configs/plans/, or a YAML file that says what is run.",
        None,
    )
    is_status: bool = option(
        "Print what is done and left of each run of a plan; make no call.", False, flags="--status"
    )
    task: str | None = option("Tasks: names in tasks/, comma-separated.", None)
    model: str | None = option("Models: names in configs/models/, comma-separated.", None)
    judge: list[str] | None = option("Judges, comma-separated. Default: those of the task.", None)
    variant: str | None = option("Variants, comma-separated, or all. Default: the task's.", None)
    limit: options.Limit = None
    seed: options.Seed = 0
    backend: options.BackendName = None
    answers: str | None = option(
        "How choices are answered: logprob, by the probability of each (local models, some "
        "servers); top_logprobs, by the likeliest next tokens (chat servers); or written (every "
        "model). Default: logprob, else top_logprobs.",
        None,
    )
    scorer: str | None = option(
        "Scorer of implicitness: a name in configs/scorers/, column (of the data) or none.", None
    )

    def opened(
        self, asking: JudgeOptions, where: Where, calling: options.Calling, shown: Shown
    ) -> "PlanCommand":
        """The plan; SpecError for options that its file has the keys for."""
        from harness.cli.plans.plan import PlanCommand

        names = ("task", "model", "judge", "variant", "limit", "backend", "answers", "scorer")
        given = {f"--{name}": getattr(self, name) for name in names}
        given |= {"--seed": self.seed or None, "--judge-model": asking.judge_model}
        given["--map"] = where.table
        if others := [name for name, value in given.items() if value is not None]:
            raise SpecError(
                f"{', '.join(others)}: not with a plan; write the keys of these into {self.plan}, "
                "where all of its commands read them (docs/money.md)"
            )
        allowed, is_json = asking.is_self_judge_allowed, shown.is_json
        return PlanCommand.open(
            self.plan or "", where, calling, is_self_judge=allowed, is_json=is_json
        )

    def resolved(self, asking: JudgeOptions, table: str | None) -> "list[resolve.RunOptions]":
        """The options of each run: of every model, task by task."""
        from harness.pipeline.plan import AnswerMode
        from harness.pipeline.resolve import RunOptions

        if self.is_status:
            raise SpecError("--status: is of a plan; name one, as in `harness run plan.yaml`")
        needed = {"--task": self.task, "--model": self.model}
        if absent := [name for name, value in needed.items() if value is None]:
            raise SpecError(
                f"missing {' and '.join(absent)}; give that, or the YAML file of a plan"
            )
        mode = self.answers
        tasks, models = (options.names(value, name) for name, value in needed.items())
        shared = RunOptions(
            task=tasks[0],
            model=models[0],
            judges=options.names(self.judge, "--judge"),
            variants=options.names(self.variant),
            backend=options.backend(self.backend),
            answers=None if mode is None else AnswerMode(one_of("--answers", mode, *AnswerMode)),
            judge_model=asking.judge_model,
            seed=self.seed,
            limit=self.limit,
            is_self_judge_allowed=asking.is_self_judge_allowed,
            table=table,
            scorer=self.scorer,
        )
        return [replace(shared, task=task, model=model) for task in tasks for model in models]


def run(
    choice: RunChoice,
    asking: JudgeOptions,
    where: Where,
    calling: options.Calling,
    shown: Shown,
) -> int:
    """Answer a task with models, judge the answers and score them.

    Finished calls are stored at once and never repeated: run the same command again to resume.

    \b
    Examples:
      harness run --task intent_resolution --model oracle --judge minilm-cosine
      harness run --task intent_resolution --model gpt-4o --limit 20 --dry-run
      harness run demo --status
    """
    from harness.cli.run_report import put_dry_runs, put_runs
    from harness.pipeline import execute, resolve
    from harness.pipeline.studies import shards

    options.checked_tag(asking.tag)
    part = part_of(asking.shard, calling, is_dry=asking.is_dry)
    if choice.plan is not None:
        plan = choice.opened(asking, where, calling, shown)
        if choice.is_status or asking.is_dry:
            return plan.status() if choice.is_status else plan.dry_run()
        return plan.run_part(part) if part is not None else plan.run(asking.tag)
    wanted, line = choice.resolved(asking, where.table), ProgressLine()
    space = where.workspace(calling, progress=line)
    for task in () if choice.judge else dict.fromkeys(one.task for one in wanted):
        judges = ", ".join(space.registry.load("tasks", task).judges)
        warn(f"judges of task {task}: {judges} (choose others with --judge)")
    is_run = part is None and not asking.is_dry
    plans = [resolve.resolve(space, one, is_shown_again=is_run) for one in wanted]
    named = [plan.client.model.name for plan in plans]
    if part is not None:
        return put_parts(line.each(named, shards.run_each(plans, part)), shown)
    if asking.is_dry:
        return put_dry_runs(plans, space, is_json=shown.is_json)
    runs = tagged(line.each(named, execute.run_each(plans)), asking.tag)
    return put_runs(runs, shown, is_several=len(plans) > 1)


def judge(
    run: options.RunName,
    *,
    judge: list[str] = option("Judges, comma-separated."),
    asking: JudgeOptions,
    where: Annotated[Where, Only("prompts results home")],
    calling: options.Calling,
    shown: Shown,
) -> int:
    """Judge a stored run with more judges; the model under test is not loaded.

    \b
    Example:
      harness judge 3f9a --judge contextual --budget 5
    """
    from harness.cli.run_report import put_dry_runs, put_runs
    from harness.pipeline import execute, resolve
    from harness.pipeline.studies import shards

    options.checked_tag(asking.tag)
    part = part_of(asking.shard, calling, is_dry=asking.is_dry)
    folder = find_run(where.results, run)
    space = where.workspace(calling, folder.results(where.results))
    plan = resolve.resolve_stored(
        space,
        folder,
        options.names(judge, "--judge"),
        judge_model=asking.judge_model,
        allows_self=asking.is_self_judge_allowed,
    )
    if part is not None:
        return put_parts((shards.judge_part(one, part) for one in [plan]), shown)
    if asking.is_dry:
        return put_dry_runs([plan], space, is_json=shown.is_json)
    return put_runs(tagged([execute.judge(plan)], asking.tag), shown)


def merge(
    choice: Annotated[RunChoice, Only(ASKED)],
    asking: Annotated[JudgeOptions, Only("judge_model is_self_judge_allowed tag")],
    where: Where,
    shown: Shown,
) -> int:
    """Make the runs of shards from their stored calls; no model is called.

    Takes the options of the run, or the plan, that was split with --shard. The runs are those that
    one undisturbed command would have written. If calls are missing, it says how many, and writes
    nothing.

    \b
    Examples:
      harness merge night.yaml
      harness merge --task intent_resolution --model gpt-4o
    """
    from harness.cli.run_report import put_runs
    from harness.pipeline import execute, resolve
    from harness.pipeline.studies import shards

    options.checked_tag(asking.tag)
    if choice.plan is not None:
        return choice.opened(asking, where, options.OFFLINE, shown).merge(asking.tag)
    wanted, space = choice.resolved(asking, where.table), where.workspace(options.OFFLINE)
    plans = [resolve.resolve(space.of_stored(), one) for one in wanted]
    shards.refuse_missing(plans)  # before any run is written
    runs = tagged(execute.run_each(plans), asking.tag)
    return put_runs(runs, shown, is_several=len(plans) > 1)


def read(
    run: options.RunName,
    where: Annotated[Where, Only("prompts results home")],
    is_json: AsJson = False,
) -> int:
    """Parse a run's stored replies with the current parsers and list the verdicts that change.

    No call is made.
    """
    from harness.pipeline import reread, resolve

    folder = find_run(where.results, run)
    space = where.workspace(options.OFFLINE, folder.results(where.results))
    found = reread.reread(resolve.resolve_reread(space, folder))
    if is_json:
        show_json(found)
        return ExitCode.DONE
    for change in found.changes:
        row = change.row
        before, after = (f"{v.reason or v.value}" for v in (change.before, change.after))
        say(f"{change.judge}: {row.sample.id} {row.variant} {row.decoding}: {before} -> {after}")
    count = len(found.changes)
    say(f"{count} verdict{'s' * (count != 1)} changed; no model was called")
    if found.altered:
        warn(
            f"{', '.join(found.altered)}: changed since this run was scored, so nothing was "
            "written; repeat `harness run` or `harness judge` to score the answers again"
        )
    for name, count in found.stale.items():
        if count:
            warn(
                f"judge {name}: the wording of {count} questions has changed since; to ask the new "
                f"ones: `harness judge {run} --judge {name}`"
            )
    return ExitCode.DONE


@dataclass(frozen=True, kw_only=True)
class ImportChoice:
    """Which files hold answers, to what, by whom."""

    files: list[Path] = argument("FILE", "Files of stored answers.")
    task: str = option("Task that was answered: a name in tasks/.")
    model: str = option("Name for the model that answered; it is not called.")
    column_map: str | None = option(
        "Column map: a name in configs/imports/, or a path. Default: found from the content.",
        None,
        flags="--map",
    )
    tag: str | None = options.TAG


def import_files(
    choice: ImportChoice,
    where: Annotated[Where, Only("data results home")],
    shown: Shown,
) -> int:
    """Make a run from answers that another program stored; the task's judges then read them.

    No model is called. Importing the same files again changes nothing.

    \b
    Example:
      harness import mine.csv --task intent_detection --model mine --map mine.yaml
    """
    from harness.cli.run_report import put_runs
    from harness.importers import import_files as importer

    options.checked_tag(choice.tag)
    space = where.workspace(options.OFFLINE)
    found = importer.import_answers(
        space, choice.files, choice.task, choice.model, choice.column_map
    )
    [_] = tagged([found.done], choice.tag)
    for path, what, rows in found.notes.to_numpy().tolist():
        warn(f"{path}: {rows} row{'s' * (rows != 1)} {what}")
    if shown.is_json:
        result = {"folder": found.done.folder.path, "scores": found.done.scores}
        result |= {"counts": _totals(found), "groups": plain_rows(found.counts)}
        show_json(result | {"ratings": found.ratings, "notes": plain_rows(found.notes)})
        return ExitCode.of(found.done.missing)
    code = put_runs([found.done], shown)
    for part in _totals(found):
        say(f"{part['variant']}: answers to {part['found']} of {part['samples']} samples")
    if found.ratings is not None:
        say(f"ratings {found.ratings}")
    return code


def _totals(found: "Imported") -> list[dict[str, Any]]:
    """How many answers were found of each variant."""
    by = found.counts.groupby("variant", sort=False)[["found", "samples"]]
    return plain_rows(by.sum().reset_index())


def tagged(runs: "Iterable[execute.RunResult]", tag: str | None) -> "Iterator[execute.RunResult]":
    """The runs as they end, each named by the tag."""
    for done in runs:
        if tag is not None:
            done.folder.write_tag(tag)
        yield done
