"""Commands that ask a server which has not started yet."""

import logging
import socket
from pathlib import Path
from threading import Event, Thread

import pytest
from support.stub_server import StubServer

from harness.cli import main

RUN = ("run", "--task", "intent_resolution", "--model", "local-server", "--judge", "ngram-cosine")


def test_a_run_waits_for_a_server_that_starts_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("HARNESS_SERVER_URL", f"http://127.0.0.1:{port}/v1")
    has_told, is_over = Event(), Event()
    logger = logging.getLogger("harness.models.client.hosted")

    def hear(_: logging.LogRecord) -> bool:
        has_told.set()
        return True

    def start_late() -> None:
        if has_told.wait(60):
            with StubServer(port=port):
                is_over.wait()

    logger.addFilter(hear)
    starting = Thread(target=start_late)
    starting.start()
    try:
        run = [*RUN, "--limit", "2", "--results", str(tmp_path), "--wait-for-server", "60"]
        assert main(run) == 0
    finally:
        logger.removeFilter(hear)
        is_over.set()
        has_told.set()
        starting.join()
    told = capsys.readouterr().err
    assert f"waiting for http://127.0.0.1:{port}/v1, 60 s at most" in told
