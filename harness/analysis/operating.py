"""Stored runs to boards of the share of positive texts found at a fixed rate of false alarms.

Each model has a threshold of its own, chosen as in `rates` on one half of the benign originals,
which is the same half for all models of the same data. Nothing here writes a file.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from harness.analysis.leaderboard import BoardRow, headlines
from harness.analysis.rates import (
    PROBABILITY,
    FlaggedBlock,
    OperatingPoint,
    RateQuery,
    flagged_blocks,
    positive_labels,
    rate_rows,
)
from harness.analysis.standings import (
    BoardVerdicts,
    RankedBy,
    RankedTable,
    Standing,
    by_recipe,
    ranked,
)
from harness.errors import SpecError, StoreError
from harness.models.labels import SCORE
from harness.pipeline.choice_scores import FALSE_ALARMS, HITS
from harness.storage.runs import RunFolder, StoredRun


def operating_tables(
    folders: Mapping[str, RunFolder], rows: Sequence[BoardRow], fpr: float
) -> list[RankedTable]:
    """A board a recipe, ranked by the TPR at an FPR of at most `fpr`, between 0 and 1.

    A model without a probability, or a score of the label to detect, has no value and no rank; one
    that flags all texts or none has no rank. StoreError where no run has labels to detect.
    """
    made, kept = [], {}
    for recipe, members in by_recipe(headlines(rows)).items():
        runs = {row.run: StoredRun.read(folders[row.run]) for row in members}
        if not any(_labels(run) for run in runs.values()):
            continue
        lines = []
        for row in members:
            block = _block(row, runs[row.run], fpr)
            lines.append(Standing(row, None) if block is None else _standing(row, block))
            if block is not None:
                kept[row.signature] = _verdicts(block)
        made.append(ranked(RankedTable(recipe, RankedBy.TPR_AT_FPR, tuple(lines)), kept))
    if not made:
        raise StoreError("--fpr: none of these runs is of a task with labels to detect")
    return made


def _labels(run: StoredRun) -> tuple[str, ...]:
    with suppress(SpecError):
        return positive_labels(run)
    return ()


def _block(row: BoardRow, run: StoredRun, fpr: float) -> FlaggedBlock | None:
    """The readings behind a row, flagged at the threshold; None where there is no score for one."""
    labels = _labels(run)
    for score in (PROBABILITY, *([SCORE.format(*labels)] if len(labels) == 1 else [])):
        query = RateQuery(
            judge=row.score.judge,
            variants=(row.score.variant,),
            point=OperatingPoint(score, fpr=fpr),
        )
        try:
            found = flagged_blocks(run, query)
        except (SpecError, StoreError):
            continue
        return next((one for one in found if one.blank.signature == row.signature), None)
    return None


def _standing(row: BoardRow, block: FlaggedBlock) -> Standing:
    found = {one.rate: one for one in rate_rows([block], RateQuery(judge=row.score.judge))}
    hits, false = found[HITS], found[FALSE_ALARMS]
    flags = {one.flagged for one in block.readings if one.flagged is not None}
    line = Standing(row, hits.value, hits.low, hits.high, rates=(hits.value, false.value))
    return replace(line, is_constant=len(flags) < 2)


def _verdicts(block: FlaggedBlock) -> BoardVerdicts:
    """What positive texts add to the share of those found: whether it was, and one."""
    known = {
        (one.record.sample.id, one.record.variant, one.record.decoding): one
        for one in block.readings
        if one.is_positive and one.flagged is not None
    }
    values = {name: one.flagged or 0.0 for name, one in known.items()}
    sums = {
        name: (value * known[name].weight, known[name].weight) for name, value in values.items()
    }
    return BoardVerdicts.of(values, sums, {name: one.cluster for name, one in known.items()})
