"""The score interval of two shares of the same items."""

from random import Random
from statistics import NormalDist

import pytest

from harness.stats.clustered import paired_gap


def named(count: int) -> list[str]:
    return [f"c{place}" for place in range(count)]


def test_without_a_differing_item_it_is_that_of_no_event() -> None:
    # Tango (1998): z^2 / (n + z^2) to either side, where no pair is discordant
    found, reach = paired_gap([1.0] * 44, [1.0] * 44, named(44)), NormalDist().inv_cdf(0.975)

    end = reach**2 / (44 + reach**2)
    assert (found.low, found.high) == pytest.approx((-end, end), abs=1e-9)


def test_the_sides_swapped_are_the_interval_mirrored() -> None:
    first, second = [1.0] * 30 + [0.0] * 20, [1.0] * 22 + [0.0] * 25 + [1.0] * 3
    one, other = (paired_gap(*sides, named(50)) for sides in ((first, second), (second, first)))

    assert (one.low, one.high) == pytest.approx((-(other.high or 0), -(other.low or 0)))


def test_ends_stay_within_what_a_gap_can_be_and_hold_the_gap() -> None:
    all_drop = paired_gap([1.0] * 10, [0.0] * 10, named(10))

    assert all_drop.low is not None
    assert all_drop.high is not None
    assert 0 < all_drop.low < 1 == pytest.approx(all_drop.high)


def test_items_that_move_with_their_cluster_are_worth_one_a_cluster() -> None:
    clusters = [f"c{place // 4}" for place in range(80)]
    new = [float(place // 4 % 5 > 0) for place in range(80)]

    lumped, alone = (
        paired_gap([1.0] * 80, new, clusters),
        paired_gap([1.0] * 20, new[::4], named(20)),
    )
    assert (lumped.low, lumped.high) == pytest.approx((alone.low, alone.high))


def test_items_that_move_with_their_cluster_in_part_are_worth_less_than_they_are() -> None:
    new = [float(place % 8 > 1) for place in range(80)]
    clusters = [f"c{place // 4}" for place in range(80)]

    lumped, alone = paired_gap([1.0] * 80, new, clusters), paired_gap([1.0] * 80, new, named(80))
    assert (lumped.low or 0) < (alone.low or 0) < 0.25 < (alone.high or 0) < (lumped.high or 0)


def test_two_clusters_have_no_interval() -> None:
    assert paired_gap([1.0, 0.0], [0.0, 0.0], named(2)).why == "too few"


@pytest.mark.slow
def test_it_leaves_out_a_true_gap_in_one_of_twenty_samples_at_most() -> None:
    draw, out = Random("pairs"), 0
    for _ in range(2000):
        drops = [draw.choices((1, -1, 0), (0.05, 0.02, 0.93))[0] for _ in range(200)]
        first, second = ([float(s * d > 0 or d == 0) for d in drops] for s in (1, -1))
        found = paired_gap(first, second, named(200))
        out += not (found.low or -1) <= 0.03 <= (found.high or 1)
    assert out / 2000 < 0.06
