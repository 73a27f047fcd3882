"""The commands for moderators: drift between two files or runs, and the card of a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from types import SimpleNamespace
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
from harness.lazy import DataFrame
from harness.pipeline.choice_scores import IMPLICITNESS
from harness.present.card import ModelCard, card_columns, card_markdown
from harness.present.screen import ProgressLine, cell, p_value, say, show_json, show_rows, warn
from harness.specs.data import NEGATIVE
from harness.storage.cells import finite
from harness.storage.files import write_whole
from harness.storage.find_runs import find_run, is_trial
from harness.storage.frames import frame_csv, plain_rows
from harness.storage.tables import Table, column_of
from harness.text.dedup import normal

FLAGS = {"1": 1.0, "yes": 1.0, "true": 1.0, "0": 0.0, "no": 0.0, "false": 0.0}
AS_NUMBERS = {"1.0": "1", "0.0": "0"}
"""What a column of 1 and 0 becomes in files of programs that have blank cells in floats alone."""


@dataclass(frozen=True, kw_only=True)
class DriftChoice:
    """Which two files or runs are compared, and by what."""

    old: str = argument("OLD", "Table of texts, or a run.")
    new: str = argument("NEW", "The same later: a table, or a run of the same task.")
    by: str | None = option("Columns by whose groups rates are compared, comma-separated.", None)
    column: str | None = option("Column of the texts of tables. Default: text.", None)
    flag: str | None = option(
        "Column of tables that says what was flagged: 1 or 0, yes or no, or the labels of --map.",
        None,
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
    are_files = [Path(name).is_file() for name in (choice.old, choice.new)]
    if any(are_files) != all(are_files):
        file, other = (choice.old, choice.new)[:: 1 if are_files[0] else -1]
        raise SpecError(
            f"drift: {file} is a file, and {other} is no file; name two files, or two runs"
        )
    if all(are_files):
        columns = _columns(choice, where)
        old, new = (
            _file_texts(name, columns, by, scorer, where) for name in (choice.old, choice.new)
        )
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
        _put(choice, rows)
    return ExitCode.of(choice.is_alarm and has_drift)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of tables that drift reads, and what the cells of the flags mean."""

    text: str | None
    flag: str | None
    measured: str | None
    meanings: Mapping[str, float | None]


def _columns(choice: DriftChoice, where: Where) -> _Columns:
    """As named; with --map, its texts, and its classes where its labels are the flags."""
    if choice.by and choice.flag is None:
        raise SpecError(
            "--by: splits rates by groups, and nothing says what was flagged in these tables; "
            "add --flag COLUMN"
        )
    columns = _Columns(choice.column, choice.flag, choice.measured, FLAGS)
    if where.table is None:
        return columns
    table = options.registry(where.home).load("configs/tables", where.table)
    columns = replace(columns, text=choice.column or table.text)
    if choice.flag != table.label.column or not table.label.classes:
        return columns
    of: dict[str, float | None] = {
        value: float(name != NEGATIVE) for name, own in table.label.classes.items() for value in own
    }
    of |= dict.fromkeys(table.label.left_out)
    return replace(columns, meanings={value.strip().casefold(): said for value, said in of.items()})


def _file_texts(
    name: str, chosen: _Columns, by: Sequence[str], scorer: str, where: Where
) -> DataFrame:
    has_column = any((chosen.text, chosen.flag, chosen.measured, by))
    table, source = read_input(name, None, has_column=has_column)
    texts = column_of(table, chosen.text, where=source)
    columns = {column: cells_of(table, column, "--by", source) for column in by}
    flagged = _flags(table, chosen, source)
    values = _values(table, texts, chosen.measured, scorer=scorer, where=where, source=source)
    from pandas import DataFrame

    words = [normal(text) if isinstance(text, str) else "" for text in texts]
    frame = DataFrame(
        {
            # A row without words is like no other.
            "cluster": [own or f"{source}:{at}" for at, own in enumerate(words)],
            "implicitness": [nan if value is None else value for value in values],
            "flagged": [nan if flag is None else flag for flag in flagged],
            "is_positive": nan,
        }
    )
    for name, cells in columns.items():
        frame[name] = [(cell,) if cell else () for cell in cells]
    return frame


