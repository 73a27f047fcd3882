"""Files of rows to rows and columns, and back with columns added: CSV, TSV, JSON lines, Parquet.

Values stay as the file has them: text in CSV and TSV, typed values in JSON and Parquet. Every error
names the file, the line and the remedy. Nothing here knows what a column means.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from harness.errors import DataError, did_you_mean, install
from harness.lazy import ArrowTable, pandas, pyarrow
from harness.storage.cells import (
    Cells,
    arrow_column,
    cell_text,
    delimited,
    filled,
    json_text,
    long_cells,
    parquet_bytes,
    read_json,
)

TEXT: Final = "text"
"""The column that texts are read from by default."""
BOM: Final = "\ufeff"
Quotes = Literal["standard", "none"]
Value = Any  # a cell: None, a text, a number, true or false, or a list of these
Record = tuple[int, tuple[str, ...]]
"""The cells of a row, after the line it starts on."""
SEPARATORS: Final = (",", ";", "\t")


_QUOTES: Final = ", or say `quotes: none` where its marks quote nothing"


class FileFormat(StrEnum):
    """How a file holds its rows; LINES is plain text, one row a line."""

    CSV = "csv"
    TSV = "tsv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    LINES = "lines"

    @property
    def separator(self) -> str:
        """The character between two cells of delimited text."""
        return "\t" if self is FileFormat.TSV else ","


DELIMITED: Final = frozenset({FileFormat.CSV, FileFormat.TSV})
ENDINGS: Final = {
    **dict.fromkeys((".parquet", ".parquet.gzip", ".parquet.gz", ".pq"), FileFormat.PARQUET),
    **dict.fromkeys((".jsonl", ".ndjson"), FileFormat.JSONL),
    **{".tsv": FileFormat.TSV, ".csv": FileFormat.CSV, ".txt": FileFormat.LINES},
}
_TABLE_ENDINGS: Final = [end for end, kind in ENDINGS.items() if kind is not FileFormat.LINES]


@dataclass(frozen=True, slots=True)
class TableRow:
    """Some columns of one row of a table, and the line it starts on (in Parquet the row's number).

    A typed table has None for an empty cell. `overflow` has the cells of a CSV file without a
    column name; of columns that share a name only the first has it.
    """

    path: Path
    line: int
    cells: Mapping[str, Value]
    overflow: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The row's file and line, as errors name it."""
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column to add to a table: numbers or texts, None where a row has none."""

    name: str
    cells: Cells
    is_number: bool


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The rows of a file by column; a column name may occur twice.

    `lines` has the line, from 1, that each row starts on (in Parquet the row's number); `cells`
    returns the column at an index from 0, one cell a row, None where a row has none.
    `json_lines` or `arrow` is what the file holds, to write it back unchanged.
    """

    file_format: FileFormat
    columns: tuple[str, ...]
    lines: Sequence[int]
    cells: Callable[[int], list[object]]
    json_lines: tuple[str, ...] = ()
    arrow: ArrowTable | None = None

    def __len__(self) -> int:
        return len(self.lines)


class NoColumn(DataError):
    """A table without a column; the error holds the table, for a message to say what it has."""

    def __init__(self, message: str, table: Table) -> None:
        """Say what is missing from which table."""
        super().__init__(message)
        self.table = table


def format_by_name(name: str) -> FileFormat | None:
    """The format that the end of a file's name stands for; None for an unknown ending."""
    return next((ENDINGS[end] for end in ENDINGS if name.lower().endswith(end)), None)


def detect_format(name: str, data: bytes, *, has_column: bool) -> FileFormat:
    """The format of a file by its content, then by its name, then by whether a column is asked for.

    JSON lines begin with a brace. Other text is CSV where a column is asked for, else plain lines.
    Raises DataError for text that begins like a JSON list, which is neither.
    """
    if data.startswith(b"PAR1"):
        return FileFormat.PARQUET
    if (named := format_by_name(name)) is not None:
        return named
    start = data.removeprefix(BOM.encode()).lstrip()
    if start.startswith(b"{"):
        return FileFormat.JSONL
    if start.startswith(b"["):
        raise DataError(
            f"{name}: begins with '[', as a list of JSON does; write one object a line, or say "
            "what else it is, as by --format lines or a name in .txt"
        )
    return FileFormat.CSV if has_column else FileFormat.LINES


def is_table(path: Path) -> bool:
    """Whether a file's name ends as that of a table in a known format does."""
    return format_by_name(path.name) not in (None, FileFormat.LINES)


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, without a byte order mark, its line ends unchanged."""
    if not (text := _decoded(str(path), _read_bytes(path))).strip():
        raise DataError(f"{path}: the file is empty; fetch it again, or save it with its rows")
    return text


def read_rows(path: Path, required: Sequence[str], *, separator: str = ",") -> list[TableRow]:
    """The rows of a CSV file whose first line names its columns, `required` among them.

    A row may have more cells than there are names, as some released files have. Raises DataError
    for a row with fewer, a missing required column, or one that is named twice.
    """
    records = list(_records(str(path), read_text(path), separator))
    return _checked_rows(path, records, required)


def read_spreadsheet(path: Path, required: Sequence[str]) -> list[TableRow]:
    """The rows with any cell filled of a CSV file with any separator, or the first sheet of XLSX.

    Errors as of `read_rows`, and where XLSX cannot be read.
    """
    if path.suffix.lower() == ".xlsx":
        rows = _checked_rows(path, _xlsx_records(path), required)
    else:
        # The mark between the column names: the one that leaves most of those that are required.
        head = read_text(path).lstrip("\r\n").splitlines()[0]
        heads = {mark: head.replace('"', "").split(mark) for mark in SEPARATORS}
        counts = {m: (len({*required} & {*names}), len(names)) for m, names in heads.items()}
        rows = read_rows(path, required, separator=max(SEPARATORS, key=counts.__getitem__))
    return [row for row in rows if any(cell.strip() for cell in row.cells.values())]


def _xlsx_records(path: Path) -> list[Record]:
    if not path.is_file():
        raise DataError(f"{path}: no such file; correct the path")
    try:
        frame = pandas.read_excel(path, header=None, dtype=object, keep_default_na=False)
    except ImportError as error:
        raise DataError(
            f"{path}: to read XLSX, the package openpyxl is needed, not installed here; run: "
            f"{install('sheets')}, or save the file as CSV UTF-8"
        ) from error
    except Exception as error:  # what zip, XML and openpyxl's own checks raise
        raise DataError(
            f"{path}: not an XLSX file ({error}); save it again, or as CSV UTF-8"
        ) from error
    rows = enumerate((tuple(map(cell_text, map(filled, row))) for row in frame.to_numpy()), 1)
    return [(line, row) for line, row in rows if any(row)]


def _checked_rows(path: Path, records: Sequence[Record], required: Sequence[str]) -> list[TableRow]:
    (_, header), *records = records or [(1, ())]
    named = [name for name in header if name]
    if missing := [name for name in required if name not in named]:
        hint = did_you_mean(missing[0], named) if len(missing) == 1 else ""
        raise DataError(
            f"{path}: no column {', '.join(map(repr, missing))}{hint}; name another file, fetch it "
            "again, or rename the column"
        )
    if repeated := sorted({name for name in required if named.count(name) > 1}):
        raise DataError(f"{path}: columns named twice: {', '.join(repeated)}; rename one of each")
    if not records:
        raise DataError(f"{path}: no rows below the column names; fetch it again, or add rows")
    return [_row(path, header, line=line, record=record) for line, record in records]


def json_objects(
    name: str, text: str, *, first: int = 1
) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The number and the text of each line that is not blank, and the JSON object on it.

    The first line has the number `first`. U+FFFD replaces each half of a character in an object.
    Raises DataError for any other line.
    """
    for number, line in enumerate(text.split("\n"), first):
        if not line.strip():
            continue
        place = f"{name}:{number}"
        try:
            value = read_json(line)
        except ValueError as error:
            raise DataError(f"{place}: not JSON ({error}); give one JSON object a line") from error
        if not isinstance(value, dict):
            raise DataError(f"{place}: {type(value).__name__}, not an object; put it in braces")
        yield number, line, value


def read_columns(
    path: Path,
    needed: Sequence[str],
    *,
    optional: Sequence[str] | None = (),
    quotes: Quotes = "standard",
) -> list[TableRow]:
    """The rows of a file with the needed columns, and those of the optional ones that it has.

    With `optional=None` these are all others.
    With `quotes: none` a quotation mark is a character like any other, and a line end always ends
    the row. Raises NoColumn for a missing column, and DataError for a repeated one.
    """
    table = read_file(path, quotes=quotes)
    optional = table.columns if optional is None else optional
    wanted = dict.fromkeys((*needed, *optional))
    if missing := [name for name in wanted if name not in (*table.columns, *optional)]:
        known = [name for name in table.columns if name]
        raise NoColumn(
            f"{path}: no column {missing[0]!r}{did_you_mean(missing[0], known)}; "
            "correct its line in the column map",
            table,
        )
    if repeated := [name for name in wanted if table.columns.count(name) > 1]:
        raise DataError(f"{path}: column {repeated[0]!r} is named twice; rename one of the two")
    names = [name for name in wanted if name in table.columns]
    columns = [map(filled, table.cells(table.columns.index(name))) for name in names]
    rows = zip(table.lines, zip(*columns, strict=True), strict=True)
    return [TableRow(path, line, dict(zip(names, row, strict=True))) for line, row in rows]


def read_table(
    name: str, data: bytes, file_format: FileFormat, *, quotes: Quotes | None = None
) -> Table:
    """The rows of a file's content; errors call the file `name`.

    With `quotes: none` a quotation mark in CSV or TSV is a character like any other, and a line
    end always ends the row. None reads as "standard" does, and its errors do not mention `quotes`.
    """
    if file_format is FileFormat.PARQUET:
        return _read_parquet(name, data)
    if not (text := _decoded(name, data)):
        raise DataError(f"{name}: the file is empty; give one with texts")
    match file_format:
        case FileFormat.JSONL:
            return _read_json(name, text)
        case FileFormat.LINES:
            lines = text.removesuffix("\n").split("\n")
            records = [(at, (line.removesuffix("\r"),)) for at, line in enumerate(lines, 1)]
            return _text_table(FileFormat.LINES, (TEXT,), records)
        case _:
            return _read_delimited(name, text, file_format, quotes=quotes)


def read_file(path: Path, *, quotes: Quotes | None = None) -> Table:
    """The rows of a file whose name says its format; errors as of `read_table`."""
    file_format = format_by_name(path.name)
    if file_format is None or not is_table(path):
        raise DataError(
            f"{path}: its name ends in none of {', '.join(_TABLE_ENDINGS)}; rename it, or save it "
            "as one of these"
        )
    return read_table(str(path), _read_bytes(path), file_format, quotes=quotes)


def read_any(path: str | Path, *, has_column: bool) -> Table:
    """The rows of a file, by its name and its content; DataError where it cannot be read."""
    data = _read_bytes(Path(path))
    return read_table(str(path), data, detect_format(str(path), data, has_column=has_column))


def column_of(
    table: Table, name: str | None, *, where: str, option: str = "--column"
) -> list[object]:
    """The cells of a column, by default `text`; DataError unless there is one, of texts."""
    wanted = TEXT if name is None else name
    indices = [index for index, column in enumerate(table.columns) if column == wanted]
    if len(indices) != 1:
        remedy = "give one in --column" if name is None else f"correct {option}"
        fact = f"no column {wanted!r}{did_you_mean(wanted, [*table.columns])}"
        if indices:
            fact, remedy = f"{len(indices)} columns are called {wanted!r}", "rename all but one"
        raise DataError(f"{where}: {fact}; {remedy}")
    cells = table.cells(indices[0])
    kinds = sorted({type(cell).__name__ for cell in cells if cell is not None})
    if "str" not in kinds and option == "--column":
        others = ", ".join(column for column in table.columns if column != wanted)
        raise DataError(
            f"{where}: column {wanted!r} holds {' and '.join(kinds) or 'nulls alone'}, no text; "
            + (f"name another: {others}" if others else "there is no other: give a file with texts")
        )
    return cells


def extended(table: Table, added: Sequence[Column], target: FileFormat) -> bytes:
    """A file of the table's rows with further columns, in its own format or another.

    Plain lines become CSV. Text that comes into CSV or TSV from elsewhere is made formula-safe.
    """
    for column in added:
        if column.name in table.columns:
            raise DataError(
                f"there is a column {column.name!r} already; give the new one a name by --as"
            )
    if target is table.file_format is FileFormat.JSONL:
        return _extended_json(table.json_lines, added)
    if target is FileFormat.PARQUET and table.arrow is not None:
        return _extended_arrow(table.arrow, added)
    own = [table.cells(index) for index in range(len(table.columns))]
    names = [*table.columns, *(column.name for column in added)]
    rows = list(zip(*own, *(column.cells for column in added), strict=True))
    if target in DELIMITED | {FileFormat.LINES}:
        as_is = len(own) if table.file_format in DELIMITED else 0
        return delimited(names, rows, separator=target.separator, as_is=as_is)
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"two columns are called {repeated[0]!r}; rename one, or write CSV")
    if target is FileFormat.JSONL:
        objects = (dict(zip(names, row, strict=True)) for row in rows)
        return "".join(f"{json_text(one)}\n" for one in objects).encode()
    from pyarrow import table as arrow_table

    pairs = zip(table.columns, own, strict=True)
    return _extended_arrow(arrow_table({name: arrow_column(name, c) for name, c in pairs}), added)


