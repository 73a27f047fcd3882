"""What a call is charged that ends in an error of its connection, and in which words."""

import socket
from dataclasses import replace

import pytest
from support.batch_bench import request as asked
from support.each import each
from support.hosted import Api, hosted
from support.stub_script import Script
from support.stub_server import StubServer

from harness.core import Response
from harness.models.client.retry import RetryPolicy, send_all
from harness.parts import UNCHARGED

KINDS: list[Api] = ["chat", "anthropic"]
UNKNOWN = replace(UNCHARGED, unanswered=1)


def answered(kind: Api, url: str, *words: str, timeout_s: float = 5) -> list[Response]:
    """What calls one after the other come to; one attempt each, without a look at the server."""
    model = hosted(kind, url, key_env=None)
    model._is_checked = True
    policy = RetryPolicy(concurrency=1, attempts=1, timeout_s=timeout_s)
    return list(send_all(map(asked, words), model.connect, policy))


def message_of(response: Response) -> str:
    assert response.failure is not None
    return response.failure.message


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_reaches_no_server_costs_nothing(kind: Api) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    [response] = answered(kind, f"http://127.0.0.1:{port}/v1", "words")

    assert response.usage == UNCHARGED
    assert "no reply (Cannot connect to host 127.0.0.1:" in message_of(response)


@each("kind", KINDS)
@each(
    ("fault", "words"),
    [
        ("cut", "no reply (Response payload is not completed"),
        ("hung-up", "no reply (Server disconnected)"),
        ("garbled-head", "no reply (400, message"),
        ("late", "no answer within 0.2 s"),
    ],
)
def test_a_call_whose_reply_broke_off_may_have_cost_something(
    kind: Api, fault: str, words: str
) -> None:
    with StubServer(Script(faults={"": (fault,)}, late_s=0.4)) as stub:
        [response] = answered(kind, stub.url, "words", timeout_s=0.2)

    assert response.usage == UNKNOWN
    assert words in message_of(response)
