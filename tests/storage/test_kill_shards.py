"""Shards that are killed at any moment end, repeated, as one undisturbed run."""

import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random
from subprocess import Popen
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

MOMENTS = 10
pytestmark = pytest.mark.slow


@pytest.fixture
def stub() -> Iterator[StubServer]:
    with StubServer(SCRIPT) as server:
        yield server


def killed(process: "Popen[bytes]", stub: StubServer, calls: float) -> bool:
    """Kill a process after so many calls; whether it was still running."""
    target = stub.stats()["answered"] + calls
    while process.poll() is None and stub.stats()["answered"] < target:
        sleep(0.005)
    process.send_signal(signal.SIGKILL)
    return process.wait() != 0


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
        assert 0 < stored_cost(toy.folder / place) <= PLAN_USD
    assert hits >= MOMENTS // 2
