"""Correlations of cells, in documents and of systems: published values, scipy, and gaps."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats
from support import rating_tables
from support.each import each, rest_slow

from harness.stats import correlation
from harness.stats.correlation import calibrated_acc_eq, cross_fitted_acc_eq, document_tau, kendall
from harness.stats.estimate import Estimate, Floats, NoValue, snapped

SEEDS = range(40)
OF_TABLES = [correlation.dataset_pearson, document_tau, *rating_tables.OF_SYSTEMS.values()]
system_spearman, system_pearson = rating_tables.OF_SYSTEMS.values()


@pytest.mark.parametrize(
    ("judge", "rho", "r", "p", "discordant"),
    [
        (rating_tables.BERT_F1, 0.9643, 0.890, 0.0028, 1),
        (rating_tables.AUTO_GPT4_GT, 0.8571, 0.954, 0.0238, 3),
        (rating_tables.AUTO_GPT4, 0.9643, 0.973, 0.0028, 1),
    ],
)
def test_the_systems_of_emphasized_talk_are_ranked_as_published(
    judge: Floats, rho: float, r: float, p: float, discordant: int
) -> None:
    exact = correlation.permutation_p(rating_tables.MOS, judge, "spearman")

    assert system_spearman([rating_tables.MOS], [judge]).value == pytest.approx(rho, abs=5e-5)
    assert system_pearson([rating_tables.MOS], [judge]).value == pytest.approx(r, abs=5e-4)
    assert exact.value == pytest.approx(p, abs=5e-5)
    assert correlation.discordant_pairs(rating_tables.MOS, judge) == Estimate(discordant, n=21)


def test_fishers_interval_is_scipys_or_says_why_it_is_missing() -> None:
    theirs = stats.pearsonr(rating_tables.MOS, rating_tables.AUTO_GPT4).confidence_interval()

    ours = correlation.fisher_interval(
        correlation.pearson(rating_tables.MOS, rating_tables.AUTO_GPT4).value or 0, 7
    )

    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))
    assert correlation.fisher_interval(0.5, 3).why is NoValue.TOO_FEW
    assert correlation.fisher_interval(-1, 9).why is NoValue.DEGENERATE


@each("seed", SEEDS)
def test_cells_correlate_as_in_scipy(seed: int) -> None:
    human, judge = rating_tables.table_pair(seed)
    there = ~np.isnan(human + judge)
    ours = correlation.dataset_pearson(human, judge)

    assert ours.value == pytest.approx(stats.pearsonr(human[there], judge[there]).statistic)
    assert (ours.n, ours.skipped) == (there.sum(), (~there).sum())


@each("seed", SEEDS)
def test_tau_is_scipys_of_each_document_and_its_mean(seed: int) -> None:
    human, judge = rating_tables.table_pair(seed, systems=4, gaps=0.3)
    taus = []
    for rows in zip(human, judge, strict=True):
        x, y = np.array(rows)[:, ~np.isnan(np.sum(rows, axis=0))]
        if len(x) > 1 and np.ptp(x) > 0 and np.ptp(y) > 0:
            taus.append(stats.kendalltau(x, y).statistic)

    ours = document_tau(human, judge)

    assert ours.value == pytest.approx(np.mean(taus))
    assert (ours.n, ours.skipped) == (len(taus), len(human) - len(taus))


@each("seed", SEEDS)
def test_systems_correlate_as_in_scipy_by_their_means_over_common_documents(seed: int) -> None:
    human, judge = rating_tables.table_pair(seed, systems=6)
    there = ~np.isnan(human + judge)
    means = [
        [column[ok].mean() for column, ok in zip(rows.T, there.T, strict=True)]
        for rows in (human, judge)
    ]

    # scipy takes means that differ by rounding for different ones.
    means = np.round(means, 9).tolist()
    np.testing.assert_allclose(correlation.system_means(human, judge), means, atol=1e-9)
    assert system_spearman(human, judge).value == pytest.approx(stats.spearmanr(*means).statistic)
    assert system_pearson(human, judge).value == pytest.approx(stats.pearsonr(*means).statistic)


def test_a_judge_that_ties_a_document_whole_leaves_the_denominator_or_scores_zero() -> None:
    # By hand: taus 1 and -1; the third is constant for people, the fourth for the judge, which is
    # counted out or 0; the fifth has one complete cell.
    human = np.array([[1, 2], [1, 2], [2, 2], [1, 2], [1, rating_tables.NAN]])
    judge = np.array([[1, 2], [2, 1], [1, 2], [3, 3], [1, 2]])

    assert document_tau(human, judge) == Estimate(0.0, n=2, skipped=3)
    assert document_tau(human, judge, is_zero_filled=True) == Estimate(0.0, n=3, skipped=2)
    assert document_tau(human[[0, 3]], judge[[0, 3]], is_zero_filled=True).value == 0.5


def test_a_coarse_judge_is_not_measured_on_its_easy_documents_alone() -> None:
    # The golden numbers of the zero-filled tau: its coarse judge gives one value in 143 of 200.
    random = np.random.default_rng(4)
    truth = random.normal(size=(200, 4))
    human = truth + random.normal(size=(200, 4)) * 0.5
    fine = truth + random.normal(size=(200, 4)) * 0.9
    coarse = (np.abs(truth + random.normal(size=(200, 4)) * 0.6) > 2.0) * np.sign(truth)

    assert document_tau(human, coarse).value == pytest.approx(0.619, abs=5e-4)
    for judge, tau in ((coarse, 0.176), (fine, 0.490)):
        found = document_tau(human, judge, is_zero_filled=True).value
        assert found == pytest.approx(tau, abs=5e-4)


def means(ratings: Sequence[Sequence[float]]) -> list[float]:
    """The mean of each cell's ratings, as rounding leaves it."""
    return [sum(cell) / len(cell) for cell in ratings]


