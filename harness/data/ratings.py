"""People's ratings: CSV and XLSX files to frames of ratings, and these to CSV.

The long form has a rating in each row; `model` is empty where the sample itself is rated. A blank
value is a missing rating, never zero.
"""

import re
from collections.abc import Iterable, Mapping
from math import isfinite
from pathlib import Path

from harness.errors import DataError, did_you_mean
from harness.lazy import DataFrame, pandas
from harness.storage.cells import formula_text
from harness.storage.frames import frame_csv
from harness.storage.tables import TableRow, read_spreadsheet

ROW, RATING, RATER, ANNOTATOR, MARKS = "row", "rating", "rater", "annotator", "marks"
MEAN = "mean"  # the rater of ratings that were released as means over raters
COLUMNS = ("task", "sample_id", "model", "rater", "value", "scale")
RUN = "run"
RATED = (*COLUMNS, RUN, "place")
"""The columns of a frame of ratings; `place` is the file and line of each, for errors.

`run` begins the digest of the run whose answer was rated; it is empty where nobody knows.
"""
KEY_COLUMNS = ("row", "task", "sample_id", "model", "variant", "decoding", "scale", RUN, MARKS)
"""The key of a sheet: the answers in each row, and the marks of its scale, as yes=1 no=0."""
SMALLEST, LARGEST = 1e-9, 1e9
"""The size of a rating that is not 0: squares of others overflow, or vanish."""


def read_ratings(path: Path) -> DataFrame:
    """The ratings of a file in long form: the columns of RATED."""
    found, lines = read_spreadsheet(path, COLUMNS), []
    for row in found:
        cells = {RUN: "", **plain_cells(row)}
        text = _with_point(cells["value"])
        lines.append({**cells, "value": number(text, place=row.place), "place": row.place})
    return checked(pandas.DataFrame(lines, columns=list(RATED)))


def read_rated(
    path: Path, key: DataFrame | None = None, *, task: str = "", raters: Mapping[str, str] = {}
) -> DataFrame:
    """The ratings of a table with a row for each answer and a column for each rater.

    Columns sample_id, model, task and scale name the answer; with the key of a blind sheet the
    column `row` does. A column `rating` is of whom a column `rater` or `annotator` names, or the
    file. `raters` maps columns to names; without it every other column is a rater's.
    """
    found = read_spreadsheet(path, ["sample_id"] if key is None else [ROW])
    columns = _rater_columns(found[0], key is not None, raters) if found else {}
    marks = {} if key is None else _marks(key)
    lines = []
    for row in found:
        cells = {"model": "", "scale": "", RUN: "", **plain_cells(row)}
        cells["task"] = cells.get("task") or task
        who = next((name for name in (RATER, ANNOTATOR) if name in cells), None)
        for name, rater in columns.items():
            place = f"{row.place}, column {name!r}"
            text = _with_point(cells[name])
            by = cells[who] if who and name == RATING else rater
            value = number(text, place=place, marks=marks)
            lines.append({**cells, "rater": by, "value": value, "place": place})
    ratings = pandas.DataFrame(lines, columns=[ROW, *RATED])
    if key is not None:
        unknown = ratings[~ratings[ROW].isin(key[ROW])]
        for one in unknown.itertuples():
            raise DataError(f"{one.place}: row {one.row!r} is not in the key of this sheet")
        ratings = ratings[[ROW, "rater", "value", "place"]].merge(key, "left", on=ROW)
    return checked(ratings[list(RATED)])


def read_key(path: Path) -> DataFrame:
    """The key of a sheet: the columns of KEY_COLUMNS, a row for each stored answer."""
    found = read_spreadsheet(path, [name for name in KEY_COLUMNS if name != RUN])
    rows = [{RUN: "", **plain_cells(row)} for row in found]
    return pandas.DataFrame(rows, columns=list(KEY_COLUMNS))


def filled_in(ratings: DataFrame, files: Iterable[Path]) -> DataFrame:
    """The ratings as `checked` has them; DataError where none has a value."""
    if (found := checked(ratings)).value.isna().all():
        raise DataError(f"{', '.join(map(str, files))}: no rating is filled in; nothing written")
    return found


