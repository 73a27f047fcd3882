"""Scores of yes and no to the runs that a constant answer would equal, or that give one.

Rates of hits and of false alarms tell a constant answer from a good one whatever the share of
positive texts is; accuracy alone does not. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.detection_scores import AUC, FALSE_ALARMS, HITS
from harness.scores import ScoreRow
from harness.scoring import ALL

FEWEST = 10
"""Positive and negative originals, each, from which on rates say enough to sound an alarm."""
NEARLY_ALL = 0.95


class Constant(StrEnum):
    """What is the matter with a run."""

    ALWAYS = "always"
    NEVER = "never"
    BEATEN = "beaten"
    ONE_KIND = "one kind"


@dataclass(frozen=True, slots=True)
class ConstantAlarm:
    """A run whose headline says no more than a constant answer would.

    `constant` is the accuracy of the better constant answer on the texts answered; rates and AUC
    are null where there is none.
    """

    row: ScoreRow
    finding: Constant
    constant: float
    hits: float | None
    false_alarms: float | None
    auc: float | None


def constant_alarms(rows: Sequence[ScoreRow], heads: Sequence[ScoreRow]) -> list[ConstantAlarm]:
    """The alarms of some headline rows: at most one each, the plainest first.

    Always or never flagged: in nearly all texts of both kinds. One kind: texts of the other are
    lacking, and one constant answer is always right. Beaten: the better constant answer has the
    run's accuracy or more.
    """
    overall = [row for row in rows if row.score.group == ALL]
    rates = {(row.signature, row.score.metric): row for row in overall}
    found = []
    for head in heads:
        hits, false = (rates.get((head.signature, metric)) for metric in (HITS, FALSE_ALARMS))
        if hits is None and false is None:
            continue
        finding = _finding(head, hits, false)
        if finding is not None:
            area = rates.get((head.signature, AUC))
            values = (part.score.value if part else None for part in (hits, false, area))
            found.append(ConstantAlarm(head, finding, _constant(hits, false), *values))
    return found


def has_rates(rows: Sequence[ScoreRow]) -> frozenset[str]:
    """The signatures of runs that are told by rates: place says nothing of them."""
    return frozenset(row.signature for row in rows if row.score.metric in (HITS, FALSE_ALARMS))


def _finding(head: ScoreRow, hits: ScoreRow | None, false: ScoreRow | None) -> Constant | None:
    """What is the matter with one run; null where nothing is, or too little was answered."""
    counts = [part.score.clusters if part and part.score.n else 0 for part in (hits, false)]
    if max(counts) < FEWEST:
        return None
    if min(counts) == 0:
        return Constant.ONE_KIND
    if min(counts) < FEWEST:
        return None
    rates = [part.score.value or 0.0 for part in (hits, false) if part]
    if min(rates) >= NEARLY_ALL:
        return Constant.ALWAYS
    if max(rates) <= 1 - NEARLY_ALL:
        return Constant.NEVER
    value = head.score.value
    is_beaten = value is not None and value <= _constant(hits, false) + 1e-12
    return Constant.BEATEN if is_beaten else None


def _constant(hits: ScoreRow | None, false: ScoreRow | None) -> float:
    """The accuracy of the better constant answer on the texts that were answered."""
    counts = [part.score.n if part else 0 for part in (hits, false)]
    return max(counts) / sum(counts) if sum(counts) else 0.0
