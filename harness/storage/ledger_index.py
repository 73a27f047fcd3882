"""Where each call of a ledger stands: segments of JSON lines to sorted arrays of keys and places.

One pass over the bytes, in which no line of the usual form is decoded; 24 bytes a call are held. A
later look-up reads only what was added to the segments since. Knows nothing of calls but the key.
"""

import logging
import os
import re
import socket
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice, takewhile
from pathlib import Path
from typing import TypeVar

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
"""What stands before a key, and behind it, in a line as we write it."""
_SHORT = 16
"""The hexadecimal digits of a key that an index has; readers compare the whole key."""
_BLOCK = 4096
"""The lines that are taken into the index at once."""
_IDLE_S = 600.0
_SHARD = re.compile(r"\.shard(\d+)of(\d+)\Z")
"""What ends the name of a segment that a shard of a run has written, before .jsonl."""
_HEX = frozenset(b"0123456789abcdef")
_PLACE = np.dtype([("key", "u8"), ("segment", "u4"), ("line", "u4"), ("offset", "u8")])
_Places = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a segment, as it is, and its number in it, from 1."""

    path: Path
    number: int
    data: bytes

    def decoded(self, kind: type[_T]) -> _T:
        """What the line holds; StoreError, which names it, where that is damaged."""
        try:
            record: _T = decode_json(self.data, kind)
        except (msgspec.DecodeError, ValueError) as error:
            raise StoreError(
                f"{self.path}:{self.number}: damaged record ({error}); restore the file from a "
                "copy, or delete that line to have its call asked again"
            ) from error
        return record


class CallHead(msgspec.Struct):
    """What identifies a stored call: its key, and its time in seconds since 1970."""

    key: str
    time: float


@dataclass(slots=True)
class _Segment:
    path: Path
    inode: int
    size: int = 0  # of the whole lines that are in the index
    lines: int = 0


class LedgerIndex:
    """The places of the calls in the segments of one folder; it grows with these."""

    def __init__(self, folder: Path) -> None:
        """Index the segments in `folder`, which need not exist; nothing is read yet."""
        self._folder = folder
        self._segments: list[_Segment] = []
        self._parts: list[_Places] = []

    def lines(self, keys: Collection[str]) -> Iterator[Line]:
        """The lines that may be of these keys, in the order in which they stand.

        A line of another key with the same beginning may be among them.
        """
        self._refresh()
        found = self._places(keys)
        order = {segment.path: place for place, segment in enumerate(self._segments)}
        ranks = np.empty(len(order), dtype=np.int64)
        for rank, path in enumerate(sorted(order)):
            ranks[order[path]] = rank
        found = found[np.lexsort((found["offset"], ranks[found["segment"]]))]
        for number in dict.fromkeys(found["segment"].tolist()):
            yield from _read(self._segments[number].path, found[found["segment"] == number])

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
        paths = segments(self._folder)
        known = {segment.path: segment for segment in self._segments}
        if not set(known) <= set(paths) or any(map(_is_replaced, self._segments)):
            self._segments, self._parts, known = [], [], {}
        for path in paths:
            if (segment := known.get(path)) is None:
                try:
                    segment = _Segment(path, path.stat().st_ino)
                except OSError as error:
                    raise unreadable(path, error) from error
                self._segments.append(segment)
            self._take_in(segment, self._segments.index(segment))

    def _take_in(self, segment: _Segment, number: int) -> None:
        """Add the whole lines of a segment that are not in the index yet."""
        found = _whole_lines(segment.path, start=segment.size, before=segment.lines)
        added: list[_Places] = []
        while lines := list(islice(found, _BLOCK)):
            added.append(_taken(lines, segment, number))
        if added:
            part = np.concatenate(added)
            self._parts.append(part[np.argsort(part["key"], kind="stable")])
        while len(self._parts) > 1 and len(self._parts[-1]) * 2 > len(self._parts[-2]):
            # So that there are few parts, and a call is sorted few times.
            part = np.concatenate([self._parts[-2], self._parts[-1]])
            self._parts[-2:] = [part[np.argsort(part["key"], kind="stable")]]


def _is_replaced(segment: _Segment) -> bool:
    try:
        found = segment.path.stat()
    except OSError:
        return True
    return found.st_ino != segment.inode or found.st_size < segment.size


def _taken(lines: list[bytes], segment: _Segment, number: int) -> _Places:
    """The places of some lines that follow what is indexed of a segment."""
    part = np.empty(len(lines), dtype=_PLACE)
    part["key"] = _keys(lines, segment)
    part["segment"] = number
    part["line"] = np.arange(segment.lines + 1, segment.lines + len(lines) + 1)
    sizes = np.fromiter(map(len, lines), dtype=np.uint64, count=len(lines))
    part["offset"] = segment.size + np.cumsum(sizes) - sizes
    segment.size += int(sizes.sum())
    segment.lines += len(lines)
    return part


def _keys(lines: list[bytes], segment: _Segment) -> NDArray[np.uint64]:
    """The beginnings of the keys of some lines that follow what is indexed of a segment."""
    usual = [
        line[8 : 8 + _SHORT]
        if line[:8] == _OPENING and line[72:75] == _CLOSING and line[-2:] == b"}\n"
        else b""
        for line in lines
    ]
    joined = b"".join(usual)
    if len(joined) == len(lines) * _SHORT and _HEX.issuperset(joined):
        return np.frombuffer(bytes.fromhex(joined.decode()), dtype=">u8").astype(np.uint64)
    each = (Line(segment.path, at, line) for at, line in enumerate(lines, segment.lines + 1))
    keys = (_short(line.decoded(CallHead).key) for line in each)
    return np.fromiter(keys, dtype=np.uint64, count=len(lines))


def _short(key: str) -> int:
    if len(key) == 64 and _HEX.issuperset(key[:_SHORT].encode()):
        return int(key[:_SHORT], 16)
    return int(sha256(key.encode("utf-8", "replace")).hexdigest()[:_SHORT], 16)


def _read(path: Path, places: _Places) -> Iterator[Line]:
    """The lines of one segment at some places, which rise."""
    numbers, offsets = places["line"].tolist(), places["offset"].tolist()
    try:
        with path.open("rb", buffering=1 << 17) as file:
            for number, offset in zip(numbers, offsets, strict=True):
                file.seek(offset)
                yield Line(path, number, file.readline())
    except OSError as error:
        raise unreadable(path, error) from error


def segments(folder: Path) -> list[Path]:
    """The segments of a ledger, by name; none where there is no folder."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".jsonl")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(folder, error) from error


