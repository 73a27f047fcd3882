"""Anthropic's batches: several replies a request, and lost batches known by their results."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.batch_bench import KEY, Bench, Killed, killed, requests
from support.stub_script import Script
from support.stub_server import StubServer

from harness.errors import ModelError
from harness.models.client.batch_api import BatchRecord
from harness.models.client.retry import RetryableError
from harness.parts import Decoding, Reason

ASKED = requests(3)
KEYS = [asked.key for asked in ASKED]
THRICE = requests(2, decoding=Decoding(1.0, n=3))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with StubServer(Script(key=KEY)) as stub:
        yield Bench("anthropic", stub, tmp_path / "batches")


def found(bench: Bench, **changes: object) -> str | None:
    """What the lost batch of a record is taken to be."""
    [record] = bench.files.read()
    lost: BatchRecord = replace(record, id=None, state="planned", **changes)  # type: ignore[arg-type]  # of its fields
    return bench.server().find(lost, known=())


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
    responses = bench.model(lambda _: bench.stub.batches.made["batch_1"].asked.popitem())

    told = {part.key: part.failure for part in responses.answer(THRICE)}

    assert [told[asked.key] is None for asked in THRICE] == [True, False]


def test_a_batch_that_ended_is_known_by_its_results(bench: Bench) -> None:
    bench.answers(ASKED)

    assert found(bench) == "batch_1"
    assert found(bench, keys=("another",) * 3) is None


@pytest.mark.parametrize("changes", [{"entries": 4}, {"created": 0.0}, {"created": 4e9}])
def test_a_batch_of_another_size_or_age_is_not_ours(
    bench: Bench, changes: dict[str, object]
) -> None:
    bench.answers(ASKED)
    bench.stub.batches.polls = 99

    assert found(bench, **changes) is None


def test_a_batch_that_is_worked_on_has_to_end_before_it_is_known(bench: Bench) -> None:
    bench.answers(ASKED)
    bench.stub.batches.polls = 99

    with pytest.raises(RetryableError, match="which shows once it has ended"):
        found(bench)


def test_a_batch_of_somebody_else_is_not_taken_for_a_lost_one(bench: Bench) -> None:
    bench.stub.batches.polls = 1
    other = replace(bench, folder=bench.folder / "other")
    with pytest.raises(Killed):
        other.answers(requests(6)[3:], sleep=killed)
    [theirs] = other.files.read()
    bench.files.write(replace(theirs, keys=tuple(KEYS), id=None, state="planned"))

    assert not any(part.failure for part in bench.answers(ASKED).values())
    assert bench.submitted[1:] == [KEYS]


@pytest.mark.parametrize("behind_s", [0.0, 100.0])
def test_two_lost_batches_of_one_size_are_known_by_their_results(
    bench: Bench, behind_s: float
) -> None:
    for asked in (ASKED, requests(6)[3:]):
        bench.stub.batches.faults = {f"POST {bench.path}": ["lost"]}
        with pytest.raises(ModelError):
            bench.answers(asked, attempts=1)
    for record in bench.files.read():
        bench.files.write(replace(record, created=record.created - behind_s))

    assert not any(part.failure for part in bench.answers(requests(6)).values())
    assert len(bench.submitted) == 2


def test_a_batch_known_by_another_record_is_not_found_again(bench: Bench) -> None:
    bench.stub.batches.faults = {f"POST {bench.path}": ["lost"]}
    with pytest.raises(ModelError):
        bench.answers(ASKED, attempts=1)
    bench.answers(requests(6)[3:])

    assert sorted(bench.answers(ASKED)) == sorted(KEYS)
    assert len(bench.submitted) == 2


def test_results_kept_no_longer_are_an_error_that_names_the_file(bench: Bench) -> None:
    bench.stub.batches.is_archived = True

    with pytest.raises(ModelError, match=r"its results were kept until .*or remove .*\.json"):
        bench.answers(ASKED)
