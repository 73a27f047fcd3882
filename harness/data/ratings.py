"""People's ratings in long form, one rating a row: read, checked, written, and what converts to it.

Columns: task, sample_id, model, rater, value, scale. A blank value is a rating that is missing,
never a zero; the scale says what was rated. Nothing here knows runs or computes anything.
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
    """One person's rating of one model's answer to one sample; value null where it is missing.

    `model` is empty where the sample itself says what was rated; `place` is where it stands.
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
    """What a row of a rating sheet shows: one answer, by the names under which it is stored."""

    task: str
    sample_id: str
    model: str
    scale: str


@dataclass(frozen=True, slots=True)
class Conversion:
    """How ratings in another form are read.

    `task` and `scale` stand where a row has none, `keys` restores the rows of a blind sheet,
    `raters` maps columns to raters' names (none: every column that is not named otherwise),
    `words` gives words their numbers, `control` picks one question of several.
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
    """The ratings, refused where one has no task, sample or rater, or is given twice."""
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
    """Ratings as CSV, formula-safe; reading takes the guard off again."""
    rows = ((r.task, r.sample_id, r.model, r.rater, r.value, r.scale) for r in ratings)
    return csv_text(COLUMNS, rows)


def from_wide(path: Path, how: Conversion) -> list[Rating]:
    """The ratings of a table with one row an item and one column a rater.

    Items are named by sample_id, model, task and scale, or by `row`, the id in a blind sheet,
    whose raters stand right of its column `answer`.
    """
    rows = read_rows(path, ["row"] if how.keys else ["sample_id"])
    columns = _rater_columns(rows[0], how)
    return checked([_wide(row, column, how=how) for row in rows for column in columns.items()])


def number(text: str, *, words: Mapping[str, float], place: str) -> float | None:
    """The number a cell holds, or stands for; null where it is blank."""
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
    """What a row of a blind sheet shows."""
    if row_id not in how.keys:
        raise DataError(f"{place}: row {row_id!r} is not in the key; give the key of this sheet")
    found = how.keys[row_id]
    return Target(found.task, found.sample_id, found.model, how.scale or found.scale)


def unguarded(cell: str) -> str:
    """A cell as it was before it was made formula-safe."""
    return re.sub(r"\A'(?=[=+\-@\t\r])", "", cell)


def _rating(row: TableRow) -> Rating:
    cells = {name: unguarded(row.cells[name]).strip() for name in COLUMNS}
    return Rating(
        task=cells["task"],
        sample_id=cells["sample_id"],
        model=cells["model"],
        rater=cells["rater"],
        value=number(cells["value"], words={}, place=row.place),
        scale=cells["scale"],
        place=row.place,
    )


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
    value = number(cells[name], words=how.words, place=place)
    return Rating(what.task, what.sample_id, what.model, rater, value, what.scale, place)


def _rater_columns(row: TableRow, how: Conversion) -> Mapping[str, str]:
    """The columns that hold ratings, with the rater each is of."""
    there = list(row.cells)
    if absent := [name for name in how.raters if name not in there]:
        raise DataError(
            f"{row.path}: no column {absent[0]!r} for a rater; columns: {', '.join(there)}"
        )
    if how.raters:
        return how.raters
    if how.keys and "answer" in there:
        there = there[there.index("answer") + 1 :]
    found = [name for name in there if name not in ("row", "task", "sample_id", "model", "scale")]
    if not found:
        raise DataError(f"{row.path}: no column of a rater; add one, or name it with --raters")
    return {name: name for name in found}
