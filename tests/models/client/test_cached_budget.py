"""A sum of money bounds what calls may cost, before they are made and after."""

from dataclasses import replace

import pytest

from harness.core import Request
from harness.models.client.cached import FORM_TOKENS, MESSAGE_TOKENS, Budget, Price
from harness.parts import Decoding, Message, Mode, Usage

PRICE = Price(input_usd=1_000_000, output_usd=2_000_000, batch_share=0.5)  # a dollar, two a token
MOST = MESSAGE_TOKENS + 3 + 2 * 4  # a message of three bytes, four tokens to draw


def requests(count: int) -> list[Request]:
    turn, drawn = (Message("user", "abc"),), Decoding(max_tokens=4)
    return [Request(f"s{n}", "base", "answer", f"m{n}", turn, drawn) for n in range(count)]


def let_through(budget: Budget, count: int = 9) -> list[str]:
    return [request.key for request in budget.within(requests(count), PRICE)]


@pytest.mark.parametrize(
    ("usage", "is_batch", "expected"),
    [
        *((Usage(10, 5), False, 20.0), (Usage(10, 5), True, 10.0), (Usage(None, 5), False, None)),
        (Usage(10, None), False, None),
    ],
)
def test_a_cost_is_of_both_counts(usage: Usage, is_batch: bool, expected: float | None) -> None:
    assert PRICE.cost(usage, is_batch=is_batch) == expected


@pytest.mark.parametrize(("cap", "count"), [(MOST - 1, 0), (MOST, 1), (3.5 * MOST, 3)])
def test_requests_pass_while_the_most_they_may_cost_is_within_a_cap(cap: float, count: int) -> None:
    assert len(let_through(Budget(cap))) == count


def test_what_a_call_did_not_cost_is_free_for_the_next() -> None:
    budget = Budget(2 * MOST)
    first, second = let_through(budget)
    budget.record(first, 1.0)
    budget.record(second, 1.0)

    assert (budget.spent_usd, len(let_through(budget))) == (2.0, 1)


def test_a_call_made_now_counts_with_its_failure_stored_before_and_not_when_found_later() -> None:
    budget = Budget(3 * MOST)
    budget.record_stored(requests(1)[0].key, 3.0)

    [key] = let_through(budget, 1)
    budget.record(key, 2.0)
    budget.record_stored(key, 2.0)

    assert budget.spent_usd == 5.0


@pytest.mark.parametrize(
    ("changes", "words", "drawn"),
    [
        ({}, 3 + MESSAGE_TOKENS, 4),
        ({"decoding": Decoding(max_tokens=4, n=3)}, 3 * (3 + MESSAGE_TOKENS), 12),
        ({"schema": {"a": 1}}, 3 + MESSAGE_TOKENS + len('{"a":1}') + FORM_TOKENS, 4),
        ({"mode": Mode.CHOOSE, "choices": (" a", " bc")}, 2 * (3 + MESSAGE_TOKENS) + 2 + 3, 8),
    ],
)
def test_the_most_covers_replies_forms_and_choices_behind_their_contexts(
    changes: dict[str, object], words: int, drawn: int
) -> None:
    asked = replace(requests(1)[0], **changes)  # type: ignore[arg-type]  # checked where it is built
    assert PRICE.most(asked) == words + 2 * drawn


def test_the_most_covers_what_a_reply_may_reason() -> None:
    thoughtful = replace(PRICE, reasoning_max_tokens=100)
    assert thoughtful.most(requests(1)[0]) == MOST + 2 * 100


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, 7 + 2), ({"decoding": Decoding(n=3)}, 7 + 2 * 3), ({"mode": Mode.EMBED}, 7)],
)
def test_the_least_is_prompt_and_token(changes: dict[str, object], expected: float) -> None:
    asked = replace(requests(1)[0], **changes)  # type: ignore[arg-type]  # checked where it is built
    assert PRICE.least(asked, prompt_tokens=7) == expected
