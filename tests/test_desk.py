"""The desk asks what is missing, on its terms: again or not, for so much money."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.budget import Budget
from harness.core import Request, Response
from harness.desk import Desk, Retry, Terms
from harness.errors import BudgetReached
from harness.ledger import Ledger
from harness.models.scripted import ScriptedModel
from harness.parts import Decoding, Message, Reason, Usage
from harness.prices import Price

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
    terms: Terms | None = None,
    *,
    reply: Callable[[Request], Response] = said,
    price: Price | None = DOLLAR,
) -> Desk:
    model = ScriptedModel("m", reply)
    return Desk(model, Ledger(folder), lambda *_: None, terms or Terms(), price)


def test_a_stored_answer_tells_what_it_cost(tmp_path: Path) -> None:
    with desk(tmp_path) as at:
        found = at.answer(requests(), stage="answers")

    assert {response.usage.cost_usd for response in found.values()} == {2.0}


def test_without_a_price_the_cost_is_not_known(tmp_path: Path) -> None:
    with desk(tmp_path, price=None) as at:
        found = at.answer(requests(), stage="answers")

    assert {response.usage.cost_usd for response in found.values()} == {None}


def test_a_budget_that_is_used_up_keeps_what_was_answered_and_goes_on_when_raised(
    tmp_path: Path,
) -> None:
    with desk(tmp_path, Terms(budget=Budget(24))) as at, pytest.raises(BudgetReached) as caught:
        at.answer(requests(), stage="answers")
    stored = len(Ledger(tmp_path).find([request.key for request in requests()]))
    # Each may cost 20 and costs 2: the fourth might bring 6 to 26.
    assert (stored, "6.0000 USD spent" in str(caught.value)) == (3, True)

    with desk(tmp_path, Terms(budget=Budget(40))) as at:
        assert len(at.answer(requests(), stage="answers")) == 4


def test_what_failed_before_counts_with_its_most_and_what_is_asked_again_beside_it(
    tmp_path: Path,
) -> None:
    with desk(tmp_path, reply=lost) as at:
        at.answer(requests(2), stage="answers")

    # Each may have cost 20, and costs 2 now: 40 were spent, and the next may bring 42 to 62.
    with desk(tmp_path, Terms(budget=Budget(61))) as at, pytest.raises(BudgetReached) as caught:
        at.answer(requests(2), stage="answers")

    assert "1 calls are left" in str(caught.value)
    assert "42.0000 USD spent" in str(caught.value)


def test_an_answer_stored_without_a_price_counts_with_todays(tmp_path: Path) -> None:
    with desk(tmp_path, price=None) as at:
        at.answer(requests(), stage="answers")
    budget = Budget(100)

    with desk(tmp_path, Terms(budget=budget)) as at:
        at.answer(requests(), stage="answers")

    assert budget.spent_usd == 8.0


@pytest.mark.parametrize(("retry", "count"), [("failed", 0), ("none", 4)])
def test_a_failure_is_as_good_as_stored_where_it_is_not_asked_again(
    tmp_path: Path, retry: Retry, count: int
) -> None:
    with desk(tmp_path, reply=lost) as at:
        at.answer(requests(), stage="answers")

    assert len(desk(tmp_path, Terms(retry=retry)).stored(requests())) == count


@pytest.mark.parametrize(("terms", "is_answered"), [(Terms(), True), (Terms(retry="none"), False)])
def test_what_failed_is_asked_again_unless_told_otherwise(
    tmp_path: Path, terms: Terms, is_answered: bool
) -> None:
    with desk(tmp_path, reply=lost) as at:
        at.answer(requests(), stage="answers")

    with desk(tmp_path, terms) as at:
        found = at.answer(requests(), stage="answers")

    assert all((response.texts is not None) == is_answered for response in found.values())
