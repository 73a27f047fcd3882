"""A stub server that means harm: any part of any of its replies may be changed by a test.

`HostileServer(reply)` hands each answer to `reply`, `aside` each other reply with what was asked.
"""

import json
from collections.abc import Callable
from typing import Any

from support.stub_script import Reply, Script, as_json
from support.stub_server import StubServer

Change = Callable[[dict[str, Any]], object]
"""From the body that is right to another one: JSON, bytes, or a whole Reply."""
Aside = Callable[[str, Reply], Reply]
"""From what was asked ("GET /v1/models") and the reply that is right to another reply."""
ESCAPES = "\x1b]0;ours now\x07\x1b[2J\x9b31m\u202egnorw\u2066\u200f"
"""What a terminal would obey: a title, a cleared screen, a colour, and text turned about."""


def with_parts(**changes: object) -> Change:
    """A change of the body's own fields."""
    return lambda body: body | changes


def as_reply(value: object) -> Reply:
    """JSON, bytes or a Reply as a reply."""
    if isinstance(value, Reply):
        return value
    return Reply(200, value) if isinstance(value, bytes) else as_json(200, value)


class HostileServer(StubServer):
    """The stub server with changed replies."""

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
