"""Verdicts on choices to what only many together show: averages over orders, calibration, bias.

Pure: values are one a record where a mean is taken of them. Nothing here writes a score.
"""

from collections.abc import Mapping, Sequence
from math import fsum

from harness.judges.gold import PLACE
from harness.stats.classification import calibration_error
from harness.storage.runs import SampleRecord, VerdictRecord

Read = tuple[SampleRecord, VerdictRecord]
PERMUTED, CALIBRATION, FAVOURITE = "accuracy_permuted", "calibration_error", "most_frequent_choice"


def permuted(readings: Sequence[Read]) -> list[float | None]:
    """For each row, whether its sample comes out right over all rows of the sample together.

    The probability of each choice is averaged over the orders it was shown in, then the likeliest
    is taken; of equally likely ones each counts its share. None for a sample that lacks the
    probabilities of any row: a preference for a place cancels out over all orders alone.
    """
    shares: dict[str, list[tuple[float, ...]]] = {}
    for row, verdict in readings:
        shares.setdefault(row.sample.id, []).append(verdict.shares)
    golds = {row.sample.id: _gold(row) for row, _ in readings}
    credits = {n: _credit(part, golds[n]) if all(part) else None for n, part in shares.items()}
    return [credits[row.sample.id] for row, _ in readings]


def over_all(readings: Sequence[Read]) -> Mapping[str, tuple[float | None, list[bool]]]:
    """What is no mean of rows, and of which rows it is made.

    The calibration error of the rows that have probabilities, by the choice that these make the
    likeliest, and the share of the place that is chosen most often among those that have a choice.
    """
    has_shares = [bool(verdict.shares) for _, verdict in readings]
    sure = [(row, verdict.shares) for row, verdict in readings if verdict.shares]
    error = calibration_error(
        [max(shares) for _, shares in sure],
        [_credit([shares], _gold(row)) for row, shares in sure],
    )
    places = [_places(verdict) for _, verdict in readings]
    counts = [fsum(part.get(name, 0.0) for part in places) for name in set().union(*places)]
    has_choice = [bool(part) for part in places]
    favourite = max(counts) / sum(has_choice) if counts else None
    return {CALIBRATION: (error, has_shares), FAVOURITE: (favourite, has_choice)}


def chance(readings: Sequence[Read]) -> float:
    """What a blind choice gets on average: one over the number of choices."""
    return fsum(1 / len(row.sample.choices) for row, _ in readings) / len(readings)


def _gold(row: SampleRecord) -> int:
    return row.sample.choices.index(row.sample.gold or "")


def _credit(shares: Sequence[tuple[float, ...]], gold: int) -> float:
    totals = [fsum(part) for part in zip(*shares, strict=True)]
    best = max(totals)
    return 1 / totals.count(best) if totals[gold] == best else 0.0


def _places(verdict: VerdictRecord) -> dict[str, float]:
    return {name: v for name, v in verdict.detail.items() if name.startswith(PLACE)}
