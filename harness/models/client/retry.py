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
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
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
from harness.models.client.limiter import CallOutcome, CircuitBreaker
from harness.models.client.pool import Lane, ServerPool, ServerStates
from harness.parts import UNCHARGED, UNKNOWN_USAGE, Failure, Reason, Usage, total_usage
from harness.specs.models import HostedSpec, ModerationSpec

_log = logging.getLogger(__name__)
LONG_PAUSE_S = 5.0
"""Pauses of all calls of at least so many seconds are logged."""


@dataclass(frozen=True, slots=True)
class PartialReply:
    """Some of the replies to a request, and their usage; the request must be called again."""

    usage: Usage


Call = Callable[[Request], Awaitable[Response | PartialReply]]
Connect = Callable[[], AbstractAsyncContextManager[Call]]
Servers = Mapping[str, Connect]
"""How each server of a model is connected to, by its address as messages may show it."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How many requests may be in flight at a server, and how long each is tried.

    `timeout_s` limits one call. `total_s` limits all attempts of one request and the waits between
    them, from its first call on. `longest_wait_s` limits the sum of the waits that no server asked
    for. `first_wait_s` is the first wait, unless the server asks for more. `aside_s` is for how
    long one of several servers that does not reply is first set aside.
    """

    concurrency: int
    attempts: int
    timeout_s: float
    longest_wait_s: float = 120.0
    first_wait_s: float = 1.0
    total_s: float = 900.0
    aside_s: float = 5.0

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
    connect: Connect | Servers,
    policy: RetryPolicy,
    states: ServerStates | None = None,
) -> Generator[Response, None, None]:
    """Answer each request once, in the order in which the answers come.

    The background thread takes one request at a time from `requests` when a slot is free; that
    iterator must not wait for the responses. `connect`, or each of several servers', is called here
    once there is a request; the event loop enters and exits what it returns. Any error of the call
    other than RetryableError and PermanentError ends everything and is raised here, after the
    responses before it; a ModelError only that of the last of several servers, for the others are
    then asked no more. ModelError is raised where each server pauses all calls for longer than a
    request may take, or where nothing but failures comes: once the calls in flight have ended, and
    if any request is left. Closing the generator cancels the calls in flight. `states` is how
    the servers have fared, before and after.
    """
    remaining = iter(requests)
    servers = connect if isinstance(connect, Mapping) else {"": connect}
    for first in remaining:
        executor = BackgroundExecutor(
            chain((first,), remaining),
            _retrying_session(
                {name: begin() for name, begin in servers.items()},
                policy,
                states,
            ),
            # Twice as many as may be in flight: requests that wait for a retry block no other.
            workers=2 * policy.concurrency * len(servers),
        )
        try:
            yield from executor.results()
        finally:
            executor.stop()
        return


@asynccontextmanager
async def _retrying_session(
    sessions: Mapping[str, AbstractAsyncContextManager[Call]],
    policy: RetryPolicy,
    states: ServerStates | None,
) -> AsyncIterator[Worker]:
    pool = ServerPool([*sessions], policy.concurrency, aside_s=policy.aside_s, states=states)
    longest_s, first_s = policy.longest_wait_s, policy.first_wait_s
    growing = wait_random_exponential(multiplier=first_s, max=longest_s)
    short = wait_random(0, min(first_s, longest_s))
    retrying = AsyncRetrying(
        retry=retry_if_exception_type(RetryableError),
        wait=lambda s: s.args[0].wait_s((short if s.args[0].is_calm else growing)(s)),
        stop=lambda state: state.args[0].is_over(state.upcoming_sleep),
        retry_error_callback=lambda state: state.args[0].give_up(),
        sleep=pool.sleep,
    )
    breaker = CircuitBreaker(policy.concurrency * len(sessions))

    async def work(request: Request) -> Completed | None:
        attempts = _Attempts(request, calls, policy=policy, pool=pool, breaker=breaker)
        try:
            completed = await attempts.attempt()
        except RetryableError as error:
            # Not before: tenacity takes as much time as a call's whole reply takes to be read.
            completed = await retrying(_Attempts.attempt, attempts, error)
        if completed is not None and (outage := breaker.record_result(completed.result)):
            pool.close(outage)
        return completed

    async with AsyncExitStack() as stack:
        calls = [await stack.enter_async_context(session) for session in sessions.values()]
        yield work
    if pool.closed_by is not None and pool.has_refused:
        raise pool.closed_by


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


