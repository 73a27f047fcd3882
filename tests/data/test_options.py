"""Choices to options: their order, and what answers each."""

from collections import Counter
from math import factorial

import pytest
from msgspec import structs
from support.choice_cases import LABELS, sample, spec
from support.each import each

from harness.core import Sample
from harness.data.choices import lay_out, permutation
from harness.errors import DataError

MANY = tuple(f"Choice {number}." for number in range(8))


def numbered(count: int, name: str = "s1") -> Sample:
    """A sample of so many choices."""
    return sample(MANY[:count], name=name)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(("1", "2", "3"), (0, 1, 2)), (("3", "1", "2"), (2, 0, 1)), (("2", "3", "1"), (1, 2, 0))],
)
def test_an_order_that_a_sample_brings_says_which_choice_is_at_each_place(
    given: tuple[str, ...], expected: tuple[int, ...]
) -> None:
    assert permutation(sample(order0=("1", "2", "3"), order4=given), 4) == expected


@each(
    "given",
    [("1", "2"), ("1", "2", "2"), ("0", "1", "2"), ("1", "2", "4"), ("1", "2", "3", "3"), ("a",)],
)
def test_an_order_that_is_none_is_refused_with_sample_and_remedy(given: tuple[str, ...]) -> None:
    with pytest.raises(
        DataError, match=r"sample s1: order0 is .*, not an order of the places 1 to 3"
    ):
        permutation(sample(order0=given), 0)


@each("count", [2, 3, 4, 5, 6])
def test_as_many_orders_as_there_are_differ_and_then_begin_again(count: int) -> None:
    every = factorial(count)
    orders = [permutation(numbered(count), number) for number in range(every)]

    assert len(set(orders)) == every
    assert {tuple(sorted(order)) for order in orders} == {tuple(range(count))}
    assert permutation(numbered(count), every) == orders[0]


@pytest.mark.parametrize("count", [7, 8])
def test_more_than_six_choices_have_each_order_drawn_by_itself(count: int) -> None:
    orders = [permutation(numbered(count), number) for number in range(20)]

    assert len(set(orders)) == 20  # of 5,040 or 40,320
    assert all(sorted(order) == list(range(count)) for order in orders)
    assert permutation(numbered(7), 3) == (0, 6, 1, 3, 4, 2, 5)  # written down once, as below


@each("count", [2, 3, 4, 5, 7])
@each("number", [0, 1, 4])
def test_over_samples_no_place_is_favoured(count: int, number: int) -> None:
    orders = [permutation(numbered(count, f"s{n}"), number) for n in range(1200)]

    for choice in range(count):
        places = Counter(order.index(choice) for order in orders)
        share, spread = 1200 / count, (1200 * (count - 1)) ** 0.5 / count
        # Five standard deviations of a binomial count.
        assert all(abs(places[place] - share) < 5 * spread for place in range(count))


def test_an_order_depends_on_the_samples_id_and_on_nothing_else_of_it() -> None:
    other = sample(("a", "b", "c"), gold=2, hint=("t",))

    assert [permutation(other, n) for n in range(6)] == [permutation(sample(), n) for n in range(6)]
    # Written down once, so that runs of another day and machine ask the same.
    assert [permutation(sample(), n) for n in range(3)] == PINNED


PINNED = [(1, 2, 0), (2, 0, 1), (1, 0, 2)]


@each(
    ("answers", "lead", "expected"),
    [
        ("number", " ", [" 1", " 2", " 3"]),
        ("number", "", ["1", "2", "3"]),
        ("number", " (", [" (1", " (2", " (3"]),
        ("text", " ", [" It is noon.", " Shut the window.", " I like fresh air."]),
        ("text", "\n", ["\nIt is noon.", "\nShut the window.", "\nI like fresh air."]),
    ],
)
def test_an_option_is_answered_by_its_number_or_its_words_behind_the_lead(
    answers: str, lead: str, expected: list[str]
) -> None:
    layout = structs.replace(spec(answers, order=0), lead=lead)
    options = lay_out(sample(order0=("3", "1", "2")), layout)

    assert [option.answer for option in options] == expected
    assert [option.index for option in options] == [2, 0, 1]


@pytest.mark.parametrize(
    ("asked", "fact"),
    [
        (Sample("s1", {"topic": "Tea."}), "no choices; give it some"),
        (sample(labels=LABELS[:2]), "2 labels for 3 choices"),
        (sample(labels=(*LABELS, "More")), "4 labels for 3 choices"),
    ],
)
def test_a_sample_that_cannot_be_laid_out_is_refused(asked: Sample, fact: str) -> None:
    with pytest.raises(DataError, match=f"sample s1 has {fact}"):
        lay_out(asked, spec())
