"""The runs below a results folder as tables, one for each task: `harness list runs`."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

from harness.cli.options import ExitCode
from harness.errors import StoreError
from harness.present.screen import Cell, say, show_json, show_rows, usd, warn
from harness.storage.find_runs import run_facts, run_folders, runs_called
from harness.storage.runs import RunFile, RunFolder, ScoreRow, read_table

SHARED = ("variants", "limit", "judges", "data", "seed", "temperatures", "answers")
"""The facts that stand in the title where all runs of a task share them, else in a column."""
WIDTH, SHORTEST = 80, 6
_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run that can be read, and its scores."""

    folder: RunFolder
    file: RunFile
    scores: Sequence[ScoreRow]


def list_runs(results: Path, names: Sequence[str] = (), *, is_json: bool) -> int:
    """Print the runs below a results folder, newest last; as JSON their folders alone.

    With `names` those that these may mean.
    """
    if not results.is_dir():
        raise StoreError(f"--results {results}: no such folder; `harness run` makes one")
    found = runs_called(results, names) if names else run_folders(results)
    if is_json:
        show_json([str(folder.path) for folder in found])
        return ExitCode.DONE
    runs = []
    for folder in sorted(found, key=lambda one: one.written):
        try:
            scores = read_table(folder.scores) if folder.scores.is_file() else []
            runs.append(ListedRun(folder, folder.read(), scores))
        except StoreError:
            say(f"{folder.path}  damaged; repeat the run to rebuild it")
    short = _shortest([run.folder.path.name for run in runs])
    for task in dict.fromkeys(run.file.run.task for run in runs):
        _put_task(task, [run for run in runs if run.file.run.task == task], short)
    if not found:
        warn(f"no runs below {results}/runs; `harness run` makes one, or see --results")
    return ExitCode.DONE


def _put_task(task: str, runs: Sequence[ListedRun], short: int) -> None:
    facts = [run_facts(run.file) for run in runs]
    common = [name for name in SHARED if len({fact[name] for fact in facts}) == 1]
    shared = "; ".join(f"{name} {facts[0][name]}" for name in common)
    title = fill(f"{task}: {shared}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    columns: dict[str, list[Cell]] = {"run": [run.folder.path.name[:short] for run in runs]}
    columns["tag"] = [run.folder.tag for run in runs]
    columns["model"] = [run.file.model.name for run in runs]
    for name in SHARED:
        if name not in common:
            columns[name] = [_brief(fact[name]) for fact in facts]
    judges = {run.file.judges[0].name for run in runs if run.file.judges}
    columns[judges.pop() if len(judges) == 1 else "value"] = [_value(run) for run in runs]
    columns["missing"] = [
        None if run.file.missing is None else sum(gap.count for gap in run.file.missing)
        for run in runs
    ]
    costs = [run.file.costs for run in runs]
    columns["USD"] = [usd(one.total.cost_usd) if one else None for one in costs]
    columns["age"] = [_age(run.folder.written) for run in runs]
    shown = {
        name: cells
        for name, cells in columns.items()
        if name not in ("tag", "USD") or any(one not in (None, "-", "0") for one in cells)
    }
    show_rows(title, list(shown), list(zip(*shown.values(), strict=True)))


def _brief(fact: str) -> str:
    """A fact in a column: of a long list its ends and its length."""
    names = fact.removesuffix(" items").split(", ")
    return ", ".join(names) if len(names) < 4 else f"{names[0]} ... {names[-1]} ({len(names)})"


def _value(run: ListedRun) -> str | None:
    """The headline value by the first judge; of several variants, the lowest and the highest."""
    judge = run.file.judges[0].name if run.file.judges else None
    from harness.analysis.headlines import headlines

    first = [row.score.value for row in headlines(run.scores) if row.score.judge == judge]
    values = [value for value in first if value is not None]
    if not values:
        return None
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low}-{high}"


def _age(written: float) -> str:
    seconds = max(0.0, time.time() - written)
    for unit, name in _AGES:
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name}"
    return "now"


def _shortest(digests: Sequence[str]) -> int:
    """How many characters make all digests different, at least six."""
    for count in range(SHORTEST, max(map(len, digests), default=SHORTEST)):
        if len({digest[:count] for digest in digests}) == len({*digests}):
            return count
    return max(map(len, digests), default=SHORTEST)
