"""What a provider of batches is asked for and tells, and how its files of results are read.

The protocol that each provider's module follows. Nothing here calls a server or keeps a file.
"""

import json
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeVar

import msgspec

from harness.core import Request, Response
from harness.errors import StoreError
from harness.models.client.replies import merge, no_answer
from harness.models.client.retry import PermanentError, RetryableError
from harness.parts import Mode, Reason
from harness.storage.files import write_whole

State = Literal["planned", "submitted", "collected"]


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One batch: `nonce` is our name for it, `id` the provider's, null until it was told.

    `created` is in seconds since 1970; `entries` counts what the provider counts, where one
    request takes several. `failed` are the requests it brought no answer to: where they are
    wanted again, they are asked anew.
    """

    nonce: str
    provider: str
    address: str
    created: float
    keys: tuple[str, ...]
    entries: int
    id: str | None = None
    state: State = "planned"
    failed: tuple[str, ...] = ()


class BatchFiles:
    """The batches of one model, below its calls."""

    def __init__(self, folder: Path) -> None:
        """Use the files in `folder`; reading creates nothing."""
        self._folder = folder

    def path(self, record: BatchRecord) -> Path:
        """Where a record stands."""
        return self._folder / f"{record.nonce}.json"

    def read(self) -> list[BatchRecord]:
        """All records, the oldest first."""
        found = [_read(path) for path in sorted(self._folder.glob("*.json"))]
        return sorted(found, key=lambda record: (record.created, record.nonce))

    def write(self, record: BatchRecord) -> None:
        """Bring a record to disk, in place of what it was."""
        write_whole(self.path(record), msgspec.json.encode(record) + b"\n")
        with suppress(OSError):  # some file systems know no such thing
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def remove(self, record: BatchRecord) -> None:
        """Forget a batch that never was."""
        self.path(record).unlink(missing_ok=True)


def _read(path: Path) -> BatchRecord:
    try:
        return msgspec.json.decode(path.read_bytes(), type=BatchRecord)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be read ({error.strerror}); set right what lies there"
        ) from error
    except (msgspec.DecodeError, ValueError) as error:
        raise StoreError(
            f"{path}: damaged record of a batch ({error}); restore it from a copy, or remove it to "
            "have its requests asked again"
        ) from error


_log = logging.getLogger(__name__)
_T = TypeVar("_T")

LONGEST_NAME = 64
"""Of an entry in a batch, at either provider."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What a provider takes in one batch."""

    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """One question in a batch: a JSON object, which holds the name its result will have."""

    name: str
    line: bytes


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """How a batch fares, in the provider's word; `files` are where its results lie.

    `trouble` says why the provider took none of it: then nothing of it was asked.
    """

    id: str
    word: str
    is_ended: bool
    done: int
    total: int
    files: tuple[str, ...] = ()
    trouble: str | None = None


class BatchExpired(Exception):
    """The provider knows no such batch, or keeps its results no longer."""


class BatchServer(Protocol):
    """A provider's batches; each call raises Transient, Refused, Gone or ModelError."""

    @property
    def kind(self) -> str:
        """The kind of its models."""

    @property
    def address(self) -> str:
        """Where it is, as it may be told."""

    @property
    def limits(self) -> BatchLimits:
        """What it takes in one batch."""

    @property
    def endpoints(self) -> Mapping[Mode, str]:
        """What it can be asked for in batches, and by which path; one batch has one path."""

    def __enter__(self) -> Self:
        """Connect."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Disconnect."""

    def entries(self, request: Request) -> tuple[BatchEntry, ...]:
        """What a request is in a batch: more than one entry where one gives too few replies."""

    def submit(self, entries: Sequence[BatchEntry], *, endpoint: str, nonce: str) -> str:
        """Hand a batch in; the provider's name for it."""

    def find(self, record: BatchRecord, *, known: Collection[str | None]) -> str | None:
        """The name of a batch that may have been handed in; it is none of those known."""

    def look(self, name: str) -> BatchStatus:
        """How a batch fares."""

    def results(
        self, status: BatchStatus, requests: Sequence[Request], *, record: BatchRecord
    ) -> Iterator[Response]:
        """The response to each of some requests that a batch that has ended has a result of."""


def parted(
    requests: Sequence[Request], server: BatchServer
) -> Iterator[tuple[tuple[Request, ...], list[BatchEntry]]]:
    """Requests with their entries, in parts that are no larger than a provider takes."""
    part: list[Request] = []
    entries: list[BatchEntry] = []
    size = 0
    for request in requests:
        new = server.entries(request)
        added = sum(len(entry.line) + 1 for entry in new)
        is_full = len(entries) + len(new) > server.limits.entries
        if part and (is_full or size + added > server.limits.bytes):
            yield tuple(part), entries
            part, entries, size = [], [], 0
        part.append(request)
        entries += new
        size += added
    if part:
        yield tuple(part), entries


def body_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON body that arguments of a client library amount to."""
    own = {name: value for name, value in arguments.items() if name != "extra_body"}
    return {**own, **(arguments.get("extra_body") or {})}


def read_lines(content: bytes, kind: type[_T], *, where: str) -> Iterator[_T]:
    """The results in a file, one JSON object a line; what is none is told of and left out."""
    damaged = 0
    for line in content.splitlines():
        try:
            # Python's reader takes half an emoji, which the other one does not.
            if line.strip():
                yield msgspec.convert(json.loads(line), kind)
        except (msgspec.ValidationError, ValueError, RecursionError):
            damaged += 1
    if damaged:
        _log.warning("%s: %d lines are no results; left out", where, damaged)


def names_of(request: Request) -> tuple[str, ...]:
    """The names of a request's entries, one a reply: its key, or most of it and a number."""
    if request.decoding.n == 1:
        return (request.key,)
    return tuple(f"{start_of(request.key)}-{number:05d}" for number in range(request.decoding.n))


def start_of(name: str) -> str:
    """What the names of a request's entries have in common: most of its key."""
    return name[: LONGEST_NAME - 6]


def gathered(
    results: Iterable[tuple[str, Callable[[Request], Response]]],
    requests: Sequence[Request],
    *,
    names: Callable[[Request], tuple[str, ...]],
    record: BatchRecord,
) -> Iterator[Response]:
    """The response to each request whose results are all there, from results by name.

    Several replies to a request are joined; results of no request of the batch are told of.
    """
    wanted = {name: request for request in requests for name in names(request)}
    heard: dict[str, dict[str, Response]] = {}
    ours, strangers = {start_of(key) for key in record.keys}, 0
    for name, read in results:
        strangers += start_of(name) not in ours
        if (request := wanted.get(name)) is None:
            continue
        replies = heard.setdefault(request.key, {})
        replies[name] = settled(request, partial(read, request))
        if len(replies) == len(names(request)):
            whole = [replies[name] for name in names(request)]
            yield whole[0] if len(whole) == 1 else merge(request, whole)
    if strangers:
        told = "batch %s: %d results of no request of ours; left out"
        _log.warning(told, record.id, strangers)


def settled(request: Request, read: Callable[[], Response]) -> Response:
    """The response that is read, or the failure that reading ends in."""
    try:
        return read()
    except (PermanentError, RetryableError) as error:
        reason = error.reason if isinstance(error, PermanentError) else Reason.FAILED
        return no_answer(request, reason, str(error), usage=error.usage, served=None)
