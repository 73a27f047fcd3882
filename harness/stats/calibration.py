"""How far a model's confidence in its choices is from how often they are right."""

from collections.abc import Sequence

import numpy as np

BINS = 10


def calibration_error(confidences: Sequence[float], credits: Sequence[float]) -> float | None:
    """The expected calibration error over ten bins of equal width (Guo et al. 2017, eq. 3); 0 to 1.

    The mean, over all choices, of how far the mean confidence of a bin is from the mean credit
    of its choices; a confidence on a border belongs to the lower bin. Null without any choice. It
    has no interval: a bootstrap of it is biased upwards.
    """
    if len(confidences) != len(credits):
        raise ValueError(f"{len(confidences)} confidences for {len(credits)} credits")
    held = np.asarray(confidences, dtype=float)
    if not np.all((held >= 0) & (held <= 1)):
        raise ValueError("a confidence lies between 0 and 1")
    if not len(held):
        return None
    places = np.clip(np.ceil(held * BINS).astype(int) - 1, 0, BINS - 1)
    gaps = np.bincount(places, weights=held - np.asarray(credits, dtype=float), minlength=BINS)
    return float(np.abs(gaps).sum() / len(held))