def _extended_json(lines: Sequence[str], added: Sequence[Column]) -> bytes:
    ends = []
    for row, text in enumerate(lines):
        more = json_text({column.name: column.cells[row] for column in added})
        inner = text.rstrip()[:-1].rstrip()
        comma = "" if inner == "{" or not added else ", "
        ends.append(f"{inner}{comma}{more[1:]}\n")
    return "".join(ends).encode()


def _extended_arrow(table: ArrowTable, added: Sequence[Column]) -> bytes:
    for column in added:
        kind = "float64" if column.is_number else "string"  # also where every cell is None
        cells = arrow_column(column.name, column.cells, kind)
        table = table.append_column(column.name, cells)
    return parquet_bytes(table)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; fetch it, or name the folder it is in") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); correct the path") from error


def _decoded(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8").removeprefix(BOM)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}: not UTF-8 at byte {error.start}; fetch it again or save it as UTF-8"
        ) from error


def _records(
    name: str, text: str, separator: str, quotes: Quotes | None = None
) -> Iterator[Record]:
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=separator,
        quoting=csv.QUOTE_NONE if quotes == "none" else csv.QUOTE_MINIMAL,
        strict=True,
    )
    line = 1
    try:
        with long_cells(len(text)):
            for record in reader:
                yield from [(line, tuple(record))] if record else []
                line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{name}:{reader.line_num}: not a CSV file ({error}); correct its quotes"
            f"{_QUOTES if quotes else ''}"
        ) from error


