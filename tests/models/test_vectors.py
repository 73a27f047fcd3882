from collections.abc import Sequence

import numpy as np
import pytest

from harness.models.vectors import Vectors, rising_batches, row_of_each, without_surrogates


def test_equal_texts_are_worked_out_once_and_share_their_row() -> None:
    asked: list[Sequence[str]] = []

    def lengths(texts: list[str]) -> Vectors:
        asked.append(texts)
        return np.array([[len(text)] for text in texts], dtype=np.float32)

    assert row_of_each(["a", "bb", "a"], lengths).tolist() == [[1], [2], [1]]
    assert asked == [["a", "bb"]]


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([1, 1, 1], [[0, 1, 2]]),
        ([1, 2, 3, 4], [[0, 1], [2], [3]]),  # 2 * 2 fit in five, 3 * 3 and 4 * 2 do not
        ([9], [[0]]),
        ([2, 9], [[0], [1]]),
    ],
)
def test_a_batch_holds_the_budget_padded_or_a_single_row(
    lengths: list[int], expected: list[list[int]]
) -> None:
    assert list(rising_batches(range(len(lengths)), lengths, budget=5)) == expected


@pytest.mark.parametrize(("text", "expected"), [("a\ud800b", "a?b"), ("naïve 🙂", "naïve 🙂")])
def test_only_lone_surrogates_are_replaced(text: str, expected: str) -> None:
    assert without_surrogates(text) == expected
