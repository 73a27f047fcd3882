"""A plan's YAML to its cells, each a run: counted before it is carried out, one by one.

All of a model's runs follow each other and share it, so that weights are loaded once; all calls
share one budget. A cell that fails stops no other. Nothing here prints.
"""

import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from math import inf
from typing import TypeVar
from weakref import WeakValueDictionary

from msgspec import UNSET, UnsetType, structs

from harness.errors import BudgetReached, HarnessError, SpecError
from harness.implicitness.open import with_options
from harness.judges.custom import JudgeLabel
from harness.models.client.cached import Budget, CallPolicy
from harness.pipeline import execute, preview
from harness.pipeline.execute import RunResult
from harness.pipeline.plan import AnswerMode, chosen_variants
from harness.pipeline.preview import CallSummary
from harness.pipeline.resolve import RunOptions, RunPlan, is_whole, resolve, unchanged
from harness.pipeline.setup import check_judges
from harness.pipeline.studies.shards import Shard, ShardResult, run_part, share_budget
from harness.registry import Registry
from harness.specs.models import ScriptedSpec
from harness.specs.plans import PlannedTask, PlanSpec
from harness.storage.runs import RunFile, RunFolder
from harness.workspace import Workspace

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PlanCell:
    """One run of a plan; `words` has its other settings, such as its seed."""

    task: str
    model: str
    words: str
    options: RunOptions


@dataclass(frozen=True, slots=True)
class ReadyCell:
    """A cell with its run, or why it cannot be one, in words; and its calls, where they are known.

    No error is kept itself: what raised it would hold a model's weights. Calls that an earlier cell
    makes are not among them.
    """

    cell: PlanCell
    plan: RunPlan | None = None
    error: str = ""
    calls: tuple[CallSummary, ...] = ()


class CellEnd(StrEnum):
    """How a cell ended: its run is written, or an error, the budget or a bug came before that."""

    DONE = "done"
    FAILED = "failed"
    BUDGET = "out of budget"
    BUG = "bug"


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """A cell that was carried out: its run, or a shard of it; or neither, and what ended it.

    `stored` is its run as an earlier command wrote it, where this one did not end.
    """

    cell: PlanCell
    end: CellEnd
    result: RunResult | None = None
    error: str = ""
    part: ShardResult | None = None
    stored: RunFolder | None = None


@dataclass(frozen=True, slots=True)
class CellState:
    """How far a cell is: its calls that are stored, `done`, and those that are `left`.

    `missing` counts missing answers and verdicts of its stored run, None before it is written.
    `is_whole` says that nothing is left, and that all of its judges have read what is stored.
    `cost_usd` is what its stored calls have cost, as a budget counts them, but for those that an
    earlier cell has, `rest_usd` what is left costs at least and at most. Both are None where
    nothing is paid by the call, or `unpriced` models have no price. Counts are None, and `error`
    says why, where the cell cannot run.
    """

    cell: PlanCell
    done: int | None = None
    left: int | None = None
    missing: int | None = None
    is_whole: bool = False
    error: str = ""
    cost_usd: float | None = None
    rest_usd: tuple[float, float] | None = None
    unpriced: tuple[str, ...] = ()


def plan_cells(
    workspace: Workspace, spec: PlanSpec, *, name: str, allows_self: bool = False
) -> list[PlanCell]:
    """Every run of a plan: controls first, then model by model, task by task, seed by seed.

    SpecError for a name, in any of its tasks, that is none; `name` is that of the plan.
    `allows_self` lets a model judge its own answers, as the plan itself may.
    """
    spec = structs.replace(spec, allow_self_judge=allows_self or spec.allow_self_judge)
    for part in spec.planned:
        _check(workspace, part)
    names = [n for part in spec.planned for n in (*_controls(spec, part), *_models(spec, part))]
    controls = {n for part in spec.planned for n in _controls(spec, part)}
    if not names:
        raise SpecError(f"plan {name}: it names no model; list some under `models` or `controls`")
    for model in (known := dict.fromkeys(names)):
        workspace.registry.load("configs/models", model)
    cells = [
        cell
        for model in sorted(known, key=lambda one: one not in controls)
        for part in spec.planned
        for cell in _cells(workspace.registry, spec, part, model)
    ]
    if not cells:
        raise SpecError(f"plan {name}: none of its controls is defined by one of its tasks")
    return cells


