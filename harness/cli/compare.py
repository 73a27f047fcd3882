"""The commands that put two runs side by side: compare, and the gate."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan

from harness.analysis import compare as comparing
from harness.analysis import findings, pairings
from harness.analysis import gate as gates
from harness.analysis.findings import signed
from harness.analysis.pairings import ComparedRun
from harness.cli import options
from harness.cli.options import RESULTS, AsJson, ExitCode, Results, argument, option
from harness.cli.put import put_frame
from harness.errors import SpecError
from harness.lazy import DataFrame, pandas
from harness.present import screen
from harness.present.screen import p_value, say, warn
from harness.storage.environment import other_versions
from harness.storage.find_runs import find_run, find_runs, side_names
from harness.storage.frames import plain_rows, records
from harness.storage.runs import RunFile, RunFolder

MOST_SENTENCES = 6
"""So many differences are printed without --all."""


@dataclass(frozen=True, kw_only=True)
class Sides:
    """The two runs that are compared, and whose verdicts."""

    first: str = argument("A", options.A_RUN)
    second: str | None = argument(
        "B",
        "Second run, with the same samples; its task may differ. Default: compare parts of A.",
        None,
    )
    judge_a: str | None = option("Judge of A. Default: every judge that fits.")
    judge_b: str | None = option("Judge of B. Default: as for A.")
    missing: options.Missing = "apart"


def compare(sides: Sides, results: Results = RESULTS, is_json: AsJson = False) -> int:
    """Compare two runs of the same samples; write a table below results/comparisons/.

    The runs are of one task; or of two tasks, one answered by choices and one in words. For a
    single run, it compares the variants, and the intentions that a model wrote with its responses.

    \b
    Examples:
      harness compare 3f9a 81c2 --judge-a gold --judge-b minilm-cosine
      harness compare @promptA @promptB
    """
    named = [name for name in (sides.first, sides.second) if name is not None]
    matched, notes = _matched([find_runs(results, [name]) for name in named])
    if sides.judge_b is not None and not matched[0][1:]:
        raise SpecError("--judge-b names the judge of a second run, and there is one; leave it out")
    is_wrong = options.is_missing_wrong(sides.missing)
    judges, pairs, is_part = (sides.judge_a, sides.judge_b), list[pairings.Pairing](), bool(notes)
    files = list[RunFile]()
    for folders in matched:
        runs = [replace(ComparedRun.read(folder), is_wrong=is_wrong) for folder in folders]
        both = pairings.between(runs[0], runs[1], judges) if runs[1:] else None
        own, said, unmatched = both or pairings.within(runs[0], sides.judge_a)
        pairs, notes, is_part = [*pairs, *own], [*notes, *said], is_part or bool(unmatched)
        files += [run.file for run in runs]
    if is_wrong:
        pairs, left_out = pairings.of_known_least(pairs)
        notes += [*left_out, *findings.wrong_findings(pairs)]
    found = comparing.compare(pairs)
    name = comparing.comparison_name(files, (*judges, "wrong") if is_wrong else judges)
    if differ := other_versions(files[0].packages, files[-1].packages):
        words = "; ".join(f"{name} {old} in A, {new} in B" for name, old, new in differ)
        notes += [f"computed with other versions, which may be part of a difference: {words}"]
    lost = [] if is_wrong else findings.missing_findings(found)
    for note in dict.fromkeys([*notes, *lost]):
        warn(note)
    shown = found
    if matched[1:]:
        ends = zip(("model_a", "model_b"), named, strict=True)
        shown = findings.with_sides(found, [found[side] + f" {tag}" for side, tag in ends])
    elif matched[0][1:]:
        shown = findings.with_sides(found, side_names(matched[0]))
    show = partial(_put_findings, shown)
    put_frame(found, results / "comparisons" / name, show, is_json=is_json)
    return ExitCode.of(lost or is_part)


def _matched(found: Sequence[Sequence[RunFolder]]) -> tuple[list[list[RunFolder]], list[str]]:
    """One run, or pairs of two, and notes of those without a partner.

    Of several on a side each has the other side's run of its task and model.
    """
    each = list({one.path: one for side in found for one in side}.values())
    if len(each) > 2 and len(found) == 2:
        keys = [{one.place: one for one in side} for side in found]
        if [*map(len, keys)] == [*map(len, found)] and (both := keys[0].keys() & keys[1].keys()):
            alone = sorted(keys[0].keys() ^ keys[1].keys())
            notes = [f"only on one side, and not compared: {', '.join(alone)}"] if alone else []
            return [[key[place] for key in keys] for place in keys[0] if place in both], notes
    if not len(found) <= len(each) <= 2:
        where = "".join(f"\n  {folder.path}" for folder in each)
        fact = "compare takes one run, two, or two tags whose runs are of the same tasks and models"
        raise SpecError(f"{fact}, and these are:{where}")
    return [each], []


def _put_findings(found: DataFrame) -> None:
    """The main differences in words, averages over orders first; with --all every row, too."""
    main = comparing.main_differences(found)
    pooled = r"(?:^|:)all$"
    is_pool = main["variant_a"].str.contains(pooled) | main["variant_b"].str.contains(pooled)
    said = findings.comparison_findings(pandas.concat([main[is_pool], main[~is_pool]]))
    for finding in said if screen.PAGE.is_whole else said[:MOST_SENTENCES]:
        say(finding)
    say("")
    if screen.PAGE.is_whole:
        _put_rows(found)
    elif len(found) > (shown := min(len(said), MOST_SENTENCES)):
        say(f"--all prints {len(found) - shown} more rows, with counts and tests")


def _put_rows(rows: DataFrame) -> None:
    """A line a row, and what the correction covers; what all lines share is in the title."""
    names = ["task", "model", "judge", "decoding", "variant"]
    for name in names:
        one, other = rows[f"{name}_a"], rows[f"{name}_b"]
        rows = rows.assign(**{name: one.where(one == other, one + " / " + other)})
    names += ["comparison", "statistic", "group"]
    kept, words = screen.without_alike(rows, names)
    ends = zip(rows["low"], rows["high"], strict=True)
    kept["interval"] = [
        None if isnan(low) else f"{signed(low, 2)} to {signed(high, 2)}" for low, high in ends
    ]
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
        notes.append(f"p tests that a difference is 0; Holm corrects it for {of} differences")
    if rows["above_chance"].notna().any():
        notes.append("chance levels differ: Holm is of what is above chance")
    title = f"A / B: {words.removeprefix(', ')}"
    screen.show(shown, title, notes=notes, keys=len(keys), p=p_value, Holm=p_value)


CODES = {
    gates.Decision.PASS: ExitCode.DONE,
    gates.Decision.REGRESSION: ExitCode.REGRESSION,
    gates.Decision.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    gates.Decision.INCOMPLETE: ExitCode.DONE_WITH_MISSING,
}


@dataclass(frozen=True, kw_only=True)
class GateChoice:
    """Which runs are compared, and what is allowed."""

    base: str = argument("BASE", options.A_RUN)
    new: str = argument("NEW", "Run of the same task that must not be worse.")
    max_drop: float = option(
        "Drop that is allowed, in units of the metric: .02 is two points of an accuracy.", 0.05
    )
    max_missing: float = option("Share of missing verdicts that is allowed.", 0.01)
    judge: str | None = option("Judge. Default: all that have read both runs.")
    allow_inconclusive: bool = option("Exit with 0 where these items cannot decide.", False)


def gate(choice: GateChoice, results: Results = RESULTS, is_json: AsJson = False) -> int:
    """Say whether NEW has dropped against BASE, for continuous integration; no call is made.

    All variants together decide. Exit code 0: any greater drop is ruled out. 3: regression, a
    greater drop is shown. 1: incomplete, too much is missing. 4: inconclusive, these items
    cannot decide; how many would is printed.

    \b
    Example:
      harness compare --gate @released @last --max-drop .02
    """
    base, new = (find_run(results, name) for name in (choice.base, choice.new))
    if base.path.resolve() == new.path.resolve():
        raise SpecError(f"{base.path} is named twice; name the run that is to be tested")
    allowed = {"max_drop": choice.max_drop, "max_missing": choice.max_missing}
    found = gates.gate(base, new, **allowed, judge=choice.judge)
    for note in found.attrs["notes"]:
        warn(note)
    screen.show_json(found.attrs | {"rows": plain_rows(found)}, is_json)
    _put_gate(found)
    decision = found.attrs["decision"]
    is_allowed = choice.allow_inconclusive and decision is gates.Decision.INCONCLUSIVE
    return ExitCode.DONE if is_allowed else CODES[decision]


def _put_gate(found: DataFrame) -> None:
    rows, metrics = records(found), found["metric"].unique()
    say(f"{rows[0].task}, drop of {', '.join(metrics)} from BASE to NEW")
    for row in rows:
        said = f"{row.decision}: {row.reason}; " if row.decision else ""
        of = f", {row.metric}" if row.metric in gates.KINDS else ""
        say(f"{row.variant} by {row.judge}{of}: {said}{gates.gate_words(row)}")
        if row.groups:
            say(f"  most by group: {row.groups}")
    say(f"gate: {found.attrs['decision']}")
