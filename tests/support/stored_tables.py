"""The tables of a run folder, looked at and changed as somebody's hand might change them."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow.parquet import read_table, write_table


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_table(folder / f"{table}.parquet").to_pylist()
    return found


def edit(
    folder: Path, table: str, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> None:
    """Write the table with other rows, of the same columns."""
    path = folder / f"{table}.parquet"
    before = read_table(path)
    write_table(pyarrow.Table.from_pylist(change(before.to_pylist()), before.schema), path)


def replace_text(folder: Path, table: str, column: str, change: Callable[[str], str]) -> None:
    edit(
        folder,
        table,
        lambda found: [
            row | {column: row[column] if row[column] is None else change(row[column])}
            for row in found
        ],
    )


def samples(folder: Path) -> list[str]:
    return [row["sample"] for row in rows(folder, "samples")]


def renew_sums(folder: Path) -> None:
    """Make the list of sums fit what lies in the folder now."""
    names = sorted(line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines())
    sums = {name: sha256((folder / name).read_bytes()).hexdigest() for name in names}
    (folder / "SHA256SUMS").write_text("".join(f"{sums[name]}  {name}\n" for name in names))