def test_a_mean_that_rounding_moved_ties_as_the_exact_fraction_does() -> None:
    sixths = [(3.0, 11 / 3), (10 / 3, 10 / 3), (3.0 + 2 / 3, 3.0)]
    cells = means(sixths)
    tenths = means([(0.1, 0.2, 0.3), (0.2, 0.2, 0.2), (0.3, 0.2, 0.1), (0.9, 0.9, 0.9)])
    judge = [[1.0, 2.0, 3.0, 4.0]]

    assert len(set(tenths)) > 2  # so that this is a test at all
    assert correlation.tie_rate([cells]).value == 1
    assert correlation.tie_rate([tenths]).value == 0.5
    exact = [[2.0, 2.0, 2.0, 9.0]]
    assert document_tau([tenths], judge) == document_tau(exact, judge)
    assert document_tau(judge, [tenths]) == document_tau(judge, exact)
    for sides in (([tenths], judge), (judge, [tenths])):
        plain = [exact if side == [tenths] else side for side in sides]
        assert correlation.document_accuracies(
            *sides, epsilon=0
        ) == correlation.document_accuracies(*plain, epsilon=0)


def test_every_mean_of_three_replies_at_two_temperatures_ties_as_its_fraction() -> None:
    replies = list(product(range(6), repeat=3))
    singles = sorted({(Fraction(sum(three), 3), sum(three) / 3) for three in replies})
    both = [((a + b) / 2, (x + y) / 2) for (a, x), (b, y) in product(singles, repeat=2)]
    exact, rounded = zip(*both, strict=True)

    snapped_values = snapped(rounded)

    assert len(set(rounded)) > len(set(exact)) == len(set(snapped_values.tolist()))
    assert snapped_values == pytest.approx([float(value) for value in exact])


@pytest.mark.parametrize("coefficient", rest_slow(["spearman", "pearson"], kept=1))
@each("seed", range(2))
def test_the_permutation_p_is_scipys(seed: int, coefficient: correlation.Coefficient) -> None:
    x, y = (rows[0].round() for rows in rating_tables.table_pair(seed, systems=6, gaps=0))
    measure = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}[coefficient]
    theirs = stats.permutation_test(
        (y,), lambda order: abs(measure(x, order).statistic), permutation_type="pairings",
        alternative="greater", n_resamples=1000,
    )  # fmt: skip

    assert correlation.permutation_p(x, y, coefficient).value == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (np.arange(9.0), NoValue.TOO_MANY),
        (np.ones(4), NoValue.CONSTANT),
        (np.ones(1), NoValue.TOO_FEW),
    ],
)
def test_the_permutation_p_says_why_it_is_missing(x: Floats, reason: NoValue) -> None:
    assert correlation.permutation_p(x, np.arange(len(x)), "pearson").reason == reason


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ([1, 2, 3], [3, 2, 1], Estimate(3, n=3)),
        ([1, 1, 2], [1, 2, 1], Estimate(1, n=1, skipped=2)),
        ([1, 1], [1, 2], Estimate(None, n=0, skipped=1, reason=NoValue.CONSTANT)),
        ([1, rating_tables.NAN], [1, 2], Estimate(None, n=0, reason=NoValue.TOO_FEW)),
    ],
)
def test_tied_pairs_are_neither_concordant_nor_discordant(
    x: list[float], y: list[float], expected: Estimate
) -> None:
    assert correlation.discordant_pairs(x, y) == expected


def test_the_rounding_of_a_mean_neither_breaks_a_tie_nor_makes_a_spread() -> None:
    thirds = [0.1 + 0.2, 0.3, 0.9]

    assert correlation.spearman(thirds, [1, 2, 3]).value == pytest.approx(
        np.sqrt(3) / 2
    )  # ranks 1.5, 1.5, 3
    assert correlation.pearson(thirds[:2], [1, 2]).reason == NoValue.CONSTANT
    assert correlation.discordant_pairs(thirds[:2], [1, 2]).reason == NoValue.CONSTANT


