"""Choices among classes to precision, recall and F1 of each class, with intervals over clusters.

Rows are answers; a tie is chosen in shares. A quotient without a divisor has no value and is never
0: precision where a class was never chosen, recall where no row is of it, F1 where both hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, fsum

import numpy as np

from harness.stats.estimate import Estimate, Floats, NoValue, ratio
from harness.stats.intervals import EstimateCI, Resamples, bounds


@dataclass(frozen=True, slots=True)
class ClassMetrics:
    """Precision, recall and F1 of one class, 0 to 1; `n` counts the rows of the divisor."""

    precision: EstimateCI
    recall: EstimateCI
    f1: EstimateCI


@dataclass(frozen=True, slots=True)
class ClassificationMetrics:
    """The metrics of every class in the order of the columns, and the mean of their F1.

    The mean is over the classes that have an F1: those that are right or were chosen somewhere,
    as in scikit-learn's macro average.
    """

    classes: tuple[ClassMetrics, ...]
    macro_f1: EstimateCI


def classification_metrics(
    actual: Floats, chosen: Floats, clusters: Resamples
) -> ClassificationMetrics:
    """The metrics of rows x classes: the shares `chosen`, and 1 where a class is the right one.

    F1 is 2 hits / (chosen + actual), the harmonic mean of precision and recall (van Rijsbergen
    1979) wherever both have a value, and 0 where one of them is 0 or has none. None: "too few"
    without a divisor. A cluster is drawn with all its rows.
    """
    columns = np.hstack([actual * chosen, chosen, actual])
    sizes = [(chosen > 0).sum(axis=0), (actual > 0).sum(axis=0)]
    sizes.append(((chosen > 0) | (actual > 0)).sum(axis=0))
    whole = _rates(columns.sum(axis=0, keepdims=True))
    drawn = _rates(clusters.sums(columns))
    classes = tuple(
        ClassMetrics(
            *(
                _estimate(float(value[0, at]), int(size[at]), values[:, at], clusters)
                for value, size, values in zip(whole, sizes, drawn, strict=True)
            )
        )
        for at in range(actual.shape[1])
    )
    macro, n = float(_mean(whole[2])[0]), len(actual)
    return ClassificationMetrics(classes, _estimate(macro, n, _mean(drawn[2]), clusters))


def _rates(sums: Floats) -> tuple[Floats, Floats, Floats]:
    """Precision, recall and F1 by class for each row of sums: hits, chosen and actual."""
    hits, chosen, actual = np.split(sums, 3, axis=1)
    return ratio(hits, chosen), ratio(hits, actual), ratio(2 * hits, chosen + actual)


def _mean(rows: Floats) -> Floats:
    """The mean of each row's numbers; NaN where a row has none."""
    is_there = ~np.isnan(rows)
    return ratio(np.nan_to_num(rows).sum(axis=1), is_there.sum(axis=1))


def _estimate(value: float, n: int, drawn: Floats, clusters: Resamples) -> EstimateCI:
    estimate = Estimate(None, n, reason=NoValue.TOO_FEW) if np.isnan(value) else Estimate(value, n)
    return EstimateCI(estimate, bounds(estimate, drawn, clusters))


def one_hot(places: Sequence[int], count: int) -> Floats:
    """Rows x classes, 1 at each row's place."""
    rows = np.zeros((len(places), count))
    rows[np.arange(len(places)), list(places)] = 1.0
    return rows


BINS = 10


def calibration_error(confidences: Sequence[float], credits: Sequence[float]) -> float | None:
    """The expected calibration error over ten bins of equal width (Guo et al. 2017, eq. 3); 0 to 1.

    The mean, over all choices, of how far the mean confidence of a bin is from the mean credit
    of its choices; a confidence on a border belongs to the lower bin. None without any choice. It
    has no interval: a bootstrap of it is biased upwards.
    """
    if len(confidences) != len(credits):
        raise ValueError(f"{len(confidences)} confidences for {len(credits)} credits")
    gaps: dict[int, list[float]] = {}
    for confidence, credit in zip(confidences, credits, strict=True):
        if not 0 <= confidence <= 1:
            raise ValueError(f"a confidence lies between 0 and 1, not at {confidence}")
        gaps.setdefault(max(ceil(confidence * BINS), 1), []).append(confidence - credit)
    if not gaps:
        return None
    # Summed exactly, so that the order of the choices changes no digit.
    return fsum(abs(fsum(part)) for part in gaps.values()) / len(confidences)
