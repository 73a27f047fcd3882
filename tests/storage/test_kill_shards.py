"""Shards and processes that are killed at any moment end, repeated, as one undisturbed run."""

import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random
from subprocess import Popen
from time import monotonic, sleep

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


def children(process: "Popen[bytes]") -> list[int]:
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def is_running(pid: int) -> bool:
    path = Path(f"/proc/{pid}/stat")
    return path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z"


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


@pytest.mark.parametrize("has_budget", [False, True])  # with one the parent waits for all calls
@pytest.mark.parametrize("is_parent", [False, True])
def test_processes_of_which_one_is_killed_end_in_the_same_bytes(
    toy: Toy, stub: StubServer, *, is_parent: bool, has_budget: bool
) -> None:
    assert start_plan(stub, toy, "whole", has_budget=has_budget).wait() in (0, 1)
    asked = stub.stats()["answered"]

    first = start_plan(stub, toy, "parts", "--processes", "2", has_budget=has_budget)
    while stub.stats()["answered"] < 1.3 * asked and first.poll() is None:
        sleep(0.01)
    begun = children(first)
    if is_parent:
        killed(first, stub, 0)
        end = monotonic() + 60
        while any(map(is_running, begun)) and monotonic() < end:
            sleep(0.05)
        assert not any(map(is_running, begun))
        first = start_plan(stub, toy, "parts", "--processes", "2", has_budget=has_budget)
    else:
        Popen(["kill", "-9", str(begun[0])]).wait()

    assert len(begun) == 2
    assert first.wait() in (0, 1)
    assert final_files(toy.folder / "parts") == final_files(toy.folder / "whole")
