"""Message batches of Anthropic's API: requests in one call, their results in one file."""

import json
from collections.abc import Sequence
from urllib.parse import quote

from msgspec import Struct

from harness.core import Request, Response
from harness.models.anthropic.model import is_filtered, message_body, read_reply
from harness.models.client.batches import (
    BatchExpired,
    BatchLine,
    BatchServer,
    BatchStatus,
    words_of,
)
from harness.models.client.retry import PermanentError
from harness.parts import UNCHARGED, Mode, Reason
from harness.specs.models import AnthropicSpec

PATH = "/v1/messages/batches"


class _Batch(Struct):
    id: str
    processing_status: str
    request_counts: dict[str, int]
    archived_at: str | None = None


class AnthropicBatches(BatchServer[AnthropicSpec]):
    """The message batches of the account of an Anthropic model.

    Limits from Anthropic's guide "Batch processing": 100,000 requests or 256 MB.
    """

    kind = "anthropic"
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

    def status(self, name: str) -> BatchStatus:
        """The progress of a batch."""
        path = f"{PATH}/{quote(name, safe='')}"
        batch = self.ask_for(_Batch, "GET", path)
        if batch.archived_at is not None:
            until = self._server.quote(batch.archived_at)
            raise BatchExpired(f"its results were kept until {until}")
        counts, word = batch.request_counts, self._server.quote(batch.processing_status)
        total = sum(counts.values())
        done = total - counts.get("processing", 0)
        # Not from where the server says that they are: the key would go there.
        results = (f"{path}/results",)
        return BatchStatus(word, word == "ended", done, total, results)

    def response(self, line: BatchLine, request: Request) -> Response:
        """The response in one result."""
        result = line.result or {}
        if result.get("type") == "succeeded":
            return read_reply(json.dumps(result.get("message")).encode(), request, self._server)
        error = result.get("error")
        words = words_of(error.get("error") if isinstance(error, dict) else None)
        reason = Reason.FILTERED if is_filtered(words) else Reason.FAILED
        message = self._server.quote(f"in a batch: {result.get('type')}: {words}")
        raise PermanentError(reason, message, usage=UNCHARGED)
