"""Precision, recall and F1 of classes: against scikit-learn, by hand, and where there is none."""

from math import log, nextafter, sqrt
from random import Random

import numpy as np
import pytest
from scipy.stats import binomtest, t
from support.each import each

from harness.stats import classification
from harness.stats.classification import calibration_error, classification_metrics, one_hot, trend
from harness.stats.estimate import Clusters, Estimate, Floats, NoValue

RARE = 3


def alone(n: int) -> Clusters:
    return Clusters.named([f"{at:05}" for at in range(n)])


def bounds(figure: Estimate) -> tuple[float, float]:
    assert figure.low is not None
    assert figure.high is not None
    return figure.low, figure.high


Found = tuple[tuple[classification.ClassMetrics, ...], Estimate]


def of(actual: list[int], chosen: list[int], count: int = RARE) -> Found:
    rows = one_hot(actual, count), one_hot(chosen, count)
    return classification_metrics(*rows, alone(len(actual)))


def values(found: Found) -> list[list[float | None]]:
    return [[figure.value for figure in (one.precision, one.recall, one.f1)] for one in found[0]]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("average", [None, "macro"])
def test_values_are_those_of_scikit_learn(seed: int, average: str | None) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    draw = Random(seed)
    actual = [draw.choice([0, 0, 0, 1, 1, 2]) for _ in range(60)] + [0, 1, 2]
    chosen = [draw.choice([gold, gold, 0, 1, 2]) for gold in actual]

    found = of(actual, chosen)
    theirs = metrics.precision_recall_fscore_support(actual, chosen, average=average)

    if average is None:
        assert pytest.approx(np.array(theirs[:3]), abs=1e-12) == np.array(values(found)).T
    else:
        assert found[1].value == pytest.approx(theirs[2], abs=1e-12)


@pytest.mark.parametrize(
    ("actual", "chosen", "expected"),
    [
        ([2, 2, 0], [0, 0, 0], [None, 0.0, 0.0]),  # never chosen: no precision, and F1 is 0
        ([0, 0, 1], [2, 0, 1], [0.0, None, 0.0]),  # none of it there: no recall
        ([0, 0, 1], [0, 1, 1], [None, None, None]),  # neither
        ([2, 2, 0, 0], [2, 0, 2, 0], [0.5, 0.5, 0.5]),
    ],
)
def test_what_would_be_divided_by_nothing_is_null_and_never_zero(
    actual: list[int], chosen: list[int], expected: list[float | None]
) -> None:
    assert values(of(actual, chosen))[2] == expected


def test_a_tie_counts_in_shares() -> None:
    clusters = Clusters.named(["a", "b"])
    chosen = np.array([[0.5, 0.5], [0.0, 1.0]])
    found = classification_metrics(one_hot([0, 1], 2), chosen, clusters)

    assert values(found)[0] == pytest.approx([1.0, 0.5, 2 / 3])
    assert values(found)[1] == pytest.approx([2 / 3, 1.0, 0.8])


def test_without_a_row_nothing_has_a_value() -> None:
    found = of([], [])
    assert found[1].value is None
    assert found[0][0].recall.reason is NoValue.TOO_FEW


def test_rows_of_one_cluster_count_together() -> None:
    actual, chosen = [0, 1] * 40, [0, 1, 1, 0] * 20
    rows = one_hot(actual, 2), one_hot(chosen, 2)
    whole = Clusters.named([f"{at // 8}" for at in range(80)])
    repeated = one_hot([0, 0, 1, 1, 0, 1] * 5, 2), one_hot([0, 1, 1, 0, 0, 1] * 5, 2)
    six = Clusters.named(list("abcdef") * 5)

    evened = classification_metrics(*rows, whole)[1]
    often = classification_metrics(*repeated, six)
    once = classification_metrics(repeated[0][:6], repeated[1][:6], alone(6))

    # Each cluster of eight has as many right as the next.
    assert (evened.low, evened.why) == (None, NoValue.CONSTANT)
    assert bounds(often[1]) == pytest.approx(bounds(once[1]))
    assert bounds(often[0][0].recall) == pytest.approx(bounds(once[0][0].recall))


def test_precision_and_recall_of_independent_rows_have_wilsons_interval() -> None:
    # Chosen ten times, eight of them right; nine are of the class.
    actual, chosen = [1] * 8 + [0] * 2 + [1] + [0] * 5, [1] * 10 + [0] * 6
    found = classification_metrics(one_hot(actual, 2), one_hot(chosen, 2), alone(16))[0][1]

    for figure, right, of in ((found.precision, 8, 10), (found.recall, 8, 9)):
        theirs = binomtest(right, of).proportion_ci(method="wilson")
        assert bounds(figure) == pytest.approx((theirs.low, theirs.high))


def test_an_f1_of_1_has_no_interval() -> None:
    rows = one_hot([0, 1] * 6, 2)
    found = classification_metrics(rows, rows, alone(12))
    assert (found[1].value, found[1].why) == (1, NoValue.CONSTANT)


def planted(slope: float, n: int = 600, seed: int = 1) -> tuple[Floats, Floats]:
    """Answers that follow a line in log-odds, and what they are drawn at."""
    draw = np.random.default_rng(seed)
    x = draw.uniform(0, 2, n)
    return x, (draw.random(n) < classification.shares_of(slope * (x - 1))).astype(float)


def test_two_places_give_the_log_odds_of_their_shares() -> None:
    # At 0 one of four is flagged, at 1 three of four: odds 1/3 and 3, a slope of log 9.
    found = classification.line(
        np.array([0.0] * 4 + [1.0] * 4), np.array([1.0, 0, 0, 0, 1, 1, 1, 0])
    )
    assert found == pytest.approx((-log(3), log(9)))


