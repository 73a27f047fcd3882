"""The commands run, judge, merge, read, import: options become runs of the pipeline."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from harness.cli import options
from harness.cli.options import AsJson, Only, Where, argument, one_of, option, switch
from harness.errors import SpecError
from harness.present.screen import ProgressLine, say, show_json, warn
from harness.storage.find_runs import find_run
from harness.storage.frames import plain_rows

if TYPE_CHECKING:
    from harness.cli.plans.study import Study
    from harness.pipeline.resolve import RunOptions
    from harness.pipeline.studies.shards import Shard


ASKED = "plan task model judge variant limit seed backend answers scorer"
"""What says which calls are those of a run."""


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """How judges that ask a model ask it, and how much of a run is made."""

    judge_model: str | None = option("Model that the judges ask, instead of their own.")
    is_self_judge_allowed: bool = switch("--allow-self-judge", "Let a model judge its own answers.")
    tag: str | None = options.TAG
    is_dry: bool = switch("--dry-run", "Print planned calls and prices; make none.")
    shard: str | None = option("Make part i/N of the calls; see merge.", metavar="I/N")

    def part(self, calling: options.Calling) -> "Shard | None":
        """The shard, None for all calls; SpecError for options that exclude each other."""
        from harness.pipeline.studies.shards import Shard

        options.checked_tag(self.tag)
        if self.shard is not None and (calling.is_batch or self.is_dry):
            raise SpecError("--shard: not with --batch or --dry-run, which are of a whole run")
        return None if self.shard is None else Shard.parse(self.shard)


@dataclass(frozen=True, kw_only=True)
class RunChoice:
    """What a run asks, and the models it asks."""

    plan: str | None = argument("PLAN", "Plan: a name in configs/plans/, or a YAML file.", None)
    is_status: bool = switch("--status", "Print what of a plan is done; make no call.")
    task: str | None = option("Tasks: names in tasks/, comma-separated.")
    model: str | None = option("Models, comma-separated: names, hf:NAME, openai:NAME@URL.")
    judge: list[str] | None = option("Judges, comma-separated. Default: those of the task.")
    variant: str | None = option("Variants, comma-separated, or all. Default: the task's.")
    limit: options.Limit = None
    seed: options.Seed = 0
    backend: options.BackendName = None
    answers: str | None = option(
        "How choices are answered: logprob (local models, some servers), top_logprobs (chat "
        "servers) or written (every model). Default: the first that the model can, but written."
    )
    scorer: str | None = option("Scorer of implicitness: a name, column or none.")

    def study(
        self, asking: JudgeOptions, where: Where, calling: options.Calling, *, is_json: bool
    ) -> "Study":
        """The runs of the plan, or of the options."""
        from harness.cli.app import parameters_of
        from harness.cli.plans.study import Study
        from harness.pipeline.studies.plans import option_cells, plan_cells

        options.checked_tag(asking.tag)
        line = ProgressLine()
        if self.plan is None:
            space = where.workspace(calling, progress=line)
            wanted = self._options(asking, where.table, space.registry.filed)
            return Study("", space, option_cells(space, wanted), line, "--budget", is_json)
        self._refuse_with_plan(asking, where)
        space = where.workspace(calling, progress=line)
        spec = space.registry.load("configs/plans", self.plan)
        name = options.plain_name(Path(self.plan).stem, option="plan")
        if calling.budget is None:
            space = space.with_budget(spec.budget_usd)
        cells = plan_cells(space, spec, name=name, allows_self=asking.is_self_judge_allowed)
        cap = "budget_usd" if calling.budget is None else "--budget"
        for command in (*spec.before, *spec.after):
            parameters_of(shlex.split(command.partition(" > ")[0]))
        places = {name: getattr(where, name) for name in ("results", "home", "data", "prompts")}
        return Study(name, space, cells, line, cap, is_json, spec.before, spec.after, places)

    def _refuse_with_plan(self, asking: JudgeOptions, where: Where) -> None:
        names = ("task", "model", "judge", "variant", "limit", "backend", "answers", "scorer")
        given = {f"--{name}": getattr(self, name) for name in names}
        given |= {"--seed": self.seed or None, "--judge-model": asking.judge_model}
        given["--map"] = where.table
        if others := [name for name, value in given.items() if value is not None]:
            fact = f"{', '.join(others)}: not with a plan"
            if self.plan in options.registry(where.home).names("tasks"):
                raise SpecError(f"{fact}; {self.plan} is a task: write --task {self.plan}")
            raise SpecError(f"{fact}; write the keys of these into {self.plan} (docs/money.md)")

    def _options(
        self, asking: JudgeOptions, table: str | None, filed: Callable[[str], str]
    ) -> "list[RunOptions]":
        from harness.pipeline.plan import AnswerMode
        from harness.pipeline.resolve import RunOptions

        if self.is_status:
            raise SpecError("--status: is of a plan; name one, as in `harness run plan.yaml`")
        needed = {"--task": self.task, "--model": self.model}
        if absent := [name for name, value in needed.items() if value is None]:
            fact = f"missing {' and '.join(absent)}"
            raise SpecError(f"{fact}; give that, or the YAML file of a plan")
        given = None if self.answers is None else one_of("--answers", self.answers, *AnswerMode)
        tasks, models = (options.names(value, name) for name, value in needed.items())
        models = tuple(map(filed, models))
        judges, variants = options.names(self.judge, "--judge"), options.names(self.variant)
        made = RunOptions(tasks[0], models[0], judges, variants, options.backend(self.backend))
        made = replace(made, seed=self.seed, limit=self.limit, table=table, scorer=self.scorer)
        is_self = asking.is_self_judge_allowed
        made = replace(made, judge_model=asking.judge_model, is_self_judge_allowed=is_self)
        made = replace(made, answers=given)
        return [replace(made, task=task, model=model) for task in tasks for model in models]


def run(
    choice: RunChoice,
    asking: JudgeOptions,
    where: Where,
    calling: options.Calling,
    is_json: AsJson = False,
) -> int:
    """Answer a task with models, judge the answers and score them.

    Finished calls are stored at once and never repeated: run the same command again to resume.

    \b
    Examples:
      harness run --task intent_resolution --model oracle --judge ngram-cosine
      harness run --task intent_resolution --model gpt-4o --limit 20 --dry-run
      harness run demo --status
    """
    part = asking.part(calling)
    study = choice.study(asking, where, calling, is_json=is_json)
    by_task = {cell.options.task: cell.options.judges for cell in study.cells if not study.name}
    for task, judges in by_task.items():
        if not judges:
            names = ", ".join(study.space.registry.load("tasks", task).judges)
            warn(f"judges of task {task}: {names} (choose others with --judge)")
    if choice.is_status or asking.is_dry:
        return study.status() if choice.is_status else study.dry_run()
    return study.run(asking.tag) if part is None else study.run_part(part)


def judge(
    run: options.RunName,
    *,
    judge: list[str] = option("Judges, comma-separated.", ...),
    asking: JudgeOptions,
    where: Annotated[Where, Only("prompts results home")],
    calling: options.Calling,
    is_json: AsJson = False,
) -> int:
    """Judge a stored run with more judges; the model under test is not loaded.

    \b
    Example:
      harness judge 3f9a --judge contextual --budget 5
    """
    from harness.cli.plans.study import put_judging
    from harness.cli.run_report import put_run
    from harness.pipeline import execute, resolve

    part = asking.part(calling)
    folder = find_run(where.results, run)
    space = where.workspace(calling, folder.results(where.results))
    plan = resolve.resolve_stored(
        space,
        folder,
        options.names(judge, "--judge"),
        judge_model=asking.judge_model,
        allows_self=asking.is_self_judge_allowed,
    )
    if part is not None or asking.is_dry:
        return put_judging(plan, part, space, is_json=is_json)
    return put_run(execute.judge(plan), is_json=is_json, tag=asking.tag)


def merge(
    choice: Annotated[RunChoice, Only(ASKED)],
    asking: Annotated[JudgeOptions, Only("judge_model is_self_judge_allowed tag")],
    where: Where,
    is_json: AsJson = False,
) -> int:
    """Make the runs of shards from their stored calls; no model is called.

    Takes the options of the run, or the plan, that was split with --shard. If calls are missing, it
    says how many, and writes nothing.

    \b
    Examples:
      harness merge night.yaml
      harness merge --task intent_resolution --model gpt-4o
    """
    return choice.study(asking, where, options.OFFLINE, is_json=is_json).merge(asking.tag)


def read(
    run: options.RunName,
    where: Annotated[Where, Only("prompts results home")],
    is_json: AsJson = False,
) -> None:
    """Parse a run's stored replies with the current parsers and list the verdicts that change.

    No call is made.
    """
    from harness.pipeline import reread, resolve

    folder = find_run(where.results, run)
    space = where.workspace(options.OFFLINE, folder.results(where.results))
    found = reread.reread(resolve.resolve_reread(space, folder))
    show_json(found, is_json)
    for change in found.changes:
        row = change.row
        before, after = (f"{v.reason or v.value}" for v in (change.before, change.after))
        say(f"{change.judge}: {row.sample.id} {row.variant} {row.decoding}: {before} -> {after}")
    count = len(found.changes)
    say(f"{count} verdict{'s' * (count != 1)} changed; no model was called")
    if found.altered:
        fact = f"{', '.join(found.altered)}: changed since this run was scored, so nothing was"
        warn(f"{fact} written; repeat `harness run` or `harness judge` to score the answers again")
    for name, count in found.stale.items():
        if count:
            fact = f"judge {name}: the wording of {count} questions has changed since"
            warn(f"{fact}; to ask the new ones: `harness judge {run} --judge {name}`")


@dataclass(frozen=True, kw_only=True)
class ImportChoice:
    """Which files hold answers, to what, by whom."""

    files: list[Path] = argument("FILE", "Files of stored answers.")
    task: str = option("Task that was answered: a name in tasks/.", ...)
    model: str = option("Name for the model that answered; it is not called.", ...)
    column_map: str | None = option(
        "Column map: a name in configs/imports/, or a path. Default: found.", flags="--map"
    )
    tag: str | None = options.TAG


def import_files(
    choice: ImportChoice,
    where: Annotated[Where, Only("data results home")],
    is_json: AsJson = False,
) -> int:
    """Make a run from answers that another program stored; the task's judges then read them.

    No model is called. Importing the same files again changes nothing.

    \b
    Example:
      harness import mine.csv --task intent_detection --model mine --map mine.yaml
    """
    from harness.cli.run_report import facts_of, put_run
    from harness.importers import import_files as importer

    options.checked_tag(choice.tag)
    found = importer.import_answers(
        where.workspace(options.OFFLINE), choice.files, choice.task, choice.model, choice.column_map
    )
    if choice.tag is not None:
        found.done.folder.write_tag(choice.tag)
    for path, what, rows in found.notes.to_numpy().tolist():
        warn(f"{path}: {rows} row{'s' * (rows != 1)} {what}")
    by = found.counts.groupby("variant", sort=False)[["found", "samples"]]
    totals = plain_rows(by.sum().reset_index())
    facts = {"counts": totals, "groups": plain_rows(found.counts), "ratings": found.ratings}
    show_json(facts_of(found.done) | facts | {"notes": plain_rows(found.notes)}, is_json)
    code = put_run(found.done, is_json=False)
    for part in totals:
        say(f"{part['variant']}: answers to {part['found']} of {part['samples']} samples")
    if found.ratings is not None:
        say(f"ratings {found.ratings}")
    return code
