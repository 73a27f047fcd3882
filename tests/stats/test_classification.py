"""Precision, recall and F1 of classes: against scikit-learn, by hand, and where there is none."""

from random import Random

import numpy as np
import pytest
from scipy.stats import binomtest

from harness.stats.classification import ClassificationMetrics, classification_metrics, one_hot
from harness.stats.estimate import Clusters, Estimate, NoValue

RARE = 3


def alone(n: int) -> Clusters:
    return Clusters.named([f"{at:05}" for at in range(n)])


def bounds(figure: Estimate) -> tuple[float, float]:
    assert figure.low is not None
    assert figure.high is not None
    return figure.low, figure.high


def of(actual: list[int], chosen: list[int], count: int = RARE) -> ClassificationMetrics:
    rows = one_hot(actual, count), one_hot(chosen, count)
    return classification_metrics(*rows, alone(len(actual)))


def values(found: ClassificationMetrics) -> list[list[float | None]]:
    return [
        [figure.value for figure in (one.precision, one.recall, one.f1)] for one in found.classes
    ]


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
        assert found.macro_f1.value == pytest.approx(theirs[2], abs=1e-12)


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


def test_the_mean_f1_is_that_of_the_classes_that_are_there_or_chosen() -> None:
    found = of([0, 0, 1], [0, 1, 1])  # F1 2/3 and 2/3; the third class is nowhere

    assert found.macro_f1.value == pytest.approx(2 / 3)


def test_a_tie_counts_in_shares() -> None:
    clusters = Clusters.named(["a", "b"])
    chosen = np.array([[0.5, 0.5], [0.0, 1.0]])

    found = classification_metrics(one_hot([0, 1], 2), chosen, clusters)

    assert values(found)[0] == pytest.approx([1.0, 0.5, 2 / 3])
    assert values(found)[1] == pytest.approx([2 / 3, 1.0, 0.8])


def test_without_a_row_nothing_has_a_value() -> None:
    found = of([], [])

    assert found.macro_f1.value is None
    assert found.classes[0].recall.reason is NoValue.TOO_FEW


def test_rows_of_one_cluster_count_together() -> None:
    actual, chosen = [0, 1] * 40, [0, 1, 1, 0] * 20
    rows = one_hot(actual, 2), one_hot(chosen, 2)
    whole = Clusters.named([f"{at // 8}" for at in range(80)])
    repeated = one_hot([0, 0, 1, 1, 0, 1] * 5, 2), one_hot([0, 1, 1, 0, 0, 1] * 5, 2)
    six = Clusters.named(list("abcdef") * 5)

    evened = classification_metrics(*rows, whole).macro_f1
    often = classification_metrics(*repeated, six)
    once = classification_metrics(repeated[0][:6], repeated[1][:6], alone(6))

    # Each cluster of eight has as many right as the next.
    assert (evened.low, evened.why) == (None, NoValue.CONSTANT)
    assert bounds(often.macro_f1) == pytest.approx(bounds(once.macro_f1))
    assert bounds(often.classes[0].recall) == pytest.approx(bounds(once.classes[0].recall))


def test_precision_and_recall_of_independent_rows_have_wilsons_interval() -> None:
    # Chosen ten times, eight of them right; nine are of the class.
    actual, chosen = [1] * 8 + [0] * 2 + [1] + [0] * 5, [1] * 10 + [0] * 6

    found = classification_metrics(one_hot(actual, 2), one_hot(chosen, 2), alone(16)).classes[1]

    for figure, right, of in ((found.precision, 8, 10), (found.recall, 8, 9)):
        theirs = binomtest(right, of).proportion_ci(method="wilson")
        assert bounds(figure) == pytest.approx((theirs.low, theirs.high))


def test_an_f1_has_the_error_of_its_draws() -> None:
    draw = Random(5)
    actual = [draw.choice([0, 1]) for _ in range(300)]
    chosen = [gold if draw.random() < 0.7 else 1 - gold for gold in actual]
    rows = np.array(list(zip(actual, chosen, strict=True)))

    low, high = bounds(
        classification_metrics(one_hot(actual, 2), one_hot(chosen, 2), alone(300)).classes[1].f1
    )

    drawn = rows[np.random.default_rng(1).integers(0, 300, (4000, 300))]
    f1s = 2 * drawn.prod(axis=2).sum(axis=1) / drawn.sum(axis=(1, 2))
    assert (low, high) == pytest.approx(tuple(np.quantile(f1s, [0.025, 0.975])), abs=0.01)


def test_an_f1_of_1_has_no_interval() -> None:
    rows = one_hot([0, 1] * 6, 2)

    found = classification_metrics(rows, rows, alone(12))

    assert (found.macro_f1.value, found.macro_f1.why) == (1, NoValue.CONSTANT)
