"""Shares against a number: the line of greatest likelihood, its trend, and where there is none."""

from math import log, sqrt

import numpy as np
import pytest

from harness.stats.classification import LogisticLine, line, lines, trend
from harness.stats.estimate import Clusters, Floats, NoValue


def planted(slope: float, n: int = 600, seed: int = 1) -> tuple[Floats, Floats]:
    """Answers that follow a line in log-odds, and what they are drawn at."""
    draw = np.random.default_rng(seed)
    x = draw.uniform(0, 2, n)
    return x, (draw.random(n) < LogisticLine(-slope, slope).share(x)).astype(float)


def alone(n: int) -> Clusters:
    return Clusters.named([f"{at:05}" for at in range(n)])


def test_two_places_give_the_log_odds_of_their_shares() -> None:
    # At 0 one of four is flagged, at 1 three of four: odds 1/3 and 3, a slope of log 9.
    found = line(np.array([0.0] * 4 + [1.0] * 4), np.array([1.0, 0, 0, 0, 1, 1, 1, 0]))

    assert isinstance(found, LogisticLine)
    assert (found.intercept, found.slope) == pytest.approx((-log(3), log(9)))


def test_the_line_is_that_of_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, y = planted(-1.5)

    theirs = linear_model.LogisticRegression(C=1e12, tol=1e-10, max_iter=1000).fit(x[:, None], y)
    found = line(x, y)

    assert isinstance(found, LogisticLine)
    expected = (theirs.intercept_[0], theirs.coef_[0, 0])
    assert (found.intercept, found.slope) == pytest.approx(expected, rel=1e-4)


def test_half_an_outcome_counts_as_half_of_each() -> None:
    x, y = np.array([0.0, 0.0, 1.0, 1.0, 1.0]), np.array([0.5, 0.0, 0.5, 1.0, 1.0])

    # Three rows at 1 with 2.5 flagged, two at 0 with a half of one.
    found = line(x, y)

    assert isinstance(found, LogisticLine)
    assert found.share(np.array([0.0, 1.0])) == pytest.approx([0.25, 2.5 / 3])


@pytest.mark.parametrize(
    ("x", "y", "why"),
    [
        ([0, 1], [0, 1], NoValue.TOO_FEW),
        ([1, 1, 1, 1], [0, 1, 0, 1], NoValue.CONSTANT),
        ([0, 1, 2, 3], [1, 1, 1, 1], NoValue.CONSTANT),
        (
            [0, 1, 2, 3],
            [0, 0, 1, 1],
            NoValue.DEGENERATE,
        ),  # a threshold parts them: no end to the slope
    ],
)
def test_where_there_is_no_line_none_is_made_up(
    x: list[float], y: list[float], why: NoValue
) -> None:
    places, outcomes = np.array(x, dtype=float), np.array(y, dtype=float)

    found = trend(places, outcomes, alone(len(x)))

    assert line(places, outcomes) is why
    assert (found.reason, found.why) == (why, why)


def test_a_row_of_weights_is_a_fit_of_rows_taken_so_often() -> None:
    x, y = planted(1.0, n=60)
    often = np.random.default_rng(3).integers(0, 3, size=60)

    taken = lines(x, y, np.array([often.astype(float)]))[0]
    repeated = line(np.repeat(x, often), np.repeat(y, often))

    assert isinstance(repeated, LogisticLine)
    assert taken == pytest.approx([repeated.intercept, repeated.slope])


@pytest.mark.parametrize("slope", [-2.0, 2.0])
def test_a_planted_trend_is_found_with_its_sign(slope: float) -> None:
    found = trend(*planted(slope), alone(600))

    ends = found
    assert ends.low is not None
    assert ends.high is not None
    assert ends.low < slope < ends.high
    assert (found.p or 1) < 1e-6


def test_without_a_trend_the_test_rejects_as_often_as_it_says() -> None:
    found = [trend(*planted(0.0, n=200, seed=seed), alone(200)) for seed in range(200)]

    # 5% of 200 is 10, and three standard deviations are 9.2.
    assert 1 <= sum((one.p or 1) < 0.05 for one in found) <= 20


def test_few_clusters_with_effects_of_their_own_do_not_look_like_a_trend() -> None:
    # Ten clusters of four: the normal distribution rejected in 8 to 12 of 100; 7% of 600 is 42.
    draw, rejected = np.random.default_rng(5), 0
    clusters = Clusters.named([f"{at // 4}" for at in range(40)])
    for _ in range(600):
        x = np.repeat(draw.uniform(0, 2, 10), 4) + draw.normal(size=40) * 0.05
        odds = 1 + np.repeat(draw.normal(size=10), 4)
        y = (draw.random(40) < 1 / (1 + np.exp(-odds))).astype(float)
        rejected += (trend(x, y, clusters).p or 1) < 0.05

    assert 10 <= rejected <= 42


def test_two_clusters_are_too_few_for_a_trend() -> None:
    x, y = planted(0.4, n=40)

    found = trend(x, y, Clusters.named(["a", "b"] * 20))

    assert found.value is not None
    assert (found.why, found.p) == (NoValue.TOO_FEW, None)


def test_rows_alone_in_their_clusters_have_the_errors_of_plain_robust_regression() -> None:
    # A line through two places is the two log-odds: with k of n flagged each has variance
    # 1 / (n s (1 - s)), and the sandwich equals it in a saturated fit.
    x, y = np.repeat([0.0, 1.0], [20, 30]), np.array([1.0] * 5 + [0] * 15 + [1] * 18 + [0] * 12)

    found = trend(x, y, alone(50))

    # CR2 of a row of leverage 1 / n divides its square by 1 - 1 / n.
    error = sqrt(1 / (19 * 0.25 * 0.75) + 1 / (29 * 0.6 * 0.4))
    assert found.statistic == pytest.approx((log(1.5) - log(1 / 3)) / error)


def test_repeating_rows_within_their_clusters_does_not_narrow_anything() -> None:
    x, y = planted(0.4, n=80)
    names = [f"{at:05}" for at in range(80)]
    once = trend(x, y, Clusters.named(names))

    again = trend(
        np.repeat(x, 5),
        np.repeat(y, 5),
        Clusters.named(np.repeat(names, 5).tolist()),
    )

    assert again.p == pytest.approx(once.p)
    assert again.low == pytest.approx(once.low)


@pytest.mark.parametrize("size", [1, 3, 16])
def test_how_many_draws_are_fitted_together_does_not_change_them(size: int) -> None:
    x, y = planted(1.0, n=101)
    weights = np.random.default_rng(4).integers(0, 3, size=(48, 101)).astype(float)

    parts = [lines(x, y, weights[start : start + size]) for start in range(0, 48, size)]

    np.testing.assert_array_equal(np.vstack(parts), lines(x, y, weights))
