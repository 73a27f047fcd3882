"""People's ratings: CSV files or Label Studio's exports to ratings, and ratings to a CSV file.

The long form has one rating in each row: task, sample_id, model, rater, value, scale. A blank value
is a missing rating, never zero. For Label Studio, JSON and XML escape every text of a sample or
model, so none becomes markup. Nothing here knows a run or computes anything.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from xml.sax.saxutils import quoteattr

import msgspec

from harness.errors import DataError
from harness.storage.cells import csv_text, decode_json
from harness.storage.spreadsheets import read_spreadsheet
from harness.storage.tables import TableRow, read_text

RATING, RATER = "rating", "rater"
COLUMNS = ("task", "sample_id", "model", "rater", "value", "scale")

SMALLEST, LARGEST = 1e-9, 1e9
"""The size of a rating that is not 0: squares of others overflow, or vanish."""


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
class SheetKey:
    """The answers in each row of a blind sheet, and the marks of its scale, which may be unknown.

    A mark is what raters write, such as yes or 4, and the number that it counts as.
    """

    targets: Mapping[str, tuple[Target, ...]] = field(default_factory=dict)
    marks: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Conversion:
    """How ratings in another form are read.

    `task` and `scale` are for rows without them; `key` is that of a blind sheet, whose marks bound
    the ratings; `raters` maps columns to raters' names (empty: every column without another
    meaning); `words` maps words to numbers; `control` picks one question of several in Label
    Studio.
    """

    task: str = ""
    scale: str = ""
    key: SheetKey = field(default_factory=SheetKey)
    raters: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, float] = field(default_factory=dict)
    control: str = ""


def read_ratings(path: Path) -> list[Rating]:
    """The ratings of a file in long form: CSV, or XLSX."""
    ratings, found = [], read_spreadsheet(path, COLUMNS)
    for row in found.rows:
        cells = {name: unguarded(row.cells[name]).strip() for name in COLUMNS}
        text = _with_point(cells.pop("value"), found.has_decimal_commas)
        value = number(text, place=row.place)
        ratings.append(Rating(**cells, value=value, place=row.place))
    return checked(ratings)


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

    Columns sample_id, model, task and scale name the answer. In a blind sheet the column `row`
    does, and raters are right of the column `answer`; one still called `rating` is of whom the
    column `rater` names, or the file.
    """
    found = read_spreadsheet(path, ["row"] if how.key.targets else ["sample_id"])
    columns = _rater_columns(found.rows[0], how) if found.rows else {}
    ratings = []
    for row in found.rows:
        cells = {name: unguarded(cell).strip() for name, cell in row.cells.items()}
        for name, rater in columns.items():
            place = f"{row.place}, column {name!r}"
            text = _with_point(cells[name], found.has_decimal_commas)
            value = number(text, place=place, words=how.words, marks=how.key.marks)
            by = cells.get(RATER, "") if name == RATING and RATER in cells else rater
            targets = _targets(cells, how=how, place=place)
            ratings += [target.rated(by, value, place) for target in targets]
    return checked(ratings)


def number(
    text: str,
    *,
    place: str,
    words: Mapping[str, float] | None = None,
    marks: Mapping[str, float] | None = None,
) -> float | None:
    """The number in a cell, or of the word or mark in it; None for a blank cell.

    With marks, a number is that of one of them.
    """
    if not (text := text.strip()):
        return None
    known = {word.casefold(): value for word, value in (marks or {}).items()}
    try:
        if words and text in words:
            return words[text]
        value = known[text.casefold()] if text.casefold() in known else float(text)
    except ValueError:
        value = float("nan")
    if marks and value not in marks.values():
        raise DataError(
            f"{place}: rating {text!r} is none of {', '.join(marks)}; correct it, or leave it "
            "blank if it is missing"
        )
    is_rating = isfinite(value) and (value == 0 or SMALLEST <= abs(value) <= LARGEST)
    if not is_rating:
        why = f"is not a number (0, or of {SMALLEST:g} to {LARGEST:g})"
        raise DataError(
            f"{place}: rating {text[:40]!r} {why}; correct it, leave it blank if "
            "it is missing, or say what it stands for (--values 'yes=1,no=0')"
        )
    return value


def _with_point(text: str, has_decimal_commas: bool) -> str:
    return re.sub(r"\A\s*(-?\d+),(\d+)\s*\Z", r"\1.\2", text) if has_decimal_commas else text


def _targets(
    cells: Mapping[str, str], *, how: Conversion, place: str, control: str = ""
) -> tuple[Target, ...]:
    """The answers that a row or task names; those of a blind sheet are in the key of the sheet."""
    if known := how.key.targets:
        if (row := cells.get("row", "")) not in known:
            raise DataError(f"{place}: row {row!r} is not in the key; give the key of this sheet")
        return tuple(replace(one, scale=how.scale or one.scale) for one in known[row])
    one = Target(
        task=cells.get("task") or how.task,
        sample_id=cells.get("sample_id", ""),
        model=cells.get("model", ""),
        scale=how.scale or cells.get("scale") or control,
    )
    return (one,)


