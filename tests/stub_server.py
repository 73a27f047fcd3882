"""A scripted chat server on loopback: deterministic answers, faults on demand, counters.

In a test: `with StubServer(Script(...)) as stub: stub.url, stub.stats()`. In a process of its
own: `python tests/stub_server.py --port 8001`, then GET /stats and POST /config, whose body holds
fields of Script and sets all counters to zero. It knows nothing of the harness.
"""

import argparse
import asyncio
import hashlib
import json
import re
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from email.utils import formatdate
from random import Random
from threading import Event, Thread
from typing import Any, Self

Shape = Callable[["Script", dict[str, Any], str], dict[str, Any]]

ADJECTIVES = ("quiet", "patient", "crooked", "early", "borrowed", "salty", "second", "tired")
NOUNS = ("ferry", "teapot", "ladder", "neighbour", "harvest", "umbrella", "violin", "market")
VERBS = ("waits for", "forgives", "outlives", "follows", "mistrusts", "greets", "remembers")


@dataclass(frozen=True)
class Script:
    """What the server does.

    `replies` and `faults` go by the first marker the prompt contains ("" is in every prompt): of
    the replies one is taken by the prompt's digest, of the faults the k-th at the k-th attempt,
    "" and nothing left meaning none. `shares` are the probabilities of further faults, drawn from
    seed, prompt and attempt. A fault is a status ("429", "429-date", "400-filter") or a name of
    `Faults.of_body` or CHOICES, "late", "n-ignored" or
    "no-choices".
    """

    models: tuple[Mapping[str, Any], ...] = ({"id": "stub-model"},)
    replies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    faults: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    delay_s: float = 0.0
    late_s: float = 1.0
    retry_after_s: float = 0.02
    key: str | None = None
    models_status: int = 200

    def fault(self, prompt: str, digest: str, attempt: int) -> str:
        """The fault of one attempt, "" for none."""
        listed = next((names for mark, names in self.faults.items() if mark in prompt), ())
        if attempt <= len(listed):
            return listed[attempt - 1]
        draw = Random(f"{self.seed}:{digest}:{attempt}").random()
        for name, share in self.shares.items():
            draw -= share
            if draw < 0:
                return name
        return ""

    def text(self, prompt: str, digest: str) -> str:
        """The answer to a prompt, a function of these two alone."""
        listed = next((texts for mark, texts in self.replies.items() if mark in prompt), ())
        if listed:
            return listed[int(digest, 16) % len(listed)]
        pick = Random(digest)
        subject, object_ = pick.choice(NOUNS), pick.choice(NOUNS)
        return f"The {pick.choice(ADJECTIVES)} {subject} {pick.choice(VERBS)} the {object_}."


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
    attempts: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    bodies: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=1000))

    def told(self) -> dict[str, Any]:
        """The counters, and how often each prompt answered more than once was answered."""
        names = ("requests", "answered", "aborted", "early_retries", "in_flight_max", "model_lists")
        return {
            **{name: getattr(self, name) for name in names},
            "distinct": len(self.attempts),
            "distinct_answered": len(self.answers),
            "repeats": {prompt: n for prompt, n in self.answers.items() if n > 1},
        }


@dataclass(frozen=True)
class Reply:
    """One HTTP reply; `cut` closes the connection half-way through, `wait_s` is asked for."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    wait_s: float = 0.0


def as_json(status: int, value: object) -> Reply:
    """A reply that says what it is."""
    return Reply(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


class Faults:
    """How each fault looks from outside."""

    CODES: Mapping[str, str] = {"400-filter": "content_filter", "429-quota": "insufficient_quota"}

    @classmethod
    def of_status(cls, name: str, *, wait_s: float, key: str) -> Reply:
        """An error reply; 401 says which key it was sent, as careless servers do."""
        status, _, variant = name.partition("-")
        message = f"scripted fault {name}" + f": no such key: {key}" * (status == "401")
        reply = as_json(int(status), {"error": {"message": message, "code": cls.CODES.get(name)}})
        if variant == "date":
            date = time.time() // 1 + 1 + wait_s // 1
            told, wait_s = formatdate(date, usegmt=True), date - time.time()
        elif status == "429":
            told = str(wait_s)
        else:
            return reply
        return replace(reply, headers={**reply.headers, "Retry-After": told}, wait_s=wait_s)

    @staticmethod
    def of_body(name: str, body: dict[str, Any]) -> Reply:
        """A reply with status 200, its body damaged if the name is that of such a fault."""
        sound = as_json(200, body)
        if name == "cut":
            return Reply(200, sound.body, sound.headers, cut=True)
        if name == "malformed":
            return Reply(200, sound.body[: len(sound.body) // 2], sound.headers)
        if name == "non-utf8":
            return Reply(200, sound.body.replace(b"The", b"\xff\xfe"), sound.headers)
        if name == "html":
            return Reply(200, b"<html>busy</html>", {"Content-Type": "text/html"})
        if name == "error-200":
            return as_json(200, {"error": {"message": "upstream is busy", "code": 502}})
        return sound


# What a fault changes in a choice of an OpenAI-shaped answer, and in its message.
CHOICES: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "content-filter": ({"finish_reason": "content_filter"}, {"content": None}),
    "refusal": ({}, {"refusal": "I would rather not say.", "content": None}),
    "length": ({"finish_reason": "length"}, {}),
    "null": ({}, {"content": None}),
    "not-text": ({}, {"content": {"parts": [1, 2]}}),
    "huge": ({}, {"content": "so " * 3_500_000}),
    "surrogate": ({}, {"content": "half an emoji: \ud83d"}),
}


def openai_answer(script: Script, asked: dict[str, Any], fault: str) -> dict[str, Any]:
    """The body of a chat completion."""
    count = 1 if fault == "n-ignored" else asked.get("n", 1)
    choices: list[dict[str, Any]] = []
    for index in range(count):
        text = script.text(prompt_of(asked), digest_of({**asked, "index": index}))
        choice, message = CHOICES.get(fault, ({}, {}))
        message = {"role": "assistant", "content": text} | message
        choices.append({"index": index, "message": message, "finish_reason": "stop"} | choice)
    usage = {"prompt_tokens": len(prompt_of(asked).split()), "completion_tokens": 6 * count}
    body = {"id": "stub", "object": "chat.completion", "created": 0, "model": asked["model"]}
    body |= {"usage": usage | {"total_tokens": sum(usage.values())}}
    # Backwards: a client must go by the index.
    return body if fault == "no-choices" else body | {"choices": choices[::-1]}


SHAPES: Mapping[str, Shape] = {"/v1/chat/completions": openai_answer}


def prompt_of(asked: Mapping[str, Any]) -> str:
    """All words of a request's messages."""
    return "\n".join(str(message["content"]) for message in asked["messages"])


