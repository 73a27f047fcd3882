"""Two readings of the same items: published values, scipy, and sums done by hand."""

from random import Random
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats
from scipy.stats import t
from support.each import each

from harness.stats import clustered
from harness.stats.clustered import ShareRows, clustered_mean, paired_gap, share_gap
from harness.stats.comparison import Fourfold, fourfold, phi, share_given
from harness.stats.estimate import Estimate, Floats, NoValue
from harness.stats.scales import Range

# Bentur et al. 2009 as in Fagerland et al. 2013, table 1: exact p .070.
AIRWAYS = (1, 1, 7, 12)
TABLES = [(3, b, c, 5) for b in range(7) for c in range(7) if b + c]


def bits(text: str) -> list[bool]:
    """A reading, 1 for right."""
    return [letter == "1" for letter in text]


def alone(count: int) -> list[str]:
    return [f"c{place:03}" for place in range(count)]


def test_a_fourfold_table_counts_where_each_item_falls() -> None:
    found = fourfold(bits("1101100"), bits("1010110"))
    assert found == (2, 2, 2, 1)  # in both, in the first alone, in the second alone, in neither


def readings(table: Fourfold) -> tuple[list[float], list[float], list[str]]:
    """Both readings of items that are right in both, in the first, in the second, in neither."""
    sides = np.repeat([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], table, axis=0)
    return sides[:, 0].tolist(), sides[:, 1].tolist(), alone(len(sides))


def test_the_p_of_a_gap_is_the_published_one() -> None:
    assert paired_gap(*readings(AIRWAYS)).p == pytest.approx(0.070, abs=5e-4)


@each("table", [*TABLES, (5, 0, 0, 2)])
def test_the_p_of_a_gap_of_items_or_whole_clusters_is_mcnemars_exact_one(table: Fourfold) -> None:
    first, second, names = readings(table)
    differing = table[1] + table[2]
    expected = stats.binomtest(table[1], differing).pvalue if differing else 1.0

    for times in (1, 3):
        found = paired_gap(first * times, second * times, names * times)
        assert found.p == pytest.approx(expected, abs=1e-12)
        score = (table[1] - table[2]) / max(1, differing) ** 0.5  # McNemar (1947), not corrected
        assert found.statistic == pytest.approx(score)


@pytest.mark.parametrize(
    ("given", "value", "n", "skipped"), [(True, 2 / 3, 3, 4), (False, 1 / 4, 4, 3)]
)
def test_a_share_is_of_the_items_where_the_first_is_as_given(
    given: bool, value: float, n: int, skipped: int
) -> None:
    readings = bits("1110000"), bits("1100001")

    found = share_given(readings, alone(7), given=given)
    assert found.value == pytest.approx(value)
    assert (found.n, found.skipped) == (n, skipped)


@pytest.mark.parametrize(("second", "count"), [("1111", 4), ("0000", 0), ("1011", 3)])
def test_a_share_of_independent_items_has_wilsons_interval(second: str, count: int) -> None:
    theirs = stats.binomtest(count, 4).proportion_ci(method="wilson")

    found = share_given((bits("1111"), bits(second)), alone(4), given=True)
    assert found.value == count / 4
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))


def test_phi_is_pearsons_correlation_of_ones_and_zeros() -> None:
    first, second = bits("1101100110"), bits("1001110100")

    found = phi(first, second, alone(10))
    assert found.value == pytest.approx(np.corrcoef(first, second)[0, 1])
    assert found.value == pytest.approx((10 * 4 - 6 * 5) / (6 * 4 * 5 * 5) ** 0.5)


