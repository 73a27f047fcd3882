"""Precision, recall and F1 of classes: against scikit-learn, by hand, and where there is none."""

from random import Random

import numpy as np
import pytest
from support.rating_tables import drawn_rows

from harness.stats.classification import ClassificationMetrics, classification_metrics, one_hot
from harness.stats.estimate import NoValue, Resamples

RARE = 3


def of(
    actual: list[int], chosen: list[int], count: int = RARE, draws: int = 200
) -> ClassificationMetrics:
    clusters = Resamples.of([str(at) for at in range(len(actual))], seed="0", draws=draws)
    return classification_metrics(one_hot(actual, count), one_hot(chosen, count), clusters)


def values(found: ClassificationMetrics) -> list[list[float | None]]:
    return [
        [figure.estimate.value for figure in (one.precision, one.recall, one.f1)]
        for one in found.classes
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
        assert found.macro_f1.estimate.value == pytest.approx(theirs[2], abs=1e-12)


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

    assert found.macro_f1.estimate.value == pytest.approx(2 / 3)


def test_a_tie_counts_in_shares() -> None:
    clusters = Resamples.of(["a", "b"], seed="0", draws=10)
    chosen = np.array([[0.5, 0.5], [0.0, 1.0]])

    found = classification_metrics(one_hot([0, 1], 2), chosen, clusters)

    assert values(found)[0] == pytest.approx([1.0, 0.5, 2 / 3])
    assert values(found)[1] == pytest.approx([2 / 3, 1.0, 0.8])


def test_without_a_row_nothing_has_a_value() -> None:
    found = of([], [])

    assert found.macro_f1.estimate.value is None
    assert found.classes[0].recall.estimate.reason is NoValue.TOO_FEW


def test_an_interval_draws_clusters_whole() -> None:
    actual, chosen = [0, 1] * 40, [0, 1, 1, 0] * 20
    rows = one_hot(actual, 2), one_hot(chosen, 2)
    alone = Resamples.of([str(at) for at in range(80)], seed="0", draws=500)
    eights = Resamples.of([str(at // 4 % 10 < 5) + str(at % 10) for at in range(80)], seed="0")

    widths = [
        (bounds.high or 0) - (bounds.low or 0)
        for clusters in (alone, eights)
        for bounds in [classification_metrics(*rows, clusters).macro_f1.bounds]
    ]

    assert widths[0] > 0.1
    assert widths[0] != widths[1]


def test_an_interval_is_that_of_drawing_by_hand() -> None:
    draw = Random(5)
    actual = [draw.choice([0, 1]) for _ in range(50)]
    chosen = [gold if draw.random() < 0.7 else 1 - gold for gold in actual]
    clusters = Resamples.of([str(at) for at in range(50)], seed="7", draws=300)

    found = (
        classification_metrics(one_hot(actual, 2), one_hot(chosen, 2), clusters)
        .classes[1]
        .f1.bounds
    )
    f1s = []
    for rows in drawn_rows(clusters):
        pairs = [(actual[at], chosen[at]) for at in rows]
        hits = sum(gold == said == 1 for gold, said in pairs)
        f1s.append(2 * hits / sum(gold + said for gold, said in pairs))

    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(f1s, [0.025, 0.975])))
