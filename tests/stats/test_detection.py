"""Rates, AUC, bins, effective n and curves: against sums by hand and other programs."""

import numpy as np
import pytest
from scipy.stats import t
from support.each import each

from harness.stats import classification
from harness.stats.classification import PUBLISHED_EDGES, auc, bins_of, logistic_curve
from harness.stats.estimate import Clusters, Floats, NoValue
from harness.stats.intervals import effective_n


def alone(n: int) -> Clusters:
    return Clusters.named([f"{at:05}" for at in range(n)])


def falling(n: int = 800) -> tuple[Floats, Floats]:
    """Answers that are flagged the less, the greater the number."""
    draw = np.random.default_rng(5)
    x = draw.uniform(0, 2, n)
    return x, (draw.random(n) < 0.95 - 0.4 * x).astype(float)


@each(
    ("value", "place"),
    [
        *((0.0, 0), (0.2499, 0), (0.25, 1), (1.0, 4), (1.7499, 6), (1.75, 7), (2.0, 7)),
        *((-0.0001, -1), (2.0001, -1), (float("nan"), -1)),
    ],
)
def test_a_published_bin_is_closed_below_and_the_last_one_at_both_ends(
    value: float, place: int
) -> None:
    assert bins_of(np.array([value]), PUBLISHED_EDGES).tolist() == [place]


@pytest.mark.parametrize(
    ("values", "count", "edges"),
    [
        ([0, 1, 2, 3, 4], 2, (0, 2, 4)),
        ([0, 0, 0, 0, 5], 4, (0, 5)),  # equal values cannot be parted
        ([1, 1, 1], 3, ()),
        ([], 3, ()),
    ],
)
def test_bins_of_equal_size_have_the_quantiles_for_edges(
    values: list[float], count: int, edges: tuple[float, ...]
) -> None:
    assert classification.equal_mass_edges(values, count) == edges


@each(
    ("values", "clusters", "size"),
    [
        ([1, 0, 1, 0], "abcd", 4),  # nothing in common
        ([1, 1, 0, 0], "aabb", 2),  # nothing new in a cluster
        ([1, 0, 1, 0], "aabb", 4),  # as unlike within as between
        ([1, 1, 1, 1], "aabb", 2),  # alike throughout: no more than the clusters
        ([1, 0, 1], "aaa", 1),
        ([1, 1, 1, 1, 1, 1], "aaaaab", 36 / 26),  # Kish: (5 + 1)^2 / (25 + 1)
        ([1, 0, 1, 1, 0, 0], "aabbcc", 3.0),  # an error of 2/6, so .25 / (1/12)
        ([], "", None),
    ],
)
def test_effective_n_is_what_is_new(values: list[float], clusters: str, size: float | None) -> None:
    assert effective_n(values, list(clusters)) == (size if size is None else pytest.approx(size))


def test_the_area_is_that_of_scikit_learn_with_ties() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    draw = np.random.default_rng(4)
    scores, truth = np.round(draw.random(200), 1), draw.random(200) < 0.4
    found = auc(scores, truth.tolist(), alone(200))

    assert found.value == pytest.approx(metrics.roc_auc_score(truth, scores))


@each(
    ("scores", "truth", "value"),
    [
        ([1, 1, 1, 1], "1010", 0.5),  # a constant answer
        ([1, 1, 0, 0], "1100", 1.0),
        ([0, 0, 1, 1], "1100", 0.0),
        ([1, 0, 1, 0], "1100", 0.5),
        ([1, 1, 0, 1, 0, 0], "111000", 2 / 3),  # (1 + TPR - FPR) / 2
    ],
)
def test_the_area_of_small_tables(scores: list[float], truth: str, value: float) -> None:
    found = auc(np.array(scores, dtype=float), [part == "1" for part in truth], alone(len(truth)))
    assert found.value == pytest.approx(value)


def test_the_error_of_an_area_is_that_of_delong() -> None:
    # DeLong's variance from the share of the other kind that each text beats; with so many texts
    # Wilson's interval is that of log-odds.
    draw = np.random.default_rng(8)
    high, low = draw.normal(1, 1, 150), draw.normal(size=150)
    beats = (high[:, None] > low).astype(float)
    area = beats.mean()
    error = (beats.mean(axis=1).var(ddof=1) / 150 + beats.mean(axis=0).var(ddof=1) / 150) ** 0.5
    reach = t.ppf(0.975, 299) * error / (area * (1 - area))

    found = auc(np.concatenate([high, low]), [True] * 150 + [False] * 150, alone(300))

    odds = np.log(area / (1 - area)) + reach * np.array([-1, 1])
    assert (found.low, found.high) == pytest.approx(tuple(1 / (1 + np.exp(-odds))), rel=5e-3)


AT = np.linspace(0.1, 1.9, 7)


def test_the_band_of_a_logistic_curve_holds_the_truth() -> None:
    found = logistic_curve(*falling(), alone(800), AT)

    assert not isinstance(found, NoValue)
    truth = 0.95 - 0.4 * AT
    assert ((found[1] - 0.04 < truth) & (truth < found[2] + 0.04)).all()


@each(("x", "why"), [(np.ones(30), NoValue.CONSTANT), (np.arange(30.0), NoValue.DEGENERATE)])
def test_there_is_no_curve_of_one_place_or_a_threshold_or_fewer_than_ten_of_a_kind(
    x: Floats, why: NoValue
) -> None:
    for flagged, reason in ((0, NoValue.TOO_FEW), (9, NoValue.TOO_FEW), (10, why)):
        y = (np.arange(30) < flagged).astype(float)
        for answers in (y, 1 - y):
            assert logistic_curve(x, answers, alone(30), AT) is reason
