"""Batches of an OpenAI-compatible server: files, endpoints, and batches refused as a whole."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.batch_bench import KEY, Bench, requests
from support.stub_script import Script
from support.stub_server import StubServer

from harness.errors import ModelError
from harness.parts import Mode

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


def test_the_responses_api_has_batches_of_its_own(bench: Bench) -> None:
    live = {r.key: r for r in bench.live(api="responses").answer(ASKED)}

    assert bench.answers(ASKED, api="responses") == live
    [batch] = bench.stub.batches.made.values()
    assert batch.endpoint == "/v1/responses"
    assert [body["store"] for body in batch.asked.values()] == [False] * 4


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