def checked(ratings: DataFrame) -> DataFrame:
    """The ratings; DataError for one without task, sample or rater, or a repeated one."""
    for name in ("task", "sample_id", "rater"):
        for one in ratings[ratings[name] == ""].itertuples():
            raise DataError(f"{one.place}: no {name}; fill it in, or remove the row")
    keys = ["task", "rater", "sample_id", "model", "scale", RUN]
    for _, one in ratings[ratings.duplicated(keys)].iterrows():
        first = ratings[(ratings[keys] == one[keys]).all(axis=1)].iloc[0]
        raise DataError(
            f"{one.place}: rater {one.rater!r} has rated sample {one.sample_id!r}, model "
            f"{one.model!r}, scale {one.scale!r} already at {first.place}; keep one of the two"
        )
    return ratings.astype({"value": "float64"}).reset_index(drop=True)


def ratings_text(ratings: DataFrame) -> str:
    """Ratings as formula-safe CSV; `read_ratings` restores the texts."""
    more = [RUN] if RUN in ratings and ratings[RUN].any() else []
    return frame_csv(ratings[[*COLUMNS, *more]])


def named_ratings(ratings: DataFrame, known: Mapping[str, list[str]]) -> list[str]:
    """The first three of some ratings by file and line; with a name near the one not known."""
    lines = []
    for one in ratings[:3].itertuples():
        given = {"sample_id": one.sample_id, "model": one.model}
        odd = [name for name in known if given[name] not in known[name] and any(known[name])]
        hint = did_you_mean(given[odd[0]], known[odd[0]]) if odd else ""
        hint = hint.partition("known: ")[0].rstrip("; ")  # ids may be many, and long
        lines.append(f"{one.place}: sample {one.sample_id!r}, model {one.model or '-'}{hint}")
    return lines


def number(text: str, *, place: str, marks: Mapping[str, float] | None = None) -> float | None:
    """The number in a cell, or of the mark in it; None for a blank cell."""
    if not (text := text.strip()):
        return None
    known = {word.casefold(): value for word, value in (marks or {}).items()}
    try:
        value = known[text.casefold()] if text.casefold() in known else float(text)
    except ValueError:
        value = float("nan")
    if marks and value not in marks.values():
        fact = f"{place}: rating {text!r} is none of {', '.join(marks)}"
        raise DataError(f"{fact}; correct it, or leave it blank if it is missing")
    if not (isfinite(value) and (value == 0 or SMALLEST <= abs(value) <= LARGEST)):
        raise DataError(
            f"{place}: rating {text[:40]!r} is not a number (0, or of {SMALLEST:g} to "
            f"{LARGEST:g}); correct it, or leave it blank if it is missing"
        )
    return value


def plain_cells(row: TableRow) -> dict[str, str]:
    """The texts of a row whose cells are formula-safe, by column."""
    return {name: formula_text(cell).strip() for name, cell in row.cells.items()}


def _with_point(text: str) -> str:
    """A number with a decimal comma, as of much of Europe, with a point."""
    return re.sub(r"\A\s*(-?\d+),(\d+)\s*\Z", r"\1.\2", text)


def _marks(key: DataFrame) -> dict[str, float]:
    """What raters may write, and the number that it counts as."""
    pairs = (mark.rpartition("=") for text in key[MARKS].unique() for mark in text.split())
    return {word: float(value) for word, _, value in pairs}


def _rater_columns(row: TableRow, is_sheet: bool, raters: Mapping[str, str]) -> Mapping[str, str]:
    columns = list(row.cells)
    if absent := [name for name in raters if name not in columns]:
        fact = f"{row.path}: no column {absent[0]!r} for a rater"
        raise DataError(f"{fact}; columns: {', '.join(columns)}")
    if raters:
        return raters
    if RATING in columns and {RATER, ANNOTATOR} & set(columns):  # as Label Studio exports CSV
        return {RATING: RATING}
    if is_sheet and "answer" in columns:
        columns = columns[columns.index("answer") + 1 :]
    found = [name for name in columns if name not in (*KEY_COLUMNS, RATER)]
    if not found:
        raise DataError(f"{row.path}: no column of a rater; add one, or name it with --raters")
    return {name: row.path.stem if is_sheet and name == RATING else name for name in found}
