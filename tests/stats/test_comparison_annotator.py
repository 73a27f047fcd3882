"""The alternative annotator test: hand-made raters and a second implementation, rater by rater."""

from math import sqrt
from typing import get_args

import numpy as np
import pytest
from scipy import stats
from support.each import each
from support.rating_tables import BARREN, NAN, rater_table

from harness.stats.comparison import Alignment, AnnotatorTest, annotator_test
from harness.stats.estimate import Estimate, Floats, NoValue

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
    assert found.winning_rate.value == pytest.approx(rate)
    assert found.advantage.value == pytest.approx(advantage)


def two_raters(judge: float, alignment: Alignment = "accuracy") -> AnnotatorTest:
    """Forty units: the first rater says 1 always, the second in thirty of them."""
    raters = np.array([[1.0, 1.0]] * 30 + [[1.0, 0.0]] * 10)
    return annotator_test(raters, np.full(40, judge), alignment=alignment, epsilon=0.2)


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_a_judge_like_the_steady_rater_beats_the_other(alignment: Alignment) -> None:
    found = two_raters(1, alignment)

    # Without the first: judge and rater tie throughout, so no spread. Without the second: the
    # mean of W_human - W_judge is -.25 and t = -.45 / (.43853 / sqrt 40) = -6.490.
    assert (found.winning_rate, found.advantage) == (Estimate(1, n=2), Estimate(1, n=2))


def test_raters_with_few_units_are_skipped_and_counted() -> None:
    raters = np.column_stack([np.ones(40), np.ones(40), [1.0] * 29 + [NAN] * 11])

    found = annotator_test(raters, np.ones(40), alignment="accuracy", epsilon=0.1)

    assert found.winning_rate == Estimate(1, n=2, skipped=1)


def test_units_with_one_rater_or_without_the_judge_do_not_count() -> None:
    raters = np.array([[1.0, 1.0]] * 30 + [[1.0, NAN]] * 5 + [[1.0, 1.0]] * 5)
    judge = np.array([1.0] * 35 + [NAN] * 5)

    found = annotator_test(raters, judge, alignment="accuracy", epsilon=0.1)

    assert found.winning_rate == Estimate(1, n=2)
    fewer = annotator_test(raters[1:], judge[1:], alignment="accuracy", epsilon=0.1)
    assert fewer.winning_rate.reason == NoValue.TOO_FEW  # of 30 units a rater 29 are left


def test_whole_dialogues_that_a_judge_fails_count_once() -> None:
    # By hand: 30 of 40 units won, .25 lost; one unit a cluster t = (-.5 - .2) / se; all units
    # of a cluster alike, so that four clusters of ten leave t three degrees of freedom.
    raters = np.array([[1.0, 1.0]] * 30 + [[1.0, 0.0]] * 10)
    four = [f"c{n // 10}" for n in range(40)]

    alone = annotator_test(raters, np.ones(40), alignment="accuracy", epsilon=0.2)
    whole = annotator_test(raters, np.ones(40), alignment="accuracy", epsilon=0.2, clusters=four)

    assert (alone.winning_rate.value, whole.winning_rate.value) == (1, 0.5)
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

    assert (found.winning_rate.reason, found.advantage.reason) == (reason, reason)


@pytest.mark.parametrize(("units", "epsilon"), [(3, 0.1), (4, -0.1), (4, 1.0)])
def test_what_cannot_be_tested_is_refused(units: int, epsilon: float) -> None:
    with pytest.raises(ValueError, match=f"{units} ratings for 4 units"):
        annotator_test(np.ones((4, 2)), np.ones(units), alignment="rmse", epsilon=epsilon)
