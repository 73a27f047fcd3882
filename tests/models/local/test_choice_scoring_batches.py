from collections.abc import Iterator, Sequence

import pytest
from support.each import each

from harness.models.local.choice_scoring import split, token_batches
from harness.models.vectors import chunks


class TooBigError(Exception):
    pass


def shape(row: tuple[int, int]) -> tuple[int, int]:
    return row


def count_up(taken: list[int]) -> Iterator[int]:
    for number in range(100):
        taken.append(number)
        yield number


def test_chunks_take_no_more_than_they_hand_out() -> None:
    taken: list[int] = []

    assert next(chunks(count_up(taken), 3)) == [0, 1, 2]

    assert taken == [0, 1, 2]


@each(
    ("rows", "budget", "batches"),
    [
        ([(1, 9)], 5, [[(1, 9)]]),
        ([(1, 1), (1, 2), (1, 3)], 8, [[(1, 3), (1, 2)], [(1, 1)]]),
        ([(1, 1), (1, 9)], 19, [[(1, 9)], [(1, 1)]]),
        ([(1, 1), (1, 9)], 20, [[(1, 9), (1, 1)]]),
        ([(5, 1), (2, 1), (5, 1)], 99, [[(5, 1), (5, 1)], [(2, 1)]]),
        ([], 99, []),
    ],
)
def test_batches_stay_within_the_budget(
    rows: list[tuple[int, int]], budget: int, batches: list[list[tuple[int, int]]]
) -> None:
    assert list(token_batches(rows, budget, shape=shape)) == batches


def test_a_batch_too_big_is_halved_until_it_fits() -> None:
    sizes = []

    def run(part: Sequence[int]) -> list[int]:
        sizes.append(len(part))
        if len(part) > 2:
            raise TooBigError
        return [row * 10 for row in part]

    results = list(split(range(5), run, too_big=TooBigError))

    assert results == [(0, 0), (1, 10), (2, 20), (3, 30), (4, 40)]
    assert sizes == [5, 2, 3, 1, 2]


def test_a_row_too_big_by_itself_has_no_result_and_the_others_have_theirs() -> None:
    def run(part: Sequence[int]) -> list[int]:
        if 2 in part:
            raise TooBigError
        return list(part)

    results = list(split(range(4), run, too_big=TooBigError))

    assert results == [(0, 0), (1, 1), (2, None), (3, 3)]


def test_any_other_error_propagates() -> None:
    def run(part: Sequence[int]) -> list[int]:
        raise KeyError(part)

    with pytest.raises(KeyError):
        list(split(range(4), run, too_big=TooBigError))
