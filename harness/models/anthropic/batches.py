"""Message batches of Anthropic's API: requests in one call, their results in one file.

Requests and replies are those of single calls. Nothing here waits, retries or keeps a file.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
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
    Listed,
    Page,
    name_stem,
    read_lines,
)
from harness.models.client.retry import PermanentError, RetryableError
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


class _Batch(Listed):
    processing_status: str
    created_at: datetime
    request_counts: _Counts
    archived_at: datetime | None = None

    @property
    def made_s(self) -> float:
        return self.created_at.timestamp()

    @property
    def total(self) -> int:
        return self.request_counts.done + self.request_counts.processing


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

    kind, path, after = "anthropic", "/v1/messages/batches", "after_id"
    most_entries, most_bytes = 100_000, 256_000_000
    endpoints: Mapping[Mode, str] = {Mode.GENERATE: "/v1/messages"}

    def __init__(self, model: AnthropicModel) -> None:
        """Use the server of the model."""
        super().__init__(model)
        self._spec = model.spec

    def entries(self, request: Request) -> tuple[bytes, ...]:
        """One entry for each reply that is wanted."""
        params = message_body(request, self._spec)
        return tuple(
            json.dumps({"custom_id": name, "params": params}).encode()
            for name in self._names(request)
        )

    def _create(self, entries: Sequence[bytes], *, endpoint: str, nonce: str) -> str:
        body = b'{"requests": [' + b", ".join(entries) + b"]}"
        return self._read(_Batch, "POST", self.path, body=body).id

    def find(self, record: BatchRecord, *, known: Collection[str | None]) -> str | None:
        """The batch whose results have the names of our requests.

        The API keeps no name of ours, and lists no requests: what may be ours has to end first.
        """
        for batch in self._listed(Page[_Batch], since=record.created - BEFORE_S):
            age_s = batch.made_s - record.created
            if batch.id in known or batch.total != record.entries:
                continue
            if not -BEFORE_S <= age_s <= AFTER_S:
                continue
            status = self.status(batch.id)
            if not status.is_ended:
                raise RetryableError(
                    f"batch {self._server.quote(batch.id)} may be the one whose name was lost, "
                    "which shows once it has ended"
                )
            ours = {name_stem(key) for key in record.keys}
            if any(name_stem(line.custom_id) in ours for line in self._lines(status, record)):
                return batch.id
        return None

    def status(self, name: str) -> BatchStatus:
        """The progress of a batch."""
        batch = self._read(_Batch, "GET", f"{self.path}/{quote(name, safe='')}")
        if batch.archived_at is not None:
            raise BatchExpired(f"its results were kept until {batch.archived_at}")
        return BatchStatus(
            id=name,
            word=self._server.quote(batch.processing_status),
            is_ended=batch.processing_status == "ended",
            done=batch.request_counts.done,
            total=batch.total,
        )

    def _lines(self, status: BatchStatus, record: BatchRecord) -> Iterator[_Line]:
        # From this path, and not from any address that the server names: the key goes with it.
        path = f"{self.path}/{quote(status.id, safe='')}/results"
        content = self._content("GET", path, entries=record.entries)
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
