"""Slots of several servers of one model to calls: the least loaded server first, a dead one later.

Each server has a limiter of its own. One that fails again and again is set aside for a while, and
then tried with one call. With a single server all is as if there were only its limiter. Nothing
here knows a request or a retry; all of it lives inside one event loop.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from harness.errors import ModelError
from harness.models.client.limiter import CallOutcome, ConcurrencyLimiter, Turns

ASIDE_AFTER = 5
"""So many calls in a row without a reply set a server aside, if there are others; so many requests
in a row that it refuses, and another answers, close it.
"""
LONGEST_ASIDE = 12
"""How many times as long as the first time a server is set aside at most; each time is twice that
before.
"""
_log = logging.getLogger(__name__)


class Lane:
    """One server of a model: its number and name, its limiter, and how it has fared."""

    def __init__(self, number: int, name: str, limiter: ConcurrencyLimiter) -> None:
        """Nothing is known of the server yet."""
        self.number, self.name, self.limiter = number, name, limiter
        self.calls = 0
        self.failures = 0  # in a row
        self.refusals = 0  # in a row, of requests that another server answered
        self.aside_s = 0.0  # for how long it was set aside the last time; 0 where it answers
        self.until_s = 0.0  # on the loop's clock

    def is_fit(self, now_s: float) -> bool:
        """Whether it may be called; one that was set aside by one call at a time."""
        if self.limiter.closed_by is not None:
            return False
        return not self.aside_s or (now_s >= self.until_s and not self.limiter.in_flight)


@dataclass(frozen=True, slots=True)
class ServerStates:
    """How the servers of a model have fared so far in a command, by their names.

    Those in `aside` did not reply when they were last asked: a new pool tries each with one call
    first. Those in `left` get none, for the error there. `limiters` say how many calls at once each
    has borne.
    """

    aside: set[str] = field(default_factory=set)
    left: dict[str, ModelError] = field(default_factory=dict)
    limiters: dict[str, ConcurrencyLimiter] = field(default_factory=dict)


class ServerPool:
    """The servers of one model, of which each has at most `most` calls in flight.

    `names` are their addresses, as messages may show them; `aside_s` is for how many seconds a
    server is first set aside. The caller may keep `states` for the next pool. `has_refused` says
    that a caller asked for a slot after all were closed.
    """

    def __init__(
        self, names: Sequence[str], most: int, *, aside_s: float, states: ServerStates | None = None
    ) -> None:
        """Start with a low limit for each server that was not asked before."""
        self._turns = Turns()
        self._aside_s = aside_s
        self._states = ServerStates() if states is None else states
        self.has_refused = False
        earlier = self._states.limiters
        limiters = [ConcurrencyLimiter(most, self._turns, earlier.get(name)) for name in names]
        earlier.update(zip(names, limiters, strict=True))
        self.lanes = [
            Lane(number, name, limiter)
            for number, (name, limiter) in enumerate(zip(names, limiters, strict=True))
        ]
        for lane in self.lanes:
            lane.aside_s = aside_s if lane.name in self._states.aside else 0.0
            if (error := self._states.left.get(lane.name)) is not None:
                lane.limiter.close(error)

    @property
    def closed_by(self) -> Exception | None:
        """Why no server is called any more; None while one is."""
        errors = [lane.limiter.closed_by for lane in self.lanes]
        return None if None in errors else errors[0]

    async def acquire(
        self, avoided: Lane | None = None, barred: Collection[Lane] = ()
    ) -> Lane | None:
        """Wait for a slot of any server and take it; None once all servers are closed.

        The server in `avoided` gets the call only where no other has a slot, and those in `barred`,
        which asked this call to wait, only where no other is called at all.
        """
        while (lane := self._least_loaded(avoided, barred)) is None:
            if self.closed_by is not None:
                self.has_refused = True
                return None
            await self._turns.wait()
        lane.limiter.take()
        lane.calls += 1
        return lane

    def record(
        self,
        lane: Lane,
        outcome: CallOutcome,
        *,
        error: Exception | None = None,
        wait_s: float | None = None,
        holds_slot: bool = False,
    ) -> float | None:
        """Count the outcome of a call as the server's limiter does; sets the server aside."""
        if outcome is CallOutcome.SERVER_ERROR:
            self._record_failure(lane, error)
        else:
            lane.failures = 0
            if lane.aside_s:
                lane.aside_s = 0.0
                self._states.aside.discard(lane.name)
                _log.warning("%s answers again, and is asked with the others", lane.name)
        return lane.limiter.record(outcome, wait_s=wait_s, holds_slot=holds_slot)

    def leave(self, lane: Lane, error: ModelError) -> bool:
        """Give no further slot of one server; False, and nothing done, where no other has any."""
        if lane.limiter.closed_by is not None:
            return True
        if all(other is lane or other.limiter.closed_by for other in self.lanes):
            return False
        lane.limiter.close(error)
        self._states.left[lane.name] = error
        _log.warning("%s; only the other servers are asked from now on", error)
        return True

    def compare(self, lane: Lane, refused: Mapping[Lane, Exception]) -> None:
        """Count that a server has answered what others `refused`; these may thereby be closed."""
        lane.refusals = 0
        for other, error in refused.items():
            other.refusals += 1
            if other.refusals >= ASIDE_AFTER:
                fact = f"{error}; others answer what it has refused {other.refusals} times in a row"
                self.leave(other, ModelError(fact))

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds, or until the servers are closed."""
        lane = next((lane for lane in self.lanes if not lane.limiter.closed_by), self.lanes[0])
        await lane.limiter.sleep(seconds)

    def close(self, error: Exception) -> None:
        """Give no further slot of any server, because of `error`; calls in flight go on."""
        for lane in self.lanes:
            lane.limiter.close(error)

    def has_other(self, lanes: Collection[Lane]) -> bool:
        """Whether a server beside these is called, and not set aside."""
        now_s = asyncio.get_running_loop().time()
        return any(lane not in lanes and lane.is_fit(now_s) for lane in self.lanes)

    def _least_loaded(self, avoided: Lane | None, barred: Collection[Lane]) -> Lane | None:
        now_s = asyncio.get_running_loop().time()
        # Where every server is set aside all are called, as a single one would be.
        fit = [lane for lane in self.lanes if lane.is_fit(now_s)] or self.lanes
        fit = [lane for lane in fit if lane not in barred] or fit
        free = [lane for lane in fit if lane.limiter.free_slots > 0]
        return min(
            free,
            key=lambda lane: (lane is avoided, lane.limiter.in_flight, lane.calls),
            default=None,
        )

    def _record_failure(self, lane: Lane, error: Exception | None) -> None:
        lane.failures += 1
        now_s = asyncio.get_running_loop().time()
        is_new = not lane.aside_s and lane.failures >= ASIDE_AFTER
        is_again = lane.aside_s > 0 and now_s >= lane.until_s
        if len(self.lanes) == 1 or not (is_new or is_again):
            return
        lane.aside_s = min(max(2 * lane.aside_s, self._aside_s), LONGEST_ASIDE * self._aside_s)
        lane.until_s = now_s + lane.aside_s
        self._states.aside.add(lane.name)
        if is_new:
            _log.warning(
                "%s: %d calls in a row got no reply, the last: %s; it is set aside, and tried "
                "again from time to time",
                *(lane.name, lane.failures, error),
            )
