"""Connections below the client libraries of hosted models, and the way a request takes over them.

aiohttp carries them: at 200 calls in flight it costs a client about half of what httpx does. A
request's body is sent as it stands: the libraries' own typed methods would walk through it once
more, at twice the cost of a call. Errors are the libraries' own either way, but for those of
aiohttp that a library has no name for.
"""

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from harness.parts import UNCHARGED, UNKNOWN_USAGE, Usage


def http_client(library: ModuleType, connections: int) -> Any:  # noqa: ANN401 - openai's or anthropic's
    """An HTTP client for a client library (`openai`, `anthropic`), of so many connections."""
    limits = _http(library).Limits(
        max_connections=connections, max_keepalive_connections=connections
    )
    return library.DefaultAioHttpClient(limits=limits)


async def post(
    client: Any,  # noqa: ANN401 - openai's or anthropic's asynchronous client
    path: str,
    arguments: Mapping[str, Any],
) -> bytes:
    """The body of the reply to a call, `extra_body` among the arguments spread over the rest."""
    extra = arguments.get("extra_body") or {}
    body = {key: value for key, value in arguments.items() if key != "extra_body"} | extra
    http = _http(sys.modules[type(client).__module__.partition(".")[0]])
    reply = await client.post(path, body=body, cast_to=http.Response)
    content: bytes = reply.content
    return content


def usage_of(error: BaseException) -> Usage:
    """What a call was charged that ended in an error of its connection.

    Nothing where no connection came about; where one broke, or gave what cannot be read, the
    server may have answered, and nobody tells.
    """
    import aiohttp

    found: BaseException | None = error
    while found is not None:
        if isinstance(found, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            return UNCHARGED
        found = found.__cause__
    return UNKNOWN_USAGE


def describe(error: BaseException) -> str:
    """What an error of a connection says; also where the libraries call it a time-out."""
    import aiohttp

    found: BaseException | None = error
    while found is not None:
        if isinstance(found, aiohttp.ServerDisconnectedError | ConnectionResetError):
            return f"the connection was closed ({found})"
        if isinstance(found, aiohttp.ClientConnectorError):
            return f"Connection error. ({found})"
        if isinstance(found, aiohttp.ClientPayloadError) and "not completed" in str(found):
            return "the connection was closed before the reply had ended"
        found = found.__cause__
    if isinstance(error, aiohttp.ClientError):
        return f"Connection error. ({error})"
    return f"{error} ({error.__cause__})" if error.__cause__ else f"{error}"


def _http(library: ModuleType) -> ModuleType:
    """The HTTP package a client library is built on: httpx, or what has followed it."""
    return sys.modules[library.DefaultAsyncHttpxClient.__base__.__module__]
