"""Files of tables to the values of their columns: CSV, TSV, JSON lines and Parquet.

Values stay as the file has them: text in CSV and TSV, what JSON and Parquet say elsewhere; an
empty cell is null. Which format a file is in, its name tells. Nothing here knows what a column
means.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import DataError, did_you_mean
from harness.storage.cells import filled
from harness.storage.layouts import ENDINGS, FileFormat, named_layout
from harness.storage.table_files import Quotes, read_table

Value = Any  # a cell: null, a text, a number, true or false, or a list of these
TABLES = frozenset(FileFormat) - {FileFormat.LINES}


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one file that were asked for; `lines` says where each row begins, from 1.

    In Parquet files a line is a row.
    """

    path: Path
    values: Mapping[str, Sequence[Value]]
    lines: Sequence[int]
    absent: tuple[str, ...] = ()

    def place(self, row: int) -> str:
        """Where a row, counted from 0, stands, as errors name it."""
        return f"{self.path}:{self.lines[row]}"


def is_table(path: Path) -> bool:
    """Whether a file's name says that it is a table of a known format."""
    return named_layout(path.name) in TABLES


def read_columns(
    path: Path, needed: Sequence[str], *, optional: Sequence[str] = (), quotes: Quotes = "standard"
) -> Columns:
    """The needed columns of a file, and those of the optional ones that it has.

    With `quotes: none` a quotation mark is a character like any other, and a line end always ends
    the row.
    """
    layout = named_layout(path.name)
    if layout not in TABLES:
        endings = ", ".join(end for end, kind in ENDINGS.items() if kind in TABLES)
        raise DataError(
            f"{path}: its name ends in none of {endings}; rename it, or save it as one of these"
        )
    table = read_table(str(path), _content(path), layout, quotes=quotes)
    held, absent = _found(path, table.columns, (*needed, *optional), optional)
    places = {name: table.columns.index(name) for name in held}
    values = {name: [*map(filled, table.cells(place))] for name, place in places.items()}
    return Columns(path, values, table.lines, absent)


def _content(path: Path) -> bytes:
    """What a file holds."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; fetch it, or name the folder it is in") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); correct the path") from error


def _found(
    path: Path, there: Sequence[str], wanted: Sequence[str], optional: Sequence[str]
) -> tuple[list[str], tuple[str, ...]]:
    """The wanted columns that are there, and the optional ones that are not."""
    absent = [name for name in dict.fromkeys(wanted) if name not in there]
    if missing := [name for name in absent if name not in optional]:
        raise DataError(
            f"{path}: no column {missing[0]!r}{did_you_mean(missing[0], [n for n in there if n])}; "
            "correct its line in the column map"
        )
    if twice := [name for name in dict.fromkeys(wanted) if list(there).count(name) > 1]:
        raise DataError(f"{path}: column {twice[0]!r} is named twice; rename one of the two")
    return [name for name in dict.fromkeys(wanted) if name in there], tuple(absent)
