"""HTTP calls to one server by aiohttp: what may be sent along, and what may come back."""

import asyncio
import json
import os
import re
import ssl
from collections.abc import AsyncIterator, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from harness.errors import ModelError
from harness.models.client.endpoint import Endpoint, shown_address
from harness.models.client.retry import PermanentError, RetryableError
from harness.parts import UNCHARGED, UNKNOWN_USAGE, Reason

if TYPE_CHECKING:
    import aiohttp

_T = TypeVar("_T")
# Of a reply's body. The log-probabilities of a long prompt take a few million.
MOST_BYTES = 16 * 2**20
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}


class HttpError(Exception):
    """A reply with an error's status, the path that was asked, and the headers of the reply."""

    def __init__(
        self, status: int, content: bytes, *, path: str, headers: Mapping[str, str]
    ) -> None:
        """Keep the arguments."""
        self.status, self.path, self.headers = status, path, headers
        self.text = content.decode("utf-8", "replace").strip() or f"status {status}"
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            body = {}
        found = body.get("error", body) if isinstance(body, dict) else {}
        self.problem: dict[str, Any] = found if isinstance(found, dict) else {}
        super().__init__(f"{status}: {self.text}")

    @property
    def words(self) -> str:
        """The message in the body, or all of it."""
        return str(self.problem.get("message") or self.text)


class Connection:
    """Open connections to a server, inside one event loop."""

    def __init__(self, server: Endpoint, session: "aiohttp.ClientSession") -> None:
        """Keep the arguments."""
        self._server, self._session, self._proxy = server, session, proxy_of(server)

    async def request(
        self,
        method: str,
        path: str,
        body: "Mapping[str, Any] | bytes | aiohttp.FormData | None" = None,
        *,
        most: int = MOST_BYTES,
    ) -> bytes:
        """The body of the reply at a path; a mapping is sent as JSON, and bytes are JSON already.

        HttpError for an error's status, RetryableError without a reply, ModelError at a redirect.
        """
        import aiohttp

        url = self._server.url.rstrip("/") + path
        data = msgspec.json.encode(body) if isinstance(body, Mapping) else body
        try:
            headers = {"Content-Type": "application/json"} if isinstance(data, bytes) else {}
            safe: dict[str, Any] = {"allow_redirects": False, "proxy": self._proxy}
            async with self._session.request(
                method, url, data=data, headers=headers, **safe
            ) as reply:
                content = await self._read(reply, most)
        except aiohttp.ServerTimeoutError:
            raise
        except aiohttp.ClientError as error:
            # aiohttp names certificates in errors of plain HTTP, too.
            words = re.sub(r" ssl:(default|<[^>]*>)", "", str(error))
            message = f"{self._server.address}: no reply ({self._server.quote(words)})"
            is_unmade = isinstance(error, aiohttp.ClientConnectorError)  # which costs nothing
            usage = UNCHARGED if is_unmade else UNKNOWN_USAGE
            raise RetryableError(message, usage=usage) from None
        if reply.status >= 400:
            raise HttpError(reply.status, content, path=urlsplit(url).path, headers=reply.headers)
        return content

    async def _read(self, reply: "aiohttp.ClientResponse", most: int) -> bytes:
        """The body, up to the limit and never beyond it."""
        address = self._server.address
        if 300 <= reply.status < 400:
            location = shown_address(self._server.masked(reply.headers.get("location", "")))
            target = location or "no address"
            raise ModelError(
                f"{address} answered {reply.status} and sends calls on to {target}: nothing is "
                f"sent there; {self._server.remedy} to the address that is meant, if you trust it"
            )
        packing = reply.headers.get("content-encoding", "identity").strip().lower()
        if packing not in ("identity", ""):
            fact = f"{address} packed its reply as {packing[:40]!r}, which was not asked for"
            raise PermanentError(Reason.FAILED, fact)
        content = bytearray()
        async for chunk in reply.content.iter_any():
            content += chunk
            if len(content) > most:
                fact = f"{address} sent a reply of more than {most} bytes: it is left unread"
                raise PermanentError(Reason.FAILED, fact)
        return bytes(content)


@asynccontextmanager
async def connected(
    server: Endpoint, headers: Mapping[str, str], *, most: int = 1
) -> AsyncIterator[Connection]:
    """At most so many connections to a server; `headers` go with each call."""
    import aiohttp

    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=most, ssl=trusted()),
        headers={**HEADERS, **headers},
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
    ) as session:
        yield Connection(server, session)


def wait_for(work: Coroutine[Any, Any, _T]) -> _T:
    """The result of a coroutine; in a thread of its own if an event loop runs here (notebooks)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def proxy_of(server: Endpoint) -> str | None:
    """The proxy that the environment names for a server; None for one on this machine."""
    parts = urlsplit(server.url)
    if server.remote_host is None or proxy_bypass(parts.hostname or ""):
        return None
    found = getproxies()
    proxy = found.get(parts.scheme) or found.get("all")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


@cache
def trusted() -> ssl.SSLContext:
    """The certificates to trust, loaded once: it takes 25 ms."""
    import certifi

    return ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE") or certifi.where())
