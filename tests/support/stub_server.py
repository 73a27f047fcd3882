"""A scripted chat server on loopback, for every test that needs one.

In a test: `with StubServer(Script(...)) as stub: stub.url, stub.stats()`. In a process of its
own: StubProcess, or in tests/ `python -m support.stub_server --port 8001`, then GET /stats and
POST /config,
whose body holds fields of Script and sets all counters to zero.
"""

import argparse
import asyncio
import json
import re
import socket
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

from support import stub_script
from support.stub_batches import Batches
from support.stub_shapes import ANTHROPIC_SHAPES, MODERATION_SHAPES, RESPONSES_SHAPES, as_anthropic

ALL_SHAPES = {**stub_script.SHAPES, **ANTHROPIC_SHAPES, **RESPONSES_SHAPES, **MODERATION_SHAPES}


@dataclass
class Stats:
    """What has happened since the server started or was configured."""

    requests: int = 0
    answered: int = 0
    aborted: int = 0
    early_retries: int = 0
    in_flight: int = 0
    in_flight_max: int = 0
    model_lists: int = 0
    first_s: float = 0.0
    last_s: float = 0.0
    attempts: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    waits_s: dict[str, float] = field(default_factory=dict)
    bodies: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=1000))

    def count_answer(self, prompt: str, count: int) -> None:
        """Count an answer, or take it back where it was not received."""
        self.answered += count
        self.answers[prompt] += count
        self.last_s = time.monotonic() if count > 0 else self.last_s

    def told(self) -> dict[str, Any]:
        """The counters, and how often each prompt answered more than once was answered.

        `longest_waits_s` is what one prompt was made to wait in all: late answers, Retry-After.
        """
        names = ("requests", "answered", "aborted", "early_retries", "in_flight", "in_flight_max")
        return {
            "model_lists": self.model_lists,
            **{name: getattr(self, name) for name in names},
            "span_s": self.last_s - self.first_s,
            "distinct": len(self.attempts),
            "distinct_answered": sum(n > 0 for n in self.answers.values()),
            "longest_waits_s": max(self.waits_s.values(), default=0.0),
            "repeats": {prompt: n for prompt, n in self.answers.items() if n > 1},
        }