def raw_lines(path: Path, *, start: int = 0, before: int = 0) -> Iterator[Line]:
    """The whole lines of a segment from `start` on, which `before` others precede."""
    found = _whole_lines(path, start=start, before=before)
    return (Line(path, number, data) for number, data in enumerate(found, before + 1))


def _whole_lines(path: Path, *, start: int, before: int) -> Iterator[bytes]:
    """Those lines as they are.

    An incomplete last line is dropped, with one warning if nobody is still writing it.
    """
    try:
        with path.open("rb") as file:
            file.seek(start)
            lines = enumerate(file, before + 1)
            # It ends there: another process may write the rest before the file is looked at again.
            whole = takewhile(lambda pair: pair[1][-1:] == b"\n" or _say_torn(path, pair[0]), lines)
            yield from (line for _, line in whole)
    except OSError as error:
        raise unreadable(path, error) from error


def _say_torn(path: Path, number: int) -> bool:
    """Warn of a line that was not written to its end, once; it is left out."""
    size = path.stat().st_size
    if (path, size) not in _WARNED and writer_of(path) is None:
        _WARNED.add((path, size))
        _log.warning("%s:%d: torn last line dropped; that call is asked again", path, number)
    return False


def shard_of(segment: Path) -> tuple[int, int] | None:
    """The number of the shard that wrote a segment, and their count; None for a whole run."""
    found = _SHARD.search(segment.stem)
    return (int(found[1]), int(found[2])) if found else None


def mark_of(shard: tuple[int, int] | None) -> str:
    """What ends the name of a segment that a shard has written; empty for a whole run."""
    return ".shard{}of{}".format(*shard) if shard else ""


def writer_of(segment: Path) -> int | None:
    """The id of another process of this machine that seems to add to a segment; None without one.

    None also for a segment unchanged for 600 seconds: its process id may be reused by now.
    """
    host, _, pid = _SHARD.sub("", segment.stem).partition("-")[2].rpartition("-")
    if host != socket.gethostname() or not pid.isdigit() or int(pid) == os.getpid():
        return None
    try:
        os.kill(int(pid), 0)
        is_fresh = time.time() - segment.stat().st_mtime < _IDLE_S
    except OSError:
        return None
    return int(pid) if is_fresh else None


def unreadable(path: Path, error: OSError) -> StoreError:
    """The error of stored calls that cannot be read."""
    return StoreError(
        f"{path}: stored calls cannot be read ({error.strerror}); set right what lies there, or "
        "choose another --results"
    )
