"""The main job against a real server: vLLM on the CPU, serving the tiny random checkpoint.

Runs in the environment that tests/vllm/install.sh builds: `python -m pytest -m vllm tests/vllm`.
"""

import csv
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli import main

pytestmark = pytest.mark.vllm
START_S = 300


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/models", timeout=2) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from harness.tiny_llama import build_tiny_llama

    folder, port = build_tiny_llama(tmp_path_factory.mktemp("checkpoints")), free_port()
    url = f"http://127.0.0.1:{port}/v1"
    log = tmp_path_factory.mktemp("log") / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
                *("--model", str(folder), "--served-model-name", "tiny-random"),
                *("--dtype", "float32", "--enforce-eager", "--port", str(port)),
            ],
            env=os.environ | {"VLLM_CPU_KVCACHE_SPACE": "1"},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    until = time.monotonic() + START_S
    while not is_up(url):
        if process.poll() is not None or time.monotonic() > until:
            pytest.fail(f"vLLM did not start: {log.read_text()[-3000:]}")
        time.sleep(1)
    yield url
    process.terminate()
    process.wait(60)


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


def test_the_second_run_asks_the_server_nothing(results: Path) -> None:
    first = run(results, "--variant", "base", "--judge", "ngram-cosine")
    before = {p: p.read_bytes() for p in results.rglob("*") if p.is_file()}

    assert run(results, "--variant", "base", "--judge", "ngram-cosine", "--offline") == first
    assert {p: p.read_bytes() for p in results.rglob("*") if p.is_file()} == before


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
