"""Where models and encoders compute whose weights are run here: in the workers of a Ray cluster.

The cluster is joined when the first part is computed: what is stored already needs none. Weights
are loaded by workers alone; the process of the command reads texts, composes parts and stores.
"""

import logging
import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from harness.errors import ModelError
from harness.models.extras import require
from harness.models.ray.pool import Expected, Pool, copies, opened_ray, versions
from harness.models.spread import Needs, Part, Spreadable

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "1",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",  # every line: else Ray writes of deaths to stdout
}
"""Defaults of the environment, read when Ray is imported: no telemetry, no lines of its own."""


class RayExecutor:
    """The workers of one cluster, in a pool for each model and encoder."""

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        """Use the cluster at `address`, with so many workers a model at most.

        Without an address it is the one that Ray finds: that of RAY_ADDRESS, else one that was
        started on this machine, else a new one for this process. Without a number there are as
        many workers as fit. Raises ModelError where Ray is not installed.
        """
        require("ray", extra="ray", what="--executor ray needs")
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        self._address, self._workers = address, workers
        self._pools: list[Pool] = []

    def place(self, built: object, build: "partial[Any]") -> None:
        """Have something that is `Spreadable` compute in workers, from its first part on."""
        if not isinstance(built, Spreadable):
            return
        opened = list[Pool]()

        def run(parts: Iterable[Part]) -> Iterator[Any]:
            if not opened:
                opened.append(self.open(built, build))
            return opened[0].run(parts)

        built.send(run)

    def open(self, copied: Spreadable, build: "partial[Any]") -> Pool:
        """Open a pool of copies; ModelError where no machine of the cluster has room for one."""
        self._join()
        needs = copied.needs
        fit = self._fit(needs)
        expected = Expected(copied.fingerprint, versions())
        pool = Pool(
            *(build, expected),
            needs=needs,
            workers=self._workers or fit,
            make_room=partial(self._make_room, needs),
        )
        self._pools.append(pool)
        return pool

    def _fit(self, needs: Needs) -> int:
        ray = opened_ray()

        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if fit := copies(nodes, needs):
            return fit
        have = "; ".join(f"{n.get('CPU', 0):g} CPUs and {n.get('GPU', 0):g} GPUs" for n in nodes)
        raise ModelError(
            f"a copy takes {needs.cpus} CPUs and {needs.gpus:g} GPUs, and the machines of the Ray "
            f"cluster have {have}; set `replica` in the model's YAML (or OMP_NUM_THREADS for the "
            "threads of an encoder)"
        )

    def _make_room(self, needs: Needs) -> None:
        """Stop the pool that has idled longest; ModelError where that could never help."""
        self._fit(needs)
        idle = next((pool for pool in self._pools if pool.is_open and not pool.is_busy), None)
        if idle is not None:
            idle.close()

    def _join(self) -> None:
        ray = opened_ray()

        if ray.is_initialized():
            return
        try:
            ray.init(
                self._address,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except Exception as error:  # which Ray raises as it is where a node does not start in time
            where = self._address or os.environ.get("RAY_ADDRESS") or "this machine"
            fact = " ".join(str(error).split())[:200]
            raise ModelError(
                f"no Ray cluster answers at {where} ({fact}); start one with `ray start --head`, "
                "or correct --ray-address"
            ) from error
