"""Models and encoders that compute in parts, in this process or, by an `Executor`, in others.

A part is computed by itself: a result does not depend on where, nor on how many workers there are.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from harness.lazy import torch
from harness.models.custom import Resolvable

# What one call of `Spreadable.compute` gets: texts, token ids, rows, whatever it composes.
Part = Any
# Computes parts elsewhere: one result a part, in the order of the parts.
Elsewhere = Callable[[Iterable[Part]], Iterator[Any]]
Built = TypeVar("Built")


@dataclass(frozen=True, slots=True)
class Needs:
    """What one copy takes of a machine: cores, with a thread on each, and GPUs."""

    cpus: int = 1
    gpus: float = 0.0

    @classmethod
    def on(cls, device: str, *, cpus: int | None = None, gpus: float | None = None) -> "Needs":
        """What a copy takes on a torch device, where its YAML does not say it.

        The number of threads changes the last digits of what a processor computes.
        """
        on_gpu = device.startswith("cuda")
        threads = 1 if on_gpu else torch.get_num_threads()
        return cls(cpus or threads, float(on_gpu) if gpus is None else gpus)


class Spreadable(ABC):
    """What computes parts that do not depend on each other: one result each."""

    elsewhere: Elsewhere | None = None

    @abstractmethod
    def compute(self, part: Part) -> Any:  # noqa: ANN401 - each subclass has its own
        """Compute one part, in this process."""

    @property
    def fingerprint(self) -> str:
        """What must be equal in all processes that compute for each other."""
        if isinstance(self, Resolvable):
            self.resolve()
            return self.identity
        return str(getattr(self, "digest", type(self).__name__))

    @property
    def needs(self) -> Needs:
        """What a copy takes of a machine."""
        return Needs.on("cuda" if torch.cuda.is_available() else "cpu")

    def send(self, elsewhere: Elsewhere) -> None:
        """Have all parts computed elsewhere from now on."""
        object.__setattr__(self, "elsewhere", elsewhere)  # encoders are frozen

    def _computed(self, parts: Iterable[Part]) -> Iterator[Any]:
        """The result of each part, in their order; parts are composed as they are needed."""
        return map(self.compute, parts) if self.elsewhere is None else self.elsewhere(parts)


class Executor:
    """Says where models and encoders compute whose weights are run here: in this process."""

    def place(self, built: object, build: "partial[Any]") -> None:
        """Have something `Spreadable` compute where this executor has it, in copies by `build`."""


HERE = Executor()


def placed(executor: Executor, build: "partial[Built]") -> Built:
    """Build something that computes where an executor has it."""
    built = build()
    executor.place(built, build)
    return built
