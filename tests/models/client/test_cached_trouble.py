"""Under real trouble: faults, kills, power cuts and two processes lose nothing and pay once."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support.killed_runs import RUN, final_files
from support.stub_script import Script
from support.stub_server import StubProcess, StubServer

from harness.core import Request, Response
from harness.models.client.cached import CachedClient
from harness.models.openai.model import OpenAIModel
from harness.parts import Decoding, Message
from harness.specs.models import OpenAISpec
from harness.storage.ledger import Ledger

ASKED, CONCURRENCY, TIMEOUT_S = 5000, 200, 4.0
SHARES = {"429": 0.05, "500": 0.03, "cut": 0.01, "late": 0.01}


def requests(count: int) -> list[Request]:
    return [
        Request(f"s{n}", "base", "answer", "m", (Message("user", f"Words {n}."),), Decoding())
        for n in range(count)
    ]


def answered(stub: StubProcess, folder: Path) -> tuple[dict[str, Response], float]:
    spec = OpenAISpec(
        model="stub-model",
        base_url=stub.url,
        key_env=None,
        concurrency=CONCURRENCY,
        timeout_s=TIMEOUT_S,
        attempts=8,
    )
    start = time.monotonic()
    with CachedClient(OpenAIModel("m", spec, {}), Ledger(folder), lambda *_: None) as desk:
        found = desk.answer(requests(ASKED), stage="answers")
    return found, time.monotonic() - start


def stored_keys(folder: Path) -> list[str]:
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    return [line.split('"', 4)[3] for line in lines]


@pytest.mark.slow
def test_a_bad_network_loses_and_doubles_nothing_and_costs_its_waits_alone(tmp_path: Path) -> None:
    sound = Script(delay_s=0.2, late_s=TIMEOUT_S + 1)
    with StubProcess() as stub:
        stub.configure(sound)
        _, quiet_s = answered(stub, tmp_path / "quiet")
        stub.configure(replace(sound, shares=SHARES, retry_after_s=1.0))
        found, bad_s = answered(stub, tmp_path / "bad")
        told = stub.stats()

    assert set(found) == {request.key for request in requests(ASKED)}
    assert all(response.texts for response in found.values())
    assert sorted(stored_keys(tmp_path / "bad")) == sorted(found)
    assert told["early_retries"] == 0
    # A call that is given up and the one that takes its place may cross on their way.
    assert told["in_flight_max"] <= CONCURRENCY + 5
    waits_s = told["longest_waits_s"]  # of one request: late until it was given up, turned away
    assert waits_s > TIMEOUT_S - 1
    print(f"quiet {quiet_s:.1f} s, bad {bad_s:.1f} s, of which {waits_s:.1f} s the longest waits")
    print(f"without those waits {(bad_s - waits_s) / quiet_s:.2f} times quiet")


@pytest.mark.slow
def test_two_processes_on_one_folder_both_finish_and_tear_nothing(tmp_path: Path) -> None:
    environ = {k: v for k, v in os.environ.items() if k != "HARNESS_DATA"}
    command = [*RUN, "--results", str(tmp_path / "both")]
    with StubServer(Script(delay_s=0.02)) as stub:
        environ |= {"HARNESS_SERVER_URL": stub.url}
        pair = [subprocess.Popen(command, env=environ) for _ in range(2)]
        codes = [process.wait() for process in pair]
        between = stub.stats()["answered"]
        assert subprocess.run(command, env=environ, check=False).returncode == codes[0]
        assert stub.stats()["answered"] == between  # what either has stored, all find
        alone = [*RUN, "--results", str(tmp_path / "alone")]
        subprocess.run(alone, env=environ, check=False)

    both, single = (final_files(tmp_path / name) for name in ("both", "alone"))
    [table] = [name for name in both if name.endswith("scores.csv")]
    told = json.loads(both[table.replace("scores.csv", "run.json")])["costs"]["total"]
    assert codes[0] == codes[1]
    assert both[table] == single[table]
    # Both processes may have paid for one answer: all is stored, and the first stored counts.
    stored = stored_keys(tmp_path / "both/calls/local-server")
    assert len(stored) == between
    assert told["calls"] == len(set(stored))


@pytest.mark.slow
def test_a_power_cut_at_any_byte_of_the_last_record_costs_that_call_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness", "run", "--task", "intent_resolution"]
    command += ["--model", "local-server", "--limit", "1", "--variant", "base"]
    command += ["--judge", "ngram-cosine", "--results", str(tmp_path / "r")]
    environ = {k: v for k, v in os.environ.items() if k != "HARNESS_DATA"}
    with StubServer() as stub:
        environ |= {"HARNESS_SERVER_URL": stub.url}
        subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
        whole = final_files(tmp_path / "r")
        ledger = tmp_path / "r" / "calls" / "local-server"
        [segment] = ledger.glob("*.jsonl")
        *kept, last = segment.read_bytes().splitlines(keepends=True)
        content = segment.read_bytes()
        for lost in range(1, len(last) + 1, 97):
            for path in ledger.glob("*.jsonl"):
                path.unlink()
            segment.write_bytes(content[: len(content) - lost])
            before = stub.stats()["answered"]
            subprocess.run(command, env=environ, check=True, capture_output=True)
            assert stub.stats()["answered"] == before + 1
            assert final_files(tmp_path / "r") == whole
    assert len(kept) == 1
