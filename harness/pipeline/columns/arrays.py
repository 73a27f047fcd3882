"""Values of many records to arrays that grow by chunks: numbers, kinds, names, sparse details.

A missing number is NaN. Kinds are few and are known by number in the order they came in; names are
many, and what is kept of them is their alphabetical order. Knows no record.
"""

from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from harness.stats.estimate import Bools, Floats

Codes = NDArray[np.int32]
Texts = NDArray[Any]
"""Bytes, or objects where some are long."""
_T = TypeVar("_T", bound=np.generic)
_K = TypeVar("_K", bound=Hashable)
_LONGEST = 64  # bytes of a name up to which each has the room of the longest
_NEVER = np.int8(-1)
_HEX = 64  # letters of a sha256, of which half tell keys apart


class Grown(Generic[_T]):
    """An array that grows by chunks."""

    def __init__(self, kind: type[_T]) -> None:
        """Hold numbers of a kind, such as np.float64."""
        self._kind = kind
        self._chunks: list[NDArray[_T]] = []

    def __len__(self) -> int:
        """How many there are."""
        return sum(map(len, self._chunks))

    def add(self, values: Iterable[Any] | NDArray[Any], count: int) -> None:
        """Add `count` values."""
        is_array = isinstance(values, np.ndarray)
        made = values if is_array else np.fromiter(values, self._kind, count)
        self._chunks.append(np.asarray(made, dtype=self._kind))

    @property
    def array(self) -> NDArray[_T]:
        """All of them."""
        if len(self._chunks) != 1:
            self._chunks = [np.concatenate([np.zeros(0, self._kind), *self._chunks])]
        return self._chunks[0]


class Kinds(Generic[_K]):
    """A column of values of which few differ, such as variants."""

    def __init__(self) -> None:
        """Hold none yet."""
        self._codes, self._known = Grown(np.int32), dict[_K, int]()

    def add(self, values: Sequence[_K]) -> None:
        """Add some values."""
        known = self._known
        for value in dict.fromkeys(values):
            known.setdefault(value, len(known))
        self._codes.add(map(known.__getitem__, values), len(values))

    @property
    def kinds(self) -> list[_K]:
        """The values that differ, in the order they came in."""
        return list(self._known)

    @property
    def codes(self) -> Codes:
        """The place of each value among them."""
        return self._codes.array

    def code(self, value: _K) -> int:
        """The place of one value among them; -1 where it is not there."""
        return self._known.get(value, -1)


class Names:
    """A column of names of which many differ, such as those of samples."""

    def __init__(self, chunks: Sequence[NDArray[Any]] = ()) -> None:
        """Hold the names of some chunks."""
        self._chunks, self._long = [*chunks], dict[bytes, bytes]()

    def add(self, names: Sequence[str]) -> None:
        """Add some names."""
        found = [name_bytes(name) for name in names]
        if max(map(len, found), default=0) <= _LONGEST:
            self._chunks.append(np.array(found, dtype=bytes))
            return
        chunk = np.empty(len(found), dtype=object)
        chunk[:] = [self._long.setdefault(name, name) for name in found]
        self._chunks.append(chunk)

    def copy(self) -> "Names":
        """The same names so far; what is added to one is not in the other."""
        return Names(self._chunks)

    @property
    def bytes(self) -> Texts:
        """The names as bytes of the same order."""
        is_long = any(chunk.dtype == object for chunk in self._chunks)
        parts = [chunk.astype(object) if is_long else chunk for chunk in self._chunks]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=bytes)

    @property
    def ranks(self) -> Codes:
        """The place of each name in the alphabetical order of those that differ."""
        _, ranks = np.unique(self.bytes, return_inverse=True)
        return np.asarray(ranks, dtype=np.int32)


def name_bytes(name: str) -> bytes:
    """A name as bytes of the same order, without zeros, which an array of texts drops at ends."""
    made = name.encode("utf-8", "surrogatepass")
    if b"\0" in made or b"\1" in made:
        return made.replace(b"\1", b"\1\2").replace(b"\0", b"\1\1")
    return made


def name_text(made: bytes) -> str:
    """The name behind the bytes of `name_bytes`."""
    plain = made.replace(b"\1\1", b"\0").replace(b"\1\2", b"\1") if b"\1" in made else made
    return plain.decode("utf-8", "surrogatepass")


