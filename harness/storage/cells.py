"""Cells of a table to values and texts, and to a file: CSV, other delimited text, JSON, Parquet.

None becomes an empty cell, or null in JSON and Parquet; floats keep full precision. Texts in
delimited text are formula-safe. Nothing here reads a file.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from math import isfinite, isnan
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec

from harness.errors import DataError
from harness.lazy import ArrowTable, pyarrow
from harness.text.cleanup import repair_surrogates

Cells = Sequence[object]
DEEPEST = 100
_TOO_DEEP = f"it nests more than {DEEPEST} deep"
REPLACED = "\ufffd"
"""The character that replaces one that could not be read."""


def delimited(names: Cells, rows: Sequence[Cells], *, separator: str, as_is: int = 0) -> bytes:
    """A file of delimited text, with lists, objects and truth values as JSON.

    The first `as_is` cells of each row are texts of such a file, and are not changed.
    """
    lines = ((*row[:as_is], *map(_cell, row[as_is:])) for row in (names, *rows))
    return _written(lines, separator).encode("utf-8", "replace")


def json_text(value: object) -> str:
    """A value as JSON: null for NaN and the infinities, `str(value)` for a date and the like."""
    # What was read may stand in an object of ours.
    finite = _mapped(
        value, lambda x: None if isinstance(x, float) and not isfinite(x) else x, depth=-DEEPEST
    )
    return json.dumps(finite, ensure_ascii=False, allow_nan=False, default=str)


def filled(cell: object) -> object:
    """A cell, or None where it is empty: white space alone, or NaN."""
    is_blank = isinstance(cell, str) and not cell.strip()
    return None if is_blank or (isinstance(cell, float) and isnan(cell)) else cell


def read_json(text: str) -> Any:  # noqa: ANN401 - any JSON
    """The value of a JSON text, with U+FFFD for each lone half of a character in its texts.

    ValueError for what is no JSON, and for what nests more than DEEPEST deep.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    return _mapped(value, lambda one: repair_surrogates(one) if isinstance(one, str) else one)


def decode_json(data: bytes | str, kind: Any = Any) -> Any:  # noqa: ANN401 - a type, and its value
    """The value of a JSON text as a type, by default any.

    Raises msgspec.DecodeError also for what nests too deep.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise msgspec.DecodeError(_TOO_DEEP) from None


def finite(cell: str) -> float | None:
    """The number in a cell, None for an empty one; ValueError for another, and for NaN."""
    if cell and not isfinite(float(cell)):
        raise ValueError(f"{cell} is no number")
    return float(cell) if cell else None


def cell_text(cell: object) -> str:
    """A cell as a text without outer white space: "" for None, "1" for 1.0."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()


def parquet_bytes(table: ArrowTable) -> bytes:
    """A table as a Parquet file."""
    from pyarrow import BufferOutputStream
    from pyarrow.parquet import write_table

    out = BufferOutputStream()
    write_table(table, out)
    data: bytes = out.getvalue().to_pybytes()
    return data


def arrow_column(name: str, cells: Cells, kind: str | None = None) -> Any:  # noqa: ANN401 - pyarrow has no types
    """A column of Parquet, of the type `kind` or, by default, the type of its values."""
    try:
        return pyarrow.array(list(cells), type=kind)
    except (pyarrow.ArrowException, UnicodeEncodeError, OverflowError) as error:
        raise DataError(
            f"column {name!r} holds what a column of Parquet cannot ({error}); write .jsonl or .csv"
        ) from error


def _mapped(value: object, change: Callable[[object], object], depth: int = 0) -> object:
    """A JSON value with each key, text, number, true, false and null in it changed."""
    if depth > DEEPEST:
        raise ValueError(_TOO_DEEP)
    match value:
        case list() | tuple():
            return [_mapped(part, change, depth + 1) for part in value]
        case dict():
            return {change(key): _mapped(part, change, depth + 1) for key, part in value.items()}
        case _:
            return change(value)


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case str():
            return formula_safe(value)
        case float():
            return "" if isnan(value) else repr(value)
        case bool() | list() | tuple() | dict():
            return json_text(value)
        case _:
            return str(value)


@contextmanager
def long_cells(size: int) -> Iterator[None]:
    """Let csv read cells of `size` characters, which is a limit of the whole process."""
    usual = csv.field_size_limit(max(csv.field_size_limit(), size))
    try:
        yield
    finally:
        csv.field_size_limit(usual)


_R = TypeVar("_R")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV: floats in full precision, None as an empty cell, texts formula-safe."""
    return _written(map(_csv_cell, row) for row in (columns, *rows))


def csv_lines(rows: Iterable[Iterable[object]]) -> str:
    """Rows of such a table, without the line of its columns."""
    return _written(map(_csv_cell, row) for row in rows)


def records_csv(kind: type[_R], records: Iterable[_R]) -> str:
    """Records of one dataclass as CSV: a column a field, a row a record."""
    columns = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # any dataclass
    return csv_text(columns, ([getattr(one, name) for name in columns] for one in records))


def formula_safe(text: str) -> str:
    """Text that no spreadsheet takes for a formula: an apostrophe before =, +, - and the like."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def formula_text(cell: str) -> str:
    """The text that `formula_safe` made a cell of."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell


def _written(rows: Iterable[Iterable[object]], separator: str = ",") -> str:
    # With the default line end, cells that hold \r or \n are quoted; with \n, only the latter.
    lines: list[str] = []
    csv.writer(SimpleNamespace(write=lines.append), delimiter=separator).writerows(rows)
    return "".join(line[:-2] + "\n" for line in lines)


def _csv_cell(value: object) -> str:
    if value is None:
        return ""
    return formula_safe(value) if isinstance(value, str) else repr(value)
