"""A chat server on loopback that costs next to nothing, for measurements of its clients.

On two cores a server competes with the processes that ask it. This one takes some 20 microseconds
of CPU for a call: its answers are packed before the first question, and the checksum of a question
says which of them it gets. All wait for the same time, so that the oldest is always due first.
"""

import json
import re
import select
import socket
import subprocess
import sys
import time
from collections import deque
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit
from zlib import crc32

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

DIFFERENT = 4096
"""Texts that are answered."""
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ASIDE = re.compile(rb"[A-Z]+ /(stats|config|v1/models)[ ?]")


def packed(value: object) -> bytes:
    """A reply with status 200 as it is sent."""
    body = json.dumps(value).encode()
    head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return b"HTTP/1.1 200 OK\r\n" + head.encode() + body


def replies() -> list[bytes]:
    """The answers of the tests' stub server to so many questions."""
    from support.stub_script import Script, openai_answer

    asked = ({"model": "stub-model", "messages": [{"content": f"{n}"}]} for n in range(DIFFERENT))
    return [packed(openai_answer(Script(), one, "")) for one in asked]


class Server:
    """All connections in one loop; what is to be said of them is counted from `configure` on."""

    def __init__(self) -> None:
        """Listen on any free port; nobody is answered yet."""
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.listener.setblocking(False)
        self._poll, self._replies = select.epoll(), replies()
        self._open: dict[int, socket.socket] = {}
        self._begun: dict[int, bytes] = {}  # requests that have come in part
        self._waiting: deque[tuple[float, socket.socket, bytes]] = deque()
        self.configure(0.0)

    def configure(self, delay_s: float) -> None:
        """Answer after another time, and count from zero."""
        self._delay_s, self._answered = delay_s, 0
        self._first_s = self._last_s = 0.0
        self._cpu_s = time.process_time()

    def serve(self) -> None:
        """Serve until the process is ended."""
        own = self.listener.fileno()
        self._poll.register(own, select.EPOLLIN)
        while True:
            left_s = self._waiting[0][0] - time.monotonic() if self._waiting else -1.0
            for number, _ in self._poll.poll(left_s if left_s > 0 or not self._waiting else 0):
                if number == own:
                    self._accept()
                else:
                    self._read(number)
            now = time.monotonic()
            while self._waiting and self._waiting[0][0] <= now:
                _, connection, reply = self._waiting.popleft()
                self._send(connection, reply)
                self._answered, self._last_s = self._answered + 1, now

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open[connection.fileno()] = connection
        self._poll.register(connection.fileno(), select.EPOLLIN)

    def _read(self, number: int) -> None:
        connection = self._open[number]
        try:
            content = self._begun.pop(number, b"") + (came := connection.recv(65_536))
        except ConnectionError:
            came = b""
        if not came:
            self._poll.unregister(number)
            self._open.pop(number).close()
            return
        end = content.find(b"\r\n\r\n")
        length = _LENGTH.search(content, 0, end + 2) if end > 0 else None
        if end < 0 or len(content) < end + 4 + (int(length[1]) if length else 0):
            self._begun[number] = content
            return
        if aside := _ASIDE.match(content):
            self._send(connection, self._aside(aside[1], content[end + 4 :]))
            return
        now = time.monotonic()
        self._first_s = self._first_s or now
        reply = self._replies[crc32(content[end + 4 :]) % DIFFERENT]
        self._waiting.append((now + self._delay_s, connection, reply))

    def _aside(self, what: bytes, content: bytes) -> bytes:
        if what == b"config":
            self.configure(json.loads(content)["delay_s"])
        stats = {
            "answered": self._answered,
            "span_s": self._last_s - self._first_s,
            "cpu_s": time.process_time() - self._cpu_s,
        }
        return packed({"data": [{"id": "stub-model"}]} if what == b"v1/models" else stats)

    def _send(self, connection: socket.socket, reply: bytes) -> None:
        """Send a reply, which fits what the kernel holds; who has gone gets none."""
        try:
            connection.send(reply)
        except OSError:
            return


class ServerProcess:
    """The server in a process of its own, while its context lasts."""

    def __enter__(self) -> Self:
        """Start it."""
        command = [sys.executable, str(Path(__file__).absolute())]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = next(iter(self._process.stdout or ())).strip()
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def configure(self, delay_s: float) -> None:
        """Answer after another time, and count from zero."""
        self._fetch("config", json.dumps({"delay_s": delay_s}).encode())

    def stats(self) -> dict[str, Any]:
        """Answers, the seconds from the first question to the last answer, and its CPU seconds."""
        stats: dict[str, Any] = json.loads(self._fetch("stats"))
        return stats

    def _fetch(self, path: str, content: bytes | None = None) -> bytes:
        link = HTTPConnection(urlsplit(self.url).netloc, timeout=10)
        with closing(link):
            link.request("GET" if content is None else "POST", f"/{path}", content)
            return link.getresponse().read()


if __name__ == "__main__":
    server = Server()
    print(f"http://127.0.0.1:{server.listener.getsockname()[1]}/v1", flush=True)
    server.serve()
