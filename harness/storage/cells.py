"""Cells of a table to what they say, and to the bytes of a file: delimited text, JSON, Parquet.

Null is an empty cell, null or null; floats are written in full. Texts stand in delimited text so
that no spreadsheet takes one for a formula. Nothing here knows a layout.
"""

import csv
import io
import json
from collections.abc import Sequence
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from harness.errors import DataError
from harness.storage.csv import formula_safe
from harness.text.controls import repair_surrogates

if TYPE_CHECKING:
    from pyarrow import Table as ArrowTable

Cells = Sequence[object]
REPLACED = "\ufffd"
"""What stands for a character that could not be read."""


def delimited(names: Cells, rows: Sequence[Cells], *, mark: str, as_is: int = 0) -> bytes:
    """A file of delimited text; lists and the like stand in it as JSON.

    The first `as_is` cells of each row are texts out of such a file, and stay as they are.
    """
    out = io.StringIO(newline="")
    # With the default line end, cells that hold \r or \n are quoted; with \n, only the latter.
    writer = csv.writer(out, delimiter=mark)
    lines = []
    for row in (names, *rows):
        writer.writerow([*row[:as_is], *map(_cell, row[as_is:])])
        lines.append(out.getvalue().removesuffix("\r\n"))
        out.seek(0)
        out.truncate()
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def json_text(value: object) -> str:
    """A value as JSON; what JSON has no form of its own for, as a date, in words.

    Numbers that it cannot say, NaN and the infinities, are null.
    """
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, default=str)


def filled(cell: object) -> object:
    """A cell, null where nothing stands in it: blanks alone, or NaN."""
    is_blank = isinstance(cell, str) and not cell.strip()
    return None if is_blank or (isinstance(cell, float) and isnan(cell)) else cell


def repair_json(value: object) -> object:
    """A JSON value with U+FFFD for each lone half of a character in its texts."""
    match value:
        case str():
            return repair_surrogates(value)
        case list():
            return [repair_json(part) for part in value]
        case dict():
            return {repair_json(key): repair_json(part) for key, part in value.items()}
        case _:
            return value


def cell_text(cell: object) -> str:
    """A cell as a text without outer white space: nothing for an empty one, 1.0 as 1."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()


def parquet_bytes(table: "ArrowTable") -> bytes:
    """A table as a Parquet file."""
    from pyarrow import BufferOutputStream
    from pyarrow.parquet import write_table

    out = BufferOutputStream()
    write_table(table, out)
    found: bytes = out.getvalue().to_pybytes()
    return found


def arrow_column(name: str, cells: Cells, kind: str | None = None) -> Any:  # noqa: ANN401 - pyarrow has no types
    """A column of Parquet, of the type that is named or of whatever its values have."""
    import pyarrow

    try:
        return pyarrow.array(list(cells), type=kind)
    except (pyarrow.ArrowException, UnicodeEncodeError, OverflowError) as error:
        raise DataError(
            f"column {name!r} holds what a column of Parquet cannot ({error}); write .jsonl or .csv"
        ) from error


def _finite(value: object) -> object:
    """A value with null for each number in it that JSON cannot say."""
    match value:
        case float():
            return value if isfinite(value) else None
        case list() | tuple():
            return [_finite(part) for part in value]
        case dict():
            return {key: _finite(part) for key, part in value.items()}
        case _:
            return value


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
