"""Vectors of a server that have no direction, and of one whose model was exchanged."""

from collections.abc import Callable
from itertools import count

import pytest
from support.each import each
from support.hostile import VECTOR, Heard, Listener, right
from support.stub_script import Reply, as_json
from support.toy import Toy, build

from harness.parts import vector_fault

USELESS = [
    *([1e200] * 8, [5e-324] * 8, [0.0, -0.0], [], [1e-170, 1e-170], [1e308] * 3, [0.1] * 100_001)
]
JUDGE = """
    about: In the space of a server.
    kind: cosine
    encoder: {kind: hosted, model: space}
    options: {accept: right, reject: wrong}
"""


@each("vector", [*USELESS, [float("nan"), 1.0], [float("inf")], [-float("inf"), 1.0]])
def test_a_vector_without_a_direction_is_found_out(vector: list[float]) -> None:
    assert vector_fault(vector) is not None


def served(vector: Callable[[], list[float]]) -> Callable[[Heard], Reply]:
    def reply(heard: Heard) -> Reply:
        if not heard.path.endswith("/embeddings"):
            return right(heard)
        return as_json(200, VECTOR | {"data": [{"embedding": vector()}]})

    return reply


def spaced(toy: Toy) -> None:
    toy.write("configs/judges/space.yaml", JUDGE)
    toy.write("configs/models/space.yaml", "kind: openai\nmodel: m\nbase_url: http://h/v1\n"
              "base_url_env: HARNESS_SERVER_URL\nkey_env: null\nattempts: 1\n")  # fmt: skip


def judged(toy: Toy, vector: Callable[[], list[float]]) -> int:
    with Listener(served(vector)) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_SERVER_URL", server.url)
        patch.delenv("HARNESS_DATA", raising=False)
        return toy.run("--variant", "base", "--judge", "space", "--limit", "2")


def value(toy: Toy) -> str:
    lines = (toy.runs()[0] / "scores.csv").read_text("utf-8").split("\n")
    return dict(zip(lines[0].split(","), lines[1].split(","), strict=False))["value"]


@pytest.mark.parametrize("vector", [[1e200] * 8, [5e-324] * 8])
def test_a_server_of_useless_vectors_gives_no_accuracy(toy: Toy, vector: list[float]) -> None:
    spaced(toy)
    assert judged(toy, lambda: vector) == 1
    assert value(toy) == ""


@each("first", [1, 2, 3])
def test_a_server_whose_model_was_exchanged_ends_in_one_message(
    capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory, first: int
) -> None:
    toy = build(tmp_path_factory.mktemp("exchanged"))
    spaced(toy)
    numbers = count()

    code = judged(toy, lambda: [1.0, 2.0] if next(numbers) < first else [1.0, 2.0, 3.0])

    err = capsys.readouterr().err
    assert (code, "Traceback" in err) == (2, False)
    assert "vectors of 2 and of 3 numbers" in err
    assert "another name" in err