def _row(path: Path, header: Sequence[str], *, line: int, record: Sequence[str]) -> TableRow:
    if absent := [name for name in header[len(record) :] if name]:
        raise DataError(
            f"{path}:{line}: the row ends after {len(record)} cells, before column "
            f"{absent[0]!r}; fetch the file again or quote the row's commas and line ends"
        )
    cells: dict[str, str] = {}
    overflow: list[str] = []
    for name, value in zip(header, record, strict=False):
        if not name or name in cells:
            overflow.append(value)
        else:
            cells[name] = value
    return TableRow(path, line, cells, (*overflow, *record[len(header) :]))


def _read_delimited(name: str, text: str, kind: FileFormat, *, quotes: Quotes | None) -> Table:
    (_, header), *records = [*_records(name, text, kind.separator, quotes)] or [(1, ())]
    if not records:
        raise DataError(f"{name}: no rows below the column names; give a file that has some")
    for line, record in records:
        if len(record) != len(header):
            raise DataError(
                f"{name}:{line}: {len(record)} cells under {len(header)} column names; quote the "
                f"row's separators and line ends, or save the file as {kind.upper()} again"
                f"{_QUOTES if quotes else ''}"
            )
    return _text_table(kind, header, records)


def _text_table(kind: FileFormat, columns: tuple[str, ...], records: Sequence[Record]) -> Table:
    lines = [line for line, _ in records]
    return Table(kind, columns, lines, lambda index: [record[index] for _, record in records])


