"""Files of rows to rows and columns, and back with columns added: CSV, TSV, JSON lines, Parquet.

Values stay as the file has them: text in CSV and TSV, typed values in JSON and Parquet. Every error
names the file, the line and the remedy.
"""

import csv
import io
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import chain
from pathlib import Path
from textwrap import shorten
from typing import Any, Final, Literal

from harness.errors import DataError, SpecError, StoreError, did_you_mean, install
from harness.lazy import ArrowTable, DataFrame, pandas, pyarrow
from harness.storage.cells import cell_text, csv_lines, filled, json_text, long_cells, read_json
from harness.storage.files import refuse_source, refuse_swollen, write_whole

_log = logging.getLogger(__name__)
TEXT: Final = "text"  # the column that texts are read from by default
MOST_CELLS = 10**7  # of a spreadsheet
BOM: Final = "\ufeff"
STDIN: Final = "-"
Quotes = Literal["standard", "none"]
Value = Any  # a cell: None, a text, a number, true or false, or a list of these
Record = tuple[int, tuple[str, ...]]
"""The cells of a row, after the line it starts on."""


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
TABLE_ENDINGS: Final = [end for end, kind in ENDINGS.items() if kind is not FileFormat.LINES]
"""The endings of the files that a table can be written to."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The rows of a file by column; a column name may occur twice.

    `lines` has the line, from 1, that each row starts on (in Parquet the row's number); `cells`
    returns the column at an index from 0. `arrow` is what a Parquet file holds.
    """

    file_format: FileFormat
    columns: tuple[str, ...]
    lines: Sequence[int]
    cells: Callable[[int], list[object]]
    arrow: ArrowTable | None = None

    def __len__(self) -> int:
        return len(self.lines)


def format_by_name(name: str) -> FileFormat | None:
    """The format that the end of a file's name stands for; None for an unknown ending."""
    return next((ENDINGS[end] for end in ENDINGS if name.lower().endswith(end)), None)


def detect_format(name: str, data: bytes, *, has_column: bool) -> FileFormat:
    """The format of a file by its content, then by its name, then by whether a column is asked for.

    Raises DataError for text that begins like a JSON list, which is no format of these.
    """
    if data.startswith(b"PAR1"):
        return FileFormat.PARQUET
    if (named := format_by_name(name)) is not None:
        return named
    start = data.removeprefix(BOM.encode()).lstrip()[:1]
    if start == b"[":
        raise DataError(
            f"{name}: begins with '[', as a list of JSON does; write one object a line, or say "
            "what else it is, as by --format lines or a name in .txt"
        )
    other = FileFormat.CSV if has_column else FileFormat.LINES
    return FileFormat.JSONL if start == b"{" else other


