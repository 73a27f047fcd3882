"""Requests to Responses by way of a provider's batches: cheaper, and up to a day later.

Takes the place of a hosted model, with its name and identity, so that keys and ledger are the
same. A batch is recorded before it is submitted, so that no later command submits it again.
Nothing here knows a provider, and nothing but records of batches is written.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import uuid4

from harness.core import Model, Request, Response
from harness.errors import ModelError
from harness.models.client.batch_api import (
    LONGEST_NAME,
    BatchExpired,
    BatchFiles,
    BatchRecord,
    BatchServer,
    BatchStatus,
    split_batches,
)
from harness.models.client.cached import Progress
from harness.models.client.retry import PermanentError, RetryableError
from harness.parts import Mode, Reason

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Polling:
    """The seconds between two looks at a batch, and how often a call that fails is tried."""

    first_s: float = 2.0
    growth: float = 1.5
    longest_s: float = 60.0
    attempts: int = 8
    sleep: Callable[[float], object] = time.sleep

    def waits(self) -> Iterator[float]:
        """The waits in seconds, each longer than the one before, up to the longest."""
        wait_s = self.first_s
        while True:
            yield wait_s
            wait_s = min(self.longest_s, wait_s * self.growth)


@dataclass(frozen=True, slots=True)
class _Job:
    record: BatchRecord
    wanted: tuple[Request, ...]

    @property
    def id(self) -> str:
        return self.record.id or ""

    @property
    def shown(self) -> str:
        """Its name, which is the provider's choice, as messages may show it."""
        return "".join(letter for letter in self.id if letter.isprintable())[:LONGEST_NAME]


