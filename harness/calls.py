"""Requests to Responses over a network: the only retry policy and the only concurrency.

One event loop in one background thread keeps some requests in flight; the calling thread takes
the responses as they finish. Nothing here knows a server, a client library or a file.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import chain
from queue import SimpleQueue
from threading import Event, Thread

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random,
    wait_random_exponential,
)

from harness.core import Request, Response
from harness.gate import Gate, Outcome
from harness.parts import Reason

Call = Callable[[Request], Awaitable[Response]]
Connect = Callable[[], AbstractAsyncContextManager[Call]]


@dataclass(frozen=True, slots=True)
class Policy:
    """How many requests are in flight at most, and how long one is tried.

    `timeout_s` bounds one attempt, `total_s` all attempts of one request with the waits between
    them; `longest_wait_s` the sum of those waits; `first_wait_s` the first of them, unless the
    server asks for more.
    """

    concurrency: int
    attempts: int
    timeout_s: float
    longest_wait_s: float = 120.0
    first_wait_s: float = 1.0
    total_s: float = math.inf

    def __post_init__(self) -> None:
        """Refuse a policy under which nothing could ever be asked."""
        if self.concurrency < 1 or self.attempts < 1 or not min(self.timeout_s, self.total_s) > 0:
            raise ValueError(f"concurrency, attempts >= 1, timeout_s, total_s > 0, not {self!r}")
        if self.longest_wait_s < 0 or self.first_wait_s < 0:
            raise ValueError(f"a wait is not negative: {self!r}")


class Transient(Exception):
    """A failure that may pass: asked again, not before `retry_after_s` where a server says so.

    `is_turned_away` says that the server had too many calls of ours (429).
    """

    def __init__(
        self,
        message: str,
        retry_after_s: float | None = None,
        *,
        is_turned_away: bool = False,
    ) -> None:
        """Keep the message, and the wait in seconds where one was asked for."""
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.is_turned_away = is_turned_away


class Refused(Exception):
    """A failure that asking again would not mend."""

    def __init__(self, reason: Reason, message: str) -> None:
        """Keep the reason and the message of the response it becomes."""
        super().__init__(message)
        self.reason = reason


def answer_all(
    requests: Iterable[Request], connect: Connect, policy: Policy
) -> Generator[Response, None, None]:
    """Answer each request once, in the order in which the answers come.

    `requests` is drawn by the background thread, one at a time, when there is room for it; it
    must not wait for the responses. `connect` is called here once there is a request; what it
    returns is entered and left inside the loop. What the call raises, other than Transient and
    Refused, ends everything and is raised here, after the responses that were there before it.
    Closing the generator cancels what is in flight.
    """
    drawn = iter(requests)
    for first in drawn:
        crew = _Crew(chain((first,), drawn), connect(), policy)
        try:
            crew.start()
            yield from crew.responses()
        finally:
            crew.stop()
        return


def wait_asked_for(retry_after: str | None, now: datetime) -> float | None:
    """The seconds a Retry-After header asks for, given as a number or as a date."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        seconds = _seconds_until(retry_after, now)
    return None if math.isnan(seconds) else max(0.0, seconds)


def _seconds_until(date: str, now: datetime) -> float:
    """The time until an HTTP date; not a number where it is none."""
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return math.nan
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()


@dataclass(frozen=True, slots=True)
class _End:
    """The last thing the background thread says, with what ended it too early."""

    error: BaseException | None


@dataclass(frozen=True, slots=True)
class _Finished:
    """A response, and whether it still keeps the place of its call."""

    response: Response
    keeps_place: bool = False


