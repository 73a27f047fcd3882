"""Requests to Responses over a network: the only retry policy and the only concurrency.

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

from msgspec import UNSET
from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    wait_random,
    wait_random_exponential,
)

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.client.executor import BackgroundExecutor, Completed, Worker
from harness.models.client.limiter import CallOutcome, CircuitBreaker, ConcurrencyLimiter
from harness.parts import UNCHARGED, UNKNOWN_USAGE, Failure, Reason, Usage, total_usage

_log = logging.getLogger(__name__)
LONG_PAUSE_S = 5.0
"""From here on a pause of all calls is told."""


@dataclass(frozen=True, slots=True)
class PartialReply:
    """A request some of whose replies are there: what these were charged; it is called again."""

    usage: Usage


Call = Callable[[Request], Awaitable[Response | PartialReply]]
Connect = Callable[[], AbstractAsyncContextManager[Call]]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How many requests are in flight at most, and how long one is tried.

    `timeout_s` bounds one call; `total_s` all attempts of one request with the waits between them,
    from its first call on; `longest_wait_s` the sum of those waits, as far as no server asks for
    them; `first_wait_s` the first of them, unless the server asks for more.
    """

    concurrency: int
    attempts: int
    timeout_s: float
    longest_wait_s: float = 120.0
    first_wait_s: float = 1.0
    total_s: float = 900.0

    def __post_init__(self) -> None:
        """Refuse a policy under which nothing could ever be asked."""
        if self.concurrency < 1 or self.attempts < 1 or not min(self.timeout_s, self.total_s) > 0:
            raise ValueError(f"concurrency, attempts >= 1, timeout_s, total_s > 0, not {self!r}")
        if self.longest_wait_s < 0 or self.first_wait_s < 0:
            raise ValueError(f"a wait is not negative: {self!r}")


class RetryableError(Exception):
    """A failure that may pass: asked again, not before `retry_after_s` where a server says so.

    `is_turned_away` says that the server had too many calls of ours (429); `usage` what the call
    was charged, untold where it may have been.
    """

    def __init__(
        self,
        message: str,
        retry_after_s: float | None = None,
        *,
        is_turned_away: bool = False,
        usage: Usage = UNKNOWN_USAGE,
    ) -> None:
        """Keep the message, the seconds to wait where they were asked for, and the charge."""
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.is_turned_away = is_turned_away
        self.usage = usage


class PermanentError(Exception):
    """A failure that asking again would not mend; `usage` is what the call was charged."""

    def __init__(self, reason: Reason, message: str, *, usage: Usage = UNKNOWN_USAGE) -> None:
        """Keep the reason, the message and the usage of the response it becomes."""
        super().__init__(message)
        self.reason = reason
        self.usage = usage


@contextmanager
def attach_usage(usage: Usage) -> Iterator[None]:
    """Have whatever a reply ends in, while it is read, tell what the call was charged."""
    try:
        yield
    except (RetryableError, PermanentError) as error:
        error.usage = usage
        raise


def send_all(
    requests: Iterable[Request], connect: Connect, policy: RetryPolicy
) -> Generator[Response, None, None]:
    """Answer each request once, in the order in which the answers come.

    `requests` is drawn by the background thread, one at a time, when there is room for it; it
    must not wait for the responses. `connect` is called here once there is a request; what it
    returns is entered and left inside the loop. What the call raises, other than Transient and
    Refused, ends everything and is raised here, after the responses that were there before it.
    A server that has all calls wait longer than one may take, or of which nothing but failures
    come, ends it with ModelError, once those in flight have ended and if any are left to be asked.
    Closing the generator cancels what is in flight.
    """
    drawn = iter(requests)
    for first in drawn:
        gate = ConcurrencyLimiter(policy.concurrency)
        crew = BackgroundExecutor(
            chain((first,), drawn),
            _asking(connect(), policy, gate=gate),
            # Twice as many as may be in flight: those that wait to ask again hold nobody up.
            workers=2 * policy.concurrency,
            free=gate.free,
        )
        try:
            crew.start()
            yield from crew.results()
        finally:
            crew.stop()
        return


@asynccontextmanager
async def _asking(
    session: AbstractAsyncContextManager[Call], policy: RetryPolicy, *, gate: ConcurrencyLimiter
) -> AsyncIterator[Worker[Request, Response]]:
    """The session as one in which a request is asked until it is answered or given up."""
    longest_s, first_s = policy.longest_wait_s, policy.first_wait_s
    growing = wait_random_exponential(multiplier=first_s, max=longest_s)
    short = wait_random(0, min(first_s, longest_s))
    retrying = AsyncRetrying(
        retry=retry_if_exception_type(RetryableError),
        wait=lambda state: state.args[0].wait_s((short if gate.is_calm else growing)(state)),
        stop=lambda state: state.args[0].is_over(state.upcoming_sleep),
        retry_error_callback=lambda state: state.args[0].gave_up(),
        sleep=gate.rest,
    )
    outage = CircuitBreaker(policy.concurrency)

    async def ask(request: Request) -> Completed[Response] | None:
        case = _Attempt(request, call, policy=policy, gate=gate, outage=outage)
        finished: Completed[Response] | None = await retrying(_Attempt.attempt, case)
        if finished is not None and (error := outage.finished(finished.result)):
            gate.close(error)
        return finished

    async with session as call:
        yield ask
    if gate.closed_by is not None and gate.has_refused:
        raise gate.closed_by


