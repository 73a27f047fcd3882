"""Intervals of a mean: clusters count whole, shares are shares, order is without effect."""

from random import Random

import numpy as np
import pytest
from scipy import stats
from support.rating_tables import NAN

from harness.stats.clustered import clustered_mean
from harness.stats.estimate import (
    Estimate,
    NoValue,
    complete,
    complete_pairs,
    mean_interval,
    pair_directions,
    ratio,
)


def own_clusters(values: list[float]) -> list[str]:
    return [f"{i:04}" for i in range(len(values))]


def right(count: int, of: int) -> Estimate:
    """The share right of independent items."""
    return mean_interval(
        [1.0] * count + [0.0] * (of - count), own_clusters([0.0] * of), is_share=True
    )


def ends(interval: Estimate) -> tuple[float, float]:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low, interval.high


def test_clustered_items_have_the_errors_of_the_literature() -> None:
    # Miller 2024 (arXiv 2411.00640) with G / (G - 1): the clustered error .140271 of statsmodels,
    # .153659 corrected, and Student's t of five degrees of freedom.
    values = [float(part) for part in "110111110010101111100000"]
    clusters = [f"c{at // 4}" for at in range(24)]

    found = mean_interval(values, clusters, is_share=True)

    assert (found.n, found.clusters) == (24, 6)
    assert found.value == pytest.approx(0.583333, abs=1e-6)
    assert ends(found) == pytest.approx((0.1883, 0.9783), abs=5e-5)
    assert (found.high or 0) - 0.583333 == pytest.approx(stats.t.ppf(0.975, 5) * 0.153659, abs=1e-5)


def test_independent_ratings_have_students_interval() -> None:
    values = np.random.default_rng(1).normal(3, 1, size=17)
    theirs = stats.ttest_1samp(values, 0).confidence_interval()

    assert ends(
        mean_interval(values.tolist(), own_clusters(values.tolist()), is_share=False)
    ) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize(("count", "of"), [(7, 10), (1, 40), (0, 10), (10, 10), (28, 56)])
def test_independent_items_right_or_wrong_have_wilsons_interval(count: int, of: int) -> None:
    theirs = stats.binomtest(count, of).proportion_ci(method="wilson")

    assert ends(right(count, of)) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize("of", [3, 10, 20, 56])
def test_half_a_verdict_more_never_lowers_an_end(of: int) -> None:
    # A judge that is asked in both orders gives .5 where these disagree.
    found = []
    for halves in range(2 * of + 1):
        values = ([1.0] * (halves // 2) + [0.5] * (halves % 2) + [0.0] * of)[:of]
        found.append(ends(mean_interval(values, own_clusters(values), is_share=True)))

    assert [low for low, _ in found] == sorted(low for low, _ in found)
    assert [high for _, high in found] == sorted(high for _, high in found)
    assert found[::2] == [ends(right(count, of)) for count in range(of + 1)]


def test_a_share_of_clusters_stays_within_its_range() -> None:
    # Student's interval would reach to 1.09.
    values, clusters = [1.0] * 19 + [0.0], [f"c{at // 4}" for at in range(20)]

    low, high = ends(mean_interval(values, clusters, is_share=True))

    assert 0.5 < low < 0.95 < high < 1
    assert ends(mean_interval(values, clusters, is_share=False))[1] > 1


def test_ratings_stop_at_the_ends_of_their_scale() -> None:
    values = [5.0, 5, 5, 5, 4, 5, 5, 5, 5, 5, 5, 4.5]
    free = ends(mean_interval(values, own_clusters(values), is_share=False))

    assert free[1] > 5
    limited = mean_interval(values, own_clusters(values), is_share=False, limits=(1, 5))
    assert ends(limited) == (free[0], 5)


@pytest.mark.parametrize("value", [0.0, 1.0, 3.0, 0.1])
def test_ratings_that_are_all_alike_have_no_interval(value: float) -> None:
    found = mean_interval([value] * 12, own_clusters([value] * 12), is_share=False)

    assert found == Estimate(value, 12).unbounded(NoValue.CONSTANT, clusters=12)


@pytest.mark.parametrize("noise", [1e-16, 1e-9, 1e-6])
def test_what_a_processor_rounds_is_no_difference(noise: float) -> None:
    # A cosine of single precision carries noise of 1e-6 or less.
    values = [0.7 + noise * (at % 3) for at in range(12)]

    found = mean_interval(values, own_clusters(values), is_share=False)

    assert (found.low, found.why) == (None, NoValue.CONSTANT)


@pytest.mark.parametrize(
    ("values", "clusters"), [([0.0, 1.0], "aa"), ([3.0, 4.0], "ab"), ([1.0, 1.0], "ab")]
)
def test_fewer_than_three_clusters_are_too_few(values: list[float], clusters: str) -> None:
    found = mean_interval(values, list(clusters), is_share=False)

    assert (found.low, found.high, found.why) == (None, None, NoValue.TOO_FEW)
    assert found.value == sum(values) / 2


def test_the_order_of_the_rows_does_not_change_a_bit() -> None:
    random = Random(3)
    rows = [(random.gauss(0, 1), f"c{random.randrange(20)}") for _ in range(200)]
    shuffled = random.sample(rows, len(rows))

    first, second = (
        mean_interval([v for v, _ in some], [c for _, c in some], is_share=False)
        for some in (rows, shuffled)
    )

    assert first == second


def test_huge_numbers_have_the_interval_of_their_smaller_selves_or_none() -> None:
    small = ends(mean_interval([1.0, 2.0, 4.0, 3.0], list("abcd"), is_share=False))

    huge = ends(mean_interval([1e200, 2e200, 4e200, 3e200], list("abcd"), is_share=False))
    beyond = mean_interval([1e308, 1.5e308, 1.7e308], list("abc"), is_share=False)
    together = mean_interval([1e308, 1.7e308, 1.5e308, 1e308], list("aabc"), is_share=False)

    assert huge == pytest.approx([end * 1e200 for end in small])
    assert beyond.value == pytest.approx(1.4e308)
    assert (beyond.low, beyond.why) == (None, NoValue.DEGENERATE)
    assert (together.low, together.why) == (None, NoValue.DEGENERATE)
    assert clustered_mean([1e308, 1.5e308, 1.7e308], list("abc")).low is None


def test_a_higher_level_has_a_wider_interval() -> None:
    narrow, wide = (ends(clustered_mean([1, 2, 4], list("abc"), level=at)) for at in (0.5, 0.99))

    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_a_cell_missing_on_one_side_is_left_out_of_both() -> None:
    first, second = complete([[1, NAN, 3]], [[4, 5, NAN]])

    np.testing.assert_array_equal(first, [[1, NAN, NAN]])
    np.testing.assert_array_equal(second, [[4, NAN, NAN]])


def test_incomplete_pairs_are_counted() -> None:
    first, second, skipped = complete_pairs([1, NAN, 3, 4], [1, 2, NAN, 5])

    assert (first.tolist(), second.tolist(), skipped) == ([1, 4], [1, 5], 2)


def test_a_pair_with_a_missing_cell_has_no_direction() -> None:
    # Pairs in order: (0,1), (0,2), (1,2).
    assert pair_directions(np.array([[2, 1, NAN], [1, 1, 3]])).tolist() == [[1, 0, 0], [0, -1, -1]]


def test_a_quotient_by_nothing_is_missing_and_does_not_warn() -> None:
    np.testing.assert_array_equal(ratio([1.0, 0.0, 3.0], [2, 0, -1]), [0.5, NAN, NAN])
