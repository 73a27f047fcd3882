"""Providers of batches that lie about them: no call is lost, doubled or taken for another's."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.batch_bench import KEY, Bench, Kind
from support.batch_bench import requests as asked
from support.hostile import HostileServer
from support.stub_script import Reply, as_json

from harness.errors import ModelError
from harness.parts import Reason

ESC = "\x1b]0;x\x07"
LONG = "w" * 300_000
Line = dict[str, Any]


def results(change: Callable[[list[Line]], list[object]]) -> Callable[[str, Reply], Reply]:
    def aside(what: str, reply: Reply) -> Reply:
        if not what.startswith("GET") or not what.endswith(("/content", "/results")):
            return reply
        lines = change([json.loads(line) for line in reply.body.split(b"\n") if line])
        told = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines]
        return Reply(200, b"\n".join(told))

    return aside


def state(**changes: object) -> Callable[[str, Reply], Reply]:
    def aside(what: str, reply: Reply) -> Reply:
        is_state = "batches" in what and not what.endswith("/results") and reply.status == 200
        return as_json(200, json.loads(reply.body) | changes) if is_state else reply

    return aside


def failed(error: object) -> Callable[[list[Line]], list[object]]:
    response = {"status_code": 400, "body": {"error": error}}
    result = {"type": "errored", "error": {"error": error}}
    return lambda lines: [
        {"custom_id": one["custom_id"], "response": response, "result": result} for one in lines
    ]


def set_parts(**parts: object) -> Callable[[list[Line]], list[object]]:
    def change(line: Line) -> Line:
        key = "response" if "response" in line else "result"
        return line | {key: line[key] | parts}

    return lambda lines: [change(one) for one in lines]


def contradicted(lines: list[Line]) -> list[object]:
    return [*lines, *failed({"message": "no"})(lines)]


def crowded(lines: list[Line]) -> list[object]:
    return [*lines, *(one | {"custom_id": f"x{n}"} for n, one in enumerate(lines * 50))]


LINES: Mapping[str, Callable[[list[Line]], list[object]]] = {
    "each result twice": lambda lines: [*lines, *lines],
    "results of others": crowded,
    "lines that are no objects": lambda lines: [b"3", b"null", b"[]", b'"a"', *lines],
    "bytes that are no UTF-8": lambda lines: [b"\xff\xfe\x00", *lines],
    "blank lines": lambda lines: [b"", b" ", *lines, b"\r"],
}
"""Attacks that change no answer."""
FAILING: Mapping[str, Callable[[list[Line]], list[object]]] = {
    "no lines at all": lambda _: [],
    "results of other requests alone": lambda lines: [one | {"custom_id": "x"} for one in lines],
    "a body that is null": set_parts(body=None, message=None),
    "an unknown kind of result": set_parts(status_code=0, type=f"odd{ESC}"),
    "an error with our key": failed({"message": f"{KEY}{ESC}"}),
}
"""Attacks that leave each answer missing, by a reason."""
STATES: Mapping[str, dict[str, object]] = {
    "counts beyond 64 bits": {"request_counts": {"total": 10**30, "succeeded": 10**30}},
    "a time in the far future": {"created_at": "9999-12-31T23:59:59Z"},
}
"""States of a batch that change no answer."""
KINDS = ["openai", "anthropic"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*LINES, "each contradicted", *STATES])
def test_odd_lines_and_odd_states_change_no_answer(kind: Kind, name: str, tmp_path: Path) -> None:
    changes = STATES.get(name, {})
    if kind == "openai" and "created_at" in changes:
        changes = {"created_at": 253402300799}
    aside = state(**changes) if changes else results(LINES.get(name, contradicted))
    with HostileServer(aside=aside) as stub:
        found = Bench(kind, stub, tmp_path).answers(asked(3))

    assert len(found) == 3
    assert name == "each contradicted" or all(response.texts for response in found.values())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FAILING)
def test_results_of_no_answer_have_a_reason(kind: Kind, name: str, tmp_path: Path) -> None:
    with HostileServer(aside=results(FAILING[name])) as stub:
        found = Bench(kind, stub, tmp_path).answers(asked(3))

    failures = [response.failure for response in found.values()]
    assert [why.reason if why else None for why in failures] == [Reason.FAILED] * 3
    messages = [why.message for why in failures if why]
    assert [m for m in messages if not m.isprintable() or len(m) > 700 or KEY in m] == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "changes",
    [
        *({"id": 3}, {"id": None}, {"id": f"../../etc{ESC}?a=b#c"}),
        *({"status": 5, "processing_status": 5}, {"request_counts": "many"}),
        {"status": None, "processing_status": None},
    ],
    ids=str,
)
def test_what_is_no_batch_is_told(kind: Kind, changes: dict[str, object], tmp_path: Path) -> None:
    with HostileServer(aside=state(**changes)) as stub, pytest.raises(ModelError) as told:
        Bench(kind, stub, tmp_path).answers(asked(1))

    assert str(told.value).isprintable()
    assert len(str(told.value)) < 1000
    assert {path.parent for path in tmp_path.rglob("*")} <= {tmp_path}
