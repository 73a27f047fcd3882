"""Batches of an OpenAI-compatible server: a file of requests up, files of results down.

Requests are worded, and replies read, as those of single calls are. Nothing here waits, retries
or keeps a file.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Struct

from harness.core import Request, Response
from harness.errors import ModelError
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
)
from harness.models.client.replies import nth_request
from harness.models.client.retry import PermanentError, RetryableError
from harness.models.openai.chat import TooFew, read_reply, read_vector
from harness.models.openai.errors import is_filtered, translated
from harness.models.openai.model import OpenAIModel, arguments, client_options, embedding_arguments
from harness.models.openai.responses import read_response, response_arguments
from harness.parts import UNCHARGED, Mode, Reason

_T = TypeVar("_T")

LIMITS = BatchLimits(entries=50_000, bytes=200_000_000)
"""Of OpenAI's API reference, "Create batch": 50,000 requests, also of embeddings, and 200 MB."""
TRANSFER_S = 600.0
"""How long a file may take to go up or down."""
OLDEST_S = 24 * 3600.0
"""How far the server's clock may be behind ours when a lost batch is looked for."""
ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
NONCE = "harness_nonce"


class _Named(Struct):
    id: str


class _Counts(Struct):
    total: int = 0
    completed: int = 0
    failed: int = 0


class _Trouble(Struct):
    message: str | None = None
    code: str | None = None


class _Troubles(Struct):
    data: list[_Trouble] | None = None


class _Batch(Struct):
    id: str
    status: str
    created_at: float = 0.0
    metadata: dict[str, str] | None = None
    request_counts: _Counts | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: _Troubles | None = None


class _Page(Struct):
    data: list[_Batch]
    has_more: bool = False


class _Reply(Struct):
    status_code: int
    body: Any = None


class _Line(Struct):
    custom_id: str
    response: _Reply | None = None
    error: _Trouble | None = None


