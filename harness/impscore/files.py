"""Files of texts to columns, and back to files of the same rows with columns added.

CSV, TSV, JSON lines, Parquet and plain lines. What came in goes out: cells are not changed, rows
keep their order, JSON lines and Parquet columns keep their very form. Nothing here scores.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Protocol

from harness.errors import DataError
from harness.impscore.cells import Cells, arrow_column, delimited, json_text, parquet_bytes
from harness.specs.checked import nearest

if TYPE_CHECKING:
    from pyarrow import Table as ArrowTable

TEXT: Final = "text"
PARQUET_MARK: Final = b"PAR1"


class Layout(StrEnum):
    """How a file holds its rows."""

    CSV = "csv"
    TSV = "tsv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    LINES = "lines"


LAYOUTS: Final = {
    ".csv": Layout.CSV,
    ".tsv": Layout.TSV,
    ".jsonl": Layout.JSONL,
    ".ndjson": Layout.JSONL,
    ".parquet": Layout.PARQUET,
    ".txt": Layout.LINES,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column to be added: numbers or texts, null where a row has none."""

    name: str
    cells: Cells
    is_number: bool

    @property
    def kind(self) -> str:
        """Its type in Parquet, which it has even where all of it is null."""
        return "float64" if self.is_number else "string"


class Table(Protocol):
    """The rows of a file by column."""

    @property
    def layout(self) -> Layout:
        """How the file held them."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in their order; one may be there twice."""
        ...

    def __len__(self) -> int:
        """The number of rows."""
        ...

    def cells(self, place: int) -> list[object]:
        """The cells of the column at a place, a row each; null where a row has none."""
        ...

    def extended(self, added: Sequence[Column]) -> bytes:
        """The file with further columns behind its own."""
        ...


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows of text cells: CSV, TSV and plain lines."""

    layout: Layout
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def cells(self, place: int) -> list[object]:
        """The cells of a column; every row has one."""
        return [row[place] for row in self.rows]

    def extended(self, added: Sequence[Column]) -> bytes:
        """The rows with more cells each; lines become CSV."""
        names = (*self.columns, *(column.name for column in added))
        rows = [
            (*row, *(column.cells[place] for column in added))
            for place, row in enumerate(self.rows)
        ]
        return delimited(names, rows, mark=_mark(self.layout))


@dataclass(frozen=True, slots=True)
class JsonTable:
    """Objects of JSON, one a line; a key that some object has is a column."""

    columns: tuple[str, ...]
    lines: tuple[str, ...]
    objects: tuple[Mapping[str, object], ...]
    layout: Layout = Layout.JSONL

    def __len__(self) -> int:
        return len(self.lines)

    def cells(self, place: int) -> list[object]:
        """The values of a key."""
        return [one.get(self.columns[place]) for one in self.objects]

    def extended(self, added: Sequence[Column]) -> bytes:
        """The lines as they came, with more keys at the end of each."""
        ends = []
        for row, line in enumerate(self.lines):
            more = json_text({column.name: column.cells[row] for column in added})
            inner = line.rstrip()[:-1].rstrip()
            comma = "" if inner == "{" or not added else ", "
            ends.append(f"{inner}{comma}{more[1:]}\n")
        return "".join(ends).encode()


@dataclass(frozen=True, slots=True, eq=False)
class ParquetTable:
    """A Parquet file's table, with its types."""

    arrow: "ArrowTable"
    layout: Layout = Layout.PARQUET

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(self.arrow.column_names)

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def cells(self, place: int) -> list[object]:
        """The values of a column."""
        values: list[object] = self.arrow.column(place).to_pylist()
        return values

    def extended(self, added: Sequence[Column]) -> bytes:
        """The table with more columns, its own as they are."""
        table = self.arrow
        for column in added:
            table = table.append_column(
                column.name, arrow_column(column.name, column.cells, column.kind)
            )
        return parquet_bytes(table)


def layout_of(name: str, data: bytes, *, has_column: bool) -> Layout:
    """The layout of a file by its content, then its name; `-` and others by what was asked.

    JSON lines begin with a brace; of other text a column makes CSV, none plain lines.
    """
    if data.startswith(PARQUET_MARK):
        return Layout.PARQUET
    if (found := LAYOUTS.get(PurePath(name).suffix.lower())) is not None:
        return found
    if data.lstrip().startswith(b"{"):
        return Layout.JSONL
    return Layout.CSV if has_column else Layout.LINES