def _flags(table: Table, columns: _Columns, source: str) -> list[float | None]:
    name, meanings = columns.flag, columns.meanings
    if name is None:
        return [None] * len(table)
    cells = [_known(cell).casefold() for cell in cells_of(table, name, "--flag", source)]
    cells = [cell if cell in meanings else AS_NUMBERS.get(cell, cell) for cell in cells]
    if unknown := [cell for cell in cells if cell and cell not in meanings]:
        raise DataError(
            f"{source}: column {name!r} holds {unknown[0]!r:.60}; write {', '.join(meanings)}, "
            "or leave a cell empty where nobody knows"
            + " (--map NAME takes the classes of a column map)"
            * (meanings is FLAGS)
        )
    return [meanings.get(cell) for cell in cells]


def _known(cell: str) -> str:
    """A cell, blank where it is a NaN, which is how columns of numbers in Parquet lack a value."""
    return "" if cell.strip().casefold() == "nan" else cell.strip()


def _values(
    table: Table,
    texts: Sequence[object],
    measured: str | None,
    *,
    scorer: str,
    where: Where,
    source: str,
) -> list[float | None]:
    if measured is None:
        opened = options.registry(where.home).scorer(scorer)
        return [one.value for one in opened.score(texts, ProgressLine("encoded"))]
    cells = [_known(own) for own in cells_of(table, measured, "--implicitness", source)]
    try:
        return [finite(own) for own in cells]
    except ValueError as error:
        raise DataError(f"{source}: column {measured!r} holds no number: {error}") from error


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


def _put(choice: DriftChoice, found: DataFrame) -> None:
    rows = [SimpleNamespace(**row) for row in plain_rows(found)]
    alarms = [row for row in rows if row.is_alarm]
    lines: list[tuple[str, ...]] = [
        (
            f"{row.column}: {row.group}" if row.column else row.what,
            row.what if row.column else "all",
            f"{cell(row.old)}, {row.n_old}",
            f"{cell(row.new)}, {row.n_new}",
            f"{cell(row.change)} ({cell((row.low, row.high))})"
            if row.low is not None
            else row.note,
            p_value(row.p),
            p_value(row.p_holm),
        )
        for row in rows
    ]
    head = ["of", "rate", "old, n", "new, n", "change (95% interval)", "p", "Holm"]
    title, rates = f"{Path(choice.new).name} less {Path(choice.old).name}", {r.what for r in rows}
    if rates <= {IMPLICITNESS, FLAGGED}:  # one rate needs no column of its own
        title += ": implicitness, and the share that is flagged" * (FLAGGED in rates)
        lines, head = [(one[0], *one[2:]) for one in lines], [head[0], *head[2:]]
    show_rows(title, head, lines)
    for row in rows:
        if row.distance is not None:
            say(
                f"implicitness: {row.n_old} and {row.n_new} texts; the distributions are "
                f"{row.distance:.3f} apart (Kolmogorov-Smirnov), to which p belongs"
            )
    count = max(row.tests for row in rows)
    tests = f"{count} test{'s' * (count != 1)}"
    if not count:
        say(
            "nothing was tested: too few texts of different words on a side (--least), or all alike"
        )
    elif alarms:
        said = ", ".join(f"{row.what} of {row.group}" for row in alarms)
        say(f"drift beyond chance in {len(alarms)} of {tests}: {said}")
    else:
        say(f"no drift beyond chance in {tests}")
    if choice.out is not None:
        say(f"wrote {len(rows)} rows to {choice.out}")


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
    """Write the card of a moderation model: what it was run on, its rates, kinds missed, limits.

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
    made = ModelCard(folder, file, query, table[0], rates(*table), gaps([table]))
    write_whole(choice.out, card_markdown(made).encode("utf-8", "replace"))
    say(f"wrote the card of {file.model.name} to {choice.out}")
    if is_trial(file):
        warn("the run is of the sample set: its card shows the form, and measures nothing")
    return ExitCode.DONE
