"""Requests to Responses over a network: retries, time limits and concurrency of all calls.

Nothing here knows a server, a client library or a file.
"""

import asyncio
import logging
import math
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import Self

from msgspec import UNSET
from tenacity import AsyncRetrying, retry_if_exception_type, wait_random, wait_random_exponential

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.client.background import BackgroundExecutor, Completed, Worker
from harness.models.client.limiter import CallOutcome, Capacity, ConcurrencyLimiter
from harness.parts import UNCHARGED, UNKNOWN_USAGE, Failure, Reason, Usage, total_usage
from harness.specs.models import HostedSpec, ModerationSpec

_log = logging.getLogger(__name__)
LONG_PAUSE_S = 5.0
"""Pauses of all calls of at least so many seconds are logged."""
WARN_AFTER = 8
"""So many calls in a row without a reply are logged."""
GIVE_UP_AFTER = 20
"""So many failed requests in a row end the run, or as many as may be in flight."""


@dataclass(frozen=True, slots=True)
class PartialReply:
    """Some of the replies to a request, and their usage; the request must be called again."""

    usage: Usage


Call = Callable[[Request], Awaitable[Response | PartialReply]]
Connect = Callable[[], AbstractAsyncContextManager[Call]]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How many requests may be in flight, and how long each is tried.

    `timeout_s` limits one call. `total_s` limits all attempts of one request and the waits between
    them, from its first call on. `longest_wait_s` limits the sum of the waits that no server asked
    for. `first_wait_s` is the first wait, unless the server asks for more.
    """

    concurrency: int
    attempts: int
    timeout_s: float
    longest_wait_s: float = 120.0
    first_wait_s: float = 1.0
    total_s: float = 900.0

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.attempts < 1 or not min(self.timeout_s, self.total_s) > 0:
            raise ValueError(f"concurrency, attempts >= 1, timeout_s, total_s > 0, not {self!r}")
        if self.longest_wait_s < 0 or self.first_wait_s < 0:
            raise ValueError(f"a wait is not negative: {self!r}")

    @classmethod
    def of(cls, spec: HostedSpec | ModerationSpec) -> Self:
        """The policy that a model's YAML sets."""
        return cls(spec.concurrency, spec.attempts, spec.timeout_s, total_s=spec.total_s)


class RetryableError(Exception):
    """A failure that may pass: the request is called again, after `retry_after_s` if given.

    `is_rate_limited` says that the server had too many calls of ours (429). `usage` is what the
    call was charged; its counts are None where nobody knows.
    """

    def __init__(
        self,
        message: str,
        retry_after_s: float | None = None,
        *,
        is_rate_limited: bool = False,
        usage: Usage = UNKNOWN_USAGE,
    ) -> None:
        """Keep the message, the wait that the server asked for, and the usage."""
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.is_rate_limited = is_rate_limited
        self.usage = usage


class PermanentError(Exception):
    """A failure that another call would not mend; `usage` is what the call was charged."""

    def __init__(self, reason: Reason, message: str, *, usage: Usage = UNKNOWN_USAGE) -> None:
        """Keep the reason, the message and the usage of the response it becomes."""
        super().__init__(message)
        self.reason = reason
        self.usage = usage


@contextmanager
def attach_usage(usage: Usage) -> Iterator[None]:
    """Attach `usage` to any call error raised inside the block."""
    try:
        yield
    except (RetryableError, PermanentError) as error:
        error.usage = usage
        raise


def send_all(
    requests: Iterable[Request],
    connect: Connect,
    policy: RetryPolicy,
    capacity: Capacity | None = None,
) -> Generator[Response, None, None]:
    """Answer each request once, in the order in which the answers come.

    The background thread takes one request at a time from `requests` when a slot is free; that
    iterator must not wait for the responses. `connect` is called here once there is a request; the
    event loop enters and exits what it returns. Any error of the call other than RetryableError and
    PermanentError ends everything and is raised here, after the responses before it. ModelError is
    raised if the server pauses all calls for longer than a request may take, or if only failures
    come: once the calls in flight have ended, and if any request is left. Closing the generator
    cancels the calls in flight. `capacity` is what the server has borne, before and after.
    """
    remaining = iter(requests)
    for first in remaining:
        executor = BackgroundExecutor(
            chain((first,), remaining),
            _retrying_session(connect(), policy, capacity),
            # Twice as many as may be in flight: requests that wait for a retry block no other.
            workers=2 * policy.concurrency,
        )
        try:
            yield from executor.results()
        finally:
            executor.stop()
        return


