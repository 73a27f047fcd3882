"""People's ratings: CSV files in long or wide form to ratings, and ratings to the long form.

The long form has one rating in each row: task, sample_id, model, rater, value, scale. A blank value
is a missing rating, never zero. Nothing here knows a run or computes anything.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from harness.errors import DataError
from harness.storage.csv import csv_text
from harness.storage.tables import TableRow, read_rows

COLUMNS = ("task", "sample_id", "model", "rater", "value", "scale")


@dataclass(frozen=True, slots=True)
class Rating:
    """One person's rating of one model's answer to one sample; the value is None if missing.

    `model` is empty where the sample itself is rated; `place` is the file and line, for errors.
    """

    task: str
    sample_id: str
    model: str
    rater: str
    value: float | None
    scale: str
    place: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Target:
    """The answer in a row of a rating sheet, by the names under which it is stored."""

    task: str
    sample_id: str
    model: str
    scale: str

    def rated(self, rater: str, value: float | None, place: str) -> Rating:
        """A rating of this answer."""
        return Rating(self.task, self.sample_id, self.model, rater, value, self.scale, place)


@dataclass(frozen=True, slots=True)
class Conversion:
    """How ratings in another form are read.

    `task` and `scale` are for rows without them; `keys` has the answer of each row of a blind
    sheet; `raters` maps columns to raters' names (empty: every column without another meaning);
    `words` maps words to numbers; `control` picks one question of several in Label Studio.
    """

    task: str = ""
    scale: str = ""
    keys: Mapping[str, Target] = field(default_factory=dict)
    raters: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, float] = field(default_factory=dict)
    control: str = ""


def read_ratings(path: Path) -> list[Rating]:
    """The ratings of a long-form CSV file."""
    return checked([_rating(row) for row in read_rows(path, COLUMNS)])


def checked(ratings: Sequence[Rating]) -> list[Rating]:
    """The ratings; raises DataError for one without task, sample or rater, or a repeated one."""
    seen: dict[tuple[str, ...], str] = {}
    for part in ratings:
        named = {"task": part.task, "sample_id": part.sample_id, "rater": part.rater}
        if blank := [name for name, value in named.items() if not value]:
            raise DataError(f"{part.place}: no {blank[0]}; fill it in, or remove the row")
        key = (part.task, part.rater, part.sample_id, part.model, part.scale)
        if key in seen:
            raise DataError(
                f"{part.place}: rater {part.rater!r} has rated sample {part.sample_id!r}, model "
                f"{part.model!r}, scale {part.scale!r} already at {seen[key]}; keep one of the two"
            )
        seen[key] = part.place
    return list(ratings)


def ratings_text(ratings: Iterable[Rating]) -> str:
    """Ratings as formula-safe CSV; `read_ratings` restores the texts."""
    rows = ((r.task, r.sample_id, r.model, r.rater, r.value, r.scale) for r in ratings)
    return csv_text(COLUMNS, rows)


def from_wide(path: Path, how: Conversion) -> list[Rating]:
    """The ratings of a table with a row for each answer and a column for each rater.

    Columns sample_id, model, task and scale name the answer; in a blind sheet the column `row`
    does, and raters are right of the column `answer`.
    """
    rows = read_rows(path, ["row"] if how.keys else ["sample_id"])
    columns = _rater_columns(rows[0], how)
    return checked([_wide(row, column, how=how) for row in rows for column in columns.items()])


def number(text: str, *, words: Mapping[str, float], place: str) -> float | None:
    """The number in a cell, or the number of the word in it; None for a blank cell."""
    text = text.strip()
    if not text:
        return None
    try:
        value = words[text] if text in words else float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise DataError(
            f"{place}: rating {text!r} is not a number; correct it, leave it blank if it is "
            "missing, or say what it stands for (--values 'yes=1,no=0')"
        )
    return value


def target(row_id: str, *, how: Conversion, place: str) -> Target:
    """The answer in a row of a blind sheet, by the key of the sheet."""
    if row_id not in how.keys:
        raise DataError(f"{place}: row {row_id!r} is not in the key; give the key of this sheet")
    answer = how.keys[row_id]
    return Target(answer.task, answer.sample_id, answer.model, how.scale or answer.scale)


def unguarded(cell: str) -> str:
    """The text of a formula-safe cell."""
    return re.sub(r"\A'(?=[=+\-@\t\r])", "", cell)


def _rating(row: TableRow) -> Rating:
    cells = {name: unguarded(row.cells[name]).strip() for name in COLUMNS}
    value = number(cells.pop("value"), words={}, place=row.place)
    return Rating(**cells, value=value, place=row.place)


def _wide(row: TableRow, column: tuple[str, str], *, how: Conversion) -> Rating:
    name, rater = column
    place = f"{row.place}, column {name!r}"
    cells = {key: unguarded(cell).strip() for key, cell in row.cells.items()}
    if how.keys:
        what = target(cells["row"], how=how, place=place)
    else:
        what = Target(
            task=cells.get("task") or how.task,
            sample_id=cells["sample_id"],
            model=cells.get("model", ""),
            scale=how.scale or cells.get("scale", ""),
        )
    return what.rated(rater, number(cells[name], words=how.words, place=place), place)


def _rater_columns(row: TableRow, how: Conversion) -> Mapping[str, str]:
    columns = list(row.cells)
    if absent := [name for name in how.raters if name not in columns]:
        raise DataError(
            f"{row.path}: no column {absent[0]!r} for a rater; columns: {', '.join(columns)}"
        )
    if how.raters:
        return how.raters
    if how.keys and "answer" in columns:
        columns = columns[columns.index("answer") + 1 :]
    named = ("row", "task", "sample_id", "model", "scale")
    raters = [name for name in columns if name not in named]
    if not raters:
        raise DataError(f"{row.path}: no column of a rater; add one, or name it with --raters")
    return {name: name for name in raters}
