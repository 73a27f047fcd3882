"""Verdicts on choices to the numbers that only many together show.

Averages over orders, calibration and bias; hits and false alarms against how implicit texts are;
precision, recall and F1 of each class, and what was missed. Pure: nothing here writes a score. A
reading without an answer is never a no, and counts as missing wherever it would have counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import fsum

import numpy as np

from harness.judges.gold import LABELLED, PLACE
from harness.pipeline.columns.arrays import Codes
from harness.pipeline.columns.readings import IMPLICITNESS as IMPLICITNESS
from harness.pipeline.columns.readings import Readings
from harness.specs.tasks import ClassesSpec, ImplicitnessSpec
from harness.stats.classification import (
    PUBLISHED_EDGES,
    auc,
    bins_of,
    calibration_error,
    classification_metrics,
    effective_n,
    equal_mass_edges,
    one_hot,
    trend,
)
from harness.stats.estimate import Bools, Clusters, Estimate, Floats, Indices
from harness.stats.scales import exact_total

PERMUTED, CALIBRATION, FAVOURITE = "accuracy_permuted", "calibration_error", "most_frequent_choice"
HITS, FALSE_ALARMS = "tpr", "fpr"
"""The share of positive texts that are found, and of negative ones that are taken for positive."""
AUC, SLOPE, SLOPE_P, EFFECTIVE = "auc", "slope_{}", "slope_{}_p", "effective_n_{}"
RATES = (HITS, FALSE_ALARMS)
PRECISION, RECALL, F1, MACRO = "precision_{}", "recall_{}", "f1_{}", "macro_f1"
MISSED = "missed_{}"
BY = "{} {}"
"""The group of readings by one text of a reference: `properties inference`."""


def permuted(readings: Readings) -> Floats:
    """For each row, whether its sample comes out right over all rows of the sample together.

    The probability of each choice is averaged over the orders it was shown in, then the likeliest
    is taken; of equally likely ones each counts its share. NaN for a sample that lacks the
    probabilities of any row: a preference for a place cancels out over all orders alone.
    """
    ids, sizes = readings.samples.ids[readings.records], readings.share_sizes
    gold, found = readings.samples.gold[readings.records], np.full(len(readings), np.nan)
    order = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
    for orders in np.split(order, starts[1:]) if len(order) else ():
        if (sizes[orders] > 0).all():
            found[orders] = credit([readings.share(at) for at in orders], int(gold[orders[-1]]))
    return found


def over_all(readings: Readings) -> Mapping[str, tuple[float | None, Bools]]:
    """What is no mean of rows, and of which rows it is made.

    The calibration error of the rows that have probabilities, by the choice that these make the
    likeliest, and the share of the place that is chosen most often among those that have a choice.
    """
    error = calibration_error(*_sure(readings))
    names = [name for name in readings.detail_names if name.startswith(PLACE)]
    has_choice, counts = np.zeros(len(readings), dtype=bool), []
    for name in names:
        share = readings.detail(name)
        has_choice |= ~np.isnan(share)
        counts.append(exact_total(np.nan_to_num(share)))
    favourite = max(counts) / int(has_choice.sum()) if counts else None
    return {CALIBRATION: (error, readings.share_sizes > 0), FAVOURITE: (favourite, has_choice)}


def _sure(readings: Readings) -> tuple[Floats, Floats]:
    """The greatest probability of each row that has some, and the credit of its choice."""
    sizes, gold = readings.share_sizes, readings.samples.gold[readings.records]
    confidences, credits = [np.zeros(0)], [np.zeros(0)]
    for size in np.unique(sizes[sizes > 0]).tolist():
        places = np.flatnonzero(sizes == size)
        shares = readings.shares(size, places)
        best = shares.max(axis=1)
        is_right = shares[np.arange(len(places)), gold[places]] == best
        confidences.append(best)
        credits.append(np.where(is_right, 1 / (shares == best[:, None]).sum(axis=1), 0.0))
    return np.concatenate(confidences), np.concatenate(credits)


def chance(choices: Codes) -> float:
    """What a blind choice gets on average: one over the number of choices, of each sample."""
    sizes, counts = np.unique(choices, return_counts=True)
    pairs = zip(sizes.tolist(), counts.tolist(), strict=True)
    # Exactly, and rounded once, as the sum of all of them would be.
    return float(sum(count * Fraction(1 / size) for size, count in pairs)) / len(choices)


def credit(shares: Sequence[Sequence[float] | Floats], gold: int) -> float:
    """Whether the choice that is likeliest over several orders is the right one; a tie's share."""
    totals = [fsum(part) for part in zip(*shares, strict=True)]
    best = max(totals)
    return 1 / totals.count(best) if totals[gold] == best else 0.0


