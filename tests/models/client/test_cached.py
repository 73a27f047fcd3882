"""The desk asks what is missing, on its terms: again or not, for so much money."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from harness.core import Request, Response
from harness.errors import BudgetReached, ModelError
from harness.models.client.cached import Budget, CachedClient, CallPolicy, Price, Retry
from harness.models.client.replies import no_answer
from harness.models.scripted import ScriptedModel
from harness.parts import UNCHARGED, Decoding, Failure, Message, Reason, Usage
from harness.storage.ledger import Ledger

DOLLAR = Price(input_usd=1_000_000, output_usd=0)  # a dollar a token of the prompt


def requests(count: int = 4) -> list[Request]:
    turn, drawn = (Message("user", "abcd"),), Decoding(max_tokens=1)
    return [Request(f"s{n}", "base", "answer", f"m{n}", turn, drawn) for n in range(count)]


def said(request: Request) -> Response:
    return Response(request.key, ("yes",), usage=Usage(2, 1))


def lost(request: Request) -> Response:
    return Response.failed(request.key, Reason.FAILED, "no answer")


def desk(
    folder: Path,
    terms: CallPolicy | None = None,
    *,
    reply: Callable[[Request], Response] = said,
    price: Price | None = DOLLAR,
) -> CachedClient:
    model = ScriptedModel("m", reply)
    return CachedClient(model, Ledger(folder), lambda *_: None, terms or CallPolicy(), price)


def test_a_stored_answer_says_what_it_cost(tmp_path: Path) -> None:
    with desk(tmp_path) as at:
        found = at.answer(requests(), stage="answers")
    assert {response.usage.cost_usd for response in found.values()} == {2.0}


def test_what_got_no_reply_is_told_apart_also_where_it_is_not_asked_again(tmp_path: Path) -> None:
    told: list[tuple[object, ...]] = []
    asked: tuple[tuple[int, Retry], ...] = ((2, "failed"), (3, "none"))
    for count, retry in asked:
        at = desk(tmp_path, CallPolicy(retry=retry), reply=lost)
        with replace(at, progress=lambda *step: told.append(step)) as telling:
            telling.answer(requests(count), stage="answers")

    assert [step[1:4] for step in told] == [(0, 2, 0), (1, 2, 1), (2, 2, 2), (2, 3, 2), (3, 3, 3)]


@pytest.mark.parametrize(
    ("price", "spent"), [(DOLLAR, [None, 2.0, 4.0, 6.0]), (None, [None, None, None, None])]
)
def test_progress_says_what_the_calls_of_a_stage_cost_so_far(
    tmp_path: Path, price: Price | None, spent: list[float | None]
) -> None:
    told: list[tuple[object, ...]] = []
    at = desk(tmp_path, price=price)
    with replace(at, progress=lambda *step: told.append(step)) as telling:
        telling.answer(requests(3), stage="answers")

    assert [(*step[4:], None)[0] for step in told] == spent


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("no server at http://localhost", "model m: no server at http://localhost"),
        ("model m: has no function for choose", "model m: has no function for choose"),
        ("model m is not trained", "model m is not trained"),
        ("model mine is busy", "model m: model mine is busy"),
    ],
)
def test_an_error_of_a_model_names_the_model_once(tmp_path: Path, error: str, told: str) -> None:
    def refuse(_: Request) -> Response:
        raise ModelError(error)

    with desk(tmp_path, reply=refuse) as at, pytest.raises(ModelError) as caught:
        at.answer(requests(), stage="answers")

    assert str(caught.value) == told


def test_a_budget_used_up_keeps_what_was_answered_and_goes_on_when_raised(tmp_path: Path) -> None:
    with (
        desk(tmp_path, CallPolicy(budget=Budget(24))) as at,
        pytest.raises(BudgetReached) as caught,
    ):
        at.answer(requests(), stage="answers")
    stored = len(Ledger(tmp_path).find([request.key for request in requests()]))
    # Each may cost 20 and costs 2: the fourth might bring 6 to 26.
    assert (stored, "6.0000 USD spent" in str(caught.value)) == (3, True)

    with desk(tmp_path, CallPolicy(budget=Budget(40))) as at:
        assert len(at.answer(requests(), stage="answers")) == 4


def test_what_failed_counts_with_its_most_and_what_is_asked_again_with_it(tmp_path: Path) -> None:
    with desk(tmp_path, reply=lost) as at:
        at.answer(requests(2), stage="answers")

    # Each may have cost 20, and costs 2 now: 40 were spent, and the next may bring 42 to 62.
    with (
        desk(tmp_path, CallPolicy(budget=Budget(61))) as at,
        pytest.raises(BudgetReached) as caught,
    ):
        at.answer(requests(2), stage="answers")

    assert "1 calls are left, which may cost 20.0000 USD at most" in str(caught.value)
    assert "42.0000 USD spent" in str(caught.value)


@pytest.mark.parametrize(
    ("usage", "cost_usd"),
    [
        (UNCHARGED, 0.0),  # turned away
        (replace(UNCHARGED, unanswered=3), 60.0),  # broke off three times: 20 each at most
        (Usage(2, 1, unanswered=1), 22.0),
        (Usage(), 20.0),
        (Usage(unanswered=1), 40.0),
    ],
)
def test_each_attempt_that_nobody_says_of_counts_with_its_most_now_and_when_stored(
    tmp_path: Path, usage: Usage, cost_usd: float
) -> None:
    spent = []
    for retry in ("failed", "none"):
        budget = Budget(1000)
        reply = partial(no_answer, reason=Reason.FAILED, message="no", usage=usage, served=None)
        with desk(tmp_path, CallPolicy(budget=budget, retry=retry), reply=reply) as at:
            at.answer(requests(1), stage="answers")
        spent.append(budget.spent_usd)

    assert spent == [cost_usd] * 2


def without(reason: Reason) -> Callable[[Request], Response]:
    why = Failure(reason, "no answer")
    return lambda asked: Response(asked.key, failure=why, usage=Usage(2, 1))


def test_what_was_asked_for_again_counts_each_time_that_it_was_paid(tmp_path: Path) -> None:
    refused, again = without(Reason.REFUSED), CallPolicy(retry="all")
    for reply in (refused, refused, said):
        with desk(tmp_path, again, reply=reply) as at:
            at.answer(requests(), stage="answers")
    budget = Budget(100)

    with desk(tmp_path, CallPolicy(budget=budget)) as at:
        found = at.answer(requests(), stage="answers")

    # Four answers and eight refusals at 2 each.
    assert budget.spent_usd == 24.0
    assert [part.cost_usd for part in found[requests()[0].key].usage.with_superseded] == [2.0] * 3


def test_an_answer_stored_without_a_price_counts_with_todays(tmp_path: Path) -> None:
    budget = Budget(100)
    for price, terms in ((None, CallPolicy()), (DOLLAR, CallPolicy(budget=budget))):
        with desk(tmp_path, terms, price=price) as at:
            at.answer(requests(), stage="answers")

    assert budget.spent_usd == 8.0


def test_a_batch_of_no_known_price_counts_alike_when_ended_and_stored(tmp_path: Path) -> None:
    spent = []
    for _ in range(2):
        budget = Budget(100)
        with replace(desk(tmp_path, CallPolicy(budget=budget)), is_batch=True) as at:
            found = at.answer(requests(), stage="answers")
        spent.append(budget.spent_usd)

    # Two tokens each, at the full price: what a batch costs at most.
    assert spent == [8.0, 8.0]
    assert {response.usage.cost_usd for response in found.values()} == {None}


ASKED_AGAIN: dict[Retry, set[Reason]] = {
    "failed": {Reason.FAILED, Reason.UNSUPPORTED},
    "all": set(Reason),
    "none": set(),
}


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("retry", ASKED_AGAIN)
def test_a_reply_without_an_answer_is_unless_all_is_to_be_asked_again(
    tmp_path: Path, retry: Retry, reason: Reason
) -> None:
    with desk(tmp_path, reply=without(reason)) as at:
        at.answer(requests(), stage="answers")

    with desk(tmp_path, CallPolicy(retry=retry)) as at:
        stands = len(at.stored(requests()))
        found = at.answer(requests(), stage="answers")

    is_asked = reason in ASKED_AGAIN[retry]
    assert stands == (0 if is_asked else 4)
    assert all((response.texts is not None) == is_asked for response in found.values())


@pytest.mark.parametrize("retry", ASKED_AGAIN)
def test_offline_nothing_is_asked_again(tmp_path: Path, retry: Retry) -> None:
    with desk(tmp_path, reply=lost) as at:
        at.answer(requests(), stage="answers")
    with desk(tmp_path, CallPolicy(is_offline=True, retry=retry)) as at:
        found = at.answer(requests(), stage="answers")

    assert all(response.failure for response in found.values())
