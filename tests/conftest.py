"""Puts this folder on the import path, and lays out a toy home folder for whoever asks."""

import signal
from pathlib import Path

import pytest
from support import toy as toy_module
from support.toy import Toy

# Begun in the background of a script, this process ignores interrupts, and so would all it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """A toy home folder, in an environment that names no data, no key and no server."""
    for name in ("HARNESS_DATA", "HARNESS_SERVER_URL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return toy_module.build(tmp_path)
