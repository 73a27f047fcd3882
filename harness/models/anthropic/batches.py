"""Message batches of Anthropic's API: requests in one call, their results in one file.

Requests are worded, and replies read, as those of single calls are. Nothing here waits, retries
or keeps a file.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Struct

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.anthropic.model import AnthropicModel, arguments, client_options, translated
from harness.models.anthropic.replies import is_filtered, read_reply
from harness.models.client.batch_api import (
    BatchEntry,
    BatchExpired,
    BatchLimits,
    BatchRecord,
    BatchStatus,
    body_of,
    gathered,
    names_of,
    read_lines,
    start_of,
)
from harness.models.client.retry import PermanentError, RetryableError
from harness.parts import UNCHARGED, Mode, Reason

_T = TypeVar("_T")

LIMITS = BatchLimits(entries=100_000, bytes=256_000_000)
"""Of Anthropic's guide "Batch processing": 100,000 requests or 256 MB, whichever comes first."""
TRANSFER_S = 600.0
"""How long requests may take to go up, or results to come down."""
BEFORE_S, AFTER_S = 600.0, 3600.0
"""How much younger or older than our note of it a batch may be by the server's clock."""


class _Counts(Struct):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0

    @property
    def done(self) -> int:
        return self.succeeded + self.errored + self.canceled + self.expired


class _Batch(Struct):
    id: str
    processing_status: str
    created_at: datetime
    request_counts: _Counts
    archived_at: datetime | None = None


class _Page(Struct):
    data: list[_Batch]
    has_more: bool = False


class _Result(Struct):
    type: str
    message: Any = None
    error: Any = None


class _Line(Struct):
    custom_id: str
    result: _Result


class AnthropicBatches:
    """The message batches of the account that a model is asked with."""

    kind = "anthropic"
    limits = LIMITS
    endpoints: Mapping[Mode, str] = {Mode.GENERATE: "/v1/messages"}

    def __init__(self, model: AnthropicModel) -> None:
        """Reach them as the model is reached."""
        self._server, self._spec = model.access
        self._check = model.check

    @property
    def address(self) -> str:
        """The server's address."""
        return self._server.address

    def __enter__(self) -> Self:
        """See that the server is there, and open connections, which bear long transfers."""
        import anthropic

        self._check()
        timeout_s = max(self._spec.timeout_s, TRANSFER_S)
        self._client = anthropic.Anthropic(**client_options(self._server), timeout=timeout_s)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close them."""
        self._client.close()

    def entries(self, request: Request) -> tuple[BatchEntry, ...]:
        """One entry for each reply that is wanted."""
        params = body_of(arguments(request, self._spec))
        return tuple(
            BatchEntry(name, json.dumps({"custom_id": name, "params": params}).encode())
            for name in names_of(request)
        )

    def submit(self, entries: Sequence[BatchEntry], *, endpoint: str, nonce: str) -> str:
        """Hand all entries in with one call, which takes no name of ours."""
        asked = [json.loads(entry.line) for entry in entries]
        batches = self._client.messages.batches.with_raw_response
        try:
            return self._asked(partial(batches.create, requests=asked), _Batch).id
        except BatchExpired as error:
            raise ModelError(
                f"{self.address} has no batches ({error}); leave out --batch"
            ) from None

    def find(self, record: BatchRecord, *, known: Collection[str | None]) -> str | None:
        """Of the batches of as many entries, the one made nearest to when we noted it."""
        fitting = [
            batch
            for batch in self._listed(record)
            if batch.id not in known and self._may_be(batch, record)
        ]
        nearest = min(fitting, key=lambda batch: abs(_age_s(batch, record)), default=None)
        return nearest.id if nearest else None

    def _listed(self, record: BatchRecord) -> Iterator[_Batch]:
        """The batches of the account, the youngest first, down to those older than a record."""
        after: dict[str, Any] = {}
        while True:
            batches = self._client.messages.batches.with_raw_response
            page = self._asked(partial(batches.list, limit=100, **after), _Page)
            yield from page.data
            is_old = page.data and _age_s(page.data[-1], record) < -BEFORE_S
            if is_old or not (page.has_more and page.data):
                return
            after = {"after_id": page.data[-1].id}

    def look(self, name: str) -> BatchStatus:
        """How a batch fares."""
        batches = self._client.messages.batches.with_raw_response
        batch = self._asked(partial(batches.retrieve, name), _Batch)
        if batch.archived_at is not None:
            raise BatchExpired(f"its results were kept until {batch.archived_at}")
        counts = batch.request_counts
        return BatchStatus(
            id=name,
            word=self._server.told(batch.processing_status),
            is_ended=batch.processing_status == "ended",
            done=counts.done,
            total=counts.done + counts.processing,
        )

    def results(
        self, status: BatchStatus, requests: Sequence[Request], *, record: BatchRecord
    ) -> Iterator[Response]:
        """What each entry came to; several replies to a request are joined once all are there."""
        lines = ((line.custom_id, partial(self._read, line)) for line in self._lines(status.id))
        yield from gathered(lines, requests, names=names_of, record=record)

    def _may_be(self, batch: _Batch, record: BatchRecord) -> bool:
        """Whether a batch can be the one of a record: by size, time and, if it has any, results."""
        counts = batch.request_counts
        is_fitting = counts.done + counts.processing == record.entries
        if not is_fitting or not -BEFORE_S <= _age_s(batch, record) <= AFTER_S:
            return False
        if batch.processing_status != "ended":
            return True
        ours = {start_of(key) for key in record.keys}
        return any(start_of(line.custom_id) in ours for line in self._lines(batch.id))

    def _lines(self, name: str) -> Iterator[_Line]:
        """The results of a batch that has ended."""
        batches = self._client.messages.batches.with_raw_response
        content = self._content(partial(batches.results, name))
        return read_lines(content, _Line, where=f"batch {name}")

    def _read(self, line: _Line, request: Request) -> Response:
        """The response in one result."""
        result = line.result
        if result.type == "succeeded":
            return read_reply(json.dumps(result.message).encode(), request, self._server)
        told = _message(result.error)
        reason = Reason.FILTERED if is_filtered(told) else Reason.FAILED
        message = self._server.told(f"in a batch: {result.type}{told}")
        raise PermanentError(reason, message, usage=UNCHARGED)

    def _asked(self, call: Callable[[], Any], kind: type[_T]) -> _T:
        """What a call gives, read from its JSON."""
        content = self._content(call)
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.DecodeError, ValueError) as error:
            raise RetryableError(f"{self.address} sent what is not of its API ({error})") from None

    def _content(self, call: Callable[[], Any]) -> bytes:
        """The bytes of the reply to a call of the client library."""
        import anthropic

        try:
            content: bytes = call().http_response.read()
        except anthropic.NotFoundError as error:
            raise BatchExpired(f"404: {self._server.told(str(error.message))}") from None
        except anthropic.AnthropicError as error:
            # The library's message may repeat the key: it is not chained.
            raise translated(error, self._server, model=self._spec.model) from None
        return content


def _age_s(batch: _Batch, record: BatchRecord) -> float:
    """By how much a batch is younger than our note of it."""
    return batch.created_at.timestamp() - record.created


def _message(error: object) -> str:
    """What an error in place of a message says, behind a colon."""
    inner = error.get("error") if isinstance(error, dict) else None
    told = inner.get("message") if isinstance(inner, dict) else None
    return f": {told}" if told else ""