@each("name", rating_tables.BARREN)
@each("statistic", OF_TABLES)
def test_barren_tables_give_a_reason_and_never_a_zero(
    name: str, statistic: Callable[[Floats, Floats], Estimate]
) -> None:
    rows = rating_tables.BARREN[name]
    against_constant = statistic(rows, np.ones(rows.shape))

    assert against_constant.value is None
    assert against_constant.reason is not None
    assert statistic(rows, rows).value in (None, pytest.approx(1))


def test_tau_of_two_long_vectors_is_that_of_one_document() -> None:
    draw = np.random.default_rng(0)
    x, y = draw.integers(0, 5, (2, 40)).astype(float)
    x[3], y[7] = np.nan, np.nan

    found = kendall(x, y)

    assert found.value == pytest.approx(document_tau([x], [y]).value)
    assert (found.n, found.skipped) == (38, 2)
    assert kendall([1, 1], [1, 2]).reason is NoValue.CONSTANT
    assert kendall([1, np.nan], [1, 2]).reason is NoValue.TOO_FEW


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
    assert found == (Estimate(accuracy, n=1), (epsilon,))


@each("seed", range(40))
def test_the_fit_tries_every_difference(seed: int) -> None:
    human, judge = rating_tables.table_pair(seed, documents=8, systems=4)
    tried = [0.0] + [abs(a - b) for row in judge for a, b in combinations(row[row == row], 2)]
    best = max(np.mean(slow_accuracy(human, judge, epsilon)) for epsilon in tried)

    found, (epsilon,) = calibrated_acc_eq(human, judge)

    assert found.value == pytest.approx(best)
    at_epsilon = slow_accuracy(human, judge, epsilon)
    assert np.mean(at_epsilon) == pytest.approx(best)
    assert len(at_epsilon) == found.n
    assert not any(
        np.mean(slow_accuracy(human, judge, e)) > best - 1e-9 for e in tried if e < epsilon
    )


def test_differences_that_only_rounding_separates_are_one() -> None:
    # 1/3 + 1/3 and 2/3 - 0 differ in the last bit somewhere on a grid of thirds.
    judge = np.array([[k / 3 for k in range(12)], [0.1 + k / 3 for k in range(12)]])
    human = np.array([[k // 2 for k in range(12)]] * 2, dtype=float)
    at_a_third = correlation.document_accuracies(human, judge, epsilon=1 / 3)

    # By hand: 66 pairs; of 11 neighbours 6 are human ties; the 55 others are ordered alike.
    assert at_a_third.tolist() == pytest.approx([61 / 66, 61 / 66])


@each("seed", range(5))
def test_cross_fitting_judges_a_fold_by_the_others(seed: int) -> None:
    human, judge = rating_tables.table_pair(seed, documents=30)
    clusters = rating_tables.documents_of(30, 9)

    found, epsilons, _ = cross_fitted_acc_eq(human, judge, clusters, seed="s", folds=9)

    # Nine clusters in nine folds: leave one cluster out.
    shares, fitted = [], []
    for name in set(clusters):
        inside = np.array([c == name for c in clusters])
        epsilon = calibrated_acc_eq(human[~inside], judge[~inside])[1][0]
        shares += slow_accuracy(human[inside], judge[inside], epsilon)
        fitted.append(epsilon)
    assert found.value == pytest.approx(np.mean(shares))
    assert sorted(epsilons) == pytest.approx(sorted(fitted))


def test_folds_depend_on_the_seed_and_the_clusters_names_alone() -> None:
    human, judge = rating_tables.table_pair(3, documents=30)
    names = rating_tables.documents_of(30, 12)
    order = np.random.default_rng(1).permutation(30)

    first, epsilons, _ = cross_fitted_acc_eq(human, judge, names, seed="s")
    mixed = [names[k] for k in order]
    shuffled, others, _ = cross_fitted_acc_eq(human[order], judge[order], mixed, seed="s")

    assert others == epsilons
    assert shuffled.value == pytest.approx(first.value)


@pytest.mark.parametrize(
    ("ratings", "expected"),
    [
        ([[1, 1, 2], [3, rating_tables.NAN, 3]], Estimate(0.5, n=4)),
        ([[1], [2]], Estimate(None, n=0, reason=NoValue.ONE_SYSTEM)),
        ([[1, rating_tables.NAN]], Estimate(None, n=0, reason=NoValue.TOO_FEW)),
    ],
)
def test_the_tie_rate_is_a_share_of_pairs(ratings: list[list[float]], expected: Estimate) -> None:
    assert correlation.tie_rate(ratings) == expected


@each("name", ["no documents", "no systems", "one system", "one cell", "all missing"])
def test_without_a_pair_there_is_a_reason_and_no_epsilon(name: str) -> None:
    rows = rating_tables.BARREN[name]
    names = rating_tables.documents_of(len(rows), 3)

    for found in (calibrated_acc_eq(rows, rows), cross_fitted_acc_eq(rows, rows, names, seed="s")):
        assert found[0].reason in (NoValue.TOO_FEW, NoValue.ONE_SYSTEM)
        assert found[1] == ()
