"""Parts to results through copies of a model in the workers of a Ray cluster.

An idle worker takes the next part; results come out in the order of the parts. What a worker that
died had in hand is given to others, and it is started again. Nothing here knows what a part is.
"""

import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from typing import Any

from harness import __version__
from harness.errors import HarnessError, ModelError
from harness.models.spread import Needs, Part, Spreadable

_log = logging.getLogger(__name__)
AT_HAND = 2
"""Parts a worker has: one that it computes, and the next."""
AHEAD = 4
"""Parts a worker, on average, that may be handed out beyond the oldest that is not done."""
RESTARTS = 5
"""How often in a row a worker may die, without a result between, and be started again."""
DEATHS = 6
"""How many workers may die with a part in hand before it is taken for the cause."""
PATIENCE_S = 1.0
"""How long to wait, in seconds, before looking again for room for workers."""
TOLD_AFTER = 5
"""So many looks in a row without room for any worker are logged."""
PACKAGES = ("torch", "transformers", "sentence-transformers", "vllm")


def opened_ray() -> Any:  # noqa: ANN401 - a package without types
    """Ray itself."""
    return import_module("ray")


def versions() -> dict[str, str]:
    """What computes in this process: this program and the packages that change last digits."""
    found = {"pragmatics-harness": __version__}
    for package in PACKAGES:
        try:
            # Not the build: one driver without a GPU may have workers with one.
            found[package] = version(package).partition("+")[0]
        except PackageNotFoundError:
            continue
    return found


@dataclass(frozen=True, slots=True)
class Expected:
    """What a worker's copy must be, to give the results that this process would."""

    fingerprint: str
    versions: Mapping[str, str]


class RayWorker:
    """A copy of a model or encoder, in a process of its own."""

    def __init__(self, build: "partial[Any]", needs: Needs) -> None:
        """Keep what to build; nothing is opened yet."""
        self._build, self._needs = build, needs
        self._copy: Spreadable | None = None

    def open(self, expected: Expected) -> None:
        """Build the copy; ModelError unless it is the very one that is expected."""
        if (own := versions()) != expected.versions:
            differing = dict(set(own.items()) ^ set(expected.versions.items()))
            here = ", ".join(f"{name} {own.get(name, 'missing')}" for name in sorted(differing))
            there = ", ".join(
                f"{name} {expected.versions.get(name, 'missing')}" for name in sorted(differing)
            )
            raise ModelError(
                f"a worker has {here} and the machine of the command {there}, which may give other "
                "answers; install the same versions on all machines"
            )
        _confine(self._needs)
        copy: Spreadable = self._build()
        if (found := copy.fingerprint) != expected.fingerprint:
            raise ModelError(
                f"a worker has {found!r} and the machine of the command {expected.fingerprint!r}; "
                "put the same files on all machines, and set `dtype` and `device` in the model's "
                "YAML where these have other devices"
            )
        self._copy = copy

    def compute(self, part: Part) -> Any:  # noqa: ANN401 - as of Spreadable
        """Compute one part."""
        if self._copy is None:
            raise RuntimeError("bug: a worker computes before it was opened")
        return self._copy.compute(part)


def _confine(needs: Needs) -> None:
    """Compute on what the worker was given alone, as the process of the command would."""
    if not needs.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import torch

    torch.set_num_threads(needs.cpus)


@dataclass(eq=False, slots=True)
class _Seat:
    """One worker, dead or alive: its actor, its room in the cluster, the parts in its hands."""

    actor: Any
    room: Any
    opening: Any
    parts: dict[Any, tuple[int, Part]] = field(default_factory=dict)
    deaths: int = 0

    @property
    def references(self) -> list[Any]:
        """What to wait for."""
        return [self.opening] if self.opening is not None else [*self.parts]

    @property
    def is_placed(self) -> bool:
        """Whether the cluster has room for it."""
        return self.opening is None or bool(self.room.wait(0.01))

    def close(self) -> None:
        """Free its room."""
        from ray.util import remove_placement_group

        ray = opened_ray()
        ray.kill(self.actor)
        remove_placement_group(self.room)


@dataclass(slots=True)
class _Round:
    """The parts of one round: those that wait, those that are done, and how far it is."""

    source: Iterator[tuple[int, Part]]
    waiting: deque[tuple[int, Part]] = field(default_factory=deque)
    done: dict[int, Any] = field(default_factory=dict)
    deaths: Counter[int] = field(default_factory=Counter)
    next: int = 0
    is_read: bool = False

    def take(self, ahead: int) -> tuple[int, Part] | None:
        """The next part to hand out; None where there is none, or it is too far ahead."""
        if self.waiting and self.waiting[0][0] < self.next + ahead:
            return self.waiting.popleft()
        if self.waiting or self.is_read:
            return None
        found = next(self.source, None)
        self.is_read = found is None
        if found is not None and found[0] >= self.next + ahead:
            self.waiting.append(found)
            return None
        return found

    def give_back(self, parts: Iterable[tuple[int, Part]]) -> None:
        """Have parts handed out again, the first ones first."""
        self.waiting = deque(sorted([*self.waiting, *parts], key=lambda part: part[0]))