class StubServer:
    """The server, in a background thread while its context lasts."""

    def __init__(
        self,
        script: stub_script.Script | None = None,
        *,
        reply: Callable[[str], str] | None = None,
        port: int = 0,
    ) -> None:
        self.script = script or stub_script.Script()
        self.reply = reply
        self.batches = Batches()
        self._socket = socket.create_server(("127.0.0.1", port), backlog=1024)
        self._port: int = self._socket.getsockname()[1]
        self._counts = Stats()
        self._not_before: dict[str, float] = {}
        self._ready, self._over = Event(), asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The last requests received, as they were sent."""
        return list(self._counts.bodies)

    def stats(self) -> dict[str, Any]:
        return self._counts.told()

    def __enter__(self) -> Self:
        self._thread = Thread(target=lambda: asyncio.run(self.serve()), name="stub")
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    async def serve(self) -> None:
        """Serve until the context is left."""
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._connected, sock=self._socket)
        self._ready.set()
        await self._over.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client's connection, request after request."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._exchange(reader, writer):
                    pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read one request and reply; false once the connection is to be closed."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, path, _ = head.split(" ", 2)
        length = re.search(r"(?im)^content-length: *(\d+)", head)
        content = await reader.readexactly(int(length[1]) if length else 0)
        bearer = re.search(r"(?im)^(?:authorization: *bearer|x-api-key:) +(.*?)\r$", head)
        key = bearer[1] if bearer else ""
        if method == "POST" and path in ALL_SHAPES:
            return await self._answer(path, json.loads(content), key, reader=reader, writer=writer)
        reply = self._aside(f"{method} {path}", content, key)
        is_anthropic = re.search(r"(?im)^anthropic-version:", head)
        return await _send(writer, as_anthropic(reply) if is_anthropic else reply)

    def _aside(self, what: str, content: bytes, key: str) -> stub_script.Reply:
        """All that is no question to a model."""
        if what == "GET /v1/models":
            self._counts.model_lists += 1
            if self.script.models_status != 200 or self.script.key not in (None, key):
                status = 401 if self.script.models_status == 200 else self.script.models_status
                return self._failed(str(status), key)
            return stub_script.as_json(200, {"object": "list", "data": self.script.models})
        if what == "GET /stats":
            return stub_script.as_json(200, self.stats())
        if what == "POST /config":
            return self._configured(content)
        if self.script.key not in (None, key):
            return self._failed("401", key)
        in_batch = self.batches.reply(what, content, self._in_batch)
        return in_batch or stub_script.as_json(404, {"error": {"message": f"no such path: {what}"}})

    def _in_batch(self, path: str, asked: dict[str, Any]) -> stub_script.Reply:
        """The reply to a question in a batch, which is a first attempt."""
        self._counts.bodies.append(asked)
        fault = self.script.fault(stub_script.prompt_of(asked), stub_script.digest_of(asked), 1)
        return self._made(path, asked, fault, key="")

    def _configured(self, content: bytes) -> stub_script.Reply:
        """Follow another script, and count from zero."""
        try:
            self.script = stub_script.Script(**json.loads(content))
        except (TypeError, ValueError) as error:
            return stub_script.as_json(400, {"error": {"message": str(error)}})
        self._counts, self._not_before = Stats(), {}
        return stub_script.as_json(200, asdict(self.script))

    async def _answer(
        self,
        path: str,
        asked: dict[str, Any],
        key: str,
        *,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Answer one question to the model, or fail it as the script says."""
        counts, script = self._counts, self.script
        digest, prompt = stub_script.digest_of(asked), stub_script.prompt_of(asked)
        counts.attempts[digest] += 1
        counts.bodies.append(asked)
        counts.early_retries += time.monotonic() < self._not_before.get(digest, 0.0)
        fault = script.fault(prompt, digest, counts.attempts[digest])
        if script.key not in (None, key):
            fault = "401"
        came = time.monotonic()
        async with self._in_flight(counts):
            await (
                _left(reader, script.late_s) if fault == "late" else asyncio.sleep(script.delay_s)
            )
            reply = self._made(path, asked, fault, key=key)
            wait_until = time.monotonic() + reply.wait_s
            waited = wait_until - came - script.delay_s
            counts.waits_s[digest] = counts.waits_s.get(digest, 0.0) + waited
            self._not_before[digest] = max(wait_until, self._not_before.get(digest, 0.0))
            # A client that has given up has closed its side.
            is_answer = not reader.at_eof() and reply.status == 200 and not reply.cut
            # Counted first: who has the answer may ask for the counts at once.
            counts.count_answer(f"{digest[:12]} {prompt[:60]}", 1 if is_answer else 0)
            is_open = not reader.at_eof() and await _send(writer, reply)
        counts.aborted += not is_open and not reply.cut
        if is_answer and not is_open:
            counts.count_answer(f"{digest[:12]} {prompt[:60]}", -1)
        return is_open

    def _failed(self, name: str, key: str) -> stub_script.Reply:
        return stub_script.Faults.of_status(name, wait_s=self.script.retry_after_s, key=key)

    def _made(self, path: str, asked: dict[str, Any], fault: str, *, key: str) -> stub_script.Reply:
        if fault[:3].isdigit():
            reply = self._failed(fault, key)
            return as_anthropic(reply) if path in ANTHROPIC_SHAPES else reply
        script = self.script
        if self.reply is not None:
            script = stub_script.Script(replies={"": (self.reply(stub_script.prompt_of(asked)),)})
        body = stub_script.with_key(ALL_SHAPES[path](script, asked, fault), key, fault)
        return stub_script.Faults.of_body(fault, body)

    @asynccontextmanager
    async def _in_flight(self, counts: Stats) -> AsyncIterator[None]:
        """Count a question while it is being answered."""
        counts.first_s = counts.first_s or time.monotonic()
        counts.requests += 1
        counts.in_flight += 1
        counts.in_flight_max = max(counts.in_flight_max, counts.in_flight)
        try:
            yield
        finally:
            counts.in_flight -= 1


async def _left(reader: asyncio.StreamReader, seconds: float) -> None:
    """Wait until the client, which never sends ahead, hangs up; for some seconds at most."""
    with suppress(TimeoutError):
        await asyncio.wait_for(reader.read(1), seconds)


async def _send(writer: asyncio.StreamWriter, reply: stub_script.Reply) -> bool:
    """Send a reply; false where the connection does not survive it."""
    fields = {"Content-Length": str(len(reply.body)), **reply.headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    body = reply.body[: len(reply.body) // 2] if reply.cut else reply.body
    whole = f"{reply.version} {reply.status} Scripted\r\n{head}\r\n".encode() + body
    writer.write(whole if reply.version else b"")
    await writer.drain()
    return not reply.cut and not writer.is_closing()


class StubProcess:
    """The server in a process of its own, while its context lasts."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "support.stub_server"]
        tests = Path(__file__).parents[1]
        self._process = subprocess.Popen(command, cwd=tests, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().split()[-1]
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def configure(self, script: stub_script.Script) -> None:
        """Follow another script, and count from zero."""
        self._fetch("config", json.dumps(asdict(script)).encode())

    def stats(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._fetch("stats"))
        return told

    def _fetch(self, path: str, content: bytes | None = None) -> bytes:
        request = HttpRequest(self.url.removesuffix("v1") + path, data=content)
        with urlopen(request, timeout=10) as reply:
            body: bytes = reply.read()
        return body


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    with suppress(KeyboardInterrupt), StubServer(port=parser.parse_args().port) as stub:
        print(f"listening on {stub.url}", flush=True)
        Event().wait()
