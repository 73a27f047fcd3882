"""Intervals over clusters: equal to a slow loop on the same draws, honest where it cannot know."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from scipy.stats import t
from support import rating_tables
from support.each import each
from support.rating_tables import BARREN, OF_SYSTEMS, documents_of, rater_table, table_pair

from harness.stats.agreement import (
    Scale,
    agreement_stats,
    alpha,
    alpha_ci,
    alpha_with_each,
    difference_ci,
    means_without,
    pearson_moves,
    pearsons_without,
)
from harness.stats.clustered import clustered_mean
from harness.stats.correlation import dataset_pearson, document_tau
from harness.stats.estimate import (
    Estimate,
    Floats,
    Indices,
    NoValue,
    Resamples,
    complete,
    drawn_interval,
)

SCALES: tuple[Scale, ...] = get_args(Scale)
BY_NAME: dict[str, Callable[[Floats, Floats], Estimate]] = {
    "pearson_dataset": dataset_pearson,
    "kendall_document": document_tau,
    "kendall_document_zero": rating_tables.tau_zero,
    **OF_SYSTEMS,
}


def drawn(clusters: list[str], seed: str = "s", draws: int = 60) -> Resamples:
    return Resamples.of(clusters, seed=seed, draws=draws)


def assert_same(fast: Estimate, slow: Estimate) -> None:
    assert (fast.value, fast.n, fast.reason) == (slow.value, slow.n, slow.reason)
    assert (fast.clusters, fast.why) == (slow.clusters, slow.why)
    assert fast.low == pytest.approx(slow.low, abs=1e-9)
    assert fast.high == pytest.approx(slow.high, abs=1e-9)


def left_out(statistic: Callable[[Indices], Estimate], resamples: Resamples) -> Estimate:
    """`jackknifed` with the degrees of freedom of clusters that move as one row of their size."""
    slow, sizes = (
        rating_tables.jackknifed(statistic, resamples),
        np.bincount(resamples.places).astype(float),
    )
    if slow.value is None or slow.low is None or slow.high is None:
        return slow
    weights = sizes / sizes.sum()
    moves = (np.eye(len(sizes)) - weights[:, None]) / np.sqrt(1 - weights)[:, None]
    spread = moves @ np.diag(sizes**2) @ moves.T
    degrees = np.trace(spread) ** 2 / (spread**2).sum()
    middle, wider = np.arctanh(slow.value), t.ppf(0.975, degrees) / t.ppf(0.975, len(sizes) - 1)
    low, high = np.tanh(middle + (np.arctanh([slow.low, slow.high]) - middle) * wider).tolist()
    return replace(slow, low=low, high=high)


@each("name", OF_SYSTEMS)
@each("seed", range(8))
def test_figures_of_systems_are_those_of_a_loop_over_the_same_draws(seed: int, name: str) -> None:
    # Gaps are so many that draws without a system and documents without a pair occur.
    human, judge = table_pair(seed, documents=24, systems=4, gaps=0.4)
    resamples = drawn(documents_of(24, 20, seed))
    statistic = BY_NAME[name]

    fast = agreement_stats(human, judge, resamples)[name]

    assert_same(
        fast, rating_tables.resampled(lambda rows: statistic(human[rows], judge[rows]), resamples)
    )


@each("name", BY_NAME.keys() - OF_SYSTEMS)
@each("seed", range(8))
def test_other_figures_are_those_of_leaving_out_a_cluster_in_a_loop(seed: int, name: str) -> None:
    human, judge = table_pair(seed, documents=14, systems=4, gaps=0.3)
    resamples = drawn(documents_of(14, 6, seed))
    statistic = BY_NAME[name]
    fast = agreement_stats(human, judge, resamples)[name]

    assert_same(fast, left_out(lambda rows: statistic(human[rows], judge[rows]), resamples))


@each("seed", range(5))
def test_a_difference_in_uneven_clusters_is_tested_as_a_mean_of_them_is(seed: int) -> None:
    values, names = (
        table_pair(seed, documents=40, systems=1, gaps=0.0)[0],
        documents_of(40, 9, seed),
    )
    clusters = drawn(names)
    mean, known = clustered_mean(values[:, 0], names), Estimate(float(values.mean()), 40)

    found = difference_ci(known, means_without(values[:, 0], clusters), values, clusters)

    assert (found.low, found.high) == pytest.approx((mean.low, mean.high))
    assert (found.p, found.worth) == pytest.approx((mean.p, mean.worth))
    few = difference_ci(known, np.ones(clusters.clusters), np.full((40, 1), np.nan), clusters)
    assert few.why is NoValue.TOO_FEW


@each("seed", range(5))
def test_a_cell_moves_pearsons_r_as_leaving_it_out_does(seed: int) -> None:
    human, judge = complete(*table_pair(seed, documents=200, systems=1, gaps=0.1))
    without = pearsons_without(human, judge, drawn([f"{n:03}" for n in range(200)]))
    known = ~np.isnan(human[:, 0])
    expected = (without.mean() - without[known]) * known.sum()

    moves = pearson_moves(human, judge)[:, 0]

    assert np.isnan(moves[~known]).all()
    assert moves[known] == pytest.approx(expected, abs=0.15, rel=0.1)
    assert np.corrcoef(moves[known], expected)[0, 1] > 0.999


@each("scale", SCALES)
@each("seed", range(5))
def test_alphas_are_those_of_leaving_out_each_cluster_in_a_loop(seed: int, scale: Scale) -> None:
    ratings = rater_table(seed, units=24).reshape(12, 2, 4)
    resamples = drawn(documents_of(12, 7, seed))
    fast = alpha_ci(ratings, resamples, scale=scale)

    slow = left_out(lambda rows: alpha(ratings[rows].reshape(-1, 4), scale), resamples)
    assert_same(fast, slow)


@each("scale", SCALES)
def test_alpha_with_each_is_the_mean_of_the_alphas_of_pairs(scale: Scale) -> None:
    raters = rater_table(3, units=24).reshape(12, 2, 4)
    judge = rater_table(4, units=24, raters=1)[:, 0].reshape(12, 2)
    resamples = drawn(documents_of(12, 7))

    def alphas(rows: Indices) -> list[float]:
        pairs = (np.stack([raters[rows][:, :, k], judge[rows]], axis=2) for k in range(4))
        return [alpha(pair.reshape(-1, 2), scale).value or 0.0 for pair in pairs]

    found = alpha_with_each(raters, judge, resamples, scale=scale)

    slow = left_out(lambda rows: Estimate(float(np.mean(alphas(rows))), n=4), resamples)
    assert found.value == pytest.approx(slow.value)
    assert found.low == pytest.approx(slow.low)
    assert found.high == pytest.approx(slow.high)
    assert found.sd == pytest.approx(np.std(alphas(np.arange(12)), ddof=1))


@pytest.mark.parametrize("clusters", [4, 5])
def test_fewer_than_five_clusters_have_no_interval(clusters: int) -> None:
    human, judge = table_pair(1, documents=20)
    resamples = drawn([f"c{row % clusters}" for row in range(20)])

    found = agreement_stats(human, judge, resamples)

    reason = NoValue.TOO_FEW if clusters == 4 else None
    assert found["pearson_dataset"].why == found["kendall_document"].why == reason
    assert found["pearson_system"].why == NoValue.TOO_FEW


def test_the_rows_of_a_document_are_averaged_before_documents_are() -> None:
    # By hand: the taus of a are 1 and 1, that of b is -1; of three rows the mean would be 1/3.
    human, judge = [[1, 2], [1, 2], [1, 2]], [[1, 2], [3, 4], [2, 1]]
    found = agreement_stats(human, judge, drawn(["a", "a", "b"]), documents=["a", "a", "b"])
    tau = found["kendall_document"]

    assert (tau.value, tau.n) == (0.0, 2)


def test_a_cluster_is_drawn_with_all_its_documents() -> None:
    resamples = drawn(["b", "a", "b", "c"])

    for rows in rating_tables.drawn_rows(resamples):
        taken = np.bincount(rows, minlength=4)
        assert taken[0] == taken[2]
        assert taken[[0, 1, 3]].sum() == 3


def some_draws(clusters: int, draws: int) -> list[Floats]:
    """The blocks of draws of as many clusters, one document each."""
    return list(drawn([f"{at:04}" for at in range(clusters)], draws=draws).counts())


def test_how_many_draws_a_block_has_does_not_change_them() -> None:
    [few], many = some_draws(5000, 60), np.vstack(some_draws(5000, 400))
    np.testing.assert_array_equal(many[:60], few)


@pytest.mark.parametrize(
    ("values", "clusters", "reason"),
    [
        (np.linspace(0, 1, 60), ["a", "a"], NoValue.TOO_FEW),
        (np.full(60, 0.7), ["a", "b"], NoValue.CONSTANT),
        (np.append(np.linspace(0, 1, 56), np.full(4, np.nan)), ["a", "b"], NoValue.TOO_FEW),
        (np.append(np.linspace(0, 1, 57), np.full(3, np.nan)), ["a", "b"], None),
    ],
)
def test_bounds_are_missing_where_they_would_claim_too_much(
    values: Floats, clusters: list[str], reason: NoValue | None
) -> None:
    assert drawn_interval(Estimate(0.5, n=2), values, drawn(clusters)).why == reason


@each("name", BARREN)
def test_barren_tables_have_figures_without_values(name: str) -> None:
    rows = BARREN[name]

    found = agreement_stats(rows, np.ones(rows.shape), drawn(documents_of(len(rows), 3)))

    # A constant judge has a zero-filled tau: 0.
    for correlation in BY_NAME.keys() - {"kendall_document_zero"}:
        figure = found[correlation]
        assert figure.reason is not None
        assert figure.why == figure.reason


def test_a_full_study_takes_seconds() -> None:
    human, judge = table_pair(1, documents=2085, systems=7, gaps=0.02)
    raters = rater_table(1, units=2085 * 7, raters=3).reshape(2085, 7, 3)
    start = time.process_time()

    resamples = drawn(documents_of(2085, 962), draws=1000)
    found = agreement_stats(human, judge, resamples)
    alpha_ci(raters, resamples, scale="interval")

    assert found["kendall_document"].clusters == 962
    assert time.process_time() - start < 8