def is_table(path: Path) -> bool:
    """Whether a file's name ends as that of a table in a known format does."""
    return format_by_name(path.name) not in (None, FileFormat.LINES)


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, without a byte order mark, its line ends unchanged."""
    return _decoded(str(path), _read_bytes(path))


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; fetch it, or name the folder it is in") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); correct the path") from error


def _decoded(name: str, data: bytes, *, is_of_people: bool = False) -> str:
    try:
        text = data.decode("utf-8").removeprefix(BOM)
    except UnicodeDecodeError as error:
        fact = f"{name}: not UTF-8 at byte {error.start}"
        if not is_of_people or b"\0" in data:
            raise DataError(f"{fact}; fetch it again or save it as UTF-8") from error
        text = data.decode("cp1252", "replace")
        _log.warning("%s; read as Windows-1252, as Excel saves it: check its letters", fact)
    if not text.strip():
        raise DataError(f"{name}: the file is empty; fetch it again, or save it with its rows")
    return text


def read_rows(path: Path, required: Sequence[str], *, separator: str = ",") -> list[TableRow]:
    """The rows of a CSV file whose first line names its columns, `required` among them.

    A row may have more cells than there are names, as some released files have, but not fewer.
    """
    return _named_rows(path, [*_records(str(path), read_text(path), separator)], required)


def read_spreadsheet(path: Path, required: Sequence[str]) -> list[TableRow]:
    """The rows with any cell filled of a CSV file with any separator, or the first sheet of XLSX.

    What is not UTF-8 is read as Windows-1252, with a warning. Errors as of `read_rows`,
    and where XLSX cannot be read.
    """
    if path.suffix.lower() == ".xlsx":
        rows = _named_rows(path, _xlsx_records(path), required)
    else:
        # The mark between the column names: the one that leaves most of those that are required.
        text = _decoded(str(path), _read_bytes(path), is_of_people=True)
        head = text.lstrip("\r\n").splitlines()[0].replace('"', "")
        heads = {mark: head.split(mark) for mark in (",", ";", "\t")}
        counts = {m: (len({*required} & {*names}), len(names)) for m, names in heads.items()}
        separator = max(heads, key=counts.__getitem__)
        rows = _named_rows(path, [*_records(str(path), text, separator)], required)
    return [row for row in rows if any(cell.strip() for cell in row.cells.values())]


def _xlsx_records(path: Path) -> list[Record]:
    if not path.is_file():
        raise DataError(f"{path}: no such file; correct the path")
    refuse_swollen(path)
    try:
        from openpyxl import load_workbook

        sheet = load_workbook(path).worksheets[0]
        if (cells := sheet.max_row * sheet.max_column) > MOST_CELLS:
            fact = f"{path}: its sheet spans {cells:,} cells, more than {MOST_CELLS:,}"
            raise DataError(f"{fact}; delete the cells far from the others")
        frame = pandas.read_excel(path, header=None, dtype=object, keep_default_na=False)
    except ImportError as error:
        raise DataError(
            f"{path}: to read XLSX, the package openpyxl is needed, not installed here; run: "
            f"{install('sheets')}, or save the file as CSV UTF-8"
        ) from error
    except DataError:
        raise
    except Exception as error:  # what zip, XML and openpyxl's own checks raise
        fact = f"{path}: not an XLSX file ({error})"
        raise DataError(f"{fact}; save it again, or as CSV UTF-8") from error
    rows = enumerate((tuple(map(cell_text, map(filled, row))) for row in frame.to_numpy()), 1)
    return [(line, row) for line, row in rows if any(row)]


def _records(name: str, text: str, separator: str, quotes: Quotes = "standard") -> Iterator[Record]:
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
            f"{name}:{reader.line_num}: not a CSV file ({error}); correct its quotes, or say "
            "`quotes: none` in a column map whose marks quote nothing"
        ) from error


def _refuse_columns(
    where: object,
    known: Sequence[str],
    needed: Sequence[str],
    remedy: str = "or correct its name in the column map",
) -> None:
    """DataError where a table has some columns not at all, or twice."""
    named = [name for name in known if name]
    if missing := [name for name in needed if name not in named]:
        hint = did_you_mean(missing[0], named) if len(missing) == 1 else ""
        fact = f"no column {', '.join(map(repr, missing))}{hint}"
        raise DataError(f"{where}: {fact}; name another file, rename it, {remedy}")
    if repeated := sorted({name for name in needed if named.count(name) > 1}):
        raise DataError(f"{where}: columns named twice: {', '.join(repeated)}; rename one of each")


def _named_rows(path: Path, records: Sequence[Record], required: Sequence[str]) -> list[TableRow]:
    (_, header), *records = records or [(1, ())]
    _refuse_columns(path, header, required)
    if not records:
        raise DataError(f"{path}: no rows below the column names; fetch it again, or add rows")
    first = {name: at for at, name in [*enumerate(header)][::-1] if name}
    found = []
    for line, record in records:
        if absent := [name for name in header[len(record) :] if name]:
            raise DataError(
                f"{path}:{line}: the row ends after {len(record)} cells, before column "
                f"{absent[0]!r}; fetch the file again or quote the row's commas and line ends"
            )
        cells = {name: record[first[name]] for name in header if name}
        rest = (cell for at, cell in enumerate(record) if at not in first.values())
        found.append(TableRow(path, line, cells, tuple(rest)))
    return found


def json_objects(name: str, text: str, *, first: int = 1) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number of each line that is not blank, from `first` on, and the JSON object on it.

    U+FFFD replaces each half of a character in an object. Raises DataError for any other line.
    """
    # pyarrow's reader keeps neither line numbers nor mixed types.
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
        yield number, value


def read_file(path: Path, *, quotes: Quotes = "standard") -> Table:
    """The rows of a file whose name says its format; errors as of `read_table`."""
    file_format = format_by_name(path.name)
    if file_format is None or not is_table(path):
        fact = f"{path}: its name ends in none of {', '.join(TABLE_ENDINGS)}"
        raise DataError(f"{fact}; rename it, or save it as one of these")
    return read_table(str(path), _read_bytes(path), file_format, quotes=quotes)


