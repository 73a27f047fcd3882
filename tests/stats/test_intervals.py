"""Intervals of a mean: clusters count whole, shares are shares, order is without effect."""

from random import Random

import numpy as np
import pytest
from scipy import stats
from support.each import each
from support.rating_tables import NAN

from harness.stats import estimate
from harness.stats.classification import classification_metrics, trend
from harness.stats.clustered import clustered_mean
from harness.stats.estimate import Clusters, Estimate, Floats, Indices, NoValue, complete, ratio
from harness.stats.intervals import Parts, cluster_interval, mean_interval


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

    plain, share = (mean_interval(values, clusters, is_share=is_own) for is_own in (False, True))

    assert (plain.n, plain.clusters, plain.worth) == (24, 6, 6)
    assert plain.value == pytest.approx(0.583333, abs=1e-6)
    assert ends(plain) == pytest.approx((0.1883, 0.9783), abs=5e-5)
    reach = stats.t.ppf(0.975, 5)
    assert (plain.high or 0) - 0.583333 == pytest.approx(reach * 0.153659, abs=1e-5)
    # As a share: of as many independent rows as have this error.
    own = wilson(0.583333, 0.583333 * 0.416667 / 0.153659**2, reach)
    assert ends(share) == pytest.approx(own, abs=1e-5)


def wilson(share: float, n: float, reach: float) -> tuple[float, float]:
    """Both shares p at which (share - p)^2 is reach^2 p (1 - p) / n."""
    square = reach**2 / n
    low, high = np.sort(np.roots([1 + square, -(2 * share + square), share**2])).tolist()
    return low, high


def by_matrices(
    design: Floats, root: Floats, outcomes: Floats, spread: Floats, places: Indices
) -> tuple[float, float]:
    """CR2's error of the last coefficient and its degrees, with matrices of rows x rows.

    Bell & McCaffrey (2002): `root` of the rows' weights, `spread` the outcomes' covariance.
    """
    rows = design * root[:, None]
    solved = np.linalg.inv(rows.T @ rows) @ rows.T
    left = np.eye(len(rows)) - rows @ solved
    moves = np.zeros((places.max() + 1, len(rows)))
    for cluster, move in enumerate(moves):
        own = places == cluster
        values, axes = np.linalg.eigh(left[np.ix_(own, own)])
        move[own] = solved[-1, own] @ axes @ np.diag(values**-0.5) @ axes.T
    moved = moves @ left @ np.diag(root)
    covered = moved @ spread @ moved.T
    error = np.sqrt(((moved @ outcomes) ** 2).sum())
    return float(error), float(np.trace(covered) ** 2 / (covered**2).sum())


def alike(values: Floats, places: Indices, weights: Floats) -> tuple[float, Floats]:
    """The correlation in clusters at which both sums of squares are expected, and of all rows."""
    own = (places[:, None] == places).astype(float)
    left = np.eye(len(values)) - weights
    sums = np.eye(places.max() + 1)[places].T * weights
    inside = np.diag(weights) - sums.T @ np.diag(1 / sums.sum(axis=1)) @ sums
    between = sums.T @ np.diag(1 / sums.sum(axis=1)) @ sums
    squares = [left.T @ form @ left for form in (inside, between)]
    expected = [[np.trace(form @ kind) for kind in (np.eye(len(own)), own)] for form in squares]
    rows, clusters = np.linalg.solve(expected, [values @ form @ values for form in squares])
    same = float(max(0.0, clusters) / (max(0.0, clusters) + rows))
    return same, same * own + (1 - same) * np.eye(len(own))


def drawn(seed: int, *, is_even: bool = False) -> tuple[Floats, Indices]:
    """Right or wrong answers that are alike within twelve clusters of one to eight rows."""
    draw = np.random.default_rng(seed)
    places = np.repeat(np.arange(12), 4 if is_even else draw.integers(1, 9, 12))
    values = draw.normal(size=12)[places] + draw.normal(size=len(places)) > 0.3
    return values.astype(np.float64), places


@each("is_weighted", [False, True])
@each("seed", range(6))
def test_error_and_degrees_are_those_of_square_matrices(seed: int, is_weighted: bool) -> None:
    values, places = drawn(seed)
    weights = np.random.default_rng(seed).random(len(values)) ** is_weighted
    weights /= weights.sum()
    mean, own = float(weights @ values), Clusters.named(places)

    spread = alike(values, places, weights)[1]
    slow = by_matrices(np.ones((len(values), 1)), np.sqrt(weights), values, spread, places)

    for given in (weights,) if is_weighted else (weights, None):
        parts = Parts.of(values, mean, own, given)
        assert (parts.error, parts.degrees) == pytest.approx(slow)
        found, reach = cluster_interval(Estimate(mean, 9), parts), stats.t.ppf(0.975, slow[1])
        assert ends(found) == pytest.approx((mean - reach * slow[0], mean + reach * slow[0]))
        assert found.worth == pytest.approx(slow[1] + 1)


