"""The main job against a real server: vLLM on the CPU, serving the tiny random checkpoint."""

import csv
from pathlib import Path

import pytest
from support.toy import Toy

from harness.cli import main

pytest_plugins = ["vllm_fixtures"]
pytestmark = pytest.mark.vllm


@pytest.fixture
def results(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_SERVER_URL", server)
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    return tmp_path / "results"


def run(results: Path, *options: str) -> int:
    task = ("run", "--task", "intent_resolution", "--model", "local-server", "--limit", "8")
    return main([*task, "--results", str(results), *options])


def scores(results: Path) -> list[dict[str, str]]:
    (path,) = results.glob("runs/*/*/*/scores.csv")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def accounted(row: dict[str, str]) -> int:
    return int(row["n"]) + sum(int(row[name]) for name in row if name.startswith("missing_"))


def test_the_main_job_runs_on_a_real_server(results: Path) -> None:
    code = run(results, "--judge", "ngram-cosine")

    headlines = [row for row in scores(results) if row["decoding"] == "T0.3+0.5"]
    assert code in (0, 1)
    assert {accounted(row) for row in headlines if row["group"] == "all"} == {16}
    assert "local-server:openai@tiny-random" in headlines[0]["signature"]


def test_rubbish_replies_of_a_judge_are_counted_as_missing_and_not_as_wrong(results: Path) -> None:
    judge = ("--judge", "gpt4-contextual", "--judge-model", "local-server", "--allow-self-judge")

    code = run(results, "--variant", "base,cot5", *judge)

    rows = [row for row in scores(results) if row["metric"] == "accuracy"]
    lost = sum(int(row["missing_unparsed"]) + int(row["missing_truncated"]) for row in rows)
    assert code == 1
    assert lost > 0
    assert {
        accounted(row) for row in rows if row["decoding"] == "T0.3" and row["group"] == "all"
    } == {8}


@pytest.mark.parametrize(
    "shape",
    [
        "kind: openai\nbase_url: {url}",
        "kind: openai\nbase_url: {url}\napi: responses\nchoices: none",
        "kind: anthropic\nbase_url: {url_of_messages}",
    ],
)
def test_a_task_runs_in_each_shape_and_again_offline(toy: Toy, server: str, shape: str) -> None:
    address = shape.format(url=server, url_of_messages=server.removesuffix("/v1"))
    toy.write("configs/models/shaped.yaml", f"{address}\nmodel: tiny-random\nkey_env: null\n")

    code = toy.run(model="shaped")  # 1 where a random checkpoint drew an empty answer
    before = toy.bytes()
    assert toy.run("--offline", model="shaped") == code

    rows = [row for row in scores(toy.results) if row["group"] == "all"]
    others = [name for name in rows[0] if name.startswith("missing_") and name != "missing_empty"]
    assert toy.bytes() == before
    assert sum(int(row["n"]) for row in rows) > 0
    assert {row[name] for row in rows for name in others} == {"0"}
    assert code == int(any(int(row["missing_empty"]) for row in rows))
