"""Requests to Responses over a network: retries, time limits, and how many calls are in flight."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import chain
from queue import SimpleQueue
from random import uniform
from threading import Thread

from msgspec import UNSET

from harness.core import Request, Response
from harness.errors import ModelError
from harness.parts import NO_REPLY, UNCHARGED, UNKNOWN_USAGE, Failure, Reason, Usage, total_usage

_log = logging.getLogger(__name__)
WARN_AFTER = 8  # so many calls in a row without a reply are logged
GIVE_UP_AFTER = 20  # so many failed requests in a row end the run, or as many as may be in flight
FIRST = 16  # the limit of calls in flight while nothing is known of a server
# A good round multiplies the limit by STEEP; after the first cut it adds 1/SHARE of the most.
STEEP, SHARE = 4, 20
# The share of a round that may fail (3 of 16 may be chance); the deepest cut of one round.
TOLERATED, DEEPEST = 0.2, 0.5
# One attempt at a request; raises RetryableError or PermanentError where there is no response.
Call = Callable[[Request], Awaitable[Response]]
Connect = Callable[[], AbstractAsyncContextManager[Call]]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How many requests may be in flight, and how long each is tried.

    `timeout_s` limits one call, `total_s` all attempts of one request with the waits between them,
    which grow from `first_wait_s` to `longest_wait_s` if the server asks for none. With
    `is_one_by_one` a request for several replies is as many calls.
    """

    concurrency: int
    attempts: int
    timeout_s: float
    longest_wait_s: float = 60.0
    first_wait_s: float = 1.0
    total_s: float = 900.0
    is_one_by_one: bool = False


class CallError(Exception):
    """A call without a response; `usage` is what it was charged, None where nobody knows."""

    def __init__(self, message: str, usage: Usage = UNKNOWN_USAGE) -> None:
        """Keep the arguments."""
        super().__init__(message)
        self.usage = usage


class RetryableError(CallError):
    """A failure that may pass, `retry_after_s` the wait that the server asked for."""

    def __init__(
        self,
        message: str,
        retry_after_s: float | None = None,
        *,
        is_rate_limited: bool = False,
        usage: Usage = UNKNOWN_USAGE,
    ) -> None:
        """Keep the arguments."""
        super().__init__(message, usage)
        self.retry_after_s, self.is_rate_limited = retry_after_s, is_rate_limited


class PermanentError(CallError):
    """A failure that another call would not mend."""

    def __init__(self, reason: Reason, message: str, *, usage: Usage = UNKNOWN_USAGE) -> None:
        """Keep the arguments."""
        super().__init__(message, usage)
        self.reason = reason


@contextmanager
def attach_usage(usage: Usage) -> Iterator[None]:
    """Attach `usage` to any call error raised inside the block."""
    try:
        yield
    except CallError as error:
        error.usage = usage
        raise


