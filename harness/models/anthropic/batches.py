"""Message batches of Anthropic's API: requests in one call, their results in one file.

Requests and replies are those of single calls. Nothing here waits, retries or keeps a file.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from harness.core import Request, Response
from harness.models.anthropic.model import AnthropicModel, is_filtered, message_body, read_reply
from harness.models.client.batch_api import (
    BatchExpired,
    BatchRecord,
    BatchServer,
    BatchStatus,
    read_lines,
    record_of,
)
from harness.models.client.retry import PermanentError
from harness.parts import UNCHARGED, Mode, Reason


class _Counts(Struct):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0


class _Batch(Struct):
    id: str
    processing_status: str
    request_counts: _Counts
    archived_at: str | None = None


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
    _hosted: AnthropicModel

    def _client(self) -> Any:  # noqa: ANN401 - anthropic.Anthropic
        return self._package.Anthropic(base_url=self._server.url, **self._options())

    def entries(self, request: Request) -> tuple[bytes, ...]:
        """One entry for each reply that is wanted."""
        params = message_body(request, self._hosted.spec)
        return tuple(
            json.dumps({"custom_id": name, "params": params}).encode()
            for name in self._names(request)
        )

    def submit(self, entries: Sequence[bytes], *, endpoint: str, nonce: str) -> str:
        """Submit a batch."""
        requests = [json.loads(entry) for entry in entries]
        with self._calling() as client:
            return record_of(client.messages.batches.create(requests=requests), _Batch).id

    def find(self, record: BatchRecord) -> str | None:
        """Nothing: the API keeps no name of ours."""
        raise BatchExpired("no name of ours is kept there")

    def status(self, name: str) -> BatchStatus:
        """The progress of a batch."""
        with self._calling() as client:
            batch = record_of(client.messages.batches.retrieve(name), _Batch)
        if batch.archived_at is not None:
            raise BatchExpired(f"its results were kept until {batch.archived_at}")
        counts = batch.request_counts
        done = counts.succeeded + counts.errored + counts.canceled + counts.expired
        return BatchStatus(
            id=name,
            word=self._server.quote(batch.processing_status),
            is_ended=batch.processing_status == "ended",
            done=done,
            total=done + counts.processing,
        )

    def _lines(self, status: BatchStatus, record: BatchRecord) -> Iterator[_Line]:
        # Not by the package's `results`, which sends the key wherever the server says.
        path = f"/v1/messages/batches/{quote(status.id, safe='')}/results"
        content = self._download(path, record)
        return read_lines(content, _Line, where=f"batch {status.id}")

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
