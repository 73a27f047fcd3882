"""A run that is killed at any moment ends, when repeated, as if it had never been."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from subprocess import Popen
from time import sleep

import pytest
from support import killed_runs
from support.killed_runs import CONCURRENCY, PLAN_USD, SCRIPT, begun, final_files, start, start_plan
from support.stub_server import StubServer
from support.toy import Toy

pytestmark = pytest.mark.slow


def killed(process: Popen[bytes], stub: StubServer, calls: float) -> bool:
    """Kill a process after so many calls; whether it was still running."""
    target = stub.stats()["answered"] + calls
    while process.poll() is None and stub.stats()["answered"] < target:
        sleep(0.002)
    process.send_signal(signal.SIGKILL)
    return process.wait() != 0


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
            killed(start(stub, results), stub, moments.uniform(0, planned))
            killed_in_the_middle += not final_files(results)
            assert start(stub, results).wait() == 1
            answered = stub.stats()["answered"]

        assert final_files(results) == final_files(tmp_path / "whole")
        assert 0 <= answered - planned <= CONCURRENCY
    assert (planned > 2000, killed_in_the_middle >= 16) == (True, True)


def test_a_killed_plan_repeated_ends_in_the_same_bytes_and_within_its_budget(toy: Toy) -> None:
    moments = Random("eight moments")
    with StubServer(SCRIPT) as stub:
        assert start_plan(stub, toy, "whole").wait() in (0, 1)
        planned, whole = stub.stats()["answered"], final_files(toy.folder / "whole")
    assert sum(name.endswith("run.json") for name in whole) == 12

    for turn in range(8):
        with StubServer(SCRIPT) as stub:
            killed(start_plan(stub, toy, str(turn)), stub, moments.uniform(0, planned))
            assert start_plan(stub, toy, str(turn)).wait() in (0, 1)
            answered = stub.stats()["answered"]

        assert final_files(toy.folder / str(turn)) == whole
        assert 0 <= answered - planned <= CONCURRENCY
        assert 0 < killed_runs.stored_cost(toy.folder / str(turn)) <= PLAN_USD


MOMENTS = 10


@pytest.fixture
def stub() -> Iterator[StubServer]:
    with StubServer(SCRIPT) as server:
        yield server


@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_run_of_which_every_shard_is_killed_ends_in_the_bytes_of_one_command(
    stub: StubServer, tmp_path: Path, count: int
) -> None:
    moments = Random(f"moments of {count}")
    assert start(stub, tmp_path / "whole").wait() == 1  # "neither" is not readable
    planned, parts = stub.stats()["answered"], tmp_path / "parts"
    shards = moments.sample([f"{number}/{count}" for number in range(1, count + 1)], count)

    hits = sum(
        killed(start(stub, parts, "--shard", one), stub, moments.uniform(0, 0.9 * planned / count))
        for one in shards
    )
    assert {start(stub, parts, "--shard", one).wait() for one in shards} <= {0, 1}
    assert final_files(parts) == {}
    asked = stub.stats()["answered"]
    assert start(stub, parts, command="merge").wait() == 1

    assert final_files(parts) == final_files(tmp_path / "whole") != {}
    assert (stub.stats()["answered"], hits > count // 2) == (asked, True), "a merge calls nobody"
    assert asked - 2 * planned <= count * CONCURRENCY, "only what was in flight is paid twice"


def test_a_plan_in_three_shards_killed_at_ten_moments_ends_in_the_bytes_of_one_plan(
    toy: Toy, stub: StubServer
) -> None:
    moments, hits = Random("ten moments"), 0
    assert start_plan(stub, toy, "whole").wait() in (0, 1)
    planned, whole = stub.stats()["answered"], final_files(toy.folder / "whole")
    assert sum(name.endswith("run.json") for name in whole) == 12

    for turn in range(MOMENTS):
        place = str(turn)
        shards = moments.sample([f"{number}/3" for number in (1, 2, 3)], 3)
        first = start_plan(stub, toy, place, "--shard", shards[0])
        hits += killed(first, stub, moments.uniform(0, planned / 3))
        running = [start_plan(stub, toy, place, "--shard", one) for one in shards]
        assert {process.wait() for process in running} <= {0, 1}
        assert final_files(toy.folder / place) == {}
        assert start_plan(stub, toy, place, command="merge").wait() in (0, 1)

        assert final_files(toy.folder / place) == whole
        assert 0 < killed_runs.stored_cost(toy.folder / place) <= PLAN_USD
    assert hits >= MOMENTS // 2


BATCHED = 3 * 2  # samples, temperatures
BATCH_RUN = (
    *("run", "--task", "intent_resolution", "--limit", "3"),
    *("--model", "local-server", "--variant", "base", "--judge", "ngram-cosine", "--results"),
)


def wait_for(what: str, stub: StubServer) -> None:
    until = time.monotonic() + 60
    while what not in stub.batches.log and time.monotonic() < until:
        time.sleep(0.01)


@pytest.mark.parametrize("moment", ["POST /v1/batches", "GET /v1/batches/batch_1"])
@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_command_repeated_collects_what_it_handed_in(
    tmp_path: Path, way: signal.Signals, moment: str
) -> None:
    with StubServer() as stub:
        assert begun(stub, *BATCH_RUN, str(tmp_path / "whole")).wait() == 0
        stub.batches.polls = 1
        first = begun(stub, *BATCH_RUN, str(tmp_path / "killed"), "--batch")
        wait_for(moment, stub)
        first.send_signal(way)
        first.wait()

        assert first.returncode == (130 if way == signal.SIGINT else -way)
        assert begun(stub, *BATCH_RUN, str(tmp_path / "killed"), "--batch").wait() == 0

    assert [len(names) for names in stub.batches.submitted()] == [BATCHED]
    assert final_files(tmp_path / "killed") == final_files(tmp_path / "whole")
