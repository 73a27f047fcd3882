"""The toy home folder and the server that tests share, and which tests are unit tests."""

import gc
import os
import re
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from support import toy as toy_module
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import BOTH_PRICED, Toy

# Begun in the background of a script, this process ignores interrupts, and so would all it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.pop("COLUMNS", None)  # which would wrap the lines that tests look for

# What is imported and collected stays to the end: to look for garbage among it is in vain.
gc.disable()

PURE = {
    *("analysis", "data", "importers", "judges", "pipeline", "specs", "stats", "storage", "tasks"),
    *("text", "test_core.py", "test_parts.py"),
}
"""Folders and files of unit tests, below this one."""
NOT_PURE = re.compile(
    r"subprocess|multiprocessing|Stub(Server|Process)|HARNESS_DATA|needs_data|import torch"
    r"|from transformers|sklearn|MiniLM|needs\(|harness\.cli|toy: Toy"
)
"""What a file of unit tests does not name: processes, servers, networks, data that was released."""


@cache
def is_pure(file: Path) -> bool:
    """Whether a file holds unit tests."""
    place = file.relative_to(Path(__file__).parent).parts[0]
    return place in PURE and not NOT_PURE.search(file.read_text("utf-8"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m unit` no other file is imported."""
    only_unit = config.getoption("markexpr") == "unit" and collection_path.suffix == ".py"
    return True if only_unit and not is_pure(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is a unit test, unless it is slow."""
    for item in items:
        if is_pure(item.path) and item.get_closest_marker("slow") is None:
            item.add_marker("unit")


def pytest_collection_finish() -> None:
    """Look for garbage from now on, in what the tests make alone, and seldom."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hypothesis, which may be imported for the summary, looks for who holds its generators."""
    if not hasattr(session.config, "workerinput"):
        gc.unfreeze()


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """A toy home folder, in an environment that names no data, no key and no server."""
    return toy_module.isolated(tmp_path, monkeypatch)


@pytest.fixture
def stub(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubServer]:
    """A server that gives the judge a 1; both models of the toy home have a price."""
    toy.write("configs/prices.yaml", BOTH_PRICED)
    with StubServer(Script(replies={"Judge": ("1",)})) as server:
        monkeypatch.setenv("HARNESS_SERVER_URL", server.url)
        yield server
