"""The command merge: the runs of shards, from their stored calls alone."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from harness.cli import options
from harness.cli.clusters import parts
from harness.cli.options import Only, Shown, Where, argument, option
from harness.cli.run import JudgeOptions, RunChoice, open_plan, tagged
from harness.errors import SpecError
from harness.storage.find_runs import find_run

ASKED = "task model judge variant limit seed backend answers scorer"


def merge(
    *,
    name: str | None = argument(
        "PLAN", "Plan whose shards are put together; or, with --judge alone, a stored run.", None
    ),
    sources: list[Path] | None = option(
        "Folder of results of another machine, or a copy of one; its calls are copied first.",
        None,
        flags="--from",
    ),
    choice: Annotated[RunChoice, Only(ASKED)],
    asking: Annotated[JudgeOptions, Only("judge_model is_self_judge_allowed tag")],
    where: Where,
    shown: Shown,
) -> int:
    """Make the runs of shards from their stored calls; no model is called.

    Takes the options of the run, or the plan, that was split with --shard. The runs are those that
    one undisturbed command would have written. If calls are missing, it says how many and where,
    and writes nothing.

    \b
    Examples:
      harness merge night.yaml --from copies/node1 --from copies/node2
      harness merge --task intent_resolution --model gpt-4o
    """
    options.checked_tag(asking.tag)
    folders = tuple(sources or ())
    if name is None:
        return _merge_runs(choice, asking, where, folders, shown)
    if _is_plan(name, where):
        command = open_plan(replace(choice, plan=name), asking, where, options.OFFLINE, shown)
        return command.merge(asking.tag, folders)
    if choice.judge is None:
        raise SpecError(
            f"{name!r} is no plan in configs/plans/, and no YAML file: name one; or a stored run "
            "with the judges of its shards, as in `harness merge RUN --judge J`"
        )
    return _merge_judges(name, choice, asking, where=where, sources=folders, shown=shown)


def _is_plan(name: str, where: Where) -> bool:
    registry = options.registry(where.home)
    return name in registry.names("configs/plans") or Path(name).suffix in (".yaml", ".yml")


def _merge_runs(
    choice: RunChoice, asking: JudgeOptions, where: Where, sources: tuple[Path, ...], shown: Shown
) -> int:
    from harness.cli.run_report import put_runs
    from harness.pipeline import execute, resolve
    from harness.pipeline.studies import shards

    space = where.workspace(options.OFFLINE).of_stored()
    chosen = choice.resolved(asking, where.table)
    parts.gathered(sources, space.results, shards.asked_of(space.registry, chosen))
    plans = [resolve.resolve(space, one) for one in chosen]
    shards.refuse_missing(map(shards.unstored_calls, plans))  # before any run is written
    runs = tagged(execute.run_each(plans), asking.tag)
    return put_runs(runs, shown, is_several=len(plans) > 1)


def _merge_judges(
    name: str,
    choice: RunChoice,
    asking: JudgeOptions,
    *,
    where: Where,
    sources: tuple[Path, ...],
    shown: Shown,
) -> int:
    from harness.cli.run_report import put_runs
    from harness.pipeline import execute, resolve
    from harness.pipeline.studies import shards

    folder = find_run(where.results, name)
    space = where.workspace(options.OFFLINE, folder.results(where.results))
    judges = options.names(choice.judge, "--judge")
    tested = folder.read().model.name
    models = shards.asked_models(space.registry, tested, judges, asking.judge_model)
    parts.gathered(sources, space.results, models)
    allowed, model = asking.is_self_judge_allowed, asking.judge_model
    plan = resolve.resolve_stored(space, folder, judges, judge_model=model, allows_self=allowed)
    shards.refuse_missing([shards.unstored_calls(plan)])
    return put_runs(tagged([execute.judge(plan)], asking.tag), shown)
