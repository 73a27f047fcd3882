"""A run that is killed at any moment ends, when repeated, as if it had never been."""

import signal
from pathlib import Path
from random import Random
from time import sleep

import pytest
from support.killed_runs import CONCURRENCY, SCRIPT, final_files, start
from support.stub_server import StubServer


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
