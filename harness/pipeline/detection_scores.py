"""Verdicts on choices to hits and false alarms against how implicit texts are.

Which readings stand in which bin, what of each counts, and the numbers that are no mean of them.
Pure: nothing here writes a score, and a reading without an answer is never a no.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from harness.data.choices import LABELS
from harness.judges.gold import LABELLED
from harness.pipeline.choice_scores import Read
from harness.specs.tasks import ImplicitnessSpec
from harness.stats.detection import (
    PUBLISHED_EDGES,
    auc,
    bin_of,
    effective_n,
    equal_mass_edges,
    trend,
)
from harness.stats.estimate import Floats
from harness.stats.intervals import Resamples

IMPLICITNESS = "implicitness"
HITS, FALSE_ALARMS = "tpr", "fpr"
"""The share of positive texts that are found, and of negative ones that are taken for positive."""
AUC, SLOPE, SLOPE_P, EFFECTIVE = "auc", "slope_{}", "slope_{}_p", "effective_n_{}"
RATES = (HITS, FALSE_ALARMS)
DRAWS = 1000


@dataclass(frozen=True, slots=True)
class Answered:
    """One reading: which kind its text is of, how implicit, and how far it was flagged.

    `at` is null where nobody measured; `flagged` is 1, 0 or a tie's share, null without an answer;
    `sure` the probability of being flagged, null where no answer of the block tells any.
    """

    is_positive: bool
    at: float | None
    flagged: float | None
    sure: float | None
    cluster: str


@dataclass(frozen=True, slots=True)
class Part:
    """The readings of one bin, by place; `low` and `high` are its edges, null for all readings."""

    group: str
    places: tuple[int, ...]
    low: float | None = None
    high: float | None = None
    is_equal_mass: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """A number of several readings together: the places it is meant for, and those in it."""

    metric: str
    value: float | None
    planned: tuple[int, ...]
    counted: tuple[int, ...]
    low: float | None = None
    high: float | None = None


def answered(readings: Sequence[Read], spec: ImplicitnessSpec) -> list[Answered]:
    """Each reading as it counts here."""
    found = []
    for row, verdict in readings:
        labels = row.sample.references.get(LABELS, ())
        positive = [label for label in spec.positive if label in labels]
        gold = labels[row.sample.choices.index(row.sample.gold or "")] if labels else ""
        at = row.sample.references.get(IMPLICITNESS)
        chosen = [verdict.detail.get(LABELLED[0] + label) for label in positive]
        sure = [verdict.detail.get(LABELLED[1] + label) for label in positive]
        found.append(
            Answered(
                is_positive=gold in spec.positive,
                at=float(at[0]) if at else None,
                flagged=_sum(chosen),
                sure=_sum(sure),
                cluster=row.sample.cluster,
            )
        )
    return found


def parts(held: Sequence[Answered], spec: ImplicitnessSpec, *, everything: str) -> list[Part]:
    """All readings, the published bins and the bins of equal size, empty ones left out."""
    values = [one.at for one in held if one.at is not None]
    found = [Part(everything, tuple(range(len(held))))]
    edges: tuple[float, ...] = PUBLISHED_EDGES
    for place, (low, high) in enumerate(pairwise(edges)):
        end = "]" if high == edges[-1] else ")"
        name = f"{IMPLICITNESS} [{low:.2f},{high:.2f}{end}"
        found.append(Part(name, _inside(held, edges, place), low, high))
    edges = equal_mass_edges(values, spec.equal_mass)
    for place, (low, high) in enumerate(pairwise(edges)):
        end = "]" if high == edges[-1] else ")"
        name = f"{IMPLICITNESS} {place + 1} of {len(edges) - 1} [{low:.3f},{high:.3f}{end}"
        found.append(Part(name, _inside(held, edges, place), low, high, is_equal_mass=True))
    return [part for part in found if part.places]


def kind(part: Part, held: Sequence[Answered], *, is_positive: bool) -> tuple[int, ...]:
    """The places of a part's positive or negative texts."""
    return tuple(at for at in part.places if held[at].is_positive == is_positive)


