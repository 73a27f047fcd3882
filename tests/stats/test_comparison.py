"""Two judges compared: Williams' golden values, exact permutations, corrections by scipy."""

from collections.abc import Callable
from itertools import product
from math import sqrt
from typing import get_args

import numpy as np
import pytest
from scipy import stats
from support.each import each, rest_slow
from support.rating_tables import BARREN, NAN, OF_SYSTEMS, acc_eq, rater_table, table_pair, tau_zero

from harness.stats.agreement import interval_with_test
from harness.stats.comparison import (
    Alignment,
    Alternative,
    Statistic,
    annotator_test,
    holm,
    permutation_test,
    williams_test,
)
from harness.stats.correlation import (
    dataset_pearson,
    document_tau,
    pearson_against,
    tau_zero_against,
)
from harness.stats.estimate import Estimate, Floats, NoValue, complete

STATISTICS: list[Statistic] = [dataset_pearson, document_tau, *OF_SYSTEMS.values(), acc_eq]


def test_williams_t_is_the_golden_one() -> None:
    found = williams_test(0.4, 0.5, 0.1, n=103)

    assert found.value == pytest.approx(-0.891, abs=5e-4)
    assert found.p == pytest.approx(0.375, abs=5e-4)


@pytest.mark.parametrize(("alternative", "factor"), [("greater", 1), ("two-sided", 2)])
def test_williams_p_is_that_of_mt_metrics_eval(alternative: Alternative, factor: int) -> None:
    # Vectors of WilliamsSigDiffTest in mt-metrics-eval: r .999 and .987, one-sided p .019.
    gold, first, second = [1, 2, 3, 4, 5], [1.1, 2, 3.1, 4, 5.1], [1.5, 2, 3.1, 4, 5.5]
    pairs = [(gold, first), (gold, second), (first, second)]
    one, other, between = (float(stats.pearsonr(*pair).statistic) for pair in pairs)

    found = williams_test(one, other, between, n=5, alternative=alternative)

    assert found.p == pytest.approx(0.019 * factor, abs=5e-4 * factor)


@pytest.mark.parametrize(
    ("correlations", "n", "reason"),
    [
        ((0.4, 0.5, 0.1), 3, NoValue.TOO_FEW),
        ((0.5, 0.5, 1.0), 50, NoValue.DEGENERATE),
        ((0.9, -0.9, 0.9), 50, NoValue.DEGENERATE),
    ],
)
def test_williams_test_says_why_it_is_missing(
    correlations: tuple[float, float, float], n: int, reason: NoValue
) -> None:
    assert williams_test(*correlations, n=n).reason == reason


def exact_p(human: Floats, first: Floats, second: Floats, statistic: Statistic) -> float:
    """The share of all swaps of cells that differ as much as the data, by enumeration."""
    first, second = ((rows - rows.mean()) / rows.std() for rows in (first, second))
    gaps = []
    for swaps in product([False, True], repeat=human.size):
        swap = np.reshape(swaps, human.shape)
        one = statistic(human, np.where(swap, second, first)).value
        other = statistic(human, np.where(swap, first, second)).value
        gaps.append(abs((one or 0) - (other or 0)))
    return float(np.mean([gap >= gaps[0] - 1e-12 for gap in gaps]))


@pytest.mark.parametrize("statistic", rest_slow(STATISTICS, kept=1))
def test_the_permutation_p_nears_that_of_all_swaps(statistic: Statistic) -> None:
    random = np.random.default_rng(8)
    human = random.normal(size=(3, 3))
    judges = human + random.normal(size=(3, 3)) / 2, human + random.normal(size=(3, 3))

    found = permutation_test(human, judges, statistic, seed="s", draws=3000)

    # Three standard errors of 3,000 draws are .027 at most.
    assert found.p == pytest.approx(exact_p(human, *judges, statistic), abs=0.03)
    assert (found.value or 0) == pytest.approx(
        (statistic(human, judges[0]).value or 0) - (statistic(human, judges[1]).value or 0)
    )