class Pool:
    """The workers that hold copies of one model or encoder."""

    def __init__(
        self,
        build: "partial[Any]",
        expected: Expected,
        *,
        needs: Needs,
        workers: int,
        make_room: Callable[[], None],
    ) -> None:
        """Keep what workers are built of; `make_room` is called while there is room for none."""
        self._build, self._expected, self._needs = build, expected, needs
        self._workers, self._make_room = workers, make_room
        self._seats: list[_Seat] = []
        self._looks = 0  # in a row, without room for any worker
        self.is_busy = False

    @property
    def is_open(self) -> bool:
        """Whether it takes room in the cluster."""
        return bool(self._seats)

    def run(self, parts: Iterable[Part]) -> Iterator[Any]:
        """The result of each part, in their order; ModelError where all workers died."""
        this, self.is_busy = _Round(enumerate(parts)), True
        try:
            self._open(this)
            while True:
                self._hand_out(this)
                while this.next in this.done:
                    result = this.done.pop(this.next)
                    this.next += 1
                    self._hand_out(this)
                    yield result
                if this.is_read and not (this.waiting or any(s.parts for s in self._seats)):
                    return
                self._wait(this)
        finally:
            self.is_busy = False
            if any(seat.parts for seat in self._seats):  # broken off: nobody waits for these
                self.close()

    def close(self) -> None:
        """Stop the workers; another round would start others."""
        while self._seats:
            self._seats.pop().close()

    def _open(self, this: _Round) -> None:
        """Start as many workers as there are parts for."""
        first = [*islice(this.source, self._workers)]
        this.give_back(first)
        this.is_read = len(first) < self._workers
        while len(self._seats) < len(first):
            self._seats.append(self._seat())

    def _hand_out(self, this: _Round) -> None:
        """Give each worker what it may have at hand, those with the least first."""
        ready = [seat for seat in self._seats if seat.opening is None]
        for wanted in range(AT_HAND):
            for seat in ready:
                if len(seat.parts) > wanted:
                    continue
                if (part := this.take(AHEAD * len(self._seats))) is None:
                    return
                seat.parts[seat.actor.compute.remote(part[1])] = part

    def _wait(self, this: _Round) -> None:
        ray = opened_ray()
        seats = {reference: seat for seat in self._seats for reference in seat.references}
        done, _ = ray.wait([*seats], num_returns=1, timeout=PATIENCE_S)
        if done or any(seat.is_placed for seat in self._seats):
            self._looks = 0
        else:
            self._looks += 1
            self._make_room()
            if self._looks == TOLD_AFTER:
                self._tell_wait()
        for reference in done:
            if (seat := seats[reference]) in self._seats and reference in seat.references:
                self._receive(seat, reference, this)

    def _tell_wait(self) -> None:
        free = opened_ray().available_resources()
        _log.warning(
            "the Ray cluster has no room for a worker, which takes %d CPUs and %g GPUs of one "
            "machine; free on all together: %g CPUs and %g GPUs. It is waited for: stop what holds "
            "the others (`ray status` shows it), or add a machine",
            *(self._needs.cpus, self._needs.gpus, free.get("CPU", 0.0), free.get("GPU", 0.0)),
        )

    def _receive(self, seat: _Seat, reference: Any, this: _Round) -> None:  # noqa: ANN401 - Ray's
        from ray.exceptions import RayError, RayTaskError

        ray = opened_ray()
        try:
            result = ray.get(reference)
        except RayTaskError as error:
            if isinstance(error.cause, HarnessError):
                raise error.cause from None
            raise
        except RayError as error:
            self._bury(seat, this, error)
            return
        if reference is seat.opening:
            seat.opening = None
        else:
            place, _ = seat.parts.pop(reference)
            this.done[place] = result
            seat.deaths = 0

    def _bury(self, seat: _Seat, this: _Round, error: Exception) -> None:
        """Give a dead worker's parts to others; start it again, unless it died too often."""
        why = " ".join(str(error).split())[:300]
        held = [*seat.parts.values()]
        this.give_back(held)
        this.deaths.update(place for place, _ in held)
        self._seats.remove(seat)
        seat.close()
        blamed = [place for place, _ in held if this.deaths[place] >= DEATHS]
        if blamed:
            raise ModelError(
                f"{DEATHS} workers died with the same part in hand ({why}); what was answered is "
                "stored: lower batch_tokens in the model's YAML, or give a worker more memory"
            )
        if seat.deaths < RESTARTS:
            _log.warning("a worker died (%s); its work goes to others, and it is started anew", why)
            self._seats.append(self._seat(deaths=seat.deaths + 1))
        elif self._seats:
            _log.warning("a worker died (%s) for good; %d are left", why, len(self._seats))
        else:
            raise ModelError(
                f"all {self._workers} workers died, the last one {RESTARTS + 1} times in a row "
                f"({why}); what was answered is stored: repeat the command to resume"
            )

    def _seat(self, deaths: int = 0) -> _Seat:
        from ray.util import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        ray = opened_ray()
        takes = {"CPU": float(self._needs.cpus), "GPU": self._needs.gpus}
        room = placement_group([{name: count for name, count in takes.items() if count}])
        actor = (
            ray.remote(RayWorker)
            .options(
                num_cpus=self._needs.cpus,
                num_gpus=self._needs.gpus,
                max_restarts=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    room, placement_group_capture_child_tasks=True
                ),
            )
            .remote(self._build, self._needs)
        )
        return _Seat(actor, room, actor.open.remote(self._expected), deaths=deaths)


def copies(nodes: Sequence[Mapping[str, float]], needs: Needs) -> int:
    """How many copies fit on some machines, by what each has of `CPU` and `GPU`."""
    takes = {name: one for name, one in (("CPU", needs.cpus), ("GPU", needs.gpus)) if one}
    return sum(
        min(int(node.get(name, 0.0) / one + 1e-9) for name, one in takes.items()) for node in nodes
    )
