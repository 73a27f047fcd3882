"""Jobs of several rows each to their results, through an engine that works on many rows at once.

Rows are handed over as long as there is room for them, so that the engine never waits for a
window to end, and each job's result comes as soon as its last row is done. Nothing here knows
what a row asks for or what the engine computes.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from harness.core import Response

MOST_ROWS = 4096
"""Rows an engine has at once: more than it computes at a time, few enough to stay flat."""


@dataclass(frozen=True, slots=True)
class Row:
    """Token ids for the engine, and its own object that says what is wanted of them."""

    prompt: tuple[int, ...]
    wanted: Any


@dataclass(frozen=True, slots=True)
class Job:
    """The rows of one request, and what their outputs, in order, come to."""

    rows: Sequence[Row]
    read: Callable[[list[Any]], Response]


class Output(Protocol):
    """What an engine says of a row."""

    request_id: str
    finished: bool


class Engine(Protocol):
    """What works on rows: they are added and dropped by name, and each step moves all on."""

    def add(self, name: str, row: Row) -> None:
        """Take a row on."""

    def step(self) -> Sequence[Output]:
        """Work for a moment; the outputs of rows it has something to say of."""

    def drop(self, names: Sequence[str]) -> None:
        """Forget rows."""


@dataclass(slots=True)
class _Open:
    """A job under way: the outputs so far by place, and where it goes when it has all."""

    job: Job
    finished: deque["_Open"]
    outputs: dict[int, Any] = field(default_factory=dict)

    def take(self, place: int, output: Output) -> None:
        """Keep the output of a row."""
        self.outputs[place] = output
        if len(self.outputs) == len(self.job.rows):
            self.finished.append(self)

    def result(self) -> Response:
        """What the job comes to."""
        return self.job.read([self.outputs[place] for place in range(len(self.job.rows))])


class Line:
    """The rows an engine has, whoever asked for them.

    `open_engine` gives the engine that is to take a row; another one only once all rows are done.
    """

    def __init__(self, open_engine: Callable[[], Engine]) -> None:
        """Start with no rows."""
        self._open_engine = open_engine
        self._engine: Engine | None = None
        self._names = map(str, count())
        self._waiting: dict[str, tuple[_Open, int]] = {}

    def worked(self, jobs: Iterator[Job | Response]) -> Generator[Response, None, None]:
        """Each job's result as it is done; a response among the jobs passes through.

        Closing the generator drops its rows from the engine.
        """
        finished, mine = deque[_Open](), set[str]()
        try:
            while True:
                while finished:
                    yield finished.popleft().result()
                yield from self._filled(jobs, finished, mine)
                mine &= self._waiting.keys()
                if not (mine or finished):
                    return
                self._step()
        finally:
            self._drop(mine & self._waiting.keys())

    def _filled(
        self, jobs: Iterator[Job | Response], finished: deque[_Open], mine: set[str]
    ) -> Iterator[Response]:
        """Take jobs on while there is room; yield what is a response already."""
        while len(self._waiting) < MOST_ROWS and (job := next(jobs, None)) is not None:
            if isinstance(job, Response):
                yield job
                continue
            open_job = _Open(job, finished)
            for place, row in enumerate(job.rows):
                name = next(self._names)
                self._engine = self._open_engine()
                self._engine.add(name, row)
                self._waiting[name] = (open_job, place)
                mine.add(name)

    def _step(self) -> None:
        """Have the engine work, and hand out what it has finished."""
        for output in self._engine.step() if self._engine else ():
            if output.finished and output.request_id in self._waiting:
                open_job, place = self._waiting.pop(output.request_id)
                open_job.take(place, output)

    def _drop(self, names: set[str]) -> None:
        """Forget rows nobody waits for any more."""
        if names and self._engine:
            self._engine.drop(sorted(names))
        for name in names:
            del self._waiting[name]
