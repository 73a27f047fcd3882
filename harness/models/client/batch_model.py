"""Requests to Responses by way of a provider's batches: cheaper, and up to a day later.

Takes the place of a hosted model, with its name and identity, so that keys and ledger are the
same. A batch is recorded before it is submitted, so that no later command submits it again.
Nothing here knows a provider, and nothing but records of batches is written.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar
from uuid import uuid4

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt

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
from harness.parts import UNCHARGED, Mode, Reason

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
FIRST_S, GROWTH, LONGEST_S = 2.0, 1.5, 60.0
"""The seconds between two looks at a batch: the first, how they grow, and the longest."""


@dataclass(frozen=True, slots=True)
class Polling:
    """How often a call that fails is tried, and how to wait."""

    attempts: int = 8
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class _Job:
    record: BatchRecord
    wanted: tuple[Request, ...]

    @property
    def shown(self) -> str:
        """Its name, which is the provider's choice, as messages may show it."""
        return "".join(filter(str.isprintable, self.record.id or ""))[:LONGEST_NAME]


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
        """Answer each request once: from earlier batches, and from new ones.

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
            yield from self._await([*earlier, *self._submit([*wanted.values()])])
        except KeyboardInterrupt:
            _log.warning(
                "%s works on what was handed in: nothing of it is lost or paid for twice, and "
                "the same command collects it, tomorrow as well",
                self._server.address,
            )
            raise

    def _earlier_jobs(self, wanted: dict[str, Request]) -> list[_Job]:
        """The batches of earlier commands; their requests are taken out of `wanted`."""
        jobs = []
        for record in self._files.read():
            keys = [key for key in record.keys if key in wanted and key not in record.failed]
            if keys and record.id is None:
                # A command ended when it was about to submit it.
                if (name := self._retry(partial(self._find, record))) is None:
                    self._files.remove(record)
                    continue
                record = replace(record, id=name, state="submitted")
                self._files.write(record)
            if keys:
                jobs.append(_Job(record, tuple(wanted.pop(key) for key in keys)))
        return jobs

    def _find(self, record: BatchRecord) -> str | None:
        """The provider's name for a batch that may have arrived; None where it did not."""
        try:
            return self._server.find(record)
        except BatchExpired as error:
            raise ModelError(
                f"{self._server.address} lists no batches by our name ({error}), so that one of "
                f"{len(record.keys)} requests may be there or not: look in the provider's console, "
                f"and remove {self._files.path(record)} to have it handed in again"
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
        server, is_lost = self._server, False
        record = BatchRecord(
            nonce=uuid4().hex,
            provider=server.kind,
            address=server.address,
            created=time.time(),
            keys=tuple(request.key for request in requests),
            entries=len(entries),
        )

        def submit() -> str:
            nonlocal is_lost
            if is_lost and (name := self._find(record)):
                return name
            self._files.write(record)
            try:
                return server.submit(entries, endpoint=endpoint, nonce=record.nonce)
            except RetryableError as error:
                # An error's status says that there is no batch; without a reply there may be one.
                is_lost = error.usage != UNCHARGED
                if not is_lost:
                    self._files.remove(record)
                raise
            except (PermanentError, ModelError, BatchExpired) as error:
                self._files.remove(record)
                if isinstance(error, BatchExpired):
                    fact = f"{server.address} has no batches ({error}); leave out --batch"
                    raise ModelError(fact) from None
                raise

        submitted = replace(record, id=self._retry(submit), state="submitted")
        self._files.write(submitted)
        return submitted

    def _await(self, jobs: Sequence[_Job]) -> Iterator[Response]:
        errors, waiting, wait_s = list[str](), list(jobs), FIRST_S
        while waiting:
            polled = [(job, self._poll(job)) for job in waiting]
            for job, status in (one for one in polled if one[1].is_ended):
                if status.error is None:
                    yield from self._collect(job, status)
                    continue
                self._files.remove(job.record)
                errors.append(f"batch {job.shown}: {status.error}")
            waiting = [job for job, status in polled if not status.is_ended]
            if waiting:
                self._polling.sleep(wait_s)
                wait_s = min(LONGEST_S, GROWTH * wait_s)
        if errors:
            raise ModelError(
                f"{self._server.address} took none of {len(errors)} batches ({errors[0]}); "
                "nothing of them was asked: mend that, then repeat the command"
            )

    def _poll(self, job: _Job) -> BatchStatus:
        status = self._of(job, lambda: self._server.status(job.record.id or ""))
        stage = f"batch {job.shown} ({status.word}: {status.done} of {status.total} answered there)"
        self._progress(stage, 0, len(job.wanted))
        return status

    def _collect(self, job: _Job, status: BatchStatus) -> Iterator[Response]:
        left = {request.key: request for request in job.wanted}
        failed = set(job.record.failed)
        results = self._of(
            job, lambda: list(self._server.results(status, job.wanted, record=job.record))
        )
        message = f"batch {job.shown} ended ({status.word}) without a result of this request"
        found = {response.key for response in results}
        lost = [Response.failed(key, Reason.FAILED, message) for key in left if key not in found]
        for response in [*results, *lost]:
            if left.pop(response.key, None) is not None:
                failed |= {response.key} if response.failure else set()
                yield response
        keys = {request.key for request in job.wanted}
        state = "collected" if keys | failed >= set(job.record.keys) else job.record.state
        self._files.write(replace(job.record, state=state, failed=tuple(sorted(failed))))

    def _of(self, job: _Job, call: Callable[[], _T]) -> _T:
        """What the provider says of a batch; ModelError if it has no such batch any more."""
        try:
            return self._retry(call)
        except BatchExpired as error:
            raise ModelError(
                f"batch {job.shown} with {len(job.record.keys)} requests, or its results, are not "
                f"at {self._server.address} ({error}): use the key it was handed in with, or "
                f"remove {self._files.path(job.record)} to have its requests asked, and paid for, "
                "again"
            ) from None

    def _retry(self, call: Callable[[], _T]) -> _T:
        attempts = self._polling.attempts
        retrying = Retrying(
            retry=retry_if_exception_type(RetryableError),
            stop=stop_after_attempt(attempts),
            wait=_wait_s,
            sleep=self._polling.sleep,
            reraise=True,
        )
        try:
            return retrying(call)
        except PermanentError as error:
            raise ModelError(f"{error}; to ask at once, leave out --batch") from None
        except RetryableError as error:
            raise ModelError(
                f"{error}; gave up after attempt {attempts}: what was handed in stays, and the "
                "same command collects it"
            ) from None


def _wait_s(state: RetryCallState) -> float:
    """The seconds before the next attempt: growing, or what the server asks for."""
    error = state.outcome.exception() if state.outcome else None
    asked_s = error.retry_after_s if isinstance(error, RetryableError) else None
    return max(min(LONGEST_S, FIRST_S * GROWTH ** (state.attempt_number - 1)), asked_s or 0.0)
