"""Jobs of several rows each to their results, through an engine that works on many rows at once.

Rows are handed over as long as there is room for them, so that the engine never waits for a
window to end, and each job's result comes as soon as its last row is done. Nothing here knows
what a row asks for or what the engine computes.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import fsum
from typing import Any, Protocol

from harness.core import Response
from harness.models.local.choice_scoring import length_buckets
from harness.models.local.tokenization import ChoiceTokens

MOST_ROWS = 4096
"""Rows an engine has at once: more than it computes at a time, few enough to stay flat."""


@dataclass(frozen=True, slots=True)
class EngineRow:
    """Token ids for the engine, and its own object that says what is wanted of them."""

    prompt: tuple[int, ...]
    wanted: Any


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """The rows of one request, and what their outputs, in order, come to."""

    rows: Sequence[EngineRow]
    read: Callable[[list[Any]], Response]


class Output(Protocol):
    """What an engine says of a row."""

    request_id: str
    finished: bool


class SteppedEngine(Protocol):
    """What works on rows: they are added and dropped by name, and each step moves all on."""

    def add(self, name: str, row: EngineRow) -> None:
        """Take a row on."""

    def step(self) -> Sequence[Output]:
        """Work for a moment; the outputs of rows it has something to say of."""

    def drop(self, names: Sequence[str]) -> None:
        """Forget rows."""


@dataclass(slots=True)
class _Open:
    """A job under way: the outputs so far by place, and where it goes when it has all."""

    job: EngineRequest
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


class RequestQueue:
    """The rows an engine has, whoever asked for them.

    `open_engine` gives the engine that is to take a row; another one only once all rows are done.
    """

    def __init__(self, open_engine: Callable[[], SteppedEngine]) -> None:
        """Start with no rows."""
        self._open_engine = open_engine
        self._engine: SteppedEngine | None = None
        self._names = map(str, count())
        self._waiting: dict[str, tuple[_Open, int]] = {}

    def worked(self, jobs: Iterator[EngineRequest | Response]) -> Generator[Response, None, None]:
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
        self, jobs: Iterator[EngineRequest | Response], finished: deque[_Open], mine: set[str]
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


MOST_NEXTS = 128
"""Next tokens asked about at once: vLLM's limit."""


@dataclass(frozen=True, slots=True)
class ScoringPrompt:
    """One prompt, and the tokens whose log-probability as its next one is wanted.

    `is_scored` says that the log-probabilities of the prompt's own tokens are wanted too.
    """

    prompt: tuple[int, ...]
    nexts: tuple[int, ...]
    is_scored: bool


@dataclass(frozen=True, slots=True)
class PromptLogprobs:
    """What an engine tells of a reading: in nats, of each token given all that precede it.

    `own` has an entry for each token of the prompt but the first where the reading is scored.
    """

    reading: ScoringPrompt
    own: Sequence[float]
    nexts: Mapping[int, float]


def scoring_prompts(tokens: ChoiceTokens, *, is_stepwise: bool = False) -> list[ScoringPrompt]:
    """The distinct prompts of a request's choices; every choice needs a token before it.

    Stepwise no prompt is scored: each token of a choice is the next one of a prompt of its own.
    """
    found: dict[tuple[int, ...], dict[int, bool]] = {}
    for row, first in zip(tokens.rows, tokens.firsts, strict=True):
        last = len(row) - 1
        for at in range(first if is_stepwise else last, last + 1):
            found.setdefault(row[:at], {})[row[at]] = not is_stepwise and first < last
    return [
        ScoringPrompt(prompt, tuple(nexts), any(wanted.values()))
        for prompt, wanted in found.items()
        for nexts in length_buckets(wanted, MOST_NEXTS)
    ]


def total_logprobs(tokens: ChoiceTokens, told: Iterable[PromptLogprobs]) -> list[float]:
    """The log-probability of each choice, from what was told of all readings."""
    known = {(each.reading.prompt, token): each for each in told for token in each.reading.nexts}
    return [
        fsum(_parts(known, row, first))
        for row, first in zip(tokens.rows, tokens.firsts, strict=True)
    ]


def _parts(
    known: Mapping[tuple[tuple[int, ...], int], PromptLogprobs], row: tuple[int, ...], first: int
) -> list[float]:
    """The log-probabilities of a row's tokens from the first scored one on."""
    whole = known[row[:-1], row[-1]]
    if not whole.reading.is_scored:
        return [known[row[:at], row[at]].nexts[row[at]] for at in range(first, len(row))]
    wanted, own = len(row) - 1 - first, whole.own[first - 1 :]
    if len(own) != wanted:
        raise ValueError(f"{wanted} log-probabilities of a prompt are needed, {len(own)} were told")
    return [*own, whole.nexts[row[-1]]]
