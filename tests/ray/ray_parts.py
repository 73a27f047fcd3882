"""What workers compute in tests of the pool itself: no model, and no weights.

Each function without an underscore is what a process does that uses the cluster at an address.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any

from harness.errors import ModelError
from harness.models.ray.executor import RayExecutor
from harness.models.spread import Part, Spreadable, placed


class Doubling(Spreadable):
    """Doubles numbers; the first one takes its time."""

    def __init__(self, pause_s: float = 0.0) -> None:
        self._pause_s = pause_s

    @property
    def fingerprint(self) -> str:
        return "doubling"

    def compute(self, part: Part) -> int:
        time.sleep(self._pause_s if part == 0 else 0.0)
        return 2 * int(part)

    def doubled(self, numbers: Iterable[int]) -> list[int]:
        return list(self._computed(numbers))


class Refusing(Doubling):
    """Fails as a model does whose files a machine lacks."""

    def compute(self, part: Part) -> int:
        raise ModelError("no such checkpoint here")


class Dying(Doubling):
    """Takes its process with it."""

    def compute(self, part: Part) -> int:
        os._exit(1)


class Telling(Doubling):
    """Tells what its process has in the environment."""

    def compute(self, part: Part) -> Any:  # noqa: ANN401 - text, no number
        return os.environ.get("A_KEY")

    def told(self) -> list[Any]:
        return list(self._computed([0]))


def _print(numbers: Iterable[int]) -> None:
    print(*numbers)


def in_order(address: str) -> None:
    """Double forty numbers, of which the first takes its time."""
    _print(placed(RayExecutor(address, 2), partial(Doubling, 0.2)).doubled(range(40)))


def refusing(address: str) -> None:
    """Have a worker refuse."""
    _fail(RayExecutor(address, 2), partial(Refusing))


def dying(address: str) -> None:
    """Have all workers die."""
    _fail(RayExecutor(address, 2), partial(Dying))


def by_turns(address: str) -> None:
    """Use two pools by turns, each as large as there is room."""
    executor = RayExecutor(address)
    one, other = (placed(executor, partial(Doubling, 0.0)) for _ in range(2))
    for doubling in (one, other, one):
        _print(doubling.doubled(range(9)))


def crowded(address: str) -> None:
    """Double numbers where another holds all cores, until a warning comes or a minute is over."""
    executor = RayExecutor(address)
    ray = import_module("ray")  # after the executor, which has Ray be quiet from its first import
    from ray.util import placement_group, remove_placement_group

    ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    room = placement_group([{"CPU": 2}, {"CPU": 2}])
    assert room.wait(60)

    class Freeing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            print(record.getMessage())
            remove_placement_group(room)

    logging.getLogger("harness.models.ray.executor").addHandler(Freeing())
    unwarned = Timer(60, remove_placement_group, [room])
    unwarned.daemon = True
    unwarned.start()
    _print(placed(executor, partial(Doubling, 0.0)).doubled(range(9)))


def with_key(address: str) -> None:
    """Tell whether workers have a variable of this process."""
    os.environ["A_KEY"] = "of the command"
    print(placed(RayExecutor(address, 1), partial(Telling)).told())


class Deadly:
    """Takes the process with it that unpickles it first: a worker, while it starts."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Path]]:
        return _die_once, (self._path,)


def _die_once(path: Path) -> float:
    if not path.exists():
        path.touch()
        os._exit(1)
    return 0.0


def killed_while_starting(address: str) -> None:
    """Have a worker die before it has its model."""
    with TemporaryDirectory() as folder:
        build = partial(Doubling, Deadly(Path(folder) / "died"))  # type: ignore[arg-type]
        executor, doubling = RayExecutor(address, 1), Doubling()
        executor.place(doubling, build)
        _print(doubling.doubled(range(9)))


def listening(address: str) -> None:
    """Print on which addresses the cluster listens that the command starts."""
    placed(RayExecutor(address), partial(Doubling, 0.0)).doubled(range(2))
    ray = import_module("ray")
    print(*(node["NodeManagerAddress"] for node in ray.nodes()))


def _fail(executor: RayExecutor, build: "partial[Any]") -> None:
    try:
        placed(executor, build).doubled([1, 2, 3])
    except ModelError as error:
        print(f"{type(error).__name__}: {error}")