def unguarded(cell: str) -> str:
    """The text of a formula-safe cell."""
    return re.sub(r"\A'(?=[=+\-@\t\r])", "", cell)


def _rater_columns(row: TableRow, how: Conversion) -> Mapping[str, str]:
    columns = list(row.cells)
    if absent := [name for name in how.raters if name not in columns]:
        raise DataError(
            f"{row.path}: no column {absent[0]!r} for a rater; columns: {', '.join(columns)}"
        )
    if how.raters:
        return how.raters
    if how.key.targets and "answer" in columns:
        columns = columns[columns.index("answer") + 1 :]
    named = ("row", "task", "sample_id", "model", "scale", RATER)
    raters = [name for name in columns if name not in named]
    if not raters:
        raise DataError(f"{row.path}: no column of a rater; add one, or name it with --raters")
    by_file = {RATING: row.path.stem} if how.key.targets else {}
    return {name: by_file.get(name, name) for name in raters}


_KINDS = ("rating", "number", "choices")


class _Result(msgspec.Struct):
    type: str
    value: dict[str, object]
    from_name: str = ""


class _Annotation(msgspec.Struct):
    completed_by: object = None
    result: list[_Result] = []
    was_cancelled: bool = False


class _Task(msgspec.Struct):
    data: dict[str, object]
    annotations: list[_Annotation]
    id: object = None


def from_label_studio(path: Path, how: Conversion) -> list[Rating]:
    """The ratings of an export in Label Studio's JSON format; skipped tasks are left out."""
    try:
        tasks = decode_json(read_text(path), list[_Task])
    except msgspec.DecodeError as error:
        raise DataError(
            f"{path}: not an export of Label Studio in its JSON format: {error}; choose JSON, not "
            "JSON_MIN, when exporting"
        ) from error
    ratings: list[Rating] = []
    for at, task in enumerate(tasks, 1):
        ratings += _ratings(f"{path}, task {task.id or at}", task, how)
    if not ratings:
        raise DataError(f"{path}: no ratings in its {len(tasks)} tasks; export annotated tasks")
    return checked(ratings)


def tasks_text(rows: Sequence[Mapping[str, str]]) -> bytes:
    """Rows of a sheet as tasks to import, with every markup character escaped."""
    text = msgspec.json.format(msgspec.json.encode([{"data": row} for row in rows]), indent=1)
    for mark in (b"<", b">", b"&"):
        text = text.replace(mark, b"\\u%04x" % ord(mark))
    return text + b"\n"


def config_text(fields: Sequence[str], *, answer: str, marks: Mapping[str, str]) -> str:
    """The labelling config: the fields, the answer, and a choice for each mark, with its meaning.

    A meaning may be empty.
    """
    shown = [*fields, answer]
    parts = [
        f"  <Header value={quoteattr(name)}/>\n"
        f'  <Text name="text{place}" value={quoteattr("$" + name)}/>\n'
        for place, name in enumerate(shown, 1)
    ]
    parts += [
        f'  <Header size="6" value={quoteattr(f"{mark}: {meaning}")}/>\n'
        for mark, meaning in marks.items()
        if meaning
    ]
    choices = "".join(f"    <Choice value={quoteattr(mark)}/>\n" for mark in marks)
    rated = f'  <Choices name="rating" toName="text{len(shown)}" choice="single" required="true">\n'
    return f"<View>\n{''.join(parts)}{rated}{choices}  </Choices>\n</View>\n"


def _ratings(place: str, task: _Task, how: Conversion) -> Iterator[Rating]:
    cells = {name: value for name, value in task.data.items() if isinstance(value, str)}
    for annotation in task.annotations:
        if annotation.was_cancelled:
            continue
        rater = _rater(annotation.completed_by, place)
        for result in annotation.result:
            if result.type in _KINDS and how.control in ("", result.from_name):
                value = _value(result, how=how, place=place)
                rated = _targets(cells, how=how, place=place, control=result.from_name)
                yield from (target.rated(rater, value, place) for target in rated)


def _rater(completed_by: object, place: str) -> str:
    if isinstance(completed_by, dict):
        completed_by = completed_by.get("email") or completed_by.get("id")
    if completed_by is None or isinstance(completed_by, bool | list | dict):
        raise DataError(f"{place}: completed_by names nobody; export with annotators")
    return str(completed_by)


def _value(result: _Result, *, how: Conversion, place: str) -> float | None:
    value = result.value.get(result.type)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None or value == []:
        return None
    if isinstance(value, bool | list | dict):
        raise DataError(f"{place}: {result.type} {value!r} is not one rating; have one chosen")
    return number(str(value), place=place, words=how.words, marks=how.key.marks)
