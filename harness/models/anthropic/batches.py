"""Message batches of Anthropic's API: requests in one call, their results in one file.

Requests and replies are those of single calls. Nothing here waits, retries or keeps a file.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from harness.core import Request, Response
from harness.models.anthropic.model import (
    AnthropicModel,
    is_filtered,
    message_arguments,
    read_reply,
)
from harness.models.client.batch_api import (
    BatchExpired,
    BatchRecord,
    BatchServer,
    BatchStatus,
    name_stem,
    read_lines,
)
from harness.models.client.hosted import json_body
from harness.models.client.http import http_of
from harness.models.client.retry import PermanentError
from harness.parts import UNCHARGED, Mode, Reason

BEFORE_S, AFTER_S = 600.0, 3600.0
"""How much older or younger than our record a batch may be by the server's clock."""


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


class AnthropicBatches(BatchServer):
    """The message batches of the account of an Anthropic model.

    Limits from Anthropic's guide "Batch processing": 100,000 requests or 256 MB.
    """

    kind = "anthropic"
    most_entries, most_bytes = 100_000, 256_000_000
    endpoints: Mapping[Mode, str] = {Mode.GENERATE: "/v1/messages"}

    def __init__(self, model: AnthropicModel) -> None:
        """Use the server of the model."""
        super().__init__(model)
        self._spec = model.spec

    @property
    def _batches(self) -> Any:  # noqa: ANN401 - a part of the client
        return self._client.messages.batches.with_raw_response

    def entries(self, request: Request) -> tuple[bytes, ...]:
        """One entry for each reply that is wanted."""
        params = json_body(message_arguments(request, self._spec))
        return tuple(
            json.dumps({"custom_id": name, "params": params}).encode()
            for name in self._names(request)
        )

    def _create(self, entries: Sequence[bytes], *, endpoint: str, nonce: str) -> str:
        requests = [json.loads(entry) for entry in entries]
        return self._read(partial(self._batches.create, requests=requests), _Batch).id

    def find(self, record: BatchRecord, *, known: Collection[str | None]) -> str | None:
        """Of the batches with as many entries, the one created nearest to our record."""
        self._expect(record)
        candidates = [
            batch
            for batch in self._list(record)
            if batch.id not in known and self._may_be(batch, record)
        ]
        nearest = min(candidates, key=lambda batch: abs(_age_s(batch, record)), default=None)
        return nearest.id if nearest else None

    def _list(self, record: BatchRecord) -> Iterator[_Batch]:
        after: dict[str, Any] = {}
        while True:
            page = self._read(partial(self._batches.list, limit=100, **after), _Page)
            yield from page.data
            is_old = page.data and _age_s(page.data[-1], record) < -BEFORE_S
            if is_old or not (page.has_more and page.data):
                return
            after = {"after_id": page.data[-1].id}

    def status(self, name: str) -> BatchStatus:
        """The progress of a batch."""
        batch = self._read(partial(self._batches.retrieve, name), _Batch)
        if batch.archived_at is not None:
            raise BatchExpired(f"its results were kept until {batch.archived_at}")
        counts = batch.request_counts
        return BatchStatus(
            id=name,
            word=self._server.quote(batch.processing_status),
            is_ended=batch.processing_status == "ended",
            done=counts.done,
            total=counts.done + counts.processing,
        )

    def _may_be(self, batch: _Batch, record: BatchRecord) -> bool:
        counts = batch.request_counts
        has_size = counts.done + counts.processing == record.entries
        if not has_size or not -BEFORE_S <= _age_s(batch, record) <= AFTER_S:
            return False
        if batch.processing_status != "ended":
            return True
        ours = {name_stem(key) for key in record.keys}
        return any(name_stem(line.custom_id) in ours for line in self._lines(batch.id))

    def _lines(self, name: str, files: Sequence[str] = ()) -> Iterator[_Line]:
        # The library would fetch them, with the key, from wherever the server says they are.
        path = f"/v1/messages/batches/{quote(name, safe='')}/results"
        http = http_of(self._hosted.library.module)
        content = self._content(partial(self._client.get, path, cast_to=http.Response))
        return read_lines(content, _Line, where=f"batch {name}")

    def _response(self, line: _Line, request: Request) -> Response:
        result = line.result
        if result.type == "succeeded":
            return read_reply(json.dumps(result.message).encode(), request, self._server)
        inner = result.error.get("error") if isinstance(result.error, dict) else None
        words = inner.get("message") if isinstance(inner, dict) else None
        words = f": {words}" if words else ""
        reason = Reason.FILTERED if is_filtered(words) else Reason.FAILED
        message = self._server.quote(f"in a batch: {result.type}{words}")
        raise PermanentError(reason, message, usage=UNCHARGED)


def _age_s(batch: _Batch, record: BatchRecord) -> float:
    """By how many seconds a batch is younger than our record of it."""
    return batch.created_at.timestamp() - record.created
