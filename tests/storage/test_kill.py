"""A run that is killed at any moment ends, when repeated, as if it had never been."""

import signal
from pathlib import Path
from random import Random
from time import sleep

import pytest
from support.killed_runs import (
    CONCURRENCY,
    PLAN_USD,
    SCRIPT,
    final_files,
    start,
    start_plan,
    stored_cost,
)
from support.stub_server import StubServer
from support.toy import Toy


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


@pytest.mark.slow
def test_a_killed_plan_repeated_ends_in_the_same_bytes_and_within_its_budget(toy: Toy) -> None:
    moments = Random("eight moments")
    with StubServer(SCRIPT) as stub:
        assert start_plan(stub, toy, "whole").wait() in (0, 1)
        planned, whole = stub.stats()["answered"], final_files(toy.folder / "whole")
    assert sum(name.endswith("run.json") for name in whole) == 12

    for turn in range(8):
        with StubServer(SCRIPT) as stub:
            first = start_plan(stub, toy, str(turn))
            target = moments.uniform(0, planned)
            while first.poll() is None and stub.stats()["answered"] < target:
                sleep(0.002)
            first.send_signal(signal.SIGKILL)
            first.wait()
            assert start_plan(stub, toy, str(turn)).wait() in (0, 1)
            answered = stub.stats()["answered"]

        assert final_files(toy.folder / str(turn)) == whole
        assert 0 <= answered - planned <= CONCURRENCY
        assert 0 < stored_cost(toy.folder / str(turn)) <= PLAN_USD
