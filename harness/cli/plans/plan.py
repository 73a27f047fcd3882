"""A plan's cells to lines: what they would ask, how far they are, how they ended; one board."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from math import fsum
from pathlib import Path
from typing import Any

from harness.analysis.boards.ranked import placed, standings, verdicts_of
from harness.analysis.boards.scores import (
    board_scores,
    board_text,
    ranked_metrics,
    whole_scores,
)
from harness.cli.boards import put_joint_boards
from harness.cli.options import Calling, ExitCode, Shown, Where, plain_name, warn_about_keys
from harness.cli.plans.shards import part_line, put_next
from harness.cli.run_report import budget_line, gap_lines, sum_line
from harness.models.client.cached import Budget
from harness.pipeline.repeats import is_plan_unchanged, record_plan
from harness.pipeline.studies import plans, shards
from harness.pipeline.studies.plans import (
    CellEnd,
    CellOutcome,
    CellState,
    PlanCell,
    ReadyCell,
)
from harness.pipeline.studies.shards import Shard
from harness.present.page.page import REPORT, write_page
from harness.present.screen import ProgressLine, say, show_json, show_records, usd, usd_range, warn
from harness.storage.files import refuse_unwritable, write_whole
from harness.storage.runs import RunFolder
from harness.workspace import Workspace

BOARD = "leaderboard.csv"
_KEYS = "task=cell.task, model=cell.model, with"


@dataclass(frozen=True, slots=True)
class PlanCommand:
    """A plan that is ready to be counted or carried out."""

    name: str
    space: Workspace
    cells: Sequence[PlanCell]
    calling: Calling
    line: ProgressLine

    @classmethod
    def open(
        cls, name: str, where: Where, calling: Calling, *, is_self_judge: bool
    ) -> "PlanCommand":
        """Read a plan; SpecError for what is wrong in it. `--budget` replaces the plan's own."""
        line = ProgressLine()
        space = where.workspace(calling, progress=line)
        spec = space.registry.load("configs/plans", name)
        own = plain_name(Path(name).stem, option="plan")
        if calling.budget is None:
            space = space.with_budget(spec.budget_usd)
        cells = plans.plan_cells(space, spec, name=own, allows_self=is_self_judge)
        return cls(own, space, cells, calling, line)

    @property
    def folder(self) -> Path:
        """Where the joint leaderboard and report lie."""
        return self.space.results / "plans" / self.name

    def dry_run(self, shown: Shown) -> int:
        """Print a line a cell, and the sum; make no call."""
        ready = plans.resolved_cells(self.space, self.cells)
        rows, terms = plans.planned_calls(ready), self.space.terms
        if shown.is_json:
            show_json([_facts(row, ("calls", "error")) for row in rows])
            return _code(rows)
        _put_calls(self.name, rows)
        every = [part for row in rows for part in row.calls]
        say(f"in all: {sum_line(every, is_batch=terms.is_batch)}", is_prose=True)
        if terms.budget is not None:
            cap = "budget_usd" if self.calling.budget is None else "--budget"
            say(budget_line(every, terms.budget, name=cap), is_prose=True)
        judges = [judge for one in ready if one.plan for judge in one.plan.judges]
        warn_about_keys(self.space.registry, dict.fromkeys(c.model for c in self.cells), judges)
        return _put_errors(rows)

    def status(self, shown: Shown) -> int:
        """Print what is done, left and missing of each cell; make no call, and ask no server."""
        rows = [*plans.cell_states(self.space, self.cells)]
        if shown.is_json:
            names = [field.name for field in fields(CellState)[1:]]
            show_json([_facts(row, names) for row in rows])
            return _code(rows)
        _put_states(self.name, rows, self.space.terms.budget)
        return _put_errors(rows)

    def run_part(self, shown: Shown, part: Shard) -> int:
        """Make the calls of a shard of every cell; no run is written, and no leaderboard."""
        names, ended = [cell.model for cell in self.cells], list[CellOutcome]()
        ready = plans.resolved_cells(self.space, self.cells)
        for done in self.line.each(names, plans.carry_out_shard(ready, part)):
            ended.append(done)
            if done.part is None:
                warn(f"{_head(done, len(ended), len(names))}{done.end}: {done.error}")
            elif not shown.is_json:
                head = _head(done, len(ended), len(names))
                say(f"{head}{part_line(done.part)}", is_prose=True)
        if shown.is_json:
            facts = ("end", "error", "part")
            show_json({"cells": [_facts(one, facts) for one in ended]})
        else:
            put_next([one.part for one in ended if one.part])
        return _worst(ended, is_part=True)

    def merge(self, shown: Shown, tag: str | None) -> int:
        """Make every run from stored calls alone; StoreError where some are not stored."""
        space = self.space.of_stored()
        ready = plans.resolved_cells(space, self.cells)
        shards.refuse_missing(one.plan for one in ready if one.plan)
        return replace(self, space=space).run(shown, tag, ready=ready)

    def run(
        self,
        shown: Shown,
        tag: str | None,
        ready: list[ReadyCell] | None = None,
    ) -> int:
        """Carry out every cell, then rank and report all of them together.

        `ready` are the cells where they are resolved already.
        """
        refuse_unwritable(self.folder, (BOARD, REPORT))
        ended, folders = list[CellOutcome](), list[RunFolder]()
        shown_again = ready or plans.resolved_cells(self.space, self.cells, is_shown_again=True)
        is_repeat = all(one.plan is not None and one.plan.repeat for one in shown_again)
        for done in self._carried_out(shown_again):
            ended.append(done)
            folders += [done.stored] if done.stored else []
            if done.result is not None:
                folders.append(done.result.folder)
                if tag is not None:
                    done.result.folder.write_tag(tag)
            if not shown.is_json:
                _put_outcome(done, len(ended), len(self.cells))
        own = (self.folder / BOARD, self.folder / REPORT)
        is_repeat &= is_plan_unchanged(self.space.results, self.name, folders, own)
        files = self._files if folders else {}
        if folders and not is_repeat:
            files = self._write(folders, self._lost(ended))
        if shown.is_json:
            show_json({"cells": [*map(_ended, ended)], **files})
        elif folders:
            say("")
            put_joint_boards(folders, is_whole=True)
            if (budget := self.space.terms.budget) is not None:
                cost = f"cost: {usd(budget.spent_usd)} of {budget.cap_usd:g} USD"
                say(cost, is_prose=True)
            made = f"leaderboard {files['leaderboard']}\nreport {files['report']}"
            say(made, is_prose=True)
        if not shown.is_json:
            _put_failed(ended)
        return _worst(ended)

    def _carried_out(self, ready: list[ReadyCell]) -> Iterator[CellOutcome]:
        yield from self.line.each([cell.model for cell in self.cells], plans.carry_out(ready))

    def _lost(self, ended: Sequence[CellOutcome]) -> list[str]:
        """The cells whose runs are on the stored board and cannot be found now, in words."""
        if not (self.folder / BOARD).is_file():
            return []
        with (self.folder / BOARD).open(encoding="utf-8", newline="") as file:
            ranked = {(row.get("task"), row.get("model")) for row in csv.DictReader(file)}
        cells = [one.cell for one in ended if one.result is None and one.stored is None]
        return [_title(cell) for cell in cells if (cell.task, cell.model) in ranked]

    @property
    def _files(self) -> dict[str, str]:
        return {"leaderboard": str(self.folder / BOARD), "report": str(self.folder / REPORT)}

    def _write(self, folders: Sequence[RunFolder], lost: Sequence[str]) -> dict[str, str]:
        named = self._files
        if lost:
            warn(
                f"{named['leaderboard']} and {REPORT} are left as they were: they have the run of "
                f"{'; '.join(lost)}, which is not found now; mend that and repeat the command"
            )
            return named
        own = list({folder.path: folder for folder in folders}.values())
        rows = board_scores({folder: whole_scores(folder) for folder in own})
        rows = ranked_metrics(placed(rows, standings(rows, verdicts_of(own, rows))))
        write_whole(self.folder / BOARD, board_text(rows).encode())
        data, _ = write_page(own, self.space.results, self.folder / REPORT)
        for note in data.notes:
            warn(note)
        files = [self.folder / BOARD, self.folder / REPORT]
        record_plan(self.space.results, self.name, folders, files)
        return named