def test_the_interval_of_phi_leaves_each_cluster_out_in_turn() -> None:
    drawn, clusters = np.random.default_rng(1), [f"c{place // 3}" for place in range(60)]
    first = drawn.random(60) < 0.5
    second = np.where(drawn.random(60) < 0.7, first, ~first)
    found = phi(first.tolist(), second.tolist(), clusters)

    kept = [np.arange(60) // 3 != cluster for cluster in range(20)]
    z = np.array([np.corrcoef(first[rows], second[rows])[0, 1] for rows in kept])
    middle = np.corrcoef(first, second)[0, 1]
    reach = stats.t.ppf(0.975, 19) * (19 / 20 * ((z - z.mean()) ** 2).sum()) ** 0.5
    assert (found.low, found.high) == pytest.approx((middle - reach, middle + reach))


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [("", "", NoValue.TOO_FEW), ("111", "101", NoValue.CONSTANT), ("101", "000", NoValue.CONSTANT)],
)
def test_phi_of_a_constant_reading_is_missing(first: str, second: str, reason: NoValue) -> None:
    found = phi(bits(first), bits(second), alone(len(first)))
    assert (found.value, found.reason) == (None, reason)
    assert found.low is None


ITEMS = [float(x) for x in "110111110010101111100000"]
OTHER = [float(x) for x in "100111010010100111100100"]
CLUSTERS = [f"c{place // 4}" for place in range(24)]


def test_a_paired_difference_has_the_t_and_the_p_of_the_independent_check() -> None:
    found = clustered_mean(np.subtract(ITEMS, OTHER), CLUSTERS)

    assert found.value == pytest.approx(0.083333, abs=1e-6)
    assert found.statistic == pytest.approx(1.0)
    assert found.p == pytest.approx(0.3632, abs=1e-4)


@pytest.mark.parametrize("values", [[1.0, 0.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 1.0, 1.0, 0.9]])
def test_an_interval_stops_where_its_values_do(values: list[float]) -> None:
    # Of three items one differs: Student's interval of the difference would be -1.10 to 1.77.
    names = [*map(str, range(len(values)))]
    free, found = clustered_mean(values, names), clustered_mean(values, names, limits=(-1, 1))

    assert free.high is not None
    assert free.low is not None
    assert (found.low, found.high) == (max(-1, free.low), 1)
    assert (found.statistic, found.p) == (free.statistic, free.p)
    assert clustered_mean([7.0, *values], ["new", *names], limits=(-1, 1)) == clustered_mean(
        [7.0, *values], ["new", *names]
    )


