"""The commands that put two runs side by side, or plot several: compare and curve."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.analysis import curves
from harness.analysis.boards.scores import whole_scores
from harness.analysis.compare import (
    ComparisonRow,
    comparison_name,
    comparison_rows,
    main_differences,
)
from harness.analysis.curves import names as curve_names
from harness.analysis.findings import comparison_findings
from harness.analysis.leaderboard import by_signature
from harness.analysis.pairings import PairingQuery, between, within
from harness.cli import options
from harness.cli.options import HOME, RESULTS, AsJson, ExitCode, Results, argument, option
from harness.cli.output import cell, echo, echo_records, echo_table, log, p_value, put_rows
from harness.cli.run_report import shown_decoding
from harness.errors import HarnessError, SpecError, StoreError
from harness.implicitness.open import limits_line, overlap_line
from harness.implicitness.probe import plain_line
from harness.pipeline.columns.stored import ColumnRun
from harness.present.figures.detection import curve_figure
from harness.present.figures.named import curve_frame
from harness.specs.implicitness import HeadSpec
from harness.stats.estimate import BootstrapSettings
from harness.storage.cells import records_csv
from harness.storage.environment import other_versions
from harness.storage.files import refuse_file
from harness.storage.find_runs import find_runs
from harness.storage.runs import RunFolder, ScoreRow, StoredRun

MOST_SENTENCES, MOST_LINES = 3, 11
"""So many differences are printed in words, or as lines of a table, without --all."""
INTENTION, KNOW = "intention_and_response", "know_versus_act"


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

    def folders(self, results: Path) -> list[RunFolder]:
        """The folders of A, and of B if there is one; SpecError where a tag stands for more."""
        named = [name for name in (self.first, self.second) if name is not None]
        found = find_runs(results, named)
        if len(named) > len(found):  # one run by two judges
            return found * 2
        if len(found) > 2:
            where = "".join(f"\n  {folder.path}" for folder in found)
            raise SpecError(
                f"compare takes one run or two, and these are {len(found)}; name two:{where}"
            )
        return found


def compare(
    sides: Sides,
    seed: options.Seed = 0,
    draws: int = option("Draws for each interval and permutation test.", 2000, min=1),
    is_all: bool = option(
        "Print the tables of groups, decodings and counts.", False, flags="--all"
    ),
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
    runs = [ColumnRun.read(folder) for folder in sides.folders(results)]
    query = PairingQuery(sides.judge_a, sides.judge_b, sides.intention_judge)
    method = BootstrapSettings(seed, draws)
    pairings = between(runs[0], runs[1], query) if runs[1:] else within(runs[0], query)
    rows = comparison_rows(pairings.pairings, method)
    table = results / "comparisons" / comparison_name([run.file for run in runs], query, method)
    for note in pairings.notes:
        log(note)
    if other := other_versions(runs[0].file.packages, runs[-1].file.packages):
        words = "; ".join(f"{name} {one} in A, {two} in B" for name, one, two in other)
        log(f"computed with other versions, which may be part of a difference: {words}")
    files = {table: records_csv(ComparisonRow, rows)}
    put_rows(rows, files, lambda: _put_findings(rows, is_all=is_all), is_json=is_json)
    return ExitCode.of(_log_missing(rows) or pairings.unmatched)


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


def _put_findings(rows: Sequence[ComparisonRow], *, is_all: bool) -> None:
    """What the comparison shows: the main differences in words, or in a table if there are many.

    All tables with `is_all`; else the last line says what is left.
    """
    main = sorted(main_differences(rows), key=lambda row: not _is_average(row))
    is_long = len(main) > MOST_SENTENCES and not is_all
    for finding in comparison_findings(main)[: 1 if is_long else None]:
        echo(finding, is_prose=True)
    echo("")
    if is_all:
        _put_comparisons(rows)
        return
    if is_long:
        _put_main(main[:MOST_LINES])
    more, parts = len(main) - MOST_LINES if is_long else 0, len(rows) - len(main)
    left = [f"{more} more differences"] * (more > 0)
    left += [f"{parts} rows of groups, decodings and relations"] * (parts > 0)
    if left:
        echo(f"--all prints {' and '.join(left)}, with counts and tests", is_prose=True)


def _is_average(row: ComparisonRow) -> bool:
    return any(name.split(":")[-1] == "all" for name in (row.variant_a, row.variant_b))


def _put_main(main: Sequence[ComparisonRow]) -> None:
    """A line for each main difference."""
    first = main[0]
    same = {(row.model_a, row.task_a, row.model_b, row.task_b) for row in main}
    title = f"A: {first.model_a} on {first.task_a}; B: {first.model_b} on {first.task_b}"
    kinds = "comparison, " * (len({row.comparison for row in main}) > 1)
    judges = ", judge=judge_b" * (len({row.judge_b for row in main}) > 1)
    echo_records(
        f"{title if len(same) == 1 else 'the main differences'}; p after Holm",
        main,
        f"{kinds}variant=variants{judges}; A=mean_a, B=mean_b, A-B=value, interval, p",
        variants=lambda row: ", ".join(dict.fromkeys((row.variant_a, row.variant_b))),
        interval=_span,
        p=lambda row: p_value(row.p_holm),
    )


def _put_comparisons(rows: Sequence[ComparisonRow]) -> None:
    tables: dict[str, list[ComparisonRow]] = {}
    for row in rows:
        tables.setdefault(_title(row), []).append(row)
    if any(map(_is_average, rows)):
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
        f"{first}, group; both, A=only_a, B=only_b, no=neither, tie=ties, lost, A-B=value, "
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
    main = main_differences(rows)
    side = next((row.tests for row in rows if row not in main), 0)
    echo(f"p belongs to the interval before it; Holm corrects {of} for all of a family:")
    parts = f"; the {side} of single decodings and groups" * bool(side)
    echo(f"the {main[0].tests} differences of the sentences above the tables{parts}", is_prose=True)
    levels = {(row.chance_a, row.chance_b) for row in rows if _is_above(row)}
    if levels:
        shown = "; ".join(f"{cell(a)} and {cell(b)}" for a, b in sorted(levels, key=str)[:3])
        echo(
            f"chance differs ({shown}): blind answers differ by as much, so that flips and Holm "
            "are of what is above chance, and no exact test is given",
            is_prose=True,
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
    judge, wanted = choice.judge, options.names(choice.variant)
    found = [(name, folder) for name in choice.runs for folder in find_runs(results, [name])]
    names, runs = [name for name, _ in found], [StoredRun.read(folder) for _, folder in found]
    scores = by_signature(row for _, folder in found for row in whole_scores(folder) or ())
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
    lines += [limits_line(row.sample for row in run.rows) for run in runs]
    lines.append(_plain_line(runs, rows))
    for line in filter(None, dict.fromkeys(lines)):
        log(line)
    path = (choice.out or results / "curves") / curves.curve_name(rows)
    files = {path.with_name(f"{path.name}.csv"): records_csv(curves.CurveRow, rows)}
    chart = curve_figure(curve_frame(rows), curves.scale_of(rows[0]))
    put_rows(rows, files, lambda: _put_curves(rows, scores), is_json=is_json, chart=chart)
    return ExitCode.DONE


def _plain_line(runs: Sequence[StoredRun], rows: Sequence[curves.CurveRow]) -> str:
    """How many plain probes reach the published bins, by the card of the head that scored."""
    name, _, digest = curves.scale_of(rows[0]).rpartition("@")
    registry = options.registry(HOME)
    try:
        if not isinstance(registry.load("configs/scorers", name), HeadSpec):
            return ""
        head = registry.scorer(name).head
    except HarnessError:  # a column's values, or a scorer that is not at hand any more
        return ""
    if head.card is None or not head.digest.startswith(digest):
        return ""
    bins = {row.at for row in rows if row.shape == curves.PUBLISHED and row.at is not None}
    return plain_line(head.card.metrics, bins)


def _put_curves(
    rows: Sequence[curves.CurveRow], scores: Mapping[str, Mapping[str, ScoreRow]]
) -> None:
    """The bins, then what they come to: whether rates change with implicitness, a line a run."""
    bins, called = [row for row in rows if row.to is not None], curve_names(rows)
    for signature, shape in dict.fromkeys((row.signature, row.shape) for row in bins):
        echo_records(
            f"{called[signature]}, by {shape}",
            [row for row in bins if (row.signature, row.shape) == (signature, shape)],
            f"rate, {shape}=span; value, interval, n, effective_n",
            span=lambda row: (row.at, row.to),
            effective_n=lambda row: None if row.effective_n is None else round(row.effective_n),
        )
    for note in dict.fromkeys(row.note for row in bins if row.value is None):
        echo(f"-: {note}")
    for signature, label in called.items():
        echo(f"{label}: {curves.slope_words(scores.get(signature, {}))}", is_prose=True)
    for row in rows:
        if row.to is None and row.value is None:
            echo(f"{called[row.signature]}: no {row.shape} curve of {row.rate}: {row.note}")
