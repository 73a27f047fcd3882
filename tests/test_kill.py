"""A run that is killed at any moment ends, when repeated, as if it had never been."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from time import sleep

import pytest
from stub_script import Script
from stub_server import StubServer

CONCURRENCY = 64  # of kind openai
SCRIPT = Script(delay_s=0.01, replies={"Option 2": ("1", "2", "neither")})
RUN = (
    *(sys.executable, "-m", "harness", "run", "--task", "intent_resolution", "--limit", "36"),
    *("--model", "local-server", "--judge", "gpt4-contextual"),
    *("--judge-model", "local-server", "--allow-self-judge"),
)


def start(stub: StubServer, results: Path) -> subprocess.Popen[bytes]:
    environ = {k: v for k, v in os.environ.items() if k != "HARNESS_DATA"}
    return subprocess.Popen(
        [*RUN, "--results", str(results)],
        env=environ | {"HARNESS_SERVER_URL": stub.url},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def final_files(results: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(results)): path.read_bytes()
        for path in results.glob("runs/**/*")
        if path.is_file()
    }


@pytest.mark.slow
def test_a_killed_run_repeated_ends_in_the_same_bytes_and_pays_for_what_was_in_flight(
    tmp_path: Path,
) -> None:
    moments = Random("twenty moments")
    with StubServer(SCRIPT) as stub:
        assert start(stub, tmp_path / "whole").wait() == 1  # "neither" is not readable
        planned = stub.stats()["answered"]
    killed_in_the_middle = 0

    for turn in range(20):
        results = tmp_path / str(turn)
        with StubServer(SCRIPT) as stub:
            first = start(stub, results)
            target = moments.uniform(0, planned)
            while first.poll() is None and stub.stats()["answered"] < target:
                sleep(0.005)
            first.send_signal(signal.SIGKILL)
            first.wait()
            killed_in_the_middle += not final_files(results)
            assert start(stub, results).wait() == 1
            answered = stub.stats()["answered"]

        assert final_files(results) == final_files(tmp_path / "whole")
        assert 0 <= answered - planned <= CONCURRENCY
    assert (planned > 2000, killed_in_the_middle >= 16) == (True, True)
