"""The calls ledger: finished calls as append-only JSONL segments, one writer a segment.

Readers take the union of all segments below a model's folder. There is no lock and no server,
so folders merge by copying. Nothing here decides what is asked.
"""

import logging
import os
import socket
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.core import Request, Response
from harness.errors import StoreError

_log = logging.getLogger(__name__)
_SYNC_S = 0.1
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Record:
    """One finished call; `time` in seconds since 1970, `cost_usd` null where no price is known."""

    key: str
    request: Request
    response: Response
    time: float
    cost_usd: float | None = None


class _Head(msgspec.Struct):
    key: str
    time: float


class _Body(msgspec.Struct):
    response: Response


class Ledger:
    """Finished calls of one model, found by key and added one by one."""

    def __init__(self, folder: Path) -> None:
        """Use the segments below `folder`; nothing is created before the first call is added."""
        self._folder = folder
        self._file: int | None = None
        self._size = 0
        self._synced = 0.0

    def close(self) -> None:
        """Bring what was added to disk and end the segment; adding again begins another."""
        if self._file is not None:
            os.fsync(self._file)
            os.close(self._file)
            self._file, self._size = None, 0

    def find(self, keys: Collection[str]) -> dict[str, Response]:
        """The stored responses to these keys.

        Of several answers to a key the earliest wins, so that all readers agree; a failure
        stands only where there is no answer, the latest one first.
        """
        wanted = set(keys)
        best: dict[str, tuple[bool, tuple[float, str, int], Response]] = {}
        if not wanted:
            return {}
        for path in sorted(self._folder.glob("*.jsonl")):
            for number, line in _lines(path):
                head = _decode(line, _Head, where=(path, number))
                if head.key not in wanted:
                    continue
                response = _decode(line, _Body, where=(path, number)).response
                failed, place = response.failure is not None, (head.time, path.name, number)
                held = best.get(head.key)
                if held is None or _supersedes((failed, place), held[:2]):
                    best[head.key] = (failed, place, response)
        return {key: response for key, (_, _, response) in best.items()}

    def add(self, request: Request, response: Response) -> None:
        """Write one finished call; on disk within a tenth of a second of the next one."""
        now = time.time()
        line = msgspec.json.encode(Record(response.key, request, response, now)) + b"\n"
        try:
            if self._file is None:
                self._file = self._begin()
            _write_all(self._file, line)
            self._size += len(line)
            if now - self._synced > _SYNC_S:
                os.fsync(self._file)
                self._synced = now
        except OSError as error:
            if self._file is not None:
                os.ftruncate(self._file, self._size)
            raise StoreError(
                f"{self._folder}: cannot store a finished call ({error.strerror}); free some space "
                "or choose another --results, then repeat the command: what was stored stays"
            ) from error

    def _begin(self) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"{time.time_ns():020d}-{socket.gethostname()}-{os.getpid()}.jsonl"
        return os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)


def _write_all(file: int, data: bytes) -> None:
    """Write all bytes, or raise; a short write is tried to its end."""
    while data:
        data = data[os.write(file, data) :]


def _supersedes(
    new: tuple[bool, tuple[float, str, int]], held: tuple[bool, tuple[float, str, int]]
) -> bool:
    if new[0] != held[0]:
        return held[0]
    return new[1] > held[1] if new[0] else new[1] < held[1]


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The numbered lines of a segment; a torn last one is dropped, with a warning."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(b"\n"):
                yield number, line
            else:
                _log.warning(
                    "%s:%d: torn last line dropped; that call is asked again", path, number
                )


def _decode(line: bytes, kind: type[_T], *, where: tuple[Path, int]) -> _T:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, ValueError) as error:
        raise StoreError(
            f"{where[0]}:{where[1]}: damaged record ({error}); restore the file from a copy, or "
            "delete that line to have its call asked again"
        ) from error
