"""Readings that are flagged or not, and what each counts where half of them chose a threshold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import fsum

from harness.parts import digest
from harness.pipeline.choice_scores import HITS
from harness.storage.runs import SampleRecord, VerdictRecord

PRECISION = "precision"


@dataclass(frozen=True, slots=True)
class Flagged:
    """One reading, and how far its text was flagged: 1, 0 or a tie's share; None where missing.

    `weight` is how many texts it stands for, 1 or more.
    """

    record: SampleRecord
    verdict: VerdictRecord
    is_positive: bool
    flagged: float | None
    score: float | None
    weight: float = 1.0

    @property
    def cluster(self) -> str:
        """The original of the text."""
        return self.record.sample.cluster

    def is_of(self, rate: str) -> bool:
        """Whether the text is of the kind that a rate is of; precision is of both."""
        return rate == PRECISION or self.is_positive == (rate == HITS)


def at_threshold(readings: Sequence[Flagged], threshold: float) -> Iterator[Flagged]:
    """The readings as a threshold flags them; those without a score are missing."""
    for one in readings:
        said = None if one.score is None else float(one.score >= threshold)
        yield replace(one, flagged=said)


def weighted(
    readings: Sequence[Flagged], half: set[str]
) -> tuple[tuple[Flagged, ...], tuple[Flagged, ...], float]:
    """The readings outside a half, weighted as all of them; those within it; and the weight.

    Each reading of an original that the half was drawn from counts as often as there are benign
    texts to one that is measured (Horvitz & Thompson 1952, JASA 47:663); all others count once.
    """
    drawn = _drawn_from(readings)
    measured = [one for one in readings if one.cluster not in half]
    counts = [
        sum(not one.is_positive and one.flagged is not None for one in part)
        for part in (readings, measured)
    ]
    weight = counts[0] / counts[1] if half and counts[1] else 1.0
    weighted = (replace(r, weight=weight if r.cluster in drawn else 1.0) for r in measured)
    left_out = tuple(one for one in readings if one.cluster in half)
    return tuple(weighted), left_out, weight


def _drawn_from(readings: Sequence[Flagged]) -> set[str]:
    """The originals with a benign text that has a score."""
    return {one.cluster for one in readings if not one.is_positive and one.score is not None}


def half_of(readings: Sequence[Flagged], seed: int) -> set[str]:
    """Every other original of `_drawn_from`, in an order the seed draws."""
    names = sorted(_drawn_from(readings), key=lambda name: digest((seed, name)))
    return set(names[::2])


def of_mean_one(readings: Sequence[Flagged]) -> list[float]:
    """The weights of readings, which sum to their number: as many rows as there are support it."""
    weights = [one.weight for one in readings]
    if len({*weights}) < 2:
        return [1.0] * len(weights)
    mean = fsum(weights) / len(weights)
    return [weight / mean for weight in weights]
