"""Replies without an end, packed or not: they are not read to it, and never stored."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support.batch_bench import Bench, Kind
from support.batch_bench import request as asked
from support.each import each
from support.hosted import failure_of, hosted
from support.hostile import CHAT, MESSAGE, RESPONSE, VECTOR, Heard, HostileServer, Listener, right
from support.stub_script import Reply

from harness.core import Response
from harness.errors import ModelError
from harness.parts import UNKNOWN_USAGE, Mode, Reason

MIB = 2**20
TOO_LONG = b" " * (17 * MIB)
BODIES = {"chat": CHAT, "responses": RESPONSE, "anthropic": MESSAGE, "embeddings": VECTOR}


def answered(api: str, body: bytes, headers: dict[str, str], **changes: Any) -> Response:  # noqa: ANN401
    def reply(heard: Heard) -> Reply:
        return right(heard) if heard.method == "GET" else Reply(200, body, headers)

    with Listener(reply) as server:
        kind: Any = "chat" if api == "embeddings" else api
        model = hosted(kind, server.url, key_env=None, attempts=3)
        model.resolve()
        mode = Mode.EMBED if api == "embeddings" else Mode.GENERATE
        [response] = model.answer([asked("words", mode=mode, **changes)])
        assert sum(one.method == "POST" for one in server.heard) == 1
    assert isinstance(response, Response)
    return response


@each("api", ["chat", "anthropic", "embeddings"])
def test_a_reply_beyond_the_limit_fails_by_a_reason_of_its_own(api: str) -> None:
    response = answered(api, json.dumps(BODIES[api]).encode() + TOO_LONG, {})

    assert failure_of(response)[0] is Reason.FAILED
    assert f"more than {16 * MIB} bytes" in failure_of(response)[1]
    assert response.usage == UNKNOWN_USAGE


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_results_of_a_batch_beyond_their_limit_end_in_one_message(
    kind: Kind, tmp_path: Path
) -> None:
    def swell(what: str, reply: Reply) -> Reply:
        if not what.endswith(("/content", "/results")):
            return reply
        packed = gzip.compress(reply.body + TOO_LONG)
        return Reply(200, packed, {"Content-Encoding": "gzip"})

    with HostileServer(aside=swell) as stub, pytest.raises(ModelError, match="bytes: it is left"):
        Bench(kind, stub, tmp_path).answers([asked("words")])
