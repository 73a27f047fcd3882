"""Verdicts on choices to the numbers that only many together show.

Averages over orders, calibration and bias; hits and false alarms against how implicit texts are;
precision, recall and F1 of each class, and what was missed. Pure: nothing here writes a score. A
reading without an answer is never a no, and counts as missing wherever it would have counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum

import numpy as np

from harness.core import Sample
from harness.data.choices import LABELS
from harness.judges.gold import LABELLED, PLACE
from harness.specs.tasks import ClassesSpec, ImplicitnessSpec
from harness.stats.classification import (
    PUBLISHED_EDGES,
    auc,
    bin_of,
    calibration_error,
    classification_metrics,
    effective_n,
    equal_mass_edges,
    one_hot,
    trend,
)
from harness.stats.estimate import Clusters, EstimateCI, Floats
from harness.storage.runs import SampleRecord, VerdictRecord

Read = tuple[SampleRecord, VerdictRecord]
PERMUTED, CALIBRATION, FAVOURITE = "accuracy_permuted", "calibration_error", "most_frequent_choice"
IMPLICITNESS = "implicitness"
HITS, FALSE_ALARMS = "tpr", "fpr"
"""The share of positive texts that are found, and of negative ones that are taken for positive."""
AUC, SLOPE, SLOPE_P, EFFECTIVE = "auc", "slope_{}", "slope_{}_p", "effective_n_{}"
RATES = (HITS, FALSE_ALARMS)
PRECISION, RECALL, F1, MACRO = "precision_{}", "recall_{}", "f1_{}", "macro_f1"
MISSED = "missed_{}"
BY = "{} {}"
"""The group of readings by one text of a reference: `properties inference`."""


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
        [max(shares) for _, shares in sure], [_credit([shares], _gold(row)) for row, shares in sure]
    )
    places = [
        {name: share for name, share in verdict.detail.items() if name.startswith(PLACE)}
        for _, verdict in readings
    ]
    counts = [fsum(part.get(name, 0.0) for part in places) for name in set().union(*places)]
    has_choice = [bool(part) for part in places]
    favourite = max(counts) / sum(has_choice) if counts else None
    return {CALIBRATION: (error, has_shares), FAVOURITE: (favourite, has_choice)}


def chance(samples: Sequence[Sample]) -> float:
    """What a blind choice gets on average: one over the number of choices."""
    return fsum(1 / len(sample.choices) for sample in samples) / len(samples)


def _gold(row: SampleRecord) -> int:
    return row.sample.choices.index(row.sample.gold or "")


def _credit(shares: Sequence[tuple[float, ...]], gold: int) -> float:
    totals = [fsum(part) for part in zip(*shares, strict=True)]
    best = max(totals)
    return 1 / totals.count(best) if totals[gold] == best else 0.0


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
        gold = labels[_gold(row)] if labels else ""
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
    bins = ((False, PUBLISHED_EDGES), (True, equal_mass_edges(values, spec.equal_mass)))
    for is_equal_mass, edges in bins:
        for place, (low, high) in enumerate(pairwise(edges)):
            digits, end = 3 if is_equal_mass else 2, "]" if high == edges[-1] else ")"
            rank = f" {place + 1} of {len(edges) - 1}" if is_equal_mass else ""
            name = f"{IMPLICITNESS}{rank} [{low:.{digits}f},{high:.{digits}f}{end}"
            inside = tuple(
                at
                for at, one in enumerate(answers)
                if one.at is not None and bin_of(one.at, edges) == place
            )
            found.append(Part(name, inside, low, high, is_equal_mass))
    return [part for part in found if part.places]


def kind(part: Part, answers: Sequence[Answered], *, is_positive: bool) -> tuple[int, ...]:
    """The places of a part's positive or negative texts."""
    return tuple(at for at in part.places if answers[at].is_positive == is_positive)


def is_enough(part: Part, places: Sequence[int], answers: Sequence[Answered], least: int) -> bool:
    """Whether some texts of a part have a rate: all of them together, or enough originals in a bin.

    Only originals of which a text is answered count.
    """
    found = {answers[at].cluster for at in places if answers[at].flagged is not None}
    return bool(places) and (part.low is None or len(found) >= least)


