"""The commands that answer, judge and read: run, judge, read."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.options import (
    HOME,
    RESULTS,
    AsJson,
    Batch,
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
from harness.cli.run_details import put_details, say_alarms
from harness.cli.run_summary import cost_line, cut_line, gap_lines, put_dry_runs

if TYPE_CHECKING:
    from harness.pipeline.execute import RunResult
    from harness.pipeline.resolve import JudgePlan, RunPlan

DONE, DONE_WITH_MISSING = 0, 1
Judges = Annotated[
    list[str] | None,
    typer.Option("--judge", help="Judge to read with; repeat for more. Default: the task's own."),
]
JudgeModel = Annotated[
    str | None,
    typer.Option(
        "--judge-model",
        help="Model that asking judges ask instead of their own: judges JUDGE/MODEL, beside it.",
    ),
]
SelfJudge = Annotated[
    bool, typer.Option("--allow-self-judge", help="Let a model judge its own answers.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be asked; ask nothing.")]


def run(
    task: Annotated[str, typer.Option("--task", help="Task: a name in tasks/.")],
    model: Annotated[
        str, typer.Option("--model", help="Models: names in configs/models/, comma-separated.")
    ],
    judge: Judges = None,
    variant: Annotated[
        str | None,
        typer.Option(
            "--variant", help="Variants, comma-separated, or all. Default: the task's own."
        ),
    ] = None,
    limit: options.Limit = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of draws, subsets and intervals.")] = 0,
    backend: options.BackendName = None,
    answers: Annotated[
        str | None,
        typer.Option(
            "--answers", help="How choices are answered: logprob, top_logprobs or written."
        ),
    ] = None,
    judge_model: JudgeModel = None,
    is_self_judge_allowed: SelfJudge = False,
    is_dry: DryRun = False,
    data: Data = None,
    data_mode: DataMode = "corrected",
    table: options.TableMap = None,
    scorer: Annotated[
        str | None,
        typer.Option(
            "--scorer",
            help="What measures implicitness: a name in configs/scorers/, column or none.",
        ),
    ] = None,
    prompts: PromptPack = None,
    results: Results = RESULTS,
    home: Home = HOME,
    is_offline: Offline = False,
    retry: Retry = "failed",
    budget: BudgetUsd = None,
    is_batch: Batch = False,
    is_json: AsJson = False,
) -> int:
    """Answer a task with a model, have judges read the answers, and score them.

    Finished calls are stored as they come and never asked again: repeat the command to resume.
    """
    from harness.pipeline.execute import run_each
    from harness.pipeline.resolve import RunOptions, resolve

    space = options.workspace(
        home,
        results,
        data=data,
        data_mode=data_mode,
        prompts=prompts,
        terms=options.terms(
            is_offline=is_offline, retry=retry, budget_usd=budget, is_batch=is_batch
        ),
    )
    chosen = RunOptions(
        task=task,
        model=model,
        judges=tuple(judge or ()),
        variants=options.names(variant),
        backend=options.backend(backend),
        answers=options.answer_mode(answers),
        judge_model=judge_model,
        seed=seed,
        limit=limit,
        is_self_judge_allowed=is_self_judge_allowed,
        table=table,
        scorer=scorer,
    )
    if not judge:
        log(f"judges of task {task}: {', '.join(space.registry.task(task).judges)} (or --judge)")
    each = [replace(chosen, model=name) for name in options.names(model) or (model,)]
    if is_dry:
        from harness.pipeline.dry_run import dry_runs

        plans = [resolve(space, one) for one in each]
        found = dict(zip(map(_title, plans), dry_runs(space, plans), strict=True))
        return put_dry_runs(found, is_json=is_json, terms=space.terms)
    done = run_each(resolve(space, one) for one in each)
    return put_runs(done, is_json=is_json, is_all=retry == "all")


def judge(
    run: options.RunName,
    judge: Annotated[list[str], typer.Option("--judge", help="Judge to read with; repeatable.")],
    judge_model: JudgeModel = None,
    is_self_judge_allowed: SelfJudge = False,
    is_dry: DryRun = False,
    prompts: PromptPack = None,
    results: Results = RESULTS,
    home: Home = HOME,
    is_offline: Offline = False,
    retry: Retry = "failed",
    budget: BudgetUsd = None,
    is_batch: Batch = False,
    is_json: AsJson = False,
) -> int:
    """Have further judges read a stored run; the model under test is never loaded."""
    from harness.pipeline.execute import judge as judge_plan
    from harness.pipeline.judge_setup import JudgeModelOptions
    from harness.pipeline.resolve import resolve_stored
    from harness.storage.runs import find_run

    folder = find_run(results, run)
    results = folder.results(results)
    terms = options.terms(is_offline=is_offline, retry=retry, budget_usd=budget, is_batch=is_batch)
    space = options.workspace(home, results, prompts=prompts, terms=terms)
    asking = JudgeModelOptions(judge_model, is_self_judge_allowed)
    plan = resolve_stored(space, folder, judge, asking=asking)
    if is_dry:
        from harness.pipeline.dry_run import dry_judges

        found = {_title(plan): dry_judges(space, plan)}
        return put_dry_runs(found, is_json=is_json, terms=terms)
    return put_runs([judge_plan(plan)], is_json=is_json, is_all=retry == "all")


def read(
    run: options.RunName,
    prompts: PromptPack = None,
    results: Results = RESULTS,
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Read a run's stored replies with today's parsers and list the verdicts that change."""
    from harness.pipeline.execute import reread
    from harness.pipeline.resolve import resolve_reread
    from harness.storage.runs import find_run

    folder = find_run(results, run)
    results = folder.results(results)
    space = options.workspace(home, results, prompts=prompts, terms=options.terms(is_offline=True))
    found = reread(resolve_reread(space, folder))
    if is_json:
        echo_json(found)
        return DONE
    for change in found.changes:
        row = change.row
        before, after = (f"{v.reason or v.value}" for v in (change.before, change.after))
        echo(f"{change.judge}: {row.sample.id} {row.variant} {row.decoding}: {before} -> {after}")
    echo(f"{len(found.changes)} verdicts changed; no call was made")
    if found.altered:
        log(
            f"{', '.join(found.altered)}: not as it was when this run was scored, so nothing was "
            "written; `harness run` or `harness judge` again scores the answers as it is now"
        )
    for name, count in found.stale.items():
        if count:
            log(
                f"judge {name} would word {count} of its questions differently today: to ask them, "
                f"`harness judge {run} --judge {name}`"
            )
    return DONE


