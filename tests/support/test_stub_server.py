"""The stub server does what its script says, as a plain HTTP client sees it."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.stub_script import Script
from support.stub_server import StubProcess, StubServer

Stub = StubServer | StubProcess


def post(stub: Stub, path: str, content: object) -> tuple[int, bytes]:
    with closing(HTTPConnection(urlsplit(stub.url).netloc, timeout=5)) as connection:
        connection.request("POST", path, json.dumps(content))
        reply = connection.getresponse()
        return reply.status, reply.read()


def ask(stub: Stub, words: str, **more: object) -> tuple[int, bytes]:
    body = {"model": "m", "messages": [{"role": "user", "content": words}], **more}
    return post(stub, "/v1/chat/completions", body)


def texts(stub: Stub, words: str, **more: object) -> list[str]:
    body: dict[str, Any] = json.loads(ask(stub, words, **more)[1])
    return [choice["message"]["content"] for choice in body["choices"]]


@pytest.fixture(scope="module")
def process() -> Iterator[StubProcess]:
    with StubProcess() as stub:
        yield stub


def test_the_same_request_has_the_same_answer_in_every_process(process: StubProcess) -> None:
    with StubServer() as here:
        assert texts(here, "one", n=2) == texts(process, "one", n=2)
        assert texts(here, "one") != texts(here, "two")


def test_drawn_faults_depend_on_the_seed_and_come_at_their_share() -> None:
    script = Script(shares={"429": 0.3, "500": 0.1})

    drawn = [script.fault("", str(n), 1) for n in range(4000)]

    assert drawn == [script.fault("", str(n), 1) for n in range(4000)]
    assert drawn.count("429") == pytest.approx(1200, abs=100)
    assert drawn.count("500") == pytest.approx(400, abs=60)


def test_counters_tell_answers_repeats_and_retries_that_came_early(process: StubProcess) -> None:
    process.configure(Script(faults={"busy": ("429",)}, retry_after_s=60))

    for words in ("busy", "busy", "busy", "free"):
        ask(process, words)

    stats = process.stats()
    assert (stats["requests"], stats["answered"], stats["early_retries"]) == (4, 3, 2)
    assert (stats["distinct"], stats["distinct_answered"]) == (2, 2)
    assert list(stats["repeats"].values()) == [2]
