"""Published numbers, recomputed: from released data, stored answers or other published ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.lazy import DataFrame, pandas
from harness.storage.tables import read_rows

Values = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Recomputation:
    """`compute` takes the folder of a source, which must have the files."""

    compute: Callable[[Path], Values]
    source: str
    files: tuple[str, ...]


def read_csvs(folder: Path, names: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """The rows of released CSV files as texts, with the name of their `file`."""
    rows = [
        {**row.cells, "file": name} for name in names for row in read_rows(folder / name, columns)
    ]
    return pandas.DataFrame(rows, dtype=object)
