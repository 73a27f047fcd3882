"""Parts to results through copies of a model in the workers of a Ray cluster.

An idle worker takes the next part; results come out in the order of the parts. Ray starts a worker
that died again, and has it compute its parts again. Nothing here knows what a part is.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, islice
from typing import Any

from harness import __version__
from harness.errors import HarnessError, ModelError
from harness.lazy import torch
from harness.models.spread import Needs, Part, Spreadable

_log = logging.getLogger(__name__)
AT_HAND = 2
"""Parts a worker has: one that it computes, and the next."""
AHEAD = 4
"""Parts a worker, on average, that may be handed out beyond the oldest that is not done."""
DEATHS = 6
"""How many workers may die with a part in hand before it is taken for the cause."""
PATIENCE_S = 1.0
"""How long to wait, in seconds, before looking again for room for workers."""
WARN_AFTER = 5
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

    def __init__(self, build: "partial[Any]", expected: Expected, needs: Needs) -> None:
        """Keep what to build; nothing is opened yet."""
        self._build, self._expected, self._needs = build, expected, needs
        self._copy: Spreadable | None = None

    def compute(self, part: Part) -> Any:  # noqa: ANN401 - as of Spreadable
        """Compute one part; ModelError unless the copy is the very one that is expected."""
        if self._copy is None:
            self._copy = self._opened()
        return self._copy.compute(part)

    def _opened(self) -> Spreadable:
        expected = self._expected
        if (own := versions()) != expected.versions:
            differing = sorted(dict(set(own.items()) ^ set(expected.versions.items())))
            here, there = (
                ", ".join(f"{name} {known.get(name, 'missing')}" for name in differing)
                for known in (own, expected.versions)
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
        return copy


def _confine(needs: Needs) -> None:
    """Compute on what the worker was given alone, as the process of the command would."""
    if not needs.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""

    torch.set_num_threads(needs.cpus)


@dataclass(eq=False, slots=True)
class _Seat:
    """One worker: its actor, its room in the cluster, and how many parts it has at hand."""

    actor: Any
    room: Any
    is_placed: bool = False
    at_hand: int = 0


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
        """The result of each part, in their order; ModelError if a part kills its workers."""
        numbered = enumerate(parts)
        first = [*islice(numbered, self._workers)]
        while len(self._seats) < len(first):
            self._seats.append(self._seat())
        source, is_read, handed, following = chain(first, numbered), False, 0, 0
        computing, done = dict[Any, tuple[int, _Seat]](), dict[int, Any]()
        self.is_busy = True
        try:
            while True:
                placed = [seat for seat in self._seats if seat.is_placed]
                room = sum(AT_HAND - seat.at_hand for seat in placed)
                room = max(0, min(room, following + AHEAD * len(self._seats) - handed))
                before = handed
                for place, part in islice(source, room):
                    seat = min(placed, key=lambda seat: seat.at_hand)
                    computing[seat.actor.compute.remote(part)] = place, seat
                    seat.at_hand, handed = seat.at_hand + 1, handed + 1
                is_read = is_read or handed - before < room
                if following in done:
                    yield done.pop(following)
                    following += 1
                    continue
                if is_read and not computing:
                    return
                self._receive(computing, done)
        finally:
            self.is_busy = False
            if computing:  # broken off: nobody waits for these
                self.close()

    def close(self) -> None:
        """Stop the workers; another round would start others."""
        from ray.util import remove_placement_group

        while self._seats:
            seat = self._seats.pop()
            opened_ray().kill(seat.actor)
            remove_placement_group(seat.room)

    def _receive(self, computing: dict[Any, tuple[int, _Seat]], done: dict[int, Any]) -> None:
        """Wait for a result, or for room for a worker."""
        from ray.exceptions import RayError, RayTaskError

        ray = opened_ray()
        ready = ray.wait([*computing], num_returns=1, timeout=PATIENCE_S)[0] if computing else []
        self._look(0.01 if computing else PATIENCE_S)
        for reference in ready:
            place, seat = computing[reference]
            try:
                done[place] = ray.get(reference)
            except RayTaskError as error:
                if isinstance(error.cause, HarnessError):
                    raise error.cause from None
                raise
            except RayError as error:
                why = " ".join(str(error).split())[:300]
                raise ModelError(
                    f"{DEATHS} workers died with the same part in hand ({why}); what was answered "
                    "is stored: lower batch_tokens in the model's YAML, or give a worker more "
                    "memory"
                ) from None
            del computing[reference]
            seat.at_hand -= 1

    def _look(self, wait_s: float) -> None:
        """Look for room for the next worker that has none; log where none has had any for long."""
        unplaced = next((seat for seat in self._seats if not seat.is_placed), None)
        if unplaced is not None:
            unplaced.is_placed = bool(unplaced.room.wait(wait_s))
        if any(seat.is_placed for seat in self._seats):
            self._looks = 0
            return
        self._looks += 1
        self._make_room()
        if self._looks == WARN_AFTER:
            free = opened_ray().available_resources()
            _log.warning(
                "the Ray cluster has no room for a worker, which takes %d CPUs and %g GPUs of one "
                "machine; free on all together: %g CPUs and %g GPUs. It is waited for: stop what "
                "holds the others (`ray status` shows it), or add a machine",
                *(self._needs.cpus, self._needs.gpus, free.get("CPU", 0.0), free.get("GPU", 0.0)),
            )

    def _seat(self) -> _Seat:
        from ray.util import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        takes = {"CPU": float(self._needs.cpus), "GPU": self._needs.gpus}
        room = placement_group([{name: count for name, count in takes.items() if count}])
        strategy = PlacementGroupSchedulingStrategy(room, placement_group_capture_child_tasks=True)
        worker = opened_ray().remote(RayWorker)
        options = {
            "num_cpus": self._needs.cpus,
            "num_gpus": self._needs.gpus,
            "max_restarts": -1,
            "max_task_retries": DEATHS - 1,
            "scheduling_strategy": strategy,
        }
        actor = worker.options(**options).remote(self._build, self._expected, self._needs)
        return _Seat(actor, room)


def copies(nodes: Sequence[Mapping[str, float]], needs: Needs) -> int:
    """How many copies fit on some machines, by what each has of `CPU` and `GPU`."""
    takes = {name: one for name, one in (("CPU", needs.cpus), ("GPU", needs.gpus)) if one}
    return sum(
        min(int(node.get(name, 0.0) / one + 1e-9) for name, one in takes.items()) for node in nodes
    )
