"""Verdicts on choices to hits and false alarms against how implicit texts are.

Puts readings into bins and computes the numbers that are no mean of readings. Pure: nothing here
writes a score, and a reading without an answer is never a no.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from harness.data.choices import LABELS
from harness.judges.gold import LABELLED
from harness.pipeline.choice_scores import Read
from harness.specs.tasks import ImplicitnessSpec
from harness.stats.classification import (
    PUBLISHED_EDGES,
    auc,
    bin_of,
    effective_n,
    equal_mass_edges,
    trend,
)
from harness.stats.estimate import Floats, Resamples

IMPLICITNESS = "implicitness"
HITS, FALSE_ALARMS = "tpr", "fpr"
"""The share of positive texts that are found, and of negative ones that are taken for positive."""
AUC, SLOPE, SLOPE_P, EFFECTIVE = "auc", "slope_{}", "slope_{}_p", "effective_n_{}"
RATES = (HITS, FALSE_ALARMS)
DRAWS = 1000


@dataclass(frozen=True, slots=True)
class Answered:
    """One reading: which kind its text is of, how implicit, and how far it was flagged.

    `at` is None where implicitness was not measured; `flagged` is 1, 0 or a tie's share, None
    without an answer; `sure` is the probability of being flagged, None where it is not known.
    """

    is_positive: bool
    at: float | None
    flagged: float | None
    sure: float | None
    cluster: str


@dataclass(frozen=True, slots=True)
class Part:
    """The readings of one bin, by place; `low` and `high` are its edges, None for all readings."""

    group: str
    places: tuple[int, ...]
    low: float | None = None
    high: float | None = None
    is_equal_mass: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """A number of several readings together: the places it is planned for, and those counted."""

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


def parts(answers: Sequence[Answered], spec: ImplicitnessSpec, *, everything: str) -> list[Part]:
    """All readings, the published bins and the bins of equal size, empty ones left out."""
    values = [one.at for one in answers if one.at is not None]
    found = [Part(everything, tuple(range(len(answers))))]
    edges: tuple[float, ...] = PUBLISHED_EDGES
    for place, (low, high) in enumerate(pairwise(edges)):
        end = "]" if high == edges[-1] else ")"
        name = f"{IMPLICITNESS} [{low:.2f},{high:.2f}{end}"
        found.append(Part(name, _inside(answers, edges, place), low, high))
    edges = equal_mass_edges(values, spec.equal_mass)
    for place, (low, high) in enumerate(pairwise(edges)):
        end = "]" if high == edges[-1] else ")"
        name = f"{IMPLICITNESS} {place + 1} of {len(edges) - 1} [{low:.3f},{high:.3f}{end}"
        found.append(Part(name, _inside(answers, edges, place), low, high, is_equal_mass=True))
    return [part for part in found if part.places]


def kind(part: Part, answers: Sequence[Answered], *, is_positive: bool) -> tuple[int, ...]:
    """The places of a part's positive or negative texts."""
    return tuple(at for at in part.places if answers[at].is_positive == is_positive)


def independent(places: Sequence[int], answers: Sequence[Answered]) -> int:
    """How many different originals the answered texts at some places come from."""
    return len({answers[at].cluster for at in places if answers[at].flagged is not None})


def is_enough(part: Part, places: Sequence[int], answers: Sequence[Answered], least: int) -> bool:
    """Whether some texts of a part have a rate: all of them together, or enough in a bin."""
    return bool(places) and (part.low is None or independent(places, answers) >= least)


def numbers(
    part: Part, answers: Sequence[Answered], spec: ImplicitnessSpec, *, seed: str
) -> Iterator[Number]:
    """The numbers of a part that are no mean: effective n, AUC and, of all readings, the slopes."""
    kinds = {metric: kind(part, answers, is_positive=metric == HITS) for metric in RATES}
    for metric, places in kinds.items():
        counted = tuple(at for at in places if answers[at].flagged is not None)
        values = [answers[at].flagged or 0.0 for at in counted]
        size = effective_n(values, [answers[at].cluster for at in counted])
        if places:
            yield Number(EFFECTIVE.format(metric), size, places, counted)
        if part.low is None:
            yield from _slopes(metric, places, answers, seed=seed)
    if all(is_enough(part, places, answers, spec.least) for places in kinds.values()):
        yield _auc(part, answers, seed=seed)


def resamples(places: Sequence[int], answers: Sequence[Answered], *, seed: str) -> Resamples:
    """Draws of the originals behind some readings."""
    return Resamples.of([answers[at].cluster for at in places], seed=seed, draws=DRAWS)


def xy(places: Sequence[int], answers: Sequence[Answered]) -> tuple[Floats, Floats]:
    """Implicitness and what was flagged, of readings that have both."""
    pairs = [(answers[at].at, answers[at].flagged) for at in places]
    rows = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def with_both(places: Sequence[int], answers: Sequence[Answered]) -> tuple[int, ...]:
    """The places of readings that are answered and measured."""
    return tuple(at for at in places if None not in (answers[at].at, answers[at].flagged))


def _slopes(
    metric: str, planned: tuple[int, ...], answers: Sequence[Answered], *, seed: str
) -> Iterator[Number]:
    """The slope against implicitness, and the p of there being none."""
    places = with_both(planned, answers)
    if not places:
        return
    found = trend(*xy(places, answers), resamples(places, answers, seed=seed))
    ends = found.slope.bounds
    value = found.slope.estimate.value
    counted = places if value is not None else ()
    yield Number(SLOPE.format(metric), value, planned, counted, ends.low, ends.high)
    tested = places if found.test.p is not None else ()
    yield Number(SLOPE_P.format(metric), found.test.p, planned, tested)


def _auc(part: Part, answers: Sequence[Answered], *, seed: str) -> Number:
    """The AUC of positive and negative texts, by probability where all answers have one."""
    places = tuple(at for at in part.places if answers[at].flagged is not None)
    has_odds = all(answers[at].sure is not None for at in places)
    scores = [(answers[at].sure if has_odds else answers[at].flagged) or 0.0 for at in places]
    truth = [answers[at].is_positive for at in places]
    found = auc(np.array(scores), truth, resamples(places, answers, seed=seed))
    value, ends = found.estimate.value, found.bounds
    counted = places if value is not None else ()
    return Number(AUC, value, part.places, counted, ends.low, ends.high)


def _inside(answers: Sequence[Answered], edges: Sequence[float], place: int) -> tuple[int, ...]:
    return tuple(
        at
        for at, one in enumerate(answers)
        if one.at is not None and bin_of(one.at, edges) == place
    )


def _sum(shares: Sequence[float | None]) -> float | None:
    """The sum of some shares; None where one is missing, or there is none."""
    known = [share for share in shares if share is not None]
    return sum(known) if known and len(known) == len(shares) else None
