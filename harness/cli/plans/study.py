"""The runs of a plan, or of options: what they would ask, how far they are, how they end."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

from harness.analysis.boards import ranked
from harness.analysis.boards.scores import board_text
from harness.cli.boards import put_joint_boards
from harness.cli.options import ExitCode
from harness.cli.plans.prices import SIZES, put_calls, put_sums, sizes
from harness.cli.run_report import facts_of, gap_lines, put_run
from harness.lazy import DataFrame, pandas
from harness.pipeline import execute, preview
from harness.pipeline.plan import variant_digest
from harness.pipeline.resolve import JudgePlan
from harness.pipeline.studies import plans, shards
from harness.pipeline.studies.plans import Cell
from harness.pipeline.studies.shards import Shard, ShardResult
from harness.present.page.page import REPORT, write_page
from harness.present.screen import Cell as Value
from harness.present.screen import ProgressLine, say, show_json, show_rows, usd, warn
from harness.storage.files import refuse_unwritable, write_whole
from harness.storage.frames import plain_rows
from harness.storage.runs import RunFolder
from harness.workspace import Workspace

BOARD, STATE = "leaderboard.csv", "state"
FACTS = ("task", "model", "seed", "limit", "answers")


@dataclass(frozen=True, slots=True)
class Study:
    """Runs that are ready to be counted or carried out; `name` is that of a plan, if any.

    `cap` is the option or key that the budget comes from. `before` and `after` are commands of a
    plan, `where` the folders that they are given.
    """

    name: str
    space: Workspace
    cells: Sequence[Cell]
    line: ProgressLine
    cap: str
    is_json: bool
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    where: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_single(self) -> bool:
        """Whether options ask for one run alone."""
        return len(self.cells) == 1 and not self.name

    @property
    def title(self) -> str:
        """What the runs are called above a table."""
        return f"plan {self.name}" if self.name else "runs"

    def dry_run(self) -> int:
        """Print a line a run, or more of one alone, and the sum; make no call."""
        plans.resolve_cells(self.space.for_counting(), self.cells)
        calls = plans.count_calls(self.cells)
        if self.is_single:
            return _put_dry_run(self.cells[0].title, calls[0], self.space, is_json=self.is_json)
        if self.is_json:
            pairs = zip(_facts(self.cells, "error"), calls, strict=True)
            show_json([facts | {"calls": plain_rows(own)} for facts, own in pairs])
        _put_cells(f"{self.title}: {SIZES}", self.cells, sizes(calls))
        lost = sum(bool(cell.error) for cell in self.cells)
        start = f"in all, without {lost} runs that cannot be planned: " if lost else "in all: "
        whole = pandas.concat(calls)
        put_sums(whole, self.space.terms, start=start, cap=self.cap, unplanned=lost)
        for title, lines in (("before", self.before), ("after", self.after)):
            say("".join(f"{title} the runs: harness {line}\n" for line in lines).strip("\n"))
        return _put_errors(self.cells)

    def status(self) -> int:
        """Print what is done, left and missing of each run; make no call, and ask no server."""
        plans.look_up(self.space, self.cells)
        show_json(_facts(self.cells, "done left missing is_whole error"), self.is_json)
        counts = ("done", "left", "missing")
        columns: dict[str, list[Value]] = {STATE: [*map(_state, self.cells)]}
        columns |= {name: [getattr(cell, name) for cell in self.cells] for name in counts}
        _put_cells(self.title, self.cells, columns)
        whole = f"{sum(cell.is_whole for cell in self.cells)} of {len(self.cells)} runs done"
        left, missing = (sum(getattr(c, n) or 0 for c in self.cells) for n in counts[1:])
        lost = f"{missing} answers or verdicts missing (what the rest costs: --dry-run)"
        say(f"in all: {whole}; {left} calls left at most; {lost}")
        return _put_errors(self.cells)

    def run_part(self, part: Shard) -> int:
        """Make the calls of a shard of every run; no run is written, and no leaderboard."""
        plans.resolve_cells(self.space, self.cells)
        self._carry_out(part)
        if self.is_json:
            made = [cell.part for cell in self.cells if cell.part]
            show_json({"cells": _facts(self.cells, "end error part")} if self.name else made)
        _put_next(part)
        return _worst(self.cells, is_part=True)

    def merge(self, tag: str | None) -> int:
        """Make every run from stored calls alone; StoreError where some are not stored."""
        merged = replace(self, space=self.space.of_stored())
        plans.resolve_cells(merged.space, self.cells)
        shards.refuse_missing(cell.plan for cell in self.cells if cell.plan)
        return merged._run_resolved(tag)

    def run(self, tag: str | None) -> int:
        """Carry out every run, then rank all of them together; those of a plan have a report."""
        lost = self._commands("before", self.before, ())
        plans.resolve_cells(self.space, self.cells, is_shown_again=True)
        return self._run_resolved(tag) or ExitCode.of(lost)

    def _commands(self, title: str, lines: Sequence[str], runs: Sequence[RunFolder]) -> int:
        """Carry out commands of the plan; how many failed. What one prints is kept in a file."""
        from harness.cli.app import inner

        failed, folder = 0, self.space.results / "plans" / self.name
        for place, line in enumerate(lines, 1):
            command, _, out = line.replace("{folder}", str(folder)).partition(" > ")
            each = [
                [str(one.path) for one in runs] if word == "{runs}" else [word]
                for word in shlex.split(command)
            ]
            with redirect_stdout(printed := StringIO()):
                code = inner(list(chain(*each)), self.where)
            kept = Path(out.strip() or folder / f"{title}-{place}.txt")
            write_whole(kept, printed.getvalue().encode())
            failed += code != ExitCode.DONE
            end = f"exit code {code}, see above" if code else "done"
            warn(f"[{title} {place}/{len(lines)}] {line}: {end}; printed {kept}")
        return failed

    def _run_resolved(self, tag: str | None) -> int:
        if self.is_single and (plan := self.cells[0].plan) is not None:
            self._name(made := execute.run(plan), tag)
            return put_run(made, is_json=self.is_json)
        folder = self.space.results / "plans" / self.name
        files = {"leaderboard": folder / BOARD, "report": folder / REPORT} if self.name else {}
        if files:
            refuse_unwritable(folder, (BOARD, REPORT))
        self._carry_out(None, tag)
        each = (cell.result.folder if cell.result else cell.stored for cell in self.cells)
        runs = [run for run in each if run is not None]
        files = files if runs else {}
        if files:
            self._write(runs, **files)
        lost = self._commands("after", self.after, runs)
        if self.is_json:
            show_json(self._ended(files))
            return _worst(self.cells) or ExitCode.of(lost)
        if runs:
            put_joint_boards(runs)
        if files and (budget := self.space.terms.budget) is not None:
            say(f"cost: {usd(budget.spent_usd)} of {budget.cap_usd:.12g} USD")
        for name, path in files.items():
            say(f"{name} {path}")
        if failed := [cell for cell in self.cells if cell.end != plans.DONE]:
            kept = ", ".join(cell.title for cell in failed if cell.stored)
            fact = f"{len(failed)} of {len(self.cells)} runs are not done; repeat the command to go"
            on = "on: what is stored is not asked again"
            old = f"; the leaderboard has these as they were stored before: {kept}" * bool(kept)
            warn(f"{fact} {on}{old}")
        _put_without(self.cells)
        return _worst(self.cells) or ExitCode.of(lost)

    def _ended(self, files: Mapping[str, Path]) -> object:
        done = [cell.result for cell in self.cells]
        if not self.name:
            return [facts_of(one) for one in done if one]
        cells = _facts(self.cells, "end error")
        for facts, one in zip(cells, done, strict=True):
            facts |= {"folder": one and str(one.folder.path), "missing": one and one.missing}
        return {"cells": cells, **{name: str(path) for name, path in files.items()}}

    def _carry_out(self, part: Shard | None, tag: str | None = None) -> None:
        names = [cell.title for cell in self.cells]
        ended = self.line.each(names, plans.carry_out(self.cells, part))
        for place, cell in enumerate(ended, 1):
            if cell.result is not None:
                self._name(cell.result, tag)
            warn(f"[{place}/{len(names)}] {cell.title}: {_end_words(cell)}")
            for line in gap_lines(cell.result.file, has_remedy=True) if cell.result else ():
                warn(line)

    def _name(self, made: execute.RunResult, tag: str | None) -> None:
        """Give a run its tag; one with prompts of a pack has that folder's name by default."""
        registry, file = self.space.registry, made.file
        if tag is None and registry.prompt_pack is not None and made.folder.tag is None:
            of = partial(variant_digest, file.task, name=file.run.task)
            plain = replace(registry, prompt_pack=None).prompts
            if any(of(name, prompts=plain) != words for name, words in file.variants.items()):
                tag = registry.prompt_pack.resolve().name
        if tag is not None:
            made.folder.write_tag(tag)

    def _write(self, folders: Sequence[RunFolder], leaderboard: Path, report: Path) -> None:
        own = list({folder.path: folder for folder in folders}.values())
        rows, boards, _ = ranked.leaderboard(own)
        write_whole(leaderboard, board_text(ranked.board_rows(rows, boards)).encode())
        data, _ = write_page(own, self.space.results, report)
        for note in data.notes:
            warn(note)