def test_the_line_is_that_of_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, y = planted(-1.5)
    theirs = linear_model.LogisticRegression(C=1e12, tol=1e-10, max_iter=1000).fit(x[:, None], y)
    found = classification.line(x, y)

    assert found == pytest.approx((theirs.intercept_[0], theirs.coef_[0, 0]), rel=1e-4)


@pytest.mark.parametrize(
    ("x", "y", "why", "reason"),
    [
        ([0, 1], [0, 1], NoValue.TOO_FEW, NoValue.TOO_FEW),
        ([1] * 20, [0, 1] * 10, NoValue.CONSTANT, NoValue.CONSTANT),
        ([0, 1, 2, 3], [1, 1, 1, 1], NoValue.CONSTANT, NoValue.TOO_FEW),
        # A threshold parts them: no end to the slope.
        ([*range(20)], [0] * 10 + [1] * 10, NoValue.DEGENERATE, NoValue.DEGENERATE),
    ],
)
def test_where_there_is_no_line_none_is_made_up(
    x: list[float], y: list[float], why: NoValue, reason: NoValue
) -> None:
    places, outcomes = np.array(x, dtype=float), np.array(y, dtype=float)
    found = trend(places, outcomes, alone(len(x)))

    assert classification.line(places, outcomes) is why
    assert (found.reason, found.why) == (reason, reason)


@pytest.mark.parametrize("slope", [-2.0, 2.0])
def test_a_planted_trend_is_found_with_its_sign(slope: float) -> None:
    found = trend(*planted(slope), alone(600))

    low, high = bounds(found)
    assert low < slope < high
    assert (found.p or 1) < 1e-6


@each("is_flagged", [True, False])
@each(("rows", "each_cluster"), [(9, 1), (10, 1), (20, 2), (18, 2)])
def test_fewer_than_ten_clusters_of_a_kind_have_no_trend(
    rows: int, each_cluster: int, is_flagged: bool
) -> None:
    places = np.arange(0, 200, 200 // rows)[:rows]  # of the rare kind, so many in a cluster
    y, clusters = np.full(200, float(not is_flagged)), np.arange(200)
    y[places], clusters[places] = float(is_flagged), places[np.arange(rows) // each_cluster]

    found = trend(np.random.default_rng(1).random(200), y, Clusters.named(clusters))

    is_enough = rows // each_cluster >= 10
    assert (found.value is None) == (found.low is None) == (found.p is None) == (not is_enough)
    assert (found.reason, found.why) == ((None if is_enough else NoValue.TOO_FEW),) * 2


def test_rows_alone_in_their_clusters_have_the_errors_of_plain_robust_regression() -> None:
    # A line through two places is the two log-odds: with k of n flagged each has variance
    # 1 / (n s (1 - s)), and the sandwich equals it in a saturated fit.
    x, y = np.repeat([0.0, 1.0], [20, 30]), np.array([1.0] * 5 + [0] * 15 + [1] * 18 + [0] * 12)

    found = trend(x, y, alone(50))

    # CR2 of a row of leverage 1 / n divides its square by 1 - 1 / n; degrees are Welch's.
    odds, error = log(1.5) - log(1 / 3), sqrt(1 / (19 * 0.25 * 0.75) + 1 / (29 * 0.6 * 0.4))
    reach = t.ppf(0.975, welch(1 / (20 * 0.25 * 0.75), 1 / (30 * 0.6 * 0.4))) * error
    assert bounds(found) == pytest.approx((odds - reach, odds + reach))
    # Along ranks it is a gap of two shares, whose error has n - 1.
    statistic = (0.6 - 0.25) / sqrt(0.25 * 0.75 / 19 + 0.6 * 0.4 / 29)
    assert found.statistic == pytest.approx(statistic)
    assert found.p == pytest.approx(2 * t.sf(statistic, welch(1 / 20, 1 / 30)))


def welch(first: float, second: float) -> float:
    """The degrees of freedom of a sum of two expected variances, of 20 and of 30 rows."""
    return (first + second) ** 2 / (first**2 / 19 + second**2 / 29)


def test_the_error_is_the_mean_gap_of_the_bins_weighed_by_their_size() -> None:
    # By hand: bin (.9, 1]: |.95 - 1/2| of two; (.5, .6]: |.6 - 1| of one; (.2, .3]: |.25 - 0|.
    error = calibration_error([0.92, 0.98, 0.6, 0.25], [1.0, 0.0, 1.0, 0.0])
    assert error == pytest.approx((2 * 0.45 + 0.4 + 0.25) / 4)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_choices_changes_no_digit(seed: int) -> None:
    pairs = [(Random(n).random(), float(n % 3 == 0)) for n in range(100)]
    mixed = Random(seed).sample(pairs, len(pairs))

    errors = [calibration_error([p for p, _ in one], [c for _, c in one]) for one in (pairs, mixed)]

    assert errors[0] == errors[1]


@each("tenth", range(1, 10))
def test_a_confidence_on_a_border_belongs_to_the_lower_bin(tenth: int) -> None:
    border = tenth / 10
    below, above = border - 0.05, nextafter(border, 1)

    # In one bin a gap below and a gap above cancel; in two bins they do not.
    assert calibration_error([border, below], [1.0, 2 * border - 1.05]) == pytest.approx(
        0, abs=1e-9
    )
    assert calibration_error([border, above], [1.0, 2 * border - 1.0]) == pytest.approx(1 - border)


def test_without_choices_there_is_no_error() -> None:
    assert calibration_error([], []) is None
