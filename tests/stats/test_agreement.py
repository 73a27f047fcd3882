"""Agreement among raters: the krippendorff package, hand sums, published reliabilities."""

from collections.abc import Callable
from functools import partial
from typing import get_args

import krippendorff
import numpy as np
import pytest
from support.each import each
from support.rating_tables import BARREN, NAN, rater_table

from harness.stats import agreement
from harness.stats.agreement import Scale, alpha, pairable, percent_agreement, weighted_alpha
from harness.stats.correlation import dataset_pearson
from harness.stats.estimate import Estimate, Floats, NoValue, Resamples, ratio
from harness.stats.reliability import is_severity_confounded, rater_groups, reliability_of_means

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
    found = agreement.cohen_kappa([*cells, (1, NAN)])

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
    assert agreement.attainable_r(human).value == pytest.approx(0.7118, abs=5e-5)


# Shrout & Fleiss (1979, "Intraclass Correlations"), table 2: six targets by four judges.
SIX_BY_FOUR = np.array(
    [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]], float
)
Numbers = np.random.Generator


def alone(documents: int) -> Resamples:
    return Resamples.of([f"{n:03}" for n in range(documents)], seed="s", draws=1)


def test_crossed_raters_have_the_published_reliability() -> None:
    found = reliability_of_means(SIX_BY_FOUR[:, None], alone(6))

    assert found.value == pytest.approx(0.9093, abs=5e-5)  # ICC(3,4)
    assert (found.value or 0) ** 0.5 == pytest.approx(0.954, abs=5e-4)
    assert 0 < (found.low or 0) < 0.9093 < (found.high or 0) < 1


def test_a_raters_severity_is_no_noise_where_all_rate_all() -> None:
    severe = SIX_BY_FOUR + np.array([-40.0, 3.0, 0.0, 100.0])
    moved = reliability_of_means(severe[:, None], alone(6)).value

    plain = reliability_of_means(SIX_BY_FOUR[:, None], alone(6)).value
    assert moved == pytest.approx(plain)


def study(random: Numbers, design: str) -> tuple[Floats, Floats]:
    """The truth of 150 documents by 4 systems, and ratings, some severe or missing."""
    raters = {"most alone": 10, "three of twelve": 12}.get(design, 3)
    truth = random.normal(size=(150, 4)) + np.arange(4) * 0.3
    severe = random.normal(size=raters) * (design == "three of twelve")
    if design == "very severe":
        severe = np.array([-1.5, 0, 1.5])
    ratings = truth[:, :, None] + severe + random.normal(size=(150, 4, raters))
    if design == "most alone":
        ratings[15:, :, 1:] = NAN
    for document in ratings if design == "three of twelve" else ():
        document[:, random.choice(12, 9, replace=False)] = NAN
    return truth, ratings


@each("design", ["crossed", "very severe", "most alone", "three of twelve"])
def test_the_truth_as_judge_gets_what_is_attainable(design: str) -> None:
    random, said, got = np.random.default_rng(3), [], []
    for _ in range(25):
        truth, ratings = study(random, design)
        clusters = Resamples.of(["one"] * 150, seed="s", draws=1)
        said.append((reliability_of_means(ratings, clusters).value or 0) ** 0.5)
        means = ratio(np.nansum(ratings, axis=2), (~np.isnan(ratings)).sum(axis=2))
        got.append(dataset_pearson(means, truth).value or 0)

    assert np.mean(said) == pytest.approx(np.mean(got), abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [10, 20, 50, 200])
def test_its_interval_covers_what_many_documents_give(clusters: int) -> None:
    # Rounded ratings of three crossed raters: 1 less error / 3 over the means' variance.
    random, covered, runs = np.random.default_rng(clusters), 0, 400
    truth = reliability_of_means(draw(random, 20_000), Resamples.of(["c"] * 20_000, seed="s"))
    for _ in range(runs):
        ends = reliability_of_means(draw(random, clusters), alone(clusters))
        covered += (ends.low or 0) <= (truth.value or 0) <= (ends.high or 0)

    assert 0.92 <= covered / runs <= 0.98


def draw(random: Numbers, documents: int) -> Floats:
    """Ratings 1 to 5 of documents by four systems; cells of a document depend on one another."""
    truth = random.normal(size=(documents, 1)) * 0.6 + random.normal(size=(documents, 4)) * 0.7
    noise = random.normal(size=(documents, 4, 3)) * 0.8
    return np.asarray(np.clip(np.round(3 + truth[:, :, None] + noise), 1, 5))


@pytest.mark.parametrize(
    ("ratings", "reason"),
    [
        ([[1.0, NAN], [2.0, NAN]], NoValue.ONE_RATER),
        ([[1.0, NAN], [NAN, 2.0]], NoValue.TOO_FEW),
        ([[1.0, 2.0]], NoValue.TOO_FEW),
        ([[2.0, 2.0], [2.0, 2.0], [2.0, 2.0]], NoValue.CONSTANT),
        ([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [2.1, 1.0]], NoValue.UNRELIABLE),
        (np.zeros((0, 2)), NoValue.ONE_RATER),
    ],
)
def test_ratings_without_a_reliability_say_why(ratings: Floats, reason: NoValue) -> None:
    cells = np.asarray(ratings)[:, None]
    assert reliability_of_means(cells, alone(len(cells))).reason == reason


def test_raters_that_agree_throughout_are_reliable_without_an_interval() -> None:
    found = reliability_of_means(np.repeat(np.arange(6.0)[:, None, None], 3, axis=2), alone(6))
    assert found.value == pytest.approx(1)
    assert found.why == NoValue.DEGENERATE


def sets(*raters: list[int]) -> Floats:
    """Ratings of two systems in five documents, each by raters of its own among six."""
    ratings = np.full((5, 2, 6), NAN)
    for system, own in enumerate(raters):
        ratings[:, system, own] = 3.0
    return ratings


@pytest.mark.parametrize(
    ("first", "second", "confounded", "groups"),
    [
        ([0, 1, 2], [3, 4, 5], True, 2),
        ([0, 1, 2], [0, 1, 2], False, 1),
        ([0, 1, 2], [0, 1, 3], True, 1),
        ([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4], False, 1),
        ([0, 1], [], False, 1),
    ],
)
def test_systems_with_other_raters_are_named(
    first: list[int], second: list[int], confounded: bool, groups: int
) -> None:
    ratings = sets(first, second)
    assert is_severity_confounded(ratings) == confounded
    assert rater_groups(ratings) == groups
