"""What a call is charged that ended in an error of its connection, with the real libraries."""

import asyncio
import socket
from types import ModuleType
from typing import Any

import anthropic
import openai
import pytest
from aiohttp import ClientError
from support.stub_script import Script
from support.stub_server import StubServer

from harness.models.client.hosted import describe, http_client, post, usage_of
from harness.parts import UNCHARGED, UNKNOWN_USAGE, Usage

ASKED = {"model": "m", "messages": [{"role": "user", "content": "words"}]}
LIBRARIES = [(openai, "AsyncOpenAI"), (anthropic, "AsyncAnthropic")]


def failed(library: ModuleType, name: str, url: str, *, timeout_s: float = 5) -> BaseException:
    """The error a call to a server ends in."""

    async def call() -> BaseException:
        options: dict[str, Any] = {"api_key": "k", "base_url": url, "max_retries": 0}
        client = getattr(library, name)(
            **options, timeout=timeout_s, http_client=http_client(library, 1)
        )
        async with client:
            with pytest.raises(
                (openai.OpenAIError, anthropic.AnthropicError, ClientError)
            ) as caught:
                await post(client, "/chat/completions", ASKED)
        return caught.value

    return asyncio.run(call())


def charged(library: ModuleType, name: str, url: str, *, timeout_s: float = 5) -> Usage:
    """What a call to a server was charged that ends in an error."""
    return usage_of(failed(library, name, url, timeout_s=timeout_s))


@pytest.mark.parametrize(("library", "name"), LIBRARIES)
def test_a_call_that_reaches_no_server_costs_nothing(library: ModuleType, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    assert charged(library, name, f"http://127.0.0.1:{port}/v1") == UNCHARGED


@pytest.mark.parametrize(("library", "name"), LIBRARIES)
@pytest.mark.parametrize(
    ("fault", "told"),
    [("cut", "the connection was closed before"), ("hung-up", "the connection was closed (Server")],
)
def test_a_connection_that_was_closed_is_not_called_a_time_out(
    library: ModuleType, name: str, *, fault: str, told: str
) -> None:
    with StubServer(Script(faults={"": (fault,)})) as stub:
        assert describe(failed(library, name, stub.url)).startswith(told)


@pytest.mark.parametrize(("library", "name"), LIBRARIES)
@pytest.mark.parametrize("fault", ["cut", "garbled-head", "hung-up", "late"])
def test_a_call_whose_reply_broke_off_may_have_cost_something(
    library: ModuleType, name: str, fault: str
) -> None:
    with StubServer(Script(faults={"": (fault,)}, late_s=0.4)) as stub:
        assert charged(library, name, stub.url, timeout_s=0.2) == UNKNOWN_USAGE
