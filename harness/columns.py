"""Files of tables to the values of their columns: CSV, TSV, JSON lines and Parquet.

Values stay as the file has them: text in CSV and TSV, what JSON and Parquet say elsewhere; an
empty cell is null. Which format a file is in, its name tells. Nothing here knows what a column
means.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.errors import DataError
from harness.specs.checked import nearest
from harness.tables import read_text

Value = Any  # a cell: null, a text, a number, true or false, or a list of these
Quotes = Literal["standard", "none"]
_ENDINGS = {
    **dict.fromkeys((".parquet", ".parquet.gzip", ".parquet.gz", ".pq"), "parquet"),
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **{".tsv": "tsv", ".csv": "csv"},
}


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
    return _format(path) is not None


def read_columns(
    path: Path, needed: Sequence[str], *, optional: Sequence[str] = (), quotes: Quotes = "standard"
) -> Columns:
    """The needed columns of a file, and those of the optional ones that it has.

    With `quotes: none` a quotation mark is a character like any other, and a line end always ends
    the row.
    """
    match _format(path):
        case "parquet":
            return _parquet(path, needed, optional)
        case "jsonl":
            return _json_lines(path, needed, optional)
        case "tsv":
            return _separated(path, (*needed, *optional), optional, quotes=quotes, delimiter="\t")
        case "csv":
            return _separated(path, (*needed, *optional), optional, quotes=quotes, delimiter=",")
        case _:
            raise DataError(
                f"{path}: its name ends in none of {', '.join(_ENDINGS)}; rename it, or save it as "
                "one of these"
            )


def cell_text(value: Value) -> str:
    """A cell as a text without outer white space: nothing for an empty one, 1.0 as 1."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _format(path: Path) -> str | None:
    name = path.name.lower()
    return next((kind for end, kind in _ENDINGS.items() if name.endswith(end)), None)


def _separated(
    path: Path,
    wanted: Sequence[str],
    optional: Sequence[str],
    *,
    quotes: Quotes,
    delimiter: str,
) -> Columns:
    """The columns of a CSV or TSV file whose first line names them."""
    text = read_text(path)
    quoting: Literal[0, 3] = csv.QUOTE_NONE if quotes == "none" else csv.QUOTE_MINIMAL
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting, strict=True
    )
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    try:
        header = next(reader)
        held, absent = _found(path, header, wanted, optional)
        places = [header.index(name) for name in held]
        lines, rows, line = list[int](), list[list[str]](), reader.line_num + 1
        for record in reader:
            if record:
                _check_length(f"{path}:{line}", record, header)
                lines.append(line)
                rows.append([record[place] for place in places])
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}:{reader.line_num}: not a table ({error}); fetch it again, or say "
            "`quotes: none` where its marks quote nothing"
        ) from error
    columns = {name: [row[at] or None for row in rows] for at, name in enumerate(held)}
    return _checked(Columns(path, columns, lines, absent))


def _json_lines(path: Path, needed: Sequence[str], optional: Sequence[str]) -> Columns:
    """The columns of a file with one JSON object a line; a key that is missing is an empty cell."""
    lines, rows = list[int](), list[dict[str, Value]]()
    for line, text in enumerate(read_text(path).split("\n"), 1):
        if not text.strip():
            continue
        try:
            row = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise DataError(f"{path}:{line}: not JSON ({error}); correct the line") from error
        if not isinstance(row, dict):
            raise DataError(f"{path}:{line}: {type(row).__name__}, not an object; correct the line")
        lines.append(line)
        rows.append(row)
    known = list(dict.fromkeys(name for row in rows for name in row))
    held, absent = _found(path, known, (*needed, *optional), optional)
    columns = {name: [_plain(row.get(name)) for row in rows] for name in held}
    return _checked(Columns(path, columns, lines, absent))


def _parquet(path: Path, needed: Sequence[str], optional: Sequence[str]) -> Columns:
    """The columns of a Parquet file."""
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            held, absent = _found(
                path, list(file.schema_arrow.names), (*needed, *optional), optional
            )
            table = file.read(columns=held)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; fetch it, or name the folder it is in") from None
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path}: not a Parquet file ({error}); fetch it again") from error
    columns = {name: [_plain(v) for v in table.column(name).to_pylist()] for name in held}
    return _checked(Columns(path, columns, range(1, table.num_rows + 1), absent))


def _found(
    path: Path, there: Sequence[str], wanted: Sequence[str], optional: Sequence[str]
) -> tuple[list[str], tuple[str, ...]]:
    """The wanted columns that are there, and the optional ones that are not."""
    absent = [name for name in dict.fromkeys(wanted) if name not in there]
    if missing := [name for name in absent if name not in optional]:
        raise DataError(
            f"{path}: no column {missing[0]!r}{nearest(missing[0], [n for n in there if n])}; "
            "correct its line in the column map"
        )
    if twice := [name for name in dict.fromkeys(wanted) if list(there).count(name) > 1]:
        raise DataError(f"{path}: column {twice[0]!r} is named twice; rename one of the two")
    return [name for name in dict.fromkeys(wanted) if name in there], tuple(absent)


def _check_length(place: str, record: Sequence[str], header: Sequence[str]) -> None:
    """Refuse a row that is shorter or longer than the line of names."""
    if len(record) != len(header):
        raise DataError(
            f"{place}: {len(record)} cells under {len(header)} column names; quote the row's "
            "separators and line ends, or say `quotes: none` where its marks quote nothing"
        )


def _checked(found: Columns) -> Columns:
    """A table with at least one row."""
    if not len(found.lines):
        raise DataError(f"{found.path}: no rows below the column names; fetch it again")
    return found


def _plain(value: Value) -> Value:
    """A cell with every form of nothing as null: NaN, and the text that is empty."""
    is_nothing = value == "" or (isinstance(value, float) and isnan(value))
    return None if is_nothing else value