def read_columns(
    path: Path, needed: Sequence[str], *, optional: Sequence[str] = (), table: Table | None = None
) -> list[TableRow]:
    """The rows of a file with the needed columns, and those of the optional ones that it has.

    `table` is what the file holds, where it was read.
    """
    table = table or read_file(path)
    names = [*needed, *(name for name in optional if name in table.columns)]
    _refuse_columns(path, table.columns, names := [*dict.fromkeys(names)])
    columns = [map(filled, table.cells(table.columns.index(name))) for name in names]
    rows = zip(table.lines, zip(*columns, strict=True), strict=True)
    return [TableRow(path, line, dict(zip(names, row, strict=True))) for line, row in rows]


def read_table(
    name: str, data: bytes, file_format: FileFormat, *, quotes: Quotes = "standard"
) -> Table:
    """The rows of a file's content; errors call the file `name`.

    With `quotes: none` a quotation mark in CSV or TSV is a character like any other, and a line
    end always ends the row.
    """
    if file_format is FileFormat.PARQUET:
        return _read_parquet(name, data)
    text = _decoded(name, data)
    if file_format is FileFormat.JSONL:
        numbers, objects = zip(*json_objects(name, text), strict=True)
        # A key that some object has is a column.
        keys = tuple(dict.fromkeys(key for one in objects for key in one))
        return Table(file_format, keys, numbers, lambda at: [one.get(keys[at]) for one in objects])
    if file_format is FileFormat.LINES:
        lines = enumerate(text.removesuffix("\n").split("\n"), 1)
        every: list[Record] = [
            (0, (TEXT,)),
            *((at, (line.removesuffix("\r"),)) for at, line in lines),
        ]
    else:
        every = [*_records(name, text, file_format.separator, quotes)]
    (_, header), *records = every
    if not records:
        raise DataError(f"{name}: no rows below the column names; give a file that has some")
    for line, record in records:
        if len(record) != len(header):
            raise DataError(
                f"{name}:{line}: {len(record)} cells under {len(header)} column names; quote the "
                "row's separators and line ends, or say `quotes: none` in its column map"
            )
    numbers = [line for line, _ in records]
    return Table(file_format, header, numbers, lambda at: [cells[at] for _, cells in records])


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
    return Table(FileFormat.PARQUET, columns, lines, partial(_arrow_cells, table), arrow=table)


def _arrow_cells(table: ArrowTable, index: int) -> list[object]:
    """The values of a column; U+FFFD replaces bytes of a text that are not UTF-8."""
    column = table.column(index)
    try:
        values: list[object] = column.to_pylist()
    except UnicodeDecodeError:
        cells = column.cast("large_binary").to_pylist()
        return [None if cell is None else cell.decode("utf-8", "replace") for cell in cells]
    return values


def read_any(path: str | Path, *, has_column: bool) -> Table:
    """The rows of a file, by its name and its content; DataError where it cannot be read."""
    data = _read_bytes(Path(path))
    return read_table(str(path), data, detect_format(str(path), data, has_column=has_column))


def read_input(file: str, layout: str | None = None, *, has_column: bool) -> tuple[Table, str]:
    """The rows of a file or of stdin, and its name for messages."""
    name = "stdin" if file == STDIN else file
    if layout is not None and layout not in [*FileFormat]:
        raise SpecError(f"--format {layout!r}: give one of {', '.join(FileFormat)}")
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror}); correct the path") from error
    kind = FileFormat(layout) if layout else detect_format(name, data, has_column=has_column)
    if kind is FileFormat.LINES and has_column:
        raise SpecError(
            f"{name}: is read as plain lines, which have no columns; if it has columns, give it a "
            "name that ends in .csv or .tsv, or give --format if the command has it"
        )
    return read_table(name, data, kind), name


def write_named(path: Path, data: bytes | Iterable[bytes], *, sources: Iterable[Path] = ()) -> None:
    """Write a file that an option names, by bytes or blocks of them, whole lines.

    StoreError where the command reads it, as READ or `sources` say, or it is a table of others.
    """
    refuse_source(path, sources)
    blocks = iter([data] if isinstance(data, bytes) else data)
    first = next(blocks, b"")
    if is_table(path) and path.is_file() and path.stat().st_size:
        kind = output_format(path)
        if (there := _head(path.read_bytes(), kind)) != _head(first, kind):
            fact = f"is another table already ({shorten(there, 60)})"
            raise StoreError(f"{path}: {fact}; choose another -o, or move it away")
    write_whole(path, chain([first], blocks))