class BatchModel:
    """A hosted model that is called in batches."""

    def __init__(
        self,
        model: Model,
        server: BatchServer,
        *,
        files: BatchFiles,
        progress: Progress,
        polling: Polling | None = None,
    ) -> None:
        """Keep the arguments; nothing is called and no record read yet.

        Batches may know fewer modes than the model: then `answer` raises ModelError.
        """
        self.name, self.kind, self.modes = model.name, model.kind, model.modes
        self._model, self._server, self._files = model, server, files
        self._progress, self._polling = progress, polling or Polling()

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
        """Answer each request once: from earlier batches, then from new ones.

        A response counts as stored once the caller asks for the next one.
        """
        wanted = {request.key: request for request in requests}
        if not wanted:
            return
        if unknown := {request.mode for request in wanted.values()} - set(self._server.endpoints):
            chooses = unknown & {Mode.CHOOSE, Mode.CHOOSE_TOKEN}
            remedy = ", or have the choices written: --answers written" if chooses else ""
            raise ModelError(
                f"batches cannot be asked to {', '.join(sorted(unknown))}; "
                f"leave out --batch{remedy}"
            )
        self._server.check()
        earlier = self._earlier_jobs(wanted)
        try:
            yield from self._responses(earlier, wanted)
        except KeyboardInterrupt:
            _log.warning(
                "%s works on what was handed in: nothing of it is lost or paid for twice, and "
                "the same command collects it, tomorrow as well",
                self._server.address,
            )
            raise

    def _responses(
        self, earlier: Sequence[_Job], wanted: Mapping[str, Request]
    ) -> Iterator[Response]:
        keys = {request.key for job in earlier for request in job.wanted}
        polled = [(job, self._poll(job)) for job in earlier]
        for job, status in polled:
            if status.is_ended and status.error is None:
                yield from self._collect(job, status)
        open_jobs = [job for job, status in polled if not status.is_ended or status.error]
        rest = [request for key, request in wanted.items() if key not in keys]
        yield from self._await([*open_jobs, *self._submit(rest)])

    def _earlier_jobs(self, wanted: Mapping[str, Request]) -> list[_Job]:
        left, jobs = dict(wanted), []
        records = self._files.read()
        known = {record.id for record in records}
        for record in records:
            keys = [key for key in record.keys if key in left and key not in record.failed]
            submitted = record if record.id or not keys else self._submitted(record, known)
            if keys and submitted is not None:
                known.add(submitted.id)
                jobs.append(_Job(submitted, tuple(left.pop(key) for key in keys)))
        return jobs

    def _submitted(self, record: BatchRecord, known: Collection[str | None]) -> BatchRecord | None:
        """A batch that a command was about to submit when it ended; None if it did not arrive."""
        name = self._retry(lambda _: self._find(record, known))
        if name is None:
            self._files.remove(record)
            return None
        submitted = replace(record, id=name, state="submitted")
        self._files.write(submitted)
        return submitted

    def _find(self, record: BatchRecord, known: Collection[str | None]) -> str | None:
        """The provider's name for a batch that may have arrived; None where it did not."""
        try:
            return self._server.find(record, known=known)
        except BatchExpired as error:
            raise ModelError(
                f"{self._server.address} lists no batches ({error}), so that one of "
                f"{len(record.keys)} requests may be there or not: remove "
                f"{self._files.path(record)} to have it handed in again"
            ) from None

    def _submit(self, requests: Sequence[Request]) -> list[_Job]:
        jobs = []
        for endpoint in sorted({self._server.endpoints[r.mode] for r in requests}):
            fitting = [r for r in requests if self._server.endpoints[r.mode] == endpoint]
            for batch, entries in split_batches(fitting, self._server):
                jobs.append(_Job(self._submit_batch(batch, entries, endpoint=endpoint), batch))
        return jobs

    def _submit_batch(
        self, requests: Sequence[Request], entries: Sequence[bytes], *, endpoint: str
    ) -> BatchRecord:
        server = self._server
        record = BatchRecord(
            nonce=uuid4().hex,
            provider=server.kind,
            address=server.address,
            created=time.time(),
            keys=tuple(request.key for request in requests),
            entries=len(entries),
        )
        known = {other.id for other in self._files.read()}
        self._files.write(record)

        def submit(attempt: int) -> str:
            # Where the reply was lost on its way, the batch may be there.
            if attempt and (name := self._find(record, known)):
                return name
            try:
                return server.submit(entries, endpoint=endpoint, nonce=record.nonce)
            except (PermanentError, ModelError):
                self._files.remove(record)
                raise

        submitted = replace(record, id=self._retry(submit), state="submitted")
        self._files.write(submitted)
        return submitted

    def _await(self, jobs: Sequence[_Job]) -> Iterator[Response]:
        waits, errors, waiting = self._polling.waits(), list[str](), list(jobs)
        while waiting:
            polled = [(job, self._poll(job)) for job in waiting]
            for job, status in polled:
                if status.error is not None:
                    self._files.remove(job.record)
                    errors.append(f"batch {job.shown}: {status.error}")
                    continue
                if status.is_ended:
                    yield from self._collect(job, status)
            waiting = [job for job, status in polled if not status.is_ended]
            if waiting:
                self._polling.sleep(next(waits))
        if errors:
            raise ModelError(
                f"{self._server.address} took none of {len(errors)} batches ({errors[0]}); "
                "nothing of them was asked: mend that, then repeat the command"
            )

    def _poll(self, job: _Job) -> BatchStatus:
        try:
            status = self._retry(lambda _: self._server.status(job.id))
        except BatchExpired as error:
            raise self._expired(job, error) from None
        stage = f"batch {job.shown} ({status.word}: {status.done} of {status.total} answered there)"
        self._progress(stage, 0, len(job.wanted))
        return status

    def _collect(self, job: _Job, status: BatchStatus) -> Iterator[Response]:
        left = {request.key: request for request in job.wanted}
        failed = set(job.record.failed)
        try:
            results = self._retry(
                lambda _: list(self._server.results(status, job.wanted, record=job.record))
            )
        except BatchExpired as error:
            raise self._expired(job, error) from None
        keys = {response.key for response in results}
        message = f"batch {job.shown} ended ({status.word}) without a result of this request"
        lost = [
            Response.failed(request.key, Reason.FAILED, message)
            for request in job.wanted
            if request.key not in keys
        ]
        for response in [*results, *lost]:
            if left.pop(response.key, None) is not None:
                failed |= {response.key} if response.failure else set()
                yield response
        keys = {request.key for request in job.wanted}
        state = "collected" if keys | failed >= set(job.record.keys) else job.record.state
        self._files.write(replace(job.record, state=state, failed=tuple(sorted(failed))))

    def _expired(self, job: _Job, error: BatchExpired) -> ModelError:
        return ModelError(
            f"batch {job.shown} with {len(job.record.keys)} requests, or its results, are not at "
            f"{self._server.address} ({error}): use the key it was handed in with, or remove "
            f"{self._files.path(job.record)} to have its requests asked, and paid for, again"
        )

    def _retry(self, call: Callable[[int], _T]) -> _T:
        waits, attempt = self._polling.waits(), 0
        while True:
            try:
                return call(attempt)
            except PermanentError as error:
                raise ModelError(f"{error}; to ask at once, leave out --batch") from None
            except RetryableError as error:
                attempt += 1
                if attempt == self._polling.attempts:
                    raise ModelError(
                        f"{error}; gave up after attempt {attempt}: what was handed in stays, and "
                        "the same command collects it"
                    ) from None
                self._polling.sleep(max(next(waits), error.retry_after_s or 0.0))
