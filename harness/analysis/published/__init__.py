"""Published numbers, recomputed: from released data, stored answers or other printed numbers.

Released data are those of `datasets` and `ishate`, stored answers those of `answers`, numbers that
others follow from those of `printed`.

A recomputation turns the files of one source, or numbers printed with the cells, into named
values, which `verify` compares with the published ones. Read `datasets` first. Nothing here knows
what was published.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.errors import DataError
from harness.storage.cells import decode_json
from harness.storage.tables import read_text

_T = TypeVar("_T")
Values = Mapping[str, float | None]
Inputs = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class FromFiles:
    """A recomputation from files of a source: `compute` takes the source's folder."""

    source: str
    files: tuple[str, ...]
    compute: Callable[[Path], Values]


@dataclass(frozen=True, slots=True)
class FromInputs:
    """A recomputation from numbers that are printed with the cells."""

    compute: Callable[[Inputs], Values]


def read_json(path: Path, kind: type[_T]) -> _T:
    """The content of a released JSON file; DataError where its layout is another."""
    try:
        content: _T = decode_json(read_text(path), kind)
    except msgspec.DecodeError as error:
        raise DataError(f"{path}: not the released layout: {error}; fetch it again") from error
    return content
