"""Outcomes of calls to how many calls may be in flight, and to when a failing server is given up.

The limiter starts low, raises the limit while all goes well, and lowers it after HTTP 429. Nothing
here knows a server, a request or a retry; all of it lives inside one event loop.
"""

import asyncio
import logging
import math
from collections import deque
from contextlib import suppress
from enum import Enum
from statistics import median_low

from harness.core import Response
from harness.errors import ModelError
from harness.parts import Reason

FIRST = 16
"""The limit while nothing is known of a server."""
STEEP, SLOW = 4, 1.25
"""The factor by which a round without errors raises the limit: before the first cut, after it."""
TOLERATED, DEEPEST = 0.1, 0.5
"""The share of a round that may be rate-limited without a cut; the deepest cut of one round.

A server that rejects a few calls at random is best left at the same limit. A server whose limit is
reached rejects more, the more calls it gets.
"""
SURE = 1.64
"""How many standard errors above the tolerated share count as clear: 3 of 16 may be chance."""
SAME_S = 1.0
"""Seconds: two ends of a pause that differ by less are the same end."""


class CallOutcome(Enum):
    """How a call ended: with a final result, rate-limited (429), or with an error of the server
    (5xx, broken connections, time-outs).
    """

    COMPLETED = "completed"
    RATE_LIMITED = "rate limited"
    SERVER_ERROR = "server error"


class Turns:
    """Callers that wait for a slot, of one limiter or of several; first come, first served."""

    def __init__(self) -> None:
        """Nobody waits yet."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    async def wait(self) -> None:
        """Wait to be woken; one who is cancelled then wakes the next."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif not turn.cancelled():
                self.wake(1)
            raise

    def wake(self, count: int) -> None:
        """Wake so many; each of them has to look again whether there is a slot."""
        while self._waiting and count > 0:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                count -= 1


class ConcurrencyLimiter:
    """An adaptive limit on the calls in flight, never above `most`.

    `is_calm` says that the last round had no more errors than chance explains; `closed_by` why no
    slot is given any more.

    A round is as many outcomes as the limit was at its start. After a round the limit grows if no
    or few calls were rate-limited; shrinks by the rate-limited share, at most by half, if clearly
    more were; and stays where the server had errors. Where a server clearly asks a round's calls to
    wait, no slot is given until half of these calls may come again.
    """

    def __init__(
        self,
        most: int,
        turns: Turns | None = None,
        earlier: "ConcurrencyLimiter | None" = None,
    ) -> None:
        """Start with a low limit, or with that of the `earlier` limiter of the same server.

        `turns` are those who wait for this limiter and for others.
        """
        self.most = most
        self.limit: int = min(most, earlier.limit if earlier else FIRST)
        self.in_flight = 0
        self._turns = Turns() if turns is None else turns
        self._counts = dict.fromkeys(CallOutcome, 0)
        self._round = self.limit
        self._is_cut: bool = earlier is not None and earlier._is_cut
        self.is_calm = False
        self._wait_ends: list[float] = []  # when the calls of this round may come again
        self._reopening: asyncio.TimerHandle | None = None
        self.closed_by: Exception | None = None
        self._closing = asyncio.Event()

    async def acquire(self) -> bool:
        """Wait for a slot and take it; False once the limiter is closed."""
        while self.free_slots <= 0:
            if self.closed_by is not None:
                return False
            await self._turns.wait()
        self.take()
        return True

    def take(self) -> None:
        """Take a slot, of which there must be one."""
        self.in_flight += 1

    def record(
        self, outcome: CallOutcome, *, wait_s: float | None = None, holds_slot: bool = False
    ) -> float | None:
        """Count the outcome of a call and release its slot, unless `release` will do that later.

        `wait_s` is the time the server asked the call to wait. Where this starts or lengthens a
        pause of all calls, the seconds of that pause are returned. A call that ends in a bug never
        releases its slot.
        """
        self._counts[outcome] += 1
        pause_s = self._pause(wait_s) if wait_s else None
        if sum(self._counts.values()) >= self._round:
            self._end_round()
        self.release(0 if holds_slot else 1)
        return pause_s

    def release(self, count: int) -> None:
        """Release the slots of calls that were recorded with `holds_slot`."""
        self.in_flight -= count
        self._wake()

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds, or until the limiter is closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    def close(self, error: Exception) -> None:
        """Give no further slot, because of `error`; calls in flight go on."""
        self.closed_by = self.closed_by or error
        self._closing.set()
        self._wake()

    @property
    def free_slots(self) -> int:
        """How many calls may be made now; 0 or less where none may."""
        is_shut = self._reopening is not None or self.closed_by is not None
        return 0 if is_shut else self.limit - self.in_flight

    def _pause(self, wait_s: float) -> float | None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._wait_ends.append(now + wait_s)
        if not self._is_clear(len(self._wait_ends)):
            return None
        end = median_low(self._wait_ends)
        if self._reopening is not None:
            if end <= self._reopening.when() + SAME_S:
                return None
            self._reopening.cancel()
        self._reopening = loop.call_at(end, self._reopen)
        return end - now

    def _reopen(self) -> None:
        self._reopening = None
        self._wake()

    def _end_round(self) -> None:
        limited = self._counts[CallOutcome.RATE_LIMITED]
        has_errors = self._is_clear(self._counts[CallOutcome.SERVER_ERROR])
        self.is_calm = not (self._is_clear(limited) or has_errors)
        if self._is_clear(limited):
            self._is_cut = True
            share = min(limited / self._round, DEEPEST)
            self.limit = max(1, int(self.limit * (1 - share)))
        elif self.is_calm:
            grown = self.limit * (SLOW if self._is_cut else STEEP)
            self.limit = min(self.most, max(self.limit + 1, int(grown)))
        self._counts = dict.fromkeys(CallOutcome, 0)
        self._wait_ends.clear()
        self._round = self.limit

    def _is_clear(self, count: int) -> bool:
        """Whether so many of a round are more than the tolerated share brings by chance."""
        expected = TOLERATED * self._round
        return count > expected + SURE * math.sqrt(expected * (1 - TOLERATED))

    def _wake(self) -> None:
        """Wake as many waiting callers as there are free slots; all where the limiter is closed."""
        # Each of them checks again: once it is closed, nothing is left to wait for.
        self._turns.wake(self.free_slots if self.closed_by is None else len(self._turns))


_log = logging.getLogger(__name__)
WARN_AFTER = 8
"""So many calls in a row without a reply are logged."""
GIVE_UP_AFTER = 20
"""So many failed requests in a row end the run, or as many as may be in flight."""


class CircuitBreaker:
    """Counts failures in a row, over all requests; any other response starts the count anew."""

    def __init__(self, concurrency: int) -> None:
        """Nothing has failed yet."""
        self._most = max(GIVE_UP_AFTER, concurrency)
        self._calls = self._requests = 0

    def record_failure(self, error: Exception) -> None:
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
        """Count the result of a request; return an error once too many have failed in a row."""
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
