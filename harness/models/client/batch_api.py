"""Batches of any provider: the records we keep of them, and the calls that providers share.

Results are read from files of JSON lines. Nothing here waits or retries.
"""

import json
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import msgspec

from harness.core import Request, Response
from harness.errors import ModelError, StoreError
from harness.models.client.hosted import HostedModel
from harness.models.client.http import MOST_BYTES, HttpError
from harness.models.client.replies import merge, no_answer
from harness.models.client.retry import PermanentError, RetryableError
from harness.parts import Mode, Reason
from harness.storage.files import write_whole

if TYPE_CHECKING:
    from aiohttp import FormData

State = Literal["planned", "submitted", "collected"]
_log = logging.getLogger(__name__)
_T = TypeVar("_T")

LONGEST_NAME = 64
"""Characters of an entry's name in a batch, at either provider."""
ENTRY_BYTES = 2**18
"""Of one result in a file of them, on average: a vector of 10,000 numbers."""
TRANSFER_S = 600.0
"""How long the requests of a batch may take to go up, or its results to come down."""


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One batch: `nonce` is our name for it, `id` the provider's, None until it is known.

    `created` is in seconds since 1970. `entries` counts what the provider counts: one request may
    take several. `failed` are the requests without an answer in it: if they are wanted again, they
    are asked again.
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
    """The records of the batches of one model, below its stored calls."""

    def __init__(self, folder: Path) -> None:
        """Use the files in `folder`; reading creates nothing."""
        self._folder = folder

    def path(self, record: BatchRecord) -> Path:
        """The file of a record."""
        return self._folder / f"{record.nonce}.json"

    def read(self) -> list[BatchRecord]:
        """All records, the oldest first; StoreError where one is damaged."""
        records = [_read(path) for path in sorted(self._folder.glob("*.json"))]
        return sorted(records, key=lambda record: (record.created, record.nonce))

    def write(self, record: BatchRecord) -> None:
        """Write a record to disk, in place of its earlier version."""
        write_whole(self.path(record), msgspec.json.encode(record) + b"\n")
        with suppress(OSError):  # some file systems cannot sync a folder
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def remove(self, record: BatchRecord) -> None:
        """Remove the record of a batch that was never submitted."""
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


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The progress of a batch; `word` is the provider's own word, `files` hold its results.

    `error` says why the provider rejected the whole batch: then nothing of it was asked.
    """

    id: str
    word: str
    is_ended: bool
    done: int
    total: int
    files: tuple[str, ...] = ()
    error: str | None = None


class BatchExpired(Exception):
    """The provider knows no such batch, or no longer keeps its results."""


class Listed(msgspec.Struct):
    """A batch in a provider's list, by the provider's name for it."""

    id: str

    @property
    def made_s(self) -> float:
        """When it was created, in seconds since 1970."""
        raise NotImplementedError


_Listed = TypeVar("_Listed", bound=Listed)


class Page(msgspec.Struct, Generic[_Listed]):
    """A page of a provider's list."""

    data: list[_Listed]
    has_more: bool = False


