"""Message batches of Anthropic's API: requests in one call, their results in one file."""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from harness.core import Request, Response
from harness.models.anthropic.model import is_filtered, message_body, read_reply
from harness.models.client.batches import BatchExpired, BatchRecord, BatchServer, BatchStatus
from harness.models.client.retry import PermanentError
from harness.parts import UNCHARGED, Mode, Reason
from harness.specs.models import AnthropicSpec

PATH = "/v1/messages/batches"


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


class AnthropicBatches(BatchServer[AnthropicSpec]):
    """The message batches of the account of an Anthropic model.

    Limits from Anthropic's guide "Batch processing": 100,000 requests or 256 MB.
    """

    kind, line = "anthropic", _Line
    most_entries, most_bytes = 100_000, 256_000_000

    def path(self, request: Request) -> str | None:
        """The path of messages."""
        return "/v1/messages" if request.mode is Mode.GENERATE else None

    def entry(self, request: Request, name: str) -> bytes:
        """A message with its name."""
        params = message_body(request, self.hosted.spec)
        return json.dumps({"custom_id": name, "params": params}).encode()

    def submit(self, entries: Sequence[bytes], *, path: str, nonce: str) -> str:
        """Submit a batch."""
        body = b'{"requests": [' + b",".join(entries) + b"]}"
        return self.ask_for(_Batch, "POST", PATH, body).id

    def find(self, record: BatchRecord) -> str | None:
        """Nothing: the API keeps no name of ours."""
        raise BatchExpired("no name of ours is kept there")

    def status(self, name: str) -> BatchStatus:
        """The progress of a batch."""
        path = f"{PATH}/{quote(name, safe='')}"
        batch = self.ask_for(_Batch, "GET", path)
        if batch.archived_at is not None:
            until = self._server.quote(batch.archived_at)
            raise BatchExpired(f"its results were kept until {until}")
        counts, word = batch.request_counts, self._server.quote(batch.processing_status)
        done = counts.succeeded + counts.errored + counts.canceled + counts.expired
        # Not from where the server says that they are: the key would go there.
        results = (f"{path}/results",)
        return BatchStatus(word, word == "ended", done, done + counts.processing, results)

    def response(self, line: _Line, request: Request) -> Response:
        """The response in one result."""
        result = line.result
        if result.type == "succeeded":
            return read_reply(json.dumps(result.message).encode(), request, self._server)
        inner = result.error.get("error") if isinstance(result.error, dict) else None
        words = inner.get("message") if isinstance(inner, dict) else None
        words = f": {words}" if words else ""
        reason = Reason.FILTERED if is_filtered(words) else Reason.FAILED
        message = self._server.quote(f"in a batch: {result.type}{words}")
        raise PermanentError(reason, message, usage=UNCHARGED)
