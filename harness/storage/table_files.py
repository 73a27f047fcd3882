"""Files of texts to columns, and back to files of the same rows with columns added.

CSV, TSV, JSON lines, Parquet and plain lines. What came in goes out: rows keep their order, JSON
lines and Parquet columns their very form, CSV and TSV cells are not changed. Nothing here scores.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

from harness.errors import DataError, did_you_mean
from harness.storage.cells import (
    Cells,
    arrow_column,
    delimited,
    json_text,
    parquet_bytes,
    repair_json,
)
from harness.storage.layouts import FileFormat

if TYPE_CHECKING:
    from pyarrow import Table as ArrowTable

TEXT: Final = "text"
COMMAS: Final = "semicolons part its column names: save it with commas, or as .tsv"
Quotes = Literal["standard", "none"]


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
    def layout(self) -> FileFormat:
        """How the file held them."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in their order; one may be there twice."""
        ...

    @property
    def lines(self) -> Sequence[int]:
        """The line that each row begins in, from 1; in Parquet a line is a row."""
        ...

    def __len__(self) -> int:
        """The number of rows."""
        ...

    def cells(self, place: int) -> list[object]:
        """The cells of the column at a place, a row each; null where a row has none."""
        ...


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows of text cells: CSV, TSV and plain lines."""

    layout: FileFormat
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: Sequence[int]

    def __len__(self) -> int:
        return len(self.rows)

    def cells(self, place: int) -> list[object]:
        """The cells of a column; every row has one."""
        return [row[place] for row in self.rows]


@dataclass(frozen=True, slots=True)
class JsonTable:
    """Objects of JSON, one a line; a key that some object has is a column."""

    columns: tuple[str, ...]
    texts: tuple[str, ...]
    objects: tuple[Mapping[str, object], ...]
    lines: Sequence[int]
    layout: FileFormat = FileFormat.JSONL

    def __len__(self) -> int:
        return len(self.texts)

    def cells(self, place: int) -> list[object]:
        """The values of a key."""
        return [one.get(self.columns[place]) for one in self.objects]

    def extended(self, added: Sequence[Column]) -> bytes:
        """The lines as they came, with more keys at the end of each."""
        ends = []
        for row, text in enumerate(self.texts):
            more = json_text({column.name: column.cells[row] for column in added})
            inner = text.rstrip()[:-1].rstrip()
            comma = "" if inner == "{" or not added else ", "
            ends.append(f"{inner}{comma}{more[1:]}\n")
        return "".join(ends).encode()


@dataclass(frozen=True, slots=True, eq=False)
class ParquetTable:
    """A Parquet file's table, with its types."""

    arrow: "ArrowTable"
    layout: FileFormat = FileFormat.PARQUET

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(self.arrow.column_names)

    @property
    def lines(self) -> Sequence[int]:
        """The numbers of the rows."""
        return range(1, len(self) + 1)

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def cells(self, place: int) -> list[object]:
        """The values of a column; bytes that are no UTF-8 are U+FFFD in its texts."""
        column = self.arrow.column(place)
        try:
            values: list[object] = column.to_pylist()
        except UnicodeDecodeError:
            cells = column.cast("large_binary").to_pylist()
            return [None if cell is None else cell.decode("utf-8", "replace") for cell in cells]
        return values

    def extended(self, added: Sequence[Column]) -> bytes:
        """The table with more columns, its own as they are."""
        table = self.arrow
        for column in added:
            table = table.append_column(
                column.name, arrow_column(column.name, column.cells, column.kind)
            )
        return parquet_bytes(table)


def read_table(
    name: str, data: bytes, layout: FileFormat, *, quotes: Quotes | None = None
) -> Table:
    """The rows of a file's content; `name` is told in errors.

    With `quotes: none` a quotation mark in CSV or TSV is a character like any other, and a line
    end always ends the row; null is standard, where errors are not to name that key.
    """
    if layout is FileFormat.PARQUET:
        return _read_parquet(name, data)
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    if not text:
        raise DataError(f"{name}: the file is empty; give one with texts")
    match layout:
        case FileFormat.JSONL:
            return _read_json(name, text)
        case FileFormat.LINES:
            lines = text.removesuffix("\n").split("\n")
            rows = tuple((line.removesuffix("\r"),) for line in lines)
            return TextTable(layout, (TEXT,), rows, range(1, len(rows) + 1))
        case _:
            return _read_delimited(name, text, layout, quotes=quotes)


def column_of(table: Table, name: str | None, *, where: str) -> list[object]:
    """The cells of a column, by default of the one called text; they must be told apart by name.

    A column without a single text among its cells is refused: it is the wrong one.
    """
    wanted = TEXT if name is None else name
    places = [place for place, column in enumerate(table.columns) if column == wanted]
    if len(places) != 1:
        remedy = "give one in --column" if name is None else "correct --column"
        remedy = COMMAS if _has_semicolons(table.columns) else remedy
        raise DataError(
            f"{where}: {len(places)} columns are called {wanted!r}; rename all but one"
            if places
            else f"{where}: no column {wanted!r}{did_you_mean(wanted, [*table.columns])}; {remedy}"
        )
    cells = table.cells(places[0])
    kinds = sorted({type(cell).__name__ for cell in cells if cell is not None})
    if "str" not in kinds:
        others = ", ".join(column for column in table.columns if column != wanted)
        raise DataError(
            f"{where}: column {wanted!r} holds {' and '.join(kinds) or 'nulls alone'}, no text; "
            + (f"name another: {others}" if others else "there is no other: give a file with texts")
        )
    return cells


