"""Batches of an OpenAI-compatible server: upload a file of requests, download files of results.

Requests and replies are those of single calls. Nothing here waits, retries or keeps a file.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import quote

from msgspec import Struct

from harness.core import Request, Response
from harness.models.client.batch_api import (
    BatchRecord,
    BatchServer,
    BatchStatus,
    read_lines,
    record_of,
)
from harness.models.client.replies import nth_request
from harness.models.client.retry import PermanentError
from harness.models.openai.bodies import (
    TooFewRepliesError,
    chat_body,
    embedding_body,
    is_filtered,
    read_reply,
    read_response,
    read_vector,
    response_body,
)
from harness.models.openai.model import OpenAIModel
from harness.parts import UNCHARGED, Mode, Reason

OLDEST_S = 24 * 3600.0
"""How far the server's clock may be behind ours when a lost batch is looked for."""
ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
NONCE = "harness_nonce"


class _File(Struct):
    id: str


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


class _Reply(Struct):
    status_code: int
    body: Any = None


class _Line(Struct):
    custom_id: str
    response: _Reply | None = None
    error: _Error | None = None


class OpenAIBatches(BatchServer):
    """The batches of the server of an OpenAI model.

    Limits from OpenAI's API reference, "Create batch": 50,000 requests, also of embeddings, 200 MB.
    """

    kind = "openai"
    without_key: ClassVar[Mapping[str, str]] = {"Authorization": "Bearer none"}  # which it asks for
    most_entries, most_bytes = 50_000, 200_000_000

    def __init__(self, model: OpenAIModel) -> None:
        """Use the server of the model, which may be asked for the model's name."""
        super().__init__(model)
        self._spec, self._model = model.spec, model.model

    @property
    def endpoints(self) -> Mapping[Mode, str]:
        """Texts, by the API of the model's YAML, and vectors."""
        texts = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}
        return {Mode.GENERATE: texts[self._spec.api], Mode.EMBED: "/v1/embeddings"}

    def _client(self) -> Any:  # noqa: ANN401 - openai.OpenAI
        return self._package.OpenAI(base_url=self._server.url, **self._options())

    def entries(self, request: Request) -> tuple[bytes, ...]:
        """One line of the file, or one line a reply where a line gives one reply."""
        names, url = self._names(request), self.endpoints[request.mode]
        body_of = response_body if self._spec.api == "responses" else chat_body
        body_of = embedding_body if request.mode is Mode.EMBED else body_of
        entries = []
        for index, name in enumerate(names):
            single = nth_request(request, index) if len(names) > 1 else request
            body = body_of(single, self._model, self._spec)
            line = {"custom_id": name, "method": "POST", "url": url, "body": body}
            entries.append(json.dumps(line).encode())
        return tuple(entries)

    def submit(self, entries: Sequence[bytes], *, endpoint: str, nonce: str) -> str:
        """Upload the requests, and submit a batch of them that carries our name for it."""
        lines = b"".join(entry + b"\n" for entry in entries)
        content = f"{nonce}.jsonl", lines, "application/jsonl"
        with self._calling() as client:
            file = record_of(client.files.create(file=content, purpose="batch"), _File)
            batch = client.batches.create(
                input_file_id=file.id,
                endpoint=endpoint,
                completion_window="24h",
                metadata={NONCE: nonce},
            )
            return record_of(batch, _Batch).id

    def find(self, record: BatchRecord) -> str | None:
        """The batch that has our name for it, among those of our record's age or younger."""
        with self._calling() as client:
            for batch in (record_of(found, _Batch) for found in client.batches.list(limit=100)):
                if (batch.metadata or {}).get(NONCE) == record.nonce:
                    return batch.id
                if batch.created_at < record.created - OLDEST_S:
                    return None
        return None

    def status(self, name: str) -> BatchStatus:
        """The progress of a batch; one that failed was rejected as a whole."""
        with self._calling() as client:
            batch = record_of(client.batches.retrieve(name), _Batch)
        counts, has_failed = batch.request_counts or _Counts(), batch.status == "failed"
        errors = (batch.errors or _Errors()).data or []
        why = "; ".join(f"{error.message or error.code}" for error in errors)
        return BatchStatus(
            id=name,
            word=self._server.quote(batch.status),
            is_ended=batch.status in ENDED,
            done=counts.completed + counts.failed,
            total=counts.total,
            files=tuple(filter(None, (batch.output_file_id, batch.error_file_id))),
            error=self._server.quote(why or "it does not say why") if has_failed else None,
        )

    def _lines(self, status: BatchStatus, record: BatchRecord) -> Iterator[_Line]:
        for file in status.files:
            content = self._download(f"/files/{quote(file, safe='')}/content", record)
            yield from read_lines(content, _Line, where=f"batch {status.id}")

    def _names(self, request: Request) -> tuple[str, ...]:
        is_one = request.mode is Mode.EMBED or not self._spec.is_one_by_one
        return (request.key,) if is_one else super()._names(request)

    def _response(self, line: _Line, request: Request) -> Response:
        if line.response is None:
            error = line.error or _Error()
            words = self._server.quote(f"{error.message or error.code or 'no response'}")
            raise PermanentError(Reason.FAILED, f"in a batch: {words}", usage=UNCHARGED)
        if line.response.status_code != 200:
            status, body = line.response.status_code, line.response.body
            found = body.get("error") if isinstance(body, dict) else None
            inner = found if isinstance(found, dict) else {}
            words = self._server.quote(f"{inner.get('message') or body}")
            reason = Reason.FILTERED if is_filtered(inner) else Reason.FAILED
            message = f"{self.address} answered {status} in a batch: {words}"
            raise PermanentError(reason, message, usage=UNCHARGED)
        content = json.dumps(line.response.body).encode()
        if request.mode is Mode.EMBED:
            return read_vector(content, request, self._server)
        if self._spec.api == "responses":
            return read_response(content, request, self._server)
        single = nth_request(request, 0) if self._spec.is_one_by_one else request
        try:
            return read_reply(content, single, self._server)
        except TooFewRepliesError as error:
            return error.response
