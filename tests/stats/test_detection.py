"""Rates, AUC, bins, effective n and curves: beside sums by hand and other programs."""

from collections.abc import Callable

import numpy as np
import pytest
from support.each import each
from support.rating_tables import drawn_rows

from harness.stats.classification import (
    PUBLISHED_EDGES,
    Curve,
    auc,
    bin_of,
    effective_n,
    equal_mass_edges,
    isotonic_curve,
    logistic_curve,
)
from harness.stats.estimate import Floats, NoValue, Resamples


def alone(n: int, draws: int = 200) -> Resamples:
    return Resamples.of([f"{at:05}" for at in range(n)], seed="s", draws=draws)


def falling(n: int = 800) -> tuple[Floats, Floats]:
    """Answers that are flagged the less, the greater the number."""
    draw = np.random.default_rng(5)
    x = draw.uniform(0, 2, n)
    return x, (draw.random(n) < 0.95 - 0.4 * x).astype(float)


@each(
    ("value", "place"),
    [
        *((0.0, 0), (0.2499, 0), (0.25, 1), (1.0, 4), (1.7499, 6), (1.75, 7), (2.0, 7)),
        *((-0.0001, None), (2.0001, None)),
    ],
)
def test_a_published_bin_is_closed_below_and_the_last_one_at_both_ends(
    value: float, place: int | None
) -> None:
    assert bin_of(value, PUBLISHED_EDGES) == place


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
    assert equal_mass_edges(values, count) == edges


def test_bins_of_equal_size_hold_equally_many() -> None:
    values = np.random.default_rng(2).gamma(2, 0.2, 1000).tolist()

    edges = equal_mass_edges(values, 5)

    places = [bin_of(value, edges) for value in values]
    assert [places.count(at) for at in range(5)] == [200] * 5


@each(
    ("values", "clusters", "size"),
    [
        ([1, 0, 1, 0], "abcd", 4),  # nothing in common
        ([1, 1, 0, 0], "aabb", 2),  # nothing new in a cluster
        ([1, 0, 1, 0], "aabb", 4),  # as unlike within as between
        ([1, 1, 1, 1], "aabb", 2),  # alike throughout: no more than the clusters
        ([1, 0, 1], "aaa", 1),
        ([1, 1, 1, 1, 1, 1], "aaaaab", 36 / 26),  # Kish: (5 + 1)^2 / (25 + 1)
        ([], "", None),
    ],
)
def test_effective_n_counts_what_is_new(
    values: list[float], clusters: str, size: float | None
) -> None:
    assert effective_n(values, list(clusters)) == (size if size is None else pytest.approx(size))


def test_the_area_is_that_of_scikit_learn_with_ties() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    draw = np.random.default_rng(4)
    scores, truth = np.round(draw.random(200), 1), draw.random(200) < 0.4

    found = auc(scores, truth.tolist(), alone(200))

    assert found.estimate.value == pytest.approx(metrics.roc_auc_score(truth, scores))


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

    assert found.estimate.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("truth", "why"), [([], NoValue.TOO_FEW), ([True, True], NoValue.CONSTANT)]
)
def test_there_is_no_area_of_one_kind(truth: list[bool], why: NoValue) -> None:
    found = auc(np.ones(len(truth)), truth, alone(len(truth)))

    assert (found.estimate.value, found.estimate.reason) == (None, why)


def test_a_drawn_area_is_that_of_the_rows_drawn() -> None:
    draw = np.random.default_rng(8)
    scores, truth = draw.random(40).round(1), draw.random(40) < 0.5
    clusters = Resamples.of([f"{at // 2:03}" for at in range(40)], seed="s", draws=50)

    each = [
        auc(scores[rows], truth[rows].tolist(), alone(len(rows), 1))
        for rows in drawn_rows(clusters)
    ]
    found = auc(scores, truth.tolist(), clusters).bounds

    values = [one.estimate.value or 0.0 for one in each]
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))


Fit = Callable[[Floats, Floats, Resamples, Floats], Curve | NoValue]
FITS: tuple[Fit, ...] = (logistic_curve, isotonic_curve)
AT = np.linspace(0.1, 1.9, 7)


@pytest.mark.parametrize("fit", FITS)
def test_a_planted_curve_is_within_the_band(fit: Fit) -> None:
    found = fit(*falling(), alone(800), AT)

    assert isinstance(found, Curve)
    truth = 0.95 - 0.4 * AT
    assert np.abs(found.value - truth).max() < 0.12
    assert ((found.low - 0.04 < truth) & (truth < found.high + 0.04)).all()


@pytest.mark.parametrize(("sign", "kind"), [(1, "isotonic falling"), (-1, "isotonic rising")])
def test_an_isotonic_curve_goes_one_way_and_says_which(sign: int, kind: str) -> None:
    x, y = falling()

    found = isotonic_curve(sign * x, y, alone(800, 20), np.sort(sign * AT))

    assert isinstance(found, Curve)
    assert found.kind == kind
    assert (sign * np.diff(found.value) <= 1e-12).all()


@each(
    ("x", "y", "kind"),
    [
        # One far hit makes the covariance positive. Falling leaves 2/3, rising 1.
        ([0, 1, 2, 3, 10], [1, 1, 0, 0, 1], "falling"),
        ([0, 7, 8, 9, 10], [0, 1, 1, 0, 0], "falling"),
        ([0, 7, 8, 9, 10], [1, 0, 0, 1, 1], "rising"),
        ([0, 1, 2], [0, 1, 0], "falling"),  # rising as well
        ([0, 0, 1, 1], [0, 1, 1, 0], "flat"),
        ([0, 1, 2], [0.5, 0.5, 0.5], "flat"),
    ],
)
def test_an_isotonic_curve_goes_the_way_that_fits_better(
    x: list[float], y: list[float], kind: str
) -> None:
    places, shares = np.array(x, dtype=float), np.array(y, dtype=float)

    found = isotonic_curve(places, shares, alone(len(x)), places)

    assert isinstance(found, Curve)
    assert found.kind == f"isotonic {kind}"


def test_the_isotonic_curve_is_that_of_scikit_learn() -> None:
    isotonic = pytest.importorskip("sklearn.isotonic")
    x, y = falling()
    x = x.round(1)  # with many ties

    theirs = isotonic.IsotonicRegression(increasing=False, out_of_bounds="clip").fit(x, y)
    found = isotonic_curve(x, y, alone(800, 20), AT)

    assert isinstance(found, Curve)
    assert found.value == pytest.approx(theirs.predict(AT))


def test_a_constant_answer_has_a_flat_curve_and_no_line() -> None:
    x, y = np.linspace(0, 2, 30), np.ones(30)

    flat = isotonic_curve(x, y, alone(30), AT)

    assert isinstance(flat, Curve)
    assert flat.kind == "isotonic flat"
    assert (flat.value == 1).all()
    assert logistic_curve(x, y, alone(30), AT) is NoValue.CONSTANT
