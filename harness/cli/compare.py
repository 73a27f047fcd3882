"""The commands that put runs side by side: leaderboard, compare, and curve, which plots them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.analysis import curves
from harness.analysis import leaderboard as scores
from harness.analysis.compare import ComparisonRow, comparison_name, comparison_rows
from harness.analysis.curves import names as curve_names
from harness.analysis.figures.detection import curve_chart
from harness.analysis.fitness import ControlFinding, JudgeFitness, judge_fitness
from harness.analysis.leaderboard import BoardRow
from harness.analysis.pairings import PairingQuery, between, within
from harness.analysis.standings import (
    JudgeMatrix,
    RankedBy,
    RankedTable,
    board_of,
    judge_matrices,
    placed,
    ranked_tables,
)
from harness.cli import options
from harness.cli.options import RESULTS, AsJson, ExitCode, Results, argument, option
from harness.cli.output import (
    cell,
    echo,
    echo_json,
    echo_records,
    echo_table,
    log,
    p_value,
    put_rows,
)
from harness.cli.run_report import log_alarms, shown_decoding, usd
from harness.core import Score
from harness.errors import SpecError, StoreError, did_you_mean
from harness.implicitness.open import overlap_line
from harness.stats.estimate import BootstrapSettings
from harness.storage.cells import records_csv
from harness.storage.files import refuse_file, write_whole
from harness.storage.find_runs import find_run, run_folders
from harness.storage.runs import StoredRun

INTENTION, KNOW = "intention_and_response", "know_versus_act"
VALUES = {
    RankedBy.MEAN: "value",
    RankedBy.MACRO_F1: "macro F1",
    RankedBy.INFORMEDNESS: "TPR-FPR",
}


def leaderboard(
    task: str | None = option("Print these tasks only, comma-separated. Default: all.", None),
    variant: str | None = option("Print these variants only, comma-separated. Default: all.", None),
    results: Results = RESULTS,
    is_json: AsJson = False,
) -> int:
    """Collect the scores of all runs in leaderboard.csv, and print the main ones.

    Two models are ranked in one table only if the rest of their signatures is equal, on the items
    that all models have. No order is known within a group. Controls have no rank. The file has all
    rows, also those that are not printed.
    """
    if not (folders := run_folders(results)):
        raise StoreError(f"no runs below {results}/runs; `harness run` makes one, or see --results")
    tables = {folder: scores.whole_scores(folder) for folder in folders}
    rows, verdicts, left_out = board_of(tables)
    rows = placed(rows, ranked_tables(rows, verdicts))
    table, total = results / "leaderboard.csv", len(rows)
    write_whole(table, scores.board_text(rows).encode())
    rows = _chosen(rows, "task", task, lambda row: row.task)
    of_task = f" of task {task}" if task else ""
    rows = _chosen(rows, "variant", variant, lambda row: row.score.variant, of_task)
    if is_json:
        echo_json(rows)
        return ExitCode.of(left_out)
    boards = ranked_tables(rows, verdicts)
    for board in boards:
        _put_board(board)
    _put_side_by_side(judge_matrices(boards))
    _put_sensitivities(scores.pair_sensitivities(rows))
    for one in judge_fitness(boards, verdicts):
        if one.finding is not ControlFinding.FIT:
            log(f"judge {one.ceiling.judge} {_finding(one)}: {one.recipe}")
    log_alarms(rows)
    echo(f"wrote {total} rows to {table}")
    return ExitCode.of(left_out)


def _chosen(
    rows: list[BoardRow],
    what: str,
    wanted: str | None,
    of: Callable[[BoardRow], str],
    where: str = "",
) -> list[BoardRow]:
    known, names = sorted({of(row) for row in rows}), options.names(wanted, f"--{what}")
    for name in (name for name in names if name not in known):
        if what == "task" and name in options.registry(Path()).names("tasks"):
            raise SpecError(f"no run of task {name} yet; `harness run --task {name}` makes one")
        raise SpecError(f"no run{where} has a {what} {name!r}{did_you_mean(name, known)}")
    return [row for row in rows if not names or of(row) in names]


def _put_board(board: RankedTable) -> None:
    rows = board.rows
    # The chance level is that of the headline, not of the rates or F1 that rank in its place.
    has_chance = board.ranked_by is RankedBy.MEAN and any(r.chance is not None for r in rows)
    chance = " row.chance," if has_chance else ""
    cost = ", cost USD=usd" if any(row.cost_usd is not None for row in rows) else ""
    rates = " TPR, FPR," if board.ranked_by is RankedBy.INFORMEDNESS else ""
    is_shared = any(line.shared not in (None, line.value) for line in board.lines)
    shared = " on shared items=shared," if is_shared else ""
    group = ", group" if len(board.ranked) > 1 else ""
    echo_records(
        _board_title(board),
        board.lines,
        f"rank, row.model, {VALUES[board.ranked_by]}=value, interval,{shared}{rates}{chance} "
        f"row.score.n, missing{group}{cost}",
        rank=lambda line: line.rank or "-",
        TPR=lambda line: line.rates[0],
        FPR=lambda line: line.rates[1],
        missing=lambda line: sum(line.row.score.missing.values()),
        usd=lambda line: usd(line.row.cost_usd),
        group=lambda line: line.group or "-",
    )


def _board_title(board: RankedTable) -> str:
    """The recipe and, where models are ranked, on what."""
    count = len(board.ranked)
    if board.items is None:
        why = "verdicts are not at hand: ranked by value alone, no group is known"
        return f"{board.recipe}\n{why}" if count > 1 else board.recipe
    if count < 2:
        return board.recipe if count else f"{board.recipe}\nno rank: no item that all have"
    models = "both" if count == 2 else f"all {count}"
    pairs = "" if count == 2 else f", Holm over {count * (count - 1) // 2} pairs"
    return (
        f"{board.recipe}\nranked on the {board.items} verdicts that {models} have, of "
        f"{board.clusters} independent items; no order is known within a group (clusters "
        f"swapped{pairs})"
    )


def _finding(found: JudgeFitness) -> str:
    ceiling, floor = found.ceiling, found.floor
    both = f"oracle ({cell(ceiling.value)}) from literal ({cell(floor.value)})"
    gap = f"gap {cell(found.gap)}{'' if found.is_paired else ', unpaired'}"
    match found.finding:
        case ControlFinding.UNHEARD:
            controls = (("oracle", ceiling), ("literal", floor))
            lost = "; ".join(f"{name} {_missing(one)}" for name, one in controls if not one.n)
            return f"has given no verdict that could be read: {lost}"
        case ControlFinding.FEW:
            samples = min(ceiling.clusters, floor.clusters)
            return (
                f"has read too few samples to know whether it is fit ({samples} of "
                f"{scores.FEWEST_CLUSTERS})"
            )
        case ControlFinding.UNSURE:
            return f"may be fit or unfit here, these items cannot tell: {both}, {gap}"
        case ControlFinding.UNFIT:
            return f"is unfit here: it does not distinguish {both}, {gap}"
        case ControlFinding.WEAK:
            return f"is weak here: it distinguishes {both} by less than half of its scale, {gap}"
        case ControlFinding.FIT:
            return f"is fit here: it distinguishes {both}, {gap}"


def _missing(score: Score) -> str:
    return ", ".join(f"{n} {reason}" for reason, n in score.missing.items() if n) or "none"


def _put_side_by_side(tables: Sequence[JudgeMatrix]) -> None:
    for table in (one for one in tables if len(one.judges) > 1):
        lines = []
        for model, ranks in table.lines:
            cells = ("" if s is None else f"{cell(s.value)} ({s.rank or '-'})" for s in ranks)
            lines.append((model, *cells))
        title = f"judges side by side, value (rank): {table.recipe}"
        echo_table(title, ("model", *table.judges), lines)


def _put_sensitivities(found: Sequence[scores.PairSensitivity]) -> None:
    for recipe in dict.fromkeys(part.recipe for part in found):
        members = [part for part in found if part.recipe == recipe]
        judge = members[0].judge
        title = f"sensitivity to emphasis, {judge} minus {judge}:swapped: {recipe}"
        columns = f"model, {judge}=value, {judge}:swapped=swapped, difference"
        echo_records(title, members, columns)


@dataclass(frozen=True, kw_only=True)
class Sides:
    """The two runs that are compared, and whose verdicts."""

    first: str = argument("A", options.A_RUN)
    second: str | None = argument(
        "B",
        "Second run, with the same samples; its task may differ. Default: compare parts of A.",
        None,
    )
    judge_a: str | None = option("Judge of A. Default: every judge that fits.", None)
    judge_b: str | None = option("Judge of B. Default: as for A.", None)
    intention_judge: str | None = option(
        "Judge of the intentions that a model wrote. Default: all such judges, each with the most "
        "similar judge of responses.",
        None,
    )


def compare(
    sides: Sides,
    seed: options.Seed = 0,
    draws: int = option("Draws for each interval and permutation test.", 2000, min=1),
    results: Results = RESULTS,
    is_json: AsJson = False,
) -> int:
    """Compare two runs of the same samples; write a table below results/comparisons/.

    The runs are of one task; or of two tasks, one answered by choices and one in words. For a
    single run, it compares the variants, and the intentions that a model wrote with its responses.

    \b
    Example:
      harness compare 3f9a 81c2 --judge-a gold --judge-b minilm-cosine
    """
    runs = [_stored(name, results) for name in (sides.first, sides.second) if name is not None]
    query = PairingQuery(sides.judge_a, sides.judge_b, sides.intention_judge)
    method = BootstrapSettings(seed, draws)
    pairings = between(runs[0], runs[1], query) if runs[1:] else within(runs[0], query)
    rows = comparison_rows(pairings.pairings, method)
    table = results / "comparisons" / comparison_name([run.file for run in runs], query, method)
    for note in pairings.notes:
        log(note)
    files = {table: records_csv(ComparisonRow, rows)}
    put_rows(rows, files, lambda: _put_comparisons(rows), is_json=is_json)
    return ExitCode.of(_log_missing(rows) or pairings.unmatched)


def _stored(name: str, results: Path) -> StoredRun:
    return StoredRun.read(find_run(results, name))


def _log_missing(rows: Sequence[ComparisonRow]) -> bool:
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


def _put_comparisons(rows: Sequence[ComparisonRow]) -> None:
    tables: dict[str, list[ComparisonRow]] = {}
    for row in rows:
        tables.setdefault(_title(row), []).append(row)
    if any(name.split(":")[-1] == "all" for row in rows for name in (row.variant_a, row.variant_b)):
        echo("all: a sample's choices averaged over their orders, as in accuracy_permuted\n")
    for title, members in tables.items():
        if members[0].comparison == INTENTION:
            _put_relations(title, members)
            continue
        _put_differences(title, members)
    _put_notes([row for row in rows if row.tests])


def _put_differences(title: str, rows: Sequence[ComparisonRow]) -> None:
    first = "decoding" if _is_gap(rows[0]) else "variant=variant_b"
    above = "A-B above chance=above_chance, its interval=above, its p=p_above, "
    echo_records(
        title,
        rows,
        f"{first}, group, both, A=only_a, B=only_b, no=neither, tie=ties, lost, A-B=value, "
        f"interval, p, {above if any(_is_above(row) for row in rows) else ''}flips, exact, Holm",
        decoding=lambda row: _drawn(row)[1],
        lost=_lost,
        interval=_span,
        p=lambda row: p_value(row.p),
        above=lambda row: cell((row.above_chance_low, row.above_chance_high)),
        p_above=lambda row: p_value(row.p_above_chance),
        flips=lambda row: p_value(row.p_above_permutation if _is_above(row) else row.p_permutation),
        exact=lambda row: p_value(row.p_exact),
        Holm=lambda row: p_value(row.p_holm),
    )


def _is_above(row: ComparisonRow) -> bool:
    return row.above_chance is not None


def _put_notes(rows: Sequence[ComparisonRow]) -> None:
    """What belongs together in the tables of differences, and what the correction covers."""
    if not rows:
        return
    has_exact = all(row.p_exact is not None for row in rows if row.p_holm is not None)
    of = "exact" if has_exact else "flips"
    echo(
        f"p belongs to the interval before it; Holm corrects {of} for all {rows[0].tests} "
        "differences above"
    )
    levels = {(row.chance_a, row.chance_b) for row in rows if _is_above(row)}
    if levels:
        shown = "; ".join(f"{cell(a)} and {cell(b)}" for a, b in sorted(levels, key=str)[:3])
        echo(
            f"chance differs ({shown}): blind answers differ by as much, so that flips and Holm "
            "are of what is above chance, and no exact test is given"
        )
    if any(row.comparison == KNOW and None in (row.chance_a, row.chance_b) for row in rows):
        echo(f"{KNOW}: a chance level is not known; where they differ, blind answers differ too")
    echo("")


def _put_relations(title: str, rows: Sequence[ComparisonRow]) -> None:
    by_level: dict[str, dict[str, ComparisonRow]] = {}
    for row in rows:
        if row.group == "all":
            by_level.setdefault(row.variant_b, {})[row.statistic] = row
    lines = []
    for level, found in by_level.items():
        phi = found["phi"]
        figures = (found["right_given_right"], found["right_given_wrong"], phi)
        cells = (f"{cell(figure.value)} ({_span(figure)})" for figure in figures)
        lines.append((level, phi.n, phi.ties, _lost(phi), *cells))
    shares = ("B right if A right", "B right if A wrong", "phi")
    echo_table(title, ("variant", "n", "tie", "lost", *shares), lines)


def _title(row: ComparisonRow) -> str:
    if _is_gap(row):
        what = f"A {row.variant_a}, B {row.variant_b}"
        return f"{row.comparison}: {what}\n  {row.model_a} on {row.task_a}, by {row.judge_a}"
    if row.comparison == INTENTION:
        what = f"{row.model_a} on {row.task_a}, {_drawn(row)[0]}"
        sides = f"the intention, by {row.judge_a}", f"the response, by {row.judge_b}"
    else:
        what = _drawn(row)[1]
        asked = f", {row.variant_a}" if row.task_a != row.task_b else ""
        sides = (
            f"{row.model_a} on {row.task_a}{asked} ({_drawn(row)[0]}), by {row.judge_a}",
            f"{row.model_b} on {row.task_b}, by {row.judge_b}",
        )
    return f"{row.comparison}: {what}\n  A: {sides[0]}\n  B: {sides[1]}"


def _drawn(row: ComparisonRow) -> tuple[str, str]:
    sides = (row.decoding_a, row.signature_a), (row.decoding_b, row.signature_b)
    first, second = (shown_decoding(*side) for side in sides)
    return first, second


def _is_gap(row: ComparisonRow) -> bool:
    return row.task_a == row.task_b and row.variant_a != row.variant_b


def _lost(row: ComparisonRow) -> str:
    return f"{row.missing_a}/{row.missing_b}"


def _span(row: ComparisonRow) -> str:
    """An interval in two decimals: the table is wide."""
    return "-" if row.low is None else f"{row.low:.2f} to {row.high:.2f}"


@dataclass(frozen=True, kw_only=True)
class CurveChoice:
    """What is plotted, and where the files go."""

    runs: options.RunNames
    judge: str = option("Judge whose verdicts are plotted.", "gold")
    variant: str | None = option("Variants, comma-separated. Default: all.", None)
    out: Path | None = option(
        "Folder for the files. Default: RESULTS/curves/.", None, flags="-o --out"
    )


def curve(choice: CurveChoice, results: Results = RESULTS, is_json: AsJson = False) -> int:
    """Plot hits and false alarms of runs against implicitness, and write the plotted numbers.

    The runs must be of one task, with implicitness from one scorer. The plot names each run
    by its model; and by its data, variant, decoding or snapshot if these differ.
    """
    if choice.out is not None:
        refuse_file(choice.out)
    names, judge, wanted = choice.runs, choice.judge, options.names(choice.variant)
    runs = [_stored(name, results) for name in names]
    tables = [curves.curve_rows(run, judge, variants=wanted) for run in runs]
    if not (rows := curves.together(tables)):
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
    path = (choice.out or results / "curves") / curves.curve_name(rows)
    files = {path.with_name(f"{path.name}.csv"): records_csv(curves.CurveRow, rows)}
    chart = curve_chart(rows)
    put_rows(rows, files, lambda: _put_curves(rows), is_json=is_json, chart=chart)
    return ExitCode.DONE


def _put_curves(rows: Sequence[curves.CurveRow]) -> None:
    bins, called = [row for row in rows if row.to is not None], curve_names(rows)
    for signature, shape in dict.fromkeys((row.signature, row.shape) for row in bins):
        echo_records(
            f"{called[signature]}, by {shape}",
            [row for row in bins if (row.signature, row.shape) == (signature, shape)],
            f"rate, {shape}=span, value, interval, n, effective_n, note",
            span=lambda row: (row.at, row.to),
            effective_n=lambda row: None if row.effective_n is None else round(row.effective_n),
        )
    for row in rows:
        if row.to is None and row.value is None:
            echo(f"{called[row.signature]}: no {row.shape} curve of {row.rate}: {row.note}")
