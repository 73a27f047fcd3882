"""Scores of one column of a table to ranks and groups, by the paired tests of the boards."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from harness.analysis.leaderboard import HEADLINE_METRICS, BoardRow
from harness.analysis.standings import (
    CONTROL,
    BoardVerdicts,
    RankedBy,
    RankedTable,
    ranked_tables,
    verdicts_of,
)
from harness.analysis.tables.pivot import Ranks
from harness.pipeline.score import ALL
from harness.storage.runs import RunFolder


def ranks_of(folders: Sequence[RunFolder], rows: Sequence[BoardRow]) -> Ranks:
    """Rank scores by the verdicts of their runs, which are read once, when they are needed.

    `rows` are all scores of these runs. None is given for metrics that are no mean of verdicts,
    for one model alone, and for scores of several recipes.
    """
    heads = {
        (row.signature, row.score.metric): row
        for row in rows
        if row.score.group == ALL and row.score.metric in HEADLINE_METRICS
    }
    return partial(_ranked, _Verdicts(folders, list(heads.values())))


class _Verdicts:
    """The verdicts behind main scores, and the groups of the samples."""

    def __init__(self, folders: Sequence[RunFolder], heads: Sequence[BoardRow]) -> None:
        self._folders, self._heads = {f.path.name: f for f in folders}, heads
        self._read: dict[str, dict[str, BoardVerdicts]] = {}
        self._groups: dict[str, dict[str, str]] = {}

    def of(self, row: BoardRow) -> BoardVerdicts | None:
        """The verdicts of a score, those of its group alone where it is of one."""
        decoding, group = row.score.decoding, row.score.group
        if decoding not in self._read:
            heads = [one for one in self._heads if one.score.decoding == decoding]
            self._read[decoding] = verdicts_of(self._folders.values(), heads)
        found = self._read[decoding].get(row.signature)
        if found is None:
            return None
        kept = [at for at in found.values if group == ALL or self._group(row, at[0]) == group]
        # What a board of classes adds up is no mean: here each verdict is a value and a count.
        return BoardVerdicts(
            {item: found.values[item] for item in kept},
            {item: (found.values[item], 1.0) for item in kept},
            {item: found.clusters[item] for item in kept},
        )

    def _group(self, row: BoardRow, sample_id: str) -> str:
        if row.run not in self._groups:
            rows = self._folders[row.run].read_rows()
            self._groups[row.run] = {one.sample.id: one.sample.group for one in rows}
        return self._groups[row.run].get(sample_id, "")


def _ranked(verdicts: _Verdicts, rows: Sequence[BoardRow]) -> RankedTable | None:
    able = [row for row in rows if row.parsed.kind != CONTROL and row.score.value is not None]
    if len(able) < 2 or any(row.score.metric not in HEADLINE_METRICS for row in able):
        return None
    read = {row.signature: found for row in able if (found := verdicts.of(row)) is not None}
    # A board ranks what is of all samples; here these are those of the group.
    of_all = [replace(row, score=replace(row.score, group=ALL)) for row in able]
    boards = ranked_tables(of_all, read)
    return boards[0] if len(boards) == 1 and boards[0].ranked_by is RankedBy.MEAN else None
