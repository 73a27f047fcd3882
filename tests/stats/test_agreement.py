"""Agreement among raters: the krippendorff package, hand sums, published reliabilities."""

from collections.abc import Callable
from functools import partial
from typing import get_args

import krippendorff
import numpy as np
import pytest
from support.each import each
from support.rating_tables import BARREN, NAN, rater_table

from harness.stats.agreement import (
    Scale,
    alpha,
    attainable_r,
    cohen_kappa,
    pairable,
    percent_agreement,
    weighted_alpha,
)
from harness.stats.estimate import Estimate, Floats, NoValue

SCALES: tuple[Scale, ...] = get_args(Scale)
MEASURES = [*(partial(alpha, scale=scale) for scale in SCALES), percent_agreement]

# Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", example C: four observers,
# twelve units, of which the last was rated once.
EXAMPLE_C = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
).T


@pytest.mark.parametrize(
    ("scale", "value"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_alpha_is_krippendorffs_own_example(scale: Scale, value: float) -> None:
    found = alpha(EXAMPLE_C, scale)

    assert found.value == pytest.approx(value, abs=5e-4)
    assert (found.n, found.skipped) == (11, 1)


@each("scale", SCALES)
@each("seed", range(30))
def test_the_weighted_alpha_is_the_packages_with_units_repeated(seed: int, scale: Scale) -> None:
    ratings = rater_table(seed, units=15)
    found = pairable(ratings)
    weights = np.random.default_rng(seed).integers(0, 4, len(found.row))
    repeated = np.repeat(ratings[found.row], weights, axis=0)

    ours = weighted_alpha(found, weights.astype(np.float64), scale)

    theirs = krippendorff.alpha(repeated.T, level_of_measurement=scale)
    assert ours == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("scale", SCALES)
def test_a_table_too_large_for_the_package_has_the_same_alpha(scale: Scale) -> None:
    # 1,400 units with 2,800 different values would take 88 GB there.
    ratings = np.random.default_rng(5).permutation(2800).reshape(1400, 2).astype(float)
    small = np.digitize(ratings, np.arange(0, 2800, 400)).astype(float)

    large = alpha(ratings, scale).value
    coarse = weighted_alpha(pairable(small), np.ones(1400), scale)

    assert large == pytest.approx(0 if scale == "nominal" else coarse, abs=0.02)
    assert coarse == pytest.approx(alpha(small, scale).value, abs=1e-12)


def test_the_judge_meets_each_rater_alone() -> None:
    # By hand: the judge shares 2 of 4 units with the first rater, 3 of 3 with the second.
    raters = np.array([[1, 1], [1, 1], [0, 0], [0, NAN], [NAN, NAN]], dtype=float)
    judge = np.array([1, 1, 0, 1, 1], dtype=float)

    found = percent_agreement(np.column_stack([raters, judge]), [(0, 2), (1, 2)])

    assert found == Estimate((0.75 + 1) / 2, n=2)


def test_percent_agreement_is_the_mean_over_pairs_of_raters() -> None:
    # By hand: raters 0-1 agree in 1 of 2, 0-2 in 1 of 1, 1-2 never met.
    ratings = [[1, 1, NAN], [1, 2, NAN], [3, NAN, 3], [NAN, NAN, 1]]

    assert percent_agreement(ratings) == Estimate(0.75, n=2, skipped=1)


def test_kappa_is_cohens_by_hand() -> None:
    # 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed .7, expected .5 x .6 + .5 x .4 = .5.
    cells = [(1, 1)] * 20 + [(1, 0)] * 5 + [(0, 1)] * 10 + [(0, 0)] * 15

    found = cohen_kappa([*cells, (1, NAN)])

    assert found.value == pytest.approx(0.4)
    assert (found.n, found.skipped) == (50, 1)


@each("measure", MEASURES)
@each(
    ("ratings", "reason"),
    [
        (BARREN["one system"], NoValue.ONE_RATER),
        (BARREN["no systems"], NoValue.ONE_RATER),
        (np.array([[1, NAN], [NAN, 2]]), NoValue.TOO_FEW),
    ],
)
def test_raters_that_never_meet_have_no_agreement(
    ratings: Floats, reason: NoValue, measure: Callable[[Floats], Estimate]
) -> None:
    assert measure(ratings).reason == reason


@each("scale", SCALES)
@each(
    ("name", "reason"),
    [
        ("all alike", NoValue.CONSTANT),
        ("all missing", NoValue.ONE_RATER),
        ("no documents", NoValue.ONE_RATER),
        ("one cell a document", NoValue.TOO_FEW),
    ],
)
def test_alpha_says_why_it_is_missing(name: str, reason: NoValue, scale: Scale) -> None:
    assert alpha(BARREN[name], scale).reason == reason


def test_a_reliability_of_a_half_caps_any_judge_at_71_percent() -> None:
    human = Estimate(0.5066, n=100)

    assert attainable_r(human, Estimate(1.0, n=100)).value == pytest.approx(0.7118, abs=5e-5)