def read_table(name: str, data: bytes, layout: Layout) -> Table:
    """The rows of a file's content; `name` is told in errors."""
    if layout is Layout.PARQUET:
        return _read_parquet(name, data)
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    if not text:
        raise DataError(f"{name}: the file is empty; give one with texts")
    match layout:
        case Layout.JSONL:
            return _read_json(name, text)
        case Layout.LINES:
            lines = text.removesuffix("\n").split("\n")
            return TextTable(layout, (TEXT,), tuple((line.removesuffix("\r"),) for line in lines))
        case _:
            return _read_delimited(name, text, layout)


def column_of(table: Table, name: str | None, *, where: str) -> list[object]:
    """The cells of a column, by default of the one called text; they must be told apart by name.

    A column without a single text among its cells is refused: it is the wrong one.
    """
    wanted = TEXT if name is None else name
    places = [place for place, column in enumerate(table.columns) if column == wanted]
    if len(places) != 1:
        fact = "no column" if not places else f"{len(places)} columns are called"
        remedy = "give one in --column" if name is None else "correct --column or rename one"
        raise DataError(f"{where}: {fact} {wanted!r}{nearest(wanted, [*table.columns])}; {remedy}")
    cells = table.cells(places[0])
    kinds = sorted({type(cell).__name__ for cell in cells if cell is not None})
    if kinds and "str" not in kinds:
        raise DataError(
            f"{where}: column {wanted!r} holds {' and '.join(kinds)}, no text; "
            f"name another: {', '.join(table.columns)}"
        )
    return cells


def extended(table: Table, added: Sequence[Column], layout: Layout) -> bytes:
    """A file of the table's rows with further columns, in its own layout or another."""
    for column in added:
        if column.name in table.columns:
            raise DataError(
                f"there is a column {column.name!r} already; give the new one a name by --as"
            )
    if layout is table.layout:
        return table.extended(added)
    own = [(name, table.cells(place)) for place, name in enumerate(table.columns)]
    names = [*table.columns, *(column.name for column in added)]
    rows = list(zip(*(c for _, c in own), *(c.cells for c in added), strict=True))
    if layout in (Layout.CSV, Layout.TSV, Layout.LINES):
        return delimited(names, rows, mark=_mark(layout))
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"two columns are called {twice[0]!r}; rename one, or write CSV")
    if layout is Layout.JSONL:
        return "".join(
            f"{json_text(dict(zip(names, row, strict=True)))}\n" for row in rows
        ).encode()
    from pyarrow import table as arrow_table

    columns = {name: arrow_column(name, cells) for name, cells in own}
    return parquet_bytes(
        arrow_table(columns | {c.name: arrow_column(c.name, c.cells, c.kind) for c in added})
    )


def _read_delimited(name: str, text: str, layout: Layout) -> TextTable:
    """The rows of a CSV or TSV file, whose first line names the columns."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_mark(layout), strict=True)
    try:
        records = [(reader.line_num, tuple(record)) for record in reader if record]
    except csv.Error as error:
        raise DataError(f"{name}: line {reader.line_num} is not {layout}: {error}") from error
    header = records[0][1] if records else ()
    for line, record in records:
        if len(record) != len(header):
            raise DataError(
                f"{name}: the row that ends in line {line} has {len(record)} cells under "
                f"{len(header)} columns; quote cells that hold a {_mark(layout)!r}"
            )
    if len(records) < 2:
        raise DataError(f"{name}: no rows below the names of the columns; give a file with texts")
    return TextTable(layout, header, tuple(record for _, record in records[1:]))


def _read_json(name: str, text: str) -> JsonTable:
    """The objects of a file, one a line."""
    lines, objects = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError as error:
            raise DataError(f"{name}:{number}: not JSON: {error}; correct the line") from error
        if not isinstance(found, dict):
            raise DataError(f"{name}:{number}: a {type(found).__name__}, no object; one a line")
        lines.append(line)
        objects.append(found)
    if not lines:
        raise DataError(f"{name}: no objects; give a file with texts")
    columns = dict.fromkeys(key for one in objects for key in one)
    return JsonTable(tuple(columns), tuple(lines), tuple(objects))


def _read_parquet(name: str, data: bytes) -> ParquetTable:
    """The table of a Parquet file."""
    import pyarrow
    from pyarrow import parquet

    try:
        return ParquetTable(parquet.read_table(pyarrow.BufferReader(data)))
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{name}: not a Parquet file ({error}); copy it again") from error


def _mark(layout: Layout) -> str:
    return "\t" if layout is Layout.TSV else ","
