"""Two readings of the same items: published values, scipy, and sums done by hand."""

import numpy as np
import pytest
from scipy import stats
from support.each import each

from harness.stats.clustered import clustered_mean
from harness.stats.comparison import (
    Fourfold,
    fourfold,
    mcnemar_exact,
    mcnemar_mid_p,
    phi,
    share_given,
    sign_flip_test,
)
from harness.stats.estimate import NoValue

# Bentur et al. 2009 as in Fagerland et al. 2013, table 1: exact p .070, mid-p .039.
AIRWAYS = Fourfold(1, 1, 7, 12)
TABLES = [Fourfold(3, b, c, 5) for b in range(7) for c in range(7) if b + c]


def bits(text: str) -> list[bool]:
    """A reading, 1 for right."""
    return [letter == "1" for letter in text]


def alone(count: int) -> list[str]:
    return [f"c{place:03}" for place in range(count)]


def test_a_fourfold_table_counts_where_each_item_falls() -> None:
    found = fourfold(bits("1101100"), bits("1010110"))

    assert found == Fourfold(both=2, only_first=2, only_second=2, neither=1)
    assert found.discordant == 4


def test_mcnemars_p_values_are_the_published_ones() -> None:
    assert mcnemar_exact(AIRWAYS).p == pytest.approx(0.070, abs=5e-4)
    assert mcnemar_mid_p(AIRWAYS).p == pytest.approx(0.039, abs=5e-4)


@each("table", TABLES)
def test_the_exact_p_is_that_of_scipys_binomial_test(table: Fourfold) -> None:
    expected = stats.binomtest(table.only_first, table.discordant).pvalue

    assert mcnemar_exact(table).p == pytest.approx(expected, abs=1e-12)


@each("table", TABLES)
def test_mid_p_counts_outcomes_as_extreme_as_the_one_at_hand_half(table: Fourfold) -> None:
    n = table.discordant
    distance = np.abs(np.arange(n + 1) - n / 2)
    chances, own = stats.binom.pmf(np.arange(n + 1), n, 0.5), abs(table.only_first - n / 2)

    expected = chances[distance > own].sum() + chances[distance == own].sum() / 2
    assert mcnemar_mid_p(table).p == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("table", "exact", "reason"),
    [
        (Fourfold(0, 0, 0, 0), None, NoValue.TOO_FEW),
        (Fourfold(5, 0, 0, 2), 1.0, NoValue.DEGENERATE),
    ],
)
def test_without_a_discordant_item_p_is_one_and_without_items_there_is_none(
    table: Fourfold, exact: float | None, reason: NoValue
) -> None:
    assert (mcnemar_exact(table).p, mcnemar_exact(table).n) == (exact, 0)
    assert (mcnemar_mid_p(table).p, mcnemar_mid_p(table).reason) == (None, reason)


def test_the_interval_of_a_difference_is_near_that_of_paired_proportions() -> None:
    # Wald's interval of a paired difference: d +- 1.96 sqrt(b + c - (b - c)^2 / n) / n.
    table = Fourfold(60, 40, 20, 80)
    first = bits("1" * 60 + "1" * 40 + "0" * 20 + "0" * 80)
    second = bits("1" * 60 + "0" * 40 + "1" * 20 + "0" * 80)
    n = table.both + table.discordant + table.neither
    error = (60 - 400 / n) ** 0.5 / n

    found = clustered_mean(np.subtract(first, second, dtype=float), alone(200))
    assert (found.low, found.high) == pytest.approx(
        (0.1 - 1.96 * error, 0.1 + 1.96 * error), abs=4e-3
    )


@each("table", TABLES)
def test_flipping_right_and_wrong_gives_mcnemars_exact_p(table: Fourfold) -> None:
    differences = [1.0] * table.only_first + [-1.0] * table.only_second + [0.0] * 8

    found = sign_flip_test(differences, alone(len(differences)), seed="0", draws=4096)
    assert found.p == pytest.approx(mcnemar_exact(table).p, abs=1e-12)


def test_few_clusters_are_flipped_in_every_way_as_scipy_does() -> None:
    first, second = [4.0, 2.5, 3.0, 5.0, 1.0, 2.0], [3.0, 3.0, 1.0, 4.5, 1.5, 0.0]
    expected = stats.permutation_test(
        (first, second), lambda a, b: np.mean(a - b), permutation_type="samples"
    )

    found = sign_flip_test(np.subtract(first, second), alone(6), seed="0", draws=64)
    assert (found.statistic, found.p) == pytest.approx((expected.statistic, expected.pvalue))


def test_a_cluster_is_flipped_whole() -> None:
    differences, names = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0], ["a", "a", "a", "b", "b", "b"]

    assert sign_flip_test(differences, names, seed="0").p == 0.5  # ++ and -- of four
    assert sign_flip_test(differences, alone(6), seed="0").p == 2 / 64


@pytest.mark.parametrize(
    ("differences", "p"), [([], None), ([0.0, 0.0], 1.0), ([0.1, 0.2, -0.3], 1.0)]
)
def test_without_any_difference_p_is_one_and_without_items_there_is_none(
    differences: list[float], p: float | None
) -> None:
    names = ["one"] * len(differences)

    assert sign_flip_test(differences, names, seed="0").p == p


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
def test_phi_of_a_constant_reading_is_missing_and_not_zero(
    first: str, second: str, reason: NoValue
) -> None:
    found = phi(bits(first), bits(second), alone(len(first)))

    assert (found.value, found.reason) == (None, reason)
    assert found.low is None
