"""The commands that put two runs side by side, or plot several: compare, curve, and the gate."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path

import numpy as np

from harness.analysis import compare as comparing
from harness.analysis import curves, findings, pairings
from harness.analysis import gate as gates
from harness.analysis.run_views import ComparedRun
from harness.cli import options
from harness.cli.options import RESULTS, AsJson, ExitCode, Results, argument, option
from harness.cli.put import put_frame
from harness.core import Score
from harness.errors import SpecError, StoreError
from harness.implicitness.open import measured_lines
from harness.lazy import DataFrame
from harness.pipeline.score import all_scores
from harness.present import screen
from harness.present.figures.scores import curve_figure
from harness.present.screen import p_value, say, show, warn
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
    named = [name for name in (sides.first, sides.second) if name is not None]
    folders = find_runs(results, named)
    if not len(named) <= len(folders) <= 2:
        where = "".join(f"\n  {folder.path}" for folder in folders)
        raise SpecError(f"compare takes one run or two different ones, and these are:{where}")
    runs = [ComparedRun.read(folder) for folder in folders]
    judges, method = (sides.judge_a, sides.judge_b), BootstrapSettings(seed, draws)
    if sides.judge_b is not None and not runs[1:]:
        raise SpecError("--judge-b names the judge of a second run, and there is one; leave it out")
    one, other = runs[0], runs[-1]
    both = pairings.between(one, other, judges) if runs[1:] else None
    pairs, notes, unmatched = both or pairings.within(one, sides.judge_a)
    found = comparing.compare(pairs, method)
    name = comparing.comparison_name([run.file for run in runs], judges, method)
    for note in notes:
        warn(note)
    if differ := other_versions(one.file.packages, other.file.packages):
        words = "; ".join(f"{name} {old} in A, {new} in B" for name, old, new in differ)
        warn(f"computed with other versions, which may be part of a difference: {words}")
    put_frame(
        found,
        results / "comparisons" / name,
        lambda: _put_findings(found, is_all=is_all),
        is_json=is_json,
    )
    return ExitCode.of(_log_missing(found) or unmatched)


def _log_missing(found: DataFrame) -> bool:
    lost = found["missing_a"] + found["missing_b"]
    some = found.assign(share=lost / found["items"])[(found["group"] == "all") & (lost > 0)]
    some = some.drop_duplicates(["comparison", "signature_a", "signature_b"])
    if len(some):
        worst = some.sort_values("share", ascending=False, kind="stable").iloc[0]
        warn(
            f"verdicts are missing from {len(some)} comparisons, at worst {worst['missing_a']} and "
            f"{worst['missing_b']} of {worst['items']}"
        )
    return bool(len(some))


def _put_findings(found: DataFrame, *, is_all: bool) -> None:
    """The main differences in words, or in a table if there are many; every row with `is_all`."""
    main = comparing.main_differences(found)
    sides = (main[side].str.rpartition(":")[2] for side in ("variant_a", "variant_b"))
    is_average = np.any([own == "all" for own in sides], axis=0)
    main = main.loc[[*main.index[is_average], *main.index[~is_average]]]
    is_long = len(main) > MOST_SENTENCES and not is_all
    for finding in findings.comparison_findings(main)[: 1 if is_long else None]:
        say(finding, is_prose=True)
    say("")
    if is_all or is_long:
        _put_rows(found if is_all else main[:MOST_LINES])
    more, parts = len(main) - MOST_LINES, len(found) - len(main)
    left = [f"{more} more differences"] * (is_long and more > 0)
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
    kept, words = screen.without_alike(rows.assign(**pairs), names)
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
    shown, notes = kept[[*keys, *known]].rename(columns=columns), []
    if tests := rows["tests"].dropna().unique().tolist():
        of = " and ".join(map(str, tests))
        notes.append(f"p belongs to the interval; Holm corrects the tests of {of} differences")
    if rows["above_chance"].notna().any():
        notes.append("chance levels differ: Holm is of what is above chance")
    show(
        shown,
        f"A / B: {words.removeprefix(', ')}",
        notes=notes,
        keys=len(keys),
        p=p_value,
        Holm=p_value,
    )
    say("")


def _span(low: float | None, high: float | None) -> str | None:
    """An interval in two decimals: the table is wide."""
    return None if low is None or high is None or isnan(low) else f"{low:.2f} to {high:.2f}"


def curve(
    runs: options.RunNames,
    judge: str = option("Judge whose verdicts are plotted.", "gold"),
    variant: str | None = option("Variants, comma-separated. Default: all.", None),
    out: Path | None = option(
        "Folder for the files. Default: RESULTS/curves/.", None, flags="-o --out"
    ),
    results: Results = RESULTS,
    is_json: AsJson = False,
) -> int:
    """Plot hits and false alarms of runs against implicitness, and write the plotted numbers.

    The runs must be of one task, with implicitness from one scorer. The plot names each run
    by its model; and by its data, variant, decoding or snapshot if these differ.
    """
    if out is not None:
        refuse_file(out)
    wanted, folders = options.names(variant), find_runs(results, runs)
    files = [(folder.read(), folder.tables()) for folder in folders]
    tables = [curves.curve_rows(*of_run, judge, variants=wanted) for of_run in files]
    if not len(rows := curves.together(tables)):
        under = f" under variant {variant}" if variant else ""
        raise StoreError(
            f"nothing to draw: judge {judge} has read no text of {', '.join(runs)}{under} whose "
            "implicitness is known; run hate_speech, or another task that measures it"
        )
    for folder, table in zip(folders, tables, strict=True):
        if not len(table):
            fact = f"judge {judge} has read no text of it with an implicitness"
            warn(f"{folder.path} is left out: {fact}")
    lines = (measured_lines(file.data, read_samples(own["samples"])) for file, own in files)
    for line in dict.fromkeys(line for own in lines for line in own):
        warn(line)
    path = (out or results / "curves") / f"{curves.curve_name(rows)}.csv"
    chart = curve_figure(rows, curves.scale_of(rows["data"].iat[0]))
    put_frame(rows, path, lambda: _put_curves(rows, folders), is_json=is_json, chart=chart)
    return ExitCode.DONE


def _put_curves(frame: DataFrame, folders: Sequence[RunFolder]) -> None:
    """Whether rates change with implicitness, a line a run; and what has no value or no curve."""
    called, scores = curves.names(frame), dict[tuple[str, str], Score]()
    for row in (row for folder in folders for row in all_scores(folder)):
        if row.score.group == "all":
            scores[row.signature, row.score.metric] = row.score
    for name, label in called.items():
        own = {metric: score for (signature, metric), score in scores.items() if signature == name}
        say(f"{label}: {curves.slope_words(own)}", is_prose=True)
    without = frame[frame["value"].isna()]
    for note in without.loc[without["to"].notna(), "note"].unique():
        say(f"some bins have no value: {note}", is_prose=True)
    for row in records(without[without["to"].isna()]):
        say(f"{called[row.signature]}: no {row.shape} curve of {row.rate}: {row.note}")


CODES = {
    gates.Decision.PASS: ExitCode.DONE,
    gates.Decision.REGRESSION: ExitCode.REGRESSION,
    gates.Decision.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
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
    base, new = (find_run(results, name) for name in (choice.base, choice.new))
    if base.path.resolve() == new.path.resolve():
        raise SpecError(f"{base.path} is named twice; name the run that is to be tested")
    if choice.junit is not None:
        for read in (*base.path.iterdir(), *new.path.iterdir()):
            refuse_source(choice.junit, read, option="--junit")
    allowed = {"max_drop": choice.max_drop, "max_missing": choice.max_missing}
    found = gates.gate(base, new, **allowed, judge=choice.judge)
    if choice.junit is not None:
        write_whole(choice.junit, gates.junit_text(found))
    for note in found.attrs["notes"]:
        warn(note)
    if is_json:
        screen.show_json(found.attrs | {"rows": plain_rows(found)})
    else:
        _put_gate(found)
    return CODES[found.attrs["decision"]]


def _put_gate(found: DataFrame) -> None:
    rows, metrics = records(found), found["metric"].unique()
    of = f" of {metrics[0]}" if len(metrics) == 1 else ""
    is_open = found["decision"] != gates.Decision.REGRESSION
    shown = found.assign(interval=screen.intervals(found), seen=found["seen"].where(is_open))
    names = ["variant", "judge", "decision", "base", "new", "drop", "interval", "seen", "n"]
    title = f"{rows[0].task}, drop{of} from BASE to NEW"
    shown = shown[[*names, "missing"]].rename(columns={"seen": "would be seen"})
    screen.show(shown, title, keys=2, missing="{:.1%}".format)
    if (level := rows[0].level) > gates.LEVEL:
        words = f"a regression is decided at {level:.1%}: corrected for {len(rows)} rows"
        say(f"{words} (Bonferroni)", is_prose=True)
    for row in rows:
        if row.decision != gates.Decision.PASS or row.reason == gates.SAME:
            words = "" if row.reason == gates.SAME else f"; {gates.gate_words(row)}"
            say(f"{row.variant} by {row.judge}: {row.decision}: {row.reason}{words}", is_prose=True)
    say(f"gate: {found.attrs['decision']}")