@asynccontextmanager
async def _retrying_session(
    session: AbstractAsyncContextManager[Call], policy: RetryPolicy, capacity: Capacity | None
) -> AsyncIterator[Worker]:
    limiter = ConcurrencyLimiter(policy.concurrency, capacity)
    outage = _Outage(max(GIVE_UP_AFTER, policy.concurrency))
    longest_s, first_s = policy.longest_wait_s, policy.first_wait_s
    growing = wait_random_exponential(multiplier=first_s, max=longest_s)
    short = wait_random(0, min(first_s, longest_s))
    retrying = AsyncRetrying(
        retry=retry_if_exception_type(RetryableError),
        wait=lambda s: s.args[0].wait_s((short if limiter.is_calm else growing)(s)),
        stop=lambda state: state.args[0].is_over(state.upcoming_sleep),
        retry_error_callback=lambda state: state.args[0].give_up(),
        sleep=limiter.sleep,
    )
    async with session as call:

        async def work(request: Request) -> Completed | None:
            attempts = _Attempts(request, call, policy, limiter=limiter, outage=outage)
            try:
                completed = await attempts.attempt()
            except RetryableError as error:
                # Not before: tenacity takes as long as reading a call's whole reply.
                completed = await retrying(_Attempts.attempt, attempts, error)
            if completed is not None and (ended := outage.record_result(completed.result)):
                limiter.close(ended)
            return completed

        yield work
    if limiter.closed_by is not None and limiter.has_refused:
        raise limiter.closed_by


def retry_after_seconds(retry_after: str | None, now: datetime) -> float | None:
    """The seconds of a Retry-After header, which holds a number or a date; None without them."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            moment = parsedate_to_datetime(retry_after)
        except ValueError:
            return None
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None


class _Outage:
    """Counts failures in a row, over all requests; any other response starts the count again."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._calls = self._requests = 0

    def record_call(self, error: Exception) -> None:
        """Count a call without a reply that will be made again; log a warning after many."""
        self._calls += 1
        if self._calls == WARN_AFTER:
            _log.warning(
                "%d calls in a row got no reply, the last: %s; each is made again for a while, and "
                "what was answered is stored",
                WARN_AFTER,
                error,
            )

    def record_result(self, response: Response) -> ModelError | None:
        """Count the result of a request; an error once too many have failed in a row."""
        if response.failure is None or response.failure.reason is not Reason.FAILED:
            self._calls = self._requests = 0
            return None
        self._requests += 1
        if self._requests < self._most:
            return None
        return ModelError(
            f"the last {self._requests} requests failed one after the other, the last with: "
            f"{response.failure.message}; nothing more was asked, and what was answered is stored: "
            "mend that and repeat the command, which asks them again (--retry none leaves them out)"
        )