def _cells(registry: Registry, spec: PlanSpec, part: PlannedTask, model: str) -> Iterator[PlanCell]:
    controls = _controls(spec, part)
    if model not in (*controls, *_models(spec, part)):
        return
    known = registry.load("configs/models", model)
    sources = registry.load("tasks", part.task).controls
    if model in controls and isinstance(known, ScriptedSpec) and known.policy not in sources:
        return
    seeds, limit = _own(part.seeds, spec.seeds), _own(part.limit, spec.limit)
    for seed in dict.fromkeys(seeds):
        facts = (part.answers, part.column_map, limit and f"limit {limit}")
        shown = [*facts, f"seed {seed}" if seeds != (0,) else None]
        options = RunOptions(
            task=part.task,
            model=model,
            judges=part.judges,
            variants=part.variants,
            seed=seed,
            limit=limit,
            is_self_judge_allowed=spec.allow_self_judge,
            answers=None if part.answers is None else AnswerMode(part.answers),
            table=part.column_map,
            scorer=part.scorer,
        )
        yield PlanCell(part.task, model, ", ".join(word for word in shown if word), options)


def _own(value: _T | UnsetType, shared: _T) -> _T:
    return shared if value is UNSET else value


def _models(spec: PlanSpec, part: PlannedTask) -> tuple[str, ...]:
    return _own(part.models, spec.models)


def _controls(spec: PlanSpec, part: PlannedTask) -> tuple[str, ...]:
    return _own(part.controls, spec.controls)


def _check(workspace: Workspace, part: PlannedTask) -> None:
    """Refuse what is wrong with a task of a plan whatever its models are."""
    task = workspace.registry.load("tasks", part.task)
    with_options(task, name=part.task, table=part.column_map, scorer=part.scorer)
    if part.column_map is not None:
        workspace.registry.load("configs/tables", part.column_map)
    chosen_variants(task, part.variants, name=part.task)
    if part.answers is not None and not task.has_choices:
        raise SpecError(f"task {part.task} has no choices: leave out `answers: {part.answers}`")
    check_judges(workspace, part.judges, task=task, name=part.task)
    for label in map(JudgeLabel.parse, part.judges):
        if label.model is not None:
            workspace.registry.load("configs/models", label.model)


def resolved_cells(
    workspace: Workspace, cells: Sequence[PlanCell], *, is_shown_again: bool = False
) -> list[ReadyCell]:
    """The cells as runs, nothing asked yet; models that know no task are shared among them.

    With `is_shown_again` unchanged runs are recognised: they can be carried out, and no more.
    """
    space, ready = replace(workspace, opened=WeakValueDictionary()), list[ReadyCell]()
    for cell in cells:
        try:
            plan = resolve(space, cell.options, is_shown_again=is_shown_again)
            ready.append(ReadyCell(cell, plan))
        except HarnessError as error:
            ready.append(ReadyCell(cell, error=str(error)))
    return ready


def carry_out(ready: list[ReadyCell]) -> Iterator[CellOutcome]:
    """Carry out cells one after the other; `ready` is emptied, so that weights can be freed.

    What is stored of any of them counts against the budget before the first new call.
    """
    left = deque(map(_prepared, ready))
    ready.clear()
    while left:
        yield _carried_out(left.popleft())


def carry_out_shard(ready: list[ReadyCell], shard: Shard) -> Iterator[CellOutcome]:
    """Make the calls of a shard of each cell, as `carry_out` makes all; no run is written."""
    left = deque(ready)
    ready.clear()
    share_budget([one.plan for one in left if one.plan], shard)
    while left:
        yield _carried_out(left.popleft(), shard)


def _prepared(ready: ReadyCell) -> ReadyCell:
    try:
        if ready.plan is not None:
            execute.prepare(ready.plan)
    except HarnessError as error:
        return ReadyCell(ready.cell, error=str(error))
    return ready


