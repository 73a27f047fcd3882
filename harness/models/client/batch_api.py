"""Batches of any provider: the records we keep of them, and what their clients share.

The providers' own packages make the calls. Results are lines of JSON. Nothing here waits or
retries.
"""

import json
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from harness.core import Request, Response
from harness.errors import StoreError
from harness.models.client.hosted import HostedModel
from harness.models.client.http import MOST_BYTES, HttpError, proxy_of, redirect_error, trusted
from harness.models.client.replies import merge, no_answer
from harness.models.client.retry import PermanentError, RetryableError
from harness.parts import Mode, Reason
from harness.storage.files import write_whole

State = Literal["planned", "submitted", "collected"]
_log = logging.getLogger(__name__)
_T = TypeVar("_T")

LONGEST_NAME = 64
"""Characters of an entry's name in a batch, at either provider."""
ENTRY_BYTES = 2**18
"""Of one result in a file of them, on average: a vector of 10,000 numbers."""
NOT_SENT = ("Authorization", "X-Api-Key", "OpenAI-Organization", "OpenAI-Project")
"""Headers that the packages would take from the environment."""
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


class BatchServer(ABC):
    """The batches of a hosted model's provider, called by the provider's own package.

    `most_entries` and `most_bytes` are what the provider takes in one batch. Calls raise
    RetryableError, PermanentError, BatchExpired or ModelError.
    """

    kind: ClassVar[str]
    without_key: ClassVar[Mapping[str, str]] = {}  # the headers where there is no key
    most_entries: ClassVar[int]
    most_bytes: ClassVar[int]

    def __init__(self, hosted: HostedModel[Any]) -> None:
        """Use the server of the model."""
        self._hosted, self._server = hosted, hosted.server
        self.address, self.check = hosted.server.address, hosted.check

    @property
    @abstractmethod
    def endpoints(self) -> Mapping[Mode, str]:
        """The modes that batches know, and the path of each; one batch has one path."""

    @abstractmethod
    def entries(self, request: Request) -> tuple[bytes, ...]:
        """A request as entries of a batch: JSON objects that hold the names of their results.

        There are several if one gives too few replies.
        """

    @abstractmethod
    def submit(self, entries: Sequence[bytes], *, endpoint: str, nonce: str) -> str:
        """Submit a batch; the provider's name for it."""

    @abstractmethod
    def find(self, record: BatchRecord) -> str | None:
        """The name of a batch that may have been submitted; None if it was not.

        BatchExpired if the provider cannot say.
        """

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

    @cached_property
    def _package(self) -> Any:  # noqa: ANN401 - the package of either provider
        return import_module(self.kind)

    def _options(self) -> dict[str, Any]:
        """The options of a provider's client: our server and headers, no retries, no redirects."""
        server, package = self._server, self._package
        most_s = max(self._hosted.spec.timeout_s, TRANSFER_S)
        transport = package.DefaultHttpxClient(
            follow_redirects=False, trust_env=False, proxy=proxy_of(server), verify=trusted()
        )
        own = os.environ.get(f"{self.kind.upper()}_CUSTOM_HEADERS", "").splitlines()
        ours = {**self.without_key, **self._hosted.headers, **server.headers}
        names = {*NOT_SENT, *(line.partition(":")[0].strip() for line in own)}
        kept = {name.lower() for name in ours}
        headers = {name: package.Omit() for name in names if name.lower() not in kept} | ours
        options = {"max_retries": 0, "timeout": most_s, "default_headers": headers}
        return {"api_key": server.key or "none", "http_client": transport, **options}

    @abstractmethod
    def _client(self) -> Any:  # noqa: ANN401 - of the package, which is imported when it is needed
        """A client of the server, open inside a `with` block."""

    def _download(self, path: str, record: BatchRecord) -> bytes:
        """The results at a path below the server's own address, wherever it says that they are."""
        with self._calling() as client:
            content: bytes = client.get(path, cast_to=bytes)
        if len(content) > (most := MOST_BYTES + ENTRY_BYTES * record.entries):
            fact = f"{self.address} sent a reply of more than {most} bytes: it is left unread"
            raise PermanentError(Reason.FAILED, fact)
        return content

    @contextmanager
    def _calling(self) -> Iterator[Any]:
        """A client, whose errors become ours."""
        package, server = self._package, self._server
        try:
            with self._client() as client:
                yield client
        except package.APIStatusError as error:
            raise self._status_error(error.response) from None
        except package.APIConnectionError as error:
            fact = server.quote(str(error.__cause__ or error))
            raise RetryableError(f"{self.address}: {fact}") from None
        except (package.APIError, AttributeError, TypeError, ValueError) as error:
            fact = server.quote(str(error))
            raise RetryableError(f"{self.address} sent what is not of its API ({fact})") from None

    def _status_error(self, reply: Any) -> Exception:  # noqa: ANN401 - of the package's HTTP library
        """Our error for a reply with an error's status."""
        status, headers = reply.status_code, reply.headers
        if status < 400:
            return redirect_error(self._server, status, headers)
        error = HttpError(status, reply.content, path=reply.request.url.path, headers=headers)
        if status == 404:
            words = self._server.quote(str(error.problem.get("message") or error.text))
            return BatchExpired(f"404: {words}")
        return self._hosted.translated(error)


def record_of(found: Any, kind: type[_T]) -> _T:  # noqa: ANN401 - a model of either package
    """What a call of a provider's package returns, as a record that is checked."""
    return msgspec.convert(found.to_dict(mode="json", warnings=False), kind)


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
