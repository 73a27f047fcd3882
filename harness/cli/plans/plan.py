"""A plan's cells to lines: what they would ask, how far they are, how they ended; one board."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import fsum
from pathlib import Path
from typing import Any

from harness.analysis.boards import ranked
from harness.analysis.boards.scores import board_text
from harness.cli.boards import put_joint_boards
from harness.cli.options import Calling, ExitCode, Where, plain_name
from harness.cli.plans.shards import part_line, put_next
from harness.cli.run_report import budget_line, gap_lines, sum_line
from harness.pipeline.repeats import is_plan_unchanged, record_plan
from harness.pipeline.studies import plans, shards
from harness.pipeline.studies.plans import Cell
from harness.pipeline.studies.shards import Shard
from harness.present.page.page import REPORT, write_page
from harness.present.screen import ProgressLine, say, show_json, show_rows, usd, warn
from harness.storage.files import refuse_unwritable, write_whole
from harness.storage.runs import RunFolder
from harness.workspace import Workspace

BOARD = "leaderboard.csv"


@dataclass(frozen=True, slots=True)
class PlanCommand:
    """A plan that is ready to be counted or carried out, by `--budget` in place of its own."""

    name: str
    space: Workspace
    cells: Sequence[Cell]
    cap: str
    line: ProgressLine
    is_json: bool

    @classmethod
    def open(
        cls, name: str, where: Where, calling: Calling, *, is_self_judge: bool, is_json: bool
    ) -> "PlanCommand":
        """Read a plan; SpecError for what is wrong in it."""
        line = ProgressLine()
        space = where.workspace(calling, progress=line)
        spec = space.registry.load("configs/plans", name)
        own = plain_name(Path(name).stem, option="plan")
        if calling.budget is None:
            space = space.with_budget(spec.budget_usd)
        cells = plans.plan_cells(space, spec, name=own, allows_self=is_self_judge)
        cap = "budget_usd" if calling.budget is None else "--budget"
        return cls(own, space, cells, cap, line, is_json)

    def dry_run(self) -> int:
        """Print a line a cell, and the sum; make no call."""
        plans.resolve_cells(self.space, self.cells)
        plans.count_calls(self.cells)
        if self.is_json:
            show_json(_facts(self.cells, "calls error"))
            return ExitCode.of(any(cell.error for cell in self.cells))
        _put_calls(self.name, self.cells)
        every = [part for cell in self.cells for part in cell.calls]
        say(f"in all: {sum_line(every, is_batch=self.space.terms.is_batch)}", is_prose=True)
        if (budget := self.space.terms.budget) is not None:
            say(budget_line(every, budget, name=self.cap), is_prose=True)
        return _put_errors(self.cells)

    def status(self) -> int:
        """Print what is done, left and missing of each cell; make no call, and ask no server."""
        plans.look_up(self.space, self.cells)
        if self.is_json:
            show_json(_facts(self.cells, "done left missing is_whole error"))
            return ExitCode.of(any(cell.error for cell in self.cells))
        _put_states(self.name, self.cells)
        return _put_errors(self.cells)

    def run_part(self, part: Shard) -> int:
        """Make the calls of a shard of every cell; no run is written, and no leaderboard."""
        plans.resolve_cells(self.space, self.cells)
        self._carry_out(part)
        if self.is_json:
            show_json({"cells": _facts(self.cells, "end error part")})
        else:
            put_next([cell.part for cell in self.cells if cell.part])
        return _worst(self.cells, is_part=True)

    def merge(self, tag: str | None) -> int:
        """Make every run from stored calls alone; StoreError where some are not stored."""
        merged = replace(self, space=self.space.of_stored())
        plans.resolve_cells(merged.space, self.cells)
        shards.refuse_missing(cell.plan for cell in self.cells if cell.plan)
        return merged.run_resolved(tag)

    def run(self, tag: str | None) -> int:
        """Carry out every cell, then rank and report all of them together."""
        plans.resolve_cells(self.space, self.cells, is_shown_again=True)
        return self.run_resolved(tag)

    def run_resolved(self, tag: str | None) -> int:
        """As `run`, of cells that are resolved."""
        folder = self.space.results / "plans" / self.name
        refuse_unwritable(folder, (BOARD, REPORT))
        is_repeat = all(cell.plan and cell.plan.repeat for cell in self.cells)
        self._carry_out(None, tag)
        each = (c.result.folder if c.result else c.stored for c in self.cells)
        runs = [run for run in each if run is not None]
        files = {"leaderboard": folder / BOARD, "report": folder / REPORT} if runs else {}
        is_repeat &= is_plan_unchanged(self.space.results, self.name, runs, [*files.values()])
        if runs and not is_repeat:
            self._write(runs, **files)
        if self.is_json:
            ended = _facts(self.cells, "end error")
            for facts, done in zip(ended, (cell.result for cell in self.cells), strict=True):
                facts["folder"] = done and str(done.folder.path)
                facts["missing"] = done and done.missing
            show_json({"cells": ended, **{name: str(path) for name, path in files.items()}})
        elif runs:
            say("")
            put_joint_boards(runs, is_whole=True)
            if (budget := self.space.terms.budget) is not None:
                say(f"cost: {usd(budget.spent_usd)} of {budget.cap_usd:g} USD", is_prose=True)
            for name, path in files.items():
                say(f"{name} {path}", is_prose=True)
        _put_failed([] if self.is_json else self.cells)
        return _worst(self.cells)

    def _carry_out(self, part: Shard | None, tag: str | None = None) -> None:
        """Carry out the cells, and print each as it ends."""
        names = [str(cell.options.model) for cell in self.cells]
        ended = self.line.each(names, plans.carry_out(self.cells, part))
        for place, cell in enumerate(ended, 1):
            if tag is not None and cell.result is not None:
                cell.result.folder.write_tag(tag)
            head = f"[{place}/{len(names)}] {cell.title}: "
            if cell.end != plans.DONE:
                if part is not None or not self.is_json:
                    warn(f"{head}{cell.end}: {cell.error}")
            elif not self.is_json:
                _put_done(cell, head)

    def _write(self, folders: Sequence[RunFolder], leaderboard: Path, report: Path) -> None:
        """Write board and report, unless a run that is on the stored board is not found now."""
        stored = set[tuple[str | None, str | None]]()
        if leaderboard.is_file():
            with leaderboard.open(encoding="utf-8", newline="") as file:
                stored = {(row.get("task"), row.get("model")) for row in csv.DictReader(file)}
        gone = [cell for cell in self.cells if cell.result is None and cell.stored is None]
        lost = [c.title for c in gone if (c.options.task, c.options.model) in stored]
        if lost:
            warn(
                f"{leaderboard} and {REPORT} are left as they were: they have the run of "
                f"{'; '.join(lost)}, which is not found now; mend that and repeat the command"
            )
            return
        own = list({folder.path: folder for folder in folders}.values())
        rows, boards, _ = ranked.leaderboard(own)
        write_whole(leaderboard, board_text(ranked.board_rows(rows, boards)).encode())
        data, _ = write_page(own, self.space.results, report)
        for note in data.notes:
            warn(note)
        record_plan(self.space.results, self.name, folders, [leaderboard, report])


def _facts(cells: Sequence[Cell], names: str) -> list[dict[str, Any]]:
    """The options of cells and some more facts, for JSON."""
    rows = []
    for cell in cells:
        own = cell.options
        facts = {"task": own.task, "model": own.model, "seed": own.seed, "limit": own.limit}
        facts |= {"answers": own.answers, "map": own.table}
        rows.append(facts | {name: getattr(cell, name) for name in names.split()})
    return rows


def _put_table(title: str, head: str, cells: Sequence[Cell], rows: Iterable[Sequence[Any]]) -> None:
    """Print a row a cell, begun with its task, its model and, where there are any, its settings."""
    has_words = any(cell.words for cell in cells)
    keys = [[c.options.task, c.options.model, *([c.words] * has_words)] for c in cells]
    names = ["task", "model", *(["with"] * has_words), *head.split(", ")]
    shown = ([*key, *row] for key, row in zip(keys, rows, strict=True))
    show_rows(title, names, shown, keys=2 + has_words)


def _put_calls(name: str, cells: Sequence[Cell]) -> None:
    has_price = any(part.is_priced for cell in cells for part in cell.calls)

    def counts(cell: Cell) -> list[Any]:
        if cell.error:
            return [None] * (4 + has_price)
        calls, known = cell.calls, [p.most_usd for p in cell.calls if p.most_usd is not None]
        return [
            sum(part.calls for part in calls),
            sum(part.stored or 0 for part in calls),
            f"{'~' * any(p.is_estimate for p in calls)}{sum(p.prompt_tokens for p in calls)}",
            sum(part.max_tokens for part in calls),
            *([usd(fsum(known)) if known else "-"] * has_price),
        ]

    title = f"plan {name}: calls, tokens in and out"
    title += (", US dollars for what is not stored" if has_price else "") + ", at most"
    head = "calls, stored, in, out" + (", USD" if has_price else "")
    _put_table(title, head, cells, map(counts, cells))


def _put_states(name: str, cells: Sequence[Cell]) -> None:
    def facts(cell: Cell) -> list[Any]:
        is_begun = "begun" if cell.done else "to do"
        state = "cannot run" if cell.error else "done" if cell.is_whole else is_begun
        return [state, cell.done, cell.left, cell.missing]

    _put_table(f"plan {name}", "state, done, left, missing", cells, map(facts, cells))
    left, missing = (sum(getattr(c, name) or 0 for c in cells) for name in ("left", "missing"))
    say(
        f"in all: {sum(c.is_whole for c in cells)} of {len(cells)} runs done; {left} calls left "
        f"at most; {missing} answers or verdicts missing (what the rest costs: --dry-run)",
        is_prose=True,
    )


def _put_errors(cells: Sequence[Cell]) -> int:
    lost = [cell for cell in cells if cell.error]
    for cell in lost:
        warn(f"{cell.title}: cannot run: {cell.error}")
    return ExitCode.of(lost)


def _put_done(cell: Cell, head: str) -> None:
    if cell.part is not None:
        say(f"{head}{part_line(cell.part)}", is_prose=True)
    elif cell.result is not None:
        lost = f", {cell.result.missing} missing" if cell.result.missing else ""
        say(f"{head}done{lost}; run {cell.result.folder.path}", is_prose=True)
        for line in gap_lines(cell.result.file, has_remedy=True):
            warn(line)


def _put_failed(cells: Sequence[Cell]) -> None:
    """Say again at the end, where it is seen, what did not end."""
    failed = [cell for cell in cells if cell.end != plans.DONE]
    for cell in failed:
        kept = "; the leaderboard has its run as it was stored before" if cell.stored else ""
        warn(f"{cell.title}: {cell.end}, see above{kept}")
    if failed:
        warn(
            f"{len(failed)} of {len(cells)} runs of the plan are not done; repeat the command to "
            "go on with them: what is stored is not asked again"
        )


def _worst(cells: Sequence[Cell], *, is_part: bool = False) -> int:
    """The exit code of a plan. No merge may follow a shard with a failed run: that is no 1."""
    ends = {cell.end for cell in cells}
    if plans.BUG in ends:
        return ExitCode.OUR_BUG
    if plans.OUT_OF_BUDGET in ends:
        return ExitCode.INTERRUPTED
    if is_part and plans.FAILED in ends:
        return ExitCode.USER_MISTAKE
    made = [cell.result or cell.part for cell in cells]
    return ExitCode.of(any(one is None or one.missing for one in made))
