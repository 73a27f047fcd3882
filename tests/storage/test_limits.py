"""Limits of what somebody else's files make this process compute."""

import resource
import subprocess
import sys

import pytest

from harness.errors import StoreError
from harness.storage.bundle import limited


def fill() -> bytearray:
    with limited("x.zip"):
        return bytearray(32 << 30)


LOOP = "from harness.storage.bundle import limited\nwith limited('x.zip', most_seconds=0):\n"


@pytest.mark.slow
def test_a_loop_without_end_is_refused() -> None:
    # In a process of its own: the clock of the limit runs ahead of the seconds that one has used.
    code = f"{LOOP}    while True:\n        pass"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.returncode == 1
    assert "StoreError: x.zip: took more than 0 s of CPU" in done.stderr


def test_all_memory_is_refused_and_the_limits_are_set_back() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_CPU)

    with pytest.raises(StoreError, match=r"x\.zip: took more than 16 GB"):
        fill()

    after = resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_CPU)
    assert after == before
