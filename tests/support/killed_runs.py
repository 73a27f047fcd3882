"""A run that tests kill and repeat, and the files it leaves."""

import os
import subprocess
import sys
from pathlib import Path

from support.stub_script import Script
from support.stub_server import StubServer

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
