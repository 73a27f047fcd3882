"""Where models and encoders compute whose weights are run here: in the workers of a Ray cluster.

The cluster is joined when the first part is computed, and weights are loaded by workers alone. An
idle worker takes the next part; results come out in the order of the parts. Ray starts a worker
that died again, and has it compute its parts again.
"""

import logging
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, islice
from typing import Any

from harness import __version__
from harness.errors import HarnessError, ModelError
from harness.lazy import torch
from harness.models.extras import require
from harness.models.spread import Executor, Needs, Part, Spreadable

_log = logging.getLogger(__name__)
# Defaults of the environment, read when Ray is imported: no telemetry, no lines of its own.
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "1",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",  # every line: else Ray writes of deaths to stdout
}
# Of a cluster that Ray starts for this command: it listens on loopback alone.
OWN = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
AT_HAND = 2  # parts a worker has: one that it computes, and the next
AHEAD = 4  # parts a worker, on average, that may be handed out beyond the oldest that is not done
DEATHS = 6  # how many workers may die with a part in hand before it is taken for the cause
_REACH_S = 10.0  # how long to wait, in seconds, for a cluster at an address
PATIENCE_S = 1.0  # how long to wait, in seconds, before looking again for room for workers
WARN_AFTER = 5  # so many looks in a row without room for any worker are logged
PACKAGES = ("torch", "transformers", "sentence-transformers", "vllm")


def what_computes(copied: Spreadable) -> dict[str, str]:
    """What must be equal in all workers: the model, and versions that change last digits."""
    found = {"pragmatics-harness": __version__, "the model": copied.fingerprint}
    for package in PACKAGES:
        try:
            # Not the build: one driver without a GPU may have workers with one.
            found[package] = version(package).partition("+")[0]
        except PackageNotFoundError:
            continue
    return found


class RayWorker:
    """A copy of a model or encoder, in a process of its own."""

    def __init__(self, build: "partial[Any]", expected: Mapping[str, str], needs: Needs) -> None:
        """Keep the arguments."""
        self._build, self._expected, self._needs = build, expected, needs
        self._copy: Spreadable | None = None

    def compute(self, part: Part) -> Any:  # noqa: ANN401 - as of Spreadable
        """Compute one part; ModelError unless the copy is the very one that is expected."""
        if self._copy is None:
            # On what the worker was given alone, as the process of the command would.
            if not self._needs.gpus:
                os.environ["CUDA_VISIBLE_DEVICES"] = ""
            torch.set_num_threads(self._needs.cpus)
            copy: Spreadable = self._build()
            own = what_computes(copy)
            for name in sorted(own.keys() | self._expected.keys()):
                here, there = (known.get(name, "missing") for known in (own, self._expected))
                if here != there:
                    raise ModelError(
                        f"a worker has {here!r} for {name} and the machine of the command "
                        f"{there!r}; put the same versions and files on all machines, and set "
                        "`dtype` and `device` in the model's YAML where these have other devices"
                    )
            self._copy = copy
        return self._copy.compute(part)


@dataclass(eq=False, slots=True)
class _Seat:
    """One worker: its actor, its room in the cluster, and how many parts it has at hand."""

    actor: Any
    room: Any
    is_placed: bool = False
    at_hand: int = 0


class RayExecutor(Executor):
    """The workers of one cluster, in a pool for each model and encoder."""

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        """Use the cluster at `address`, else the one that Ray finds or starts.

        Without a number there are as many workers as fit. ModelError where Ray is not installed.
        """
        require("ray", extra="ray", what="--executor ray needs")
        is_elsewhere = (address or os.environ.get("RAY_ADDRESS") or "local") != "local"
        for name, value in (QUIET if is_elsewhere else QUIET | OWN).items():
            os.environ.setdefault(name, value)
        self._address, self._workers = address, workers
        self._pools = list[_Pool]()

    def place(self, built: object, build: "partial[Any]") -> None:
        """Have something that is `Spreadable` compute in workers, from its first part on."""
        if not isinstance(built, Spreadable):
            return
        opened = list[_Pool]()

        def run(parts: Iterable[Part]) -> Iterator[Any]:
            if not opened:
                self._join()
                workers = self._workers or self.fit(built.needs)
                opened.append(_Pool(self, built, build, workers))
                self._pools.append(opened[0])
            return opened[0].run(parts)

        built.send(run)

    def fit(self, needs: Needs) -> int:
        """How many copies the machines of the cluster can hold; ModelError where none can."""
        nodes = [node["Resources"] for node in _ray().nodes() if node["Alive"]]
        if fit := copies(nodes, needs):
            return fit
        have = "; ".join(f"{n.get('CPU', 0):g} CPUs and {n.get('GPU', 0):g} GPUs" for n in nodes)
        raise ModelError(
            f"a copy takes {needs.cpus} CPUs and {needs.gpus:g} GPUs, and the machines of the Ray "
            f"cluster have {have}; set `cpus` and `gpus` in the model's YAML (or "
            "OMP_NUM_THREADS for the threads of an encoder)"
        )

    def make_room(self, needs: Needs) -> None:
        """Stop the pool that has idled longest; ModelError where that could never help."""
        self.fit(needs)
        idle = next((pool for pool in self._pools if pool.seats and not pool.is_busy), None)
        if idle is not None:
            idle.close()

    def _join(self) -> None:
        if _ray().is_initialized():
            return
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        where = self._address or os.environ.get("RAY_ADDRESS")
        try:
            if where and where[-1].isdigit():  # Ray itself would wait for a minute
                host, _, port = where.rpartition("://")[2].rpartition(":")
                socket.create_connection((host, int(port)), timeout=_REACH_S).close()
            _ray().init(self._address, include_dashboard=False, **quiet)
        except Exception as error:  # which Ray raises as it is where a node does not start in time
            where = where or "this machine"
            fact = " ".join(str(error).split())[:200]
            raise ModelError(
                f"no Ray cluster answers at {where} ({fact}); start one with `ray start --head`, "
                "or correct --ray-address"
            ) from error


