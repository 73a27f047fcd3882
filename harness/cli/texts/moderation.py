"""The commands for moderators: drift between two files or runs, and the card of a model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from typing import Annotated

from harness.analysis.drift import FLAGGED, run_texts
from harness.analysis.drift import drift as drift_of
from harness.analysis.error_table import joined_query
from harness.analysis.flags import flags, sample_cells
from harness.analysis.rates import gaps, rates
from harness.cli import options
from harness.cli.impscore import read_input
from harness.cli.options import SCORER, AsJson, ExitCode, Only, ScorerName, Where, argument, option
from harness.cli.rates import PointChoice
from harness.cli.texts.tables import cells_of
from harness.errors import DataError, SpecError
from harness.lazy import DataFrame, pandas
from harness.pipeline.choice_scores import IMPLICITNESS
from harness.present.card import card_columns, card_markdown
from harness.present.screen import ProgressLine, cell, p_value, say, show, show_json, warn
from harness.storage.cells import finite
from harness.storage.files import write_whole
from harness.storage.find_runs import find_run, is_trial
from harness.storage.frames import frame_csv, plain_rows
from harness.storage.tables import column_of
from harness.text.dedup import normal

FLAGS = {"1": 1.0, "yes": 1.0, "true": 1.0, "0": 0.0, "no": 0.0, "false": 0.0}


@dataclass(frozen=True, kw_only=True)
class DriftChoice:
    """Which two files or runs are compared, and by what."""

    old: str = argument("OLD", "Table of texts, or a run.")
    new: str = argument("NEW", "The same later: a table, or a run of the same task.")
    by: str | None = option("Columns by whose groups rates are compared, comma-separated.", None)
    column: str | None = option("Column of the texts of tables. Default: text.", None)
    flag: str | None = option(
        "Column of tables that says what was flagged: 1 or 0, yes or no.", None
    )
    measured: str | None = option(
        "Column of tables with measured implicitness. Default: the texts are scored.",
        None,
        flags="--implicitness",
    )
    least: int = option("Texts of different words that a rate needs on each side.", 10, min=3)
    is_alarm: bool = option(
        "End with exit code 1 where something has drifted.", False, flags="--alarm"
    )
    out: Path | None = option("CSV file to write.", None, flags="-o --out")


def drift(
    choice: DriftChoice,
    point: PointChoice,
    where: Annotated[Where, Only("data table results home")],
    scorer: ScorerName = SCORER,
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
    by = options.names(choice.by, "--by") if choice.by else ()
    sides = (choice.old, choice.new)
    are_files = [Path(name).is_file() for name in sides]
    if any(are_files) != all(are_files):
        file, other = sides[:: 1 if are_files[0] else -1]
        raise SpecError(
            f"drift: {file} is a file, and {other} is no file; name two files, or two runs"
        )
    if all(are_files):
        old, new = (_file_texts(name, choice, by, scorer, where) for name in sides)
    else:
        old, new = _run_texts(choice, point, by, where)
    rows = drift_of(old, new, by=by, seed=point.seed, least=choice.least)
    if rows.empty:
        raise DataError("drift: nothing to compare: no implicitness and no rate is on both sides")
    if choice.out is not None:
        write_whole(choice.out, frame_csv(rows).encode())
    has_drift, is_tested = bool(rows["is_alarm"].any()), rows["tests"].iloc[0] > 0
    if is_json:
        show_json({"drift": has_drift if is_tested else None, "rows": plain_rows(rows)})
    else:
        _put(f"{Path(choice.new).name} less {Path(choice.old).name}", rows)
        if choice.out is not None:
            say(f"wrote {len(rows)} rows to {choice.out}")
    return ExitCode.of(choice.is_alarm and has_drift)


def _file_texts(
    name: str, choice: DriftChoice, by: Sequence[str], scorer: str, where: Where
) -> DataFrame:
    """The texts of a table, as `drift` takes them; a row without words is like no other."""
    if by and choice.flag is None:
        raise SpecError(
            "--by: splits rates by groups, and nothing says what was flagged in these tables; "
            "add --flag COLUMN"
        )
    has_column = any((choice.column, choice.flag, choice.measured, by))
    table, source = read_input(name, None, has_column=has_column)
    texts = column_of(table, choice.column, where=source)
    words = [normal(text) if isinstance(text, str) else "" for text in texts]
    cells = {
        column: [cell.strip() for cell in cells_of(table, column, option, source)]
        for column, option in ((choice.flag, "--flag"), (choice.measured, "--implicitness"))
        if column is not None
    }
    if choice.measured is None:
        opened = options.registry(where.home).scorer(scorer)
        values = [one.value for one in opened.score(texts, ProgressLine("encoded"))]
    else:
        values = [_number(cell, choice.measured, source) for cell in cells[choice.measured]]
    frame = pandas.DataFrame(
        {
            "cluster": [own or f"{source}:{at}" for at, own in enumerate(words)],
            "implicitness": values,
            "flagged": [_flag(cell, str(choice.flag), source) for cell in cells[choice.flag]]
            if choice.flag
            else nan,
            "is_positive": nan,
        }
    ).astype({"implicitness": float, "flagged": float})
    for column in by:
        of = cells_of(table, column, "--by", source)
        frame[column] = [(cell,) if cell else () for cell in of]
    return frame


def _number(cell: str, column: str, source: str) -> float | None:
    """The number in a cell; None in a blank one, and in the NaN of a column of floats."""
    try:
        return None if cell.casefold() in ("", "nan") else finite(cell)
    except ValueError as error:
        raise DataError(f"{source}: column {column!r} holds no number: {error}") from error


def _flag(cell: str, column: str, source: str) -> float | None:
    """1 where a cell says flagged; blank cells in a column of 1 and 0 make it one of floats."""
    word = cell.casefold().removesuffix(".0")
    if word not in FLAGS and word not in ("", "nan"):
        raise DataError(
            f"{source}: column {column!r} holds {cell!r:.60}; write {', '.join(FLAGS)}, or leave a "
            "cell empty where nobody knows"
        )
    return FLAGS.get(word)


def _run_texts(
    choice: DriftChoice, point: PointChoice, by: Sequence[str], where: Where
) -> list[DataFrame]:
    """The texts of two runs under the one variant and decoding that both have."""
    folders = [find_run(where.results, name) for name in (choice.old, choice.new)]
    first, second = (folder.read().run for folder in folders)
    if first.task != second.task:
        raise SpecError(f"drift: runs of {first.task} and {second.task}; name one task's")
    scales = {run.data.partition("+")[2] for run in (first, second)}
    if len(scales) > 1:
        raise SpecError(
            f"drift: implicitness by {' and '.join(sorted(scales))} is not on one scale; run again "
            "with one --scorer"
        )
    sides, known = [], set[str]()
    for folder in folders:
        query = replace(point.query(where.results), by=tuple(by))
        query = joined_query(where.workspace(), folder, query, where.table)
        cells = sample_cells(folder, query.columns)
        parts = flags(folder, query).groupby(["variant", "decoding"], sort=False)
        sides.append({place: run_texts(own, cells) for place, own in parts})
        known |= {*cells}
    shared = [place for place in sides[0] if place in sides[1]]
    if len(shared) != 1:
        said = ", ".join(f"{variant} ({decoding})" for variant, decoding in shared) or "none"
        raise SpecError(f"drift: the runs share {said}; choose one by --variant")
    if unknown := [name for name in by if name not in known]:
        raise SpecError(f"--by {unknown[0]}: these runs keep {', '.join(sorted(known))}")
    found = [side[shared[0]] for side in sides]
    return [one.reindex(columns=[*one.columns, *(n for n in by if n not in one)]) for one in found]


def _put(title: str, rows: DataFrame) -> None:
    what, is_split = rows["what"], rows["column"] != ""
    spans = [
        row["note"]
        if row["low"] is None
        else f"{cell(row['change'])} ({cell((row['low'], row['high']))})"
        for row in plain_rows(rows)
    ]
    shown = pandas.DataFrame(
        {
            "of": (rows["column"] + ": " + rows["group"]).where(is_split, what),
            "rate": what.where(is_split, "all"),
            **{
                f"{s}, n": rows[s].map(cell) + ", " + rows[f"n_{s}"].map(str)
                for s in ("old", "new")
            },
            "change (95% interval)": spans,
            "p": rows["p"],
            "Holm": rows["p_holm"],
        }
    )
    if set(what) <= {IMPLICITNESS, FLAGGED}:  # one rate needs no column of its own
        title += ": implicitness, and the share that is flagged" * (FLAGGED in set(what))
        del shown["rate"]
    show(shown, title, p=p_value, Holm=p_value)
    for row in rows[rows["distance"].notna()].itertuples():
        say(
            f"implicitness: {row.n_old} and {row.n_new} texts; the distributions are "
            f"{row.distance:.3f} apart (Kolmogorov-Smirnov), to which p belongs"
        )
    alarms, count = rows[rows["is_alarm"]], int(rows["tests"].max())
    tests = f"{count} test{'s' * (count != 1)}"
    if not count:
        say(
            "nothing was tested: too few texts of different words on a side (--least), or all alike"
        )
    elif len(alarms):
        said = ", ".join(f"{row.what} of {row.group}" for row in alarms.itertuples())
        say(f"drift beyond chance in {len(alarms)} of {tests}: {said}")
    else:
        say(f"no drift beyond chance in {tests}")


@dataclass(frozen=True, kw_only=True)
class CardChoice:
    """The run of a card, the columns of its rates, and where it goes."""

    run: options.RunName
    by: str | None = option(
        "Columns to split rates by, comma-separated. Default: all that the run keeps, of 2 to 20 "
        "values.",
        None,
    )
    out: Path = option("Markdown file to write.", flags="-o --out")


def card(
    choice: CardChoice,
    point: PointChoice,
    where: Annotated[Where, Only("data table results home")],
) -> int:
    """Write the card of a moderation model: what it was run on, its rates, limits.

    Rates have intervals over originals; gaps between groups are corrected together by Holm's
    method. The card holds none of the texts.

    \b
    Example:
      harness rates --card 3f9a --by target -o card.md
    """
    folder = find_run(where.results, choice.run)
    file = folder.read()
    by = options.names(choice.by, "--by") if choice.by else card_columns(folder)
    query = replace(point.query(where.results), by=by)
    query = joined_query(where.workspace(), folder, query, where.table)
    table = (flags(folder, query), query, sample_cells(folder, query.columns))
    made = card_markdown(folder, query, table[0], rates(*table), gaps([table]))
    write_whole(choice.out, made.encode("utf-8", "replace"))
    say(f"wrote the card of {file.model.name} to {choice.out}")
    if is_trial(file):
        warn("the run is of the sample set: its card shows the form, and measures nothing")
    return ExitCode.DONE
