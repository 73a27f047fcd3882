"""Requests by way of batches: nothing lost, nothing handed in twice, of either provider's shape."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.batch_bench import KEY, Bench, Killed, Kind, killed, request, requests
from support.stub_batches import End
from support.stub_script import Script
from support.stub_server import StubServer

from harness.core import Request, Response
from harness.errors import ModelError, StoreError
from harness.models.client.batches import BatchFiles, BatchRecord
from harness.models.client.cached import Budget, CachedClient, CallPolicy, Price
from harness.parts import Decoding, Mode, Reason
from harness.storage.ledger import Ledger

ASKED = requests(6)
KEYS = [asked.key for asked in ASKED]


@pytest.fixture(params=["openai", "anthropic"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with StubServer(Script(key=KEY)) as stub:
        yield Bench(request.param, stub, tmp_path / "batches")


def failures(found: dict[str, Response]) -> dict[str, str]:
    return {key: part.failure.message for key, part in found.items() if part.failure}


def killed_while_waiting(bench: Bench, polls: int = 1, asked: list[Request] = ASKED) -> None:
    bench.stub.batches.polls = polls
    with pytest.raises(Killed):
        bench.answers(asked, sleep=killed)


def test_answers_are_what_single_calls_would_have_given(bench: Bench) -> None:
    live = {response.key: response for response in bench.live().answer(ASKED)}

    assert bench.answers(ASKED) == live
    assert bench.submitted == [KEYS]
    assert [record.state for record in bench.files.read()] == ["collected"]


def test_waits_grow_up_to_a_minute_and_each_look_is_reported(bench: Bench) -> None:
    bench.stub.batches.polls = 12

    bench.answers(ASKED)

    assert bench.waits[:3] == [2.0, 3.0, 4.5]
    assert bench.waits == sorted(bench.waits)
    assert (len(bench.waits), bench.waits[-1]) == (12, 60.0)
    assert len(bench.told) == 13
    assert "batch batch_1 (in_progress: " in bench.told[0][0]
    assert {told[1:] for told in bench.told} == {(0, 6)}


def test_a_command_killed_while_it_waits_is_gone_on_with(bench: Bench) -> None:
    killed_while_waiting(bench)
    assert not failures(bench.answers(ASKED))
    assert bench.submitted == [KEYS]


@pytest.mark.parametrize("taken", [1, 6])
def test_a_command_killed_while_it_stores_is_gone_on_with(bench: Bench, taken: int) -> None:
    first = bench.model().answer(ASKED)
    for _ in range(taken):
        next(first)
    del first

    assert sorted(bench.answers(ASKED)) == sorted(KEYS)
    assert bench.submitted == [KEYS]


def test_the_rest_is_handed_in_while_what_was_handed_in_is_worked_on(bench: Bench) -> None:
    killed_while_waiting(bench, 3, ASKED[:4])
    killed_while_waiting(bench, 3)

    assert bench.submitted == [KEYS[:4], KEYS[4:]]
    assert sorted(bench.answers(ASKED)) == sorted(KEYS)


def test_a_batch_of_which_half_is_wanted_keeps_the_other_half(bench: Bench) -> None:
    killed_while_waiting(bench)

    assert list(bench.answers(ASKED[:2])) == KEYS[1::-1]
    assert [record.state for record in bench.files.read()] == ["submitted"]
    assert len(bench.answers(ASKED[2:])) == 4
    assert bench.submitted == [KEYS]


def test_a_batch_whose_name_was_lost_is_found_or_left_to_the_user(bench: Bench) -> None:
    bench.stub.batches.faults = {f"POST {bench.path}": ["lost"]}
    with pytest.raises(ModelError, match="whether the batch arrived is not known"):
        bench.answers(ASKED)

    if "messages" not in bench.path:  # OpenAI's batches carry our name for them
        assert not failures(bench.answers(ASKED))
        assert bench.submitted == [KEYS]
        return
    with pytest.raises(ModelError, match=r"may be at .* or not: look .* remove that file"):
        bench.answers(ASKED)
    [record] = bench.files.read()
    assert (record.id, record.state, bench.submitted) == (None, "planned", [KEYS])

    bench.files.write(replace(record, id="batch_1", state="submitted"))
    assert not failures(bench.answers(ASKED))
    assert bench.submitted == [KEYS]


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_batch_that_never_arrived_is_handed_in_again(bench: Bench, attempts: int) -> None:
    bench.stub.batches.faults = {f"POST {bench.path}": ["500"]}
    if attempts == 1:
        with pytest.raises(ModelError):
            bench.answers(ASKED, attempts=1)

    assert not failures(bench.answers(ASKED, attempts=attempts))
    assert bench.submitted == [KEYS]
    assert len(bench.files.read()) == 1


@pytest.mark.parametrize("end", ["expired", "cancelled"])
def test_what_a_batch_answered_is_kept_and_the_rest_asked_again(bench: Bench, end: End) -> None:
    bench.stub.batches.end = end
    found = bench.answers(ASKED)
    bench.stub.batches.end = "completed"

    assert sorted(failures(found)) == sorted(KEYS[::2])
    assert all("in a batch: " in told for told in failures(found).values())
    assert sorted(bench.answers(ASKED)) == sorted(KEYS)
    assert bench.submitted == [KEYS, KEYS[::2]]


def test_a_request_without_a_result_is_a_failure_and_asked_again(bench: Bench) -> None:
    killed_while_waiting(bench)
    del bench.stub.batches.made["batch_1"].asked[KEYS[0]]

    told = failures(bench.answers(ASKED))
    assert list(told) == KEYS[:1]
    assert "without a result of this request" in told[KEYS[0]]
    assert not failures(bench.answers(ASKED[:1]))
    assert bench.submitted[1:] == [KEYS[:1]]


FAILED, FILTERED, REFUSED = Reason.FAILED, Reason.FILTERED, Reason.REFUSED
BOTH = [
    *((fault, FAILED, f"scripted fault {fault}") for fault in ("500", "400", "429")),
    *[("refusal", REFUSED, ""), ("length", None, "The "), ("surrogate", None, "emoji: \ufffd")],
]
RESULTS: dict[str, list[tuple[str, Reason | None, str]]] = {
    "chat": [
        *[*BOTH, ("null", None, ""), ("400-filter", FILTERED, "answered 400 in a batch")],
        *[("content-filter", FILTERED, "content filter"), ("no-choices", FAILED, "no choices")],
    ],
    "responses": [
        ("refusal", REFUSED, "rather not"),
        ("reasoned-away", Reason.TRUNCATED, "cut before the first word"),
        ("failed-rate", FAILED, "Slow down"),
        ("400-filter", FILTERED, "answered 400 in a batch"),
    ],
    "anthropic": [
        *[*BOTH, ("null", FAILED, "sent no content")],
        ("400-Output blocked by content filtering policy", FILTERED, "blocked by content"),
    ],
}


@pytest.mark.parametrize("api", RESULTS)
def test_a_result_that_is_no_answer_is_its_reason(api: str, tmp_path: Path) -> None:
    rows = {f"<{fault}>": (fault, reason, word) for fault, reason, word in RESULTS[api]}
    spec = {} if api == "anthropic" else {"api": api}
    with StubServer(Script(faults={m: (row[0],) for m, row in rows.items()}, key=KEY)) as stub:
        bench = Bench("anthropic" if api == "anthropic" else "openai", stub, tmp_path)
        asked = {mark: request(mark) for mark in rows}
        found = bench.answers(asked.values(), **spec)

    for mark, (_, reason, word) in rows.items():
        response = found[asked[mark].key]
        failure = response.failure
        assert (failure.reason if failure else None) is reason, mark
        assert word in (failure.message if failure else (response.texts or ("",))[0])


THRICE = requests(2, decoding=Decoding(1.0, n=3, seed=4))


@pytest.mark.parametrize(
    ("kind", "spec", "seeds"),
    [
        ("openai", {"sends_n": False}, [4, 5, 6]),
        ("openai", {"api": "responses"}, [None] * 3),
        ("anthropic", {}, [None] * 3),
    ],
)
def test_where_a_line_gives_one_reply_each_is_a_line_and_all_are_joined(
    kind: Kind, spec: dict[str, Any], seeds: list[int | None], tmp_path: Path
) -> None:
    with StubServer(Script(key=KEY)) as stub:
        bench = Bench(kind, stub, tmp_path)
        found = bench.answers(THRICE, **spec)
        [batch] = stub.batches.made.values()

    assert [len(found[part.key].texts or ()) for part in THRICE] == [3, 3]
    assert bench.submitted == [[f"{p.key[:58]}-{n:05d}" for p in THRICE for n in range(3)]]
    assert [body.get("seed") for body in batch.asked.values()] == seeds * 2
    assert not any("n" in body for body in batch.asked.values())


@pytest.mark.parametrize("is_expired", [True, False])
def test_replies_of_which_one_failed_or_is_missing_are_a_failure_and_asked_again(
    tmp_path: Path, *, is_expired: bool
) -> None:
    with StubServer(Script(key=KEY)) as stub:
        bench, batches = Bench("anthropic", stub, tmp_path), stub.batches
        batches.polls, batches.end = 1, "expired" if is_expired else "completed"

        def lose_one(_: float) -> None:
            if not is_expired:
                batches.made["batch_1"].asked.popitem()

        first = bench.answers(THRICE, sleep=lose_one)
        batches.end, batches.polls = "completed", 0

        assert [bool(first[asked.key].failure) for asked in THRICE] == [is_expired, True]
        assert not failures(bench.answers(THRICE))


def test_results_kept_no_longer_are_an_error_that_names_the_file(tmp_path: Path) -> None:
    with StubServer(Script(key=KEY)) as stub:
        stub.batches.is_archived = True

        with pytest.raises(ModelError, match=r"its results were kept until .*or remove .*\.json"):
            Bench("anthropic", stub, tmp_path).answers(ASKED)


def test_a_batch_is_no_larger_than_the_provider_takes(bench: Bench) -> None:
    server = bench.server()
    server.most_entries, server.most_bytes = 4, 10**6  # type: ignore[misc]  # smaller than it is
    bench.answers(ASKED, server=server)
    size = max(len(server.entry(asked, asked.key)) for asked in ASKED)
    server.most_entries, server.most_bytes = 99, 2 * size + 2  # type: ignore[misc]  # as above
    bench.answers(requests(9)[6:], server=server)

    assert [len(names) for names in bench.submitted] == [4, 2, 2, 1]


@pytest.mark.parametrize("mode", [Mode.CHOOSE, Mode.CHOOSE_TOKEN])
def test_choices_are_refused_before_anything_is_handed_in(bench: Bench, mode: Mode) -> None:
    asked = [*ASKED, request("Which?", mode=mode, choices=("1", "2"))]

    with pytest.raises(ModelError, match=r"leave out --batch, or have .*--answers written"):
        bench.answers(asked)
    assert bench.stub.batches.log == []


@pytest.mark.parametrize("is_collected", [True, False])
def test_a_batch_that_is_gone_is_an_error_naming_its_file(bench: Bench, is_collected: bool) -> None:
    killed_while_waiting(bench)
    if is_collected:
        bench.answers(ASKED)
    bench.stub.batches.made.clear()

    with pytest.raises(ModelError, match=r"batch batch_1 with 6 requests.*404.*or remove") as error:
        bench.answers(ASKED)
    [record] = bench.files.read()
    assert str(bench.files.path(record)) in str(error.value)
    bench.files.remove(record)
    assert not failures(bench.answers(ASKED))


@pytest.mark.slow
def test_a_server_without_batches_is_reported_with_the_remedy(bench: Bench) -> None:
    bench.stub.batches.faults = {f"POST {path}": ["404"] for path in (bench.path, "/v1/files")}

    with pytest.raises(ModelError, match=r"has no batches .*leave out --batch"):
        bench.answers(ASKED)
    assert bench.files.read() == []


@pytest.mark.parametrize("status", ["401", "403", "400", "413"])
def test_a_batch_that_is_refused_leaves_nothing_behind(bench: Bench, status: str) -> None:
    bench.stub.batches.faults = {f"POST {bench.path}": [status]}

    with pytest.raises(ModelError, match=status):
        bench.answers(ASKED)
    assert bench.files.read() == []


@pytest.mark.parametrize("fault", ["500", "429", "html", "lost"])
def test_a_passing_fault_while_waiting_is_outlived(bench: Bench, fault: str) -> None:
    bench.stub.batches.faults = {f"GET {bench.path}/batch_1": [fault, fault]}
    assert not failures(bench.answers(ASKED))
    assert bench.submitted == [KEYS]


def test_a_lasting_fault_while_waiting_leaves_what_was_handed_in(bench: Bench) -> None:
    bench.stub.batches.faults = {f"GET {bench.path}/batch_1": ["500"] * 3}

    with pytest.raises(ModelError, match="the same command collects it"):
        bench.answers(ASKED)
    assert not failures(bench.answers(ASKED))
    assert bench.submitted == [KEYS]


def test_neither_keys_nor_words_are_in_the_files_or_in_messages(bench: Bench) -> None:
    bench.answers(ASKED)
    bench.stub.script = Script(key="another")

    with pytest.raises(ModelError, match="401") as error:
        bench.answers(requests(9)[6:])
    [content] = [path.read_text() for path in bench.folder.iterdir()]
    assert KEY not in content + str(error.getrepr(chain=True))
    assert "question" not in content
    assert json.loads(content)["keys"] == KEYS


def test_a_batch_costs_its_share_and_a_budget_is_kept_by_it(bench: Bench, tmp_path: Path) -> None:
    price = Price(1e6, 0.0, batch_share=0.5)  # a dollar a word, and in batches half of it
    terms = CallPolicy(budget=Budget(2.5 * Price(1e6, 0.0).most(ASKED[0])))
    ledger = Ledger(tmp_path / "calls")
    with CachedClient(bench.model(), ledger, lambda *_: None, terms, price, is_batch=True) as desk:
        found = desk.answer(ASKED, stage="answers")

    # Two words a question, half a dollar each; at most as many at once as fit into the budget.
    assert {response.usage.cost_usd for response in found.values()} == {1.0}
    assert [len(names) for names in bench.submitted] == [2, 2, 2]


def test_a_failure_is_not_taken_from_its_batch_a_second_time(bench: Bench, tmp_path: Path) -> None:
    bench.stub.script = Script(faults={"question 2": ("500",)}, key=KEY)
    for count in (1, 0):
        with CachedClient(bench.model(), Ledger(tmp_path / "calls"), lambda *_: None) as again:
            assert len(failures(again.answer(ASKED, stage="x"))) == count
        bench.stub.script = Script(key=KEY)
    assert bench.submitted == [KEYS, [KEYS[2]]]


ONE = BatchRecord("aa", "openai", "http://h/v1", 5.0, ("k1", "k2"), 2)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path / "calls/m/batches")
    done = replace(ONE, id="batch_1", state="collected", failed=("k2",))

    files.write(ONE)
    files.write(done)

    assert files.read() == [done]
    assert [path.name for path in (tmp_path / "calls/m/batches").iterdir()] == ["aa.json"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"nonce": "aa"}', '{"nonce": 3}'])
def test_a_damaged_record_is_named_with_the_remedy(tmp_path: Path, content: str) -> None:
    (tmp_path / "aa.json").write_text(content)
    with pytest.raises(StoreError, match=r"aa\.json: damaged record of a batch .*or remove it"):
        BatchFiles(tmp_path).read()


def test_a_record_that_cannot_be_written_is_told_before_anything_is_paid(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        BatchFiles(tmp_path / "file").write(ONE)


def test_records_are_no_part_of_the_ledger(tmp_path: Path) -> None:
    BatchFiles(tmp_path / "batches").write(ONE)
    assert Ledger(tmp_path).find(["k1"]) == {}
    assert Ledger(tmp_path).identities() == set()
