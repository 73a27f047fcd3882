"""The clustered mean beside published numbers, and its p beside its interval."""

import numpy as np
import pytest

from harness.stats.clustered import clustered_mean
from harness.stats.estimate import NoValue

ITEMS = [float(x) for x in "110111110010101111100000"]
OTHER = [float(x) for x in "100111010010100111100100"]
CLUSTERS = [f"c{place // 4}" for place in range(24)]


def test_the_error_is_that_of_the_independent_check() -> None:
    found = clustered_mean(ITEMS, CLUSTERS)

    assert found.estimate.value == pytest.approx(0.583333, abs=1e-6)
    assert (found.bounds.low, found.bounds.high) == pytest.approx((0.1883, 0.9783), abs=1e-4)


def test_a_paired_difference_has_the_t_and_the_p_of_the_independent_check() -> None:
    found = clustered_mean(np.subtract(ITEMS, OTHER), CLUSTERS)

    assert found.estimate.value == pytest.approx(0.083333, abs=1e-6)
    assert found.test.statistic == pytest.approx(1.0)
    assert found.test.p == pytest.approx(0.3632, abs=1e-4)


def test_independent_items_have_students_interval() -> None:
    from scipy.stats import ttest_1samp

    values = np.random.default_rng(1).normal(0.3, 1, 20)
    found, other = clustered_mean(values, [*map(str, range(20))]), ttest_1samp(values, 0)

    assert (found.test.statistic, found.test.p) == pytest.approx(tuple(other))
    assert (found.bounds.low, found.bounds.high) == pytest.approx(
        tuple(other.confidence_interval())
    )


@pytest.mark.parametrize("values", [[1.0, 0.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 1.0, 1.0, 0.9]])
def test_an_interval_stops_where_its_values_do(values: list[float]) -> None:
    # Of three items one differs: Student's interval of the difference would be -1.10 to 1.77.
    names = [*map(str, range(len(values)))]
    free, found = clustered_mean(values, names), clustered_mean(values, names, limits=(-1, 1))

    assert free.bounds.high is not None
    assert free.bounds.low is not None
    assert (found.bounds.low, found.bounds.high) == (max(-1, free.bounds.low), 1)
    assert found.test == free.test
    assert clustered_mean([7.0, *values], ["new", *names], limits=(-1, 1)) == clustered_mean(
        [7.0, *values], ["new", *names]
    )


def test_p_is_below_the_level_just_where_the_interval_leaves_out_zero() -> None:
    draw, seen = np.random.default_rng(3), set()
    for _ in range(400):
        n, size = int(draw.integers(4, 60)), int(draw.integers(1, 6))
        values = draw.integers(-1, 2, n) + draw.choice([0.0, 0.3])
        found = clustered_mean(values, [str(place // size) for place in range(n)])
        if found.test.p is None or found.bounds.low is None or found.bounds.high is None:
            assert found.test.p is found.bounds.low is found.bounds.high is None
            continue
        is_apart = found.bounds.low > 0 or found.bounds.high < 0
        assert (found.test.p < 0.05) == is_apart
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

    assert (found.bounds.low, found.test.p, found.bounds.reason) == (None, None, reason)
    assert found.estimate.value == (np.mean(values) if values else None)
