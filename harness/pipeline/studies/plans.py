"""A study to its cells, each a run: counted before they are carried out, one by one.

All of a model's runs follow each other and share it, so that weights are loaded once; all calls
share one budget. A cell that fails stops no other.
"""

import logging
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar
from weakref import WeakValueDictionary

from msgspec import UNSET, UnsetType, structs

from harness.errors import BudgetReached, HarnessError, ModelError, SpecError, StoreError
from harness.implicitness.open import with_options
from harness.lazy import DataFrame, pandas
from harness.models.client.cached import OfflineModel
from harness.pipeline import execute, preview
from harness.pipeline.execute import RunResult
from harness.pipeline.plan import AnswerMode, chosen_variants
from harness.pipeline.resolve import RunPlan, resolve, unchanged
from harness.pipeline.setup import RunOptions, check_judges, set_up_judges, smoke_test_judges
from harness.pipeline.studies.shards import Shard, ShardResult, run_part, share_budget
from harness.specs.models import AnthropicSpec, ScriptedSpec
from harness.specs.plans import PlannedTask, PlanSpec
from harness.storage.runs import RunFile, RunFolder, StoredRows
from harness.workspace import Workspace

DONE, FAILED, OUT_OF_BUDGET, BUG = "done", "failed", "out of budget", "bug"
"""How a cell ends: its run is written, or an error, the budget or a bug came before that."""
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Cell:
    """One run of a study, and how far it has come; `words` has its other settings, as its seed.

    An error of a cell that `is_strict` is raised, one of its model not where it `has_others` next
    to it. `plan` is None before it is resolved, and from its end on, as it holds weights. `without`
    are judges that cannot start, and why. `stored` is an earlier run, where this one did not end.
    Of a status `done` calls are stored and `left` would be made; `is_whole`: and all judges have
    read.
    """

    options: RunOptions
    words: str = ""
    is_strict: bool = False
    has_others: bool = False
    plan: RunPlan | None = None
    error: str = ""
    without: Mapping[str, str] = field(default_factory=dict)
    end: str = ""
    result: RunResult | None = None
    part: ShardResult | None = None
    stored: RunFolder | None = None
    done: int | None = None
    left: int | None = None
    missing: int | None = None
    is_whole: bool = False

    @property
    def title(self) -> str:
        """The task, the model and the other settings."""
        name = f"{self.options.task}, {self.options.model}"
        return f"{name} ({self.words})" if self.words else name

    def raises(self, error: Exception) -> bool:
        """Whether an error of this cell ends the study."""
        return self.is_strict and not (self.has_others and isinstance(error, ModelError))

    def fail(self, error: HarnessError) -> None:
        """Keep the error of a cell that cannot run, or raise it."""
        if self.raises(error):
            raise error
        self.plan, self.error = None, str(error)


def plan_cells(
    workspace: Workspace, spec: PlanSpec, *, name: str, allows_self: bool = False
) -> list[Cell]:
    """Every run of a plan: controls first, then model by model, task by task, seed by seed."""
    spec = structs.replace(spec, allow_self_judge=allows_self or spec.allow_self_judge)
    parts = [
        (part, _own(part.controls, spec.controls), _own(part.models, spec.models))
        for part in spec.planned
    ]
    for part, *_ in parts:
        _check(workspace, part)
    names = [m for _, own, _ in parts for m in own] + [m for *_, own in parts for m in own]
    asked = {name: workspace.registry.load("configs/models", name) for name in names}
    if not asked:
        raise SpecError(f"plan {name}: it names no model; list some under `models` or `controls`")
    cells = list[Cell]()
    for model in asked:
        for part, controls, models in parts:
            is_own = model in controls and _is_defined(workspace, part.task, model)
            if is_own or (model in models and model not in controls):
                cells += _cells(spec, _as_it_can(workspace, part, model), model)
    if not cells:
        raise SpecError(f"plan {name}: none of its controls is defined by one of its tasks")
    return cells


def _as_it_can(workspace: Workspace, part: PlannedTask, model: str) -> PlannedTask:
    """A task as a model can answer it: in writing, if it gives no log-probabilities of choices."""
    spec = workspace.registry.load("configs/models", model)
    only_writes = isinstance(spec, AnthropicSpec) or getattr(spec, "choices", "") == "none"
    is_exact = part.answers or not workspace.registry.load("tasks", part.task).has_choices
    if is_exact or not only_writes:
        return part
    _log.warning("%s gives no log-probabilities: it writes its choices of %s", model, part.task)
    return structs.replace(part, answers=AnswerMode.WRITTEN.value)