@dataclass(frozen=True, slots=True)
class Answers:
    """Readings, as columns: which kind each text is of, how implicit, and how far it was flagged.

    `at` is NaN where implicitness was not measured; `flagged` is 1, 0 or a tie's share, NaN
    without an answer; `sure` is the probability of being flagged, NaN where it is not known.
    """

    is_positive: Bools
    at: Floats
    flagged: Floats
    sure: Floats
    cluster: Codes

    def __len__(self) -> int:
        """How many there are."""
        return len(self.at)

    @property
    def is_known(self) -> Bools:
        """Which are answered."""
        return ~np.isnan(self.flagged)


@dataclass(frozen=True, slots=True)
class EarlierPart:
    """The readings of one bin, by place; `low` and `high` are its edges, None for all readings."""

    group: str
    places: Indices
    low: float | None = None
    high: float | None = None
    is_equal_mass: bool = False


@dataclass(frozen=True, slots=True)
class EarlierNumber:
    """A number of several readings together: the places it is planned for, and those counted."""

    metric: str
    value: float | None
    planned: Indices
    counted: Indices
    low: float | None = None
    high: float | None = None


def answered(readings: Readings, positive: Sequence[str]) -> Answers:
    """Each reading as it counts here; `positive` are the labels to find."""
    wanted = [at for at, label in enumerate(labels_of(readings)) if label in positive]
    return Answers(
        is_positive=np.isin(gold_labels(readings), wanted),
        at=readings.samples.at[readings.records],
        flagged=_summed(readings, LABELLED[0], positive),
        sure=_summed(readings, LABELLED[1], positive),
        cluster=readings.cluster,
    )


def _summed(readings: Readings, prefix: str, positive: Sequence[str]) -> Floats:
    """The sum of what was given to the positive labels that a text's choices have.

    NaN where any of them has no number, and for choices without a positive label.
    """
    codes = readings.samples.labels.codes[readings.records]
    kinds = readings.samples.labels.kinds
    total, has_any = np.zeros(len(readings)), np.zeros(len(readings), dtype=bool)
    for label in positive:
        has = np.array([label in labels for labels in kinds], dtype=bool)[codes]
        total += np.where(has, readings.detail(prefix + label), 0.0)
        has_any |= has
    return np.where(has_any, total, np.nan)


def labels_of(readings: Readings) -> list[str]:
    """The labels of the choices, in the order in which they are met."""
    kinds, codes = readings.samples.labels.kinds, readings.samples.labels.codes[readings.records]
    found, first = np.unique(codes, return_index=True)
    met = found[np.argsort(first)].tolist()
    return list(dict.fromkeys(label for code in met for label in kinds[code]))


def gold_labels(readings: Readings) -> Indices:
    """The place of the right label of each among `labels_of`; -1 where choices have no labels."""
    kinds, codes = readings.samples.labels.kinds, readings.samples.labels.codes[readings.records]
    places = {label: at for at, label in enumerate(labels_of(readings))}
    gold = readings.samples.gold[readings.records]
    found = np.full(len(readings), -1, dtype=np.intp)
    for code in np.unique(codes).tolist():
        own = (codes == code) & (gold >= 0)
        if kinds[code]:
            found[own] = np.array([places[label] for label in kinds[code]])[gold[own]]
    return found


def parts(answers: Answers, spec: ImplicitnessSpec, *, everything: str) -> list[EarlierPart]:
    """All readings, the published bins and the bins of equal size, empty ones left out."""
    values = answers.at[~np.isnan(answers.at)]
    found = [EarlierPart(everything, np.arange(len(answers)))]
    bins = ((False, PUBLISHED_EDGES), (True, equal_mass_edges(values, spec.equal_mass)))
    for is_equal_mass, edges in bins:
        held = bins_of(answers.at, edges)
        for place, (low, high) in enumerate(pairwise(edges)):
            digits, end = 3 if is_equal_mass else 2, "]" if high == edges[-1] else ")"
            rank = f" {place + 1} of {len(edges) - 1}" if is_equal_mass else ""
            name = f"{IMPLICITNESS}{rank} [{low:.{digits}f},{high:.{digits}f}{end}"
            found.append(EarlierPart(name, np.flatnonzero(held == place), low, high, is_equal_mass))
    return [part for part in found if len(part.places)]


def kind(part: EarlierPart, answers: Answers, *, is_positive: bool) -> Indices:
    """The places of a part's positive or negative texts."""
    return np.asarray(part.places[answers.is_positive[part.places] == is_positive])


def is_enough(part: EarlierPart, places: Indices, answers: Answers, least: int) -> bool:
    """Whether some texts of a part have a rate: all of them together, or enough originals in a bin.

    Only originals of which a text is answered count.
    """
    if part.low is None or not len(places):
        return bool(len(places))
    return len(np.unique(answers.cluster[places[answers.is_known[places]]])) >= least