def _put_dry_run(title: str, calls: DataFrame, space: Workspace, *, is_json: bool) -> int:
    """Print the planned calls of one run."""
    show_json(plain_rows(calls), is_json)
    put_sums(calls, space.terms)
    put_calls(title, calls)
    return ExitCode.DONE


def put_judging(plan: JudgePlan, part: Shard | None, space: Workspace, *, is_json: bool) -> int:
    """Print what judges of a stored run would ask, or have them ask a part of it."""
    title = f"{plan.file.run.task}, {plan.file.model.name}"
    if part is None:
        preview.charge_stored(plan)
        return _put_dry_run(title, preview.dry_run(plan, set()), space, is_json=is_json)
    made = shards.judge_part(plan, part)
    show_json([made], is_json)
    say(f"{title}: {_part_line(made)}")
    _put_next(part)
    return ExitCode.of(made.missing)


def _facts(cells: Sequence[Cell], names: str) -> list[dict[str, Any]]:
    return [
        {name: getattr(cell.options, name) for name in FACTS}
        | {"map": cell.options.table}
        | {name: getattr(cell, name) for name in names.split()}
        for cell in cells
    ]


def _put_cells(title: str, cells: Sequence[Cell], columns: Mapping[str, Sequence[Value]]) -> None:
    """Print a row a cell, begun with its task, its model and, where there are any, its settings."""
    has_words = any(cell.words for cell in cells)
    rows = list[list[Value]]()
    for place, cell in enumerate(cells):
        own = [None if cell.error and n != STATE else of[place] for n, of in columns.items()]
        rows.append([cell.options.task, str(cell.options.model), *[cell.words] * has_words, *own])
    head = ["task", "model", *(["with"] * has_words), *columns]
    show_rows(title, head, rows, keys=2 + has_words)


