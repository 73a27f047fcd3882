"""Anthropic's batches: several replies a request, what a filter held back, lost results."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.batch_bench import KEY, Bench, requests
from support.stub_script import Script
from support.stub_server import StubServer

from harness.errors import ModelError
from harness.parts import Decoding, Reason

ASKED = requests(3)
KEYS = [asked.key for asked in ASKED]
THRICE = requests(2, decoding=Decoding(1.0, n=3))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with StubServer(Script(key=KEY)) as stub:
        yield Bench("anthropic", stub, tmp_path / "batches")


def test_a_reply_is_an_entry_of_its_own_and_all_are_joined(bench: Bench) -> None:
    whole = bench.answers(THRICE)

    [names] = bench.submitted
    assert names == [f"{asked.key[:58]}-{n:05d}" for asked in THRICE for n in range(3)]
    assert [len(response.texts or ()) for response in whole.values()] == [3, 3]
    assert {response.usage.completion_tokens for response in whole.values()} == {18}


def test_replies_of_which_one_failed_are_a_failure_and_asked_again(bench: Bench) -> None:
    bench.stub.batches.end = "expired"
    first = bench.answers(THRICE)
    bench.stub.batches.end = "completed"

    assert all(
        "expired" in (part.failure.message if part.failure else "") for part in first.values()
    )
    assert not any(part.failure for part in bench.answers(THRICE).values())
    assert len(bench.submitted) == 2


def test_what_a_filter_held_back_in_a_batch_is_filtered(bench: Bench) -> None:
    fault = "400-Output blocked by content filtering policy"
    bench.stub.script = Script(key=KEY, faults={"question 1": (fault,)})

    told = bench.answers(ASKED)

    reasons = [part.reason if (part := told[key].failure) else None for key in KEYS]
    assert reasons == [None, Reason.FILTERED, None]


def test_replies_of_which_one_is_missing_are_a_failure(bench: Bench) -> None:
    bench.stub.batches.polls = 1

    def lose_one(_: float) -> None:
        bench.stub.batches.made["batch_1"].asked.popitem()

    responses = bench.model(lose_one)

    told = {part.key: part.failure for part in responses.answer(THRICE)}

    assert [told[asked.key] is None for asked in THRICE] == [True, False]


def test_results_kept_no_longer_are_an_error_that_names_the_file(bench: Bench) -> None:
    bench.stub.batches.is_archived = True

    with pytest.raises(ModelError, match=r"its results were kept until .*or remove .*\.json"):
        bench.answers(ASKED)