def test_a_cluster_is_swapped_whole() -> None:
    # By hand: of the four ways to swap two dialogues, that at hand and its mirror image differ
    # as much as the data, so that p nears one half whatever the cells say.
    random = np.random.default_rng(8)
    human = random.normal(size=(20, 3))
    judges = human + random.normal(size=(20, 3)) / 2, human + random.normal(size=(20, 3))

    found = permutation_test(
        human, judges, dataset_pearson, seed="s", draws=400, clusters=["a"] * 10 + ["b"] * 10
    )

    assert found.p == pytest.approx(0.5, abs=0.08)


def false_positives(dialogues: int, turns: int, effect: float, *, runs: int) -> float:
    """How often two equally good judges with effects of dialogues differ by p of .05 or less."""
    random, found = np.random.default_rng(77), 0
    clusters = [f"{n // turns:02}" for n in range(dialogues * turns)]

    def of_dialogues() -> Floats:
        return np.repeat(random.normal(size=(dialogues, 1)), turns, axis=0) * effect

    for run in range(runs):
        truth = random.normal(size=(dialogues * turns, 4)) + of_dialogues()
        human = truth + random.normal(size=truth.shape) * 0.5
        first, second = (
            truth + of_dialogues() + random.normal(size=truth.shape) * 0.6 for _ in range(2)
        )
        test = permutation_test(
            human,
            (first, second),
            pearson_against(human),
            seed=f"{run}",
            draws=200,
            clusters=clusters,
        )
        found += (test.p or 1) <= 0.05
    return found / runs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dialogues", "turns", "effect"), [(10, 4, 0.8), (25, 4, 0.8), (25, 4, 0.4), (40, 1, 0.8)]
)
def test_a_difference_by_chance_is_found_in_five_of_a_hundred(
    dialogues: int, turns: int, effect: float
) -> None:
    assert 0.03 <= false_positives(dialogues, turns, effect, runs=600) <= 0.07


@pytest.mark.parametrize(
    ("p", "low", "high"),
    [
        (0.2, 0.1, 0.5),  # the test does not find what the interval shows
        (0.01, -0.1, 0.7),  # nor the interval what the test finds
        (0.05, -0.1, 0.7),
        (0.01, 0.1, 0.5),
        (0.2, -0.1, 0.7),
    ],
)
def test_an_interval_excludes_zero_where_the_test_does(p: float, low: float, high: float) -> None:
    found = interval_with_test(Estimate(0.3, 9).between(low, high, clusters=12), p, 12)

    assert found.low is not None
    assert (found.low > 0) == (p <= 0.05)
    if (low > 0) == (p <= 0.05):
        assert (found.low, found.high) == (low, high)
    else:
        # The error is what makes the t of the difference that of p.
        error = 0.3 / stats.t.isf(p / 2, 11)
        assert found.low == pytest.approx(0.3 - stats.t.ppf(0.975, 11) * error, abs=1e-8)


@pytest.mark.parametrize("p", [1.0, 0.9999999, 0.99])
def test_a_test_that_finds_nothing_leaves_no_interval_beyond_the_range(p: float) -> None:
    # The t of such a p is 0 or nearly so, and the error of it is endless.
    found = interval_with_test(Estimate(0.3, 1).between(0.1, 0.5, clusters=12), p, 12)

    assert found == Estimate(0.3, 1).unbounded(NoValue.DEGENERATE, clusters=12)
    kept = Estimate(0.3, 1).between(-0.1, 0.7, clusters=12)
    assert interval_with_test(kept, p, 12) == kept


@pytest.mark.parametrize(
    ("given", "p", "ends"),
    [((-2.2, 2.9), 0.5, (-2, 2)), ((0.1, 2.9), 0.01, (0.1, 2)), ((0.2, 1.9), 0.2, (-1.1318, 2))],
)
def test_a_difference_of_correlations_stays_between_minus_two_and_two(
    given: tuple[float, float], p: float, ends: tuple[float, float]
) -> None:
    found = interval_with_test(Estimate(1.2, 9).between(*given, clusters=12), p, 4)

    assert (found.low, found.high) == pytest.approx(ends, abs=5e-4)
    assert found.low is not None
    assert (found.low > 0) == (p <= 0.05)