@each("seed", range(6))
def test_f1_is_a_mean_of_rows_that_weigh_what_it_divides_by(seed: int) -> None:
    draw, (gold, places) = np.random.default_rng(seed), drawn(seed)
    guess = np.where(draw.random(len(gold)) < 0.6, gold, 1 - gold)
    own = gold + guess > 0
    scores, weights = 2 * (gold * guess / (gold + guess).clip(1))[own], (gold + guess)[own]
    weights, there = weights / weights.sum(), np.unique(places[own], return_inverse=True)[1]
    spread, design = alike(scores, there, weights)[1], np.ones((len(scores), 1))
    error, degrees = by_matrices(design, np.sqrt(weights), scores, spread, there)

    rows, f1 = [np.eye(2)[side.astype(int)] for side in (gold, guess)], float(weights @ scores)
    found = classification_metrics(rows[0], rows[1], Clusters.named(places))[0][1].f1

    assert found.value == pytest.approx(f1)
    expected = wilson(f1, f1 * (1 - f1) / error**2, stats.t.ppf(0.975, degrees))
    assert ends(found) == pytest.approx(expected)


@each("seed", range(6))
def test_the_p_of_a_trend_is_that_of_a_line_along_ranks_by_matrices(seed: int) -> None:
    draw = np.random.default_rng(seed)
    places = np.repeat(np.arange(40), draw.integers(1, 6, 40))
    x: Floats = np.round(draw.random(40)[places] + draw.random(len(places)), 1)
    chosen = draw.random(40)[places] + draw.random(len(places)) + x / 4 > 1.2
    y, ranks, ones = chosen.astype(np.float64), stats.rankdata(x), np.ones(len(x))
    slope, start = np.polyfit(ranks, y, 1)
    same = alike(np.asarray(y - start - slope * ranks), places, ones / len(x))[0]

    found = trend(x, y, Clusters.named(places))

    design, sizes = np.column_stack([ones, ranks]), np.bincount(places)[places]
    error, degrees = by_matrices(design, ones, y, np.diag(1 + (sizes - 1) * same), places)
    statistic = slope / error
    assert found.statistic == pytest.approx(statistic)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(statistic), degrees))


def test_clusters_of_one_size_have_a_degree_less_than_there_are_and_a_huge_one_costs_most() -> None:
    values, places = drawn(1, is_even=True)
    huge = np.where(np.arange(48) < 24, 0, places)  # half of the rows, which hold six clusters

    even, uneven = (mean_interval(values, at, is_share=False) for at in (places, huge))

    assert Parts.of(values, float(values.mean()), Clusters.named(places)).degrees == 11
    assert (even.clusters, even.worth, uneven.clusters) == (12, 12, 7)
    assert 1 < (uneven.worth or 0) < 4  # of two halves the one has no error of its own


def test_a_share_of_unequal_clusters_is_that_done_by_hand() -> None:
    # Of one, two and three rows 1, 1 and 0 are right: a share of 1/3. Clusters move it by 1/9, 1/18
    # and -1/6, over the root of 5/6, 2/3 and 1/2: an error of root .075. Rows vary by 1/6 within
    # clusters and .1364 between: alike by .45. So sums of rows vary as 1, 2.9 and 5.7, and after
    # the mean as 1.12, 3.05 and 4.8, with squared covariances .1445, 1.014 and 9.1875.
    squares = 1.12**2 + 3.05**2 + 4.8**2 + 2 * (0.1445 + 1.014 + 9.1875)
    degrees = (1.12 + 3.05 + 4.8) ** 2 / squares

    found = mean_interval([1.0, 1, 0, 0, 0, 0], list("abbccc"), is_share=True)

    expected = wilson(1 / 3, 2 / 9 / 0.075, stats.t.ppf(0.975, degrees))
    assert ends(found) == pytest.approx(expected, abs=1e-5)
    assert found.worth == pytest.approx(degrees + 1, abs=1e-4)


def test_independent_ratings_have_students_interval() -> None:
    values = np.random.default_rng(1).normal(3, 1, size=17)
    theirs = stats.ttest_1samp(values, 0).confidence_interval()

    found = mean_interval(values, own_clusters(values.tolist()), is_share=False)
    assert ends(found) == pytest.approx((theirs.low, theirs.high))


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


@each("is_share", [False, True])
@each("seed", range(20))
def test_the_order_of_the_rows_does_not_change_a_bit(seed: int, is_share: bool) -> None:
    random = Random(seed)
    draw = random.random if is_share else random.normalvariate
    rows = [(draw(), f"c{random.randrange(20)}") for _ in range(200)]

    first, second = (
        mean_interval([v for v, _ in some], [c for _, c in some], is_share=is_share)
        for some in (rows, random.sample(rows, len(rows)))
    )

    assert first == second
    assert first.low is not None


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
    first, second, skipped = estimate.complete_pairs([1, NAN, 3, 4], [1, 2, NAN, 5])
    assert (first.tolist(), second.tolist(), skipped) == ([1, 4], [1, 5], 2)


def test_a_pair_with_a_missing_cell_has_no_direction() -> None:
    # Pairs in order: (0,1), (0,2), (1,2).
    assert estimate.pair_directions(np.array([[2, 1, NAN], [1, 1, 3]])).tolist() == [
        [1, 0, 0],
        [0, -1, -1],
    ]


def test_a_quotient_by_nothing_is_missing_and_does_not_warn() -> None:
    np.testing.assert_array_equal(ratio([1.0, 0.0, 3.0], [2, 0, -1]), [0.5, NAN, NAN])