def detection_numbers(
    part: EarlierPart, answers: Answers, spec: ImplicitnessSpec
) -> Iterator[EarlierNumber]:
    """The numbers of a part that are no mean: effective n, AUC and, of all readings, the slopes."""
    kinds = {metric: kind(part, answers, is_positive=metric == HITS) for metric in RATES}
    for metric, places in kinds.items():
        counted = places[answers.is_known[places]]
        size = effective_n(answers.flagged[counted], answers.cluster[counted])
        if len(places):
            yield EarlierNumber(EFFECTIVE.format(metric), size, places, counted)
        if part.low is None:
            yield from _slopes(metric, places, answers)
    if all(is_enough(part, places, answers, spec.least) for places in kinds.values()):
        yield _auc(part, answers)


def originals(places: Indices, answers: Answers) -> Clusters:
    """The originals behind some readings, as their clusters."""
    return Clusters.named(answers.cluster[places])


def with_both(places: Indices, answers: Answers) -> Indices:
    """The places of readings that are answered and measured."""
    return places[answers.is_known[places] & ~np.isnan(answers.at[places])]


def _slopes(metric: str, planned: Indices, answers: Answers) -> Iterator[EarlierNumber]:
    places = with_both(planned, answers)
    if not len(places):
        return
    found = trend(answers.at[places], answers.flagged[places], originals(places, answers))
    yield _number(SLOPE.format(metric), found, planned, places)
    tested = places if found.p is not None else places[:0]
    yield EarlierNumber(SLOPE_P.format(metric), found.p, planned, tested)


def _auc(part: EarlierPart, answers: Answers) -> EarlierNumber:
    places = part.places[answers.is_known[part.places]]
    sure = answers.sure[places]
    scores = answers.flagged[places] if np.isnan(sure).any() else sure
    found = auc(scores, answers.is_positive[places], originals(places, answers))
    return _number(AUC, found, part.places, places)


def _number(metric: str, found: Estimate, planned: Indices, counted: Indices) -> EarlierNumber:
    made_of = counted[:0] if found.value is None else counted
    return EarlierNumber(metric, found.value, np.sort(planned), made_of, found.low, found.high)


@dataclass(frozen=True, slots=True)
class _Held:
    """Readings, as columns: the place of each one's label, and the share of each label.

    `label` is -1 without one; `chosen` is readings x labels, and `is_known` false without an
    answer.
    """

    label: Indices
    chosen: Floats
    is_known: Bools
    cluster: Codes


def class_numbers(
    readings: Readings, spec: ClassesSpec, *, everything: str
) -> Iterator[tuple[str, EarlierNumber]]:
    """The numbers of some readings, each with its group.

    For all readings precision, recall and F1 of each label, their mean F1, and the count of what
    was missed; by each text of the reference `by` the count of what was missed. A tie is a share.
    """
    labels = labels_of(readings)
    answers = _held(readings, labels)
    if labels:
        yield from ((everything, number) for number in _rates(answers, labels))
    kinds = readings.samples.parts.kinds
    codes = readings.samples.parts.codes[readings.records]
    for at, label in enumerate(labels):
        places = np.flatnonzero(answers.label == at)
        if label not in spec.missed or not len(places):
            continue
        yield everything, _missed(label, at, places, answers)
        own = [(code, kinds[code]) for code in np.unique(codes[places]).tolist()]
        for part in sorted({part for _, texts in own for part in texts}):
            inside = np.isin(codes[places], [code for code, texts in own if part in texts])
            yield BY.format(spec.by, part), _missed(label, at, places[inside], answers)


def _held(readings: Readings, labels: Sequence[str]) -> _Held:
    columns = [np.nan_to_num(readings.detail(LABELLED[0] + label)) for label in labels]
    chosen = np.column_stack(columns) if columns else np.zeros((len(readings), 0))
    is_known = np.asarray((chosen > 0).any(axis=1), dtype=bool)
    return _Held(gold_labels(readings), chosen, is_known, readings.cluster)


def _rates(answers: _Held, labels: Sequence[str]) -> Iterator[EarlierNumber]:
    is_planned, is_known = answers.label >= 0, answers.is_known
    counted = np.flatnonzero(is_planned & is_known)
    actual = one_hot(answers.label[counted], len(labels))
    clusters = Clusters.named(answers.cluster[counted])
    found = classification_metrics(actual, answers.chosen[counted], clusters)
    is_lost = is_planned & ~is_known
    for place, (label, figures) in enumerate(zip(labels, found.classes, strict=True)):
        of_label = answers.label == place
        is_chosen = is_planned & is_known & (answers.chosen[:, place] > 0)
        for metric, figure, places in (
            (PRECISION, figures.precision, is_chosen | is_lost),
            (RECALL, figures.recall, of_label),
            (F1, figures.f1, is_chosen | of_label | is_lost),
        ):
            of_places = np.flatnonzero(places & is_known)
            yield _number(metric.format(label), figure, np.flatnonzero(places), of_places)
    yield _number(MACRO, found.macro_f1, np.flatnonzero(is_planned), counted)


def _missed(label: str, place: int, places: Indices, answers: _Held) -> EarlierNumber:
    counted = places[answers.is_known[places]]
    value = exact_total(1 - answers.chosen[counted, place])
    return EarlierNumber(MISSED.format(label), value if len(counted) else None, places, counted)
