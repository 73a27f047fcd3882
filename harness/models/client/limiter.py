"""How many calls may be in flight: additive increase, multiplicative decrease.

The limit starts low, grows while all goes well, and shrinks after HTTP 429. It is kept from one
use to the next. Nothing here knows a server, a request or a retry.
"""

import asyncio
from contextlib import suppress
from enum import Enum
from statistics import median_low

FIRST = 16
"""The limit while nothing is known of a server."""
STEEP, SHARE = 4, 20
"""A good round multiplies the limit by STEEP; after the first cut it adds 1/SHARE of the most."""
TOLERATED, DEEPEST = 0.2, 0.5
"""The share of a round that may fail (3 of 16 may be chance); the deepest cut of one round."""
SAME_S = 1.0
"""Two ends of a pause that differ by fewer seconds are the same end."""


class CallOutcome(Enum):
    """A final result, HTTP 429, or an error of the server (5xx, no connection, no reply)."""

    COMPLETED = "completed"
    RATE_LIMITED = "rate limited"
    SERVER_ERROR = "server error"


class Limiter:
    """An adaptive limit on the calls in flight, never above `most`.

    A round is as many outcomes as the limit was at its start. After a round the limit grows if few
    calls failed, and shrinks by the rate-limited share if more than a few were. If a server asks
    more than a few calls of a round to wait, no call is made until half of them may come again.
    """

    def __init__(self, most: int) -> None:
        """Start low."""
        self.most, self.limit, self._is_cut = most, min(FIRST, most), False

    def open(self) -> None:
        """Begin in the running event loop, at the limit that the server has borne."""
        self._slots, self._surplus = asyncio.Semaphore(self.limit), 0
        self._closing = asyncio.Event()
        self._resume_s = 0.0
        self.closed_by: Exception | None = None
        self.has_refused = False  # a call was wanted after the limiter was closed
        self._begin_round()

    async def acquire(self) -> bool:
        """Wait for a slot and take it; False once the limiter is closed."""
        await self._slots.acquire()
        while self.closed_by is None and (left_s := self._resume_s - _now()) > 0:
            await self.sleep(left_s)
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
        """Count the outcome of a call; `wait_s` is what the server asked it to wait.

        Returns the seconds of a pause of all calls, if this starts or lengthens one.
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
        self._slots.release()

    def _begin_round(self) -> None:
        self._round, self._counts = self.limit, dict.fromkeys(CallOutcome, 0)
        self._wait_ends: list[float] = []  # when the calls of this round may come again

    def _end_round(self) -> None:
        before, limited = self.limit, self._counts[CallOutcome.RATE_LIMITED]
        if self._is_clear(limited):
            self._is_cut = True
            self.limit = max(1, int(before * (1 - min(limited / self._round, DEEPEST))))
            self._surplus += before - self.limit
        elif not self._is_clear(self._counts[CallOutcome.SERVER_ERROR]):
            more = before + max(1, self.most // SHARE) if self._is_cut else STEEP * before
            self.limit = min(self.most, more)
            for _ in range(self.limit - before):
                self.release()
        self._begin_round()

    def _is_clear(self, count: int) -> bool:
        """Whether so many of a round are more than is tolerated; one alone is, of more than one."""
        return count > min(self._round - 1, max(1, TOLERATED * self._round))

    def _pause(self, wait_s: float) -> float | None:
        self._wait_ends.append(_now() + wait_s)
        end_s = median_low(self._wait_ends)
        if not self._is_clear(len(self._wait_ends)) or end_s <= max(
            _now(), self._resume_s + SAME_S
        ):
            return None
        self._resume_s = end_s
        return end_s - _now()


def _now() -> float:
    return asyncio.get_running_loop().time()
