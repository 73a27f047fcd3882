"""Limits of what somebody else's files make this process compute."""

import resource

import pytest

from harness.errors import StoreError
from harness.storage.bundle import limited


def spin() -> None:
    with limited("x.zip", most_seconds=0):
        while True:
            pass


def fill() -> bytearray:
    with limited("x.zip"):
        return bytearray(32 << 30)


def test_a_loop_without_end_is_refused() -> None:
    with pytest.raises(StoreError, match=r"x\.zip: took more than 0 s of CPU"):
        spin()


def test_all_memory_is_refused_and_the_limits_are_set_back() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_CPU)

    with pytest.raises(StoreError, match=r"x\.zip: took more than 16 GB"):
        fill()

    after = resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_CPU)
    assert after == before
