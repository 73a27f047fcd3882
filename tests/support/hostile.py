"""Servers that mean harm: any part of any reply may be changed by a test.

`HostileServer(change)` is the stub server with another body for each answer; `aside` has all its
other replies. `Listener(reply)` says what it likes and keeps what it was sent, headers included.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

from support.stub_script import Reply, Script, as_json
from support.stub_server import StubServer

Change = Callable[[dict[str, Any]], object]
"""From the body that is right to another one: JSON, bytes, or a whole Reply."""
Aside = Callable[[str, Reply], Reply]
"""From what was asked ("GET /v1/models") and the reply that is right to another reply."""
ESCAPES = "\x1b]0;ours now\x07\x1b[2J\x9b31m\u202egnorw\u2066\u200f"
"""What a terminal would obey: a title, a cleared screen, a colour, and text turned about."""


def with_parts(**changes: object) -> Change:
    return lambda body: body | changes


def as_reply(value: object) -> Reply:
    if isinstance(value, Reply):
        return value
    return Reply(200, value) if isinstance(value, bytes) else as_json(200, value)


class HostileServer(StubServer):
    def __init__(
        self,
        change: Change | None = None,
        *,
        aside: Aside | None = None,
        script: Script | None = None,
    ) -> None:
        super().__init__(script)
        self._change, self._change_aside = change, aside

    def _made(self, path: str, asked: dict[str, Any], fault: str, *, key: str) -> Reply:
        reply = super()._made(path, asked, fault, key=key)
        return as_reply(self._change(json.loads(reply.body))) if self._change else reply

    def _aside(self, what: str, content: bytes, key: str) -> Reply:
        reply = super()._aside(what, content, key)
        return self._change_aside(what, reply) if self._change_aside else reply


@dataclass(frozen=True)
class Heard:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Listener:
    """A server on loopback that answers each request with what `reply` makes of it."""

    def __init__(self, reply: Callable[[Heard], Reply]) -> None:
        heard: list[Heard] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                self.close_connection = True
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                heard.append(Heard(self.command, self.path, headers, body))
                told = reply(heard[-1])
                self.send_response_only(told.status)
                for name, value in {"Content-Length": str(len(told.body)), **told.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(told.body)

        self.heard = heard
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # who hangs up

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


CHAT: dict[str, Any] = {
    "model": "m",
    "choices": [{"message": {"content": "An answer."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 2, "completion_tokens": 3},
}
RESPONSE: dict[str, Any] = {
    "model": "m",
    "status": "completed",
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "An answer."}]}],
    "usage": {"input_tokens": 2, "output_tokens": 3},
}
MESSAGE: dict[str, Any] = {
    "model": "m",
    "content": [{"type": "text", "text": "An answer."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 2, "output_tokens": 3},
}
VECTOR: dict[str, Any] = {
    "model": "m",
    "data": [{"embedding": [0.6, 0.8]}],
    "usage": {"prompt_tokens": 2},
}
RIGHT = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": RESPONSE,
    "/v1/messages": MESSAGE,
    "/v1/embeddings": VECTOR,
    "/v1/models": {"data": [{"id": "m"}]},
}


def right(heard: Heard) -> Reply:
    known = RIGHT.get(heard.path.partition("?")[0])
    return as_json(200, known) if known else as_json(404, {"error": {"message": "no such path"}})