def detection_numbers(
    part: Part, answers: Sequence[Answered], spec: ImplicitnessSpec
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
            yield from _slopes(metric, places, answers)
    if all(is_enough(part, places, answers, spec.least) for places in kinds.values()):
        yield _auc(part, answers)


def originals(places: Sequence[int], answers: Sequence[Answered]) -> Clusters:
    """The originals behind some readings, as their clusters."""
    return Clusters.named([answers[at].cluster for at in places])


def xy(places: Sequence[int], answers: Sequence[Answered]) -> tuple[Floats, Floats]:
    """Implicitness and what was flagged, of readings that have both."""
    pairs = [(answers[at].at, answers[at].flagged) for at in places]
    rows = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def with_both(places: Sequence[int], answers: Sequence[Answered]) -> tuple[int, ...]:
    """The places of readings that are answered and measured."""
    return tuple(at for at in places if None not in (answers[at].at, answers[at].flagged))


def _slopes(metric: str, planned: tuple[int, ...], answers: Sequence[Answered]) -> Iterator[Number]:
    places = with_both(planned, answers)
    if not places:
        return
    found = trend(*xy(places, answers), originals(places, answers))
    yield _number(SLOPE.format(metric), found.slope, planned, places)
    tested = places if found.test.p is not None else ()
    yield Number(SLOPE_P.format(metric), found.test.p, planned, tested)


def _auc(part: Part, answers: Sequence[Answered]) -> Number:
    places = tuple(at for at in part.places if answers[at].flagged is not None)
    has_odds = all(answers[at].sure is not None for at in places)
    scores = [(answers[at].sure if has_odds else answers[at].flagged) or 0.0 for at in places]
    truth = [answers[at].is_positive for at in places]
    found = auc(np.array(scores), truth, originals(places, answers))
    return _number(AUC, found, part.places, places)


def _number(
    metric: str, figure: EstimateCI, planned: Sequence[int], counted: Sequence[int]
) -> Number:
    value, ends = figure.estimate.value, figure.bounds
    made_of = () if value is None else tuple(counted)
    return Number(metric, value, tuple(sorted(planned)), made_of, ends.low, ends.high)


def _sum(shares: Sequence[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return sum(known) if known and len(known) == len(shares) else None


@dataclass(frozen=True, slots=True)
class _Held:
    """One reading: the label of its sample, and the share that each label was chosen with.

    `chosen` is None without an answer; `parts` are the texts by which missed ones are counted.
    """

    label: str
    chosen: tuple[float, ...] | None
    cluster: str
    parts: tuple[str, ...]


def class_numbers(
    readings: Sequence[Read], spec: ClassesSpec, *, everything: str
) -> Iterator[tuple[str, Number]]:
    """The numbers of some readings, each with its group.

    For all readings precision, recall and F1 of each label, their mean F1, and the count of what
    was missed; by each text of the reference `by` the count of what was missed. A tie is a share.
    """
    labels = tuple(
        dict.fromkeys(n for row, _ in readings for n in row.sample.references.get(LABELS, ()))
    )
    answers = [_held(one, labels, spec.by) for one in readings]
    if labels:
        yield from ((everything, number) for number in _rates(answers, labels))
    for label in (label for label in labels if label in spec.missed):
        places = [at for at, one in enumerate(answers) if one.label == label]
        parts = sorted({part for at in places for part in answers[at].parts})
        if places:
            yield everything, _missed(label, labels, places, answers)
        for part in parts:
            inside = [at for at in places if part in answers[at].parts]
            yield BY.format(spec.by, part), _missed(label, labels, inside, answers)


def _held(reading: Read, labels: Sequence[str], by: str) -> _Held:
    row, verdict = reading
    own = row.sample.references.get(LABELS, ())
    shares = tuple(verdict.detail.get(LABELLED[0] + label, 0.0) for label in labels)
    return _Held(
        label=own[_gold(row)] if own else "",
        chosen=shares if any(share > 0 for share in shares) else None,
        cluster=row.sample.cluster,
        parts=row.sample.references.get(by, ()),
    )


def _rates(answers: Sequence[_Held], labels: Sequence[str]) -> Iterator[Number]:
    planned = tuple(at for at, one in enumerate(answers) if one.label)
    counted = tuple(at for at in planned if answers[at].chosen is not None)
    clusters = Clusters.named([answers[at].cluster for at in counted])
    actual = one_hot([labels.index(answers[at].label) for at in counted], len(labels))
    chosen = np.array([answers[at].chosen for at in counted]).reshape(-1, len(labels))
    found = classification_metrics(actual, chosen, clusters)
    lost = [at for at in planned if answers[at].chosen is None]
    for place, (label, figures) in enumerate(zip(labels, found.classes, strict=True)):
        of_label = [at for at in planned if answers[at].label == label]
        is_chosen = [at for at in counted if (answers[at].chosen or ())[place] > 0]
        either = {*is_chosen, *of_label, *lost}
        for metric, figure, places in (
            (PRECISION, figures.precision, [*is_chosen, *lost]),
            (RECALL, figures.recall, of_label),
            (F1, figures.f1, sorted(either)),
        ):
            of_places = [at for at in places if answers[at].chosen is not None]
            yield _number(metric.format(label), figure, places, of_places)
    yield _number(MACRO, found.macro_f1, planned, counted)


def _missed(
    label: str, labels: Sequence[str], places: Sequence[int], answers: Sequence[_Held]
) -> Number:
    at_label = labels.index(label)
    counted = tuple(at for at in places if answers[at].chosen is not None)
    value = fsum(1 - (answers[at].chosen or ())[at_label] for at in counted)
    return Number(MISSED.format(label), value if counted else None, tuple(places), counted)
