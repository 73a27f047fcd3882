"""Where each call of a ledger is: segments of JSON lines to sorted arrays of keys and places.

No line of the usual form is decoded; 24 bytes a call are held.
"""

import logging
import os
import socket
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.errors import StoreError
from harness.storage.cells import decode_json

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_WARNED: set[tuple[Path, int]] = set()
"""Torn segments that were reported, with their sizes: a run reads a ledger several times."""
_OPENING, _CLOSING = b'{"key":"', b'","'
"""What is before a key, and behind it, in a line as we write it."""
_SHORT, _BLOCK, _IDLE_S = 16, 4096, 600.0
"""The digits of a key in the index; the lines taken into it at once; when a segment is left."""
_HEX = frozenset(b"0123456789abcdef")
_PLACE = np.dtype([("key", "u8"), ("segment", "u4"), ("line", "u4"), ("offset", "u8")])
_Places = NDArray[np.void]


class Call(msgspec.Struct):
    """A stored call, its request and response not decoded; `time` is in seconds since 1970."""

    key: str
    time: float
    response: msgspec.Raw
    request: msgspec.Raw = msgspec.Raw(b"null")


class Line(NamedTuple):
    """A line of a segment, as it is, and its number in it, from 1."""

    path: Path
    number: int
    data: bytes

    @property
    def call(self) -> Call:
        """The call that the line holds; StoreError where it is damaged."""
        return self.decoded(self.data, Call)

    def decoded(self, part: bytes | msgspec.Raw, kind: type[_T]) -> _T:
        """What a part of the line holds; StoreError, which names the line, where it is damaged."""
        try:
            found: _T = decode_json(part, kind)
        except (msgspec.DecodeError, ValueError) as error:
            raise StoreError(
                f"{self.path}:{self.number}: damaged record ({error}); restore the file from a "
                "copy, or delete that line to have its call asked again"
            ) from error
        return found


@dataclass(slots=True)
class _Segment:
    path: Path
    inode: int
    size: int = 0  # of the whole lines that are in the index
    lines: int = 0


class LedgerIndex:
    """The places of the calls in the segments of one folder; it grows with these."""

    def __init__(self, folder: Path, *, is_snapshot: bool = False) -> None:
        """Index the segments in `folder`, which need not exist; nothing is read yet."""
        self._folder, self._is_snapshot = folder, is_snapshot
        self._segments: list[_Segment] = []
        self._parts: list[_Places] = []

    def lines(self, keys: Collection[str]) -> Iterator[Line]:
        """The lines of these keys, in their order; some of keys that begin alike may be there."""
        self._refresh()
        found = self._places(keys)
        for number in sorted({*found["segment"].tolist()}, key=lambda n: self._segments[n].path):
            own = np.sort(found[found["segment"] == number], order="offset")
            yield from _read(self._segments[number].path, own)

    def count(self, keys: Collection[str]) -> int:
        """How many of these keys have a line."""
        self._refresh()
        return len(np.unique(self._places(keys)["key"]))

    def _places(self, keys: Collection[str]) -> _Places:
        wanted = np.unique(np.fromiter(map(_short, keys), dtype=np.uint64, count=len(keys)))
        found = [np.empty(0, dtype=_PLACE)]
        for part in self._parts:
            starts = np.searchsorted(part["key"], wanted, side="left")
            counts = np.searchsorted(part["key"], wanted, side="right") - starts
            # The place of each match: from the first of its key on, one after the other.
            firsts = np.repeat(np.cumsum(counts) - counts, counts)
            found.append(part[np.repeat(starts, counts) + np.arange(counts.sum()) - firsts])
        return np.concatenate(found)

    def _refresh(self) -> None:
        """Take in what was added since; all again if a segment went, shrank or was replaced."""
        if self._is_snapshot and self._parts:
            return
        stats = {path: _stat(path) for path in segments(self._folder)}
        for one in self._segments:
            now = stats.get(one.path)
            if now is None or now.st_ino != one.inode or now.st_size < one.size:
                self._segments, self._parts = [], []
                break
        known = {segment.path for segment in self._segments}
        self._segments += [_Segment(p, now.st_ino) for p, now in stats.items() if p not in known]
        for number, segment in enumerate(self._segments):
            self._take_in(segment, number)

    def _take_in(self, segment: _Segment, number: int) -> None:
        """Add the whole lines of a segment that are not in the index yet."""
        found = raw_lines(segment.path, start=segment.size, before=segment.lines)
        added: list[_Places] = []
        while lines := list(islice(found, _BLOCK)):
            part = np.empty(len(lines), dtype=_PLACE)
            part["key"], part["segment"] = _keys(lines), number
            part["line"] = np.arange(lines[0].number, lines[0].number + len(lines))
            sizes = np.fromiter((len(line.data) for line in lines), dtype=np.uint64)
            part["offset"] = segment.size + np.cumsum(sizes) - sizes
            segment.size += int(sizes.sum())
            segment.lines += len(lines)
            added.append(part)
        if added:
            self._parts.append(_sorted(added))
        while len(self._parts) > 1 and len(self._parts[-1]) * 2 > len(self._parts[-2]):
            # So that there are few parts, and a call is sorted few times.
            self._parts[-2:] = [_sorted(self._parts[-2:])]


