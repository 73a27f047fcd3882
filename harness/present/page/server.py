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


@dataclass
class LiveRuns:
    """The runs of a results folder as they are now; a page's data is made once for each change."""

    results: Path
    folders: Callable[[], list[RunFolder]]
    answers: int = MOST_ANSWERS
    _lock: Lock = field(default_factory=Lock)
    _made: tuple[str, bytes] = ("", b"")
    _counted: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def state(self) -> dict[str, object]:
        """What there is now: a digest of the finished runs, their number, and each model's calls.

        Of calls: the `model`, how many are stored, and how many seconds `ago` the last was. Only
        what was added to the ledger since the last time is read.
        """
        folders = self.folders()
        with self._lock:
            calls = [*map(self._calls, sorted((self.results / "calls").glob("*/")))]
        stored = [one for one in calls if one["calls"]]
        return {"stamp": _stamp(folders), "runs": len(folders), "calls": stored}

    def data(self) -> bytes:
        """The compressed data of the page."""
        with self._lock:
            folders = self.folders()
            stamp = _stamp(folders)
            if stamp != self._made[0]:
                data = page_data(folders, self.results, answers=self.answers)
                self._made = stamp, compressed(data)
            return self._made[1]

    def _calls(self, folder: Path) -> dict[str, object]:
        newest, total = 0.0, 0
        for path in folder.glob("*.jsonl"):
            with suppress(OSError), path.open("rb") as file:
                newest = max(newest, path.stat().st_mtime)
                start, lines = self._counted.get(path, (0, 0))
                file.seek(start)
                while block := file.read(2**20):
                    lines += block.count(b"\n")
                self._counted[path] = file.tell(), lines
                total += lines
        return {"model": folder.name, "calls": total, "ago": max(0.0, time.time() - newest)}


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
        hosts = [[f"{name}:{self.server.server_port}"] for name in (LOOPBACK, "localhost")]
        if self.headers.get_all("Host") not in hosts:
            status, kind, body = HTTPStatus.FORBIDDEN, "text/plain", b"this is not the host\n"
        elif self.headers.get("Sec-Fetch-Site", "none") not in _FORWARDED:
            status, kind, body = HTTPStatus.FORBIDDEN, "text/plain", b"not for other sites\n"
        else:
            status, kind, body = self._found()
        self.send_response(status)
        facts = {"Content-Type": kind, "Content-Length": str(len(body))}
        facts["Content-Security-Policy"] = policy(connect="'self'")
        for name, value in (facts | _HEADERS).items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            with suppress(ConnectionError):  # the browser has left
                self.wfile.write(body)

    def _found(self) -> tuple[HTTPStatus, str, bytes]:
        try:
            match self.path:
                case "/":
                    return HTTPStatus.OK, "text/html; charset=utf-8", shell_text().encode()
                case "/state":
                    state = msgspec.json.encode(self.server.runs.state())
                    return HTTPStatus.OK, "application/json", state
                case "/data":
                    return HTTPStatus.OK, "application/gzip", self.server.runs.data()
        except HarnessError as error:  # a run that is being written, or is damaged
            _log.warning("%s", error)
            return HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", b"the runs cannot be read now\n"
        return HTTPStatus.NOT_FOUND, "text/plain", b"no such page\n"
