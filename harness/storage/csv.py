"""Rows to the text of a CSV table that no spreadsheet program takes for formulas."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TypeVar

_R = TypeVar("_R")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV: floats in full precision, None as an empty cell, texts formula-safe."""
    return "".join(map(_line, (columns, *rows)))


def records_csv(kind: type[_R], records: Iterable[_R]) -> str:
    """Records of one dataclass as CSV: a column a field, a row a record."""
    columns = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # any dataclass
    return csv_text(columns, ([getattr(one, name) for name in columns] for one in records))


def formula_safe(text: str) -> str:
    """Text that no spreadsheet takes for a formula: an apostrophe before =, +, - and the like."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _line(values: Iterable[object]) -> str:
    # With the default line end, cells that hold \r or \n are quoted; with \n, only the latter.
    out = io.StringIO(newline="")
    csv.writer(out).writerow([_cell(value) for value in values])
    return out.getvalue().removesuffix("\r\n") + "\n"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return formula_safe(value) if isinstance(value, str) else repr(value)
