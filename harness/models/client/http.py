"""HTTP clients of the providers' libraries: what may be sent along, and what may come back.

No header of the environment is sent, no redirect is followed, nothing on this machine is asked
through a proxy, and no reply is read beyond a limit, compressed or not. Knows no provider's format.
"""

import os
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from threading import Lock
from types import ModuleType
from typing import Any

import msgspec

from harness.errors import ModelError
from harness.models.client.retry import PermanentError, RetryableError
from harness.parts import Reason

MOST_BYTES = 16 * 2**20
"""Of a reply's body, unpacked. The log-probabilities of a long prompt take a few million."""
PACKED = frozenset({"gzip", "x-gzip", "deflate"})
_making = Lock()
_handed_over: ContextVar[Any] = ContextVar("handed over", default=None)


@dataclass(slots=True)
class ReplyGuard:
    """Reads a reply before the client library does; raises ModelError for a redirect.

    `address` and `remedy` name the server and how another one is set. PermanentError for a body of
    more than `most_bytes`, or one packed as nobody asked; RetryableError for a damaged one.
    """

    address: str
    remedy: str
    http: ModuleType
    most_bytes: int = MOST_BYTES

    def read(self, response: Any) -> None:  # noqa: ANN401 - the library's response
        """Read the body of a response of a synchronous client."""
        body = self._body(response)
        for chunk in response.stream:
            body.add(chunk)
        response.stream.close()
        response.stream = self.http.ByteStream(body.content)

    async def read_async(self, response: Any) -> None:  # noqa: ANN401 - the library's response
        """Read the body of a response of an asynchronous client."""
        body = self._body(response)
        async for chunk in response.stream:
            body.add(chunk)
        await response.stream.aclose()
        response.stream = self.http.ByteStream(body.content)

    def _body(self, response: Any) -> "_Body":  # noqa: ANN401 - the library's response
        status, headers = response.status_code, response.headers
        if 300 <= status < 400:
            target = shown_address(headers.get("location", "")) or "no address"
            raise ModelError(
                f"{self.address} answered {status} and sends calls on to {target}: nothing is sent "
                f"there; {self.remedy} to the address that is meant, if you trust it"
            )
        packing = headers.pop("content-encoding", "identity").strip().lower()
        if packing not in PACKED | {"identity", ""}:
            fact = f"{self.address} packed its reply as {packing[:40]!r}, which was not asked for"
            raise PermanentError(Reason.FAILED, fact)
        return _Body(self, zlib.decompressobj(47) if packing in PACKED else None)


class _Body:
    """A body as it comes, unpacked up to the limit and never beyond it."""

    def __init__(self, guard: ReplyGuard, unpacking: Any) -> None:  # noqa: ANN401 - zlib's class has no public name
        self._guard, self._unpacking = guard, unpacking
        self._chunks: list[bytes] = []
        self._size = 0

    @property
    def content(self) -> bytes:
        return b"".join(self._chunks)

    def add(self, chunk: bytes) -> None:
        guard = self._guard
        if self._unpacking is not None:
            try:
                chunk = self._unpacking.decompress(chunk, guard.most_bytes + 1 - self._size)
            except zlib.error as error:
                raise RetryableError(f"{guard.address} sent a damaged reply ({error})") from None
        self._size += len(chunk)
        if self._size > guard.most_bytes:
            raise PermanentError(
                Reason.FAILED,
                f"{guard.address} sent a reply of more than {guard.most_bytes} bytes: it is left "
                "unread",
            )
        self._chunks.append(chunk)


def shown_address(url: str) -> str:
    """An address, damaged or not, as a message may show it: no user, no password, no query."""
    plain = url.partition("?")[0].partition("#")[0]
    start, slashes, rest = plain.partition("//")
    host, slash, path = rest.partition("/")
    line = f"{start}{slashes}{host.rpartition('@')[2]}{slash}{path}"
    return "".join(letter for letter in line if letter.isprintable())[:200]