@each("statistic", STATISTICS)
def test_equal_judges_never_differ_and_the_same_seed_draws_the_same(statistic: Statistic) -> None:
    human, judge = table_pair(2)
    other = table_pair(3)[1]

    same = permutation_test(human, (judge, judge), statistic, seed="s", draws=20)
    twice = [
        permutation_test(human, (judge, other), statistic, seed="s", draws=50) for _ in range(2)
    ]

    assert (same.value, same.p) == (0, 1)
    assert twice[0] == twice[1]


@pytest.mark.parametrize(
    ("judge", "reason"),
    [(np.ones((3, 2)), NoValue.CONSTANT), (np.full((3, 2), NAN), NoValue.TOO_FEW)],
)
def test_a_constant_or_silent_judge_cannot_be_compared(judge: Floats, reason: NoValue) -> None:
    human = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 5.0]])

    found = permutation_test(human, (human, judge), dataset_pearson, seed="s")

    assert (found.p, found.reason) == (None, reason)


def test_holms_values_are_those_done_by_hand() -> None:
    # Least first: 3 x .01, then 2 x .02 and 1 x .03, which may not fall below the one before.
    assert holm([0.03, None, 0.01, 0.02]) == pytest.approx((0.04, None, 0.03, 0.04))
    assert holm([0.9, 0.8]) == (1, 1)


Prepared = Callable[[Floats], Statistic]
PAIRS: list[tuple[Prepared, Statistic]] = [
    (pearson_against, dataset_pearson),
    (tau_zero_against, tau_zero),
]


@each(("prepared", "plain"), PAIRS)
@each("seed", range(8))
def test_the_value_is_that_of_the_plain_statistic(
    prepared: Prepared, plain: Statistic, seed: int
) -> None:
    human, judge = complete(*table_pair(seed))

    found, expected = prepared(human)(human, judge), plain(human, judge)

    assert found.value == pytest.approx(expected.value, abs=1e-12)
    assert prepared is pearson_against or (found.n, found.skipped) == (expected.n, expected.skipped)


@each(("prepared", "plain"), PAIRS)
@each("name", BARREN)
def test_it_is_null_where_the_plain_statistic_is(
    prepared: Prepared, plain: Statistic, name: str
) -> None:
    rows = BARREN[name]

    found = prepared(rows)(rows, rows)

    assert (found.value is None) == (plain(rows, rows).value is None)


ALIGNMENTS: tuple[Alignment, ...] = get_args(Alignment)


def slow_test(
    raters: Floats, judge: Floats, alignment: Alignment, epsilon: float, least: int
) -> tuple[float, float]:
    """Winning rate and advantage as the paper's section 3 states them, one unit at a time."""

    def near(x: float, others: list[float]) -> float:
        if alignment == "accuracy":
            return sum(x == other for other in others) / len(others)
        return -sqrt(sum((x - other) ** 2 for other in others) / len(others))

    ps, advantages = [], []
    for r in range(raters.shape[1]):
        machine, human = [], []
        for unit, own in enumerate(raters[:, r]):
            others = [x for k, x in enumerate(raters[unit]) if k != r and x == x]
            if own == own and judge[unit] == judge[unit] and others:
                lead = near(judge[unit], others) - near(own, others)
                machine.append(lead > -1e-12)
                human.append(lead < 1e-12)
        if len(machine) >= least:
            gaps = [float(h) - float(m) for h, m in zip(human, machine, strict=True)]
            ps.append(float(stats.ttest_1samp(gaps, epsilon, alternative="less").pvalue))
            advantages.append(np.mean(machine))
    corrected = stats.false_discovery_control(ps, method="by")
    return float(np.mean(corrected <= 0.05)), float(np.mean(advantages))