def _carried_out(ready: ReadyCell, shard: Shard | None = None) -> CellOutcome:
    if ready.plan is None:
        return CellOutcome(ready.cell, CellEnd.FAILED, error=ready.error)
    try:
        if shard is not None:
            return CellOutcome(ready.cell, CellEnd.DONE, part=run_part(ready.plan, shard))
        return CellOutcome(ready.cell, CellEnd.DONE, execute.run_one(ready.plan))
    except BudgetReached as error:
        end, why = CellEnd.BUDGET, str(error)
    except HarnessError as error:
        end, why = CellEnd.FAILED, str(error)
    # A bug, also one of a model or judge of one's own, stops its cell alone, and is shown whole.
    except Exception:
        end, why = CellEnd.BUG, traceback.format_exc()
    folder = ready.plan.folder
    return CellOutcome(ready.cell, end, error=why, stored=folder if _is_stored(folder) else None)


def _is_stored(folder: RunFolder) -> bool:
    return (folder.path / "run.json").is_file() and is_whole(folder)


def planned_calls(ready: Sequence[ReadyCell]) -> list[ReadyCell]:
    """The cells with the calls that each would make; what is stored counts against the budget."""
    seen = set[str]()
    return [
        replace(one, calls=tuple(preview.dry_run(one.plan, seen)) if one.plan else ())
        for one in [*map(_prepared, ready)]
    ]


def cell_states(workspace: Workspace, cells: Sequence[PlanCell]) -> Iterator[CellState]:
    """How far each cell is; no server is asked, and of an unchanged run that nobody pays for no
    sample is read.
    """
    space = replace(workspace.of_stored(), opened=WeakValueDictionary())
    terms = replace(workspace.terms, budget=(budget := Budget(inf)))
    for cell in cells:
        try:
            plan = unchanged(workspace, cell.options)
            if plan is None or _is_paid(workspace.registry, plan.file):
                plan = _on_terms(resolve(space, cell.options), terms)
            yield _state(cell, plan, budget)
        except HarnessError as error:
            yield CellState(cell, error=str(error))


def _on_terms(plan: RunPlan, terms: CallPolicy) -> RunPlan:
    judges = tuple(
        replace(one, client=one.client and replace(one.client, terms=terms)) for one in plan.judges
    )
    return replace(plan, client=replace(plan.client, terms=terms), judges=judges)


def _is_paid(registry: Registry, file: RunFile) -> bool:
    """Whether a model that a run asked is paid by the call."""
    names = {file.model.name, *(entry.asks for entry in file.judges if entry.asks)}
    return any(registry.hosted(name) and not registry.is_unpaid(name) for name in names)


def _state(cell: PlanCell, plan: RunPlan, budget: Budget) -> CellState:
    if plan.repeat is not None:
        made = plan.file.costs.total.calls if plan.file.costs else plan.file.planned
        return CellState(cell, made, 0, _missing(plan.file), is_whole=True)
    calls, before = preview.dry_run(plan, set()), budget.spent_usd
    done = sum(part.stored or 0 for part in calls)
    state = CellState(cell, done, left := sum(part.calls for part in calls) - done)
    unpriced = tuple(one.model.name for one in plan.clients if one.priced_as and not one.price)
    if unpriced:
        state = replace(state, unpriced=unpriced)
    elif paid := [part for part in calls if part.priced_as]:
        preview.charge_stored(plan)
        whole = reduce(CallSummary.plus, paid)
        rest = (whole.least_usd or 0.0, whole.most_usd or 0.0)
        state = replace(state, cost_usd=budget.spent_usd - before, rest_usd=rest)
    if not _is_stored(plan.folder):
        return state
    file = plan.folder.read()
    have = {entry.name: entry.recipe for entry in file.judges}
    is_read = all(have.get(one.entry.name) == one.entry.recipe for one in plan.judges)
    return replace(state, missing=_missing(file), is_whole=is_read and not left)


def _missing(file: RunFile) -> int:
    return sum(gap.count for gap in file.missing or ())
