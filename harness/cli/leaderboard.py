"""The command that ranks the models of all runs: leaderboard."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from harness.cli.command import ExitCode, option
from harness.cli.options import RESULTS, AsJson, Results
from harness.cli.output import Cell, cell, echo, echo_json, echo_table, log
from harness.cli.run_details import log_alarms
from harness.cli.run_summary import usd

if TYPE_CHECKING:
    from harness.analysis.leaderboard import JudgeMatrix, JudgeWarning, PairSensitivity, RankedTable
    from harness.core import Score
    from harness.storage.runs import ScoreRow

HEAD = ("rank", "model", "value", "95% interval", "n", "missing")


def leaderboard(
    task: str | None = option("--task", "Print this task only. Default: all.", None),
    variant: str | None = option("--variant", "Print this variant only. Default: all.", None),
    results: Results = RESULTS,
    is_json: AsJson = False,
) -> int:
    """Collect the scores of all runs in leaderboard.csv, and print the main ones.

    Models are ranked in one table only if all else in their signatures is equal. The file has all
    rows, whatever is printed.
    """
    from harness.analysis.leaderboard import (
        collect,
        judge_matrices,
        judge_warnings,
        pair_sensitivities,
        ranked_tables,
    )
    from harness.errors import StoreError
    from harness.storage.files import write_whole
    from harness.storage.runs import run_folders, table_text

    if not (folders := run_folders(results)):
        raise StoreError(f"no runs below {results}/runs; `harness run` makes one, or see --results")
    rows = collect(folders)
    table, total = results / "leaderboard.csv", len(rows)
    write_whole(table, table_text(rows).encode())
    rows = _chosen(rows, task, variant)
    if is_json:
        echo_json(rows)
        return ExitCode.DONE
    for board in ranked_tables(rows):
        _put_board(board)
    _put_side_by_side(judge_matrices(rows))
    _put_sensitivities(pair_sensitivities(rows))
    for warning in judge_warnings(rows):
        log(f"judge {warning.ceiling.judge} {_finding(warning)}: {warning.recipe}")
    log_alarms(rows)
    echo(f"{total} rows in {table}")
    return ExitCode.DONE


def _chosen(rows: "list[ScoreRow]", task: str | None, variant: str | None) -> "list[ScoreRow]":
    """The rows of a task and a variant, where either is named."""
    from harness.errors import SpecError, did_you_mean

    keys: Sequence[tuple[str, str | None, Callable[[ScoreRow], str]]] = (
        ("task", task, lambda row: row.task),
        ("variant", variant, lambda row: row.score.variant),
    )
    for what, name, of in keys:
        known = sorted({of(row) for row in rows})
        if name is not None and name not in known:
            of_task = f" of task {task!r}" if what == "variant" and task else ""
            raise SpecError(f"no run{of_task} has a {what} {name!r}{did_you_mean(name, known)}")
        rows = [row for row in rows if name in (None, of(row))]
    return rows


def _put_board(board: "RankedTable") -> None:
    """Print the rows of one recipe, with chance and cost if known for any."""
    from harness.analysis.leaderboard import rank_of

    has_chance = any(row.chance is not None for row in board.rows)
    has_cost = any(row.cost_usd is not None for row in board.rows)
    table = []
    for row in board.rows:
        score, rank = row.score, rank_of(row, board).rank or "-"
        cells: list[Cell] = [rank, row.model, score.value, (score.low, score.high)]
        cells += [row.chance] if has_chance else []
        cells += [score.n, sum(score.missing.values())]
        cells += [usd(row.cost_usd)] if has_cost else []
        table.append(cells)
    chance, cost = ["chance"] if has_chance else [], ["cost USD"] if has_cost else []
    echo_table(board.recipe, [*HEAD[:4], *chance, *HEAD[4:], *cost], table)


def _finding(warning: "JudgeWarning") -> str:
    from harness.analysis.leaderboard import FEWEST_CLUSTERS, ControlFinding

    ceiling, floor = warning.ceiling, warning.floor
    both = f"oracle ({cell(ceiling.value)}) from literal ({cell(floor.value)})"
    match warning.finding:
        case ControlFinding.UNHEARD:
            controls = ((ceiling, "oracle"), (floor, "literal"))
            lost = "; ".join(_missing(part, name) for part, name in controls if not part.n)
            return f"has given no verdict that could be read: {lost}"
        case ControlFinding.FEW:
            samples = min(ceiling.clusters, floor.clusters)
            return (
                f"has read too few samples to know whether it is fit ({samples} of "
                f"{FEWEST_CLUSTERS})"
            )
        case ControlFinding.UNFIT:
            return f"is unfit here: it does not distinguish {both}"
        case ControlFinding.WEAK:
            return f"is weak here: it distinguishes {both} by less than half of its scale"


def _missing(score: "Score", control: str) -> str:
    counts = ", ".join(f"{count} {reason}" for reason, count in score.missing.items() if count)
    return f"{control} {counts or 'none'}"


def _put_side_by_side(tables: "Sequence[JudgeMatrix]") -> None:
    """Print a table of models by judges for each recipe with several judges."""
    for table in tables:
        if len(table.judges) < 2:
            continue
        lines = [
            [
                model,
                *("" if s is None else f"{cell(s.value)} ({s.rank or '-'})" for s in ranks),
            ]
            for model, ranks in table.lines
        ]
        echo_table(
            f"judges side by side, value (rank): {table.recipe}", ("model", *table.judges), lines
        )


def _put_sensitivities(found: "Sequence[PairSensitivity]") -> None:
    """Print how much the values of judges depend on the emphasis that they judge an answer by."""
    for recipe in dict.fromkeys(part.recipe for part in found):
        members = [part for part in found if part.recipe == recipe]
        judge = members[0].judge
        echo_table(
            f"sensitivity to emphasis, {judge} minus {judge}:swapped: {recipe}",
            ("model", judge, f"{judge}:swapped", "difference"),
            [(part.model, part.value, part.swapped, part.difference) for part in members],
        )