def _head(data: bytes, kind: FileFormat) -> str:
    """What a table begins with: the line of its column names, or these names."""
    line = data.partition(b"\n")[0].rstrip(b"\r").decode("utf-8", "replace")
    with suppress(ValueError, TypeError, OSError):
        if kind is FileFormat.JSONL:
            return ", ".join(sorted(read_json(line)))
        if kind is FileFormat.PARQUET:
            from pyarrow.parquet import read_schema

            return ", ".join(read_schema(pyarrow.BufferReader(data)).names)
    return line


def output_format(out: Path) -> FileFormat:
    """The format of a table to write, by its name."""
    found = format_by_name(out.name)
    if found is None:
        raise SpecError(f"-o {out}: end its name in {', '.join(TABLE_ENDINGS)}")
    return found


def column_of(
    table: Table, name: str | None, *, where: str, option: str = "--column"
) -> list[object]:
    """The cells of the column of this name, by default `text`; of --column one with texts."""
    wanted = TEXT if name is None else name
    _refuse_columns(where, table.columns, [wanted], f"or name another by {option}")
    cells = table.cells(table.columns.index(wanted))
    if option == "--column" and not any(isinstance(cell, str) for cell in cells):
        others = ", ".join(column for column in table.columns if column != wanted)
        known = f"--column names another: {others}" if others else "give a file with texts"
        raise DataError(f"{where}: column {wanted!r} holds no text; {known}")
    return cells


def cells_named(table: Table, name: str, where: str) -> list[str]:
    """The cells of a column as texts, empty where there is none."""
    _refuse_columns(where, table.columns, [name], "or name another column")
    return [cell_text(cell) for cell in table.cells(table.columns.index(name))]


def extended(table: Table, added: DataFrame, target: FileFormat) -> bytes:
    """A file of the table's rows with the columns of a frame, in its own format or another.

    Parquet columns keep their types, CSV and TSV cells their text; plain lines become CSV. Text
    that comes into CSV or TSV from another format is made formula-safe.
    """
    for name in added.columns:
        if name in table.columns:
            raise DataError(f"there is a column {name!r} already; give the new one a name by --as")
    if target is FileFormat.PARQUET and table.arrow is not None:
        return _parquet(table.arrow, added)
    own = [table.cells(index) for index in range(len(table.columns))]
    new = added.astype(object).where(added.notna(), None)
    names = [*table.columns, *added.columns]
    rows = zip(*own, *(new[name] for name in added.columns), strict=True)
    if target in DELIMITED | {FileFormat.LINES}:
        as_is = len(own) if table.file_format in DELIMITED else 0
        lines = csv_lines([names, *rows], separator=target.separator, as_is=as_is)
        return "".join(lines).encode("utf-8", "replace")
    _refuse_columns("the table", names, names)
    if target is FileFormat.JSONL:
        objects = (json_text(dict(zip(names, row, strict=True))) for row in rows)
        return "".join(f"{one}\n" for one in objects).encode()
    arrays = [_array(name, cells) for name, cells in zip(table.columns, own, strict=True)]
    return _parquet(pyarrow.Table.from_arrays(arrays, names=[*table.columns]), added)


def _array(name: str, cells: list[object]) -> Any:  # noqa: ANN401 - pyarrow has no types
    try:
        return pyarrow.array(cells)
    except (pyarrow.ArrowException, UnicodeEncodeError, OverflowError) as error:
        fact = f"column {name!r} holds what a column of Parquet cannot ({error})"
        raise DataError(f"{fact}; write .jsonl or .csv") from error


def _parquet(table: ArrowTable, added: DataFrame) -> bytes:
    from pyarrow.parquet import write_table

    for name, column in added.items():
        kind = "float64" if column.dtype.kind == "f" else "string"  # also where all are missing
        table = table.append_column(name, pyarrow.array(column, type=kind, from_pandas=True))
    write_table(table, out := pyarrow.BufferOutputStream())
    data: bytes = out.getvalue().to_pybytes()
    return data