class Detail:
    """A column of numbers most of which are 0 and 1, or missing."""

    def __init__(self) -> None:
        """Hold none yet."""
        self._chunks: list[tuple[int, NDArray[Any]]] = []
        self._whole: NDArray[Any] | None = None

    def add(self, start: int, values: Floats) -> None:
        """Add the values of the rows from `start` on; rows that are left out have none."""
        is_flag = bool(((values == 0) | (values == 1) | np.isnan(values)).all())
        if is_flag:
            values = np.where(np.isnan(values), _NEVER, np.nan_to_num(values)).astype(np.int8)
        self._chunks.append((start, values))
        self._whole = None

    def at(self, places: NDArray[np.intp]) -> Floats:
        """The numbers of some rows, NaN where they are missing."""
        whole = self._joined()
        inside = places < len(whole)
        found = whole[np.where(inside, places, 0)] if len(whole) else np.full(len(places), np.nan)
        if found.dtype == np.int8:
            inside &= found >= 0
        return np.where(inside, found, np.nan)

    def _joined(self) -> NDArray[Any]:
        if self._whole is None:
            kinds = {chunk.dtype for _, chunk in self._chunks}
            is_flags = kinds == {np.dtype(np.int8)}
            end = max((start + len(chunk) for start, chunk in self._chunks), default=0)
            whole = np.full(end, _NEVER) if is_flags else np.full(end, np.nan)
            for start, chunk in self._chunks:
                is_plain = is_flags or chunk.dtype != np.int8
                made = chunk if is_plain else np.where(chunk < 0, np.nan, chunk)
                whole[start : start + len(chunk)] = made
            # In place of the chunks, not beside them.
            self._chunks, self._whole = [(0, whole)], whole
        return self._whole


class Lists:
    """A column of short lists of numbers."""

    def __init__(self) -> None:
        """Hold none yet."""
        self._sizes, self._values = Grown(np.int32), Grown(np.float64)
        self._starts = np.zeros(0, np.int64)

    def add(self, lists: Sequence[Sequence[float]]) -> None:
        """Add some lists."""
        self._sizes.add(map(len, lists), len(lists))
        if any(lists):
            self._values.add((value for one in lists for value in one), sum(map(len, lists)))

    @property
    def sizes(self) -> Codes:
        """The length of each."""
        return self._sizes.array

    def of_size(self, size: int, places: NDArray[np.intp]) -> Floats:
        """Those at some places, all of one size: places x size."""
        if len(self._starts) != len(self.sizes):
            self._starts = np.cumsum(self.sizes, dtype=np.int64) - self.sizes
        inside = self._starts[places][:, None] + np.arange(size)
        return np.asarray(self._values.array[inside])


class Keys:
    """A column of keys, as 16 bytes each: which are the same can be told, and nothing else."""

    def __init__(self) -> None:
        """Hold none yet."""
        self._chunks: list[NDArray[np.uint64]] = []

    def __len__(self) -> int:
        """How many there are."""
        return sum(map(len, self._chunks))

    def add(self, keys: Sequence[str]) -> None:
        """Add some keys."""
        data = b"".join(map(_short, keys))
        self._chunks.append(np.frombuffer(data, dtype=np.uint64).reshape(-1, 2))

    @property
    def array(self) -> NDArray[np.uint64]:
        """All of them, keys x 2."""
        self._chunks = [np.concatenate([np.zeros((0, 2), np.uint64), *self._chunks])]
        return self._chunks[0]


def _short(key: str) -> bytes:
    if len(key) == _HEX:
        with suppress(ValueError):
            return bytes.fromhex(key[: _HEX // 2])
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def numbered(keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """A number for each key, equal for equal keys alone."""
    order = np.argsort(keys[:, 0], kind="stable")
    differs = _differs(keys[order])
    if (differs[:, 1] & ~differs[:, 0]).any():  # half of two digests alike: nearly never
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        differs = _differs(keys[order])
    numbers = np.zeros(len(keys), dtype=np.intp)
    numbers[order[1:]] = np.cumsum(differs.any(axis=1))
    return numbers


def _differs(ordered: NDArray[np.uint64]) -> Bools:
    return np.asarray(ordered[1:] != ordered[:-1])


def last_of_each(keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """The places of the last of each key, in order."""
    numbers = numbered(keys)
    last = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=np.intp)
    np.maximum.at(last, numbers, np.arange(len(keys)))
    return np.sort(last)


def among(keys: NDArray[np.uint64], others: NDArray[np.uint64]) -> Bools:
    """Whether each key is one of some others."""
    numbers = numbered(np.concatenate([keys, others]))
    is_there = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=bool)
    is_there[numbers[len(keys) :]] = True
    return np.asarray(is_there[numbers[: len(keys)]])
