"""Rows through an engine that finishes them in an order of its own."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random

from harness.core import Response
from harness.models.local.vllm_engine import MOST_ROWS, EngineRequest, EngineRow, answered


@dataclass
class Adder:
    """An engine that adds up one token of each row at a step; an output is the sum."""

    rows: dict[str, list[int]] = field(default_factory=dict)
    sums: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    most: int = 0
    dropped: list[str] = field(default_factory=list)

    def add(self, row: EngineRow) -> str:
        name = str(len(self.sums))
        self.rows[name], self.sums[name] = [*row[0]], sum(row[0])
        self.most = max(self.most, len(self.rows))
        return name

    def step(self) -> None:
        for name, left in [*self.rows.items()]:
            left.pop()
            if not left:
                del self.rows[name]
                self.done[name] = self.sums[name]

    def drop(self, name: str) -> None:
        self.dropped += [name] if self.done.pop(name, None) is None else []
        self.rows.pop(name, None)


def through(engine: Adder, jobs: Iterable[EngineRequest]) -> Iterator[Response]:
    return answered(iter(jobs), lambda: engine)  # type: ignore[arg-type,return-value]  # as one is stepped


def job(key: str, *prompts: tuple[int, ...]) -> EngineRequest:
    def read(outputs: list[int]) -> Response:
        return Response(key, texts=tuple(map(str, outputs)))

    return EngineRequest([(prompt, None) for prompt in prompts], read)


def texts(responses: Iterator[Response]) -> list[tuple[str, ...] | None]:
    return [response.texts for response in responses]


def test_nothing_waits_for_a_window_to_end() -> None:
    draw = Random(1)
    jobs = [job(str(n), (1,) * draw.randint(1, 4), (1,) * 3) for n in range(3 * MOST_ROWS)]
    engine = Adder()

    done = list(through(engine, jobs))

    assert len({response.key for response in done}) == len(jobs)
    assert MOST_ROWS <= engine.most <= MOST_ROWS + 1


def test_jobs_are_taken_only_as_there_is_room() -> None:
    taken: list[int] = []

    def endless() -> Iterator[EngineRequest]:
        while True:
            taken.append(1)
            yield job(str(len(taken)), (1,))

    next(through(Adder(), endless()))

    assert len(taken) == MOST_ROWS


def test_closing_early_drops_its_rows_and_no_others() -> None:
    engine = Adder()
    kept = through(engine, [job("short", (1,)), job("kept", (1,) * 9)])
    left = through(engine, [job("done", (1,)), job("left", (1,) * 9, (1,) * 9)])
    next(kept)
    next(left)

    left.close()  # type: ignore[attr-defined]  # a generator

    assert engine.dropped == ["3", "4"]
    assert texts(kept) == [("9",)]
