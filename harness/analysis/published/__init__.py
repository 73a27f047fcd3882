"""Published numbers, recomputed: from released data, stored answers or other published ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.errors import DataError
from harness.lazy import DataFrame, pandas
from harness.storage.cells import decode_json
from harness.storage.tables import read_rows, read_text

_T = TypeVar("_T")
Values = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Recomputation:
    """`compute` takes the folder of a source, which must have the files."""

    compute: Callable[[Path], Values]
    source: str
    files: tuple[str, ...]


def read_json(path: Path, kind: type[_T]) -> _T:
    """The content of a released JSON file; DataError where its layout is another."""
    try:
        content: _T = decode_json(read_text(path), kind)
    except msgspec.DecodeError as error:
        raise DataError(f"{path}: not the released layout: {error}; fetch it again") from error
    return content


def read_csvs(folder: Path, names: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """The rows of released CSV files as texts, with their `file` and `place`, as errors name it."""
    rows = [(name, row) for name in names for row in read_rows(folder / name, columns)]
    cells = [{**row.cells, "file": name, "place": row.place} for name, row in rows]
    return pandas.DataFrame(cells, dtype=object)