class BatchServer(ABC):
    """The batches of a hosted model's provider.

    `most_entries` and `most_bytes` are what the provider takes in one batch; `path` is that of its
    batches, and `after` the parameter that turns a page of their list. Its calls raise
    RetryableError, PermanentError, BatchExpired or ModelError.
    """

    kind: ClassVar[str]
    path: ClassVar[str]
    after: ClassVar[str]
    most_entries: ClassVar[int]
    most_bytes: ClassVar[int]

    def __init__(self, hosted: HostedModel[Any]) -> None:
        """Use the server of the model."""
        self._hosted = hosted
        self._server = hosted.server

    @property
    def address(self) -> str:
        """The server's address, as messages may show it."""
        return self._server.address

    @property
    @abstractmethod
    def endpoints(self) -> Mapping[Mode, str]:
        """The modes that batches know, and the path of each; one batch has one path."""

    def check(self) -> None:
        """Check that the server is there; ModelError if not."""
        self._hosted.check()

    @abstractmethod
    def entries(self, request: Request) -> tuple[bytes, ...]:
        """A request as entries of a batch: JSON objects that hold the names of their results.

        There are several if one gives too few replies.
        """

    def submit(self, entries: Sequence[bytes], *, endpoint: str, nonce: str) -> str:
        """Submit a batch; the provider's name for it."""
        try:
            return self._create(entries, endpoint=endpoint, nonce=nonce)
        except BatchExpired as error:
            raise ModelError(
                f"{self.address} has no batches ({error}); leave out --batch"
            ) from None

    @abstractmethod
    def _create(self, entries: Sequence[bytes], *, endpoint: str, nonce: str) -> str:
        """Submit a batch; BatchExpired if the server has no such call."""

    @abstractmethod
    def find(self, record: BatchRecord, *, known: Collection[str | None]) -> str | None:
        """The name of a batch that may have been submitted, none of `known`; None if it was not."""

    @abstractmethod
    def status(self, name: str) -> BatchStatus:
        """The progress of a batch."""

    def results(
        self, status: BatchStatus, requests: Sequence[Request], *, record: BatchRecord
    ) -> Iterator[Response]:
        """The response to each request whose results are all in an ended batch.

        Several replies to a request are merged; results of other requests are logged.
        """
        wanted = {name: request for request in requests for name in self._names(request)}
        replies: dict[str, dict[str, Response]] = {}
        ours, foreign = {name_stem(key) for key in record.keys}, 0
        for line in self._lines(status, record):
            foreign += name_stem(line.custom_id) not in ours
            if (request := wanted.get(line.custom_id)) is None:
                continue
            own = replies.setdefault(request.key, {})
            try:
                reply = self._response(line, request)
            except (PermanentError, RetryableError) as error:
                reason = error.reason if isinstance(error, PermanentError) else Reason.FAILED
                reply = no_answer(request, reason, str(error), usage=error.usage, served=None)
            own[line.custom_id] = reply
            if len(own) == len(self._names(request)):
                in_order = [own[name] for name in self._names(request)]
                yield in_order[0] if len(in_order) == 1 else merge(request, in_order)
        if foreign:
            warning = "batch %s: %d results of no request of ours; left out"
            _log.warning(warning, record.id, foreign)

    @abstractmethod
    def _lines(self, status: BatchStatus, record: BatchRecord) -> Iterator[Any]:
        """The results of a batch, each with its `custom_id`."""

    @abstractmethod
    def _response(self, line: Any, request: Request) -> Response:  # noqa: ANN401 - see `_lines`
        """The response in one result; RetryableError or PermanentError if there is none."""

    def _names(self, request: Request) -> tuple[str, ...]:
        if request.decoding.n == 1:
            return (request.key,)
        stem = name_stem(request.key)
        return tuple(f"{stem}-{number:05d}" for number in range(request.decoding.n))

    def _listed(self, kind: type[Page[_Listed]], *, since: float) -> Iterator[_Listed]:
        """The provider's batches, the youngest first, as long as a page has one made `since`."""
        params = {"limit": "100"}
        while True:
            page = self._read(kind, "GET", self.path, params=params)
            yield from page.data
            if not (page.has_more and page.data) or page.data[-1].made_s < since:
                return
            params[self.after] = page.data[-1].id

    def _read(self, kind: type[_T], method: str, path: str, **how: Any) -> _T:  # noqa: ANN401 - of `_content`
        content = self._content(method, path, **how)
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.DecodeError, ValueError) as error:
            raise RetryableError(f"{self.address} sent what is not of its API ({error})") from None

    def _content(
        self,
        method: str,
        path: str,
        body: "bytes | FormData | None" = None,
        *,
        params: Mapping[str, str] | None = None,
        entries: int = 0,
    ) -> bytes:
        """The body of a reply, which may be as long as the results of so many entries."""
        with self._hosted.translating():
            try:
                return self._hosted.fetch(
                    method,
                    path,
                    body,
                    params=params,
                    timeout_s=max(self._hosted.spec.timeout_s, TRANSFER_S),
                    most_bytes=MOST_BYTES + ENTRY_BYTES * entries,
                )
            except HttpError as error:
                if error.status != 404:
                    raise
                words = self._server.quote(str(error.problem.get("message") or error.text))
                raise BatchExpired(f"404: {words}") from None


def split_batches(
    requests: Sequence[Request], server: BatchServer
) -> Iterator[tuple[tuple[Request, ...], list[bytes]]]:
    """Split requests into batches that the provider takes; each with its entries."""
    batch: list[Request] = []
    entries: list[bytes] = []
    size = 0
    for request in requests:
        new = server.entries(request)
        new_size = sum(len(entry) + 1 for entry in new)
        is_full = len(entries) + len(new) > server.most_entries
        if batch and (is_full or size + new_size > server.most_bytes):
            yield tuple(batch), entries
            batch, entries, size = [], [], 0
        batch.append(request)
        entries += new
        size += new_size
    if batch:
        yield tuple(batch), entries


def read_lines(content: bytes, kind: type[_T], *, where: str) -> Iterator[_T]:
    """The results in a file, one JSON object a line; damaged lines are logged and left out."""
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


def name_stem(name: str) -> str:
    """The start that the names of a request's entries share: most of its key."""
    return name[: LONGEST_NAME - 6]
