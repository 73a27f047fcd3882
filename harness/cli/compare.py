"""The command that lays two runs, or the parts of one, side by side: compare."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import RESULTS, AsJson, Results
from harness.cli.output import echo, echo_json, echo_table, log, number, p_value

if TYPE_CHECKING:
    from harness.analysis.compare import ComparisonRow

DONE, DONE_WITH_MISSING = 0, 1
INTENTION = "intention_and_response"


def compare(
    first: Annotated[
        str, typer.Argument(metavar="A", help="Run folder, or the start of its digest.")
    ],
    second: Annotated[
        str | None,
        typer.Argument(
            metavar="B",
            help="Run of the same items: of another task, or of the same. Default: A by itself.",
        ),
    ] = None,
    judge_a: Annotated[
        str | None, typer.Option("--judge-a", help="Judge of A. Default: all that will do.")
    ] = None,
    judge_b: Annotated[
        str | None, typer.Option("--judge-b", help="Judge of B. Default: as for A.")
    ] = None,
    intention_judge: Annotated[
        str | None,
        typer.Option(
            "--intention-judge",
            help="Judge of spelled-out intentions. Default: all that read them, each beside the "
            "judge of responses most like it.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of draws.")] = 0,
    draws: Annotated[
        int, typer.Option("--draws", min=1, help="Draws of each interval and permutation test.")
    ] = 2000,
    results: Results = RESULTS,
    is_json: AsJson = False,
) -> int:
    """Compare two readings of the same items, and write a table below results/comparisons/.

    A task answered by choices against one answered in words (knowing and acting); two runs of one
    task; and within a run its gaps, and spelled-out intentions with responses.
    """
    from harness.analysis.compare import ComparisonRow, comparison_name, comparison_rows
    from harness.analysis.pairings import PairingQuery, between, within
    from harness.analysis.stored_runs import StoredRun
    from harness.stats.intervals import BootstrapSettings
    from harness.storage.csv import records_csv
    from harness.storage.files import write_whole
    from harness.storage.runs import find_run

    folders = [find_run(results, name) for name in (first, second) if name is not None]
    runs = [StoredRun.read(folder) for folder in folders]
    question, method = (
        PairingQuery(judge_a, judge_b, intention_judge),
        BootstrapSettings(seed, draws),
    )
    pairings = between(runs[0], runs[1], question) if runs[1:] else within(runs[0], question)
    rows = comparison_rows(pairings.pairings, method)
    name = comparison_name([run.file for run in runs], question, method)
    table = results / "comparisons" / name
    write_whole(table, records_csv(ComparisonRow, rows).encode())
    for note in pairings.notes:
        log(note)
    if is_json:
        echo_json(rows)
    else:
        _put(rows)
        echo(f"{len(rows)} rows in {table}")
    return _code(rows, pairings.unmatched)


def _code(rows: "Sequence[ComparisonRow]", unmatched: int) -> int:
    """Whether anything is missing, which is told in one line."""
    lacking = {
        (row.comparison, row.signature_a, row.signature_b): row
        for row in rows
        if row.group == "all" and row.missing_a + row.missing_b
    }
    if lacking:
        worst = max(lacking.values(), key=lambda row: (row.missing_a + row.missing_b) / row.items)
        log(
            f"verdicts are missing from {len(lacking)} comparisons, at worst {worst.missing_a} and "
            f"{worst.missing_b} of {worst.items}"
        )
    return DONE_WITH_MISSING if lacking or unmatched else DONE


def _put(rows: "Sequence[ComparisonRow]") -> None:
    """Print the tables, a title each."""
    tables: dict[str, list[ComparisonRow]] = {}
    for row in rows:
        tables.setdefault(_title(row), []).append(row)
    if any(name.split(":")[-1] == "all" for row in rows for name in (row.variant_a, row.variant_b)):
        echo("all: an item's choices averaged over its orders, as in accuracy_permuted\n")
    for title, members in tables.items():
        if members[0].comparison == INTENTION:
            _put_relations(title, members)
        else:
            _put_differences(title, members)


def _put_differences(title: str, rows: "Sequence[ComparisonRow]") -> None:
    """Print the fourfold table and the difference of each level and group."""
    counts = ("both", "A", "B", "no", "tie", "lost")
    figures = ("A-B", "95% interval", "p", "exact", "Holm")
    lines = [
        (
            row.decoding_b if _is_gap(row) else row.variant_b,
            row.group,
            *map(_count, (row.both, row.only_a, row.only_b, row.neither, row.ties)),
            f"{row.missing_a}/{row.missing_b}",
            number(row.value),
            _span(row),
            *map(p_value, (row.p_permutation, row.p_exact, row.p_holm)),
        )
        for row in rows
    ]
    head = "decoding" if _is_gap(rows[0]) else "variant"
    echo_table(title, (head, "group", *counts, *figures), lines)


def _put_relations(title: str, rows: "Sequence[ComparisonRow]") -> None:
    """Print how far responses go with intentions, over all samples of each level."""
    by_level: dict[str, dict[str, ComparisonRow]] = {}
    for row in rows:
        if row.group == "all":
            by_level.setdefault(row.variant_b, {})[row.statistic] = row
    lines = []
    for level, found in by_level.items():
        phi = found["phi"]
        figures = (found["right_given_right"], found["right_given_wrong"], phi)
        lost = f"{phi.missing_a}/{phi.missing_b}"
        lines.append((level, str(phi.n), _count(phi.ties), lost, *map(_figure, figures)))
    shares = ("B right if A right", "B right if A wrong", "phi")
    echo_table(title, ("variant", "n", "tie", "lost", *shares), lines)


def _title(row: "ComparisonRow") -> str:
    """What the table of a row compares."""
    if _is_gap(row):
        what = f"A {row.variant_a}, B {row.variant_b}"
        return f"{row.comparison}: {what}\n  {row.model_a} on {row.task_a}, by {row.judge_a}"
    if row.comparison == INTENTION:
        what = f"{row.model_a} on {row.task_a}, {row.decoding_a}"
        sides = f"the intention, by {row.judge_a}", f"the response, by {row.judge_b}"
    else:
        what = f"{row.decoding_b}"
        asked = f", {row.variant_a}" if row.task_a != row.task_b else ""
        sides = (
            f"{row.model_a} on {row.task_a}{asked} ({row.decoding_a}), by {row.judge_a}",
            f"{row.model_b} on {row.task_b}, by {row.judge_b}",
        )
    return f"{row.comparison}: {what}\n  A: {sides[0]}\n  B: {sides[1]}"


def _is_gap(row: "ComparisonRow") -> bool:
    """Whether a row is of two variants of one task."""
    return row.task_a == row.task_b and row.variant_a != row.variant_b


def _count(count: int | None) -> str:
    return "-" if count is None else str(count)


def _figure(row: "ComparisonRow") -> str:
    return f"{number(row.value)} ({_span(row)})"


def _span(row: "ComparisonRow") -> str:
    """An interval in few places, so that a table fits a page."""
    return "-" if row.low is None else f"{row.low:.2f} to {row.high:.2f}"
