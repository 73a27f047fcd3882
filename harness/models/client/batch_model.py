"""Requests to Responses by way of a provider's batches: cheaper, and up to a day later.

Stands in for a hosted model whose name and identity it keeps, so that keys and ledger are the
same. What was handed in is written down first, so that no later command hands it in again.
Nothing here knows a provider, and nothing but batches is written.
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
    BatchEntry,
    BatchExpired,
    BatchFiles,
    BatchRecord,
    BatchServer,
    BatchStatus,
    parted,
)
from harness.models.client.cached import Progress
from harness.models.client.retry import PermanentError, RetryableError
from harness.parts import Mode, Reason

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Polling:
    """How long to wait between two looks at a batch, and how often to try a call that fails."""

    first_s: float = 2.0
    growth: float = 1.5
    longest_s: float = 60.0
    attempts: int = 8
    sleep: Callable[[float], object] = time.sleep

    def waits(self) -> Iterator[float]:
        """The waits, each longer than the one before, up to the longest."""
        wait_s = self.first_s
        while True:
            yield wait_s
            wait_s = min(self.longest_s, wait_s * self.growth)


@dataclass(frozen=True, slots=True)
class _Job:
    """A batch that was handed in, and those of its requests that are wanted now."""

    record: BatchRecord
    wanted: tuple[Request, ...]

    @property
    def id(self) -> str:
        return self.record.id or ""


class BatchModel:
    """A hosted model that is asked in batches."""

    def __init__(
        self,
        model: Model,
        server: BatchServer,
        *,
        files: BatchFiles,
        progress: Progress,
        polling: Polling | None = None,
    ) -> None:
        """Keep all; nothing is asked and nothing read yet."""
        self._model, self._server, self._files = model, server, files
        self._progress, self._polling = progress, polling or Polling()

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._model.name

    @property
    def kind(self) -> str:
        """The kind of the model."""
        return self._model.kind

    @property
    def identity(self) -> str:
        """The identity of the model: an answer is the same, whichever way it was asked for."""
        return self._model.identity

    @property
    def revision(self) -> str | None:
        """The revision of the model."""
        return self._model.revision

    @property
    def modes(self) -> frozenset[Mode]:
        """The modes of the model; a batch may know fewer, which `answer` tells."""
        return self._model.modes

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once: from batches handed in before, then from new ones.

        A response counts as kept once the next one is asked for.
        """
        wanted = {request.key: request for request in requests}
        if not wanted:
            return
        self._check_modes(wanted.values())
        with self._server:
            held = self._held(wanted)
            try:
                yield from self._answered(held, wanted)
            except KeyboardInterrupt:
                _log.warning(
                    "%s works on what was handed in: nothing of it is lost or paid for twice, and "
                    "the same command collects it, tomorrow as well",
                    self._server.address,
                )
                raise

    def _check_modes(self, requests: Iterable[Request]) -> None:
        """Refuse what no batch can be asked for, before anything is handed in."""
        if lacking := {request.mode for request in requests} - set(self._server.endpoints):
            chooses = lacking & {Mode.CHOOSE, Mode.CHOOSE_TOKEN}
            remedy = ", or have the choices written: --answers written" if chooses else ""
            raise ModelError(
                f"batches cannot be asked to {', '.join(sorted(lacking))}; "
                f"leave out --batch{remedy}"
            )

    def _answered(self, held: Sequence[_Job], wanted: Mapping[str, Request]) -> Iterator[Response]:
        """What ended before now; then, the rest being handed in, all else as it ends."""
        earlier = {request.key for job in held for request in job.wanted}
        looked = [(job, self._look(job)) for job in held]
        for job, status in looked:
            if status.is_ended and status.trouble is None:
                yield from self._collected(job, status)
        still = [job for job, status in looked if not status.is_ended or status.trouble]
        rest = [request for key, request in wanted.items() if key not in earlier]
        yield from self._awaited([*still, *self._submitted(rest)])

    def _held(self, wanted: Mapping[str, Request]) -> list[_Job]:
        """The batches handed in before that hold wanted requests, each request in one of them."""
        left, found = dict(wanted), []
        records = self._files.read()
        known = {record.id for record in records}
        for record in records:
            keys = [key for key in record.keys if key in left and key not in record.failed]
            arrived = record if record.id or not keys else self._arrived(record, known)
            if keys and arrived is not None:
                known.add(arrived.id)
                found.append(_Job(arrived, tuple(left.pop(key) for key in keys)))
        return found

    def _arrived(self, record: BatchRecord, known: Collection[str | None]) -> BatchRecord | None:
        """A batch that was to be handed in when a command ended, if it was."""
        name = self._patiently(lambda _: self._found(record, known))
        if name is None:
            self._files.remove(record)
            return None
        arrived = replace(record, id=name, state="submitted")
        self._files.write(arrived)
        return arrived

    def _found(self, record: BatchRecord, known: Collection[str | None]) -> str | None:
        """What the provider calls a batch that may have arrived; null where it did not."""
        try:
            return self._server.find(record, known=known)
        except BatchExpired as error:
            raise ModelError(
                f"{self._server.address} lists no batches ({error}), so that one of "
                f"{len(record.keys)} requests may be there or not: remove "
                f"{self._files.path(record)} to have it handed in again"
            ) from None

    def _submitted(self, requests: Sequence[Request]) -> list[_Job]:
        """New batches of some requests, none larger than the provider takes."""
        found = []
        for endpoint in sorted({self._server.endpoints[r.mode] for r in requests}):
            fitting = [r for r in requests if self._server.endpoints[r.mode] == endpoint]
            for part, entries in parted(fitting, self._server):
                found.append(_Job(self._handed_in(part, entries, endpoint=endpoint), part))
        return found

    def _handed_in(
        self, requests: Sequence[Request], entries: Sequence[BatchEntry], *, endpoint: str
    ) -> BatchRecord:
        """Write down, hand in, and write down what the provider calls it."""
        server, keys = self._server, tuple(request.key for request in requests)
        record = BatchRecord(
            nonce=uuid4().hex,
            provider=server.kind,
            address=server.address,
            created=time.time(),
            keys=keys,
            entries=len(entries),
        )
        known = {other.id for other in self._files.read()}
        self._files.write(record)

        def hand_in(attempt: int) -> str:
            # Where the reply was lost on its way, the batch may be there.
            if attempt and (found := self._found(record, known)):
                return found
            try:
                return server.submit(entries, endpoint=endpoint, nonce=record.nonce)
            except (PermanentError, ModelError):
                self._files.remove(record)
                raise

        submitted = replace(record, id=self._patiently(hand_in), state="submitted")
        self._files.write(submitted)
        return submitted

    def _awaited(self, jobs: Sequence[_Job]) -> Iterator[Response]:
        """The responses of some batches as each of them ends."""
        waits, troubles, waiting = self._polling.waits(), list[str](), list(jobs)
        while waiting:
            looked = [(job, self._look(job)) for job in waiting]
            for job, status in looked:
                if status.trouble is not None:
                    self._files.remove(job.record)
                    troubles.append(f"batch {job.id}: {status.trouble}")
                    continue
                if status.is_ended:
                    yield from self._collected(job, status)
            waiting = [job for job, status in looked if not status.is_ended]
            if waiting:
                self._polling.sleep(next(waits))
        if troubles:
            raise ModelError(
                f"{self._server.address} took none of {len(troubles)} batches ({troubles[0]}); "
                "nothing of them was asked: mend that, then repeat the command"
            )

    def _look(self, job: _Job) -> BatchStatus:
        """Look at a batch, and say how it fares."""
        try:
            status = self._patiently(lambda _: self._server.look(job.id))
        except BatchExpired as error:
            raise self._lost(job, error) from None
        stage = f"batch {job.id} ({status.word}: {status.done} of {status.total} answered there)"
        self._progress(stage, 0, len(job.wanted))
        return status

    def _collected(self, job: _Job, status: BatchStatus) -> Iterator[Response]:
        """What a batch that has ended says to each request that is wanted of it."""
        left = {request.key: request for request in job.wanted}
        failed = set(job.record.failed)
        try:
            found = self._patiently(
                lambda _: list(self._server.results(status, job.wanted, record=job.record))
            )
        except BatchExpired as error:
            raise self._lost(job, error) from None
        for response in [*found, *self._lacking(job, status, found)]:
            if left.pop(response.key, None) is not None:
                failed |= {response.key} if response.failure else set()
                yield response
        keys = {request.key for request in job.wanted}
        state = "collected" if keys | failed >= set(job.record.keys) else job.record.state
        self._files.write(replace(job.record, state=state, failed=tuple(sorted(failed))))

    def _lacking(
        self, job: _Job, status: BatchStatus, found: Sequence[Response]
    ) -> Iterator[Response]:
        """A failure for each wanted request that a batch has no result of."""
        keys = {response.key for response in found}
        told = f"batch {job.id} ended ({status.word}) without a result of this request"
        for request in job.wanted:
            if request.key not in keys:
                yield Response.failed(request.key, Reason.FAILED, told)

    def _lost(self, job: _Job, error: BatchExpired) -> ModelError:
        return ModelError(
            f"batch {job.id} with {len(job.record.keys)} requests, or what came of it, is not at "
            f"{self._server.address} ({error}): use the key it was handed in with, or remove "
            f"{self._files.path(job.record)} to have its requests asked, and paid for, again"
        )

    def _patiently(self, call: Callable[[int], _T]) -> _T:
        """What a call gives, tried again while its failures may pass."""
        waits, attempt = self._polling.waits(), 0
        while True:
            try:
                return call(attempt)
            except PermanentError as error:
                told = f"{error}; to ask at once, leave out --batch"
                raise ModelError(told) from None
            except RetryableError as error:
                attempt += 1
                if attempt == self._polling.attempts:
                    raise ModelError(
                        f"{error}; gave up after attempt {attempt}: what was handed in stays, and "
                        "the same command collects it"
                    ) from None
                self._polling.sleep(max(next(waits), error.retry_after_s or 0.0))
