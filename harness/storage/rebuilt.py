"""Files that can be rebuilt from the ledger, read: whole, in blocks, decoded.

An error names the file and what is wrong, and says to repeat the run.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.errors import StoreError
from harness.storage.cells import decode_json
from harness.storage.files import sum_of

_T = TypeVar("_T")
_BLOCK = 1 << 20


def found_sum(path: Path) -> str:
    """The sha256 of a file in hex; "none" where there is no plain one that can be read."""
    with suppress(OSError):
        if path.is_file():
            return sum_of(path)
    return "none"


def read_bytes(path: Path) -> bytes:
    """All of a file."""
    return b"".join(blocks_of(path))


def blocks_of(path: Path) -> Iterator[bytes]:
    """A file in parts of at most a megabyte."""
    if path.exists() and not path.is_file():  # a pipe might never end
        raise refused(f"{path}: not a plain file")
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                yield block
    except OSError as error:
        raise refused(f"{path}: cannot be read ({error.strerror})") from error


def decoded(data: bytes, kind: type[_T], *, where: str) -> _T:
    """What some bytes hold; StoreError where that is damaged."""
    try:
        found: _T = decode_json(data, kind)
    except (msgspec.DecodeError, ValueError) as error:
        raise refused(f"{where}: damaged ({error})") from error
    return found


def refused(fact: str) -> StoreError:
    """The error of a file that is not to be believed."""
    return StoreError(f"{fact}; repeat the run to rebuild it")
