"""The ledger of finished calls: requests and responses to append-only JSON lines, and back.

Each process writes its own segment; readers take the union of all segments in a model's folder.
"""

import json
import logging
import os
import socket
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock, Timer

import msgspec

from harness.core import Request, Response
from harness.errors import StoreError
from harness.parts import NO_REPLY, Failure, Reason, Superseded, Usage, vector_fault
from harness.storage.ledger_index import LedgerIndex, raw_lines, segments, writer_of
from harness.text.cleanup import repair_surrogates

_log = logging.getLogger(__name__)
_SYNC_S = 0.1


class _Answered(msgspec.Struct):
    """A stored call without its request."""

    key: str
    time: float
    response: Response


class Ledger:
    """Finished calls of one model; `twice`: the usage of calls whose key had an answer, by key."""

    def __init__(
        self, folder: Path, *, is_snapshot: bool = False, alike: Sequence["Ledger"] = ()
    ) -> None:
        """Use the segments below `folder`; reading creates nothing. `alike` are those to take from.

        A snapshot is read at its first use, and does not see what others add after that.
        """
        self._folder = self._segment = folder
        self._index = LedgerIndex(folder, is_snapshot=is_snapshot)
        self.alike = alike
        self.twice: dict[str, tuple[Usage, ...]] = {}
        self._file: int | None = None
        self._size = 0
        self._lock = Lock()  # held while the file is synced or closed
        self._timer: Timer | None = None
        self._sync_error: OSError | None = None

    @property
    def name(self) -> str:
        """The name of the folder: that of the model."""
        return self._folder.name

    def check(self) -> None:
        """Raise StoreError where the folder is not writable; warn if another process adds to it.

        The segment is begun first: of two processes that begin at once, one sees the other.
        """
        try:
            self._begin()
        except OSError as error:
            raise self._refused(error) from error
        if pids := sorted({pid for path in segments(self._folder) if (pid := writer_of(path))}):
            _log.warning(
                "%s: process %s is adding to it: a call that both need may be made twice (the "
                "first answer counts, a budget counts both)",
                self._folder,
                ", ".join(map(str, pids)),
            )

    def close(self) -> None:
        """Sync what was added and end the segment; adding again begins another one."""
        if (timer := self._timer) is not None:
            timer.cancel()
            if timer.is_alive():  # an interrupt may have come before it was started
                timer.join()
        self._sync_on_time()
        with self._lock:
            if self._file is not None:
                os.close(self._file)
            if self._file is not None and not self._size:
                with suppress(OSError):  # an empty segment is in nobody's way
                    self._segment.unlink()
            self._file, self._size = None, 0
        error, self._sync_error = self._sync_error, None
        if error is not None:
            raise self._refused(error) from error

    def find(self, keys: Collection[str]) -> dict[str, Response]:
        """The stored responses to these keys, each with the usage of the attempts before it.

        Of several answers the earliest counts, else the latest reply, else the latest failure.
        """
        wanted, found = set(keys), dict[str, list[tuple[float, str, int, Response]]]()
        for line in self._index.lines(wanted) if wanted else ():
            call = line.decoded(line.data, _Answered)
            if call.key in wanted:
                place = (call.time, line.path.name, line.number, _checked(call.response))
                found.setdefault(call.key, []).append(place)
        valid: dict[str, Response] = {}
        for key, stored in found.items():
            valid[key], later = _counting([stored[0][3]] if len(stored) == 1 else _in_order(stored))
            if later:
                self.twice[key] = tuple(one.usage for one in later)
        return valid

    def take(self, keys: Collection[str]) -> None:
        """Copy what is not here of some calls from the ledgers alike."""
        for other in self.alike:
            if found := other.find(set(keys) - self.find(keys).keys()):
                self._write(b"".join(data for _, data in other.stored_lines(found)))
                words = "%d calls of %s are stored under %s, the same model, and not made again"
                _log.warning(words, len(found), self.name, other.name)

    def is_of(self, identity: str) -> bool:
        """Whether a segment begins with a call of the model of an identity; no, if damaged."""
        firsts = (next(raw_lines(path), None) for path in segments(self._folder))
        with suppress(StoreError):
            return any(o.decoded(o.call.request, Request).model == identity for o in firsts if o)
        return False

    def is_missing_any(self, keys: Collection[str]) -> bool:
        """Whether there is no stored call of one of these keys."""
        return self._index.count(keys) < len(set(keys))

    def asked(self, keys: Collection[str]) -> dict[str, Request]:
        """The stored requests of these keys, in the order of the lines."""
        wanted, found = set(keys), dict[str, Request]()
        for line in self._index.lines(wanted):
            if (call := line.call).key in wanted and call.key not in found:
                found[call.key] = line.decoded(call.request, Request)
        return found

    def stored_lines(self, keys: Collection[str]) -> list[tuple[float, bytes]]:
        """The lines of these keys as they are, with their times, in the order they count in."""
        found = [(line.call, line) for line in self._index.lines(keys)]
        ordered = sorted(
            (call.time, line.path.name, line.number, line.data)
            for call, line in found
            if call.key in keys
        )
        return [(when, data) for when, _, _, data in ordered]

    def identities(self) -> set[str]:
        """The identities of the models whose calls are stored here."""
        lines = (line for path in segments(self._folder) for line in raw_lines(path))
        return {line.decoded(line.call.request, Request).model for line in lines}

    def add(self, request: Request, response: Response) -> None:
        """Write one finished call; it is synced to disk at most 0.1 seconds later."""
        key, now = response.key, time.time()
        self._write(_encoded({"key": key, "request": request, "response": response, "time": now}))

    def _write(self, line: bytes) -> None:
        try:
            if self._sync_error is not None:
                raise self._sync_error
            file = self._begin()
            rest = line
            while rest:  # a write may be short
                rest = rest[os.write(file, rest) :]
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
        """The file of this process's segment, which is made where there is none yet."""
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            name = f"{time.time_ns():020d}-{socket.gethostname()}-{os.getpid()}.jsonl"
            self._segment = self._folder / name
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            self._file = os.open(self._segment, flags, 0o666)
        return self._file

    def _sync_on_time(self) -> None:
        """Sync the segment; an error is kept, because the system reports it only once."""
        # Reset first: a call that is added while the disk works starts another timer.
        self._timer = None
        with self._lock:
            try:
                if self._file is not None:
                    os.fsync(self._file)
            except OSError as error:
                self._sync_error = error

    def _refused(self, error: OSError) -> StoreError:
        return StoreError(
            f"{self._folder}: cannot store a finished call ({error.strerror}); free some space "
            "or choose another --results, then repeat the command: what was stored stays"
        )