def independent(places: Sequence[int], held: Sequence[Answered]) -> int:
    """How many different originals the answered texts at some places come from."""
    return len({held[at].cluster for at in places if held[at].flagged is not None})


def is_enough(part: Part, places: Sequence[int], held: Sequence[Answered], least: int) -> bool:
    """Whether some texts of a part are told of: all of them, or enough in a bin."""
    return bool(places) and (part.low is None or independent(places, held) >= least)


def numbers(
    part: Part, held: Sequence[Answered], spec: ImplicitnessSpec, *, seed: str
) -> Iterator[Number]:
    """What a part gives that is no mean: effective n, AUC and, of all readings, the slopes."""
    kinds = {metric: kind(part, held, is_positive=metric == HITS) for metric in RATES}
    for metric, places in kinds.items():
        counted = tuple(at for at in places if held[at].flagged is not None)
        values = [held[at].flagged or 0.0 for at in counted]
        size = effective_n(values, [held[at].cluster for at in counted])
        if places:
            yield Number(EFFECTIVE.format(metric), size, places, counted)
        if part.low is None:
            yield from _slopes(metric, places, held, seed=seed)
    if all(is_enough(part, places, held, spec.least) for places in kinds.values()):
        yield _auc(part, held, seed=seed)


def resamples(places: Sequence[int], held: Sequence[Answered], *, seed: str) -> Resamples:
    """Draws of the originals behind some readings."""
    return Resamples.of([held[at].cluster for at in places], seed=seed, draws=DRAWS)


def xy(places: Sequence[int], held: Sequence[Answered]) -> tuple[Floats, Floats]:
    """Implicitness and what was flagged, of readings that have both."""
    pairs = [(held[at].at, held[at].flagged) for at in places]
    rows = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def with_both(places: Sequence[int], held: Sequence[Answered]) -> tuple[int, ...]:
    """The places of readings that are answered and measured."""
    return tuple(at for at in places if None not in (held[at].at, held[at].flagged))


def _slopes(
    metric: str, planned: tuple[int, ...], held: Sequence[Answered], *, seed: str
) -> Iterator[Number]:
    """The slope against implicitness, and the p of there being none."""
    places = with_both(planned, held)
    if not places:
        return
    found = trend(*xy(places, held), resamples(places, held, seed=seed))
    ends = found.slope.bounds
    value = found.slope.estimate.value
    counted = places if value is not None else ()
    yield Number(SLOPE.format(metric), value, planned, counted, ends.low, ends.high)
    tested = places if found.test.p is not None else ()
    yield Number(SLOPE_P.format(metric), found.test.p, planned, tested)


def _auc(part: Part, held: Sequence[Answered], *, seed: str) -> Number:
    """How well flagged and unflagged are told apart, by probability where all answers have one."""
    places = tuple(at for at in part.places if held[at].flagged is not None)
    has_odds = all(held[at].sure is not None for at in places)
    scores = [(held[at].sure if has_odds else held[at].flagged) or 0.0 for at in places]
    truth = [held[at].is_positive for at in places]
    found = auc(np.array(scores), truth, resamples(places, held, seed=seed))
    value, ends = found.estimate.value, found.bounds
    counted = places if value is not None else ()
    return Number(AUC, value, part.places, counted, ends.low, ends.high)


def _inside(held: Sequence[Answered], edges: Sequence[float], place: int) -> tuple[int, ...]:
    """The places of the readings in one bin."""
    return tuple(
        at for at, one in enumerate(held) if one.at is not None and bin_of(one.at, edges) == place
    )


def _sum(shares: Sequence[float | None]) -> float | None:
    """The sum of some shares; null where one is lacking, or there is none."""
    told = [share for share in shares if share is not None]
    return sum(told) if told and len(told) == len(shares) else None
