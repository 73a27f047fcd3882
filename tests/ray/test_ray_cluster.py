"""What a Ray cluster computes: the bytes of one process, whoever dies meanwhile.

Two nodes on this machine, on loopback addresses, with four cores to promise between them.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray.cluster_utils")  # `ray` alone is found as the folder of this file

from ray.cluster_utils import Cluster

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]
PATIENT = {  # on a machine that others keep busy
    "RAY_worker_niceness": "0",
    "RAY_gcs_server_request_timeout_seconds": "300",
    "RAY_health_check_timeout_ms": "60000",
    "RAY_health_check_failure_threshold": "20",
}
NODE = {"num_cpus": 2, "object_store_memory": 100_000_000, "include_dashboard": False}
PLAN = """
about: Texts that are compared by vectors, and choices beside implicitness.
models: [small]
tasks: [{task: emphasized_talk, limit: 12}, hate_speech]
"""
MOST_RUNS = 8
FILES = ("run.json", "answers.parquet", "verdicts.parquet", "scores.csv")
MODEL = "{kind: transformers, model: tiny, build: tiny-llama, dtype: float32, batch_tokens: 2048}"
HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of commands and of nodes: one thread, a cache of its own."""
    own = {
        "HARNESS_CACHE": str(tmp_path_factory.mktemp("cache")),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)]),
        "RAY_USAGE_STATS_ENABLED": "0",
        **PATIENT,
    }
    return {**{n: v for n, v in os.environ.items() if n != "HARNESS_DATA"}, **own}


def node(address: str) -> dict[str, Any]:
    return {**NODE, "node_ip_address": address}


def patiently(start: Callable[[], Any]) -> Any:  # noqa: ANN401 - Ray's
    """What is started, again where it takes longer than the half minute that Ray waits."""
    for _ in range(5):
        try:
            return start()
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
    raise AssertionError("no node of Ray started in five attempts")


@pytest.fixture(scope="module")
def cluster(environment: dict[str, str]) -> Iterator[Cluster]:
    """Two nodes on loopback addresses: not 127.0.0.1, which Ray replaces by the machine's own."""
    before = dict(os.environ)
    os.environ.update(environment)
    nodes = patiently(lambda: Cluster(True, head_node_args=node("127.0.0.2")))
    patiently(lambda: nodes.add_node(**node("127.0.0.3")))
    yield nodes
    nodes.shutdown()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a tiny model that computes few rows at once."""
    home = tmp_path_factory.mktemp("home")
    (home / "configs/models").mkdir(parents=True)
    (home / "configs/models/small.yaml").write_text(MODEL, "utf-8")
    (home / "two.yaml").write_text(PLAN, "utf-8")
    return home


class Commands:
    """Runs commands in a home."""

    def __init__(self, home: Path, environment: dict[str, str]) -> None:
        self.home, self.environment = home, environment

    def begun(self, results: Path, *more: str) -> "subprocess.Popen[bytes]":
        """A run of two tasks: replies with two judges by vectors, choices with implicitness."""
        words = ["run", str(self.home / "two.yaml"), "--home", str(self.home)]
        words += ["--results", str(results), *more]
        return subprocess.Popen(
            [sys.executable, "-m", "harness", *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, results: Path, *more: str) -> str:
        """What a run says that ends well, with missing items or without."""
        process = self.begun(results, *more)
        said = process.communicate()[0].decode()
        assert process.returncode in (0, 1), said
        return said


@pytest.fixture(scope="module")
def commands(home: Path, environment: dict[str, str]) -> Commands:
    return Commands(home, environment)


@pytest.fixture(scope="module")
def one_process(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one process writes."""
    results = tmp_path_factory.mktemp("one")
    commands.run(results)
    found = written(results)
    assert {name.rpartition("/")[2] for name in found} == set(FILES)
    return found


def written(results: Path) -> dict[str, bytes]:
    paths = [path for name in FILES for path in results.glob(f"runs/**/{name}")]
    return {str(path.relative_to(results)): path.read_bytes() for path in paths}


def on(cluster: Cluster, workers: int) -> Sequence[str]:
    return (
        *("--executor", "ray", "--ray-address", cluster.address),
        *("--ray-workers", str(workers)),
    )


def workers_of(cluster: Cluster, but: Collection[int] = ()) -> list[int]:
    """The ids of the processes in which workers of this cluster run, but for some."""
    nodes = {pid for node in cluster.list_all_nodes() for pid in processes_of(node)}
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            title = (path / "cmdline").read_bytes()
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if title.startswith(b"ray::RayWorker") and parent in nodes:
            found.append(int(path.name))
    return sorted({*found} - {*but})


def processes_of(node: Any) -> list[int]:  # noqa: ANN401 - Ray's
    return [one.process.pid for some in node.all_processes.values() for one in some]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_cluster_writes_the_bytes_of_one_process(
    cluster: Cluster,
    commands: Commands,
    one_process: dict[str, bytes],
    tmp_path: Path,
    workers: int,
) -> None:
    commands.run(tmp_path, *on(cluster, workers))
    assert written(tmp_path) == one_process