def _state(cell: Cell) -> str:
    is_begun = "begun" if cell.done else "to do"
    return "cannot run" if cell.error else "done" if cell.is_whole else is_begun


def _put_errors(cells: Sequence[Cell]) -> int:
    """Warn of the runs that cannot be made, those of one reason together; the exit code."""
    lost = dict[str, list[str]]()
    for cell in cells:
        if cell.error:
            lost.setdefault(cell.error, []).append(cell.title)
    for error, titles in lost.items():
        more = f" and {len(titles) - 2} more" if len(titles) > 3 else ""
        warn(f"{'; '.join(titles[: 2 if more else 3])}{more}: cannot run: {error}")
    return ExitCode.of(_put_without(cells) or lost)


def _put_without(cells: Sequence[Cell]) -> bool:
    """Say once of each judge that cannot start why; whether there is one."""
    found = {name: why for cell in cells if not cell.error for name, why in cell.without.items()}
    for name, why in found.items():
        warn(f"without judge {name}, which cannot start: {why}")
    return bool(found)


def _end_words(cell: Cell) -> str:
    if cell.part is not None:
        return _part_line(cell.part)
    if cell.end != plans.DONE or cell.result is None:
        return f"{cell.end}: {cell.error}"
    counts = {"missing": cell.result.missing, "cut": cell.result.truncated}
    lost = "".join(f", {count} {what}" for what, count in counts.items() if count)
    return f"done{lost}; run {cell.result.folder.path}"


def _part_line(part: ShardResult) -> str:
    asked = f", {part.questions} questions of judges" if part.questions else ""
    lost = f", {part.missing} without an answer" if part.missing else ""
    return f"shard {part.shard}, {part.answers} answers{asked} stored{lost}"


def _put_next(part: Shard) -> None:
    then = "`harness merge`, or of judges `harness judge --offline`, makes it of them"
    say(f"no run is written: when all {part.count} shards are done, {then}")


def _worst(cells: Sequence[Cell], *, is_part: bool = False) -> int:
    """The exit code of a study. No merge may follow a shard with a failed run: that is no 1."""
    ends = {cell.end for cell in cells}
    if plans.BUG in ends:
        return ExitCode.OUR_BUG
    if plans.OUT_OF_BUDGET in ends:
        return ExitCode.INTERRUPTED
    if is_part and plans.FAILED in ends:
        return ExitCode.USER_MISTAKE
    made = [cell.result or cell.part for cell in cells]
    lost = any(one is None or one.missing for one in made)
    return ExitCode.of(lost or any(cell.without for cell in cells))