class _Crew:
    """The background thread, its loop and its workers, seen from the calling thread.

    A response waits in `_finished` until the caller takes it, and keeps its place until the caller
    asks for the next: whatever ends this process costs no more calls than may be in flight.
    """

    def __init__(
        self,
        requests: Iterator[Request],
        session: AbstractAsyncContextManager[Call],
        policy: Policy,
    ) -> None:
        self._requests = requests
        self._session = session
        self._policy = policy
        self._gate = Gate(policy.concurrency)
        self._finished: SimpleQueue[_Finished | _End] = SimpleQueue()
        self._done = self._freed = 0
        self._is_freeing = False
        self._started = Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._thread = Thread(target=self._run, name="calls", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def responses(self) -> Iterator[Response]:
        """The responses as they finish, then what went wrong, if anything did."""
        while not isinstance(item := self._finished.get(), _End):
            yield item.response
            self._done += item.keeps_place
            if not self._is_freeing:
                self._is_freeing = True
                self._tell(self._free)
        if item.error is not None:
            raise item.error

    def stop(self) -> None:
        """Cancel what is in flight and wait for the thread to end."""
        if self._thread.ident is None:
            return
        self._started.wait()
        if self._main is not None:
            self._tell(self._main.cancel)
        self._thread.join()

    def _tell(self, what: Callable[[], object]) -> None:
        """Have the loop do something, if it is still there."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has closed: nothing is left to be told
                self._loop.call_soon_threadsafe(what)

    def _run(self) -> None:
        """The thread: one loop, then one `_End`, whatever happens."""
        error: BaseException | None = None
        try:
            asyncio.run(self._serve())
        except asyncio.CancelledError:
            pass
        except BaseException as caught:  # raised again in the calling thread
            error = caught
        self._started.set()
        self._finished.put(_End(error))

    async def _serve(self) -> None:
        """Connect and work until the requests are used up."""
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        self._started.set()
        try:
            async with self._session as call, asyncio.TaskGroup() as group:
                # Twice as many as may be in flight: those that wait to ask again hold nobody up.
                for _ in range(2 * self._policy.concurrency):
                    group.create_task(self._work(call))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    async def _work(self, call: Call) -> None:
        """Ask one request after the other, as long as there are any."""
        retrying = _retrying(self._policy, self._gate)
        attempt = partial(_attempt, call, self._gate, self._policy.timeout_s)
        for request in self._requests:
            finished: _Finished = await retrying(attempt, request)
            self._finished.put(finished)

    def _free(self) -> None:
        """Give back, inside the loop, the places of what the caller is done with."""
        self._is_freeing = False  # before the count is read, or the caller's next could be missed
        done = self._done
        self._gate.free(done - self._freed)
        self._freed = done


async def _attempt(call: Call, gate: Gate, timeout_s: float, request: Request) -> _Finished:
    """One attempt at one request, once there is a place for it; what ends it keeps the place."""
    await gate.enter()
    try:
        async with asyncio.timeout(timeout_s):
            response = await call(request)
    except TimeoutError:
        gate.leave(Outcome.TROUBLE)
        raise Transient(f"no answer within {timeout_s:g} s") from None
    except Transient as error:
        gate.leave(Outcome.TURNED_AWAY if error.is_turned_away else Outcome.TROUBLE)
        raise
    except Refused as error:
        response = Response.failed(request.key, error.reason, str(error))
    gate.leave(Outcome.SETTLED, keeps_place=True)
    return _Finished(response, keeps_place=True)


def _retrying(policy: Policy, gate: Gate) -> AsyncRetrying:
    """The retry policy: jittered exponential waits, bounded in number and in sum.

    While all else goes well a failure is that request's bad luck: waits do not grow then.
    """
    backoff = wait_random_exponential(multiplier=policy.first_wait_s, max=policy.longest_wait_s)
    short = wait_random(0, min(policy.first_wait_s, policy.longest_wait_s))
    enough = stop_after_attempt(policy.attempts)

    def wait_s(state: RetryCallState) -> float:
        error, own = _error(state), (short if gate.is_calm else backoff)(state)
        asked = error.retry_after_s if isinstance(error, Transient) else None
        # Spread, so that all who were turned away together do not come back together.
        return own if asked is None else max(own, asked + min(own, asked / 4))

    def is_out_of_time(state: RetryCallState) -> bool:
        return (state.seconds_since_start or 0) + state.upcoming_sleep > policy.total_s

    def is_over(state: RetryCallState) -> bool:
        waited = state.idle_for + state.upcoming_sleep
        return enough(state) or waited > policy.longest_wait_s or is_out_of_time(state)

    def give_up(state: RetryCallState) -> _Finished:
        tried = f"gave up after attempt {state.attempt_number} of {policy.attempts}"
        if not enough(state) and is_out_of_time(state):
            tried += f": it would take more than {policy.total_s:g} s in all"
        elif not enough(state):
            tried += f": waits would sum to more than {policy.longest_wait_s:g} s"
        told = f"{_error(state)}; {tried}"
        return _Finished(Response.failed(state.args[0].key, Reason.FAILED, told))

    return AsyncRetrying(
        retry=retry_if_exception_type(Transient),
        wait=wait_s,
        stop=is_over,
        retry_error_callback=give_up,
    )


def _error(state: RetryCallState) -> BaseException | None:
    """What the last attempt raised."""
    return state.outcome.exception() if state.outcome else None
