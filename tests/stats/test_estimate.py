"""Records of statistics: a value or a reason; tables of one shape, of finite numbers."""

import numpy as np
import pytest
from support.rating_tables import NAN

from harness.stats.estimate import (
    Estimate,
    NoValue,
    Significance,
    complete,
    complete_pairs,
    pair_directions,
    ratio,
)


@pytest.mark.parametrize(
    ("value", "reason"),
    [(None, None), (0.5, NoValue.CONSTANT), (float("nan"), None), (float("inf"), None)],
)
def test_a_statistic_has_a_finite_value_or_a_reason(
    value: float | None, reason: NoValue | None
) -> None:
    with pytest.raises(ValueError, match="finite value or a reason"):
        Estimate(value, n=3, reason=reason)
    with pytest.raises(ValueError, match="finite value or a reason"):
        Significance(0.0, value, n=3, reason=reason)


def test_a_cell_missing_on_one_side_is_left_out_of_both() -> None:
    first, second = complete([[1, NAN, 3]], [[4, 5, NAN]])

    np.testing.assert_array_equal(first, [[1, NAN, NAN]])
    np.testing.assert_array_equal(second, [[4, NAN, NAN]])


def test_incomplete_pairs_are_counted() -> None:
    first, second, skipped = complete_pairs([1, NAN, 3, 4], [1, 2, NAN, 5])

    assert (first.tolist(), second.tolist(), skipped) == ([1, 4], [1, 5], 2)


@pytest.mark.parametrize(
    ("human", "judge", "message"),
    [
        ([[1, 2]], [[1, 2, 3]], r"\(1, 2\) and \(1, 3\)"),
        ([1, 2], [1, 2], "1 dimensions"),
        ([[1, float("inf")]], [[1, 2]], "1 infinite"),
    ],
)
def test_tables_that_do_not_belong_together_are_refused(
    human: list[object], judge: list[object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        complete(np.array(human, dtype=float), np.array(judge, dtype=float))


def test_a_pair_with_a_missing_cell_has_no_direction() -> None:
    # Pairs in order: (0,1), (0,2), (1,2).
    assert pair_directions(np.array([[2, 1, NAN], [1, 1, 3]])).tolist() == [[1, 0, 0], [0, -1, -1]]


def test_a_quotient_by_nothing_is_missing_and_does_not_warn() -> None:
    np.testing.assert_array_equal(ratio([1.0, 0.0, 3.0], [2, 0, -1]), [0.5, NAN, NAN])
