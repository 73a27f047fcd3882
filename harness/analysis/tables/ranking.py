"""Scores of one column of a table to ranks and groups, by the paired tests of the boards."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from harness.analysis.leaderboard import HEADLINE_METRICS, BoardRow
from harness.analysis.standings import (
    CONTROL,
    BoardVerdicts,
    RankedTable,
    ranked_tables,
    verdicts_of,
)
from harness.analysis.tables.pivot import Ranks
from harness.pipeline.choice_scores import F1, MACRO
from harness.pipeline.score import ALL
from harness.stats.estimate import Floats
from harness.storage.runs import RunFolder

_Sums = Callable[[BoardVerdicts], Floats]
"""What each item adds to the sums that a score is made of."""


def ranks_of(folders: Sequence[RunFolder], rows: Sequence[BoardRow]) -> Ranks:
    """Rank scores by the verdicts of their runs, which are read once, when they are needed.

    `rows` are all scores of these runs. None is given for other metrics than means of verdicts and
    F1, for one model alone, and for scores of several recipes.
    """
    return _Ranking({folder.path.name: folder for folder in folders}, rows).ranked


@dataclass(frozen=True, slots=True)
class _Ranking:
    """Runs by their folders' names, all their scores, and what was read of them."""

    folders: Mapping[str, RunFolder]
    rows: Sequence[BoardRow]
    verdicts: dict[str, dict[str, BoardVerdicts]] = field(default_factory=dict)

    def ranked(self, rows: Sequence[BoardRow]) -> RankedTable | None:
        """The scores of one column as a board of its own."""
        able = [row for row in rows if row.parsed.kind != CONTROL and row.score.value is not None]
        sums = self._sums(able[0]) if len(able) > 1 else None
        if sums is None or len({row.score.metric for row in able}) > 1:
            return None
        heads = {row.signature: row for row in self._heads(able[0].score.decoding)}
        if any(row.signature not in heads for row in able):
            return None
        read = {r.signature: made for r in able if (made := self._of(r, sums)) is not None}
        # A board ranks what is of all samples: here these are those of the group.
        of_all = [replace(row, score=replace(row.score, group=ALL)) for row in able]
        if able[0].score.metric not in HEADLINE_METRICS:
            # A mean F1 over one class is that class's F1.
            macro = [replace(row, score=replace(row.score, metric=MACRO)) for row in of_all]
            of_all = [*(heads[row.signature] for row in able), *macro]
        boards = ranked_tables(of_all, read)
        return boards[0] if len(boards) == 1 else None

    def _sums(self, row: BoardRow) -> _Sums | None:
        metric, prefix = row.score.metric, F1.format("")
        if metric in HEADLINE_METRICS:
            # What a board of classes adds up is no mean: here it is a value and a count.
            return lambda found: np.column_stack([found.values, np.ones(len(found))])
        own = {one.score.metric for one in self.rows if one.signature == row.signature}
        labels = sorted(name.removeprefix(prefix) for name in own if name.startswith(prefix))
        if not metric.startswith(prefix):
            return (lambda found: found.sums) if metric == MACRO else None
        hits, times = (labels.index(metric.removeprefix(prefix)) + n for n in (0, len(labels)))
        return lambda found: found.sums[:, [hits, times]]

    def _heads(self, decoding: str) -> list[BoardRow]:
        return [
            row
            for row in self.rows
            if row.score.group == ALL
            and row.score.metric in HEADLINE_METRICS
            and row.score.decoding == decoding
        ]

    def _of(self, row: BoardRow, sums: _Sums) -> BoardVerdicts | None:
        """The verdicts of a score, those of its group alone where it is of one."""
        decoding, group = row.score.decoding, row.score.group
        if decoding not in self.verdicts:
            folders, heads = self.folders.values(), self._heads(decoding)
            self.verdicts[decoding] = verdicts_of(folders, heads)
        found = self.verdicts[decoding].get(row.signature)
        if found is None:
            return None
        kept = found.summed.at(~np.isnan(found.summed.values))
        if group != ALL:
            kept = kept.at(
                np.isin(kept.group, [n for n, g in enumerate(kept.groups) if g == group])
            )
        return replace(kept, sums=sums(kept))
