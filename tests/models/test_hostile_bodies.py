"""Bodies of replies that no API has: each becomes an answer or a missing item, and is stored."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.batch_bench import request as asked
from support.each import each
from support.hosted import hosted
from support.hostile import CHAT, MESSAGE, RESPONSE, Heard, Listener, right
from support.stub_script import Reply

from harness.core import Model, Response
from harness.parts import Decoding, Mode, Reason
from harness.storage.ledger import Ledger

ESC = "\x1b]0;x\x07\u202e"
DEEP = "[" * 100_000
LONG = "w" * 500_000
FAILED, REFUSED, TRUNCATED = Reason.FAILED, Reason.REFUSED, Reason.TRUNCATED
Row = tuple[str, object, Reason | str]
"""The API, what changes in its right body (bytes: all of it), and the reason or the text."""


def choice(**changes: object) -> dict[str, object]:
    return {"choices": [CHAT["choices"][0] | changes]}


def parts(*parts: object) -> dict[str, object]:
    return {"output": [{"type": "message", "content": list(parts)}]}


TEXT = {"type": "output_text", "text": "An answer."}
BLOCK = {"type": "text", "text": "An answer."}
ATTACKS: Mapping[str, Row] = {
    "chat: no message in the choice": ("chat", {"choices": [{}]}, FAILED),
    "chat: choices are no objects": ("chat", {"choices": ["An answer.", 3, None]}, FAILED),
    "chat: an index beyond 64 bits": ("chat", choice(index=10**30), "An answer."),
    "chat: a refusal with escapes": ("chat", choice(message={"refusal": f"No{ESC}"}), REFUSED),
    "chat: an endless finish_reason": ("chat", choice(finish_reason=LONG), FAILED),
    "chat: content that is a number": ("chat", choice(message={"content": 4}), FAILED),
    "chat: both halves of an emoji alone": (
        "chat", choice(message={"content": "\ude00\ud83d"}), "\ufffd\ufffd",
    ),
    "chat: a model that is an object": ("chat", {"model": {"id": LONG}}, "An answer."),
    "chat: usage that is a list": ("chat", {"usage": [[[]]]}, "An answer."),
    "chat: an endless error": ("chat", {"choices": None, "error": LONG}, FAILED),
    "chat: JSON nested 100,000 deep": ("chat", DEEP.encode(), FAILED),
    "chat: a number of 5,000 digits": ("chat", b'{"choices": ' + b"9" * 5000 + b"}", FAILED),
    "chat: a byte order mark": ("chat", b"\xef\xbb\xbf" + json.dumps(CHAT).encode(), "An answer."),
    "responses: output of nulls": ("responses", {"output": [None]}, FAILED),
    "responses: content that is an object": (
        "responses", {"output": [{"type": "message", "content": {"text": "a"}}]}, FAILED,
    ),
    "responses: an unknown status": ("responses", {"status": "melted"}, "An answer."),
    "responses: failed by an endless code": (
        "responses", {"status": "failed", "error": {"code": LONG, "message": ESC}}, FAILED,
    ),
    "responses: a cut for an endless reason": (
        "responses", {"status": "incomplete", "incomplete_details": {"reason": LONG}}, FAILED,
    ),
    "responses: a half emoji in a refusal": (
        "responses", parts({"type": "refusal", "refusal": "no \ud83d"}), REFUSED,
    ),
    "responses: 20,000 empty parts": ("responses", parts(*[TEXT | {"text": ""}] * 20_000), ""),
    "anthropic: content that is a text": ("anthropic", {"content": "An answer."}, FAILED),
    "anthropic: an input that is a list": (
        "anthropic", {"content": [{"type": "tool_use", "name": "reply", "input": [1]}]}, FAILED,
    ),
    "anthropic: an endless stop_reason": ("anthropic", {"stop_reason": LONG}, "An answer."),
    "anthropic: an endless explanation": (
        "anthropic",
        {"stop_reason": "refusal", "stop_details": {"explanation": f"{ESC}\ud83d{LONG}"}},
        REFUSED,
    ),
    "anthropic: usage that is a text": ("anthropic", {"usage": "much"}, "An answer."),
    "anthropic: an error as a message": ("anthropic", b'{"type": "error", "error": 3}', FAILED),
}  # fmt: skip
RIGHT = {"chat": CHAT, "responses": RESPONSE, "anthropic": MESSAGE}


def model(api: Any, url: str, **spec: Any) -> Model:  # noqa: ANN401 - of its spec
    return hosted(api, url, key_env=None, **{"attempts": 1, "concurrency": 1} | spec)


def body_of(api: str, change: object) -> bytes:
    if isinstance(change, bytes):
        return change
    assert isinstance(change, dict)
    return json.dumps(RIGHT[api] | change).encode()


def answered(api: str, bodies: list[bytes]) -> list[Response]:
    left = iter(bodies)

    def reply(heard: Heard) -> Reply:
        return right(heard) if heard.method == "GET" else Reply(200, next(left))

    with Listener(reply) as server:
        hostile = model(api, server.url)
        hostile.resolve()
        long = Decoding(max_tokens=9000)
        requests = [asked(f"{at} words", decoding=long) for at in range(len(bodies))]
        found: dict[str, Response] = {}
        for request in requests:  # one by one: many failures in a row would end the command
            [response] = hostile.answer([request])
            found[response.key] = response
    return [found[request.key] for request in requests]


@pytest.mark.parametrize("api", list(RIGHT))
def test_a_body_that_no_api_has_is_an_answer_or_a_missing_item(api: str, tmp_path: Path) -> None:
    rows = {name: row for name, row in ATTACKS.items() if row[0] == api}
    found = answered(api, [body_of(api, change) for _, change, _ in rows.values()])

    seen = {
        name: response.failure.reason if response.failure else (response.texts or ("",))[0]
        for name, response in zip(rows, found, strict=True)
    }
    assert seen == {name: expected for name, (_, _, expected) in rows.items()}

    messages = [response.failure.message for response in found if response.failure]
    assert [m for m in messages if not m.isprintable() or len(m) > 700] == []

    ledger = Ledger(tmp_path)
    for response in found:
        ledger.add(asked("words"), response)
    ledger.close()
    assert Ledger(tmp_path).find([one.key for one in found]) == {one.key: one for one in found}
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 100_000


NEXTS = {"token": "1", "logprob": -0.5}
LOGPROBS: Mapping[str, list[object]] = {
    "a log-probability above 0": [NEXTS | {"logprob": 3.0}],
    "a log-probability that is NaN": [NEXTS | {"logprob": float("nan")}],
    "a log-probability that is a text": [NEXTS | {"logprob": "-1"}],
    "tokens with escapes alone": [NEXTS | {"token": ESC}],
    "no tokens": [],
}


@each("name", list(LOGPROBS))
def test_next_tokens_that_no_model_has_score_no_choice(name: str) -> None:
    told = [{"top_logprobs": LOGPROBS[name]}]

    def reply(heard: Heard) -> Reply:
        if heard.method == "GET":
            return right(heard)
        body = CHAT | choice(logprobs={"content": told})
        return Reply(200, json.dumps(body).encode())

    with Listener(reply) as server:
        hostile = model("chat", server.url, choices="top_logprobs")
        hostile.resolve()
        [response] = hostile.answer([asked("words", mode=Mode.CHOOSE_TOKEN, choices=("1", "2"))])

    assert response.failure is not None
    assert response.failure.reason in (Reason.FAILED, Reason.UNPARSED)
    assert response.failure.message.isprintable()
