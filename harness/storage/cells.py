"""Cells of a table to values and texts, and to CSV and JSON; nothing here reads a file.

None becomes an empty cell, or null; floats keep full precision. Texts in CSV are formula-safe.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from math import isfinite, isnan
from types import SimpleNamespace
from typing import Any

import msgspec

from harness.errors import DataError
from harness.text.cleanup import repair_surrogates

Cells = Sequence[object]
_TOO_DEEP = "it nests too deep"
FLAGS = {"1": 1.0, "yes": 1.0, "true": 1.0, "0": 0.0, "no": 0.0, "false": 0.0}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_lines(
    rows: Iterable[Iterable[object]], *, separator: str = ",", as_is: int = 0
) -> Iterator[str]:
    """The line of each row; its first `as_is` cells are texts of such a file, and not changed."""
    # With the default line end, cells that hold \r or \n are quoted; with \n, only the latter.
    writer = csv.writer(SimpleNamespace(write=str), delimiter=separator)
    for cells in map(list, rows):
        yield f"{writer.writerow([*cells[:as_is], *map(_cell, cells[as_is:])])[:-2]}\n"


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV: floats in full precision, None as an empty cell, texts formula-safe."""
    return "".join(csv_lines(chain([columns], rows)))


def _cell(value: object) -> str:
    if isinstance(value, str):
        return formula_safe(value)
    match value:
        case float():
            return "" if isnan(value) else repr(value)
        case list() | tuple() | dict():
            return json_text(value)
        case _:
            return "" if value is None else str(value)


def formula_safe(text: str) -> str:
    """Text that no spreadsheet takes for a formula: an apostrophe before =, +, - and the like."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def formula_text(cell: str) -> str:
    """The text that `formula_safe` made a cell of."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell


def json_text(value: object, indent: int | None = None) -> str:
    """A value as JSON: null for NaN and the infinities, `str(value)` for a date and the like."""
    finite = _mapped(value, lambda x: None if isinstance(x, float) and not isfinite(x) else x)
    return json.dumps(finite, ensure_ascii=False, allow_nan=False, default=str, indent=indent)


def read_json(text: str) -> Any:  # noqa: ANN401 - any JSON
    """The value of a JSON text, with U+FFFD for each lone half of a character in its texts.

    ValueError for what is no JSON, and for what nests too deep for Python.
    """

    def repaired(one: object) -> object:
        return repair_surrogates(one) if isinstance(one, str) else one

    try:
        return _mapped(json.loads(text), repaired)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def _mapped(value: object, change: Callable[[object], object]) -> object:
    """A JSON value with each key, text, number, true, false and null in it changed."""
    match value:
        case list() | tuple():
            return [_mapped(part, change) for part in value]
        case dict():
            return {change(key): _mapped(part, change) for key, part in value.items()}
        case _:
            return change(value)


_decoder = cache(msgspec.json.Decoder)


def decode_json(data: bytes | str | msgspec.Raw, kind: Any = Any) -> Any:  # noqa: ANN401 - a type
    """The value of a JSON text as a type, by default any; msgspec.DecodeError where it is none."""
    try:
        return _decoder(kind).decode(data)
    except RecursionError:
        raise msgspec.DecodeError(_TOO_DEEP) from None


def filled(cell: object) -> object:
    """A cell, or None where it is empty: white space alone, or NaN."""
    is_blank = isinstance(cell, str) and not cell.strip()
    return None if is_blank or (isinstance(cell, float) and isnan(cell)) else cell


def finite(cell: str) -> float | None:
    """The number in a cell, None for an empty one; ValueError for another, and for NaN."""
    if cell and not isfinite(float(cell)):
        raise ValueError(f"{cell} is no number")
    return float(cell) if cell else None


def number_in(cell: str, place: str) -> float | None:
    """The number in a cell; None in a blank one, and in the NaN of a column of floats."""
    try:
        return None if cell.strip().casefold() in ("", "nan") else finite(cell)
    except ValueError as error:
        raise DataError(f"{place} holds no number: {error}") from error


def flag_in(cell: str, place: str) -> float | None:
    """1 where a cell says flagged; blank cells in a column of 1 and 0 make it one of floats."""
    word = cell.strip().casefold().removesuffix(".0")
    if word not in FLAGS and word not in ("", "nan"):
        raise DataError(f"{place} holds {cell!r:.60}; write {', '.join(FLAGS)}, or nothing")
    return FLAGS.get(word)


def cell_text(cell: object) -> str:
    """A cell as a text without outer white space: "" for None, "1" for 1.0."""
    if cell is None:
        return ""
    return str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell).strip()


@contextmanager
def long_cells(size: int) -> Iterator[None]:
    """Let csv read cells of `size` characters, which is a limit of the whole process."""
    usual = csv.field_size_limit(max(csv.field_size_limit(), size))
    try:
        yield
    finally:
        csv.field_size_limit(usual)
