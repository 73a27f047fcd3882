"""Tables for papers made by hand, and what tests ask of those that are made of runs."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from harness.analysis.tables.pivot import SHOWN, PaperTable
from harness.storage.frames import Row


def cells(*rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """The cells of a table, from what is known of each."""
    made = [
        {"row": at, "column": n, "is_best": False, "reason": "", **cell}
        for at, row in enumerate(rows)
        for n, cell in enumerate(row)
    ]
    frame = pd.DataFrame(made).reindex(columns=["row", "column", *SHOWN])
    return frame.astype({"n": "Int64", "rank": "Int64"})


def of_rows(table: PaperTable) -> dict[tuple[str, ...], list[Row]]:
    return {names: found for names, _, found in table.lines()}


def values(table: PaperTable) -> dict[tuple[str, ...], tuple[float | None, ...]]:
    return {names: tuple(cell.value for cell in own) for names, own in of_rows(table).items()}
