"""Run folders to the page: one HTML file with all data in it, or the live one of `--serve`.

The file asks nothing of any host: its policy allows its own script and style by their digests, and
no connection. Texts are data in a compressed block; the script puts them into the page as text.
"""

import base64
import gzip
import hashlib
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from threading import Lock

import msgspec

from harness import __version__
from harness.analysis.boards.ranked import leaderboard
from harness.analysis.boards.scores import judge_fitness
from harness.analysis.boards.views import without_seed
from harness.errors import HarnessError, StoreError
from harness.present.page import items as page_items
from harness.present.page import tables
from harness.present.page.items import MOST_ANSWERS, PageParts, PageSection
from harness.storage.runs import RunFolder
from harness.storage.tables import write_named

REPORT = "report.html"  # the page's name in a results folder, where no other is given
_LEVEL = 6  # of gzip: 9 takes four times as long for a file that is 2 % smaller


_SHOWN = (
    *("title", "texts", "runs", "sections", "samples", "calls", "items", "whys", "chosen", "notes"),
)
"""What of `PageParts` the script reads, with the version and the prompts."""


def write_page(
    folders: Sequence[RunFolder], results: Path, out: Path, *, answers: int = MOST_ANSWERS
) -> tuple[PageParts, int]:
    """Write the page of some runs as one file; what it shows, and its size in bytes."""
    data = page_data(folders, results, answers=answers)
    page = page_text(data).encode()
    write_named(out, page)
    return data, len(page)


def page_data(
    folders: Sequence[RunFolder], results: Path, *, answers: int = MOST_ANSWERS
) -> PageParts:
    """All that a page shows of some runs; their calls ledger is below `results`.

    Of a run with more than so many `answers` it shows about as many, and all its numbers.
    """
    if not folders:
        raise StoreError(f"no runs below {results}/runs; `harness run` makes one, or see --results")
    made = page_items.collect_items(folders, results, answers)
    made.scores, boards, verdicts = leaderboard(folders)
    ordered = tables.in_order(made, boards)
    alarms = [*tables.alarms(made, judge_fitness(boards, verdicts))]
    alarms += tables.trained_on(made.files, folders)
    made.sections = _sections(made, ordered, alarms, {one.key: one for one in folders})
    tasks = list(dict.fromkeys(file.run.task for file in made.files))
    shown = ", ".join(tasks[:3]) + (f" and {len(tasks) - 3} more" if len(tasks) > 3 else "")
    made.title = f"{len(made.runs)} run{'s' * (len(made.runs) != 1)} of {shown}"
    made.place_calls()
    return made


def compressed(data: PageParts) -> bytes:
    """The data of a page as compressed JSON, the same bytes for the same runs."""
    shown = {name: getattr(data, name) for name in _SHOWN}
    shown |= {"version": __version__, "prompts": list(data.prompts)}
    return gzip.compress(msgspec.json.encode(shown), _LEVEL, mtime=0)


def page_text(data: PageParts) -> str:
    """The whole page in one file."""
    return _html(data.title, base64.b64encode(compressed(data)).decode(), connect="'none'")


def shell_text() -> str:
    """The page without data, which it gets from the server that it came from."""
    return _html("Live report", "", connect="'self'")


def policy(*, connect: str) -> str:
    """The content security policy of a page: its own script and style, and no other source."""
    sums = (hashlib.sha256(_asset(f"report.{name}").encode()).digest() for name in ("js", "css"))
    script, style = (base64.b64encode(one).decode() for one in sums)
    return (
        f"default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; "
        f"img-src data:; connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def _html(title: str, block: str, *, connect: str) -> str:
    parts = {
        "TITLE": escape(title),
        "HEADING": escape(title),
        "POLICY": escape(policy(connect=connect), quote=False),
        "STYLE": _asset("report.css"),
        "SCRIPT": _asset("report.js"),
        "DATA": block,
    }
    # Each mark is there once, and the data, which is base64, holds none.
    page = _asset("report.html")
    for name, text in parts.items():
        page = page.replace(f"@@{name}@@", text, 1)
    return page


def _asset(name: str) -> str:
    return (files("harness.present.page") / "assets" / name).read_text("utf-8")


def _sections(
    made: PageParts,
    boards: Sequence[tables.Board],
    alarms: Sequence[str],
    folders: Mapping[str, RunFolder],
) -> list[PageSection]:
    lines, differences = _headlines(made, boards)
    ranked = [tables.leaderboard(made, board) for board in boards]
    mains = [*{own.head.task: own for own in reversed(boards)}.values()][::-1]
    several = tables.several(mains)
    first, rest = ([several], lines) if several else (lines[:1], lines[1:])
    every = [tables.matrix(made, mains)] * (len(mains) > 1)
    found = [
        PageSection("headline", "Result", first, [*map(tables.dots, mains)], every),
        PageSection("alarms", "Alarms", alarms),
        PageSection("leaderboard", "Leaderboard", tables=ranked),
        PageSection("differences", "Differences", rest, tables=differences),
        PageSection("phenomena", "Phenomena", tables=[*tables.phenomena(made, boards)]),
        PageSection("rates", "Rates by group", tables=[*tables.subgroups(folders, boards)]),
        PageSection("asked", "What was asked", [*tables.asked(made.files, made.called)]),
        PageSection("cost", "Cost", tables=[tables.costs(made)]),
    ]
    return [one for one in found if one.lines or one.tables or one.name in ("alarms", "headline")]


def _headlines(
    made: PageParts, boards: Sequence[tables.Board]
) -> tuple[list[str], list[page_items.PageTable]]:
    """A sentence and a table of differences for each task's main board by each of its judges.

    Of boards that differ in the seed alone the first is compared.
    """
    lines, found = list[str](), list[page_items.PageTable]()
    ranked, unranked, seen = set[str](), list[tables.Board](), set[tuple[str, ...]]()
    for board in boards:
        row, key = board.head, without_seed(board.head.recipe)
        if row.variant != tables.main_variant(made.file_of(row)) or key in seen:
            continue
        seen.add(key)
        if board.rows["rank"].isna().all():
            unranked.append(board)
            continue
        ranked.add(row.task)
        compared, differences, notes = tables.differences(made, board)
        lines += [tables.headline(board, compared), *notes]
        found += differences
    left = [board for board in unranked if board.head.task not in ranked]
    return [*lines, *tables.unranked(left)], found


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
    request_queue_size = 128  # five, the library's own, close some of 200 requests at once

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

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a browser that has gone away."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # as it came

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
