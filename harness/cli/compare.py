"""The commands that put two runs side by side, or plot several: compare, curve, and the gate."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path

import numpy as np

from harness.analysis import curves
from harness.analysis.compare import compare as compare_pairings
from harness.analysis.compare import (
    comparison_name,
    main_differences,
)
from harness.analysis.curves import names as curve_names
from harness.analysis.findings import comparison_findings
from harness.analysis.gates.gate import LEVEL, SAME, Decision, gate_words, junit_text
from harness.analysis.gates.gate import gate as decide
from harness.analysis.pairings import PairingQuery, between, within
from harness.analysis.run_views import ComparedRun
from harness.cli import options
from harness.cli.options import HOME, RESULTS, AsJson, ExitCode, Results, argument, option
from harness.cli.put import put_frame
from harness.core import Score
from harness.errors import HarnessError, SpecError, StoreError
from harness.implicitness.open import measured_lines
from harness.implicitness.probe import plain_line
from harness.lazy import DataFrame
from harness.pipeline.score import all_scores
from harness.present.figures.scores import curve_figure
from harness.present.screen import (
    p_value,
    say,
    show,
    show_json,
    show_records,
    warn,
    without_alike,
)
from harness.specs.implicitness import HeadSpec
from harness.stats.estimate import BootstrapSettings
from harness.storage.environment import other_versions
from harness.storage.files import refuse_file, refuse_source, write_whole
from harness.storage.find_runs import find_run, find_runs
from harness.storage.frames import plain_rows, records
from harness.storage.read_tables import read_samples
from harness.storage.runs import RunFolder

MOST_SENTENCES, MOST_LINES = 3, 11
"""So many differences are printed in words, or as lines of a table, without --all."""


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
    """The main differences in words, or in a table if there are many; every row with `is_all`.

    The last line says what is left.
    """
    main = main_differences(found)
    names = (main[side].str.rpartition(":")[2] for side in ("variant_a", "variant_b"))
    is_average = np.any([own == "all" for own in names], axis=0)
    main = main.loc[[*main.index[is_average], *main.index[~is_average]]]
    is_long = len(main) > MOST_SENTENCES and not is_all
    for finding in comparison_findings(main)[: 1 if is_long else None]:
        say(finding, is_prose=True)
    say("")
    if is_all or is_long:
        _put_rows(found if is_all else main[:MOST_LINES])
    more, parts = len(main) - MOST_LINES if is_long else 0, len(found) - len(main)
    left = [f"{more} more differences"] * (more > 0)
    left += [f"{parts} rows of groups, decodings and relations"] * (parts > 0)
    if left and not is_all:
        say(f"--all prints {' and '.join(left)}, with counts and tests", is_prose=True)


def _put_rows(rows: DataFrame) -> None:
    """A line a row, and what the correction covers; what all lines share is in the title."""
    pairs = {
        name: rows[f"{name}_a"].where(rows[f"{name}_a"] == rows[f"{name}_b"], sides)
        for name in ("task", "model", "judge", "decoding", "variant")
        for sides in [rows[f"{name}_a"] + " / " + rows[f"{name}_b"]]
    }
    names = [*pairs, "comparison", "statistic", "group"]
    kept, words = without_alike(rows.assign(**pairs), names)
    kept["interval"] = [*map(_span, rows["low"], rows["high"])]
    kept["lost"] = [f"{a}/{b}" for a, b in zip(rows["missing_a"], rows["missing_b"], strict=True)]
    keys = [name for name in names if name in kept]
    columns = {"mean_a": "A", "mean_b": "B", "value": "A-B", "interval": "interval", "n": "n"}
    columns |= {"lost": "lost", "above_chance": "above chance", "p": "p", "p_holm": "Holm"}
    if rows["n"].nunique() == 1:
        words += f", {columns.pop('n')} {rows['n'].iat[0]}"
    if not (rows["missing_a"] + rows["missing_b"]).any():
        words += f", nothing {columns.pop('lost')}"
    known = [name for name in columns if kept[name].notna().any()]
    shown = kept[[*keys, *known]].rename(columns=columns)
    show(shown, f"A / B: {words}", keys=len(keys), p=p_value, Holm=p_value)
    if tests := rows["tests"].dropna().unique().tolist():
        of = " and ".join(map(str, tests))
        say(
            f"p belongs to the interval; Holm corrects the tests of {of} differences", is_prose=True
        )
    above = rows[rows["above_chance"].notna()]
    if len(above):
        say("chance levels differ: Holm is of what is above chance", is_prose=True)
    say("")


def _span(low: float | None, high: float | None) -> str | None:
    """An interval in two decimals: the table is wide."""
    return None if low is None or high is None or isnan(low) else f"{low:.2f} to {high:.2f}"


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
    both = zip(files, samples, strict=True)
    lines = [line for (file, _), own in both for line in measured_lines(file.data, own)]
    lines.append(_plain_line(rows))
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
