"""The commands that set results side by side: leaderboard."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import RESULTS, AsJson, Results
from harness.cli.output import echo, echo_json, echo_table, log, number, span
from harness.cli.run_details import say_alarms
from harness.cli.run_summary import usd

if TYPE_CHECKING:
    from harness.analysis.leaderboard import JudgeMatrix, JudgeWarning, PairSensitivity, RankedTable
    from harness.core import Score
    from harness.storage.score_table import ScoreRow

HEAD = ("rank", "model", "value", "95% interval", "n", "missing")


def leaderboard(
    results: Results = RESULTS,
    task: Annotated[
        str | None, typer.Option("--task", help="Print this task alone. Default: all.")
    ] = None,
    variant: Annotated[
        str | None, typer.Option("--variant", help="Print this variant alone. Default: all.")
    ] = None,
    is_json: AsJson = False,
) -> int:
    """Gather all runs into leaderboard.csv and print their headline scores.

    Rows are ranked together only where their signatures differ in nothing but the model. The file
    holds all rows, whatever is printed.
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
    from harness.storage.runs import run_folders
    from harness.storage.score_table import table_text

    if not (folders := run_folders(results)):
        raise StoreError(f"no runs below {results}/runs; `harness run` makes one, or see --results")
    rows = collect(folders)
    write_whole(results / "leaderboard.csv", table_text(rows).encode())
    total = len(rows)
    rows = _chosen(rows, task, variant)
    if is_json:
        echo_json(rows)
        return 0
    for board in ranked_tables(rows):
        _put_board(board)
    _put_side_by_side(judge_matrices(rows))
    _put_sensitivities(pair_sensitivities(rows))
    for doubt in judge_warnings(rows):
        log(f"judge {doubt.ceiling.judge} {_said(doubt)}: {doubt.recipe}")
    say_alarms(rows)
    echo(f"{total} rows in {results / 'leaderboard.csv'}")
    return 0


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
    """Print the rows of one recipe; with chance and cost, where they are known of any."""
    from harness.analysis.leaderboard import rank_of

    has_chance = any(row.chance is not None for row in board.rows)
    has_cost = any(row.cost_usd is not None for row in board.rows)
    table = []
    for row in board.rows:
        score, rank = row.score, rank_of(row, board).rank or "-"
        interval, lost = span(score.low, score.high), str(sum(score.missing.values()))
        cells = [str(rank), row.model, number(score.value), interval]
        cells += [number(row.chance)] if has_chance else []
        cells += [str(score.n), lost, *([usd(row.cost_usd)] if has_cost else [])]
        table.append(cells)
    chance, cost = ["chance"] if has_chance else [], ["cost USD"] if has_cost else []
    echo_table(board.recipe, [*HEAD[:4], *chance, *HEAD[4:], *cost], table)


def _said(doubt: "JudgeWarning") -> str:
    """What speaks against a judge, in words."""
    from harness.analysis.leaderboard import FEWEST_CLUSTERS, ControlFinding

    ceiling, floor = doubt.ceiling, doubt.floor
    both = f"oracle ({number(ceiling.value)}) from literal ({number(floor.value)})"
    match doubt.finding:
        case ControlFinding.UNHEARD:
            lost = "; ".join(_lost(part, name) for part, name in _controls(doubt) if not part.n)
            return f"has given no verdict that could be read: {lost}"
        case ControlFinding.FEW:
            items = min(ceiling.clusters, floor.clusters)
            return (
                f"has read too few items to tell whether it is fit ({items} of {FEWEST_CLUSTERS})"
            )
        case ControlFinding.UNFIT:
            return f"is unfit here: it does not tell {both}"
        case ControlFinding.WEAK:
            return f"is weak here: it tells {both}, but by less than half of its scale"


def _controls(doubt: "JudgeWarning") -> "tuple[tuple[Score, str], ...]":
    return (doubt.ceiling, "oracle"), (doubt.floor, "literal")


def _lost(score: "Score", control: str) -> str:
    counts = ", ".join(f"{count} {reason}" for reason, count in score.missing.items() if count)
    return f"{control} {counts or 'none'}"


def _put_side_by_side(tables: "Sequence[JudgeMatrix]") -> None:
    """Print models by judges, where there is more than one judge."""
    for table in tables:
        if len(table.judges) < 2:
            continue
        lines = [
            [
                line.model,
                *("" if s is None else f"{number(s.value)} ({s.rank or '-'})" for s in line.ranks),
            ]
            for line in table.lines
        ]
        echo_table(
            f"judges side by side, value (rank): {table.recipe}", ("model", *table.judges), lines
        )


def _put_sensitivities(found: "Sequence[PairSensitivity]") -> None:
    """Print what each judge's values owe to the emphasis an answer is judged under."""
    for recipe in dict.fromkeys(part.recipe for part in found):
        members = [part for part in found if part.recipe == recipe]
        judge = members[0].judge
        echo_table(
            f"sensitivity to emphasis, {judge} minus {judge}:swapped: {recipe}",
            ("model", judge, f"{judge}:swapped", "difference"),
            [
                (part.model, number(part.value), number(part.swapped), number(part.difference))
                for part in members
            ],
        )
