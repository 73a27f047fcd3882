"""A command that is killed while a provider works on its batch pays once, in whole processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.killed_runs import final_files
from support.stub_server import StubServer

PLANNED = 3 * 2  # samples, temperatures
RUN = (
    *(sys.executable, "-m", "harness", "run", "--task", "intent_resolution", "--limit", "3"),
    *("--model", "local-server", "--variant", "base", "--judge", "ngram-cosine"),
)


def start(stub: StubServer, results: Path, *more: str) -> subprocess.Popen[bytes]:
    environ = {k: v for k, v in os.environ.items() if k != "HARNESS_DATA"}
    return subprocess.Popen(
        [*RUN, "--results", str(results), *more],
        env=environ | {"HARNESS_SERVER_URL": stub.url},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def wait_for(what: str, stub: StubServer) -> None:
    until = time.monotonic() + 60
    while what not in stub.batches.log and time.monotonic() < until:
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["POST /v1/batches", "GET /v1/batches/batch_1"])
@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_command_repeated_collects_what_it_handed_in(
    tmp_path: Path, way: signal.Signals, moment: str
) -> None:
    with StubServer() as stub:
        assert start(stub, tmp_path / "whole").wait() == 0
        stub.batches.polls = 1
        first = start(stub, tmp_path / "killed", "--batch")
        wait_for(moment, stub)
        first.send_signal(way)
        first.wait()

        assert first.returncode == (130 if way == signal.SIGINT else -way)
        assert start(stub, tmp_path / "killed", "--batch").wait() == 0

    assert [len(names) for names in stub.batches.submitted()] == [PLANNED]
    assert final_files(tmp_path / "killed") == final_files(tmp_path / "whole")