class Limiter:
    """An adaptive limit on the calls in flight, never above `most`: AIMD, in rounds.

    After as many calls as the limit, it grows if few failed, and shrinks by the rate-limited share
    if more than a few were turned away.
    """

    def __init__(self, most: int) -> None:
        """Keep the arguments."""
        self.most, self.limit, self._is_cut = most, min(FIRST, most), False
        self._slots, self._surplus = asyncio.Semaphore(self.limit), 0
        self._seen = self._failed = self._limited = 0

    async def acquire(self) -> None:
        """Wait for a slot and take it."""
        await self._slots.acquire()

    def release(self) -> None:
        """Give a slot back; after a cut, the slots above the limit are not given out again."""
        if self._surplus:
            self._surplus -= 1
        else:
            self._slots.release()

    def record(self, error: RetryableError | None = None) -> None:
        """Count a call that has ended: with a final result, or with an error that may pass."""
        self._seen += 1
        self._failed += error is not None
        self._limited += error is not None and error.is_rate_limited
        if self._seen < self.limit:
            return
        before, tolerated = self.limit, min(self._seen - 1, max(1, TOLERATED * self._seen))
        if self._limited > tolerated:
            self._is_cut = True
            self.limit = max(1, int(before * (1 - min(self._limited / self._seen, DEEPEST))))
        elif self._failed <= tolerated:
            more = before + max(1, self.most // SHARE) if self._is_cut else STEEP * before
            self.limit = min(self.most, more)
        self._surplus += max(0, before - self.limit)
        for _ in range(self.limit - before):
            self.release()
        self._seen = self._failed = self._limited = 0


def send_all(
    requests: Iterable[Request], connect: Connect, policy: RetryPolicy
) -> Generator[Response, None, None]:
    """Answer each request once, in the order in which the answers come.

    ModelError if only failures come. Closing the generator cancels the calls in flight.
    """
    remaining = iter(requests)
    if (first := next(remaining, None)) is None:
        return
    session, connection, requests = _Session(policy), connect(), chain((first,), remaining)
    yield from _in_background(
        lambda put: session.serve(requests, connection, put), release=session.limiter.release
    )


Put = Callable[[Response], None]


def _in_background(
    serve: Callable[[Put], Coroutine[None, None, None]], *, release: Callable[[], None]
) -> Generator[Response, None, None]:
    """Yield what a coroutine puts, which runs in a thread with an event loop of its own.

    Once the caller asks for the next result, `release` is called in that loop.
    """
    completed = SimpleQueue[Response | BaseException | None]()
    loop = asyncio.new_event_loop()
    task = loop.create_task(serve(completed.put))

    def run() -> None:
        error: BaseException | None = None
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        except BaseExceptionGroup as group:
            error = group.exceptions[0]
        except BaseException as caught:  # raised again in the calling thread
            error = caught
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        completed.put(error)

    thread = Thread(target=run, name="calls", daemon=True)
    thread.start()
    try:
        while isinstance(entry := completed.get(), Response):
            yield entry
            with suppress(RuntimeError):  # the loop is closed: nothing is left to call
                loop.call_soon_threadsafe(release)
        if entry is not None:
            raise entry
    finally:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(task.cancel)
        thread.join()


def retry_after_seconds(retry_after: str | None, now: datetime) -> float | None:
    """The seconds of a Retry-After header, which holds a number or a date; None without them."""
    try:
        seconds = float(retry_after or "nan")
    except ValueError:
        try:
            moment = parsedate_to_datetime(retry_after or "")
        except ValueError:
            return None
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None


class _Session:
    """The calls to one server, until the requests are answered or too many failed in a row."""

    def __init__(self, policy: RetryPolicy) -> None:
        self.policy, self.limiter = policy, Limiter(policy.concurrency)
        self.closing = asyncio.Event()
        self.failed_calls = self.failed_requests = 0
        self.closed_by: ModelError | None = None
        self.is_any_left = False

    async def serve(
        self, requests: Iterator[Request], connection: AbstractAsyncContextManager[Call], put: Put
    ) -> None:
        """Answer all requests; then raise what kept some from being asked."""
        async with connection as self.call, asyncio.TaskGroup() as group:
            # Twice as many as may be in flight: requests that wait for a retry block no other.
            for _ in range(2 * self.policy.concurrency):
                group.create_task(self._work(requests, put))
        if self.closed_by is not None and self.is_any_left:
            raise self.closed_by

    async def _work(self, requests: Iterator[Request], put: Put) -> None:
        for request in requests:
            if not await self._has_slot():
                self.is_any_left = True
                return
            response = await self._answer(request)
            self._record(response)
            put(response)

    async def _has_slot(self) -> bool:
        await self.limiter.acquire()
        if self.closed_by is not None:
            self.limiter.release()
        return self.closed_by is None

    async def _answer(self, request: Request) -> Response:
        end_s, failed = _now() + self.policy.total_s, list[RetryableError]()
        if not self.policy.is_one_by_one or request.decoding.n == 1:
            return _with_all_usage(await self._reply(request, failed, end_s), failed)
        replies = list[Response]()
        while len(replies) < request.decoding.n and not any(map(never_came, replies)):
            one = nth_request(request, len(replies))
            replies.append(await self._reply(one, failed, end_s))
        return _with_all_usage(merge(request, replies), failed)

    async def _reply(
        self, request: Request, failed: list[RetryableError], end_s: float
    ) -> Response:
        """The response of the last attempt; it holds a slot. Errors of others go to `failed`."""
        while True:
            most_s = max(0.0, min(self.policy.timeout_s, end_s - _now()))
            try:
                async with asyncio.timeout(most_s):
                    response = await self.call(request)
            except PermanentError as error:
                failure = Failure(error.reason, str(error))
                response = Response(request.key, failure=failure, usage=error.usage)
            except (TimeoutError, RetryableError) as error:
                if isinstance(error, TimeoutError):
                    error = RetryableError(f"no answer within {round(most_s, 3):g} s")
                failed.append(error)
                wait_s = self._wait_s(failed)
                if len(failed) >= self.policy.attempts or wait_s > end_s - _now():
                    return self._given_up(request, failed)
                self.limiter.release()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.closing.wait(), wait_s)
                if not await self._has_slot():
                    return self._given_up(request, failed)
                continue
            self.limiter.record()
            return response

    def _wait_s(self, failed: Sequence[RetryableError]) -> float:
        """Record the last attempt, which failed; the seconds to the next one.

        They are spread: requests that were rejected together do not come back together.
        """
        policy, error = self.policy, failed[-1]
        self.limiter.record(error)
        self.failed_calls += not error.is_rate_limited
        if self.failed_calls == WARN_AFTER and not error.is_rate_limited:
            _log.warning(
                "%d calls in a row got no reply, the last: %s; each is made again for a while, "
                "and what was answered is stored",
                *(WARN_AFTER, error),
            )
        longest_s = min(policy.longest_wait_s, policy.first_wait_s * 2 ** (len(failed) - 1))
        own_s, asked_s = uniform(0, longest_s), error.retry_after_s  # noqa: S311 - no secret
        return own_s if asked_s is None else max(own_s, asked_s + min(own_s, asked_s / 4))

    def _given_up(self, request: Request, failed: Sequence[RetryableError]) -> Response:
        """The failure of a request that is not called again."""
        count, most, asked_s, why = len(failed), self.policy.attempts, failed[-1].retry_after_s, ""
        if count < most:
            why = f": the server asks to wait {asked_s:.0f} s, and" if asked_s else ":"
            why += f" another attempt would take more than {self.policy.total_s:g} s in all; "
        later = "repeat the command later, or raise total_s in the model's YAML" if why else ""
        fact = f"{failed[-1]}; gave up after attempt {count} of {most}{why}{later}"
        return Response(request.key, failure=Failure(Reason.FAILED, fact), usage=UNCHARGED)

    def _record(self, response: Response) -> None:
        """Count the result of a request; ask nothing more once too many have failed in a row."""
        if response.failure is None or response.failure.reason is not Reason.FAILED:
            self.failed_calls = self.failed_requests = 0
            return
        self.failed_requests += 1
        if self.failed_requests == max(GIVE_UP_AFTER, self.policy.concurrency):
            self.closed_by = ModelError(
                f"the last {self.failed_requests} requests failed one after the other, the last "
                f"with: {response.failure.message}; nothing more was asked, and what was answered "
                "is stored: mend that and repeat the command (--retry none leaves them out)"
            )
            self.closing.set()


