"""Batches of an OpenAI-compatible server: files, endpoints, and batches refused as a whole."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.batch_bench import KEY, Bench, request, requests
from support.stub_script import Script
from support.stub_server import StubServer

from harness.errors import ModelError
from harness.parts import Decoding, Mode, Reason

ASKED = requests(4)
KEYS = [asked.key for asked in ASKED]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with StubServer(Script(key=KEY)) as stub:
        yield Bench("openai", stub, tmp_path / "batches")


def test_the_batch_carries_our_name_for_it(bench: Bench) -> None:
    bench.answers(ASKED)

    [record] = bench.files.read()
    assert bench.stub.batches.made["batch_1"].metadata == {"harness_nonce": record.nonce}
    assert (record.provider, record.address) == ("openai", bench.stub.url)


def test_vectors_and_texts_go_into_batches_of_their_own(bench: Bench) -> None:
    embed = requests(2, mode=Mode.EMBED)
    live = {response.key: response for response in bench.live().answer([*ASKED, *embed])}

    assert bench.answers([*embed, *ASKED]) == live
    assert bench.submitted == [KEYS, [asked.key for asked in embed]]
    assert [b.endpoint for b in bench.stub.batches.made.values()] == [
        "/v1/chat/completions",
        "/v1/embeddings",
    ]


def test_several_replies_are_one_line(bench: Bench) -> None:
    [asked] = requests(1, decoding=Decoding(1.0, n=3))

    assert len(bench.answers([asked])[asked.key].texts or ()) == 3
    assert bench.submitted == [[asked.key]]


def test_the_responses_api_has_batches_of_its_own(bench: Bench) -> None:
    live = {r.key: r for r in bench.live(api="responses").answer(ASKED)}

    assert bench.answers(ASKED, api="responses") == live
    [batch] = bench.stub.batches.made.values()
    assert batch.endpoint == "/v1/responses"
    assert [body["store"] for body in batch.asked.values()] == [False] * 4


@pytest.mark.parametrize("spec", [{"api": "responses"}, {"sends_n": False}])
def test_where_a_line_gives_one_reply_each_is_a_line_and_all_are_joined(
    bench: Bench, spec: dict[str, Any]
) -> None:
    asked, other = requests(2, decoding=Decoding(1.0, n=3))

    found = bench.answers([asked, other], **spec)

    assert [len(found[part.key].texts or ()) for part in (asked, other)] == [3, 3]
    assert bench.submitted == [[f"{p.key[:58]}-{n:05d}" for p in (asked, other) for n in range(3)]]


def test_of_several_lines_of_a_request_each_asks_for_one_reply_with_its_own_seed(
    bench: Bench,
) -> None:
    asked = requests(1, decoding=Decoding(1.0, n=3, seed=4))

    bench.answers(asked, sends_n=False)

    [batch] = bench.stub.batches.made.values()
    assert [body["seed"] for body in batch.asked.values()] == [4, 5, 6]
    assert not any("n" in body for body in batch.asked.values())


@pytest.mark.parametrize(
    ("fault", "reason", "word"),
    [
        ("refusal", Reason.REFUSED, "rather not"),
        ("reasoned-away", Reason.TRUNCATED, "cut before the first word"),
        ("failed-rate", Reason.FAILED, "Slow down"),
        ("400-filter", Reason.FILTERED, "answered 400 in a batch"),
    ],
)
def test_by_the_responses_api_a_result_that_is_no_answer_is_its_reason(
    bench: Bench, fault: str, reason: Reason, word: str
) -> None:
    bench.stub.script = Script(faults={"": (fault,)}, key=KEY)
    asked = request("x", decoding=Decoding(n=2))

    failure = bench.answers([asked], api="responses")[asked.key].failure
    assert failure is not None
    assert failure.reason == reason
    assert word in failure.message


@pytest.mark.parametrize(
    ("fault", "reason", "word"),
    [
        ("400-filter", Reason.FILTERED, "answered 400 in a batch"),
        ("content-filter", Reason.FILTERED, "content filter"),
        ("no-choices", Reason.FAILED, "sent no choices"),
        ("n-ignored", Reason.FAILED, "the server ignores n"),
    ],
)
def test_a_result_that_is_no_answer_is_its_reason(
    bench: Bench, fault: str, reason: Reason, word: str
) -> None:
    bench.stub.script = Script(faults={"": (fault,)}, key=KEY)
    asked = request("x", decoding=Decoding(n=2))

    failure = bench.answers([asked])[asked.key].failure
    assert failure is not None
    assert failure.reason == reason
    assert word in failure.message


def test_a_batch_refused_as_a_whole_is_reported_and_can_be_asked_again(bench: Bench) -> None:
    bench.stub.batches.end = "failed"
    with pytest.raises(ModelError, match=r"took none of 1 batches .*Too much"):
        bench.answers(ASKED)
    bench.stub.batches.end = "completed"

    assert bench.files.read() == []
    assert sorted(bench.answers(ASKED)) == sorted(KEYS)
    assert bench.submitted == [KEYS, KEYS]


def test_a_batch_refused_as_a_whole_keeps_no_other_from_being_collected(bench: Bench) -> None:
    server = bench.server()
    server.most_entries, server.most_bytes = 2, 10**6  # type: ignore[misc]  # smaller than it is
    bench.stub.batches.ends = {"batch_1": "failed"}
    responses = bench.model(server=server).answer(ASKED)

    assert sorted(next(responses).key for _ in range(2)) == sorted(KEYS[2:])
    with pytest.raises(ModelError, match="took none of 1 batches"):
        next(responses)
    assert list(bench.answers(ASKED[:2])) == KEYS[1::-1]


@pytest.mark.parametrize("path", ["POST /v1/files", "POST /v1/batches", "GET /v1/files/output"])
def test_a_passing_fault_of_any_call_is_outlived(bench: Bench, path: str) -> None:
    name = path.replace("output", "output-batch_1/content")
    bench.stub.batches.faults = {name: ["503", "503" if path.endswith("batches") else "lost"]}

    found = bench.answers(ASKED)

    assert [part for part in found.values() if part.failure] == []
    assert bench.submitted == [KEYS]
