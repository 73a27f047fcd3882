"""Scores of yes and no, or of classes, to the runs that a constant answer would equal.

Rates of hits and of false alarms, or the recall of each class, tell a constant answer from a good
one whatever the shares of the kinds are; accuracy alone does not. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.pipeline.class_scores import RECALL
from harness.pipeline.detection_scores import AUC, FALSE_ALARMS, HITS
from harness.pipeline.score import ALL
from harness.storage.score_table import ScoreRow

FEWEST = 10
"""Originals of each of two kinds from which on rates say enough to sound an alarm."""
NEARLY_ALL = 0.95
_RECALL = RECALL.format("")


class ConstantBaseline(StrEnum):
    """What is the matter with a run."""

    ALWAYS = "always"
    NEVER = "never"
    ONE_LABEL = "one label"
    BEATEN = "beaten"
    ONE_KIND = "one kind"


@dataclass(frozen=True, slots=True)
class ConstantBaselineAlarm:
    """A run whose headline says no more than a constant answer would.

    `constant` is the accuracy of the better constant answer on the texts answered; of classes it
    gives them all `label`, null for yes and no. Rates and AUC are null where there are none.
    """

    row: ScoreRow
    finding: ConstantBaseline
    constant: float
    hits: float | None = None
    false_alarms: float | None = None
    auc: float | None = None
    label: str | None = None


def constant_alarms(
    rows: Sequence[ScoreRow], heads: Sequence[ScoreRow]
) -> list[ConstantBaselineAlarm]:
    """The alarms of some headline rows: at most one each, the plainest first.

    Always or never flagged: in nearly all texts of both kinds. One label: nearly all texts of one
    class are found, and nearly none of others. One kind: texts of the others are lacking, and one
    constant answer is always right. Beaten: the better constant answer has the run's accuracy or
    more.
    """
    by_run: dict[str, dict[str, ScoreRow]] = {}
    for row in rows:
        if row.score.group == ALL:
            by_run.setdefault(row.signature, {})[row.score.metric] = row
    found = []
    for head in heads:
        told = by_run.get(head.signature, {})
        rates = [told[metric] for metric in (HITS, FALSE_ALARMS) if metric in told]
        recalls = [row for metric, row in told.items() if metric.startswith(_RECALL)]
        kinds = rates or recalls
        if (finding := _finding(head, kinds, is_of_classes=not rates)) is None:
            continue
        hits, false, area = (
            told[name].score.value if name in told else None for name in (HITS, FALSE_ALARMS, AUC)
        )
        most = max(kinds, key=lambda row: row.score.n).score.metric
        label = None if rates else most.removeprefix(_RECALL)
        found.append(
            ConstantBaselineAlarm(head, finding, _constant(kinds), hits, false, area, label)
        )
    return found


def has_rates(rows: Sequence[ScoreRow]) -> frozenset[str]:
    """The signatures of runs that are told by rates or by classes: place says nothing of them."""
    return frozenset(
        row.signature for row in rows if row.score.metric.startswith((HITS, FALSE_ALARMS, _RECALL))
    )


def _finding(
    head: ScoreRow, kinds: Sequence[ScoreRow], *, is_of_classes: bool
) -> ConstantBaseline | None:
    """What is the matter with one run; null where nothing is, or too little was answered.

    `kinds` are its rates, each of the texts of one kind.
    """
    counts = sorted((part.score.clusters if part.score.n else 0 for part in kinds), reverse=True)
    first, second = [*counts, 0, 0][:2]
    if first < FEWEST or 0 < second < FEWEST:
        return None
    if second == 0:
        return ConstantBaseline.ONE_KIND
    shares = sorted(part.score.value or 0.0 for part in kinds if part.score.clusters >= FEWEST)
    if is_of_classes:
        is_constant = shares[-1] >= NEARLY_ALL and shares[-2] <= 1 - NEARLY_ALL
        constant = ConstantBaseline.ONE_LABEL if is_constant else None
    else:
        constant = _of_rates(shares[0], shares[-1])
    value = head.score.value
    is_beaten = value is not None and value <= _constant(kinds) + 1e-12
    return constant or (ConstantBaseline.BEATEN if is_beaten else None)


def _of_rates(least: float, most: float) -> ConstantBaseline | None:
    """Whether nearly all texts are flagged, or nearly none."""
    if least >= NEARLY_ALL:
        return ConstantBaseline.ALWAYS
    return ConstantBaseline.NEVER if most <= 1 - NEARLY_ALL else None


def _constant(kinds: Sequence[ScoreRow]) -> float:
    """The accuracy of the better constant answer on the texts that were answered."""
    counts = [part.score.n for part in kinds]
    return max(counts) / sum(counts) if sum(counts) else 0.0
