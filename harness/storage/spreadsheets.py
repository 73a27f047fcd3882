"""Files as spreadsheet programs save them to rows: CSV with any separator, and XLSX.

CSV may have a byte order mark, and commas, semicolons or tabs between its cells. With semicolons,
numbers may have decimal commas, as in much of Europe. Of XLSX the first sheet is read; no formula
is run.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.errors import DataError, install
from harness.storage.cells import cell_text, long_cells
from harness.storage.tables import Record, TableRow, checked_rows, read_rows, read_text

SEPARATORS = (",", ";", "\t")


@dataclass(frozen=True, slots=True)
class SpreadsheetRows:
    """The rows of a file that have any cell filled, and whether 4,5 is a number in them."""

    rows: Sequence[TableRow]
    has_decimal_commas: bool


def read_spreadsheet(path: Path, required: Sequence[str]) -> SpreadsheetRows:
    """The rows of a CSV or XLSX file whose first row names its columns, `required` among them.

    Raises DataError for a missing or repeated column, and where XLSX cannot be read.
    """
    is_xlsx = path.suffix.lower() == ".xlsx"
    separator = "" if is_xlsx else _separator(read_text(path), required)
    rows = (
        checked_rows(path, _xlsx_records(path), required)
        if is_xlsx
        else read_rows(path, required, separator=separator)
    )
    filled = [row for row in rows if any(cell.strip() for cell in row.cells.values())]
    return SpreadsheetRows(filled, has_decimal_commas=separator in ("", ";"))


def _separator(text: str, required: Sequence[str]) -> str:
    """The mark between the column names: the one that leaves most of those that are required."""
    head = text.lstrip("\r\n").splitlines()[0]

    def named(mark: str) -> tuple[int, int]:
        names = next(csv.reader([head], delimiter=mark))
        return sum(name in names for name in required), len(names)

    with long_cells(len(head)):
        return max(SEPARATORS, key=named)


def _xlsx_records(path: Path) -> list[Record]:
    if find_spec("openpyxl") is None:
        raise DataError(
            f"{path}: to read XLSX, the package openpyxl is needed, not installed here; run: "
            f"{install('sheets')}, or save the file as CSV UTF-8"
        )
    import openpyxl

    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        rows: list[tuple[Any, ...]] = list(book.worksheets[0].iter_rows(values_only=True))
        book.close()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; correct the path") from None
    except Exception as error:  # openpyxl raises what zip, XML and its own checks raise
        raise DataError(
            f"{path}: not an XLSX file ({error}); save it again, or as CSV UTF-8"
        ) from error
    width = max((len(row) for row in rows), default=0)
    return [
        (line, tuple(cell_text(cell) for cell in (*row, *[None] * (width - len(row)))))
        for line, row in enumerate(rows, 1)
        if any(cell is not None for cell in row)
    ]