@each("alignment", ALIGNMENTS)
@each("epsilon", [0.0, 0.15])
@each("seed", range(12))
def test_rates_are_those_of_a_second_implementation(
    seed: int, epsilon: float, alignment: Alignment
) -> None:
    raters = rater_table(seed, units=80, raters=5)
    judge = rater_table(seed, units=80, raters=1, gaps=0.1)[:, 0]

    found = annotator_test(raters, judge, alignment=alignment, epsilon=epsilon, least_units=20)

    rate, advantage = slow_test(raters, judge, alignment, epsilon, 20)
    assert [one.value for one in found] == pytest.approx([rate, advantage])


def two_raters(judge: float, alignment: Alignment = "accuracy") -> tuple[Estimate, Estimate]:
    """Forty units: the first rater says 1 always, the second in thirty of them."""
    raters = np.array([[1.0, 1.0]] * 30 + [[1.0, 0.0]] * 10)
    return annotator_test(raters, np.full(40, judge), alignment=alignment, epsilon=0.2)


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_a_judge_like_the_steady_rater_beats_the_other(alignment: Alignment) -> None:
    found = two_raters(1, alignment)

    # Without the first: judge and rater tie throughout, so no spread. Without the second: the
    # mean of W_human - W_judge is -.25 and t = -.45 / (.43853 / sqrt 40) = -6.490.
    assert found == (Estimate(1, n=2), Estimate(1, n=2))


def test_raters_with_few_units_are_skipped_and_counted() -> None:
    raters = np.column_stack([np.ones(40), np.ones(40), [1.0] * 29 + [NAN] * 11])

    found = annotator_test(raters, np.ones(40), alignment="accuracy", epsilon=0.1)

    assert found[0] == Estimate(1, n=2, skipped=1)


def test_units_with_one_rater_or_without_the_judge_do_not_count() -> None:
    raters = np.array([[1.0, 1.0]] * 30 + [[1.0, NAN]] * 5 + [[1.0, 1.0]] * 5)
    judge = np.array([1.0] * 35 + [NAN] * 5)

    found = annotator_test(raters, judge, alignment="accuracy", epsilon=0.1)

    assert found[0] == Estimate(1, n=2)
    fewer = annotator_test(raters[1:], judge[1:], alignment="accuracy", epsilon=0.1)
    assert fewer[0].reason == NoValue.TOO_FEW  # of 30 units a rater 29 are left


def test_whole_dialogues_that_a_judge_fails_count_once() -> None:
    # By hand: 30 of 40 units won, .25 lost; one unit a cluster t = (-.5 - .2) / se; all units
    # of a cluster alike, so that four clusters of ten leave t three degrees of freedom.
    raters = np.array([[1.0, 1.0]] * 30 + [[1.0, 0.0]] * 10)
    four = [f"c{n // 10}" for n in range(40)]

    alone = annotator_test(raters, np.ones(40), alignment="accuracy", epsilon=0.2)
    whole = annotator_test(raters, np.ones(40), alignment="accuracy", epsilon=0.2, clusters=four)

    assert (alone[0].value, whole[0].value) == (1, 0.5)
    # The second rater: mean -.25, clustered error .25, t = -1.8, p = .085 of three degrees.
    assert stats.t.cdf(-0.45 / 0.25, 3) == pytest.approx(0.085, abs=5e-4)


@pytest.mark.parametrize(
    ("raters", "reason"),
    [
        (np.ones((40, 1)), NoValue.ONE_RATER),
        (np.ones((5, 3)), NoValue.TOO_FEW),
        (BARREN["no documents"], NoValue.ONE_RATER),
        (BARREN["all missing"], NoValue.ONE_RATER),
    ],
)
def test_nobody_to_replace_is_no_pass(raters: Floats, reason: NoValue) -> None:
    found = annotator_test(raters, np.ones(len(raters)), alignment="rmse", epsilon=0.1)

    assert [one.reason for one in found] == [reason, reason]
