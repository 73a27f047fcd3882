"""Batches of an OpenAI-compatible server: upload a file of requests, download files of results."""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from harness.core import Request, Response
from harness.models.client.batches import BatchRecord, BatchServer, BatchStatus
from harness.models.client.retry import PermanentError
from harness.models.openai.bodies import body_of, is_filtered, path_of, read_response
from harness.parts import UNCHARGED, Mode, Reason
from harness.specs.models import OpenAISpec

OLDEST_S = 24 * 3600.0
"""How far the server's clock may be behind ours when a lost batch is looked for."""
ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
NONCE = "harness_nonce"


class _Counts(Struct):
    total: int = 0
    completed: int = 0
    failed: int = 0


class _Error(Struct):
    message: str | None = None
    code: str | None = None


class _Errors(Struct):
    data: list[_Error] | None = None


class _Batch(Struct):
    id: str
    status: str
    created_at: float = 0.0
    metadata: dict[str, str] | None = None
    request_counts: _Counts | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: _Errors | None = None


class _Page(Struct):
    data: list[_Batch]
    has_more: bool = False


class _File(Struct):
    id: str


class _Reply(Struct):
    status_code: int
    body: Any = None


class _Line(Struct):
    custom_id: str
    response: _Reply | None = None
    error: _Error | None = None


class OpenAIBatches(BatchServer[OpenAISpec]):
    """The batches of the server of an OpenAI model.

    Limits from OpenAI's API reference, "Create batch": 50,000 requests, also of embeddings, 200 MB.
    """

    kind, line = "openai", _Line
    most_entries, most_bytes = 50_000, 200_000_000

    def path(self, request: Request) -> str | None:
        """The path of texts, by the API of the model's YAML, or of vectors."""
        can = request.mode in (Mode.GENERATE, Mode.EMBED)
        return f"/v1{path_of(request, self.hosted.spec)}" if can else None

    def entry(self, request: Request, name: str) -> bytes:
        """One line of the file."""
        body = body_of(request, self.hosted.model, self.hosted.spec)
        line = {"custom_id": name, "method": "POST", "url": self.path(request), "body": body}
        return json.dumps(line).encode()

    def submit(self, entries: Sequence[bytes], *, path: str, nonce: str) -> str:
        """Upload the requests, and submit a batch of them that carries our name for it."""
        lines = b"".join(entry + b"\n" for entry in entries)

        def form() -> object:
            import aiohttp

            whole = aiohttp.FormData({"purpose": "batch"})
            whole.add_field(
                "file", lines, filename=f"{nonce}.jsonl", content_type="application/jsonl"
            )
            return whole

        settings = {
            "input_file_id": self.ask_for(_File, "POST", "/files", form).id,
            "endpoint": path,
            "completion_window": "24h",
            "metadata": {NONCE: nonce},
        }
        return self.ask_for(_Batch, "POST", "/batches", settings).id

    def find(self, record: BatchRecord) -> str | None:
        """The batch that has our name for it, among those of our record's age or younger."""
        after, has_more = "", True
        while has_more:
            page = self.ask_for(_Page, "GET", f"/batches?limit=100{after}")
            for batch in page.data:
                if (batch.metadata or {}).get(NONCE) == record.nonce:
                    return batch.id
                if batch.created_at < record.created - OLDEST_S:
                    return None
            has_more = page.has_more and bool(page.data)
            after = f"&after={quote(page.data[-1].id, safe='')}" if has_more else ""
        return None

    def status(self, name: str) -> BatchStatus:
        """The progress of a batch; one that failed was rejected as a whole."""
        batch = self.ask_for(_Batch, "GET", f"/batches/{quote(name, safe='')}")
        counts, has_failed = batch.request_counts or _Counts(), batch.status == "failed"
        errors = (batch.errors or _Errors()).data or []
        why = "; ".join(f"{error.message or error.code}" for error in errors)
        files = filter(None, (batch.output_file_id, batch.error_file_id))
        return BatchStatus(
            *(self._server.quote(batch.status), batch.status in ENDED),
            *(counts.completed + counts.failed, counts.total),
            results=tuple(f"/files/{quote(file, safe='')}/content" for file in files),
            error=self._server.quote(why or "it does not say why") if has_failed else None,
        )

    def response(self, line: _Line, request: Request) -> Response:
        """The response in one result."""
        reply = line.response
        if reply is not None and reply.status_code == 200:
            content = json.dumps(reply.body).encode()
            return read_response(content, request, self._server, spec=self.hosted.spec)
        message, reason = "in a batch: ", Reason.FAILED
        if reply is None:
            error = line.error or _Error()
            message += f"{error.message or error.code or 'no response'}"
        else:
            found = reply.body.get("error") if isinstance(reply.body, dict) else None
            inner = found if isinstance(found, dict) else {}
            reason = Reason.FILTERED if is_filtered(inner) else Reason.FAILED
            message = f"{self.address} answered {reply.status_code} {message}"
            message += f"{inner.get('message') or reply.body}"
        raise PermanentError(reason, self._server.quote(message), usage=UNCHARGED)