class OpenAIBatches:
    """The batches of the server that a model is behind."""

    kind = "openai"
    limits = LIMITS

    def __init__(self, model: OpenAIModel) -> None:
        """Reach it as the model is reached, which may ask the server for the model's name."""
        self._server, self._spec, self._model = model.access
        self._check = model.check

    @property
    def endpoints(self) -> Mapping[Mode, str]:
        """Texts by the API that the model is asked by, and vectors."""
        texts = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}
        return {Mode.GENERATE: texts[self._spec.api], Mode.EMBED: "/v1/embeddings"}

    @property
    def address(self) -> str:
        """The server's address."""
        return self._server.address

    def __enter__(self) -> Self:
        """See that the server is there, and open connections, which bear long transfers."""
        import openai

        self._check()
        timeout_s = max(self._spec.timeout_s, TRANSFER_S)
        self._client = openai.OpenAI(**client_options(self._server), timeout=timeout_s)
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
        """One line of the file, or as many as replies where one line gives one."""
        names, url = self._names(request), self.endpoints[request.mode]
        found = []
        for place, name in enumerate(names):
            asked = nth_request(request, place) if len(names) > 1 else request
            line = {"custom_id": name, "method": "POST", "url": url, "body": self._body(asked)}
            found.append(BatchEntry(name, json.dumps(line).encode()))
        return tuple(found)

    def submit(self, entries: Sequence[BatchEntry], *, endpoint: str, nonce: str) -> str:
        """Bring the file up and have it worked on, under our own name for it."""
        content = b"".join(entry.line + b"\n" for entry in entries)
        file = (f"{nonce}.jsonl", content, "application/jsonl")
        files, batches = self._client.files, self._client.batches
        try:
            upload = partial(files.with_raw_response.create, file=file, purpose="batch")
            asked: dict[str, Any] = {
                "input_file_id": self._asked(upload, _Named).id,
                "endpoint": endpoint,
                "completion_window": "24h",
                "metadata": {NONCE: nonce},
            }
            return self._asked(partial(batches.with_raw_response.create, **asked), _Named).id
        except BatchExpired as error:
            raise ModelError(
                f"{self.address} has no batches ({error}); leave out --batch"
            ) from None

    def find(self, record: BatchRecord, *, known: Collection[str | None]) -> str | None:
        """The batch that carries our name for it, among those as old or younger."""
        after: dict[str, Any] = {}
        while True:
            listed = partial(self._client.batches.with_raw_response.list, limit=100, **after)
            page = self._asked(listed, _Page)
            for batch in page.data:
                if (batch.metadata or {}).get(NONCE) == record.nonce and batch.id not in known:
                    return batch.id
            if not (page.has_more and page.data):
                return None
            if page.data[-1].created_at < record.created - OLDEST_S:
                return None
            after = {"after": page.data[-1].id}

    def look(self, name: str) -> BatchStatus:
        """How a batch fares; one that failed was refused as a whole."""
        batch = self._asked(partial(self._client.batches.with_raw_response.retrieve, name), _Batch)
        counts = batch.request_counts or _Counts()
        told = [f"{part.message or part.code}" for part in (batch.errors or _Troubles()).data or []]
        trouble = self._server.told("; ".join(told) or "it does not say why")
        return BatchStatus(
            id=name,
            word=self._server.told(batch.status),
            is_ended=batch.status in ENDED,
            done=counts.completed + counts.failed,
            total=counts.total,
            files=tuple(filter(None, (batch.output_file_id, batch.error_file_id))),
            trouble=trouble if batch.status == "failed" else None,
        )

    def results(
        self, status: BatchStatus, requests: Sequence[Request], *, record: BatchRecord
    ) -> Iterator[Response]:
        """What stands in the file of answers and in that of errors."""
        lines = ((line.custom_id, partial(self._read, line)) for line in self._lines(status))
        yield from gathered(lines, requests, names=self._names, record=record)

    def _lines(self, status: BatchStatus) -> Iterator[_Line]:
        """The results of a batch that has ended."""
        for name in status.files:
            content = self._content(partial(self._client.files.with_raw_response.content, name))
            yield from read_lines(content, _Line, where=f"batch {status.id}")

    def _body(self, request: Request) -> dict[str, Any]:
        """A request as the body of a call."""
        worded = response_arguments if self._spec.api == "responses" else arguments
        worded = embedding_arguments if request.mode is Mode.EMBED else worded
        return body_of(worded(request, self._model, self._spec))

    def _names(self, request: Request) -> tuple[str, ...]:
        """The names of a request's lines: several where a line gives one reply."""
        is_one = request.mode is Mode.EMBED or not self._spec.is_one_by_one
        return (request.key,) if is_one else names_of(request)

    def _read(self, line: _Line, request: Request) -> Response:
        """The response in one result."""
        if line.response is None:
            error = line.error or _Trouble()
            told = self._server.told(f"{error.message or error.code or 'no response'}")
            raise PermanentError(Reason.FAILED, f"in a batch: {told}", usage=UNCHARGED)
        if line.response.status_code != 200:
            raise self._refusal(line.response.status_code, line.response.body)
        content = json.dumps(line.response.body).encode()
        if request.mode is Mode.EMBED:
            return read_vector(content, request, self._server)
        if self._spec.api == "responses":
            return read_response(content, request, self._server)
        asked = nth_request(request, 0) if self._spec.is_one_by_one else request
        try:
            return read_reply(content, asked, self._server)
        except TooFew as error:
            return error.response

    def _refusal(self, status: int, body: object) -> PermanentError:
        """What an error in place of an answer amounts to."""
        error = body.get("error") if isinstance(body, dict) else None
        inner = error if isinstance(error, dict) else {}
        told = self._server.told(f"{inner.get('message') or body}")
        reason = Reason.FILTERED if is_filtered(inner) else Reason.FAILED
        message = f"{self.address} answered {status} in a batch: {told}"
        return PermanentError(reason, message, usage=UNCHARGED)

    def _asked(self, call: Callable[[], Any], kind: type[_T]) -> _T:
        """What a call gives, read from its JSON."""
        content = self._content(call)
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.DecodeError, ValueError) as error:
            raise RetryableError(f"{self.address} sent what is not of its API ({error})") from None

    def _content(self, call: Callable[[], Any]) -> bytes:
        """The bytes of the reply to a call of the client library."""
        import openai

        try:
            content: bytes = call().http_response.content
        except openai.NotFoundError as error:
            raise BatchExpired(f"404: {self._server.told(str(error.message))}") from None
        except openai.OpenAIError as error:
            # The library's message may repeat the key: it is not chained.
            raise translated(error, self._server, model=self._model) from None
        return content
