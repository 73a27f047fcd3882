"""Requests to Responses over a network: retries, time limits and concurrency of all calls.

Nothing here knows a server, a client library or a file.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import chain
from random import uniform
from typing import Self

from msgspec import UNSET

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.client.background import BackgroundExecutor, Worker
from harness.models.client.limiter import CallOutcome, Limiter
from harness.parts import UNCHARGED, UNKNOWN_USAGE, Failure, Reason, Usage, total_usage
from harness.specs.models import HostedSpec, ModerationSpec

_log = logging.getLogger(__name__)
LONG_PAUSE_S = 5.0
"""Pauses of all calls of at least so many seconds are logged."""
LATER = "repeat the command later, or raise total_s in the model's YAML"
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
    limiter: Limiter | None = None,
) -> Generator[Response, None, None]:
    """Answer each request once, in the order in which the answers come.

    Raises ModelError if the server has all calls wait for longer than a request may take, or if
    only failures come: once the calls in flight have ended, and if any request is left. Closing
    the generator cancels the calls in flight. `limiter` keeps what the server has borne.
    """
    remaining = iter(requests)
    for first in remaining:
        session = _Session(policy, limiter or Limiter(policy.concurrency))
        executor = BackgroundExecutor(
            chain((first,), remaining),
            session.opened(connect()),
            # Twice as many as may be in flight: requests that wait for a retry block no other.
            workers=2 * policy.concurrency,
            release=session.limiter.release,
        )
        try:
            yield from executor.results()
        finally:
            executor.stop()
        return


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


@dataclass(slots=True)
class _Session:
    """The calls to one server, and how many in a row have failed."""

    policy: RetryPolicy
    limiter: Limiter
    failed_calls: int = 0
    failed_requests: int = 0

    @asynccontextmanager
    async def opened(self, connection: AbstractAsyncContextManager[Call]) -> AsyncIterator[Worker]:
        self.limiter.open()
        async with connection as call:

            async def work(request: Request) -> Response | None:
                response = await _Tries(request, call, self).answered()
                if response is not None:
                    self._record(response)
                return response

            yield work
        if self.limiter.closed_by is not None and self.limiter.has_refused:
            raise self.limiter.closed_by

    def _record(self, response: Response) -> None:
        """Count the result of a request; close the limiter once too many have failed in a row."""
        if response.failure is None or response.failure.reason is not Reason.FAILED:
            self.failed_calls = self.failed_requests = 0
            return
        self.failed_requests += 1
        if self.failed_requests == max(GIVE_UP_AFTER, self.policy.concurrency):
            self.limiter.close(
                ModelError(
                    f"the last {self.failed_requests} requests failed one after the other, the "
                    f"last with: {response.failure.message}; nothing more was asked, and what was "
                    "answered is stored: mend that and repeat the command, which asks them again "
                    "(--retry none leaves them out)"
                )
            )

    def record_trouble(self, error: "RetryableError", *, took_s: float) -> None:
        """Count a call that got no reply; log, or close the limiter, if all calls are affected."""
        outcome = CallOutcome.RATE_LIMITED
        if not error.is_rate_limited:
            outcome = CallOutcome.SERVER_ERROR
            self.failed_calls += 1
            if self.failed_calls == WARN_AFTER:
                _log.warning(
                    "%d calls in a row got no reply, the last: %s; each is made again for a while, "
                    "and what was answered is stored",
                    *(WARN_AFTER, error),
                )
        pause_s = self.limiter.record(outcome, wait_s=error.retry_after_s)
        if pause_s is None:
            return
        message = f"{error}; the server asks to wait {pause_s:.0f} s"
        if took_s + pause_s > self.policy.total_s:
            message += f", and a request may take {self.policy.total_s:g} s in all: nothing more "
            message += f"was asked, and what was answered is stored; {LATER}"
            self.limiter.close(ModelError(message))
        elif pause_s >= LONG_PAUSE_S:
            _log.warning("%s: no call is made until then", message)


@dataclass(slots=True)
class _Tries:
    """The attempts at one request, until it has a response or is given up."""

    request: Request
    call: Call
    session: _Session
    end_s: float = math.inf
    own_waits_s: float = 0.0
    partial_usage: Usage = UNCHARGED
    failed: list[RetryableError] = field(default_factory=list)

    async def answered(self) -> Response | None:
        """The response, which holds a slot; None if it was never called, and no other may be."""
        policy, limiter = self.session.policy, self.session.limiter
        while await limiter.acquire():
            start_s = _now()
            if not self.failed:
                self.end_s = start_s + policy.total_s
            elif self.end_s <= start_s:
                return self._given_up(self._too_long)
            try:
                response = await self._response()
            except RetryableError as error:
                self.failed.append(error)
                self.session.record_trouble(error, took_s=_now() - start_s)
                wait_s = self._wait_s(error.retry_after_s)
                if (why := self._why_over(error, wait_s)) is not None:
                    return self._given_up(why)
                limiter.release()
                await limiter.sleep(wait_s)
                continue
            except PermanentError as error:
                usage = total_usage([self.partial_usage, error.usage])
                response = self._failure(error.reason, str(error), usage)
            limiter.record(CallOutcome.COMPLETED)
            return self._with_all_usage(response)
        closed = ": nothing more is asked of the server; repeat the command later"
        return self._given_up(closed) if self.failed else None

    async def _response(self) -> Response:
        while True:
            most_s = min(self.session.policy.timeout_s, max(0.0, self.end_s - _now()))
            try:
                async with asyncio.timeout(most_s):
                    reply = await self.call(self.request)
            except TimeoutError:
                raise RetryableError(f"no answer within {round(most_s, 3):g} s") from None
            if isinstance(reply, Response):
                return reply
            self.partial_usage = reply.usage

    def _wait_s(self, asked_s: float | None) -> float:
        """The seconds to the next attempt: random up to a growing limit, or what the server asks.

        Those that the server asks for are spread: requests that were rejected together do not come
        back together.
        """
        policy = self.session.policy
        most_s = min(policy.longest_wait_s, policy.first_wait_s * 2 ** (len(self.failed) - 1))
        own_s = uniform(0, most_s)  # noqa: S311 - no secret
        self.own_waits_s += own_s if asked_s is None else max(0.0, own_s - asked_s)
        return own_s if asked_s is None else max(own_s, asked_s + min(own_s, asked_s / 4))

    def _why_over(self, error: RetryableError, wait_s: float) -> str | None:
        """Why no further attempt is made after such a wait; None if one is."""
        policy, asked_s, left_s = self.session.policy, error.retry_after_s, self.end_s - _now()
        if len(self.failed) >= policy.attempts:
            return ""
        if asked_s is not None and asked_s > left_s:
            return (
                f": the server asks to wait {asked_s:.0f} s, and of {policy.total_s:g} s in all "
                f"{left_s:.0f} are left; {LATER}"
            )
        if wait_s > left_s:
            return self._too_long
        if self.own_waits_s > policy.longest_wait_s:
            return f": waits would sum to more than {policy.longest_wait_s:g} s"
        return None

    def _given_up(self, why: str) -> Response:
        """The failure of a request that is not called again."""
        count, attempts = len(self.failed), self.session.policy.attempts
        fact = f"{self.failed[-1]}; gave up after attempt {count} of {attempts}{why}"
        failure = self._failure(Reason.FAILED, fact, self.partial_usage)
        return self._with_all_usage(failure)

    def _failure(self, reason: Reason, message: str, usage: Usage) -> Response:
        return Response(self.request.key, failure=Failure(reason, message), usage=usage)

    def _with_all_usage(self, response: Response) -> Response:
        """A response with the usage of failed attempts, and how many of these report none."""
        if not self.failed:
            return response
        known = [error.usage for error in self.failed if error.usage.is_known]
        whole = total_usage([response.usage, *known])
        unknown = (whole.unanswered or 0) + len(self.failed) - len(known)
        return replace(response, usage=replace(whole, unanswered=unknown or UNSET))

    @property
    def _too_long(self) -> str:
        return f": it would take more than {self.session.policy.total_s:g} s in all"


def _now() -> float:
    return asyncio.get_running_loop().time()
