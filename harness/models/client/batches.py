"""Requests to Responses by way of a provider's batches: cheaper, and up to a day later.

A batch is recorded before it is submitted, so that no later command submits it again.
"""

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar
from uuid import uuid4

import msgspec
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt

from harness.core import Request, Response
from harness.errors import ModelError, StoreError
from harness.models.client.cached import Progress
from harness.models.client.hosted import HostedModel
from harness.models.client.http import MOST_BYTES, HttpError, wait_for
from harness.models.client.replies import no_answer, read_body
from harness.models.client.retry import (
    CallError,
    PermanentError,
    RetryableError,
    merge,
    nth_request,
)
from harness.parts import UNCHARGED, Mode, Reason
from harness.specs.models import HostedSpec
from harness.storage.files import write_whole

_T = TypeVar("_T")
_Spec = TypeVar("_Spec", bound=HostedSpec)
# The seconds between two looks at a batch: the first, how they grow, and the longest.
FIRST_S, GROWTH, LONGEST_S = 2.0, 1.5, 60.0
LONGEST_NAME = 64  # characters of an entry's name in a batch, at either provider
ENTRY_BYTES = 2**18  # of one result in a file of them, on average: a vector of 10,000 numbers
# How long the requests of a batch may take to go up, or its results to come down.
TRANSFER_S = 600.0


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One batch: `nonce` is our name for it, `id` the provider's, None until it is known.

    `created` is in seconds since 1970. A request may take several `entries`. `failed` are those
    without an answer, which are asked again if they are wanted again.
    """

    nonce: str
    provider: str
    address: str
    created: float
    keys: tuple[str, ...]
    entries: int
    id: str | None = None
    state: Literal["planned", "submitted", "collected"] = "planned"
    failed: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """Its name, which is the provider's choice, as messages may show it."""
        return "".join(filter(str.isprintable, self.id or ""))[:LONGEST_NAME]


class BatchFiles:
    """The records of the batches of one model, below its stored calls."""

    def __init__(self, folder: Path) -> None:
        """Use the files in `folder`; reading creates nothing."""
        self._folder = folder

    def path(self, record: BatchRecord) -> Path:
        """The file of a record."""
        return self._folder / f"{record.nonce}.json"

    def read(self) -> list[BatchRecord]:
        """All records, the oldest first; StoreError where one is damaged."""
        records = []
        for path in self._folder.glob("*.json"):
            try:
                records.append(msgspec.json.decode(path.read_bytes(), type=BatchRecord))
            except (OSError, ValueError) as error:
                raise StoreError(
                    f"{path}: damaged record of a batch ({error}); restore it from a copy, or "
                    "remove it to have its requests asked again"
                ) from error
        return sorted(records, key=lambda record: (record.created, record.nonce))

    def write(self, record: BatchRecord) -> None:
        """Write a record to disk, in place of its earlier version."""
        write_whole(self.path(record), msgspec.json.encode(record) + b"\n")

    def remove(self, record: BatchRecord) -> None:
        """Remove the record of a batch that was never submitted."""
        self.path(record).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The progress of a batch by the provider's `word`; `results` are the paths of its results.

    `error` says why the provider rejected the whole batch: then nothing of it was asked.
    """

    word: str
    is_ended: bool
    done: int
    total: int
    results: tuple[str, ...] = ()
    error: str | None = None


class BatchLine(msgspec.Struct):
    """One result of a batch, of the request by that name: OpenAI's `response`, or a `result`."""

    custom_id: str
    response: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: Any = None


class BatchExpired(Exception):
    """The provider knows no such batch, or no longer keeps its results."""