def extended(table: Table, added: Sequence[Column], layout: FileFormat) -> bytes:
    """A file of the table's rows with further columns, in its own layout or another.

    Lines become CSV. Texts that come into CSV or TSV from another layout are safe from being
    taken for formulas.
    """
    for column in added:
        if column.name in table.columns:
            raise DataError(
                f"there is a column {column.name!r} already; give the new one a name by --as"
            )
    if isinstance(table, JsonTable | ParquetTable) and layout is table.layout:
        return table.extended(added)
    own = [(name, table.cells(place)) for place, name in enumerate(table.columns)]
    names = [*table.columns, *(column.name for column in added)]
    rows = list(zip(*(c for _, c in own), *(c.cells for c in added), strict=True))
    if layout in (FileFormat.CSV, FileFormat.TSV, FileFormat.LINES):
        is_delimited = table.layout in (FileFormat.CSV, FileFormat.TSV)
        return delimited(names, rows, mark=layout.mark, as_is=len(own) if is_delimited else 0)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"two columns are called {twice[0]!r}; rename one, or write CSV")
    if layout is FileFormat.JSONL:
        return "".join(
            f"{json_text(dict(zip(names, row, strict=True)))}\n" for row in rows
        ).encode()
    from pyarrow import table as arrow_table

    columns = {name: arrow_column(name, cells) for name, cells in own}
    return parquet_bytes(
        arrow_table(columns | {c.name: arrow_column(c.name, c.cells, c.kind) for c in added})
    )


def _read_delimited(
    name: str, text: str, layout: FileFormat, *, quotes: Quotes | None
) -> TextTable:
    """The rows of a CSV or TSV file, whose first line names the columns."""
    usual = csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # it holds for all readers
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=layout.mark,
        quoting=csv.QUOTE_NONE if quotes == "none" else csv.QUOTE_MINIMAL,
        strict=True,
    )
    hint = ", or say `quotes: none` where its marks quote nothing" if quotes else ""
    line, records = 1, list[tuple[int, tuple[str, ...]]]()
    try:
        for record in reader:
            records += [(line, tuple(record))] if record else []
            line = reader.line_num + 1
    except csv.Error as error:
        is_semicolons = _has_semicolons(text.partition("\n")[0].split(layout.mark))
        remedy = COMMAS if is_semicolons else f"correct its quotes{hint}"
        raise DataError(f"{name}:{reader.line_num}: not a table ({error}); {remedy}") from error
    finally:
        csv.field_size_limit(usual)
    header = records[0][1] if records else ()
    lines, rows = [line for line, _ in records[1:]], [record for _, record in records[1:]]
    for place, row in zip(lines, rows, strict=True):
        if len(row) != len(header):
            raise DataError(
                f"{name}:{place}: {len(row)} cells under {len(header)} column names; "
                f"{_remedy(header, row)}{hint}"
            )
    if not rows:
        raise DataError(f"{name}: no rows below the column names; give a file that has some")
    return TextTable(layout, header, tuple(rows), lines)


def _remedy(header: Sequence[str], row: Sequence[str]) -> str:
    """What to do where a row has more cells, or fewer, than there are column names."""
    if _has_semicolons(header):
        return COMMAS
    if len(row) < len(header):
        return "write the cells that are missing, or quote a line end within a cell"
    return "quote the row's separators and line ends"


def _has_semicolons(header: Sequence[str]) -> bool:
    """Whether column names look like one line of semicolons, as some spreadsheets save CSV."""
    return sum(name.count(";") for name in header) > len(header) - 1


def _read_json(name: str, text: str) -> JsonTable:
    """The objects of a file, one a line; halves of characters in them are U+FFFD."""
    numbers, texts, objects = list[int](), list[str](), list[dict[str, object]]()
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            found = repair_json(json.loads(line))
        except ValueError as error:
            raise DataError(f"{name}:{number}: not JSON ({error}); correct the line") from error
        if not isinstance(found, dict):
            raise DataError(
                f"{name}:{number}: {type(found).__name__}, not an object; correct the line"
            )
        numbers.append(number)
        texts.append(line)
        objects.append(found)
    if not objects:
        raise DataError(f"{name}: no objects; give a file with texts")
    columns = dict.fromkeys(key for one in objects for key in one)
    return JsonTable(tuple(columns), tuple(texts), tuple(objects), numbers)


def _read_parquet(name: str, data: bytes) -> ParquetTable:
    """The table of a Parquet file."""
    import pyarrow
    from pyarrow import parquet

    try:
        table = ParquetTable(parquet.read_table(pyarrow.BufferReader(data)))
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{name}: not a Parquet file ({error}); copy it again") from error
    if not len(table):
        raise DataError(f"{name}: no rows; give a file with texts")
    return table