def _title(cell: PlanCell) -> str:
    return f"{cell.task}, {cell.model}" + (f" ({cell.words})" if cell.words else "")


def _cell_facts(cell: PlanCell) -> dict[str, Any]:
    options = cell.options
    facts = {"task": cell.task, "model": cell.model, "seed": options.seed, "limit": options.limit}
    return facts | {"answers": options.answers, "map": options.table}


def _facts(row: ReadyCell | CellState | CellOutcome, names: Sequence[str]) -> dict[str, Any]:
    return _cell_facts(row.cell) | {name: getattr(row, name) for name in names}


def _ended(done: CellOutcome) -> dict[str, Any]:
    found = done.result
    facts = {"end": done.end, "error": done.error, "folder": found and str(found.folder.path)}
    return _cell_facts(done.cell) | facts | {"missing": found and found.missing}


def _put_calls(name: str, rows: Sequence[ReadyCell]) -> None:
    def most(row: ReadyCell) -> str:
        known = [part.most_usd for part in row.calls if part.most_usd is not None]
        return usd(fsum(known)) if known else "-"

    def tokens(row: ReadyCell) -> str:
        is_estimate = any(part.is_estimate for part in row.calls)
        return f"{'~' * is_estimate}{sum(part.prompt_tokens for part in row.calls)}"

    has_price = any(part.is_priced for row in rows for part in row.calls)
    show_records(
        f"plan {name}: calls, tokens in and out"
        + (", US dollars for what is not stored" if has_price else "")
        + ", at most",
        rows,
        f"{_columns(rows)}; calls, stored, in=tokens, out=answer" + (", USD" if has_price else ""),
        **{"with": lambda row: row.cell.words},
        calls=lambda row: None if row.error else sum(part.calls for part in row.calls),
        stored=lambda row: None if row.error else sum(part.stored or 0 for part in row.calls),
        tokens=lambda row: None if row.error else tokens(row),
        answer=lambda row: None if row.error else sum(part.max_tokens for part in row.calls),
        USD=most,
    )


