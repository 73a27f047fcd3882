"""The commands for moderators: drift between two files or runs, and the card of a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from harness.analysis import drift as drifting
from harness.analysis.error_table import read_rate_texts
from harness.analysis.rates import gaps, rates
from harness.cli import options
from harness.cli.options import AsJson, ExitCode, Only, Where, argument, option, output, switch
from harness.cli.rates import PointChoice
from harness.errors import DataError, SpecError
from harness.lazy import DataFrame
from harness.present.document import card_markdown
from harness.present.screen import ProgressLine, intervals, p_value, say, show, show_json, warn
from harness.storage.find_runs import find_run, is_trial
from harness.storage.frames import frame_csv, plain_rows
from harness.storage.tables import format_by_name, write_named


@dataclass(frozen=True, kw_only=True)
class DriftChoice:
    """Which two files or runs are compared, and by what."""

    old: str = argument("OLD", "Table of texts, or a run.")
    new: str = argument("NEW", "The same later: a table, or a run of the same task.")
    by: str | None = option("Columns by whose groups rates are compared, comma-separated.")
    column: str | None = option("Column of the texts of tables. Default: text.")
    flag: str | None = option("Column of tables: what was flagged, 1 or 0, yes or no.")
    measured: str | None = option(
        "Column of measured implicitness. Default: texts are scored.", flags="--implicitness"
    )
    least: options.Least = 10
    is_alarm: bool = switch("--alarm", "Exit code 1 if something has drifted.")
    out: Path | None = output("CSV file to write.", ".csv", default=None)


def drift(
    choice: DriftChoice,
    point: PointChoice,
    where: Annotated[Where, Only("data table results home")],
    scorer: options.ScorerName = options.SCORER,
    is_json: AsJson = False,
) -> int:
    """Test whether implicitness and rates have moved between two tables of texts, or two runs.

    Of tables the rate is the share that was flagged (--flag), of runs TPR and FPR. All tests are
    corrected together by Holm's method: without any drift one comparison in twenty raises an alarm.

    \b
    Examples:
      harness drift may.csv june.csv --flag removed --by topic
      harness drift 3f9a 81c2 --by target
    """
    by = options.names(choice.by, "--by")
    old, new = _sides(choice, point, by, where, scorer)
    rows = drifting.drift(old, new, by=by, seed=point.seed, least=choice.least)
    if rows.empty:
        raise DataError("drift: nothing to compare: no implicitness and no rate is on both sides")
    if choice.out is not None:
        write_named(choice.out, frame_csv(rows).encode())
    has_drift, is_tested = bool(rows["is_alarm"].any()), rows["tests"].iloc[0] > 0
    show_json({"drift": has_drift if is_tested else None, "rows": plain_rows(rows)}, is_json)
    _put(f"{Path(choice.new).name} - {Path(choice.old).name}", rows)
    if choice.out is not None:
        say(f"wrote {len(rows)} rows to {choice.out}")
    return ExitCode.of(choice.is_alarm and has_drift)


def _sides(
    choice: DriftChoice, point: PointChoice, by: tuple[str, ...], where: Where, scorer: str
) -> list[DataFrame]:
    """The texts of both tables, or of both runs."""
    sides = choice.old, choice.new
    if absent := [one for one in sides if format_by_name(one) and not Path(one).is_file()]:
        raise DataError(f"drift: no file {absent[0]}; name two tables that are there, or two runs")
    are_files = {Path(name).is_file() for name in sides}
    if len(are_files) > 1:
        other = next(name for name in sides if not Path(name).is_file())
        raise SpecError(f"drift: {other} is no file, the other is one; name two files, or two runs")

    def score(texts: Sequence[object]) -> list[float | None]:
        opened = options.registry(where.home).scorer(scorer)
        return [one.value for one in opened.score(texts, ProgressLine("encoded"))]

    if are_files == {True}:
        named = {"column": choice.column, "flag": choice.flag, "measured": choice.measured}
        return [drifting.file_texts(name, by, score, **named) for name in sides]
    folders = [find_run(where.results, name) for name in sides]
    query, space = point.query(where.results, by), where.workspace()
    tables = [read_rate_texts(space, one, query, where.table) for one in folders]
    return drifting.run_texts(folders, tables, by)


def _put(title: str, rows: DataFrame) -> None:
    alarms, count = rows[rows["is_alarm"]], int(rows["tests"].max())
    group = rows["column"] + ": " + rows["group"]
    of_group = group.where(rows["what"] == drifting.FLAGGED, group + ", " + rows["what"])
    ends = [note or ends for note, ends in zip(rows["note"], intervals(rows), strict=True)]
    shown = rows[["old", "n_old", "new", "n_new", "change"]].assign(interval=ends, p=rows["p"])
    shown.insert(0, "of", rows["what"].where(rows["column"] == "", of_group))
    show(shown.assign(Holm=rows["p_holm"]), title, p=p_value, Holm=p_value)
    for distance in rows["distance"].dropna():
        say(f"p of implicitness is from a Kolmogorov-Smirnov test (D = {distance:.3f})")
    tests = f"{count} test{'s' * (count != 1)}"
    if not count:
        say("nothing was tested: too few texts of different words (--least), or all alike")
    elif alarms.empty:
        say(f"no drift beyond chance in {tests}")
    else:
        said = ", ".join(f"{row.what} of {row.group}" for row in alarms.itertuples())
        say(f"drift beyond chance in {len(alarms)} of {tests}: {said}")


def card(
    run: options.RunName,
    *,
    by: str | None = option(
        "Columns to split rates by, comma-separated. Default: all texts together."
    ),
    out: Path = output("Markdown file to write.", ".md"),
    point: PointChoice,
    where: Annotated[Where, Only("data table results home")],
) -> None:
    """Write the card of a moderation model: what it was run on, its rates, limits.

    Rates have intervals over originals; gaps between groups are corrected together by Holm's
    method. The card holds none of the texts.
    """
    folder = find_run(where.results, run)
    file = folder.read()
    query = point.query(where.results, options.names(by, "--by"))
    table = read_rate_texts(where.workspace(), folder, query, where.table)
    made = card_markdown(folder, query, table[0], rates(*table), gaps([table]))
    write_named(out, made.encode("utf-8", "replace"))
    say(f"wrote the card of {file.model.name} to {out}")
    if is_trial(file):
        warn("the run is of the sample set: its card shows the form, and measures nothing")