def option_cells(workspace: Workspace, wanted: Sequence[RunOptions]) -> list[Cell]:
    """The runs of options, but for controls that are those of another task alone."""
    kept = [one for one in wanted if _is_defined(workspace, one.task, str(one.model))]
    kept = kept if {one.model for one in kept} == {one.model for one in wanted} else [*wanted]
    for one in wanted:
        if one not in kept:
            _log.warning("left out: %s is no control of task %s", one.model, one.task)
    has_others = len({one.model for one in kept}) > 1
    return [Cell(one, is_strict=True, has_others=has_others) for one in kept]


def _is_defined(workspace: Workspace, task: str, model: str) -> bool:
    """Whether a model is none of the controls, or one that a task defines."""
    made = workspace.registry.load("configs/models", model)
    defined = workspace.registry.load("tasks", task).controls
    return not isinstance(made, ScriptedSpec) or made.policy in defined


def _cells(spec: PlanSpec, part: PlannedTask, model: str) -> Iterator[Cell]:
    seeds, limit = _own(part.seeds, spec.seeds), _own(part.limit, spec.limit)
    for seed in dict.fromkeys(seeds):
        facts = (part.answers, part.column_map, limit and f"limit {limit}")
        how = part.decoding and f"T{part.decoding.temperature:g}, {part.decoding.max_tokens} tokens"
        shown = [*facts, how, f"seed {seed}" if seeds != (0,) else None]
        made = RunOptions(part.task, model, part.judges, part.variants, seed=seed, limit=limit)
        answers = None if part.answers is None else AnswerMode(part.answers)
        made = replace(made, answers=answers, table=part.column_map, scorer=part.scorer)
        made = replace(made, is_self_judge_allowed=spec.allow_self_judge, decoding=part.decoding)
        yield Cell(made, ", ".join(word for word in shown if word))


def _own(value: _T | UnsetType, shared: _T) -> _T:
    return shared if value is UNSET else value


def _check(workspace: Workspace, part: PlannedTask) -> None:
    task = workspace.registry.load("tasks", part.task)
    with_options(task, name=part.task, table=part.column_map, scorer=part.scorer)
    if part.column_map is not None:
        workspace.registry.load("configs/tables", part.column_map)
    chosen_variants(task, part.variants, name=part.task)
    if part.answers is not None and not task.has_choices:
        raise SpecError(f"task {part.task} has no choices: leave out `answers: {part.answers}`")
    options = RunOptions(part.task, "", judges=part.judges)
    check_judges(workspace, options, task)
    for label in options.labels:
        if label.model is not None:
            workspace.registry.load("configs/models", label.model)


def resolve_cells(
    workspace: Workspace, cells: Sequence[Cell], *, is_shown_again: bool = False
) -> None:
    """Give cells their plans, nothing asked yet; models that know no task are shared among them.

    With `is_shown_again` unchanged runs are recognised.
    """
    space, known = replace(workspace, opened=WeakValueDictionary()), dict[str, str]()
    for cell in cells:
        try:
            _leave_out(space, cell, known)
            cell.plan = resolve(space, cell.options, is_shown_again=is_shown_again)
        except HarnessError as error:
            cell.fail(error)
    if cells[0].is_strict and not any(cell.plan for cell in cells):
        raise ModelError(cells[0].error)


def _leave_out(space: Workspace, cell: Cell, known: dict[str, str]) -> None:
    """Leave out the judges that cannot be built; `known` says why, of each that was tried."""
    if cell.is_strict:
        return
    names = cell.options.judges or space.registry.load("tasks", cell.options.task).judges
    nobody = OfflineModel("", "", "", frozenset())
    for name in {str(name) for name in names} - {*known}:
        try:
            set_up_judges(space, replace(cell.options, judges=(name,)), tested=nobody)
            known[name] = ""
        except HarnessError as error:
            known[name] = str(error)
    cell.without = {str(name): known[str(name)] for name in names if known[str(name)]}
    kept = tuple(name for name in names if str(name) not in cell.without)
    if not kept:
        raise ModelError("; ".join(cell.without.values()))
    cell.options = replace(cell.options, judges=kept)


