"""Ctrl-C in the middle of a run through vLLM in this process, and the run taken up again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from served import ONE_THREAD
from support.toy import Toy

pytest_plugins = ["vllm_fixtures"]
pytestmark = pytest.mark.vllm
RUN = ("run", "--task", "intent_resolution", "--variant", "base,cot2", "--judge", "ngram-cosine")
CALLS, SOME, WAIT_S = 336, 10, 240  # 56 samples, two temperatures, one step and two


def started(toy: Toy, folder: Path, results: str, *, workers: int = 1) -> subprocess.Popen[bytes]:
    """A run in a process group of its own, as a terminal starts it."""
    says = f"kind: vllm\nmodel: {folder}\nenforce_eager: true\ntensor_parallel_size: {workers}\n"
    toy.write("configs/models/tiny.yaml", says)
    places = ("--home", str(toy.home), "--results", str(toy.folder / results))
    cores = "|".join(map(str, sorted(os.sched_getaffinity(0))[:workers]))
    threads = ONE_THREAD if workers == 1 else {"VLLM_CPU_OMP_THREADS_BIND": cores}
    return subprocess.Popen(
        [sys.executable, "-m", "harness", *RUN, "--model", "tiny", *places],
        env=os.environ | {"VLLM_CPU_KVCACHE_SPACE": "1", **threads},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def stored(toy: Toy, results: str) -> list[str]:
    paths = (toy.folder / results).glob("calls/tiny/*.jsonl")
    lines = [line for path in paths for line in path.read_bytes().splitlines(keepends=True)]
    return [json.loads(line)["key"] for line in lines if line.endswith(b"\n")]


def files(toy: Toy, results: str) -> dict[str, bytes]:
    root = toy.folder / results / "runs"
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def group(leader: int) -> dict[int, str]:
    """The processes of a group that are still there, its leader aside, with their names."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue  # it ended while we looked
        state, _, its_leader = rest.split()[:3]
        if int(its_leader) == leader and state != "Z" and stat.parent.name != str(leader):
            found[int(stat.parent.name)] = name.partition("(")[2]
    return found


def wait_for_some(toy: Toy, process: subprocess.Popen[bytes], results: str) -> None:
    """Until some answers are stored."""
    until = time.monotonic() + WAIT_S
    while process.poll() is None and len(stored(toy, results)) < SOME:
        assert time.monotonic() < until, "nothing was answered"
        time.sleep(0.02)


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str, dict[int, str]]:
    """Exit code, what was told, and the processes left over after a while."""
    told = process.communicate(timeout=WAIT_S)[1].decode()
    until = time.monotonic() + 20
    while (left := group(process.pid)) and time.monotonic() < until:
        time.sleep(0.2)
    return process.returncode, told, left


def test_ctrl_c_stores_what_is_finished_and_the_command_goes_on_to_the_same_bytes(
    toy: Toy, folder: Path
) -> None:
    process = started(toy, folder, "broken")
    wait_for_some(toy, process, "broken")
    os.killpg(process.pid, signal.SIGINT)

    code, told, left = ended(process)
    kept = stored(toy, "broken")
    codes = [ended(started(toy, folder, results))[0] for results in ("broken", "whole")]

    assert (code, left, "Traceback" in told) == (130, {}, False), told
    assert codes == [0, 0]
    assert files(toy, "broken") == files(toy, "whole")
    assert SOME <= len(kept) < len(stored(toy, "broken")) == CALLS
    assert len(set(stored(toy, "broken"))) == CALLS


@pytest.mark.parametrize(
    ("signalled", "kind", "code", "words"),
    [
        ("all", signal.SIGINT, 130, "harness: interrupted"),
        ("a worker", signal.SIGKILL, 2, "vLLM broke down"),
    ],
)
def test_an_engine_of_several_processes_ends_with_the_command(
    toy: Toy, folder: Path, signalled: str, kind: signal.Signals, code: int, words: str
) -> None:
    process = started(toy, folder, "results", workers=2)
    wait_for_some(toy, process, "results")
    workers = [pid for pid, name in group(process.pid).items() if "Worker" in name]

    os.kill(workers[0] if signalled == "a worker" else -process.pid, kind)
    found, told, left = ended(process)

    assert (len(workers), found, left) == (2, code, {}), told
    assert words in told
    assert len(stored(toy, "results")) >= SOME
