"""UTF-8 text files and CSV files to text and rows; every fault names file, fact and remedy.

Nothing here knows what a column means, nor changes a cell.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import DataError, did_you_mean


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table: where it starts, its cells by column, the cells under no name.

    Of columns that share a name the first has it, the others have none.
    """

    path: Path
    line: int
    cells: Mapping[str, str]
    overflow: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where the row stands, as errors name it."""
        return f"{self.path}:{self.line}"


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, without a byte order mark, its line ends as they are."""
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; fetch it, or name the folder it is in") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: not UTF-8 at byte {error.start}; fetch it again or save it as UTF-8"
        ) from error
    if not (text := text.removeprefix("\ufeff")).strip():
        raise DataError(f"{path}: the file is empty; fetch it again, or save it with its rows")
    return text


def read_rows(path: Path, required: Sequence[str]) -> list[TableRow]:
    """The rows of a CSV file whose first line names its columns, `required` among them."""
    try:
        (_, header), *records = _records(read_text(path))
    except csv.Error as error:
        raise DataError(
            f"{path}: not a CSV file ({error}); fetch it again, or save it as CSV"
        ) from error
    _check_header(path, header, required)
    if not records:
        raise DataError(f"{path}: no rows below the column names; fetch it again, or add rows")
    return [_row(path, header, line=line, record=record) for line, record in records]


def _records(text: str) -> Iterator[tuple[int, list[str]]]:
    """Each record that is not a blank line, after the number of the line it starts on."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    for record in reader:
        if record:
            yield line, record
        line = reader.line_num + 1


def _check_header(path: Path, header: list[str], required: Sequence[str]) -> None:
    """Refuse a header that lacks a required column, or names it twice."""
    named = [name for name in header if name]
    if missing := [name for name in required if name not in named]:
        hints = "; ".join(f"no column {name!r}{did_you_mean(name, named)}" for name in missing)
        if len(named) == 1 and any(mark in named[0] for mark in ";\t|"):
            hints += "; columns are told apart by commas, not by semicolons, tabs or bars"
        raise DataError(f"{path}: {hints}; fetch the file again or rename the column")
    if repeated := sorted({name for name in required if named.count(name) > 1}):
        raise DataError(f"{path}: columns named twice: {', '.join(repeated)}; rename one of each")


def _row(path: Path, header: list[str], *, line: int, record: list[str]) -> TableRow:
    """One record under its column names, refused where a named column has no cell."""
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