def _read_json(name: str, text: str) -> Table:
    """The objects of a file, one a line; a key that some object has is a column."""
    # pyarrow's reader keeps neither line numbers, nor mixed types, nor the text of numbers.
    numbered = list(json_objects(name, text))
    if not numbered:
        raise DataError(f"{name}: no objects; give a file with texts")
    columns = tuple(dict.fromkeys(key for _, _, one in numbered for key in one))
    return Table(
        FileFormat.JSONL,
        columns,
        [number for number, _, _ in numbered],
        lambda index: [one.get(columns[index]) for _, _, one in numbered],
        json_lines=tuple(line for _, line, _ in numbered),
    )


def _read_parquet(name: str, data: bytes) -> Table:
    from pyarrow import parquet

    try:
        table = parquet.read_table(pyarrow.BufferReader(data))
    except (OSError, pyarrow.ArrowException) as error:
        said = " ".join(str(error).split())
        raise DataError(f"{name}: not a Parquet file ({said}); copy it again") from error
    if not len(table):
        raise DataError(f"{name}: no rows; give a file with texts")
    columns, lines = tuple(table.column_names), range(1, len(table) + 1)
    cells = partial(_arrow_cells, table)
    return Table(FileFormat.PARQUET, columns, lines, cells, arrow=table)


def _arrow_cells(table: ArrowTable, index: int) -> list[object]:
    """The values of a column; U+FFFD replaces bytes of a text that are not UTF-8."""
    column = table.column(index)
    try:
        values: list[object] = column.to_pylist()
    except UnicodeDecodeError:
        cells = column.cast("large_binary").to_pylist()
        return [None if cell is None else cell.decode("utf-8", "replace") for cell in cells]
    return values