def carry_out(cells: Sequence[Cell], shard: Shard | None = None) -> Iterator[Cell]:
    """Carry out cells one after the other, each given when it ended, without its plan.

    What is stored of any of them counts against the budget before the first new call. Of a shard
    the calls are made alone, and no run is written.
    """
    if shard is None:
        _prepare(cells)
    else:
        share_budget([cell.plan for cell in cells if cell.plan], shard)
    for place, cell in enumerate(cells, 1):
        try:
            _carry_out(cell, shard)
        except HarnessError as error:
            rest = ", ".join(f"{one.options.model} on {one.options.task}" for one in cells[place:])
            raise type(error)(f"{error}; not run: {rest}" if rest else str(error)) from error
        yield cell


def _prepare(cells: Sequence[Cell]) -> None:
    for cell in cells:
        try:
            if cell.plan is not None:
                execute.prepare(cell.plan)
        except HarnessError as error:
            cell.fail(error)


def _carry_out(cell: Cell, shard: Shard | None) -> None:
    plan, cell.plan, cell.end = cell.plan, None, FAILED
    if plan is None:
        return
    try:
        if not (cell.is_strict or plan.client.terms.is_offline):
            plan, lost = _startable(plan)
            cell.without = {**cell.without, **lost}
        if shard is not None:
            cell.part = run_part(plan, shard)
        else:
            cell.result = execute.run_one(plan)
        cell.end = DONE
    # A bug, also one of a model or judge of one's own, stops its cell alone, and is shown whole.
    except Exception as error:
        if cell.raises(error):
            raise
        is_known, is_spent = isinstance(error, HarnessError), isinstance(error, BudgetReached)
        cell.end = OUT_OF_BUDGET if is_spent else FAILED if is_known else BUG
        cell.error = str(error) if is_known else traceback.format_exc()
        cell.stored = plan.folder if _file_of(plan.folder) else None


def _startable(plan: RunPlan) -> tuple[RunPlan, dict[str, str]]:
    """The plan without the judges that fail at a try, and why; not without any."""
    lost = dict[str, str]()
    for one in plan.judges:
        try:
            smoke_test_judges(plan.plan, [one])
        except HarnessError as error:
            lost[one.entry.name] = str(error)
    if lost and len(lost) == len(plan.judges):
        raise ModelError("; ".join(lost.values()))
    inputs = {name: made for name, made in (plan.inputs or {}).items() if name not in lost}
    kept = tuple(one for one in plan.judges if one.entry.name not in lost)
    return replace(plan, judges=kept, inputs=plan.inputs and inputs), lost


def _file_of(folder: RunFolder) -> RunFile | None:
    """The file of a stored run; None where there is none, or it was changed."""
    if not (folder.path / "run.json").is_file():
        return None
    try:
        StoredRows(folder)
        return folder.read()
    except StoreError:
        return None


def count_calls(cells: Sequence[Cell]) -> list[DataFrame]:
    """The calls that each cell would make; what is stored counts against the budget.

    Calls that an earlier cell makes are not counted.
    """
    seen = set[str]()
    _prepare(cells)
    none = pandas.DataFrame(columns=preview.CALLS)
    return [preview.dry_run(cell.plan, seen) if cell.plan else none for cell in cells]


def look_up(workspace: Workspace, cells: Sequence[Cell]) -> None:
    """Say how far cells are; no server is asked, and of an unchanged run no sample is read."""
    space = replace(workspace.of_stored(), opened=WeakValueDictionary())
    known = dict[str, str]()
    for cell in cells:
        try:
            _leave_out(space, cell, known)
            if (plan := unchanged(workspace, cell.options)) is not None:
                cell.done = plan.file.costs.total.calls if plan.file.costs else plan.file.planned
                cell.left, cell.missing, cell.is_whole = 0, _missing(plan.file), True
            else:
                _look_up(cell, resolve(space, cell.options))
        except HarnessError as error:
            cell.error = str(error)


def _look_up(cell: Cell, plan: RunPlan) -> None:
    calls = preview.dry_run(plan, set())
    cell.done = int(calls["stored"].sum())
    cell.left = int(calls["calls"].sum()) - cell.done
    if file := _file_of(plan.folder):
        have = {entry.name: entry.recipe for entry in file.judges}
        is_read = all(have.get(one.entry.name) == one.entry.recipe for one in plan.judges)
        cell.missing, cell.is_whole = _missing(file), is_read and not cell.left


def _missing(file: RunFile) -> int:
    return sum(gap.count for gap in file.missing or ())
