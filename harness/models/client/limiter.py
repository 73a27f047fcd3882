"""Outcomes of calls to how many may be in flight: a semaphore whose size follows the server.

The limit starts low, grows while all goes well, and shrinks after HTTP 429. All of it lives inside
one event loop; nothing here knows a server, a request or a retry.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from statistics import median_low

FIRST = 16
"""The limit while nothing is known of a server."""
STEEP, SHARE = 4, 20
"""What a good round adds: this factor before the first cut, then this part of the most there may be
(additive increase).
"""
TOLERATED, DEEPEST = 0.2, 0.5
"""The share of a round that may fail without a cut or a pause (3 of 16 may be chance); the deepest
cut of one round (multiplicative decrease).
"""
SAME_S = 1.0
"""Two ends of a pause that differ by fewer seconds are the same end."""


class CallOutcome(Enum):
    """How a call ended: with a final result, rate-limited (429), or with an error of the server
    (5xx, broken connections, time-outs).
    """

    COMPLETED = "completed"
    RATE_LIMITED = "rate limited"
    SERVER_ERROR = "server error"


@dataclass(slots=True)
class Capacity:
    """How many calls at once a server has borne so far, and whether the limit was ever cut."""

    limit: int = FIRST
    is_cut: bool = False


class ConcurrencyLimiter:
    """An adaptive limit on the calls in flight, never above `most`.

    A round is as many outcomes as the limit was at its start. After a round the limit grows if
    few calls were rate-limited, and shrinks by the rate-limited share if more were; it stays while
    the server has errors. Where a server asks more than a few calls of a round to wait, no call is
    made until half of them may come again. `is_calm` says that the last round had few errors;
    `closed_by` why no call is made any more, and `has_refused` that one was wanted after that.
    """

    def __init__(self, most: int, capacity: Capacity | None = None) -> None:
        """Start at the `capacity` of the server, which is kept up to date."""
        self.most = most
        self.capacity = Capacity() if capacity is None else capacity
        self.limit = min(most, self.capacity.limit)
        self.is_calm = self.has_refused = False
        self.closed_by: Exception | None = None
        self._slots, self._surplus = asyncio.Semaphore(self.limit), 0
        self._open, self._closing = asyncio.Event(), asyncio.Event()
        self._open.set()
        self._reopening: asyncio.TimerHandle | None = None
        self._begin_round()

    async def acquire(self) -> bool:
        """Wait for a slot and take it; False once the limiter is closed."""
        await self._slots.acquire()
        await self._open.wait()
        if self.closed_by is not None:
            self.has_refused = True
            self._slots.release()  # for the next who waits
        return self.closed_by is None

    def release(self) -> None:
        """Give a slot back; after a cut, the slots above the limit are not given out again."""
        if self._surplus:
            self._surplus -= 1
        else:
            self._slots.release()

    def record(self, outcome: CallOutcome, *, wait_s: float | None = None) -> float | None:
        """Count the outcome of a call, which the server may have asked to wait for `wait_s`.

        The seconds of a pause of all calls, if this starts or lengthens one.
        """
        self._counts[outcome] += 1
        pause_s = self._pause(wait_s) if wait_s else None
        if sum(self._counts.values()) >= self._round:
            self._end_round()
        return pause_s

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds, or until the limiter is closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    def close(self, error: Exception) -> None:
        """Give no further slot, because of `error`; calls in flight go on."""
        self.closed_by = self.closed_by or error
        self._closing.set()
        self._open.set()
        self._slots.release()

    def _begin_round(self) -> None:
        self._round = self.limit
        self._counts = dict.fromkeys(CallOutcome, 0)
        self._wait_ends: list[float] = []  # when the calls of this round may come again

    def _end_round(self) -> None:
        limited = self._counts[CallOutcome.RATE_LIMITED]
        errors = self._counts[CallOutcome.SERVER_ERROR]
        self.is_calm = not self._is_clear(max(limited, errors))
        if self._is_clear(limited):
            self.capacity.is_cut = True
            self._resize(int(self.limit * (1 - min(limited / self._round, DEEPEST))))
        elif self.is_calm:
            more = self.limit + max(1, self.most // SHARE)
            self._resize(more if self.capacity.is_cut else STEEP * self.limit)
        self._begin_round()

    def _is_clear(self, count: int) -> bool:
        """Whether so many of a round are more than is tolerated; one alone is, of more than one."""
        return count > min(self._round - 1, max(1, TOLERATED * self._round))

    def _resize(self, limit: int) -> None:
        before, self.limit = self.limit, max(1, min(self.most, limit))
        self.capacity.limit = self.limit
        for _ in range(self.limit - before):
            self.release()
        self._surplus += max(0, before - self.limit)

    def _pause(self, wait_s: float) -> float | None:
        loop = asyncio.get_running_loop()
        self._wait_ends.append(loop.time() + wait_s)
        if not self._is_clear(len(self._wait_ends)):
            return None
        end = median_low(self._wait_ends)
        if self._reopening is not None and not self._open.is_set():
            if end <= self._reopening.when() + SAME_S:
                return None
            self._reopening.cancel()
        self._open.clear()
        self._reopening = loop.call_at(end, self._open.set)
        return end - loop.time()