def retry_after_seconds(retry_after: str | None, now: datetime) -> float | None:
    """The seconds a Retry-After header asks for, given as a number or as a date."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        seconds = _seconds_until(retry_after, now)
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _seconds_until(date: str, now: datetime) -> float:
    """The time until an HTTP date; not a number where it is none."""
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return math.nan
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()


class _Attempt:
    """One request: its attempts, the waits between them, and what all of it was charged."""

    def __init__(
        self,
        request: Request,
        call: Call,
        *,
        policy: RetryPolicy,
        gate: ConcurrencyLimiter,
        outage: CircuitBreaker,
    ) -> None:
        self._request, self._call, self._policy, self._gate = request, call, policy, gate
        self._outage = outage
        self._attempts = 0
        self._end_s = math.inf
        self._own_waits_s = 0.0
        self._begun = UNCHARGED
        self._spent: list[Usage] = []
        self._error = RetryableError("not asked")
        self._ending = ""

    async def attempt(self) -> Completed[Response] | None:
        """One attempt, once there is a place for it; what ends it keeps the place.

        Null where the request was not asked, and no other may be.
        """
        if not await self._gate.enter():
            self._ending = ": nothing more is asked of the server; repeat the command later"
            return self.gave_up() if self._attempts else None
        if not self._attempts:
            self._end_s = _now() + self._policy.total_s
        elif self._left_s <= 0:
            self._gate.free(1)
            self._ending = self._too_long
            return self.gave_up()
        self._attempts += 1
        began = _now()
        try:
            response = await self._said()
        except RetryableError as error:
            self._failed(error, took_s=_now() - began)
            raise
        except PermanentError as error:
            response = self._without(
                error.reason, str(error), total_usage([self._begun, error.usage])
            )
        self._gate.leave(CallOutcome.SETTLED, keeps_place=True)
        return Completed(self._accounted(response), keeps_place=True)

    async def _said(self) -> Response:
        """The response to one call, or to the last of several."""
        while True:
            most_s = min(self._policy.timeout_s, max(0.0, self._left_s))
            try:
                async with asyncio.timeout(most_s):
                    found = await self._call(self._request)
            except TimeoutError:
                raise RetryableError(f"no answer within {round(most_s, 3):g} s") from None
            if isinstance(found, Response):
                return found
            self._begun = found.usage

    def _failed(self, error: RetryableError, *, took_s: float) -> None:
        """Note what an attempt ended in; where the server has all calls wait, say so."""
        self._error = error
        self._spent.append(error.usage)
        outcome = CallOutcome.TURNED_AWAY if error.is_turned_away else CallOutcome.TROUBLE
        if outcome is CallOutcome.TROUBLE:
            self._outage.broke(error)
        pause_s = self._gate.leave(outcome, wait_s=error.retry_after_s)
        if pause_s is None:
            return
        told, total_s = f"{error}; the server asks to wait {pause_s:.0f} s", self._policy.total_s
        if took_s + pause_s > total_s:
            told += (
                f", and a request may take {total_s:g} s in all: nothing more was asked, and what "
                "was answered is stored; repeat the command later, or raise total_s in the model's "
                "YAML"
            )
            self._gate.close(ModelError(told))
        elif pause_s >= LONG_PAUSE_S:
            _log.warning("%s: no call is made until then", told)

    def wait_s(self, own: float) -> float:
        """The seconds to the next attempt, of which `own` are our own backing off."""
        asked = self._error.retry_after_s
        if asked is None:
            self._own_waits_s += own
            return own
        self._own_waits_s += max(0.0, own - asked)
        # Spread, so that all who were turned away together do not come back together.
        return max(own, asked + min(own, asked / 4))

    def is_over(self, wait_s: float) -> bool:
        """Whether no further attempt is made after such a wait; why not is kept."""
        policy, asked, left_s = self._policy, self._error.retry_after_s, self._left_s
        if self._attempts >= policy.attempts:
            return True
        if asked is not None and asked > left_s:
            self._ending = (
                f": the server asks to wait {asked:.0f} s, and of {policy.total_s:g} s in all "
                f"{left_s:.0f} are left; repeat the command later, or raise total_s in the model's "
                "YAML"
            )
        elif wait_s > left_s:
            self._ending = self._too_long
        elif self._own_waits_s > policy.longest_wait_s:
            self._ending = f": waits would sum to more than {policy.longest_wait_s:g} s"
        return bool(self._ending)

    def gave_up(self) -> Completed[Response]:
        """The failure of a request that is not asked again."""
        tried = f"gave up after attempt {self._attempts} of {self._policy.attempts}{self._ending}"
        told = f"{self._error}; {tried}"
        return Completed(self._accounted(self._without(Reason.FAILED, told, self._begun)))

    def _without(self, reason: Reason, told: str, usage: Usage) -> Response:
        """The response without an answer."""
        return Response(self._request.key, failure=Failure(reason, told), usage=usage)

    def _accounted(self, response: Response) -> Response:
        """A response that tells what other attempts were charged, and how many do not say."""
        if not self._spent:
            return response
        told = [usage for usage in self._spent if usage.is_known]
        whole = total_usage([response.usage, *told])
        untold = (whole.unanswered or 0) + len(self._spent) - len(told)
        return replace(response, usage=replace(whole, unanswered=untold or UNSET))

    @property
    def _left_s(self) -> float:
        """What is left of the time that the request may take."""
        return self._end_s - _now()

    @property
    def _too_long(self) -> str:
        return f": it would take more than {self._policy.total_s:g} s in all"


def _now() -> float:
    """The clock of the loop, in seconds."""
    return asyncio.get_running_loop().time()