def put_runs(runs: "Iterable[RunResult]", *, is_json: bool, is_all: bool = False) -> int:
    """Print each run as it ends; as JSON one object, or a list of several.

    `is_all` says that replies without an answer were to be asked for again.
    """
    if not is_json:
        return max(_put_done(done, is_all=is_all) for done in runs)
    ended = list(runs)
    told = [
        {
            "folder": str(done.folder.path),
            "scores": done.scores,
            "costs": done.file.costs,
            "redrawn": done.file.redrawn,
            "missing": done.file.missing,
        }
        for done in ended
    ]
    echo_json(told if len(told) > 1 else told[0])
    return max(map(_code, ended))


def _put_done(done: "RunResult", *, is_all: bool) -> int:
    """Print what a run came to; the exit code tells whether anything is missing."""
    from harness.analysis.leaderboard import headlines

    left = ("variant", "judge", "metric", "decoding", "value", "95% interval")
    head = (*left, "chance", "n", "missing")
    table = []
    for row in headlines(done.scores):
        score = row.score
        lost = ", ".join(f"{reason} {n}" for reason, n in score.missing.items() if n) or "0"
        table.append(
            (
                score.variant,
                score.judge,
                score.metric,
                score.decoding,
                number(score.value),
                span(score.low, score.high),
                number(row.chance),
                str(score.n),
                lost,
            )
        )
    echo_table(f"{done.file.run.task}, {done.file.model.name}", head, table)
    put_details(done.scores)
    say_alarms(done.scores)
    if (line := cost_line(done.file.costs)) is not None:
        echo(line)
    echo(f"run {done.folder.path}")
    if done.truncated:
        echo(cut_line(done.file, done.truncated))
    if done.again and is_all:
        echo(f"{done.again} replies without an answer were asked for again (--retry all)")
    for line in gap_lines(done.file, has_remedy=True):
        log(line)
    return _code(done)


def _title(plan: "RunPlan | JudgePlan") -> str:
    return f"{plan.file.run.task}, {plan.file.model.name}"


def _code(done: "RunResult") -> int:
    return DONE_WITH_MISSING if done.missing else DONE