def _sorted(parts: list[_Places]) -> _Places:
    whole = np.concatenate(parts)
    return whole[np.argsort(whole["key"], kind="stable")]


def _keys(lines: list[Line]) -> NDArray[np.uint64]:
    """The beginnings of the keys of some lines; those of our own form are not decoded."""
    usual = [
        data[8 : 8 + _SHORT]
        if data[:8] == _OPENING and data[72:75] == _CLOSING and data[-2:] == b"}\n"
        else b""
        for data in (line.data for line in lines)
    ]
    joined = b"".join(usual)
    if len(joined) == len(lines) * _SHORT and _HEX.issuperset(joined):
        return np.frombuffer(bytes.fromhex(joined.decode()), dtype=">u8").astype(np.uint64)
    keys = (_short(line.call.key) for line in lines)
    return np.fromiter(keys, dtype=np.uint64, count=len(lines))


def _short(key: str) -> int:
    if len(key) == 64 and _HEX.issuperset(key[:_SHORT].encode()):
        return int(key[:_SHORT], 16)
    return int(sha256(key.encode("utf-8", "replace")).hexdigest()[:_SHORT], 16)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb", buffering=1 << 17) as file:
            yield file
    except OSError as error:
        raise _unreadable(path, error) from error


def _read(path: Path, places: _Places) -> Iterator[Line]:
    """The lines of one segment at some places, which rise."""
    with _opened(path) as file:
        for number, offset in places[["line", "offset"]].tolist():
            file.seek(offset)
            yield Line(path, number, file.readline())


def segments(folder: Path) -> list[Path]:
    """The segments of a ledger, by name; none where there is no folder."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".jsonl")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(folder, error) from error


def raw_lines(path: Path, *, start: int = 0, before: int = 0) -> Iterator[Line]:
    """The whole lines of a segment from `start` on, which `before` others precede."""
    with _opened(path) as file:
        file.seek(start)
        for number, data in enumerate(file, before + 1):
            # It ends before an incomplete line: another process may write the rest meanwhile.
            if data[-1:] != b"\n":
                return _warn_torn(path, number)
            yield Line(path, number, data)


def _warn_torn(path: Path, number: int) -> None:
    size = path.stat().st_size
    if (path, size) not in _WARNED and writer_of(path) is None:
        _WARNED.add((path, size))
        _log.warning("%s:%d: torn last line dropped; that call is asked again", path, number)


def writer_of(segment: Path) -> int | None:
    """The id of another process of this machine that added to a segment in the last 600 s."""
    host, _, pid = segment.stem.partition("-")[2].rpartition("-")
    if host != socket.gethostname() or not pid.isdigit() or int(pid) == os.getpid():
        return None
    try:
        os.kill(int(pid), 0)
        is_fresh = time.time() - segment.stat().st_mtime < _IDLE_S
    except OSError:
        return None
    return int(pid) if is_fresh else None


def _stat(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> StoreError:
    fact = f"{path}: stored calls cannot be read ({error.strerror})"
    return StoreError(f"{fact}; set right what lies there, or choose another --results")
