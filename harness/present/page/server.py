"""The page of runs over HTTP: to this machine alone, three addresses, and nothing is written.

A request must name this server as its Host, so that no name of another site that is made to lead
here (DNS rebinding) reads the runs; its headers let no other site embed or read them.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

import msgspec

from harness.errors import HarnessError, StoreError
from harness.present.page.items import MOST_ANSWERS
from harness.present.page.page import compressed, page_data, policy, shell_text
from harness.storage.runs import RunFolder

_log = logging.getLogger(__name__)
LOOPBACK = "127.0.0.1"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_FORWARDED = ("same-origin", "none")
"""What a browser says of requests by the page itself, and of addresses that a person typed."""


class PageServer(ThreadingHTTPServer):
    """A server on loopback of one page, of the runs that `folders` finds below `results`."""

    daemon_threads = True

    def __init__(
        self,
        port: int,
        results: Path,
        folders: Callable[[], list[RunFolder]],
        answers: int = MOST_ANSWERS,
    ) -> None:
        """Listen on a port; 0 takes a free one. StoreError where it is taken."""
        self._results, self._folders, self._answers = results, folders, answers
        self._lock, self._made = Lock(), ("", b"")
        try:
            super().__init__((LOOPBACK, port), PageRequestHandler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or "no port has this number"
            raise StoreError(f"port {port}: {why}; name another with --port") from error

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{LOOPBACK}:{self.server_port}/"

    def state(self) -> dict[str, object]:
        """The number of the finished runs, and a digest of their files' times and sizes."""
        folders, seen = self._folders(), []
        for path in (f.path / name for f in folders for name in ("run.json", "scores.csv")):
            with suppress(OSError):
                seen.append((str(path), path.stat().st_mtime_ns, path.stat().st_size))
        return {"stamp": sha256(repr(seen).encode()).hexdigest(), "runs": len(folders)}

    def data(self) -> bytes:
        """The compressed data of the page, made once for each change of the runs."""
        with self._lock:
            stamp = str(self.state()["stamp"])
            if stamp != self._made[0]:
                data = page_data(self._folders(), self._results, answers=self._answers)
                self._made = stamp, compressed(data)
            return self._made[1]


class PageRequestHandler(BaseHTTPRequestHandler):
    """Answers GET of the page, its state and its data; all else is refused."""

    server: PageServer
    server_version, sys_version = "harness", ""

    def do_GET(self) -> None:
        """Send what was asked for."""
        status, kind, body = self._found()
        self.send_response(status)
        facts = {"Content-Type": kind, "Content-Length": str(len(body))}
        facts["Content-Security-Policy"] = policy(connect="'self'")
        for name, value in (facts | _HEADERS).items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):  # the browser has left
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write no line for each request: the terminal belongs to the person."""

    def _found(self) -> tuple[HTTPStatus, str, bytes]:
        hosts = [[f"{name}:{self.server.server_port}"] for name in (LOOPBACK, "localhost")]
        if self.headers.get_all("Host") not in hosts:
            return HTTPStatus.FORBIDDEN, "text/plain", b"this is not the host\n"
        if self.headers.get("Sec-Fetch-Site", "none") not in _FORWARDED:
            return HTTPStatus.FORBIDDEN, "text/plain", b"not for other sites\n"
        try:
            match self.path:
                case "/":
                    return HTTPStatus.OK, "text/html; charset=utf-8", shell_text().encode()
                case "/state":
                    state = msgspec.json.encode(self.server.state())
                    return HTTPStatus.OK, "application/json", state
                case "/data":
                    return HTTPStatus.OK, "application/gzip", self.server.data()
        except HarnessError as error:  # a run that is being written, or is damaged
            _log.warning("%s", error)
            return HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", b"the runs cannot be read now\n"
        return HTTPStatus.NOT_FOUND, "text/plain", b"no such page\n"
