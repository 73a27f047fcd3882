"""--batch through the commands: the same results, paid once, however often it is repeated."""

import json
from collections.abc import Iterator

import pytest
from support.each import rest_slow
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import CLAUDE, DECODINGS, PRICES, SAMPLES, Lines, Toy

from harness.models.client.batches import BatchFiles, BatchRecord
from harness.pipeline.preview import planned_requests
from harness.pipeline.resolve import RunOptions, resolve

ANSWERS = SAMPLES * DECODINGS


@pytest.fixture
def stub(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubServer]:
    toy.write("configs/models/claude.yaml", CLAUDE.replace("CLAUDE_KEY", "null"))
    with StubServer(Script(replies={"Judge": ("1",)})) as server:
        monkeypatch.setenv("HARNESS_SERVER_URL", server.url)
        monkeypatch.setenv("CLAUDE_URL", server.url.removesuffix("/v1"))
        yield server


def sizes(stub: StubServer) -> list[int]:
    """How many requests each batch had."""
    return [len(names) for names in stub.batches.submitted()]


@pytest.mark.parametrize("model", ["alpha", "claude"])
def test_batches_end_in_the_bytes_of_none_and_are_handed_in_once(
    toy: Toy, stub: StubServer, model: str
) -> None:
    toy.run(model=model)
    without = toy.bytes()
    (toy.results / "calls").rename(toy.folder / "calls")
    (toy.results / "runs").rename(toy.folder / "runs")
    asked = stub.stats()["requests"]

    assert toy.run("--batch", model=model) == 0

    assert toy.bytes() == without
    assert stub.stats()["requests"] == asked
    assert sizes(stub) == [2 * ANSWERS, ANSWERS]
    log = list(stub.batches.log)
    assert toy.run("--batch", model=model) == 0
    assert toy.run("--batch", "--offline", model=model) == 0
    assert (toy.bytes(), stub.batches.log) == (without, log)


def test_a_finished_run_in_batches_needs_no_server_to_name_its_model(
    toy: Toy, stub: StubServer, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.edit("configs/models/beta.yaml", "model: beta", "model: auto")
    assert toy.run("--batch", model="beta") == 0
    before = toy.bytes()
    monkeypatch.setenv("HARNESS_SERVER_URL", "http://127.0.0.1:9/v1")

    assert toy.run("--batch", model="beta") == 0
    toy.runs()[0].joinpath("answers.parquet").unlink()
    assert toy.run("--batch", model="beta") == 0

    assert toy.bytes() == before
    (toy.results / "runs").rename(toy.folder / "runs")
    capsys.readouterr()
    assert toy.run("--batch", "--seed", "5", model="beta") == 2
    assert "model beta: no server at http://127.0.0.1:9/v1" in capsys.readouterr().err


def test_a_judge_asks_in_batches_apart_from_the_model_tested(toy: Toy, stub: StubServer) -> None:
    toy.run("--variant", "base", model="alpha")
    assert toy.main("judge", str(toy.runs()[0]), "--judge", "choice", "--batch") == 0

    assert sizes(stub) == [2 * ANSWERS]
    folders = {path.parent.parent.name for path in toy.results.glob("calls/*/batches/*.json")}
    assert folders == {"umpire"}


@pytest.mark.parametrize("model", ["alpha", "claude"])
def test_a_server_that_is_not_there_is_told_of_at_once(
    toy: Toy, stub: StubServer, capsys: Lines, *, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.delenv("HARNESS_SERVER_URL")
    monkeypatch.delenv("CLAUDE_URL")
    assert toy.run("--batch", model=model) == 2

    assert f"harness: model {model}: no server at http://127.0.0.1:9" in capsys.readouterr().err


def test_a_run_that_ends_within_a_batch_goes_on(toy: Toy, stub: StubServer, capsys: Lines) -> None:
    stub.batches.faults = {"GET /v1/batches/batch_1": ["401"]}
    assert toy.run("--variant", "base", "--batch", model="alpha") == 2

    assert toy.run("--variant", "base", "--batch", model="alpha") == 0
    assert sizes(stub) == [ANSWERS]
    assert "batch batch_1 (completed: " in capsys.readouterr().err


def test_a_run_is_told_of_batches_that_wait(toy: Toy, stub: StubServer, capsys: Lines) -> None:
    stub.batches.faults = {"GET /v1/batches/batch_1": ["401"]}
    toy.run("--variant", "base", "--batch", model="beta")
    toy.run("--variant", "base", "--limit", "2", model="beta")

    assert "model beta: 1 batches with 12 requests were handed in" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [(), ("--dry-run",)])
@pytest.mark.parametrize("model", ["oracle", *rest_slow(["tiny-random"], kept=0)])
def test_a_model_that_has_no_batches_is_refused_before_anything_is_asked(
    toy: Toy, stub: StubServer, capsys: Lines, *, model: str, arguments: tuple[str, ...]
) -> None:
    assert toy.run("--batch", "--judge", "choice", *arguments, model=model) == 2

    told = capsys.readouterr().err
    assert f"--batch: model {model} of kind " in told
    assert "then have `harness judge RUN --batch` judge in batches" in told
    assert stub.batches.log == []


def test_a_dry_run_is_the_same_with_and_without(toy: Toy, stub: StubServer, capsys: Lines) -> None:
    told = []
    for batch in ((), ("--batch",)):
        assert toy.run("--dry-run", "--json", *batch, model="alpha") == 0
        told.append(json.loads(capsys.readouterr().out))

    assert told[0] == told[1]
    assert stub.batches.log == []


@pytest.mark.parametrize(("batch", "told"), [((), "paid again; add"), (("--batch",), "collected")])
def test_a_dry_run_tells_of_calls_that_wait_in_a_batch(
    toy: Toy, stub: StubServer, capsys: Lines, *, batch: tuple[str, ...], told: str
) -> None:
    plan = resolve(toy.space({"HARNESS_SERVER_URL": stub.url}), RunOptions("toy", "alpha")).plan
    keys = tuple(planned_requests(plan, cell)[0].key for cell in plan.cells[:5])
    record = BatchRecord("n", "openai", stub.url, 1.0, keys, 5, "id", "submitted")
    BatchFiles(toy.results / "calls/alpha/batches").write(record)

    toy.run("--variant", "base", "--dry-run", *batch, model="alpha")

    out = capsys.readouterr().out
    assert "5 of these calls wait in a batch already sent: they would be" in out
    assert told in out


@pytest.mark.parametrize(("batch", "share"), [((), 1.0), (("--batch",), 0.5)])
def test_batched_calls_cost_less(
    toy: Toy, stub: StubServer, batch: tuple[str, ...], share: float
) -> None:
    toy.write("configs/prices.yaml", PRICES)

    toy.run("--variant", "base", *batch, model="alpha")

    lines = next((toy.results / "calls/alpha").glob("*.jsonl")).read_text().splitlines()
    used = [json.loads(line)["response"]["usage"] for line in lines]
    full = [(u["prompt_tokens"] * 2 + u["completion_tokens"] * 4) / 1e6 for u in used]
    assert [u["cost_usd"] for u in used] == pytest.approx([share * cost for cost in full])


def test_what_expired_is_missing_and_the_next_run_asks_it_alone(toy: Toy, stub: StubServer) -> None:
    stub.batches.end = "expired"
    assert toy.run("--variant", "base", "--batch", model="alpha") == 1
    stub.batches.end = "completed"

    assert toy.run("--variant", "base", "--batch", model="alpha") == 0
    assert sizes(stub) == [ANSWERS, ANSWERS // 2]
