"""Rows through an engine that finishes them in an order of its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from harness.core import Response
from harness.models.local.vllm_engine import MOST_ROWS, EngineRequest, EngineRow, RequestQueue


@dataclass
class Said:
    """The output of a row: the sum of its tokens, once it is finished."""

    request_id: str
    finished: bool
    total: int = 0


@dataclass
class Adder:
    """An engine that adds up one token of each row at a step."""

    rows: dict[str, list[int]] = field(default_factory=dict)
    prompts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    most: int = 0
    dropped: list[str] = field(default_factory=list)

    def add(self, name: str, row: EngineRow) -> None:
        self.rows[name], self.prompts[name] = list(row[0]), row[0]
        self.most = max(self.most, len(self.rows))

    def step(self) -> list[Said]:
        for left in self.rows.values():
            left.pop()
        done = [name for name, left in self.rows.items() if not left]
        for name in done:
            del self.rows[name]
        said = [Said(name, True, sum(self.prompts[name])) for name in done]
        return said + [Said(name, False) for name in self.rows]

    def drop(self, names: Sequence[str]) -> None:
        self.dropped += names
        for name in names:
            del self.rows[name]


def line(engine: Adder | None = None) -> RequestQueue:
    one = engine or Adder()
    return RequestQueue(lambda: one)  # type: ignore[arg-type,return-value]  # as one is stepped


def job(key: str, *prompts: tuple[int, ...]) -> EngineRequest:
    def read(outputs: list[Said]) -> Response:
        return Response(key, texts=tuple(str(output.total) for output in outputs))

    return EngineRequest([(prompt, None) for prompt in prompts], read)


def texts(responses: Iterator[Response]) -> list[tuple[str, ...] | None]:
    return [response.texts for response in responses]


def test_nothing_waits_for_a_window_to_end() -> None:
    draw = Random(1)
    jobs = [job(str(n), (1,) * draw.randint(1, 4), (1,) * 3) for n in range(3 * MOST_ROWS)]
    engine = Adder()

    done = list(line(engine).answer(iter(jobs)))

    assert len({response.key for response in done}) == len(jobs)
    assert MOST_ROWS <= engine.most <= MOST_ROWS + 1


def test_jobs_are_taken_only_as_there_is_room() -> None:
    taken: list[int] = []

    def endless() -> Iterator[EngineRequest]:
        while True:
            taken.append(1)
            yield job(str(len(taken)), (1,))

    next(line().answer(endless()))

    assert len(taken) == MOST_ROWS


def test_closing_early_drops_its_rows_and_no_others() -> None:
    engine = Adder()
    both = line(engine)
    kept = both.answer(iter([job("short", (1,)), job("kept", (1,) * 9)]))
    left = both.answer(iter([job("done", (1,)), job("left", (1,) * 9, (1,) * 9)]))
    next(kept)
    next(left)

    left.close()

    assert engine.dropped == ["3", "4"]
    assert texts(kept) == [("9",)]
