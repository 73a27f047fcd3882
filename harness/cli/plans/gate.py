"""The command gate: whether a run has dropped against another, with exit codes of its own."""

from dataclasses import dataclass
from pathlib import Path

from harness.analysis.gates.gate import LEVEL, SAME, Decision
from harness.analysis.gates.gate import gate as decide
from harness.analysis.gates.junit import gate_words, junit_text
from harness.cli import options
from harness.cli.options import RESULTS, AsJson, ExitCode, Results, argument, option
from harness.errors import SpecError
from harness.lazy import DataFrame
from harness.present.screen import say, show_json, show_records, warn
from harness.storage.files import refuse_source, write_whole
from harness.storage.find_runs import find_run
from harness.storage.frames import plain_rows, records

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
