"""The commands that put runs side by side: compare, and curve, which plots them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli import options
from harness.cli.command import ExitCode, argument, option
from harness.cli.options import RESULTS, AsJson, Results, RunNames, Seed
from harness.cli.output import cell, echo, echo_table, log, p_value, put_rows

if TYPE_CHECKING:
    from harness.analysis.compare import ComparisonRow
    from harness.analysis.curves import CurveRow
    from harness.storage.runs import StoredRun

INTENTION = "intention_and_response"


@dataclass(frozen=True, kw_only=True)
class Sides:
    """The two runs that are compared, and whose verdicts."""

    first: str = argument("A", "Run folder, or the first characters of a run's digest.")
    second: str | None = argument(
        "B",
        "Run of the same samples, of the same task or of another. Default: compare parts of A.",
        None,
    )
    judge_a: str | None = option("--judge-a", "Judge of A. Default: every judge that fits.", None)
    judge_b: str | None = option("--judge-b", "Judge of B. Default: as for A.", None)
    intention_judge: str | None = option(
        "--intention-judge",
        "Judge of the intentions that a model wrote down. Default: every judge of them, each with "
        "the most similar judge of responses.",
        None,
    )


def compare(
    sides: Sides,
    seed: Seed = 0,
    draws: int = option("--draws", "Draws for each interval and permutation test.", 2000, min=1),
    results: Results = RESULTS,
    is_json: AsJson = False,
) -> int:
    """Compare two runs of the same samples; write a table below results/comparisons/.

    The runs are of one task, or of two: one answered by choices, the other in words. With one run,
    its variants are compared, and the intentions a model wrote down with its responses.

    \b
    Example:
      harness compare 3f9a 81c2 --judge-a gold --judge-b minilm-cosine
    """
    from harness.analysis.compare import ComparisonRow, comparison_name, comparison_rows
    from harness.analysis.pairings import PairingQuery, between, within
    from harness.stats.estimate import BootstrapSettings
    from harness.storage.cells import records_csv

    runs = _stored([name for name in (sides.first, sides.second) if name is not None], results)
    query = PairingQuery(sides.judge_a, sides.judge_b, sides.intention_judge)
    method = BootstrapSettings(seed, draws)
    pairings = between(runs[0], runs[1], query) if runs[1:] else within(runs[0], query)
    rows = comparison_rows(pairings.pairings, method)
    table = results / "comparisons" / comparison_name([run.file for run in runs], query, method)
    for note in pairings.notes:
        log(note)
    put_rows(
        rows, {table: records_csv(ComparisonRow, rows)}, is_json=is_json, show=lambda: _put(rows)
    )
    return ExitCode.of(_log_missing(rows) or pairings.unmatched)


@dataclass(frozen=True, kw_only=True)
class CurveChoice:
    """What is plotted, and where the files go."""

    runs: RunNames
    judge: str = option("--judge", "Judge whose verdicts are plotted.", "gold")
    variant: str | None = option("--variant", "Variants, comma-separated. Default: all.", None)
    out: Path | None = option("-o --out", "Folder for the files. Default: RESULTS/curves/.", None)


def curve(
    choice: CurveChoice, seed: Seed = 0, results: Results = RESULTS, is_json: AsJson = False
) -> int:
    """Plot hits and false alarms of runs against implicitness, and write the plotted numbers.

    The runs must be of one task, with implicitness from one scorer. The plot names each by its
    model, and by data, variant, decoding or snapshot where runs differ in these.
    """
    from harness.analysis.curves import CurveRow, curve_name, curve_rows, picture, together
    from harness.errors import StoreError
    from harness.implicitness.open import overlap_line
    from harness.storage.cells import records_csv
    from harness.storage.files import refuse_file

    if choice.out is not None:
        refuse_file(choice.out)
    names, judge, wanted = choice.runs, choice.judge, options.names(choice.variant)
    runs = _stored(names, results)
    tables = [curve_rows(run, judge, variants=wanted, seed=str(seed)) for run in runs]
    if not (rows := together(tables)):
        under = f" under variant {choice.variant}" if choice.variant else ""
        raise StoreError(
            f"nothing to draw: judge {judge} has read no text of {', '.join(names)}{under} whose "
            "implicitness is known; run hate_speech, or another task that measures it"
        )
    for name, table in zip(names, tables, strict=True):
        if not table:
            log(f"{name} is left out: judge {judge} has read no text of it with an implicitness")
    lines = [overlap_line(run.file.data, [row.sample for row in run.rows]) for run in runs]
    for line in filter(None, dict.fromkeys(lines)):
        log(line)
    path = (choice.out or results / "curves") / curve_name(rows)
    files = {path.with_name(f"{path.name}.csv"): records_csv(CurveRow, rows)}
    files[path.with_name(f"{path.name}.svg")] = picture(rows)
    put_rows(rows, files, is_json=is_json, show=lambda: _put_curves(rows))
    return ExitCode.DONE


def _stored(names: Sequence[str], results: Path) -> "list[StoredRun]":
    from harness.storage.runs import StoredRun, find_run

    folders = [find_run(results, name) for name in names]
    return [StoredRun.read(folder) for folder in folders]


def _log_missing(rows: "Sequence[ComparisonRow]") -> bool:
    """Log the comparison with the largest share of missing verdicts; whether there is one."""
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
    return bool(lacking)


def _put(rows: "Sequence[ComparisonRow]") -> None:
    tables: dict[str, list[ComparisonRow]] = {}
    for row in rows:
        tables.setdefault(_title(row), []).append(row)
    if any(name.split(":")[-1] == "all" for row in rows for name in (row.variant_a, row.variant_b)):
        echo("all: a sample's choices averaged over their orders, as in accuracy_permuted\n")
    for title, members in tables.items():
        if members[0].comparison == INTENTION:
            _put_relations(title, members)
        else:
            _put_differences(title, members)


def _put_differences(title: str, rows: "Sequence[ComparisonRow]") -> None:
    """Print the fourfold table and the difference for each variant and group."""
    counts = ("both", "A", "B", "no", "tie", "lost")
    figures = ("A-B", "95% interval", "p", "exact", "Holm")
    lines = [
        (
            row.decoding_b if _is_gap(row) else row.variant_b,
            row.group,
            *(row.both, row.only_a, row.only_b, row.neither, row.ties),
            *(f"{row.missing_a}/{row.missing_b}", row.value, _span(row)),
            *map(p_value, (row.p_permutation, row.p_exact, row.p_holm)),
        )
        for row in rows
    ]
    head = "decoding" if _is_gap(rows[0]) else "variant"
    echo_table(title, (head, "group", *counts, *figures), lines)


def _put_relations(title: str, rows: "Sequence[ComparisonRow]") -> None:
    """Print how responses depend on intentions, over all samples of each variant."""
    by_level: dict[str, dict[str, ComparisonRow]] = {}
    for row in rows:
        if row.group == "all":
            by_level.setdefault(row.variant_b, {})[row.statistic] = row
    lines = []
    for level, found in by_level.items():
        phi = found["phi"]
        figures = (found["right_given_right"], found["right_given_wrong"], phi)
        lost = f"{phi.missing_a}/{phi.missing_b}"
        cells = (f"{cell(figure.value)} ({_span(figure)})" for figure in figures)
        lines.append((level, phi.n, phi.ties, lost, *cells))
    shares = ("B right if A right", "B right if A wrong", "phi")
    echo_table(title, ("variant", "n", "tie", "lost", *shares), lines)


def _title(row: "ComparisonRow") -> str:
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


def _span(row: "ComparisonRow") -> str:
    """An interval in two decimals: the table is wide."""
    return "-" if row.low is None else f"{row.low:.2f} to {row.high:.2f}"


def _put_curves(rows: "Sequence[CurveRow]") -> None:
    from harness.analysis.curves import names

    bins, called = [row for row in rows if row.to is not None], names(rows)
    for signature, shape in dict.fromkeys((row.signature, row.shape) for row in bins):
        members = [r for r in bins if (r.signature, r.shape) == (signature, shape)]
        lines = [
            (
                *(row.rate, (row.at, row.to), row.value, (row.low, row.high), row.n),
                *(None if row.effective_n is None else round(row.effective_n), row.note),
            )
            for row in members
        ]
        head = ("rate", shape, "value", "95% interval", "n", "effective n", "note")
        echo_table(f"{called[signature]}, by {shape}", head, lines)
    for row in rows:
        if row.to is None and row.value is None:
            echo(f"{called[row.signature]}: no {row.shape} curve of {row.rate}: {row.note}")
