"""Two judges compared: Williams' golden values, simulated differences, corrections by scipy."""

from math import sqrt
from typing import get_args

import numpy as np
import pytest
from scipy import stats
from support.each import each
from support.rating_tables import BARREN, NAN, rater_table

from harness.stats.agreement import difference_ci, pearson_moves, pearsons_without
from harness.stats.comparison import Alignment, Alternative, annotator_test, holm, williams_test
from harness.stats.correlation import dataset_pearson
from harness.stats.estimate import Estimate, Floats, NoValue, Resamples


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dialogues", "turns", "effect"), [(10, 4, 0.8), (25, 4, 0.8), (25, 4, 0.4), (40, 1, 0.8)]
)
def test_a_difference_by_chance_is_found_in_five_of_a_hundred(
    dialogues: int, turns: int, effect: float
) -> None:
    # Two equally good judges, with effects of dialogues on each and on the truth.
    random, found = np.random.default_rng(77), 0
    names = [f"{n // turns:02}" for n in range(dialogues * turns)]
    resamples = Resamples.of(names, seed="s", draws=1)
    for _ in range(600):
        moved = np.repeat(random.normal(size=(3, dialogues, 1)), turns, axis=1) * effect
        noise = random.normal(size=(4, len(names), 4)) * np.array([1, 0.5, 0.6, 0.6])[:, None, None]
        truth = noise[0] + moved[0]
        human, judges = truth + noise[1], truth + moved[1:] + noise[2:]
        first, second = (dataset_pearson(human, judge).value or 0 for judge in judges)
        without = [pearsons_without(human, judge, resamples) for judge in judges]
        moves = [pearson_moves(human, judge) for judge in judges]
        apart = Estimate(first - second, n=human.size)
        sides = without[0] - without[1], moves[0] - moves[1]
        found += (difference_ci(apart, *sides, resamples).p or 1) <= 0.05

    assert 0.03 <= found / 600 <= 0.07


def test_holms_values_are_those_done_by_hand() -> None:
    # Least first: 3 x .01, then 2 x .02 and 1 x .03, which may not fall below the one before.
    assert holm([0.03, None, 0.01, 0.02]) == pytest.approx((0.04, None, 0.03, 0.04))
    assert holm([0.9, 0.8]) == (1, 1)


ALIGNMENTS: tuple[Alignment, ...] = get_args(Alignment)


def slow_test(
    raters: Floats, judge: Floats, alignment: Alignment, epsilon: float, least: int
) -> tuple[float, float, float]:
    """The three rates as the paper's section 3 states them, one unit at a time."""

    def near(x: float, others: list[float]) -> float:
        if alignment == "accuracy":
            return sum(x == other for other in others) / len(others)
        return -sqrt(sum((x - other) ** 2 for other in others) / len(others))

    ps, losses = list[float](), list[float]()
    advantages = []
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
            for tails, side in ((ps, "less"), (losses, "greater")):
                tails.append(float(stats.ttest_1samp(gaps, epsilon, alternative=side).pvalue))
            advantages.append(np.mean(machine))
    won, lost = (stats.false_discovery_control(tails, method="by") for tails in (ps, losses))
    return float(np.mean(won <= 0.05)), float(np.mean(lost <= 0.05)), float(np.mean(advantages))


@each("alignment", ALIGNMENTS)
@each("epsilon", [0.0, 0.15])
@each("seed", range(12))
def test_rates_are_those_of_a_second_implementation(
    seed: int, epsilon: float, alignment: Alignment
) -> None:
    raters = rater_table(seed, units=80, raters=5)
    # Every third judge rates other units, so that raters beat it.
    judge = rater_table(seed if seed % 3 else seed + 50, units=80, raters=1, gaps=0.1)[:, 0]

    found = annotator_test(raters, judge, alignment=alignment, epsilon=epsilon, least_units=20)

    rates = slow_test(raters, judge, alignment, epsilon, 20)
    assert [one.value for one in found] == pytest.approx(rates)


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize(("judge", "rates"), [(1.0, (1, 0, 1)), (0.0, (0, 1, 0.25))])
def test_a_judge_like_the_steady_rater_wins_and_its_opposite_loses(
    judge: float, rates: tuple[float, float, float], alignment: Alignment
) -> None:
    # Forty units: the first rater says 1 always, the second in thirty of them.
    raters = np.array([[1.0, 1.0]] * 30 + [[1.0, 0.0]] * 10)

    found = annotator_test(raters, np.full(40, judge), alignment=alignment, epsilon=0.2)

    # Judge 1 without the first: it ties throughout, so no spread; without the second: the mean of
    # W_human - W_judge is -.25 and t = -.45 / (.43853 / sqrt 40) = -6.490. Judge 0: the means are
    # (30 - 10) / 40 = .5 and 30 / 40, so t = .3 / (.87706 / sqrt 40) = 2.163, p .018, and 7.93.
    assert found == tuple(Estimate(rate, n=2) for rate in rates)


def test_a_judge_that_ties_with_every_rater_loses_to_none() -> None:
    found = annotator_test(np.ones((40, 3)), np.ones(40), alignment="rmse", epsilon=0)
    assert found[1] == Estimate(0, n=3)


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
    assert [one.reason for one in found] == [reason] * 3
