"""How far a model's confidence in its choices is from how often they are right."""

from collections.abc import Sequence
from math import ceil, fsum

BINS = 10


def calibration_error(confidences: Sequence[float], credits: Sequence[float]) -> float | None:
    """The expected calibration error over ten bins of equal width (Guo et al. 2017, eq. 3); 0 to 1.

    The mean, over all choices, of how far the mean confidence of a bin is from the mean credit
    of its choices; a confidence on a border belongs to the lower bin. Null without any choice. It
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
