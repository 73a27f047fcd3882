"""Bytes that do not fit into memory, to a file without a name and back.

Such a file goes with its process, however that ends. Nothing here knows what a sample means.
"""

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from weakref import finalize

from harness.errors import StoreError

_BLOCK = 1 << 20


class Spool:
    """Bytes that are added in parts, with their sha256, and read back in blocks."""

    def __init__(self, folder: Path | None = None) -> None:
        """Begin a file in `folder`, or in the nearest above it that exists; None: where others are.

        Raises StoreError where nothing can be written.
        """
        there = folder and next((one for one in (folder, *folder.parents) if one.is_dir()), None)
        try:
            with TemporaryFile(dir=there) as file:
                self._file = os.dup(file.fileno())
        except OSError as error:
            raise _full(error) from error
        self.close = finalize(self, os.close, self._file)
        """Gives the room on the disk back; so does nobody's holding the spool."""
        self._sum, self.size = sha256(), 0

    def add(self, data: bytes) -> None:
        """Add some bytes; raises StoreError where the disk has no room for them."""
        rest = memoryview(data)
        try:
            while rest:  # a write may be short
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            raise _full(error) from error
        self._sum.update(data)
        self.size += len(data)

    @property
    def digest(self) -> str:
        """The sha256, in hex, of all that was added."""
        return self._sum.hexdigest()

    def blocks(self) -> Iterator[bytes]:
        """All that was added, in parts of at most a megabyte."""
        for start in range(0, self.size, _BLOCK):
            yield os.pread(self._file, min(_BLOCK, self.size - start), start)

    def part(self, start: int, size: int) -> bytes:
        """Some bytes of what was added."""
        return os.pread(self._file, size, start)


def _full(error: OSError) -> StoreError:
    return StoreError(
        f"what does not fit into memory cannot be kept on the disk ({error.strerror}); free some "
        "space, or name a folder that has it in TMPDIR, then repeat the command"
    )