class _Attempts:
    def __init__(
        self,
        request: Request,
        calls: Sequence[Call],
        *,
        policy: RetryPolicy,
        pool: ServerPool,
        breaker: CircuitBreaker,
    ) -> None:
        self._request, self._calls, self._policy = request, calls, policy
        self._pool, self._breaker = pool, breaker
        self._lane: Lane | None = None
        self._wait_ends_s: dict[Lane, float] = {}  # of the servers that asked to wait
        self._refused: dict[Lane, PermanentError] = {}  # by the servers that refused the request
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

        None where the request was never called, and no other may be. The error in which the
        `first` attempt has ended is raised in its place.
        """
        if first is not None and self._count == 1 and not self._is_repeated:
            self._is_repeated = True
            raise first
        while True:
            lane = self._lane = await self._pool.acquire(self._lane, self._barred)
            if lane is None:
                self._why_over = ": nothing more is asked of the server; repeat the command later"
                return self.give_up() if self._count else None
            if self._end_s == math.inf:
                self._end_s = _now() + self._policy.total_s
            elif self._left_s <= 0:
                lane.limiter.release(1)
                self._why_over = self._too_long
                return self.give_up()
            if (response := await self._asked_at(lane)) is not None:
                return Completed(self._with_all_usage(response), lane.limiter)

    async def _asked_at(self, lane: Lane) -> Response | None:
        """One attempt at one server; None where it is to be made at another instead."""
        start_s = _now()
        try:
            response = await self._response(self._calls[lane.number])
        except RetryableError as error:
            self._count += 1
            self._record_failure(error, lane, took_s=_now() - start_s)
            raise
        except ModelError as error:
            # Other servers may have another key, or the model that this one lacks.
            if not self._pool.leave(lane, error):
                raise
            lane.limiter.release(1)
            return None
        except PermanentError as error:
            if self._is_for_others(error, lane):
                self._refused[lane] = error
                self._pool.record(lane, CallOutcome.COMPLETED)
                return None
            usage = total_usage([self._partial_usage, error.usage])
            response = self._failure(error.reason, str(error), usage)
        else:
            self._pool.compare(lane, self._refused)
        self._count += 1
        self._pool.record(lane, CallOutcome.COMPLETED, holds_slot=True)
        return response

    def _is_for_others(self, error: PermanentError, lane: Lane) -> bool:
        """Whether another server may answer what one has refused without doing anything."""
        is_free = error.reason is Reason.FAILED and error.usage == UNCHARGED
        is_new = lane not in self._refused
        return is_free and is_new and self._pool.has_other([lane, *self._refused])

    async def _response(self, call: Call) -> Response:
        while True:
            most_s = min(self._policy.timeout_s, max(0.0, self._left_s))
            try:
                async with asyncio.timeout(most_s):
                    reply = await call(self._request)
            except TimeoutError:
                raise RetryableError(f"no answer within {round(most_s, 3):g} s") from None
            if isinstance(reply, Response):
                return reply
            self._partial_usage = reply.usage

    def _record_failure(self, error: RetryableError, lane: Lane, *, took_s: float) -> None:
        self._error = error
        self._failed_usages.append(error.usage)
        if error.retry_after_s is not None:
            self._wait_ends_s[lane] = _now() + error.retry_after_s
        if error.is_rate_limited:
            outcome = CallOutcome.RATE_LIMITED
        else:
            outcome = CallOutcome.SERVER_ERROR
            if not self._pool.has_other([lane]):
                self._breaker.record_failure(error)
        pause_s = self._pool.record(lane, outcome, error=error, wait_s=error.retry_after_s)
        if pause_s is None:
            return
        message, total_s = f"{error}; the server asks to wait {pause_s:.0f} s", self._policy.total_s
        if took_s + pause_s > total_s and self._pool.has_other([lane]):
            self._pool.leave(lane, ModelError(message))
        elif took_s + pause_s > total_s:
            message += (
                f", and a request may take {total_s:g} s in all: nothing more was asked, and what "
                "was answered is stored; repeat the command later, or raise total_s in the model's "
                "YAML"
            )
            self._pool.close(ModelError(message))
        elif pause_s >= LONG_PAUSE_S:
            _log.warning("%s: no call is made until then", message)

    def wait_s(self, own: float) -> float:
        """The seconds to the next attempt, of which `own` are our own backing off."""
        asked = self._asked_s
        if asked is None:
            self._own_waits_s += own
            return own
        self._own_waits_s += max(0.0, own - asked)
        # Spread, so that requests that were rejected together do not come back together.
        return max(own, asked + min(own, asked / 4))

    def is_over(self, wait_s: float) -> bool:
        """Whether no further attempt is made after such a wait; keeps the reason."""
        policy, asked, left_s = self._policy, self._asked_s, self._left_s
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
    def _barred(self) -> list[Lane]:
        """The servers that refused this request, or asked it to wait longer than until now."""
        waiting = [lane for lane, end_s in self._wait_ends_s.items() if end_s > _now()]
        return [*self._refused, *waiting]

    @property
    def _asked_s(self) -> float | None:
        """The wait that the server asked for; None without one, and where another is called."""
        asked = self._error.retry_after_s
        return None if asked is None or self._pool.has_other(self._barred) else asked

    @property
    def is_calm(self) -> bool:
        """Whether the server of the last attempt had no more errors than chance explains."""
        return self._lane is not None and self._lane.limiter.is_calm

    @property
    def _left_s(self) -> float:
        return self._end_s - _now()

    @property
    def _too_long(self) -> str:
        return f": it would take more than {self._policy.total_s:g} s in all"


def _now() -> float:
    return asyncio.get_running_loop().time()