def nth_request(request: Request, index: int) -> Request:
    """The request for one of several replies, counted from 0; each has its own seed."""
    decoding = request.decoding
    seed = None if decoding.seed is None else decoding.seed + index
    return replace(request, decoding=replace(decoding, n=1, seed=seed))


def merge(request: Request, replies: Sequence[Response]) -> Response:
    """Merge the replies to one request into one response; its usage is their sum.

    It is a failure where no reply has an answer, and where one never came: all are asked again
    then. It counts as cut where one reply is.
    """
    answers = [reply for reply in replies if not reply.failure]
    failures = [reply for reply in replies if reply.failure]
    fatal = [*filter(never_came, failures), *([] if answers else failures)]
    served = next((reply.served for reply in replies if reply.served), None)
    usage = total_usage([reply.usage for reply in replies])
    if fatal:
        return Response(request.key, failure=fatal[0].failure, served=served, usage=usage)
    stops = [reply.stop for reply in answers]
    return Response(
        key=request.key,
        texts=tuple(text for reply in answers for text in reply.texts or ()),
        lost=tuple(reply.failure.reason for reply in failures if reply.failure),
        served=served,
        usage=usage,
        stop="length" if "length" in stops else stops[0],
    )


def never_came(reply: Response) -> bool:
    """Whether there is no reply at all, so that another call may bring one."""
    return reply.failure is not None and reply.failure.reason in NO_REPLY


def _with_all_usage(response: Response, failed: Sequence[RetryableError]) -> Response:
    """A response with the usage of failed attempts, and how many of these report none."""
    if not failed:
        return response
    known = [error.usage for error in failed if error.usage.is_known]
    whole = total_usage([response.usage, *known])
    unknown = (whole.unanswered or 0) + len(failed) - len(known)
    return replace(response, usage=replace(whole, unanswered=unknown or UNSET))


def _now() -> float:
    return asyncio.get_running_loop().time()