class _Pool:
    """The workers that hold copies of one model or encoder."""

    def __init__(
        self, executor: RayExecutor, copied: Spreadable, build: "partial[Any]", workers: int
    ) -> None:
        self._executor, self._needs, self._workers = executor, copied.needs, workers
        self._given = build, what_computes(copied), copied.needs
        self._looks = 0  # in a row, without room for any worker
        self.seats, self.is_busy = list[_Seat](), False

    def run(self, parts: Iterable[Part]) -> Iterator[Any]:
        """The result of each part, in their order; ModelError if a part kills its workers."""
        numbered = enumerate(parts)
        first = [*islice(numbered, self._workers)]
        while len(self.seats) < len(first):
            self.seats.append(self._seat())
        source, is_read, handed, following = chain(first, numbered), False, 0, 0
        computing, done = dict[Any, tuple[int, _Seat]](), dict[int, Any]()
        self.is_busy = True
        try:
            while True:
                placed = [seat for seat in self.seats if seat.is_placed]
                room = sum(AT_HAND - seat.at_hand for seat in placed)
                room = max(0, min(room, following + AHEAD * len(self.seats) - handed))
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

        while self.seats:
            seat = self.seats.pop()
            _ray().kill(seat.actor)
            remove_placement_group(seat.room)

    def _receive(self, computing: dict[Any, tuple[int, _Seat]], done: dict[int, Any]) -> None:
        """Wait for a result, or for room for a worker."""
        from ray.exceptions import RayError, RayTaskError

        wait = partial(_ray().wait, num_returns=1, timeout=PATIENCE_S)
        ready = wait([*computing])[0] if computing else []
        self._look(0.01 if computing else PATIENCE_S)
        for reference in ready:
            place, seat = computing[reference]
            try:
                done[place] = _ray().get(reference)
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
        unplaced = next((seat for seat in self.seats if not seat.is_placed), None)
        if unplaced is not None:
            unplaced.is_placed = bool(unplaced.room.wait(wait_s))
        if any(seat.is_placed for seat in self.seats):
            self._looks = 0
            return
        self._looks += 1
        self._executor.make_room(self._needs)
        if self._looks == WARN_AFTER:
            free = _ray().available_resources()
            _log.warning(
                "the Ray cluster has no room for a worker, which takes %d CPUs and %g GPUs of one "
                "machine (free: %g and %g); stop what holds the others (`ray status`), or wait",
                *(self._needs.cpus, self._needs.gpus, free.get("CPU", 0.0), free.get("GPU", 0.0)),
            )

    def _seat(self) -> _Seat:
        from ray.util import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        takes = {"CPU": float(self._needs.cpus), "GPU": self._needs.gpus}
        room = placement_group([{name: count for name, count in takes.items() if count}])
        strategy = PlacementGroupSchedulingStrategy(room, placement_group_capture_child_tasks=True)
        worker = (
            _ray()
            .remote(RayWorker)
            .options(
                num_cpus=self._needs.cpus,
                num_gpus=self._needs.gpus,
                max_restarts=-1,
                max_task_retries=DEATHS - 1,
                scheduling_strategy=strategy,
            )
        )
        return _Seat(worker.remote(*self._given), room)


def copies(nodes: Sequence[Mapping[str, float]], needs: Needs) -> int:
    """How many copies fit on some machines, by what each has of `CPU` and `GPU`."""
    takes = {name: one for name, one in (("CPU", needs.cpus), ("GPU", needs.gpus)) if one}
    return sum(
        min(int(node.get(name, 0.0) / one + 1e-9) for name, one in takes.items()) for node in nodes
    )


def _ray() -> Any:  # noqa: ANN401 - a package without types
    return import_module("ray")