def test_workers_killed_at_ten_random_moments_change_no_byte(
    cluster: Cluster, commands: Commands, one_process: dict[str, bytes], tmp_path: Path
) -> None:
    chance, killed = random.Random(14), set[int]()
    start = time.monotonic()
    commands.run(tmp_path / "timed", *on(cluster, 2))
    whole_s = time.monotonic() - start
    for run in range(MOST_RUNS):
        # A worker may die five times in a row: four deaths a run end none, whomever they hit.
        results, deaths = tmp_path / str(run), min(4, 10 - len(killed))
        if not deaths:  # a run that ends before its last one leaves more to the next
            break
        process, start = commands.begun(results, *on(cluster, 2)), time.monotonic()
        # At shares of the seconds that it takes here, whatever the machine.
        for share in sorted(chance.uniform(0.1, 0.9) for _ in range(deaths)):
            time.sleep(max(0.0, start + share * whole_s - time.monotonic()))
            while process.poll() is None and not (alive := workers_of(cluster, killed)):
                time.sleep(0.05)
            if process.poll() is None:
                os.kill(one := chance.choice(alive), signal.SIGKILL)
                killed.add(one)
        said = (process.communicate()[0] or b"").decode()
        assert process.returncode in (0, 1), said
        assert written(results) == one_process

    assert len(killed) == 10


def test_a_killed_command_resumes_to_the_same_bytes(
    cluster: Cluster, commands: Commands, one_process: dict[str, bytes], tmp_path: Path
) -> None:
    process = commands.begun(tmp_path, *on(cluster, 2))
    while not (stored := stored_calls(tmp_path)) and process.poll() is None:
        time.sleep(0.2)
    process.kill()
    process.communicate()

    commands.run(tmp_path, *on(cluster, 2))

    assert stored > 0
    assert written(tmp_path) == one_process
    assert stored_calls(tmp_path) == len(set(keys(tmp_path))), "a call was made twice"


def keys(results: Path) -> list[bytes]:
    lines = [line for path in results.glob("calls/**/*.jsonl") for line in path.open("rb")]
    return [line[: line.index(b",")] for line in lines]


def stored_calls(results: Path) -> int:
    return len(keys(results))


def test_texts_are_measured_as_in_one_process(
    cluster: Cluster, commands: Commands, tmp_path: Path
) -> None:
    texts = tmp_path / "texts.csv"
    rows = [f"It is {'very ' * (n % 7)}cold in room {n}." for n in range(300)]
    texts.write_text("text\n" + "\n".join(rows) + "\n", "utf-8")
    for name, more in (("here", ()), ("there", on(cluster, 2))):
        words = ["impscore", "score", str(texts), "--out", str(tmp_path / f"{name}.csv"), *more]
        # No score is kept from one to the other.
        own = {**commands.environment, "HARNESS_CACHE": str(tmp_path / name)}
        subprocess.run([sys.executable, "-m", "harness", *words], env=own, check=True)

    assert (tmp_path / "here.csv").read_bytes() == (tmp_path / "there.csv").read_bytes()


class Driver:
    """A process that has workers of a cluster double numbers; see ray_parts.py."""

    def __init__(self, cluster: Cluster, environment: dict[str, str]) -> None:
        self.address, self.environment = cluster.address, environment

    def said(self, what: str) -> str:
        words = [sys.executable, "-c", f"import ray_parts; ray_parts.{what}({self.address!r})"]
        done = subprocess.run(words, env=self.environment, capture_output=True, check=False)
        return (done.stdout or done.stderr).decode()


@pytest.fixture
def driver(cluster: Cluster, environment: dict[str, str]) -> Driver:
    return Driver(cluster, environment)


def test_results_come_in_the_order_of_the_parts(driver: Driver) -> None:
    assert driver.said("in_order").split() == [str(2 * part) for part in range(40)]


def test_an_error_of_a_worker_is_the_error_of_the_command(driver: Driver) -> None:
    assert driver.said("refusing") == "ModelError: no such checkpoint here\n"


def test_where_a_part_kills_its_workers_the_command_says_so(driver: Driver) -> None:
    said = driver.said("dying")

    assert said.startswith("ModelError: 6 workers died with the same part in hand (")
    assert "what was answered is stored: lower batch_tokens" in said
    assert said.count("\n") == 1, "Ray writes nothing of its own"


def test_a_pool_that_idles_makes_room(driver: Driver) -> None:
    doubled = "0 2 4 6 8 10 12 14 16"
    assert driver.said("by_turns").splitlines() == [doubled, doubled, doubled]


def test_while_others_hold_all_cores_the_command_says_what_it_waits_for(driver: Driver) -> None:
    warning, doubled = driver.said("crowded").splitlines()

    assert warning.startswith("the Ray cluster has no room for a worker, which takes 1 CPUs and 0")
    assert "(free: 0 and 0)" in warning
    assert doubled == "0 2 4 6 8 10 12 14 16"


def test_workers_of_a_cluster_do_not_have_the_keys_of_the_command(driver: Driver) -> None:
    assert driver.said("with_key") == "[None]\n"


def test_workers_of_a_cluster_that_the_command_starts_inherit_its_keys(driver: Driver) -> None:
    driver.address = "local"
    assert driver.said("with_key") == "['of the command']\n"


def test_a_worker_that_dies_while_it_starts_is_started_again(driver: Driver) -> None:
    assert driver.said("killed_while_starting") == "0 2 4 6 8 10 12 14 16\n"


def test_a_cluster_that_the_command_starts_listens_on_loopback_alone(driver: Driver) -> None:
    driver.address = "local"
    assert driver.said("listening") == "127.0.0.1\n"
