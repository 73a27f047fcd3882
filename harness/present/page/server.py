"""The page of runs over HTTP: to this machine alone, three addresses, and nothing is written.

A request must name this server as its Host, so that no name of another site that is made to lead
here (DNS rebinding) reads the runs; its headers let no other site embed or read them.
"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Self

import msgspec

from harness.errors import HarnessError, StoreError
from harness.present.page.items import MOST_ANSWERS
from harness.present.page.page import compressed, page_data, policy, shell_text
from harness.storage.frames import Row
from harness.storage.runs import RunFolder

_log = logging.getLogger(__name__)
LOOPBACK = "127.0.0.1"
_JSON, _HTML, _GZIP = "application/json", "text/html; charset=utf-8", "application/gzip"
_FORWARDED = ("same-origin", "none")
"""What a browser says of requests by the page itself, and of addresses that a person typed."""


class LiveCalls(msgspec.Struct, frozen=True):
    """The stored calls of a model, and how many seconds ago the last of them was stored."""

    model: str
    calls: int
    ago: float


class LiveState(msgspec.Struct, frozen=True):
    """A digest of the finished runs, their number, and the calls of each model."""

    stamp: str
    runs: int
    calls: tuple[LiveCalls, ...]


@dataclass
class LiveRuns:
    """The runs of a results folder as they are now; a page's data is made once for each change."""

    results: Path
    folders: Callable[[], list[RunFolder]]
    agreement: Callable[[], list[Row]]
    answers: int = MOST_ANSWERS
    _lock: Lock = field(default_factory=Lock)
    _made: tuple[str, bytes] = ("", b"")
    _counted: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def state(self) -> LiveState:
        """What there is now; reads only what was added to the ledger since the last time."""
        folders = self.folders()
        with self._lock:
            calls = [*map(self._calls, sorted((self.results / "calls").glob("*/")))]
        return LiveState(_stamp(folders), len(folders), tuple(one for one in calls if one.calls))

    def data(self) -> bytes:
        """The compressed data of the page."""
        with self._lock:
            folders = self.folders()
            stamp = _stamp(folders)
            if stamp != self._made[0]:
                data = page_data(folders, self.results, self.agreement(), answers=self.answers)
                self._made = stamp, compressed(data)
            return self._made[1]

    def _calls(self, folder: Path) -> LiveCalls:
        newest, total = 0.0, 0
        for path in folder.glob("*.jsonl"):
            with suppress(OSError):
                newest = max(newest, path.stat().st_mtime)
                total += self._lines(path)
        return LiveCalls(folder.name, total, max(0.0, time.time() - newest))

    def _lines(self, path: Path) -> int:
        start, lines = self._counted.get(path, (0, 0))
        with path.open("rb") as file:
            file.seek(start)
            while block := file.read(2**20):
                lines += block.count(b"\n")
            self._counted[path] = file.tell(), lines
        return lines


def _stamp(folders: Sequence[RunFolder]) -> str:
    seen = []
    for folder in folders:
        for name in ("run.json", "verdicts.parquet", "scores.csv"):
            with suppress(OSError):
                found = (folder.path / name).stat()
                seen.append((str(folder.path), name, found.st_mtime_ns, found.st_size))
    return sha256(repr(seen).encode()).hexdigest()


class PageServer(ThreadingHTTPServer):
    """A server of one page on loopback."""

    daemon_threads = True

    def __init__(self, port: int, runs: LiveRuns) -> None:
        """Listen on a port; 0 takes a free one. StoreError where it is taken."""
        self.runs = runs
        try:
            super().__init__((LOOPBACK, port), PageRequestHandler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or "no port has this number"
            raise StoreError(f"port {port}: {why}; name another with --port") from error

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{LOOPBACK}:{self.server_port}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The Host headers that mean this server."""
        return f"{LOOPBACK}:{self.server_port}", f"localhost:{self.server_port}"

    def serve_until_interrupted(self) -> None:
        """Answer requests until Ctrl+C."""
        with suppress(KeyboardInterrupt):
            self.serve_forever(poll_interval=0.2)

    def __enter__(self) -> Self:
        return self


class PageRequestHandler(BaseHTTPRequestHandler):
    """Answers GET and HEAD of the page, its state and its data; all else is refused."""

    server: PageServer
    server_version, sys_version = "harness", ""

    def do_GET(self) -> None:
        """Send what was asked for."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Send its headers."""
        self._answer(with_body=False)

    def log_message(self, format: str, *args: object) -> None:
        """Write no line for each request: the terminal belongs to the person."""

    def _answer(self, *, with_body: bool) -> None:
        if self.headers.get_all("Host") not in [[host] for host in self.server.hosts]:
            status, kind, body = HTTPStatus.FORBIDDEN, "text/plain", b"this is not the host\n"
        elif self.headers.get("Sec-Fetch-Site", "none") not in _FORWARDED:
            status, kind, body = HTTPStatus.FORBIDDEN, "text/plain", b"not for other sites\n"
        else:
            status, kind, body = self._found()
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": policy(connect="'self'"),
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            with suppress(ConnectionError):  # the browser has left
                self.wfile.write(body)

    def _found(self) -> tuple[HTTPStatus, str, bytes]:
        try:
            match self.path:
                case "/":
                    return HTTPStatus.OK, _HTML, shell_text().encode()
                case "/state":
                    return HTTPStatus.OK, _JSON, msgspec.json.encode(self.server.runs.state())
                case "/data":
                    return HTTPStatus.OK, _GZIP, self.server.runs.data()
        except HarnessError as error:  # a run that is being written, or is damaged
            _log.warning("%s", error)
            return HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", b"the runs cannot be read now\n"
        return HTTPStatus.NOT_FOUND, "text/plain", b"no such page\n"
