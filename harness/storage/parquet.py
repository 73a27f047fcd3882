"""Rows to Parquet in parts, for what does not fit into memory."""

from collections.abc import Iterable, Iterator, Mapping
from io import RawIOBase
from itertools import islice
from typing import TYPE_CHECKING

from harness.errors import DataError
from harness.lazy import pyarrow

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from pyarrow import Schema

ROWS = 2_000
"""The rows that are held, and written or read, at once."""
_OURS = "harness."


class _Drained(RawIOBase):
    """A file whose bytes are taken out as they come."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: "ReadableBuffer") -> int:
        self._parts.append(bytes(data))
        self._size += len(self._parts[-1])
        return len(self._parts[-1])

    def taken(self) -> bytes:
        """What was written since."""
        data = b"".join(self._parts)
        self._parts.clear()
        return data


def parquet_blocks(
    schema: "Schema", rows: Iterable[Mapping[str, object]], *, remedy: str
) -> Iterator[bytes]:
    """A file of Parquet in parts: a group of rows is held; DataError for what it cannot hold."""
    from pyarrow.parquet import ParquetWriter

    file, left = _Drained(), iter(rows)
    try:
        with ParquetWriter(file, schema) as writer:
            while group := list(islice(left, ROWS)):
                writer.write_table(pyarrow.Table.from_pylist(group, schema))
                yield file.taken()
        yield file.taken()
    except (pyarrow.ArrowException, UnicodeEncodeError, OverflowError) as error:
        raise DataError(f"Parquet cannot hold a value ({error}); {remedy}") from error
