"""Judges by vectors through the whole command: a hosted encoder, and pairs of answers."""

import json

import pytest
from support import stored_tables
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import BY_VECTORS, PRICES, SAMPLES, Lines, Toy, lines

from harness.pipeline.score import all_scores
from harness.storage.runs import RunFolder

PAIRS = """
    about: By pairs.
    kind: contrast
    encoder: {kind: char-ngrams}
    reference: right
"""


@pytest.fixture
def far(toy: Toy) -> Toy:
    toy.write("configs/judges/far.yaml", BY_VECTORS)
    return toy


def values(toy: Toy, judge: str, metric: str = "accuracy") -> set[float | None]:
    rows = all_scores(RunFolder(toy.runs()[0]))
    scores = [row.score for row in rows if (row.score.judge, row.score.metric) == (judge, metric)]
    return {score.value for score in scores if score.group == "all"}


@pytest.mark.parametrize(("model", "value"), [("oracle", 1.0), ("literal", 0.0)])
def test_a_hosted_encoder_tells_the_controls_apart_and_costs_its_texts(
    far: Toy, stub: StubServer, model: str, value: float
) -> None:
    far.write("configs/prices.yaml", PRICES)
    assert far.run("--judge", "far", model=model) == 0

    assert values(far, "far") == {value}
    # The answers of a control are its references: two texts a sample in all.
    assert stub.stats()["requests"] == 2 * SAMPLES
    told = json.loads((far.runs()[0] / "run.json").read_text())["costs"]["judges"]["far"]
    assert told["completion_tokens"] == 0  # which no server tells of
    assert told["cost_usd"] == pytest.approx(told["prompt_tokens"] * 10 / 1e6)


def test_vectors_are_asked_once_stay_out_of_the_run_and_are_read_offline_to_the_same_bytes(
    far: Toy, stub: StubServer
) -> None:
    far.run("--judge", "far", model="alpha")
    before, requests = far.bytes(), stub.stats()["requests"]

    assert far.run("--judge", "far", "--offline", model="alpha") == 0
    assert far.main("read", str(far.runs()[0])) == 0

    assert (far.bytes(), stub.stats()["requests"]) == (before, requests)
    replies = [row["replies"] for row in stored_tables.rows(far.runs()[0], "verdicts")]
    assert {text for row in replies for text in row} == {None}


def test_a_text_without_a_vector_is_a_missing_item_and_asked_again(
    far: Toy, stub: StubServer, capsys: Lines
) -> None:
    stub.script = Script(faults={"never 3": ("zero-vector",)})

    assert far.run("--variant", "base", "--judge", "far") == 1
    assert "judge far: 2 verdicts missing, reply failed; run the command" in capsys.readouterr().err
    assert far.run("--variant", "base", "--judge", "far") == 0


def test_a_dry_run_counts_a_text_to_embed_once(far: Toy, stub: StubServer, capsys: Lines) -> None:
    far.run("--variant", "base", "--judge", "far", "--dry-run", "--json")

    told = {part["asker"]: part["calls"] for part in json.loads(capsys.readouterr().out)}
    # Twelve answers, and both references of six samples, shared by two decodings.
    assert told == {"toy": 12, "far": 24}
    assert stub.stats()["requests"] == 0


def test_a_model_that_gives_no_vectors_is_refused_before_the_first_call(
    far: Toy, stub: StubServer, capsys: Lines
) -> None:
    assert far.run("--judge", "far", "--judge-model", "tiny-random", model="alpha") == 2

    told = capsys.readouterr().err
    assert "judge far asks tiny-random to embed, which a model of kind transformers" in told
    assert stub.stats()["requests"] == 0


def test_answers_are_paired_within_a_variant_and_a_decoding(toy: Toy) -> None:
    toy.write("configs/judges/pairs.yaml", PAIRS)
    samples = [json.loads(line) for line in lines()]
    clustered = [{**s, "cluster": f"c{n // 2}"} for n, s in enumerate(samples)]
    toy.write("tasks/samples/toy.jsonl", "\n".join(map(json.dumps, clustered)))

    assert toy.run("--judge", "pairs") == 0

    assert values(toy, "pairs") == {1.0}
    assert values(toy, "pairs", "pairs") == {1.0}
