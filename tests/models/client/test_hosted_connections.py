"""What a call is charged that ended in an error of its connection, with the real libraries."""

import asyncio
import socket
from importlib import import_module
from typing import Any

import pytest
from support.each import each
from support.stub_script import Script
from support.stub_server import StubServer

from harness.models.anthropic.model import LIBRARY as ANTHROPIC
from harness.models.client.endpoint import Endpoint
from harness.models.client.hosted import ClientLibrary, describe, post, usage_of
from harness.models.client.http import ReplyGuard, http_client, http_of
from harness.models.openai.bodies import LIBRARY as OPENAI
from harness.parts import UNCHARGED, UNKNOWN_USAGE, Usage

ASKED = {"model": "m", "messages": [{"role": "user", "content": "words"}]}
GOOD = [{"role": "user", "content": "others"}]
LIBRARIES = [("openai", "AsyncOpenAI"), ("anthropic", "AsyncAnthropic")]


def failed(library: str, name: str, url: str, *, timeout_s: float = 5) -> BaseException:
    """The error a call to a server ends in."""

    # Not imported above: the libraries take a second to import, when tests are collected too.
    import anthropic
    import openai
    from aiohttp import ClientError

    package = import_module(library)

    async def call() -> BaseException:
        guard = ReplyGuard("the server", "set base_url", http_of(package))
        options: dict[str, Any] = {"api_key": "k", "base_url": url, "max_retries": 0}
        client = getattr(package, name)(
            **options, timeout=timeout_s, http_client=http_client(package, 1, guard)
        )
        async with client:
            with pytest.raises(
                (openai.OpenAIError, anthropic.AnthropicError, ClientError)
            ) as caught:
                await post(client, "/chat/completions", ASKED)
        return caught.value

    return asyncio.run(call())


def charged(library: str, name: str, url: str, *, timeout_s: float = 5) -> Usage:
    """What a call to a server was charged that ends in an error."""
    return usage_of(failed(library, name, url, timeout_s=timeout_s))


@pytest.mark.parametrize(("library", "name"), LIBRARIES)
def test_a_call_that_reaches_no_server_costs_nothing(library: str, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    assert charged(library, name, f"http://127.0.0.1:{port}/v1") == UNCHARGED


@pytest.mark.parametrize(("library", "name"), LIBRARIES)
@pytest.mark.parametrize(
    ("fault", "told"),
    [("cut", "the connection was closed before"), ("hung-up", "the connection was closed (Server")],
)
def test_a_connection_that_was_closed_is_not_called_a_time_out(
    library: str, name: str, *, fault: str, told: str
) -> None:
    with StubServer(Script(faults={"": (fault,)})) as stub:
        assert describe(failed(library, name, stub.url)).startswith(told)


@each(("library", "name"), LIBRARIES)
@each("fault", ["cut", "garbled-head", "hung-up", "late"])
def test_a_call_whose_reply_broke_off_may_have_cost_something(
    library: str, name: str, fault: str
) -> None:
    with StubServer(Script(faults={"": (fault,)}, late_s=0.4)) as stub:
        assert charged(library, name, stub.url, timeout_s=0.2) == UNKNOWN_USAGE


def told(library: ClientLibrary, url: str, *, before: int) -> tuple[type, dict[str, Any]]:
    """What a call is said to end in that so many good ones precede."""
    server = Endpoint(url, None, None, {})

    async def call() -> Exception:
        async with library.client(server, timeout_s=0.4, connections=1) as client:
            for _ in range(before):
                good = await post(client, "/chat/completions", {**ASKED, "messages": GOOD})
                assert b"choices" in good
            with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is the question
                await post(client, "/chat/completions", ASKED)
        return caught.value

    ours = library.translate(asyncio.run(call()), server, model="m")
    return type(ours), {**vars(ours), "words": str(ours)}


@each("library", [OPENAI, ANTHROPIC])
@each("fault", ["400", "401", "404", "429", "500", "cut", "garbled-head", "hung-up", "late"])
def test_a_later_call_to_an_address_fails_in_the_words_of_a_first_one(
    library: ClientLibrary, fault: str
) -> None:
    with StubServer(Script(faults={"words": (fault, fault)}, late_s=0.6)) as stub:
        first, later = (told(library, stub.url, before=count) for count in (0, 2))
        asked = [body["messages"] for body in stub.bodies]

    assert first == later
    assert asked == [ASKED["messages"], GOOD, GOOD, ASKED["messages"]]
