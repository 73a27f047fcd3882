"""The calls ledger: finished calls as append-only JSONL segments, one writer a segment.

Readers take the union of all segments below a model's folder. There is no lock and no server,
so folders merge by copying. Nothing here decides what is asked.
"""

import json
import logging
import os
import socket
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock, Timer
from typing import TypeVar

import msgspec

from harness.core import Request, Response
from harness.errors import StoreError
from harness.parts import NO_REPLY, Superseded
from harness.text.controls import repair_surrogates

_log = logging.getLogger(__name__)
_SYNC_S = 0.1
_STILL_S = 600.0
_T = TypeVar("_T")
_Placed = tuple[tuple[float, str, int], Response]
"""When and where a response was stored, and the response."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One finished call; `time` in seconds since 1970. What it cost stands in its usage."""

    key: str
    request: Request
    response: Response
    time: float


class _Head(msgspec.Struct):
    key: str
    time: float


class _Body(msgspec.Struct):
    response: Response


class _Asking(msgspec.Struct):
    request: Request


class _Asked(msgspec.Struct):
    model: str


class _Question(msgspec.Struct):
    request: _Asked


class Ledger:
    """Finished calls of one model, found by key and added one by one."""

    def __init__(self, folder: Path) -> None:
        """Use the segments below `folder`; reading creates nothing."""
        self._folder = folder
        self._file: int | None = None
        self._size = 0
        self._lock = Lock()  # held where the file is brought to disk or closed
        self._timer: Timer | None = None
        self._trouble: OSError | None = None

    def check(self) -> None:
        """Refuse a folder that nothing can be stored in, before a call is paid for.

        Where another process of this machine adds to it, a warning tells so.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if not os.access(self._folder, os.W_OK):
                raise PermissionError(0, "it is not writable")
        except OSError as error:
            raise self._refused(error) from error
        if pids := sorted({pid for path in _segments(self._folder) if (pid := _writer(path))}):
            _log.warning(
                "%s: process %s is adding to it: a call that both need may be made twice (both "
                "replies are kept and counted); wait for it, then repeat the command",
                self._folder,
                ", ".join(map(str, pids)),
            )

    def close(self) -> None:
        """Bring what was added to disk and end the segment; adding again begins another."""
        if (timer := self._timer) is not None:
            timer.cancel()
            if timer.is_alive():  # an interrupt may have come before it was started
                timer.join()
        self._timer = None
        self._sync()
        with self._lock:
            if self._file is not None:
                os.close(self._file)
            self._file, self._size = None, 0
        if (trouble := self._trouble) is not None:
            self._trouble = None
            raise self._refused(trouble) from trouble

    def find(self, keys: Collection[str]) -> dict[str, Response]:
        """The stored responses to these keys, each with what others to its key were charged.

        Of several answers to a key the earliest wins, so that all readers agree. Without any the
        latest reply that holds none stands, and without a reply the latest failure to get one.
        """
        wanted, found = set(keys), dict[str, list[_Placed]]()
        if not wanted:
            return {}
        for path in _segments(self._folder):
            for number, line in _lines(path):
                head = _decode(line, _Head, where=(path, number))
                if head.key in wanted:
                    response = _decode(line, _Body, where=(path, number)).response
                    placed = ((head.time, path.name, number), response)
                    found.setdefault(head.key, []).append(placed)
        return {key: _standing(placed) for key, placed in found.items()}

    def asked(self, keys: Collection[str]) -> dict[str, Request]:
        """The stored requests of these keys."""
        wanted, found = set(keys), dict[str, Request]()
        for path in _segments(self._folder):
            for number, line in _lines(path):
                key = _decode(line, _Head, where=(path, number)).key
                if key in wanted and key not in found:
                    found[key] = _decode(line, _Asking, where=(path, number)).request
        return found

    def identities(self) -> set[str]:
        """The models whose calls are stored here."""
        return {
            _decode(line, _Question, where=(path, number)).request.model
            for path in _segments(self._folder)
            for number, line in _lines(path)
        }

    def add(self, request: Request, response: Response) -> None:
        """Write one finished call; a tenth of a second later it is on disk, come what may."""
        line = _encoded(CallRecord(response.key, request, response, time.time()))
        try:
            if self._trouble is not None:
                raise self._trouble
            if self._file is None:
                self._file = self._begin()
            _write_all(self._file, line)
        except OSError as error:
            if self._file is not None:
                with suppress(OSError):  # where even this fails, readers drop the torn line
                    os.ftruncate(self._file, self._size)
            raise self._refused(error) from error
        self._size += len(line)
        if self._timer is None:
            self._timer = Timer(_SYNC_S, self._sync_on_time)
            self._timer.start()

    def _begin(self) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"{time.time_ns():020d}-{socket.gethostname()}-{os.getpid()}.jsonl"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        return os.open(self._folder / name, flags, 0o666)

    def _sync_on_time(self) -> None:
        # Forgotten first: a call that is added while the disk works gets a timer of its own.
        self._timer = None
        self._sync()

    def _sync(self) -> None:
        """Bring the segment to disk; a failure is kept, because the system tells it only once."""
        with self._lock:
            try:
                if self._file is not None:
                    os.fsync(self._file)
            except OSError as error:
                self._trouble = error

    def _refused(self, error: OSError) -> StoreError:
        return StoreError(
            f"{self._folder}: cannot store a finished call ({error.strerror}); free some space "
            "or choose another --results, then repeat the command: what was stored stays"
        )


def _encoded(record: CallRecord) -> bytes:
    """The line of a record; half a character, which no file can hold, becomes U+FFFD."""
    try:
        return msgspec.json.encode(record) + b"\n"
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(record), ensure_ascii=False, separators=(",", ":"))
        return repair_surrogates(text).encode() + b"\n"


def _write_all(file: int, data: bytes) -> None:
    """Write all bytes, or raise; a short write is tried to its end."""
    while data:
        data = data[os.write(file, data) :]


def _standing(placed: list[_Placed]) -> Response:
    """Of the responses to one key the one that counts; it tells what the others were charged."""
    responses = [response for _, response in sorted(placed, key=lambda pair: pair[0])]
    if len(responses) == 1:
        return responses[0]
    answers = [part for part in responses if part.failure is None]
    replies = [part for part in responses if part.failure and part.failure.reason not in NO_REPLY]
    stands = answers[0] if answers else (replies or responses)[-1]
    others = tuple(
        Superseded(part.usage, part.failure.reason if part.failure else None)
        for part in responses
        if part is not stands
    )
    return replace(stands, usage=replace(stands.usage, superseded=others))


def _writer(segment: Path) -> int | None:
    """The process that adds to a segment, as far as can be known: another one of this machine.

    Null for one that has ended, and for a segment that lay still for long: its number may be
    another process's by now.
    """
    host, _, pid = segment.stem.partition("-")[2].rpartition("-")
    if host != socket.gethostname() or not pid.isdigit() or int(pid) == os.getpid():
        return None
    try:
        os.kill(int(pid), 0)
        is_fresh = time.time() - segment.stat().st_mtime < _STILL_S
    except OSError:
        return None
    return int(pid) if is_fresh else None


def _segments(folder: Path) -> list[Path]:
    """The segments of a folder; none where there is no folder yet."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".jsonl")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(folder, error) from error


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The numbered lines of a segment; a torn last one is dropped, with a warning."""
    for number, line in enumerate(_raw_lines(path), 1):
        if line.endswith(b"\n"):
            yield number, line
        else:
            _log.warning("%s:%d: torn last line dropped; that call is asked again", path, number)


def _raw_lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path}: stored calls cannot be read ({error.strerror}); set right what lies there, or "
        "choose another --results"
    )


def _decode(line: bytes, kind: type[_T], *, where: tuple[Path, int]) -> _T:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, ValueError) as error:
        raise StoreError(
            f"{where[0]}:{where[1]}: damaged record ({error}); restore the file from a copy, or "
            "delete that line to have its call asked again"
        ) from error
