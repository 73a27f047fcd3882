"""The runs below a results folder: as tables, one for each task (`list runs`), and `rm`."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree

from harness.cli import options
from harness.cli.options import RESULTS, Results, switch
from harness.errors import SpecError, StoreError
from harness.present.screen import PAGE, Cell, say, show_json, show_rows, usd, warn
from harness.storage.find_runs import (
    distinguishing,
    find_run,
    find_runs,
    freed,
    megabytes,
    run_facts,
    run_folders,
    shortest,
)
from harness.storage.runs import RunFile, RunFolder

SHARED = ("variants", "limit", "judges", "data", "seed", "temperatures", "answers")
"""The facts that are in the title where all runs of a task share them, else in a column."""
SHORTEST = 6
_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))


def list_runs(results: Path, names: Sequence[str], *, is_json: bool, has_size: bool) -> None:
    """Print the runs below a folder that `names` may mean, newest first; as JSON their folders."""
    if not results.is_dir():
        raise StoreError(f"--results {results}: no such folder; `harness run` makes one")
    found = find_runs(results, names, may_be_part=True) if names else run_folders(results)
    if is_json:
        show_json([str(folder.path) for folder in found])
        return
    tasks: dict[str, list[tuple[RunFolder, RunFile]]] = {}
    for folder in sorted(found, key=lambda one: one.written, reverse=True):
        try:
            file = folder.read()
            tasks.setdefault(file.run.task, []).append((folder, file))
        except (StoreError, ValueError, KeyError):
            fact = "of an earlier version" if folder.is_earlier else "damaged"
            say(f"{folder.path}  {fact}; repeat the run to rebuild it")
    short = shortest((folder for runs in tasks.values() for folder, _ in runs), SHORTEST)
    for task, runs in tasks.items():
        _put_task(task, runs, short, has_size=has_size)
    if has_size:
        say("\n".join(f"{own}  {megabytes(own)}" for own in sorted(results.glob("calls/*"))))
    if not found:
        warn(f"no runs below {results}/runs; `harness run` makes one, or see --results")


def remove(
    runs: options.RunNames,
    *,
    has_calls: bool = switch("--calls", "Also all stored calls of models without another run."),
    is_sure: bool = switch("--yes", "Do not ask."),
    results: Results = RESULTS,
) -> None:
    """Delete runs, after a question; stored calls make them again, but for --calls."""
    tags = [name for name in runs if name.startswith("@")]
    others = [find_run(results, name, is_exact=True) for name in runs if name not in tags]
    paths = freed(results, [*find_runs(results, tags), *others], has_calls=has_calls)
    say("\n".join(f"{path}  {megabytes(path)}" for path in paths))
    PAGE.end()
    ask = sys.stdin and sys.stdin.isatty() and not is_sure  # None: closed
    if not (input("Delete? [y/N] ") in ("y", "yes") if ask else is_sure):
        raise SpecError("nothing is deleted: --yes says that you are sure")
    for path in paths:
        rmtree(path)
    say(f"deleted {len(paths)} folders; `harness leaderboard` ranks what is left")


def _put_task(
    task: str, runs: Sequence[tuple[RunFolder, RunFile]], short: int, *, has_size: bool
) -> None:
    facts = [run_facts(file) for _, file in runs]
    common = [name for name in SHARED if len({fact[name] for fact in facts}) == 1]
    shared = "; ".join(f"{name} {facts[0][name]}" for name in common)
    columns: dict[str, list[Cell]] = {"run": [folder.path.name[:short] for folder, _ in runs]}
    columns["tag"] = [folder.tag for folder, _ in runs]
    columns["model"] = [file.model.name for _, file in runs]
    for name in distinguishing(facts, [name for name in SHARED if name not in common]):
        columns[name] = [_brief(fact[name]) for fact in facts]
    columns["missing"] = [
        None if file.missing is None else sum(gap.count for gap in file.missing) for _, file in runs
    ]
    columns["USD"] = [usd(file.costs.total.cost_usd) if file.costs else None for _, file in runs]
    columns["size"] = [megabytes(folder.path) if has_size else None for folder, _ in runs]
    columns["age"] = [_age(folder.written) for folder, _ in runs]
    shown = {
        name: cells
        for name, cells in columns.items()
        if name not in ("tag", "USD", "size") or any(one not in (None, "-", "0") for one in cells)
    }
    show_rows(f"{task}: {shared}", list(shown), list(zip(*shown.values(), strict=True)))


def _brief(fact: str) -> str:
    """A fact in a column: of a long list its ends and its length."""
    names = list(dict.fromkeys(fact.removesuffix(" items").split(", ")))
    return ", ".join(names) if len(names) < 4 else f"{names[0]} ... {names[-1]} ({len(names)})"


def _age(written: float) -> str:
    seconds = max(0.0, time.time() - written)
    known = (f"{seconds // unit:.0f} {name}" for unit, name in _AGES if seconds >= unit)
    return next(known, "now")