@each("is_gap", [False, True])
def test_p_is_below_the_level_just_where_the_interval_leaves_out_zero(is_gap: bool) -> None:
    draw, seen = np.random.default_rng(3), set()
    for _ in range(400):
        # The p of items alone is exact, and no inverse of an interval.
        n, size = int(draw.integers(4, 60)), int(draw.integers(1 + is_gap, 6))
        values = draw.choice([-1, 0, 1], n, p=[0.2, 0.4, 0.4])
        names = [str(place // size) for place in range(n)]
        sides = values > 0, values < 0
        found = paired_gap(*sides, names) if is_gap else clustered_mean(values, names)
        if found.p is None or found.low is None or found.high is None:
            assert found.p is found.low is found.high is None
            continue
        is_apart = found.low > 0 or found.high < 0
        assert (found.p < 0.05) == is_apart
        seen.add(is_apart)

    assert seen == {True, False}


@pytest.mark.parametrize(
    ("values", "clusters", "reason"),
    [
        ([], [], NoValue.TOO_FEW),
        ([1.0, 0.0], ["a", "a"], NoValue.TOO_FEW),
        ([1.0, 0.5], ["a", "b"], NoValue.TOO_FEW),
        ([1.0, 1.0, 1.0], ["a", "b", "c"], NoValue.CONSTANT),
        ([1.0, 0.0] * 3, ["a", "a", "b", "b", "c", "c"], NoValue.CONSTANT),
    ],
)
def test_without_spread_between_clusters_there_is_neither_interval_nor_p(
    values: list[float], clusters: list[str], reason: NoValue
) -> None:
    found = clustered_mean(values, clusters)
    assert (found.low, found.p, found.why) == (None, None, reason)
    assert found.value == (np.mean(values) if values else None)


def share(hits: int, n: int, name: str) -> ShareRows:
    """Independent rows, of which some are hits."""
    names = [f"{name}{place}" for place in range(n)]
    return ShareRows([1.0] * hits + [0.0] * (n - hits), [1.0] * n, names)


@pytest.mark.parametrize(
    ("first", "second", "low", "high"),
    [
        *(((56, 70), (48, 80), 0.0524, 0.3339), ((9, 10), (3, 10), 0.1705, 0.8090)),
        *(((5, 56), (0, 29), -0.0381, 0.1926), ((10, 10), (0, 20), 0.6791, 1.0)),
    ],
)
def test_the_gap_of_independent_shares_has_the_interval_that_newcombe_prints(
    first: tuple[int, int], second: tuple[int, int], low: float, high: float
) -> None:
    # Newcombe (1998, Statistics in Medicine 17, 873), table II, method 10.
    found = share_gap(share(*first, "a"), share(*second, "b"))
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


def test_the_p_of_a_gap_never_contradicts_its_interval() -> None:
    draw = np.random.default_rng(7)
    for _ in range(150):
        sides = []
        for rate in draw.choice([0.1, 0.4, 0.6, 0.95], 2):
            names = [f"c{n}" for n in draw.integers(0, 14, 40)]
            sides.append(ShareRows((draw.random(40) < rate).astype(float), [1.0] * 40, names))
        found = share_gap(*sides)

        if found.low is not None and found.high is not None:
            is_outside = found.low > 0 or found.high < 0
            assert found.p is not None
            assert is_outside == (found.p < 0.05)


def test_rows_of_one_original_on_both_sides_are_no_evidence_twice() -> None:
    copies = share(30, 40, "a")
    lower = ShareRows([1.0] * 20 + [0.0] * 20, [1.0] * 40, copies.clusters)
    other = ShareRows(lower.hits, lower.sizes, [f"b{n}" for n in range(40)])
    paired, apart = share_gap(copies, lower), share_gap(copies, other)

    assert paired.value == apart.value == 0.25
    assert paired.p is not None
    assert apart.p is not None
    assert paired.p < apart.p


def test_a_gap_of_too_few_clusters_or_without_rows_says_so() -> None:
    few = ShareRows([1.0, 0.0, 1.0], [1.0] * 3, ["a", "a", "b"])

    for lone in (few, ShareRows(few.hits, few.sizes, ["a"] * 3)):
        assert share_gap(lone, share(5, 20, "x")).why is NoValue.TOO_FEW
    assert share_gap(few, share(5, 20, "x")).value == pytest.approx(2 / 3 - 0.25)
    assert share_gap(ShareRows([], [], []), few).reason is NoValue.TOO_FEW
    assert share_gap(share(9, 18, "x"), share(9, 18, "x")).why is NoValue.CONSTANT


def left_out(values: Floats) -> Floats:
    return np.asarray((values.sum() - values) / (len(values) - 1), dtype=np.float64)


def test_the_jackknife_of_a_mean_is_students_interval() -> None:
    values = np.array([3.0, 1, 4, 1, 5, 9, 2, 6])
    error = values.std(ddof=1) / np.sqrt(8)
    reach = t.ppf(0.975, 7) * error

    found = clustered.jackknife_interval(Estimate(values.mean(), 8), left_out(values), range_="any")

    assert (found.low, found.high) == pytest.approx((values.mean() - reach, values.mean() + reach))
    assert (found.n, found.worth) == (8, 8)
    theirs = stats.ttest_1samp(values, 0)
    assert (found.statistic, found.p) == pytest.approx((theirs.statistic, theirs.pvalue))
    sizes = np.array([9.0, 1, 1, 1, 1, 1, 1, 1])
    large = clustered.jackknife_interval(
        Estimate(1.0, 8), left_out(values), range_="any", sizes=sizes
    )
    assert 1 < (large.worth or 0) < 4
    assert large.p == pytest.approx(2 * t.sf(1 / error, (large.worth or 0) - 1))


@pytest.mark.parametrize(("range_", "least", "most"), [("correlation", -1, 1), ("share", 0, 1)])
def test_the_ends_stay_within_the_range(range_: Range, least: int, most: int) -> None:
    without = np.array([0.2, 0.99, 0.6, 0.97])
    found = clustered.jackknife_interval(Estimate(0.95, 4), without, range_=range_)

    assert found.low is not None
    assert found.high is not None
    assert least < found.low < 0.95 < found.high < most


@pytest.mark.parametrize(
    ("without", "range_", "reason"),
    [
        ([0.5, 0.4], "any", NoValue.TOO_FEW),
        ([0.5, np.nan, 0.4], "any", NoValue.TOO_FEW),
        ([0.5, 0.5, 0.5], "any", NoValue.CONSTANT),
        ([0.5, 1.0, 0.4], "correlation", NoValue.DEGENERATE),
        ([0.5, 0.0, 0.4], "share", NoValue.DEGENERATE),
    ],
)
def test_no_interval_says_why(without: list[float], range_: Range, reason: NoValue) -> None:
    found = clustered.jackknife_interval(Estimate(0.5, 3), np.array(without), range_=range_)
    assert (found.low, found.high, found.why) == (None, None, reason)


def test_an_estimate_without_value_keeps_its_reason() -> None:
    none = Estimate(None, 0, reason=NoValue.ONE_RATER)
    assert clustered.jackknife_interval(none, np.zeros(3), range_="any").reason is NoValue.ONE_RATER


def test_without_a_differing_item_it_is_that_of_no_event_and_two_clusters_have_none() -> None:
    # Tango (1998): z^2 / (n + z^2) to either side, where no pair is discordant
    found, reach = paired_gap([1.0] * 44, [1.0] * 44, alone(44)), NormalDist().inv_cdf(0.975)

    end = reach**2 / (44 + reach**2)
    assert (found.low, found.high) == pytest.approx((-end, end), abs=1e-9)
    assert paired_gap([1.0, 0.0], [0.0, 0.0], alone(2)).why == "too few"


def test_the_p_of_a_gap_of_clusters_is_of_students_t() -> None:
    gap = np.subtract(ITEMS, OTHER)
    sums = gap.reshape(6, 4).sum(axis=1)
    error = np.sqrt(6 / 5 * ((sums - 4 * gap.mean()) ** 2).sum()) / 24

    found = paired_gap(ITEMS, OTHER, CLUSTERS)

    worth = min(24, gap.var(ddof=1) / error**2)
    score = gap.mean() * np.sqrt(worth / np.abs(gap).mean())
    assert (found.statistic, found.p) == pytest.approx((score, 2 * stats.t.sf(score, 5)))


def test_the_sides_swapped_are_the_interval_mirrored() -> None:
    first, second = [1.0] * 30 + [0.0] * 20, [1.0] * 22 + [0.0] * 25 + [1.0] * 3
    one, other = (paired_gap(*sides, alone(50)) for sides in ((first, second), (second, first)))
    assert (one.low, one.high) == pytest.approx((-(other.high or 0), -(other.low or 0)))


def test_ends_stay_within_what_a_gap_can_be_and_hold_the_gap() -> None:
    all_drop = paired_gap([1.0] * 10, [0.0] * 10, alone(10))

    assert all_drop.low is not None
    assert all_drop.high is not None
    assert 0 < all_drop.low < 1 == pytest.approx(all_drop.high)


def test_items_that_move_with_their_cluster_are_worth_one_a_cluster() -> None:
    clusters = [f"c{place // 4}" for place in range(80)]
    new = [float(place // 4 % 5 > 0) for place in range(80)]

    lumped, single = (
        paired_gap([1.0] * 80, new, clusters),
        paired_gap([1.0] * 20, new[::4], alone(20)),
    )
    assert (lumped.low, lumped.high) == pytest.approx((single.low, single.high))


@pytest.mark.slow
def test_it_leaves_out_a_true_gap_in_one_of_twenty_samples_at_most() -> None:
    draw, out = Random("pairs"), 0
    for _ in range(2000):
        drops = [draw.choices((1, -1, 0), (0.05, 0.02, 0.93))[0] for _ in range(200)]
        first, second = ([float(s * d > 0 or d == 0) for d in drops] for s in (1, -1))
        found = paired_gap(first, second, alone(200))
        out += not (found.low or -1) <= 0.03 <= (found.high or 1)
    assert out / 2000 < 0.06
