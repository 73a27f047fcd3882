"""The records of a run folder by their places, for those that do not fit into memory."""

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

from harness.storage.rebuilt import decoded, lines_in, refused
from harness.storage.runs import SAMPLES, RunFolder, SampleRecord, StoredRows


class PlacedRows(Sequence[SampleRecord]):
    """The records of a run folder, decoded when they are looked at; 8 bytes of each are held."""

    def __init__(self, folder: RunFolder) -> None:
        """Check the file, which StoreError tells of, and find where its lines end."""
        self._rows, self._path = StoredRows(folder), folder.path / SAMPLES
        sizes = (len(line) + 1 for line in lines_in(self._path))
        self._ends = np.cumsum(np.fromiter(sizes, dtype=np.int64, count=len(self._rows)))

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[SampleRecord]:
        return iter(self._rows)

    @overload
    def __getitem__(self, place: int) -> SampleRecord: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[SampleRecord, ...]: ...
    def __getitem__(self, place: int | slice) -> SampleRecord | tuple[SampleRecord, ...]:
        if isinstance(place, slice):
            return tuple(self[at] for at in range(len(self))[place])
        at = range(len(self))[place]
        start = int(self._ends[at - 1]) if at else 0
        try:
            with self._path.open("rb", buffering=0) as file:
                file.seek(start)
                line = file.read(int(self._ends[at]) - start)
        except OSError as error:
            raise refused(f"{self._path}: cannot be read ({error.strerror})") from error
        return decoded(line, SampleRecord, where=f"{self._path}:{at + 1}")
