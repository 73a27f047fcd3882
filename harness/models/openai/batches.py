"""Batches of an OpenAI-compatible server: upload a file of requests, download files of results."""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from harness.core import Request, Response
from harness.models.client.batches import BatchLine, BatchServer, BatchStatus, words_of
from harness.models.client.retry import PermanentError, attach_usage
from harness.models.openai.bodies import body_of, is_filtered, path_of, read_response
from harness.parts import UNCHARGED, Mode, Reason
from harness.specs.models import OpenAISpec

ENDED = frozenset({"completed", "expired", "cancelled", "failed"})


class _File(Struct):
    id: str


class _Batch(Struct):
    id: str
    status: str
    request_counts: dict[str, int] | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: dict[str, Any] | None = None


class OpenAIBatches(BatchServer[OpenAISpec]):
    """The batches of the server of an OpenAI model.

    Limits from OpenAI's API reference, "Create batch": 50,000 requests, also of embeddings, 200 MB.
    """

    kind = "openai"
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

        with attach_usage(UNCHARGED):  # a lost upload may be repeated
            file = self.ask_for(_File, "POST", "/files", form)
        settings: dict[str, object] = {
            "input_file_id": file.id,
            "endpoint": path,
            "completion_window": "24h",
        }
        settings |= {"metadata": {"harness_nonce": nonce}}
        return self.ask_for(_Batch, "POST", "/batches", settings).id

    def status(self, name: str) -> BatchStatus:
        """The progress of a batch; one that failed was rejected as a whole."""
        batch = self.ask_for(_Batch, "GET", f"/batches/{quote(name, safe='')}")
        counts, has_failed = batch.request_counts or {}, batch.status == "failed"
        files = filter(None, (batch.output_file_id, batch.error_file_id))
        return BatchStatus(
            *(self._server.quote(batch.status), batch.status in ENDED),
            *(counts.get("completed", 0) + counts.get("failed", 0), counts.get("total", 0)),
            results=tuple(f"/files/{quote(file, safe='')}/content" for file in files),
            error=self._server.quote(f"{batch.errors}") if has_failed else None,
        )

    def response(self, line: BatchLine, request: Request) -> Response:
        """The response in one result."""
        reply = line.response or {}
        status, body = reply.get("status_code"), reply.get("body")
        if status == 200:
            content = json.dumps(body).encode()
            return read_response(content, request, self._server, spec=self.hosted.spec)
        error = body.get("error") if isinstance(body, dict) else line.error
        inner = error if isinstance(error, dict) else {}
        reason = Reason.FILTERED if is_filtered(inner) else Reason.FAILED
        message = f"{self.address} answered {status} in a batch: {words_of(inner) or body}"
        raise PermanentError(reason, self._server.quote(message), usage=UNCHARGED)
