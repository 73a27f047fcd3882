"""The two controls to what they show of a judge: it is fit, or unfit, or it cannot be told.

A judge is fit that tells right answers, the control `oracle`, from literal ones, the control
`literal`. What counts is the interval of the gap between both, item by item where the verdicts of
both are at hand. Nothing here computes a score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt

import numpy as np

from harness.analysis.leaderboard import FEWEST_CLUSTERS
from harness.analysis.standings import BoardVerdicts, RankedTable
from harness.core import Score
from harness.judges.custom import JudgeLabel
from harness.stats.clustered import clustered_mean

CEILING, FLOOR = "oracle", "literal"
MARGIN = 0.5
"""How far apart the controls are by a fit judge: half of the scale of right and wrong."""
Ends = tuple[float | None, float | None]


class ControlFinding(StrEnum):
    """What the two controls show of a judge."""

    FIT = "fit"
    UNHEARD = "unheard"
    FEW = "few"
    UNSURE = "cannot tell"
    UNFIT = "unfit"
    WEAK = "weak"


@dataclass(frozen=True, slots=True)
class JudgeFitness:
    """A finding on a judge, with its scores for the ceiling and the floor control.

    `gap` is the 95 % interval of the ceiling less the floor, None where there is none;
    `is_paired` says that it is of their verdicts on the same items.
    """

    finding: ControlFinding
    recipe: str
    ceiling: Score
    floor: Score
    gap: Ends = (None, None)
    is_paired: bool = False


def judge_fitness(
    boards: Sequence[RankedTable], verdicts: Mapping[str, BoardVerdicts]
) -> list[JudgeFitness]:
    """What the controls oracle and literal show of each judge that has read both."""
    found = []
    for board in boards:
        named = {row.model: row for row in board.rows}
        ceiling, floor = named.get(CEILING), named.get(FLOOR)
        if ceiling and floor and not JudgeLabel.parse(ceiling.score.judge).is_swapped:
            pair = (verdicts.get(ceiling.signature), verdicts.get(floor.signature))
            gap, is_paired = _gap(ceiling.score, floor.score, pair)
            finding = _finding(ceiling.score, floor.score, gap, ceiling.chance)
            scores = (ceiling.score, floor.score)
            found.append(JudgeFitness(finding, board.recipe, *scores, gap, is_paired))
    return found


def _gap(
    ceiling: Score, floor: Score, pair: tuple[BoardVerdicts | None, BoardVerdicts | None]
) -> tuple[Ends, bool]:
    """The interval of the gap: paired where it can be, else of two independent scores."""
    one, other = pair
    if one is not None and other is not None:
        one, other = one.at(~np.isnan(one.values)), other.at(~np.isnan(other.values))
        shared = np.intersect1d(one.items, other.items, assume_unique=True)
        one, other = one.of_items(shared), other.of_items(shared)
        _, clusters = np.unique(one.clusters, return_inverse=True)
        found = clustered_mean(one.values - other.values, clusters)
        if found.low is not None:
            return (found.low, found.high), True
    return _unpaired(ceiling, floor), False


def _unpaired(ceiling: Score, floor: Score) -> Ends:
    """The interval from those of two scores (Newcombe 1998, Statistics in Medicine 17:873)."""
    (low, high), (least, most) = _bounds(ceiling), _bounds(floor)
    if ceiling.value is None or floor.value is None:
        return None, None
    if low is None or high is None or least is None or most is None:
        return None, None
    gap = ceiling.value - floor.value
    down = sqrt((ceiling.value - low) ** 2 + (most - floor.value) ** 2)
    up = sqrt((high - ceiling.value) ** 2 + (floor.value - least) ** 2)
    return gap - down, gap + up


def _bounds(score: Score) -> Ends:
    """The interval of a score; a constant over several clusters is its own interval."""
    is_constant = score.low is None and score.clusters > 1
    return (score.value, score.value) if is_constant else (score.low, score.high)


def _finding(ceiling: Score, floor: Score, gap: Ends, chance: float | None) -> ControlFinding:
    low, high = gap
    if ceiling.value is None or floor.value is None:
        return ControlFinding.UNHEARD
    if min(ceiling.clusters, floor.clusters) < FEWEST_CLUSTERS:
        return ControlFinding.FEW
    if low is None or high is None:
        return ControlFinding.UNSURE
    if chance is None:
        unfit = ControlFinding.UNFIT if high <= 0 else ControlFinding.UNSURE
        return ControlFinding.FIT if low > 0 else unfit
    is_sure_wrong = _side(ceiling, chance) < 0 or _side(floor, chance) > 0
    if high < MARGIN or is_sure_wrong:
        is_weak = low > 0 and not is_sure_wrong
        return ControlFinding.WEAK if is_weak else ControlFinding.UNFIT
    is_fit = low >= MARGIN and _side(ceiling, chance) > 0 > _side(floor, chance)
    return ControlFinding.FIT if is_fit else ControlFinding.UNSURE


def _side(score: Score, chance: float) -> int:
    """1 where a score is surely above chance, -1 where surely below, 0 where neither is known."""
    low, high = _bounds(score)
    return int(low is not None and low > chance) - int(high is not None and high < chance)
