"""Intervals of a mean: whole clusters drawn, order and machine without effect."""

import time
from random import Random

import numpy as np
import pytest

from harness.stats.estimate import Interval, mean_interval


def own_clusters(values: list[float]) -> list[str]:
    return [f"{i:04}" for i in range(len(values))]


@pytest.mark.parametrize(("level", "low", "high"), [(0.95, 0.0, 1.0), (0.4, 1 / 3, 1 / 3)])
def test_bounds_match_a_count_by_hand(level: float, low: float, high: float) -> None:
    # Clusters (0, 0) and (1): a draw gives 0 (1/4), 1/3 (1/2) or 1 (1/4), so the quantiles
    # at .025 and .975 are 0 and 1, those at .3 and .7 are 1/3.
    interval = mean_interval([0, 0, 1], ["a", "a", "b"], seed="hand", level=level)

    assert interval == Interval(1 / 3, low, high, n=3, clusters=2)


def test_bounds_agree_with_scipy_on_values_without_clusters() -> None:
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(1).normal(3, 1, size=170)

    ours = mean_interval(values.tolist(), own_clusters(values.tolist()), seed="s", draws=20_000)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval

    # A bound of 20,000 draws has a simulation error of about 0.0015 here.
    assert [ours.low, ours.high] == pytest.approx([theirs.low, theirs.high], abs=0.006)


@pytest.mark.parametrize("size", [1, 4])
def test_the_interval_covers_the_truth_as_often_as_it_says(size: int) -> None:
    # 60 clusters of `size` equal 0/1 values around .6; 95% of 300 is 285, and three standard
    # errors are 11. Percentile intervals of 60 units fall a little short.
    random = Random(f"coverage {size}")
    covered = 0
    for trial in range(300):
        hits = [float(random.random() < 0.6) for _ in range(60)]
        clusters = [f"{i:02}" for i in range(60) for _ in range(size)]
        values = [hit for hit in hits for _ in range(size)]
        interval = mean_interval(values, clusters, seed=f"{trial}", draws=500)
        assert interval.low is not None
        assert interval.high is not None
        covered += interval.low <= 0.6 <= interval.high

    assert 270 <= covered <= 296


def test_the_order_of_the_rows_does_not_change_a_bit() -> None:
    random = Random(3)
    rows = [(random.gauss(0, 1), f"c{random.randrange(20)}") for _ in range(200)]
    shuffled = random.sample(rows, len(rows))

    first, second = (
        mean_interval([v for v, _ in some], [c for _, c in some], seed="s")
        for some in (rows, shuffled)
    )

    assert first == second


def test_the_seed_alone_decides_what_is_drawn() -> None:
    values = [float(i) for i in range(30)]

    lows = [mean_interval(values, own_clusters(values), seed=s).low for s in ("a", "a", "b")]

    assert lows[0] == lows[1] != lows[2]


def test_a_seed_gives_the_same_bounds_on_every_machine() -> None:
    # The values this code gave when it was written: a change of numpy must not go unseen.
    values = [float(i % 7) for i in range(40)]

    interval = mean_interval(values, own_clusters(values), seed="pinned")

    assert (interval.low, interval.high) == (2.275, 3.5)


def test_clusters_of_like_values_make_the_interval_wider() -> None:
    values = [float(i) for i in range(20) for _ in range(5)]
    clusters = [f"{i:02}" for i in range(20) for _ in range(5)]

    alone = mean_interval(values, own_clusters(values), seed="s")
    clustered = mean_interval(values, clusters, seed="s")

    # Five equal values a cluster: wider by the square root of five.
    assert width(clustered) / width(alone) == pytest.approx(5**0.5, rel=0.1)


def width(interval: Interval) -> float:
    assert interval.low is not None
    assert interval.high is not None
    return interval.high - interval.low


def test_no_values_give_no_number() -> None:
    assert mean_interval([], [], seed="s") == Interval(None, None, None, n=0, clusters=0)


def test_one_cluster_has_a_mean_and_no_bounds() -> None:
    interval = mean_interval([0, 1], ["a", "a"], seed="s")

    assert interval == Interval(0.5, None, None, n=2, clusters=1)


@pytest.mark.parametrize(("value", "low", "high"), [(1.0, 0.691503, 1.0), (0.0, 0.0, 0.308497)])
def test_all_right_or_all_wrong_is_not_certain(value: float, low: float, high: float) -> None:
    # Ten clusters, by hand: .025 ** (1 / 10) = .691503.
    interval = mean_interval([value] * 20, [f"{i % 10}" for i in range(20)], seed="s")

    assert (interval.value, interval.n, interval.clusters) == (value, 20, 10)
    assert [interval.low, interval.high] == pytest.approx([low, high], abs=1e-6)


def test_exact_bounds_agree_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")

    ours = mean_interval([1.0] * 37, own_clusters([1.0] * 37), seed="s", level=0.9)
    theirs = stats.binomtest(37, 37).proportion_ci(confidence_level=0.9, method="exact")

    assert [ours.low, ours.high] == pytest.approx([theirs.low, theirs.high])


@pytest.mark.parametrize("value", [0.5, 3.0, 0.1])
def test_another_constant_has_no_bounds(value: float) -> None:
    interval = mean_interval([value] * 5, own_clusters([value] * 5), seed="s")

    assert interval == Interval(value, None, None, n=5, clusters=5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="1 of 2 values are not finite"):
        mean_interval([1.0, bad], ["a", "b"], seed="s")


def test_each_value_needs_a_cluster() -> None:
    with pytest.raises(ValueError, match="2 values, 1 clusters"):
        mean_interval([1.0, 0.0], ["a"], seed="s")


@pytest.mark.parametrize(("draws", "level"), [(0, 0.95), (10, 0.0), (10, 1.0), (10, 95.0)])
def test_draws_and_level_that_make_no_interval_are_refused(draws: int, level: float) -> None:
    with pytest.raises(ValueError, match="draws >= 1 and 0 < level < 1"):
        mean_interval([1.0], ["a"], seed="s", draws=draws, level=level)


def test_two_hundred_intervals_take_less_than_two_seconds() -> None:
    values = [float(i % 3 == 0) for i in range(170)]
    start = time.process_time()

    for call in range(200):
        mean_interval(values, own_clusters(values), seed=f"{call}")

    assert time.process_time() - start < 2


def test_clusters_of_equal_means_have_no_bounds_however_their_members_differ() -> None:
    found = mean_interval([0.0, 1.0] * 3, ["a", "a", "b", "b", "c", "c"], seed="1")

    assert (found.value, found.low, found.high, found.clusters) == (0.5, None, None, 3)
