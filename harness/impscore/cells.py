"""Cells of a table to the bytes of a file: delimited text, JSON, Parquet.

Null is an empty cell, null or null; floats are written in full. Nothing here knows a layout.
"""

import csv
import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.errors import DataError

if TYPE_CHECKING:
    from pyarrow import Table as ArrowTable

Cells = Sequence[object]


def delimited(names: Sequence[str], rows: Sequence[Cells], *, mark: str) -> bytes:
    """A file of delimited text; lists and the like stand in it as JSON."""
    out = io.StringIO(newline="")
    # With the default line end, cells that hold \r or \n are quoted; with \n, only the latter.
    writer = csv.writer(out, delimiter=mark)
    lines = []
    for row in (names, *rows):
        writer.writerow([_cell(cell) for cell in row])
        lines.append(out.getvalue().removesuffix("\r\n"))
        out.seek(0)
        out.truncate()
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def json_text(value: object) -> str:
    """A value as JSON; what JSON has no form of its own for, as a date, in words."""
    return json.dumps(value, ensure_ascii=False, default=str)


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


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)
