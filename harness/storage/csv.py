"""Cells to lines of CSV that no spreadsheet program takes for formulas."""

import csv
import io
from collections.abc import Sequence


def _cell(value: object) -> str:
    if value is None:
        return ""
    return formula_safe(value) if isinstance(value, str) else repr(value)


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def formula_safe(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def csv_line(values: Sequence[object]) -> str:
    """One line of a CSV table: floats in full precision, null empty, texts formula-safe."""
    # With the default line end, cells that hold \r or \n are quoted; with \n, only the latter.
    out = io.StringIO(newline="")
    csv.writer(out).writerow([_cell(value) for value in values])
    return out.getvalue().removesuffix("\r\n") + "\n"
