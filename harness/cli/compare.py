"""The commands that put two runs side by side, or plot several: compare, curve, and the gate."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.analysis import curves
from harness.analysis.compare import (
    GIVEN_RIGHT,
    GIVEN_WRONG,
    PHI,
    comparison_name,
    main_differences,
)
from harness.analysis.compare import compare as compare_pairings
from harness.analysis.curves import names as curve_names
from harness.analysis.findings import comparison_findings
from harness.analysis.gates.gate import LEVEL, SAME, Decision, gate_words, junit_text
from harness.analysis.gates.gate import gate as decide
from harness.analysis.pairings import PairingQuery, between, within
from harness.analysis.run_views import ComparedRun
from harness.cli import options
from harness.cli.options import HOME, RESULTS, AsJson, ExitCode, Results, argument, option
from harness.cli.put import put_frame
from harness.cli.run_report import shown_decoding
from harness.core import Score
from harness.errors import HarnessError, SpecError, StoreError
from harness.implicitness.open import limits_line, overlap_line
from harness.implicitness.probe import plain_line
from harness.lazy import DataFrame
from harness.pipeline.score import all_scores
from harness.present.figures.detection import curve_figure
from harness.present.screen import cell, p_value, say, show_json, show_records, show_rows, warn
from harness.specs.implicitness import HeadSpec
from harness.stats.estimate import BootstrapSettings
from harness.storage.environment import other_versions
from harness.storage.files import refuse_file, refuse_source, write_whole
from harness.storage.find_runs import find_run, find_runs
from harness.storage.frames import Row, plain_rows, records
from harness.storage.read_tables import read_samples
from harness.storage.runs import RunFolder

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
        """The folders of A, and of B if there is one; SpecError where a tag names more."""
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
    runs = [ComparedRun.read(folder) for folder in sides.folders(results)]
    query = PairingQuery(sides.judge_a, sides.judge_b, sides.intention_judge)
    method = BootstrapSettings(seed, draws)
    pairings, notes, unmatched = (
        between(runs[0], runs[1], query) if runs[1:] else within(runs[0], query)
    )
    found = compare_pairings(pairings, method)
    table = results / "comparisons" / comparison_name([run.file for run in runs], query, method)
    for note in notes:
        warn(note)
    if other := other_versions(runs[0].file.packages, runs[-1].file.packages):
        words = "; ".join(f"{name} {one} in A, {two} in B" for name, one, two in other)
        warn(f"computed with other versions, which may be part of a difference: {words}")
    put_frame(found, table, lambda: _put_findings(found, is_all=is_all), is_json=is_json)
    return ExitCode.of(_log_missing(found) or unmatched)


def _log_missing(found: DataFrame) -> bool:
    lost = found["missing_a"] + found["missing_b"]
    found = found.assign(share=lost / found["items"])
    some = found[(found["group"] == "all") & (lost > 0)]
    some = some.drop_duplicates(["comparison", "signature_a", "signature_b"])
    if len(some):
        worst = some.sort_values("share", ascending=False, kind="stable").iloc[0]
        warn(
            f"verdicts are missing from {len(some)} comparisons, at worst {worst['missing_a']} and "
            f"{worst['missing_b']} of {worst['items']}"
        )
    return bool(len(some))


def _put_findings(found: DataFrame, *, is_all: bool) -> None:
    """What the comparison shows: the main differences in words, or in a table if there are many.

    All tables with `is_all`; else the last line says what is left.
    """
    main = main_differences(found)
    names = (main[side].str.rpartition(":")[2] for side in ("variant_a", "variant_b"))
    is_average = np.any([own == "all" for own in names], axis=0)
    main = main.loc[[*main.index[is_average], *main.index[~is_average]]]
    is_long = len(main) > MOST_SENTENCES and not is_all
    for finding in comparison_findings(main)[: 1 if is_long else None]:
        say(finding, is_prose=True)
    say("")
    if is_all:
        if is_average.any():
            say("all: a sample's choices averaged over their orders, as in accuracy_permuted\n")
        for title, members in _by(records(found), _title).items():
            is_relation = members[0].comparison == INTENTION
            (_put_relations if is_relation else _put_differences)(title, members)
        _put_notes(found, main)
        return
    if is_long:
        _put_main(records(main)[:MOST_LINES])
    more, parts = len(main) - MOST_LINES if is_long else 0, len(found) - len(main)
    left = [f"{more} more differences"] * (more > 0)
    left += [f"{parts} rows of groups, decodings and relations"] * (parts > 0)
    if left:
        say(f"--all prints {' and '.join(left)}, with counts and tests", is_prose=True)


def _by(rows: Sequence[Row], key: Callable[[Row], str]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _put_main(main: Sequence[Row]) -> None:
    """A line for each main difference."""
    first = main[0]
    same = {(row.model_a, row.task_a, row.model_b, row.task_b) for row in main}
    title = f"A: {first.model_a} on {first.task_a}; B: {first.model_b} on {first.task_b}"
    kinds = "comparison, " * (len({row.comparison for row in main}) > 1)
    judges = ", judge=judge_b" * (len({row.judge_b for row in main}) > 1)
    show_records(
        f"{title if len(same) == 1 else 'the main differences'}; p after Holm",
        main,
        f"{kinds}variant=variants{judges}; A=mean_a, B=mean_b, A-B=value, interval, p",
        variants=lambda row: ", ".join(dict.fromkeys((row.variant_a, row.variant_b))),
        interval=_span,
        p=lambda row: p_value(row.p_holm),
    )


def _put_differences(title: str, rows: Sequence[Row]) -> None:
    first = "decoding" if _is_gap(rows[0]) else "variant=variant_b"
    above = "A-B above chance=above_chance, its interval=above, its p=p_above, "
    has_above = any(row.above_chance is not None for row in rows)
    show_records(
        title,
        rows,
        f"{first}, group; both, A=only_a, B=only_b, no=neither, tie=ties, lost, A-B=value, "
        f"interval, p, {above if has_above else ''}flips, exact, Holm",
        decoding=lambda row: _drawn(row)[1],
        lost=_lost,
        interval=_span,
        p=lambda row: p_value(row.p),
        above=lambda row: cell((row.above_chance_low, row.above_chance_high)),
        p_above=lambda row: p_value(row.p_above_chance),
        flips=lambda row: p_value(
            row.p_permutation if row.above_chance is None else row.p_above_permutation
        ),
        exact=lambda row: p_value(row.p_exact),
        Holm=lambda row: p_value(row.p_holm),
    )


def _put_notes(found: DataFrame, main: DataFrame) -> None:
    """What belongs together in the tables of differences, and what the correction covers."""
    tested = found[found["tests"].fillna(0) > 0]
    if not len(tested):
        return
    has_exact = tested.loc[tested["p_holm"].notna(), "p_exact"].notna().all()
    say(
        "p belongs to the interval before it; Holm corrects "
        f"{'exact' if has_exact else 'flips'} for all of a family:"
    )
    side = tested.drop(main.index, errors="ignore")["tests"]
    parts = f"; the {side.iat[0]} of single decodings and groups" if len(side) else ""
    count = main["tests"].iat[0]
    say(f"the {count} differences of the sentences above the tables{parts}", is_prose=True)
    above = tested[tested["above_chance"].notna()]
    if len(above):
        levels = sorted({*zip(above["chance_a"], above["chance_b"], strict=True)}, key=str)[:3]
        shown = "; ".join(f"{cell(a)} and {cell(b)}" for a, b in levels)
        say(
            f"chance differs ({shown}): blind answers differ by as much, so that flips and Holm "
            "are of what is above chance, and no exact test is given",
            is_prose=True,
        )
    know = tested[tested["comparison"] == KNOW]
    if know[["chance_a", "chance_b"]].isna().any(axis=None):
        say(f"{KNOW}: a chance level is not known; where they differ, blind answers differ too")
    say("")


def _put_relations(title: str, rows: Sequence[Row]) -> None:
    lines = []
    overall = [row for row in rows if row.group == "all"]
    for level, own in _by(overall, lambda row: row.variant_b).items():
        found = {row.statistic: row for row in own}
        figures = [found[name] for name in (GIVEN_RIGHT, GIVEN_WRONG, PHI)]
        cells = (f"{cell(figure.value)} ({_span(figure)})" for figure in figures)
        lines.append((level, figures[2].n, figures[2].ties, _lost(figures[2]), *cells))
    shares = ("B right if A right", "B right if A wrong", "phi")
    show_rows(title, ("variant", "n", "tie", "lost", *shares), lines)


def _title(row: Row) -> str:
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


def _drawn(row: Row) -> tuple[str, str]:
    sides = (row.decoding_a, row.signature_a), (row.decoding_b, row.signature_b)
    first, second = (shown_decoding(*side) for side in sides)
    return first, second


def _is_gap(row: Row) -> bool:
    return bool(row.task_a == row.task_b and row.variant_a != row.variant_b)


def _lost(row: Row) -> str:
    return f"{row.missing_a}/{row.missing_b}"


def _span(row: Row) -> str:
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
    names, files = [name for name, _ in found], [(f.read(), f.tables()) for _, f in found]
    tables = [curves.curve_rows(*of_run, judge, variants=wanted) for of_run in files]
    if not len(rows := curves.together(tables)):
        under = f" under variant {choice.variant}" if choice.variant else ""
        raise StoreError(
            f"nothing to draw: judge {judge} has read no text of {', '.join(names)}{under} whose "
            "implicitness is known; run hate_speech, or another task that measures it"
        )
    for name, table in zip(names, tables, strict=True):
        if not len(table):
            warn(f"{name} is left out: judge {judge} has read no text of it with an implicitness")
    samples = [list(read_samples(of_run["samples"])) for _, of_run in files]
    lines = [overlap_line(file.data, own) for (file, _), own in zip(files, samples, strict=True)]
    lines += [*map(limits_line, samples), _plain_line(rows)]
    for line in filter(None, dict.fromkeys(lines)):
        warn(line)
    path = (choice.out or results / "curves") / curves.curve_name(rows)
    chart = curve_figure(rows, curves.scale_of(rows["data"].iat[0]))
    table = path.with_name(f"{path.name}.csv")
    put_frame(
        *(rows, table, lambda: _put_curves(rows, [folder for _, folder in found])),
        is_json=is_json,
        chart=chart,
    )
    return ExitCode.DONE


def _plain_line(rows: DataFrame) -> str:
    """How many plain probes reach the published bins, by the card of the head that scored."""
    name, _, digest = curves.scale_of(rows["data"].iat[0]).rpartition("@")
    registry = options.registry(HOME)
    try:
        if not isinstance(registry.load("configs/scorers", name), HeadSpec):
            return ""
        head = registry.scorer(name).head
    except HarnessError:  # a column's values, or a scorer that is not at hand any more
        return ""
    if head.card is None or not head.digest.startswith(digest):
        return ""
    bins = rows.loc[(rows["shape"] == curves.PUBLISHED) & rows["at"].notna(), "at"]
    return plain_line(head.card.metrics, {*bins})


def _put_curves(frame: DataFrame, folders: Sequence[RunFolder]) -> None:
    """The bins, then what they come to: whether rates change with implicitness, a line a run."""
    called = curve_names(frame)
    bins = frame[frame["to"].notna()]
    for (signature, shape), own in bins.groupby(["signature", "shape"], sort=False):
        show_records(
            f"{called[signature]}, by {shape}",
            records(own),
            f"rate, {shape}=span; value, interval, n, effective_n",
            span=lambda row: (row.at, row.to),
            effective_n=lambda row: None if row.effective_n is None else round(row.effective_n),
        )
    for note in bins.loc[bins["value"].isna(), "note"].unique():
        say(f"-: {note}")
    scores: dict[str, dict[str, Score]] = {name: {} for name in called}
    for row in (row for folder in folders for row in all_scores(folder)):
        if row.score.group == "all" and row.signature in scores:
            scores[row.signature][row.score.metric] = row.score
    for signature, label in called.items():
        say(f"{label}: {curves.slope_words(scores[signature])}", is_prose=True)
    for row in records(frame[frame["to"].isna() & frame["value"].isna()]):
        say(f"{called[row.signature]}: no {row.shape} curve of {row.rate}: {row.note}")


CODES = {
    Decision.PASS: ExitCode.DONE,
    Decision.REGRESSION: ExitCode.REGRESSION,
    Decision.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
}


@dataclass(frozen=True, kw_only=True)
class GateChoice:
    """Which runs are compared, and what is allowed."""

    base: str = argument("BASE", options.A_RUN)
    new: str = argument("NEW", "Run of the same task that must not be worse.")
    max_drop: float = option(
        "Drop that is allowed, in units of the metric: .02 is two points of an accuracy.", 0.02
    )
    max_missing: float = option("Share of missing verdicts that is allowed.", 0.01)
    judge: str | None = option("Judge. Default: all that have read both runs.", None)
    junit: Path | None = option("File to write, in JUnit's XML.", None, metavar="FILE")


def gate(choice: GateChoice, results: Results = RESULTS, is_json: AsJson = False) -> int:
    """Say whether NEW has dropped against BASE, for continuous integration; no call is made.

    Exit code 0: any greater drop is ruled out. 3: regression, a greater drop is shown, or too many
    verdicts are missing. 4: inconclusive, these items cannot decide; the drop that would have been
    seen is printed.

    \b
    Example:
      harness compare --gate @released @last --max-drop .02 --junit gate.xml
    """
    folders = [find_run(results, name) for name in (choice.base, choice.new)]
    if folders[0].path.resolve() == folders[1].path.resolve():
        raise SpecError(f"{folders[0].path} is named twice; name the run that is to be tested")
    if choice.junit is not None:
        for read in (path for folder in folders for path in folder.path.iterdir()):
            refuse_source(choice.junit, read, option="--junit")
    base, new = folders
    allowed = {"max_drop": choice.max_drop, "max_missing": choice.max_missing}
    found = decide(base, new, **allowed, judge=choice.judge)
    if choice.junit is not None:
        write_whole(choice.junit, junit_text(found))
    for note in found.attrs["notes"]:
        warn(note)
    if is_json:
        rows = plain_rows(found)
        show_json(found.attrs | {"rows": rows})
    else:
        _put(found)
    return CODES[found.attrs["decision"]]


def _put(found: DataFrame) -> None:
    rows, metrics = records(found), found["metric"].unique()
    of = f" of {metrics[0]}" if len(metrics) == 1 else ""
    title = f"{rows[0].task}, drop{of} from BASE to NEW"
    show_records(
        title,
        rows,
        "variant, judge; decision, base, new, drop, interval, would be seen=seen, n, missing",
        missing=lambda row: f"{row.missing:.1%}",
        seen=lambda row: None if row.decision == Decision.REGRESSION else row.seen,
    )
    if (level := rows[0].level) > LEVEL:
        words = f"a regression is decided at {level:.1%}: corrected for {len(rows)} rows"
        say(f"{words} (Bonferroni)", is_prose=True)
    for row in (row for row in rows if row.decision != Decision.PASS):
        words = f"{row.variant} by {row.judge}: {row.decision}: {row.reason}; {gate_words(row)}"
        say(words, is_prose=True)
    if same := [f"{row.variant} by {row.judge}" for row in rows if row.reason == SAME]:
        say(f"passed without regard to the interval, for {SAME}: {', '.join(same)}", is_prose=True)
    say(f"gate: {found.attrs['decision']}")