class BatchServer(ABC, Generic[_Spec]):
    """The batches of a hosted model's provider, which takes `most_entries` and `most_bytes` in one.

    Calls raise RetryableError, PermanentError, BatchExpired or ModelError.
    """

    kind: ClassVar[str]
    most_entries: ClassVar[int]
    most_bytes: ClassVar[int]

    def __init__(self, hosted: HostedModel[_Spec]) -> None:
        """Use the server of the model."""
        self.hosted, self._server = hosted, hosted.server
        self.address = hosted.server.address

    @abstractmethod
    def path(self, request: Request) -> str | None:
        """The path of a request, which all requests of a batch share; None if it cannot be one."""

    @abstractmethod
    def entry(self, request: Request, name: str) -> bytes:
        """A request as an entry of a batch: JSON that holds the name of its result."""

    @abstractmethod
    def submit(self, entries: Sequence[bytes], *, path: str, nonce: str) -> str:
        """Submit a batch; the provider's name for it."""

    def find(self, record: BatchRecord) -> str | None:
        """The name of a batch that may have arrived; None if not, BatchExpired if nobody knows."""
        raise BatchExpired("it does not say which batch is whose")

    @abstractmethod
    def status(self, name: str) -> BatchStatus:
        """The progress of a batch."""

    @abstractmethod
    def response(self, line: BatchLine, request: Request) -> Response:
        """The response in one result; RetryableError or PermanentError if there is none."""

    def entries(self, request: Request) -> dict[str, Request]:
        """The entries of a request by the names of their results: several for one reply each."""
        count = request.decoding.n
        if count == 1 or not self.hosted.is_one_by_one or request.mode is Mode.EMBED:
            return {request.key: request}
        stem = request.key[: LONGEST_NAME - 6]
        return {f"{stem}-{at:05d}": nth_request(request, at) for at in range(count)}

    def results(
        self, status: BatchStatus, requests: Sequence[Request], record: BatchRecord
    ) -> Iterator[Response]:
        """The response to each request whose results are all in an ended batch."""
        entries = {request.key: self.entries(request) for request in requests}
        wanted = {name: request for request in requests for name in entries[request.key]}
        replies = defaultdict[str, dict[str, Response]](dict)
        for line in (line for line in self._lines(status, record) if line.custom_id in wanted):
            request = wanted[line.custom_id]
            own, names = replies[request.key], entries[request.key]
            one = names[line.custom_id]
            try:
                reply = self.response(line, one)
            except CallError as error:
                reason = error.reason if isinstance(error, PermanentError) else Reason.FAILED
                reply = no_answer(one, reason, str(error), usage=error.usage)
            own[line.custom_id] = reply
            if len(own) == len(names):
                in_order = [own[name] for name in names]
                yield in_order[0] if len(in_order) == 1 else merge(request, in_order)

    def _lines(self, status: BatchStatus, record: BatchRecord) -> Iterator[BatchLine]:
        """The results of a batch; damaged ones are left out."""
        most = MOST_BYTES + ENTRY_BYTES * record.entries
        contents = (self.ask("GET", path, most=most) for path in status.results)
        for line in filter(bytes.strip, chain.from_iterable(map(bytes.splitlines, contents))):
            # Python's reader takes half an emoji, which the other one does not.
            with suppress(msgspec.ValidationError, ValueError, RecursionError):
                yield msgspec.convert(json.loads(line), BatchLine)

    def ask(self, method: str, path: str, body: Any = None, *, most: int = MOST_BYTES) -> bytes:  # noqa: ANN401 - as of Connection
        """The reply to one call."""
        timeout_s = max(self.hosted.spec.timeout_s, TRANSFER_S)

        async def call() -> bytes:
            sent = body() if callable(body) else body  # a form belongs to an event loop
            async with self.hosted.connected() as connection, asyncio.timeout(timeout_s):
                return await connection.request(method, path, sent, most=most)

        try:
            return wait_for(call())
        except TimeoutError:
            raise RetryableError(f"{self.address}: no answer within {timeout_s:g} s") from None
        except HttpError as error:
            if error.status == 404:
                raise BatchExpired(f"404: {self._server.quote(error.words)}") from None
            raise self.hosted.translated(error) from None

    def ask_for(self, kind: type[_T], method: str, path: str, body: object = None) -> _T:
        """The reply to one call as a record."""
        try:
            return msgspec.convert(read_body(self.ask(method, path, body), self._server), kind)
        except msgspec.ValidationError as error:
            fact = f"{self.address} sent what is not of its API ({self._server.quote(str(error))})"
            raise RetryableError(fact) from None


