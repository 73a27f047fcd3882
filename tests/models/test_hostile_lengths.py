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
from support.toy import Toy

from harness.core import Response
from harness.errors import ModelError
from harness.parts import UNKNOWN_USAGE, Decoding, Mode, Reason

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


@each(
    "encoding",
    ["gzip", " Deflate ", "br", "zstd", "gzip, gzip", "gzip,deflate", "x" * 900, "\x1b[2J"],
)
def test_a_packing_that_nobody_asked_for_is_not_unpacked(encoding: str) -> None:
    body = gzip.compress(gzip.compress(json.dumps(CHAT).encode()))
    reason, message = failure_of(answered("chat", body, {"Content-Encoding": encoding}))

    assert (reason, "not asked for" in message) == (Reason.FAILED, True)
    assert message.isprintable()
    assert len(message) < 300


@each(
    ("api", "part"),
    [
        ("chat", {"choices": [{"message": {"content": "w" * 80_000}}]}),
        ("chat", {"choices": [{"message": {"content": "\u3000" * 20_000 + "w"}}]}),
        ("responses", {"output": [{"type": "message", "content": [
            {"type": "output_text", "text": "w" * 9000}] * 9}]}),
        ("anthropic", {"content": [{"type": "text", "text": "w" * 40_000}] * 2}),
    ],
)  # fmt: skip
def test_an_answer_of_more_characters_than_its_tokens_can_have_is_not_stored(
    api: str, part: dict[str, object]
) -> None:
    body = json.dumps(BODIES[api] | part).encode()
    response = answered(api, body, {}, decoding=Decoding(max_tokens=20))

    assert failure_of(response)[0] is Reason.FAILED
    assert "characters, which no 20 tokens have" in failure_of(response)[1]
    assert (response.usage.prompt_tokens, response.usage.completion_tokens) == (2, 3)


def test_a_long_reply_within_the_limits_is_read_and_stored() -> None:
    padded = json.dumps(CHAT).encode() + b" " * (4 * MIB)
    long = CHAT | {"choices": [{"message": {"content": "w" * 80_000}}]}
    body = json.dumps(long).encode()

    assert answered("chat", padded, {}).texts == ("An answer.",)
    assert answered("chat", body, {}, decoding=Decoding(max_tokens=1000)).texts == ("w" * 80_000,)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_results_of_a_batch_beyond_their_limit_end_in_one_message(
    kind: Kind, tmp_path: Path, *, is_packed: bool
) -> None:
    def swell(what: str, reply: Reply) -> Reply:
        if not what.endswith(("/content", "/results")):
            return reply
        body = reply.body + TOO_LONG
        packed = {"Content-Encoding": "gzip"}
        return Reply(200, gzip.compress(body), packed) if is_packed else Reply(200, body)

    with (
        HostileServer(aside=swell) as stub,
        pytest.raises(ModelError, match="not asked for" if is_packed else "bytes: it is left"),
    ):
        Bench(kind, stub, tmp_path).answers([asked("words")])


def test_a_small_bomb_leaves_no_large_file(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = CHAT | {"choices": [{"message": {"content": "so " * 5_000_000}}]}
    packed = Reply(200, gzip.compress(json.dumps(bomb).encode()), {"Content-Encoding": "gzip"})
    assert len(packed.body) < 40_000
    with Listener(lambda heard: right(heard) if heard.method == "GET" else packed) as server:
        monkeypatch.setenv("HARNESS_SERVER_URL", server.url)
        code = toy.run("--variant", "base", "--limit", "2", model="alpha")

    assert code == 1
    assert sum(path.stat().st_size for path in toy.results.rglob("*") if path.is_file()) < 200_000