def digest_of(value: object) -> str:
    """What a request is recognised by."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


class StubServer:
    """The server, in a background thread while its context lasts."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        reply: Callable[[str], str] | None = None,
        port: int = 0,
    ) -> None:
        self.script = script or Script()
        self.reply = reply
        self.port = port
        self._counts = Stats()
        self._not_before: dict[str, float] = {}
        self._ready, self._over = Event(), asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """What a client takes as its base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The last requests received, as they were sent."""
        return list(self._counts.bodies)

    def stats(self) -> dict[str, Any]:
        """The counters."""
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
        server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
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
        bearer = re.search(r"(?im)^authorization: *bearer +(.*?)\r$", head)
        key = bearer[1] if bearer else ""
        if method == "POST" and path in SHAPES:
            return await self._answer(path, json.loads(content), key, reader=reader, writer=writer)
        return await _send(writer, self._aside(f"{method} {path}", content, key))

    def _aside(self, what: str, content: bytes, key: str) -> Reply:
        """All that is no question to a model."""
        if what == "GET /v1/models":
            self._counts.model_lists += 1
            if self.script.models_status != 200 or self.script.key not in (None, key):
                status = 401 if self.script.models_status == 200 else self.script.models_status
                return self._failed(str(status), key)
            return as_json(200, {"object": "list", "data": self.script.models})
        if what == "GET /stats":
            return as_json(200, self.stats())
        if what == "POST /config":
            self.script, self._counts, self._not_before = Script(**json.loads(content)), Stats(), {}
            return as_json(200, asdict(self.script))
        return as_json(404, {"error": {"message": f"no such path: {what}"}})

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
        digest, prompt = digest_of(asked), prompt_of(asked)
        counts.attempts[digest] += 1
        counts.bodies.append(asked)
        counts.early_retries += time.monotonic() < self._not_before.get(digest, 0.0)
        fault = script.fault(prompt, digest, counts.attempts[digest])
        if script.key not in (None, key):
            fault = "401"
        async with self._in_flight(counts):
            await asyncio.sleep(script.late_s if fault == "late" else script.delay_s)
            reply = self._made(path, asked, fault, key=key)
            self._not_before[digest] = time.monotonic() + reply.wait_s
            # A client that has given up has closed its side.
            is_open = not reader.at_eof() and await _send(writer, reply)
        counts.aborted += not is_open and not reply.cut
        if is_open and reply.status == 200:
            counts.answered += 1
            counts.answers[f"{digest[:12]} {prompt[:60]}"] += 1
        return is_open

    def _failed(self, name: str, key: str) -> Reply:
        """A reply with an error status."""
        return Faults.of_status(name, wait_s=self.script.retry_after_s, key=key)

    def _made(self, path: str, asked: dict[str, Any], fault: str, *, key: str) -> Reply:
        """The reply to a question."""
        if fault[:3].isdigit():
            return self._failed(fault, key)
        script = self.script
        if self.reply is not None:
            script = Script(replies={"": (self.reply(prompt_of(asked)),)})
        return Faults.of_body(fault, SHAPES[path](script, asked, fault))

    @asynccontextmanager
    async def _in_flight(self, counts: Stats) -> AsyncIterator[None]:
        """Count a question while it is being answered."""
        counts.requests += 1
        counts.in_flight += 1
        counts.in_flight_max = max(counts.in_flight_max, counts.in_flight)
        try:
            yield
        finally:
            counts.in_flight -= 1


async def _send(writer: asyncio.StreamWriter, reply: Reply) -> bool:
    """Send a reply; false where the connection does not survive it."""
    fields = {"Content-Length": str(len(reply.body)), **reply.headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    body = reply.body[: len(reply.body) // 2] if reply.cut else reply.body
    writer.write(f"HTTP/1.1 {reply.status} Scripted\r\n{head}\r\n".encode() + body)
    await writer.drain()
    return not reply.cut and not writer.is_closing()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    with suppress(KeyboardInterrupt), StubServer(port=parser.parse_args().port) as stub:
        print(f"listening on {stub.url}", flush=True)
        Event().wait()