_Job = tuple[BatchRecord, list[Request]]  # a batch, and what is wanted of it


class BatchModel:
    """A hosted model that is called in batches."""

    def __init__(
        self,
        server: BatchServer[Any],
        *,
        files: BatchFiles,
        progress: Progress,
        attempts: int = 8,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """A call that fails is tried `attempts` times."""
        model = server.hosted
        self.name, self.kind, self.modes = model.name, model.kind, model.modes
        self._model, self._server, self._files = model, server, files
        self._progress, self._attempts, self._sleep = progress, attempts, sleep

    def resolve(self) -> None:
        """Resolve the model."""
        self._model.resolve()

    @property
    def identity(self) -> str:
        """The identity of the model: an answer is the same with and without batches."""
        return self._model.identity

    @property
    def revision(self) -> str | None:
        """The revision of the model."""
        return self._model.revision

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once: from earlier batches, and from new ones."""
        wanted = {request.key: request for request in requests}
        if not wanted:
            return
        if unknown := {r.mode for r in wanted.values() if self._server.path(r) is None}:
            raise ModelError(
                f"batches cannot be asked to {', '.join(sorted(unknown))}; leave out --batch, or "
                "have choices written: --answers written"
            )
        self._model.check()
        earlier = self._earlier_jobs(wanted)
        yield from self._await([*earlier, *self._submit([*wanted.values()])])

    def _earlier_jobs(self, wanted: dict[str, Request]) -> list[_Job]:
        """The batches of earlier commands; their requests are taken out of `wanted`."""
        jobs = []
        for record in self._files.read():
            keys = [key for key in record.keys if key in wanted and key not in record.failed]
            found = self._found(record) if keys and record.id is None else record
            if keys and found is not None:
                jobs.append((found, [wanted.pop(key) for key in keys]))
        return jobs

    def _found(self, record: BatchRecord) -> BatchRecord | None:
        """The record of a batch that a killed command handed in; None if it did not arrive."""
        try:
            name = self._retry(lambda: self._server.find(record))
        except BatchExpired:
            raise ModelError(
                f"a batch of {len(record.keys)} requests may be at {self._server.address} or not: "
                f"look in the provider's console. If it is there, write its id as `id`, and "
                f"`submitted` as `state`, into {self._files.path(record)}; if not, remove that file"
            ) from None
        if name is None:
            self._files.remove(record)
            return None
        found = replace(record, id=name, state="submitted")
        self._files.write(found)
        return found

    def _submit(self, requests: Sequence[Request]) -> list[_Job]:
        """Submit requests in batches that the provider takes."""
        server, jobs = self._server, list[_Job]()
        batch, entries, size, path = list[Request](), list[bytes](), 0, ""
        for request in sorted(requests, key=lambda one: server.path(one) or ""):
            named = server.entries(request).items()
            new = [server.entry(one, name) for name, one in named]
            new_size, new_path = sum(len(entry) + 1 for entry in new), server.path(request) or ""
            is_full = len(entries) + len(new) > server.most_entries
            if batch and (is_full or size + new_size > server.most_bytes or path != new_path):
                jobs.append(self._submit_batch(batch, entries, path=path))
                batch, entries, size = [], [], 0
            batch.append(request)
            entries += new
            size, path = size + new_size, new_path
        return [*jobs, self._submit_batch(batch, entries, path=path)] if batch else jobs

    def _submit_batch(
        self, requests: list[Request], entries: Sequence[bytes], *, path: str
    ) -> _Job:
        server = self._server
        keys = tuple(request.key for request in requests)
        record = BatchRecord(
            *(uuid4().hex, server.kind, server.address), time.time(), keys, len(entries)
        )

        def submit() -> str:
            self._files.write(record)
            try:
                return server.submit(entries, path=path, nonce=record.nonce)
            except (CallError, ModelError, BatchExpired) as error:
                # An error's status says that there is no batch; without a reply there may be one.
                if not isinstance(error, RetryableError) or error.usage == UNCHARGED:
                    self._files.remove(record)
                    raise
                fact = f"{error}: whether the batch arrived is not known"
                raise ModelError(f"{fact}; repeat the command") from None

        try:
            submitted = replace(record, id=self._retry(submit), state="submitted")
        except BatchExpired as error:
            fact = f"{server.address} has no batches ({error}); leave out --batch"
            raise ModelError(fact) from None
        self._files.write(submitted)
        return submitted, requests

    def _await(self, jobs: Sequence[_Job]) -> Iterator[Response]:
        errors, waiting, wait_s = list[str](), list(jobs), FIRST_S
        while waiting:
            polled = [(job, self._poll(job)) for job in waiting]
            for job, status in (one for one in polled if one[1].is_ended):
                if status.error is None:
                    yield from self._collect(job, status)
                    continue
                self._files.remove(job[0])
                errors.append(f"batch {job[0].shown}: {status.error}")
            waiting = [job for job, status in polled if not status.is_ended]
            if waiting:
                self._sleep(wait_s)
                wait_s = min(LONGEST_S, GROWTH * wait_s)
        if errors:
            raise ModelError(
                f"{self._server.address} took none of {len(errors)} batches ({errors[0]}); "
                "nothing of them was asked: mend that, then repeat the command"
            )

    def _poll(self, job: _Job) -> BatchStatus:
        record, wanted = job
        status = self._of(record, lambda: self._server.status(record.id or ""))
        how_far = f"{status.word}: {status.done} of {status.total} answered there"
        self._progress(f"batch {record.shown} ({how_far})", 0, len(wanted))
        return status

    def _collect(self, job: _Job, status: BatchStatus) -> Iterator[Response]:
        record, wanted = job
        keys = [request.key for request in wanted]
        found = self._of(
            record, lambda: {r.key: r for r in self._server.results(status, wanted, record)}
        )
        fact = f"batch {record.shown} ended ({status.word}) without a result of this request"
        lost = {key: Response.failed(key, Reason.FAILED, fact) for key in keys if key not in found}
        yield from (responses := found | lost).values()
        failed = {*record.failed} | {key for key, one in responses.items() if one.failure}
        state = "collected" if {*keys} | failed >= {*record.keys} else record.state
        self._files.write(replace(record, state=state, failed=tuple(sorted(failed))))

    def _of(self, record: BatchRecord, call: Callable[[], _T]) -> _T:
        """What the provider says of a batch; ModelError if it has no such batch any more."""
        try:
            return self._retry(call)
        except BatchExpired as error:
            raise ModelError(
                f"batch {record.shown} with {len(record.keys)} requests, or its results, are not "
                f"at {self._server.address} ({error}): use the key it was handed in with, or "
                f"remove {self._files.path(record)} to have its requests asked, and paid for, again"
            ) from None

    def _retry(self, call: Callable[[], _T]) -> _T:
        passing, stop = retry_if_exception_type(RetryableError), stop_after_attempt(self._attempts)
        retrying = Retrying(retry=passing, stop=stop, wait=_wait_s, sleep=self._sleep, reraise=True)
        try:
            return retrying(call)
        except PermanentError as error:
            raise ModelError(f"{error}; to ask at once, leave out --batch") from None
        except RetryableError as error:
            raise ModelError(
                f"{error}; gave up after attempt {self._attempts}: what was handed in stays, and "
                "the same command collects it"
            ) from None


def _wait_s(state: RetryCallState) -> float:
    """The seconds before the next attempt: growing, or what the server asks for."""
    error = state.outcome.exception() if state.outcome else None
    asked_s = error.retry_after_s if isinstance(error, RetryableError) else None
    return max(min(LONGEST_S, FIRST_S * GROWTH ** (state.attempt_number - 1)), asked_s or 0.0)


def words_of(error: object) -> str:
    """The message in an error of a provider, or its code; empty without either."""
    found = error if isinstance(error, dict) else {}
    return str(found.get("message") or found.get("code") or "")