class _Attempts:
    """The attempts at one request, until it has a response or is given up."""

    def __init__(
        self,
        request: Request,
        call: Call,
        policy: RetryPolicy,
        *,
        limiter: ConcurrencyLimiter,
        outage: _Outage,
    ) -> None:
        self._request, self._call, self._policy = request, call, policy
        self._limiter, self._outage = limiter, outage
        self._count = 0
        self._is_repeated = False
        self._end_s = math.inf
        self._own_waits_s = 0.0
        self._partial_usage = UNCHARGED
        self._failed_usages: list[Usage] = []
        self._error = RetryableError("not asked")
        self._why_over = ""

    async def attempt(self, first: RetryableError | None = None) -> Completed | None:
        """Make one attempt, once a slot is free; a final response holds its slot.

        None if the request was never called, and no other may be. The error in which the `first`
        attempt has ended is raised in its place.
        """
        if first is not None and not self._is_repeated:
            self._is_repeated = True
            raise first
        if not await self._limiter.acquire():
            self._why_over = ": nothing more is asked of the server; repeat the command later"
            return self.give_up() if self._count else None
        if self._end_s == math.inf:
            self._end_s = _now() + self._policy.total_s
        elif self._left_s <= 0:
            self._limiter.release()
            self._why_over = self._too_long
            return self.give_up()
        start_s = _now()
        try:
            response = await self._response()
        except RetryableError as error:
            self._record_failure(error, took_s=_now() - start_s)
            self._limiter.release()
            raise
        except PermanentError as error:
            usage = total_usage([self._partial_usage, error.usage])
            response = self._failure(error.reason, str(error), usage)
        self._count += 1
        self._limiter.record(CallOutcome.COMPLETED)
        return Completed(self._with_all_usage(response), self._limiter)

    async def _response(self) -> Response:
        while True:
            most_s = min(self._policy.timeout_s, max(0.0, self._left_s))
            try:
                async with asyncio.timeout(most_s):
                    reply = await self._call(self._request)
            except TimeoutError:
                raise RetryableError(f"no answer within {round(most_s, 3):g} s") from None
            if isinstance(reply, Response):
                return reply
            self._partial_usage = reply.usage

    def _record_failure(self, error: RetryableError, *, took_s: float) -> None:
        self._count += 1
        self._error = error
        self._failed_usages.append(error.usage)
        outcome = CallOutcome.RATE_LIMITED
        if not error.is_rate_limited:
            outcome = CallOutcome.SERVER_ERROR
            self._outage.record_call(error)
        pause_s = self._limiter.record(outcome, wait_s=error.retry_after_s)
        if pause_s is None:
            return
        message, total_s = f"{error}; the server asks to wait {pause_s:.0f} s", self._policy.total_s
        if took_s + pause_s > total_s:
            message += (
                f", and a request may take {total_s:g} s in all: nothing more was asked, and what "
                "was answered is stored; repeat the command later, or raise total_s in the model's "
                "YAML"
            )
            self._limiter.close(ModelError(message))
        elif pause_s >= LONG_PAUSE_S:
            _log.warning("%s: no call is made until then", message)

    def wait_s(self, own: float) -> float:
        """The seconds to the next attempt, of which `own` are our own backing off."""
        asked = self._error.retry_after_s
        if asked is None:
            self._own_waits_s += own
            return own
        self._own_waits_s += max(0.0, own - asked)
        # Spread, so that requests that were rejected together do not come back together.
        return max(own, asked + min(own, asked / 4))

    def is_over(self, wait_s: float) -> bool:
        """Whether no further attempt is made after such a wait; keeps the reason."""
        policy, asked, left_s = self._policy, self._error.retry_after_s, self._left_s
        if self._count >= policy.attempts:
            return True
        if asked is not None and asked > left_s:
            self._why_over = (
                f": the server asks to wait {asked:.0f} s, and of {policy.total_s:g} s in all "
                f"{left_s:.0f} are left; repeat the command later, or raise total_s in the model's "
                "YAML"
            )
        elif wait_s > left_s:
            self._why_over = self._too_long
        elif self._own_waits_s > policy.longest_wait_s:
            self._why_over = f": waits would sum to more than {policy.longest_wait_s:g} s"
        return bool(self._why_over)

    def give_up(self) -> Completed:
        """The failure of a request that is not called again."""
        tried = f"gave up after attempt {self._count} of {self._policy.attempts}{self._why_over}"
        failure = self._failure(Reason.FAILED, f"{self._error}; {tried}", self._partial_usage)
        return Completed(self._with_all_usage(failure))

    def _failure(self, reason: Reason, message: str, usage: Usage) -> Response:
        return Response(self._request.key, failure=Failure(reason, message), usage=usage)

    def _with_all_usage(self, response: Response) -> Response:
        """A response with the usage of failed attempts, and how many of these report none."""
        if not self._failed_usages:
            return response
        known = [usage for usage in self._failed_usages if usage.is_known]
        whole = total_usage([response.usage, *known])
        unknown = (whole.unanswered or 0) + len(self._failed_usages) - len(known)
        return replace(response, usage=replace(whole, unanswered=unknown or UNSET))

    @property
    def _left_s(self) -> float:
        return self._end_s - _now()

    @property
    def _too_long(self) -> str:
        return f": it would take more than {self._policy.total_s:g} s in all"


def _now() -> float:
    return asyncio.get_running_loop().time()