def _encoded(record: dict[str, object]) -> bytes:
    """The line of a record; U+FFFD replaces half a character, which no file can hold."""
    try:
        return msgspec.json.encode(record) + b"\n"
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(record), ensure_ascii=False, separators=(",", ":"))
        return repair_surrogates(text).encode() + b"\n"


def _in_order(stored: list[tuple[float, str, int, Response]]) -> list[Response]:
    """The responses by time, without copies of a call, as of a segment under another name."""
    timed = [(moment, one) for moment, _, _, one in sorted(stored, key=lambda one: one[:3])]
    return [one for at, (moment, one) in enumerate(timed) if (moment, one) not in timed[:at]]


def _counting(responses: list[Response]) -> tuple[Response, list[Response]]:
    """The response that counts, with the usage of the attempts before it; answers after it."""
    reasons = [one.failure.reason if one.failure else None for one in responses]
    end = reasons.index(None) + 1 if None in reasons else len(responses)
    tries = responses[:end]
    if end == 1:
        return tries[0], responses[1:]
    valid = max((at for at in range(end) if reasons[at] not in NO_REPLY), default=end - 1)
    others = (Superseded(one.usage, reasons[at]) for at, one in enumerate(tries) if at != valid)
    usage = replace(tries[valid].usage, superseded=tuple(others))
    return replace(tries[valid], usage=usage), responses[end:]


def _checked(response: Response) -> Response:
    """A stored response; a failure where it holds a vector that earlier versions took."""
    fault = next(filter(None, map(vector_fault, response.vectors or ())), None)
    if fault is None:
        return response
    failure = Failure(Reason.FAILED, f"the vector that was stored is {fault}")
    return replace(response, vectors=None, failure=failure)