def _put_states(name: str, rows: Sequence[CellState], budget: Budget | None) -> None:
    unpriced = dict.fromkeys(model for row in rows for model in row.unpriced)
    spans = [row.rest_usd for row in rows if row.rest_usd]
    show_records(
        f"plan {name}",
        rows,
        f"{_columns(rows)}; state, done, left, missing"
        + (", USD so far=cost, USD for the rest=rest" if spans or unpriced else ""),
        **{"with": lambda row: row.cell.words},
        state=_state,
        cost=lambda row: "unknown" if row.unpriced else usd(row.cost_usd),
        rest=lambda row: usd_range([row.rest_usd]) if row.rest_usd else "-",
    )
    whole = sum(row.is_whole for row in rows)
    left, missing = (sum(getattr(row, name) or 0 for row in rows) for name in ("left", "missing"))
    facts = [
        f"in all: {whole} of {len(rows)} runs done",
        f"{left} calls left at most",
        f"{missing} answers or verdicts missing",
    ]
    if spans:
        spent = usd(fsum(row.cost_usd or 0.0 for row in rows))
        cap = "" if budget is None else f" of {budget.cap_usd:g}"
        facts.append(f"cost: {spent}{cap} USD so far, {usd_range(spans)} for the rest")
    if unpriced:
        facts.append(f"no price for {', '.join(unpriced)}, so its cost is unknown")
    say("; ".join(facts), is_prose=True)


def _state(row: CellState) -> str:
    if row.error:
        return "cannot run"
    return "done" if row.is_whole else "begun" if row.done else "to do"


def _columns(rows: Sequence[ReadyCell] | Sequence[CellState]) -> str:
    return _KEYS if any(row.cell.words for row in rows) else _KEYS.removesuffix(", with")


def _put_errors(rows: Sequence[ReadyCell] | Sequence[CellState]) -> int:
    for row in rows:
        if row.error:
            warn(f"{_title(row.cell)}: cannot run: {row.error}")
    return _code(rows)


def _code(rows: Sequence[ReadyCell] | Sequence[CellState]) -> int:
    return ExitCode.of(any(row.error for row in rows))


def _head(done: CellOutcome, place: int, total: int) -> str:
    return f"[{place}/{total}] {_title(done.cell)}: "


def _put_outcome(done: CellOutcome, place: int, total: int) -> None:
    head = _head(done, place, total)
    if done.result is None:
        warn(f"{head}{done.end}: {done.error}")
        return
    missing = done.result.missing
    words = f"{head}done{f', {missing} missing' if missing else ''}; run {done.result.folder.path}"
    say(words, is_prose=True)
    for line in gap_lines(done.result.file, has_remedy=True):
        warn(line)


def _put_failed(ended: Sequence[CellOutcome]) -> None:
    """Say again at the end, where it is seen, what did not end."""
    failed = [done for done in ended if done.result is None]
    for done in failed:
        kept = "; the leaderboard has its run as it was stored before" if done.stored else ""
        warn(f"{_title(done.cell)}: {done.end}, see above{kept}")
    if failed:
        warn(
            f"{len(failed)} of {len(ended)} runs of the plan are not done; repeat the command to "
            "go on with them: what is stored is not asked again"
        )


def _worst(ended: Sequence[CellOutcome], *, is_part: bool = False) -> int:
    """The exit code of a plan. No merge may follow a shard with a failed run: that is no 1."""
    ends = {done.end for done in ended}
    if CellEnd.BUG in ends:
        return ExitCode.OUR_BUG
    if CellEnd.BUDGET in ends:
        return ExitCode.INTERRUPTED
    if is_part and CellEnd.FAILED in ends:
        return ExitCode.USER_MISTAKE
    made = [done.result or done.part for done in ended]
    is_lacking = any(one is None or one.missing for one in made)
    return ExitCode.of(is_lacking)
