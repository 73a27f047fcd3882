"""Verdicts on choices among classes to precision, recall and F1 of each class, and what was missed.

Pure: nothing here writes a score. A reading without an answer is no answer of any class: it counts
as missing wherever it would have counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum

import numpy as np

from harness.data.choices import LABELS
from harness.judges.gold import LABELLED
from harness.pipeline.choice_scores import Read
from harness.pipeline.detection_scores import DRAWS, Number
from harness.specs.tasks import ClassesSpec
from harness.stats.classification import classification_metrics, one_hot
from harness.stats.estimate import EstimateCI, Resamples

PRECISION, RECALL, F1, MACRO = "precision_{}", "recall_{}", "f1_{}", "macro_f1"
MISSED = "missed_{}"
BY = "{} {}"
"""The group of readings by one text of a reference: `properties inference`."""
Grouped = tuple[str, Number]


@dataclass(frozen=True, slots=True)
class _Held:
    """One reading: the label of its sample, and the share that each label was chosen with.

    `chosen` is None without an answer; `parts` are the texts by which missed ones are counted.
    """

    label: str
    chosen: tuple[float, ...] | None
    cluster: str
    parts: tuple[str, ...]


def numbers(
    readings: Sequence[Read], spec: ClassesSpec, *, everything: str, seed: str
) -> Iterator[Grouped]:
    """The numbers of some readings, each with its group.

    For all readings precision, recall and F1 of each label, their mean F1, and the count of what
    was missed; by each text of the reference `by` the count of what was missed. A tie is a share.
    """
    labels = tuple(
        dict.fromkeys(n for row, _ in readings for n in row.sample.references.get(LABELS, ()))
    )
    answers = [_held(one, labels, spec.by) for one in readings]
    if labels:
        yield from ((everything, number) for number in _rates(answers, labels, seed))
    for label in (label for label in labels if label in spec.missed):
        places = [at for at, one in enumerate(answers) if one.label == label]
        parts = sorted({part for at in places for part in answers[at].parts})
        if places:
            yield everything, _missed(label, labels, places, answers)
        for part in parts:
            inside = [at for at in places if part in answers[at].parts]
            yield BY.format(spec.by, part), _missed(label, labels, inside, answers)


def _held(one: Read, labels: Sequence[str], by: str) -> _Held:
    row, verdict = one
    own = row.sample.references.get(LABELS, ())
    gold = own[row.sample.choices.index(row.sample.gold or "")] if own else ""
    shares = [verdict.detail.get(LABELLED[0] + label, 0.0) for label in labels]
    is_answered = any(share > 0 for share in shares)
    parts = row.sample.references.get(by, ())
    return _Held(gold, tuple(shares) if is_answered else None, row.sample.cluster, parts)


def _rates(answers: Sequence[_Held], labels: Sequence[str], seed: str) -> Iterator[Number]:
    """Precision, recall and F1 of each label, and the mean F1."""
    planned = tuple(at for at, one in enumerate(answers) if one.label)
    counted = tuple(at for at in planned if answers[at].chosen is not None)
    clusters = Resamples.of([answers[at].cluster for at in counted], seed=seed, draws=DRAWS)
    actual = one_hot([labels.index(answers[at].label) for at in counted], len(labels))
    chosen = np.array([answers[at].chosen for at in counted]).reshape(-1, len(labels))
    found = classification_metrics(actual, chosen, clusters)
    for place, (label, figures) in enumerate(zip(labels, found.classes, strict=True)):
        of_label = [at for at in planned if answers[at].label == label]
        is_chosen = [at for at in counted if (answers[at].chosen or ())[place] > 0]
        lost = [at for at in planned if answers[at].chosen is None]
        either = sorted({*is_chosen, *of_label, *lost})
        yield _number(PRECISION.format(label), figures.precision, [*is_chosen, *lost], answers)
        yield _number(RECALL.format(label), figures.recall, of_label, answers)
        yield _number(F1.format(label), figures.f1, either, answers)
    yield _number(MACRO, found.macro_f1, planned, answers)


def _number(
    metric: str, figure: EstimateCI, planned: Sequence[int], answers: Sequence[_Held]
) -> Number:
    """A figure with the readings it is made of; without a value none counts."""
    value, ends = figure.estimate.value, figure.bounds
    counted = [at for at in planned if answers[at].chosen is not None and value is not None]
    return Number(metric, value, tuple(sorted(planned)), tuple(counted), ends.low, ends.high)


def _missed(
    label: str, labels: Sequence[str], places: Sequence[int], answers: Sequence[_Held]
) -> Number:
    """How many texts of a label were answered with another one."""
    at_label = labels.index(label)
    counted = tuple(at for at in places if answers[at].chosen is not None)
    value = fsum(1 - (answers[at].chosen or ())[at_label] for at in counted)
    return Number(MISSED.format(label), value if counted else None, tuple(places), counted)
