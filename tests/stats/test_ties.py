"""Pairwise accuracy with ties: published unit values, a slow reference, honest cross-fitting."""

from itertools import combinations

import numpy as np
import pytest
from support.each import each
from support.rating_tables import BARREN, NAN, acc_eq, documents_of, table_pair

from harness.stats.correlation import (
    calibrated_acc_eq,
    cross_fitted_acc_eq,
    document_accuracies,
    tie_rate,
)
from harness.stats.estimate import Estimate, Floats, NoValue


def slow_accuracy(human: Floats, judge: Floats, epsilon: float) -> list[float]:
    """Each document's accuracy, pair by pair, as the paper defines it."""
    shares = []
    for h, m in zip(human, judge, strict=True):
        ok = [k for k in range(len(h)) if not np.isnan(h[k] + m[k])]
        right = [
            h[i] == h[j] if abs(m[i] - m[j]) <= epsilon else (h[i] - h[j]) * (m[i] - m[j]) > 0
            for i, j in combinations(ok, 2)
        ]
        shares += [float(np.mean(right))] if right else []
    return shares


@pytest.mark.parametrize(
    ("human", "accuracy", "epsilon"), [([1, 2, 3, 4], 1.0, 0.0), ([1, 1, 1, 4], 4 / 6, 4.0)]
)
def test_the_calibration_is_that_of_the_papers_own_unit_test(
    human: list[float], accuracy: float, epsilon: float
) -> None:
    found = calibrated_acc_eq([human], [[0, 2, 6, 8]])

    assert (found.estimate, found.epsilons) == (Estimate(accuracy, n=1), (epsilon,))


@pytest.mark.parametrize(("epsilon", "accuracy"), [(0, 0.6), (2, 0.4)])
def test_accuracies_are_those_of_mt_metrics_eval(epsilon: float, accuracy: float) -> None:
    # Values of testKendallVariants in mt-metrics-eval, variant acc23.
    found = acc_eq([[1, 2, 2, 3, 4]], [[2, 1, 1.5, 5, 3]], epsilon=epsilon)

    assert found.value == pytest.approx(accuracy)


def test_the_calibrated_accuracy_is_that_of_mt_metrics_eval() -> None:
    found = calibrated_acc_eq([[1, 2, 2, 3, 4]], [[2, 1, 1.5, 5, 3]])

    assert found.estimate.value == pytest.approx(0.7)


@each("seed", range(40))
def test_the_fit_tries_every_difference(seed: int) -> None:
    human, judge = table_pair(seed, documents=8, systems=4)
    tried = [0.0] + [abs(a - b) for row in judge for a, b in combinations(row[row == row], 2)]
    best = max(np.mean(slow_accuracy(human, judge, epsilon)) for epsilon in tried)

    found = calibrated_acc_eq(human, judge)

    assert found.estimate.value == pytest.approx(best)
    at_epsilon = slow_accuracy(human, judge, found.epsilons[0])
    assert np.mean(at_epsilon) == pytest.approx(best)
    assert len(at_epsilon) == found.estimate.n
    assert not any(
        np.mean(slow_accuracy(human, judge, e)) > best - 1e-9
        for e in tried
        if e < found.epsilons[0]
    )


def test_differences_that_only_rounding_separates_are_one() -> None:
    # 1/3 + 1/3 and 2/3 - 0 differ in the last bit somewhere on a grid of thirds.
    judge = np.array([[k / 3 for k in range(12)], [0.1 + k / 3 for k in range(12)]])
    human = np.array([[k // 2 for k in range(12)]] * 2, dtype=float)

    at_a_third = document_accuracies(human, judge, epsilon=1 / 3)

    # By hand: 66 pairs; of 11 neighbours 6 are human ties; the 55 others are ordered alike.
    assert at_a_third.tolist() == pytest.approx([61 / 66, 61 / 66])


@each("seed", range(5))
def test_cross_fitting_judges_a_fold_by_the_others(seed: int) -> None:
    human, judge = table_pair(seed, documents=30)
    clusters = documents_of(30, 9)

    found, _ = cross_fitted_acc_eq(human, judge, clusters, seed="s", folds=9)

    # Nine clusters in nine folds: leave one cluster out.
    shares, fitted = [], []
    for name in set(clusters):
        inside = np.array([c == name for c in clusters])
        epsilon = calibrated_acc_eq(human[~inside], judge[~inside]).epsilons[0]
        shares += slow_accuracy(human[inside], judge[inside], epsilon)
        fitted.append(epsilon)
    assert found.estimate.value == pytest.approx(np.mean(shares))
    assert sorted(found.epsilons) == pytest.approx(sorted(fitted))


def test_folds_depend_on_the_seed_and_the_clusters_names_alone() -> None:
    human, judge = table_pair(3, documents=30)
    names = documents_of(30, 12)
    order = np.random.default_rng(1).permutation(30)

    first, _ = cross_fitted_acc_eq(human, judge, names, seed="s")
    mixed = [names[k] for k in order]
    shuffled, _ = cross_fitted_acc_eq(human[order], judge[order], mixed, seed="s")

    assert shuffled.epsilons == first.epsilons
    assert shuffled.estimate.value == pytest.approx(first.estimate.value)


@pytest.mark.parametrize(
    ("ratings", "expected"),
    [
        ([[1, 1, 2], [3, NAN, 3]], Estimate(0.5, n=4)),
        ([[1], [2]], Estimate(None, n=0, reason=NoValue.ONE_SYSTEM)),
        ([[1, NAN]], Estimate(None, n=0, reason=NoValue.TOO_FEW)),
    ],
)
def test_the_tie_rate_is_a_share_of_pairs(ratings: list[list[float]], expected: Estimate) -> None:
    assert tie_rate(ratings) == expected


@each("name", ["no documents", "no systems", "one system", "one cell", "all missing"])
def test_without_a_pair_there_is_a_reason_and_no_epsilon(name: str) -> None:
    rows = BARREN[name]

    crossed, _ = cross_fitted_acc_eq(rows, rows, documents_of(len(rows), 3), seed="s")

    for found in (calibrated_acc_eq(rows, rows), crossed):
        assert found.estimate.reason in (NoValue.TOO_FEW, NoValue.ONE_SYSTEM)
        assert found.epsilons == ()
