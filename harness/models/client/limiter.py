"""How many calls are in flight at a time: few at first, more while all goes well, fewer after 429.

None at all while a server has the calls wait. Lives inside one event loop. Nothing here knows a
server, a request or a retry.
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
"""Calls in flight before anything is known of a server."""
STEEP, SLOW = 4, 1.25
"""By how much a round without trouble raises the limit: before the first cut, and after it."""
TOLERATED, DEEPEST = 0.1, 0.5
"""The share of a round that a server may turn away without a cut; the deepest cut at a time.

A server that turns away a few calls at random is best asked on; one whose limit is reached turns
away more the more it is asked.
"""
SURE = 1.64
"""How many standard errors above the tolerated share are no accident: 3 of 16 may still be one."""
SAME_S = 1.0
"""Two ends of a pause that lie no further apart are one."""


class CallOutcome(Enum):
    """What became of a call: answered or refused for good, turned away (429), or the server's
    trouble (5xx, cut connections, time-outs).
    """

    SETTLED = "settled"
    TURNED_AWAY = "turned away"
    TROUBLE = "trouble"


class ConcurrencyLimiter:
    """Lets as many in as the server seems to bear, never more than `most`.

    `is_calm` says that the last round showed no more trouble than chance brings; `has_refused`
    that somebody wanted in once it was closed.

    A round is as many outcomes as the limit was when it began. After it the limit grows if
    nothing, or little, was turned away; is cut by the share turned away, at most by half, if
    clearly more was; and stays where the server was in trouble. Where clearly more of a round than
    chance brings were asked to wait, nobody enters until half of these may come again.
    """

    def __init__(self, most: int) -> None:
        """Open to a few."""
        self.most = most
        self.limit = min(most, FIRST)
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._counts = dict.fromkeys(CallOutcome, 0)
        self._round = self.limit
        self._is_cut = False
        self.is_calm = False
        self._asked: list[float] = []  # until when those of a round were asked to wait
        self._opening: asyncio.TimerHandle | None = None
        self.closed_by: Exception | None = None
        self.has_refused = False
        self._closing = asyncio.Event()

    async def enter(self) -> bool:
        """Wait for a place, and take it; false once the gate is closed."""
        while self._room <= 0:
            if self.closed_by is not None:
                self.has_refused = True
                return False
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            try:
                await place
            except asyncio.CancelledError:
                self._pass_on(place)
                raise
        self._inside += 1
        return True

    def leave(
        self, outcome: CallOutcome, *, wait_s: float | None = None, keeps_place: bool = False
    ) -> float | None:
        """Tell what became of a call, and give its place back unless that is done by `free`.

        `wait_s` is what the server asked the call to wait. Where that brings about a pause for
        all, or a longer one, its seconds are returned. A bug keeps its place for good.
        """
        self._counts[outcome] += 1
        pause_s = self._pause(wait_s) if wait_s else None
        if sum(self._counts.values()) >= self._round:
            self._end_round()
        self.free(0 if keeps_place else 1)
        return pause_s

    def close(self, error: Exception) -> None:
        """Let nobody in any more, for this reason; those inside are not disturbed."""
        self.closed_by = self.closed_by or error
        self._closing.set()
        self._wake()

    async def rest(self, seconds: float) -> None:
        """Stay outside for so long, or until the gate is closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    def free(self, count: int) -> None:
        """Give back the places of calls that have left without them."""
        self._inside -= count
        self._wake()

    @property
    def _room(self) -> int:
        """How many may enter now."""
        is_shut = self._opening is not None or self.closed_by is not None
        return 0 if is_shut else self.limit - self._inside

    def _pause(self, wait_s: float) -> float | None:
        """Shut the gate where a wait makes it clear that all must; the seconds, if that is news."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._asked.append(now + wait_s)
        if not self._is_clear(len(self._asked)):
            return None
        until = median_low(self._asked)
        if self._opening is not None:
            if until <= self._opening.when() + SAME_S:
                return None
            self._opening.cancel()
        self._opening = loop.call_at(until, self._open)
        return until - now

    def _open(self) -> None:
        """End a pause."""
        self._opening = None
        self._wake()

    def _end_round(self) -> None:
        turned_away, trouble = (
            self._counts[name] for name in (CallOutcome.TURNED_AWAY, CallOutcome.TROUBLE)
        )
        self.is_calm = not (self._is_clear(turned_away) or self._is_clear(trouble))
        if self._is_clear(turned_away):
            self._is_cut = True
            share = min(turned_away / self._round, DEEPEST)
            self.limit = max(1, int(self.limit * (1 - share)))
        elif self.is_calm:
            grown = self.limit * (SLOW if self._is_cut else STEEP)
            self.limit = min(self.most, max(self.limit + 1, int(grown)))
        self._counts = dict.fromkeys(CallOutcome, 0)
        self._asked.clear()
        self._round = self.limit

    def _is_clear(self, count: int) -> bool:
        """Whether so many of a round are more than the tolerated share would bring by chance."""
        expected = TOLERATED * self._round
        return count > expected + SURE * math.sqrt(expected * (1 - TOLERATED))

    def _wake(self) -> None:
        """Call in as many of those who wait as there is room for; each looks again.

        All of them where the gate is closed: nothing is left to wait for.
        """
        room = self._room if self.closed_by is None else len(self._waiting)
        while self._waiting and room > 0:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                room -= 1

    def _pass_on(self, place: "asyncio.Future[None]") -> None:
        """Leave the queue; one who was called in and gives up calls in the next."""
        if place in self._waiting:
            self._waiting.remove(place)
        elif not place.cancelled():
            self._wake()


_log = logging.getLogger(__name__)
TOLD = 8
"""So many calls in a row that bring no reply are told of."""
LEAST = 20
"""So many requests in a row that fail end the asking, or as many as may be in flight."""


class CircuitBreaker:
    """Counts what fails in a row, over all requests; a response of any other kind ends the row."""

    def __init__(self, concurrency: int) -> None:
        """Nothing has failed yet."""
        self._most = max(LEAST, concurrency)
        self._calls = self._requests = 0

    def broke(self, error: Exception) -> None:
        """Count a call without a reply, which is made again; tell where many have been."""
        self._calls += 1
        if self._calls == TOLD:
            _log.warning(
                "%d calls in a row got no reply, the last: %s; each is made again for a while, and "
                "what was answered is stored",
                TOLD,
                error,
            )

    def finished(self, response: Response) -> ModelError | None:
        """Count what a request came to; an error once so many have failed that none may succeed."""
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
