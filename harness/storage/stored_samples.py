"""Samples to a file without a name and back, for those that do not fit into memory."""

import os
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from tempfile import TemporaryFile
from typing import TypeVar, overload
from weakref import finalize

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.core import Sample
from harness.errors import StoreError

_MANY = 2_000  # the samples that are decoded at once
_Places = NDArray[np.int64]
_T = TypeVar("_T")


class SampleHead(msgspec.Struct):
    """What samples are chosen by; a tenth of a sample's cost to decode."""

    id: str
    group: str
    cluster: str


class StoredSamples(Sequence[Sample]):
    """Samples in a file without a name; 32 bytes of each are in memory."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        """Take in some samples, which need not be held by anything else."""
        with TemporaryFile() as file:
            self._file = os.dup(file.fileno())
        finalize(self, os.close, self._file)
        self._decoder = msgspec.msgpack.Decoder(Sample)
        sizes: list[_Places] = []
        names: list[NDArray[np.uint64]] = []
        each, encoder = iter(samples), msgspec.msgpack.Encoder()
        while some := list(islice(each, _MANY)):
            encoded = [encoder.encode(sample) for sample in some]
            self._add(b"".join(encoded))
            sizes.append(np.array([*map(len, encoded)], dtype=np.int64))
            names.append(np.array([_short(sample.id) for sample in some], dtype=np.uint64))
        ends = np.cumsum(np.concatenate([np.zeros(1, np.int64), *sizes]))
        self._starts, self._ends = ends[:-1], ends[1:]
        self._names = np.concatenate([np.zeros(0, np.uint64), *names])
        self._order = np.argsort(self._names, kind="stable")
        self._names = self._names[self._order]

    def _add(self, data: bytes) -> None:
        try:
            rest = memoryview(data)
            while rest:  # a write may be short
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            raise StoreError(
                f"samples that do not fit into memory cannot be kept on the disk "
                f"({error.strerror}); free some space, or name a folder that has it in TMPDIR, "
                "then repeat the command"
            ) from error

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, place: int) -> Sample: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Sample, ...]: ...
    def __getitem__(self, place: int | slice) -> Sample | tuple[Sample, ...]:
        if isinstance(place, slice):
            return tuple(self._each(np.arange(len(self))[place], self._decoder))
        start, end = int(self._starts[place]), int(self._ends[place])
        return self._decoder.decode(os.pread(self._file, end - start, start))

    def __iter__(self) -> Iterator[Sample]:
        return self._each(np.arange(len(self)), self._decoder)

    def heads(self) -> Iterator[SampleHead]:
        """The head of each sample, in order."""
        return self._each(np.arange(len(self)), msgspec.msgpack.Decoder(SampleHead))

    def at(self, places: Iterable[int]) -> "StoredSamples":
        """The samples at some places, in the order of these."""
        return StoredSamples(self._each(np.fromiter(places, dtype=np.int64), self._decoder))

    def named(self, name: str) -> Sample:
        """The sample of an id; KeyError where none has it."""
        # As its own type: else the whole column is converted for the comparison.
        short = np.uint64(_short(name))
        at = int(np.searchsorted(self._names, short))
        while at < len(self._names) and self._names[at] == short:
            if (sample := self[int(self._order[at])]).id == name:
                return sample
            at += 1
        raise KeyError(name)

    def repeated(self) -> list[str]:
        """The ids that more than one sample has."""
        alike = np.flatnonzero(self._names[1:] == self._names[:-1])
        ids = [self[int(self._order[at])].id for at in {*alike.tolist(), *(alike + 1).tolist()}]
        return sorted({name for name in ids if ids.count(name) > 1})

    def _each(self, places: _Places, decoder: msgspec.msgpack.Decoder[_T]) -> Iterator[_T]:
        """The samples at some places; samples that follow one another are read at once."""
        for begin in range(0, len(places), _MANY):
            some = places[begin : begin + _MANY]
            starts, ends = self._starts[some], self._ends[some]
            if (np.diff(some) == 1).all():
                base = int(starts[0])
                data = memoryview(os.pread(self._file, int(ends[-1]) - base, base))
                pairs = zip((starts - base).tolist(), (ends - base).tolist(), strict=True)
                yield from (decoder.decode(data[start:end]) for start, end in pairs)
                continue
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                yield decoder.decode(os.pread(self._file, end - start, start))


def _short(name: str) -> int:
    return int.from_bytes(blake2b(name.encode("utf-8", "replace"), digest_size=8).digest(), "big")
