"""The ledger of finished calls: requests and responses to append-only JSON lines, and back.

Each process writes its own segment, and readers take the union of all segments in a model's
folder. There is no lock and no server, so folders merge by copying.
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

import msgspec

from harness.core import Request, Response
from harness.errors import StoreError
from harness.parts import NO_REPLY, Failure, Reason, Superseded, Usage, vector_fault
from harness.storage.ledger_index import (
    CallHead,
    LedgerIndex,
    mark_of,
    raw_lines,
    segments,
    shard_of,
    writer_of,
)
from harness.text.cleanup import repair_surrogates

_log = logging.getLogger(__name__)
_SYNC_S = 0.1
_Stored = tuple[tuple[float, str, int], Response]
"""A response after the time, the segment and the line that it was stored at."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One finished call; `time` is in seconds since 1970, the cost is in the response's usage."""

    key: str
    request: Request
    response: Response
    time: float


class _Answer(msgspec.Struct):  # without the request, whose prompt may be long
    key: str
    time: float
    response: Response


class _Asked(msgspec.Struct):
    model: str


class _Model(msgspec.Struct):
    request: _Asked


class _Question(msgspec.Struct):  # without the response, whose vectors may be long
    key: str
    request: Request


class Ledger:
    """Finished calls of one model, found by key and added one by one.

    `twice` has the usage of calls that another shard had made as well, by key.
    """

    def __init__(self, folder: Path, shard: tuple[int, int] | None = None) -> None:
        """Use the segments below `folder`; reading creates nothing.

        With `shard`, its number and their count, what is added goes to a segment of that shard.
        """
        self._folder = self._segment = folder
        self._index = LedgerIndex(folder)
        self._shard = shard
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
        """Raise StoreError, before a call is paid for, where the folder is not writable.

        Logs a warning where another process of this machine adds to it. The segment is begun before
        it looks for those of others: of two processes that begin at once, one sees the other.
        """
        try:
            self._begin()
        except OSError as error:
            raise self._refused(error) from error
        others = [p for p in segments(self._folder) if not self._shard or shard_of(p) is None]
        others += [p for p in segments(self._folder) if self._shard and shard_of(p) == self._shard]
        if pids := sorted({pid for path in others if (pid := writer_of(path))}):
            _log.warning(
                "%s: process %s is adding to it: a call that both need may be made twice (both "
                "replies are kept and counted); wait for it, then repeat the command",
                self._folder,
                ", ".join(map(str, pids)),
            )

    def make_folder(self) -> None:
        """Make the folder though nothing is added, so that who copies it finds one."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._refused(error) from error

    def close(self) -> None:
        """Sync what was added and end the segment; adding again begins another one."""
        if (timer := self._timer) is not None:
            timer.cancel()
            if timer.is_alive():  # an interrupt may have come before it was started
                timer.join()
        self._timer = None
        self._sync()
        with self._lock:
            if self._file is not None:
                os.close(self._file)
            if self._file is not None and not self._size:
                with suppress(OSError):  # an empty segment is in nobody's way
                    self._segment.unlink()
            self._file, self._size = None, 0
        if (error := self._sync_error) is not None:
            self._sync_error = None
            raise self._refused(error) from error

    @property
    def shards(self) -> int:
        """Into how many shards the command was split that began the newest segment; 0 for none."""
        found = [shard[1] for path in segments(self._folder) if (shard := shard_of(path))]
        return found[-1] if found else 0

    def find(self, keys: Collection[str]) -> dict[str, Response]:
        """The stored responses to these keys, each with the usage of others to its key.

        Of several answers to a key the earliest one counts, so that all readers agree. Without an
        answer the latest reply counts, and without a reply the latest failure.
        """
        wanted, found = set(keys), dict[str, list[_Stored]]()
        for line in self._index.lines(wanted) if wanted else ():
            answer = line.decoded(_Answer)
            if answer.key in wanted:
                at = (answer.time, line.path.name, line.number)
                found.setdefault(answer.key, []).append((at, _checked(answer.response)))
        valid = {key: _valid_response(stored) for key, stored in found.items()}
        self.twice |= {key: twice for key, (_, twice) in valid.items() if twice}
        return {key: response for key, (response, _) in valid.items()}

    def is_missing_any(self, keys: Collection[str]) -> bool:
        """Whether there is no stored call of one of these keys."""
        return self._index.count(keys) < len(set(keys))

    def asked(self, keys: Collection[str]) -> dict[str, Request]:
        """The stored requests of these keys."""
        return dict(self.asked_each(keys))

    def asked_each(self, keys: Collection[str]) -> Iterator[tuple[str, Request]]:
        """The stored requests of these keys one by one, each once, in the order of the lines."""
        wanted = set(keys)
        for line in self._index.lines(wanted):
            question = line.decoded(_Question)
            if question.key in wanted:
                wanted.remove(question.key)
                yield question.key, question.request

    def stored_lines(self, keys: Collection[str]) -> list[tuple[float, str, bytes]]:
        """The lines of these keys as they are, in the order they count in.

        Each comes after its time and the mark of the shard that wrote it.
        """
        wanted, found = set(keys), list[tuple[float, str, int, bytes]]()
        for line in self._index.lines(wanted) if wanted else ():
            head = line.decoded(CallHead)
            if head.key in wanted:
                found.append((head.time, line.path.name, line.number, line.data))
        return [
            (when, mark_of(shard_of(Path(name))), data) for when, name, _, data in sorted(found)
        ]

    def identities(self) -> set[str]:
        """The identities of the models whose calls are stored here."""
        lines = (line for path in segments(self._folder) for line in raw_lines(path))
        return {line.decoded(_Model).request.model for line in lines}

    def add(self, request: Request, response: Response) -> None:
        """Write one finished call; it is synced to disk at most 0.1 seconds later."""
        line = _encoded(CallRecord(response.key, request, response, time.time()))
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
            pid = f"{os.getpid()}{mark_of(self._shard)}"
            name = f"{time.time_ns():020d}-{socket.gethostname()}-{pid}.jsonl"
            self._segment = self._folder / name
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            self._file = os.open(self._segment, flags, 0o666)
        return self._file

    def _sync_on_time(self) -> None:
        # Reset first: a call that is added while the disk works starts another timer.
        self._timer = None
        self._sync()

    def _sync(self) -> None:
        """Sync the segment; an error is kept, because the system reports it only once."""
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


def _encoded(record: CallRecord) -> bytes:
    """The line of a record; U+FFFD replaces half a character, which no file can hold."""
    try:
        return msgspec.json.encode(record) + b"\n"
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(record), ensure_ascii=False, separators=(",", ":"))
        return repair_surrogates(text).encode() + b"\n"


def _valid_response(stored: list[_Stored]) -> tuple[Response, tuple[Usage, ...]]:
    """The response to one key that counts; its usage lists the others as superseded.

    Shards that need the same call at the same time make it twice, where one process makes it once.
    So an attempt of another shard is part of the run where it got more than those before it, as if
    one process had tried again; else its usage is kept with it, as is a second answer of one shard
    that two processes made.
    """
    if len(stored) == 1:
        return stored[0][1], ()
    kept, twice, best = list[_Stored](), list[Usage](), -1
    first: tuple[int, int] | None = None
    for at, response in sorted(stored, key=lambda pair: pair[0]):
        by, got = shard_of(Path(at[1])), _got(response)
        # A shard goes on where a whole run, or it itself, failed; two processes of it do not.
        is_next = best < _ANSWER and first in (None, by)
        if by is None or got > best or is_next:
            kept.append((at, response))
            first, best = by or first, max(got, best)
        else:
            twice.append(response.usage)
    return _superseding(_distinct(kept)), tuple(twice)


_ANSWER = 2


def _got(response: Response) -> int:
    """What a call got: 0 is no reply, 1 a reply without an answer, 2 an answer."""
    if response.failure is None:
        return _ANSWER
    return int(response.failure.reason not in NO_REPLY)


def _superseding(responses: list[Response]) -> Response:
    if len(responses) == 1:
        return responses[0]
    answers = [one for one in responses if one.failure is None]
    replies = [one for one in responses if one.failure and one.failure.reason not in NO_REPLY]
    valid = answers[0] if answers else (replies or responses)[-1]
    others = tuple(
        Superseded(one.usage, one.failure.reason if one.failure else None)
        for one in responses
        if one is not valid
    )
    return replace(valid, usage=replace(valid.usage, superseded=others))


def _checked(response: Response) -> Response:
    """A stored response; a failure where it holds a vector that earlier versions took."""
    fault = next(filter(None, map(vector_fault, response.vectors or ())), None)
    if fault is None:
        return response
    failure = Failure(Reason.FAILED, f"the vector that was stored is {fault}")
    return replace(response, vectors=None, failure=failure)


def _distinct(stored: list[_Stored]) -> list[Response]:
    """The responses without copies of a call, such as those of a segment under another name."""
    found: list[tuple[float, Response]] = []
    for (moment, _, _), response in stored:
        if (moment, response) not in found:
            found.append((moment, response))
    return [response for _, response in found]
