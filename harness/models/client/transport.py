"""Requests to bytes through the client libraries of hosted models, over aiohttp.

At 200 calls in flight aiohttp costs a client about half of what httpx does. A request's body is
sent as it is: the libraries' typed methods would walk through it once more, at twice the cost of a
call. Errors are the libraries' own, except those of aiohttp that a library has no name for.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from types import ModuleType
from typing import Any

from harness.errors import ModelError
from harness.models.client.endpoint import Endpoint
from harness.models.client.retry import RetryableError, retry_after_seconds
from harness.parts import UNCHARGED, UNKNOWN_USAGE, Usage

PASSING = frozenset({408, 409, 425, 429})
"""HTTP statuses below 500 that may pass."""


@dataclass(frozen=True, slots=True)
class ClientLibrary:
    """A provider's client library, imported when it is first used: its package and class prefix."""

    package: str
    prefix: str

    @property
    def module(self) -> Any:  # noqa: ANN401 - openai or anthropic
        """The module of the package."""
        return import_module(self.package)

    @property
    def error(self) -> type[Exception]:
        """The class of all its errors."""
        error: type[Exception] = getattr(self.module, f"{self.prefix}Error")
        return error

    def client(self, server: Endpoint, *, timeout_s: float) -> Any:  # noqa: ANN401 - see `module`
        """A synchronous client; ModelError where the key is missing."""
        return getattr(self.module, self.prefix)(**_options(server), timeout=timeout_s)

    def async_client(self, server: Endpoint, *, timeout_s: float, connections: int) -> Any:  # noqa: ANN401 - see `module`
        """An asynchronous client of so many connections; ModelError where the key is missing."""
        http = http_client(self.module, connections)
        make = getattr(self.module, f"Async{self.prefix}")
        return make(**_options(server), timeout=timeout_s, http_client=http)


def _options(server: Endpoint) -> dict[str, Any]:
    """The settings of every client; its own retries are off."""
    return {"api_key": server.key or "none", "base_url": server.url, "max_retries": 0}


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
    """The body of the reply to a call with these arguments."""
    http = _http(sys.modules[type(client).__module__.partition(".")[0]])
    reply = await client.post(path, body=json_body(arguments), cast_to=http.Response)
    content: bytes = reply.content
    return content


def json_body(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a client library as one JSON body: `extra_body` overrides the rest."""
    own = {name: value for name, value in arguments.items() if name != "extra_body"}
    return own | (arguments.get("extra_body") or {})


def usage_of(error: BaseException) -> Usage:
    """The usage of a call that ended in a connection error.

    Nothing was charged where no connection was made. Where one broke, or sent what cannot be read,
    the server may have answered: the counts are None.
    """
    import aiohttp

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            return UNCHARGED
        cause = cause.__cause__
    return UNKNOWN_USAGE


def describe(error: BaseException) -> str:
    """The words for a connection error, also where the libraries call it a time-out."""
    import aiohttp

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, aiohttp.ServerDisconnectedError | ConnectionResetError):
            return f"the connection was closed ({cause})"
        if isinstance(cause, aiohttp.ClientConnectorError):
            return f"Connection error. ({cause})"
        if isinstance(cause, aiohttp.ClientPayloadError) and "not completed" in str(cause):
            return "the connection was closed before the reply had ended"
        cause = cause.__cause__
    if isinstance(error, aiohttp.ClientError):
        return f"Connection error. ({error})"
    return f"{error} ({error.__cause__})" if error.__cause__ else f"{error}"


def connection_error(
    error: Exception, server: Endpoint, *, library: ClientLibrary, model: str
) -> RetryableError | ModelError:
    """The error that an exception without an HTTP status becomes."""
    import aiohttp

    module, message = library.module, f"{server.address}: {server.quote(describe(error))}"
    broken = (module.APIConnectionError, module.APIResponseValidationError, aiohttp.ClientError)
    if isinstance(error, broken):
        return RetryableError(message, usage=usage_of(error))
    return ModelError(f"{message}; see the settings of model {model}")


def passing_error(
    error: Any,  # noqa: ANN401 - openai's or anthropic's APIStatusError
    message: str,
    *,
    rate_limits: frozenset[int] = frozenset({429}),
) -> RetryableError | None:
    """The error that an HTTP status which may pass becomes; None for another status."""
    status = error.status_code
    if status not in PASSING and status < 500:
        return None
    wait_s = retry_after_seconds(error.response.headers.get("retry-after"), datetime.now(UTC))
    return RetryableError(message, wait_s, is_rate_limited=status in rate_limits, usage=UNCHARGED)


def _http(library: ModuleType) -> ModuleType:
    """The HTTP package a client library is built on: httpx, or its successor."""
    return sys.modules[library.DefaultAsyncHttpxClient.__base__.__module__]