def http_client(
    library: ModuleType, connections: int, guard: ReplyGuard, *, is_local: bool = False
) -> Any:  # noqa: ANN401 - openai's or anthropic's
    """An HTTP client for a client library: asynchronous, of so many connections, or synchronous.

    `is_local` says that the server is on this machine: it is not asked through a proxy.
    """
    http = http_of(library)
    options: dict[str, Any] = {
        "verify": _ssl_context(http),
        "follow_redirects": False,
        "headers": {"Accept-Encoding": "gzip, deflate"},
        "mounts": {"all://": None, "http://": None, "https://": None} if is_local else None,
    }
    if not connections:
        hooks = {"response": [guard.read]}
        return library.DefaultHttpxClient(event_hooks=hooks, **options)
    limits = http.Limits(max_connections=connections, max_keepalive_connections=connections)
    options |= {"limits": limits, "event_hooks": {"response": [guard.read_async]}}
    return _lean_client(library)(**options)


@cache
def _lean_client(library: ModuleType) -> Any:  # noqa: ANN401 - a class of the library's
    """The library's aiohttp client, which makes requests like one that the library has worded.

    Addresses and headers are the same for all calls of a path; worded and read anew for each they
    take a third of its time.
    """
    http = http_of(library)
    shipped: Any = library.DefaultAioHttpClient

    class LeanClient(shipped):  # type: ignore[misc]  # which class is known when it is run
        def __init__(self, **options: Any) -> None:  # noqa: ANN401 - the library's own
            super().__init__(**options)
            self._worded: dict[str, dict[str, Any]] = {}

        def build_request(
            self,
            method: str,
            url: Any,  # noqa: ANN401 - a text, or the library's own record
            **parts: Any,  # noqa: ANN401 - as above
        ) -> Any:  # noqa: ANN401 - as above
            made = super().build_request(method, url, **parts)
            if isinstance(url, str):
                around = {"url": made.url, "headers": made.headers.copy()}
                around["headers"].pop("content-length", None)  # that of this body
                self._worded[url] = {"method": method, **around, "extensions": made.extensions}
            return made

        def like_earlier(self, url: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as above
            """A request like the last that the library has worded; None where it has none yet."""
            if (around := self._worded.get(url)) is None:
                return None
            request = http.Request(**around, stream=http.ByteStream(msgspec.json.encode(body)))
            request.read()
            return request

        async def send(self, request: Any, **how: Any) -> Any:  # noqa: ANN401 - as above
            outcome = _handed_over.get()
            if isinstance(outcome, Exception):
                raise outcome
            return outcome or await super().send(request, **how)

    return LeanClient


@contextmanager
def handed_over(outcome: Any) -> Iterator[None]:  # noqa: ANN401 - a reply, or an error
    """Send nothing that the library would, and let this be what comes of it."""
    token = _handed_over.set(outcome)
    try:
        yield
    finally:
        _handed_over.reset(token)


def http_of(library: ModuleType) -> ModuleType:
    """The module that a client library makes its HTTP clients of."""
    return sys.modules[library.DefaultAsyncHttpxClient.__base__.__module__]


@contextmanager
def without_settings(prefix: str) -> Iterator[None]:
    """Hide the variables of a client library while it is made: headers, organisations, addresses.

    It would send them to any server. Those about its logs and its telemetry stay.
    """
    with _making:
        hidden = {name: value for name, value in os.environ.items() if _is_hidden(name, prefix)}
        for name in hidden:
            del os.environ[name]
        try:
            yield
        finally:
            os.environ.update(hidden)


def _is_hidden(name: str, prefix: str) -> bool:
    return name.startswith(f"{prefix}_") and not ("LOG" in name or "TELEMETRY" in name)


@cache
def _ssl_context(http: ModuleType) -> Any:  # noqa: ANN401 - an ssl.SSLContext
    """The certificates to trust, loaded once: each client would take 25 ms to load its own."""
    return http.create_ssl_context()
