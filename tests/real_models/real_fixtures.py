"""The home folder with the real weights, and llama.cpp's servers beside it, once for all tests."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from real_home import ROOT, Home

HERE = Path(__file__).parent
SERVED = {
    "HARNESS_LLAMACPP_URL": "gemma-3-270m-f32.gguf",
    "HARNESS_LLAMACPP_Q4_URL": "gemma-3-270m.gguf",
}
"""The file that llama.cpp serves at the address which a variable holds."""
WEIGHTS = (*SERVED.values(), "gemma-3-270m", "all-mpnet-base-v2")
START_S = 600


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    weights = Path(os.environ.get("HARNESS_REAL_MODELS", ROOT / ".real_models")).resolve()
    if lacking := [name for name in WEIGHTS if not (weights / name).exists()]:
        pytest.fail(f"{weights} lacks {', '.join(lacking)}: run tests/real_models/install.sh VENV")
    folder = shutil.copytree(HERE / "home", tmp_path_factory.mktemp("real") / "home")
    for name in WEIGHTS:
        (folder / name).symlink_to(weights / name)
    with ExitStack() as stack:
        urls = {name: stack.enter_context(_served(folder / file)) for name, file in SERVED.items()}
        yield Home(folder, urls)


@contextmanager
def _served(file: Path) -> Iterator[str]:
    """The base URL of llama.cpp's server of one file."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = file.parent.parent / f"{file.stem}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, str(HERE / "serve.py"), str(file), str(port)],
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        _await(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(60)


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_S
    while not _is_up(url):
        if process.poll() is not None or time.monotonic() > until:
            pytest.fail(f"llama.cpp's server did not start: {log.read_text()[-3000:]}")
        time.sleep(0.5)


def _is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:  # of which HTTPError, 503 while the model is loading, is one
        return False
