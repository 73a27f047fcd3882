"""The runs of one recipe to a board: ranks and groups on the items that all its models have.

Rows stand on one board only where their signatures differ in nothing but the model. A board is
ranked by the headline's mean; where texts have labels, by macro F1, or by the rate of hits less
that of false alarms: there a constant answer may have a high accuracy. Controls and constant
answers are shown without a rank. Two models are told apart by `stats.ranks`. Nothing here writes a
file.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np

from harness.analysis.leaderboard import (
    BoardRow,
    by_signature,
    constant_runs,
    headlines,
    merged,
    tested,
)
from harness.data.choices import LABELS
from harness.errors import StoreError
from harness.judges.custom import JudgeLabel
from harness.judges.gold import LABELLED
from harness.pipeline.choice_scores import FALSE_ALARMS, HITS, MACRO, answered
from harness.pipeline.score import ALL, ScoreBlock, blocks, by_snapshot, signature
from harness.specs.tasks import ImplicitnessSpec, TaskSpec
from harness.stats.estimate import Clusters, Estimate, Floats, NoValue
from harness.stats.jackknife import jackknife_bounds
from harness.stats.ranks import (
    ModelRanking,
    Pooled,
    informedness,
    macro_f1_of,
    mean_of,
    rank_groups,
)
from harness.storage.runs import RunFolder, ScoreRow, StoredRun

_log = logging.getLogger(__name__)
CONTROL: Final = "scripted"
"""The kind of the models that are built with the answers, or with none."""
LEAST_SHARED = 0.5
"""A model without this share of the verdicts that others have would leave them too few items."""
_SEED = "0"
Item = tuple[str, str, str]
"""A sample's id, the variant and the decoding: what one verdict is on."""


class RankedBy(StrEnum):
    """What a board ranks by."""

    MEAN = "mean"
    MACRO_F1 = "macro_f1"
    INFORMEDNESS = "tpr_less_fpr"
    TPR_AT_FPR = "tpr_at_fpr"


_POOLED: Final[Mapping[RankedBy, Pooled]] = {
    RankedBy.MEAN: mean_of,
    RankedBy.MACRO_F1: macro_f1_of,
    RankedBy.INFORMEDNESS: informedness,
    RankedBy.TPR_AT_FPR: mean_of,  # of positive texts alone
}


@dataclass(frozen=True, slots=True)
class BoardVerdicts:
    """The verdicts behind one headline, by item; missing ones are not there.

    `sums` has what an item adds to the sums that the board's score is made of.
    """

    values: Mapping[Item, float]
    sums: Mapping[Item, tuple[float, ...]]
    clusters: Mapping[Item, str]


def verdicts_of(folders: Iterable[RunFolder], rows: Sequence[BoardRow]) -> dict[str, BoardVerdicts]:
    """The stored verdicts behind the headlines that a board ranks or that show a judge's fitness.

    By signature. A run is read only where one of its rows stands on a board with another, or on
    one of rates, whose difference has its interval from them.
    """
    own = by_signature(rows)
    boards = [
        board
        for board in by_recipe(headlines(rows)).values()
        if len(board) > 1 or HITS in own[board[0].signature]
    ]
    wanted = {row.signature: row.run for board in boards for row in board}
    found: dict[str, BoardVerdicts] = {}
    for folder in folders:
        if folder.path.name in wanted.values():
            found |= _verdicts(StoredRun.read(folder), {*wanted} - {*found})
    return found


def board_of(
    tables: Mapping[RunFolder, Sequence[ScoreRow] | None],
) -> tuple[list[BoardRow], dict[str, BoardVerdicts], set[RunFolder]]:
    """The rows and verdicts of some runs, and the runs that are left out, after a warning.

    These are runs without a table of scores, and runs that are to be ranked with others and whose
    verdicts are damaged.
    """
    lost = {folder for folder, table in tables.items() if table is None}
    rows = merged(tables)
    verdicts: dict[str, BoardVerdicts] = {}
    for folder in (folder for folder in tables if folder not in lost):
        try:
            verdicts = verdicts_of([folder], rows) | verdicts
        except StoreError as error:
            _log.warning("%s: the run is left out", error)
            lost.add(folder)
    kept = {folder: table for folder, table in tables.items() if folder not in lost}
    return merged(kept), verdicts, lost


def _verdicts(run: StoredRun, wanted: set[str]) -> dict[str, BoardVerdicts]:
    """The verdicts of a run by every judge, by signature, as far as they are wanted."""
    parts = [
        (judge, snapshots, block)
        for judge in run.file.judges
        for snapshots, readings in by_snapshot(run.rows, judge)
        for block in blocks(readings, run.file.task)
        if block.group == ALL
    ]
    named = {
        signature(
            *(run.file, judge),
            variant=block.variant,
            decoding=block.decoding,
            snapshots=snapshots,
        ): block
        for judge, snapshots, block in parts
    }
    return {name: _of_block(named[name], run.file.task) for name in wanted & named.keys()}


def _of_block(block: ScoreBlock, task: TaskSpec) -> BoardVerdicts:
    names = [(row.sample.id, row.variant, row.decoding) for row, _ in block.pairs]
    if task.implicitness is not None:
        sums = _flags(block, task.implicitness)
    elif task.classes is not None:
        sums = _classes(block)
    else:
        sums = [None if v.value is None else (v.value, 1.0) for _, v in block.pairs]
    values = [verdict.value for _, verdict in block.pairs]
    return BoardVerdicts(
        {name: value for name, value in zip(names, values, strict=True) if value is not None},
        {name: added for name, added in zip(names, sums, strict=True) if added is not None},
        {name: row.sample.cluster for name, (row, _) in zip(names, block.pairs, strict=True)},
    )


def _flags(block: ScoreBlock, spec: ImplicitnessSpec) -> list[tuple[float, ...] | None]:
    """Of each reading: positives flagged, positives, negatives flagged, negatives."""
    return [
        None
        if one.flagged is None
        else (one.flagged, 1.0, 0.0, 0.0)
        if one.is_positive
        else (0.0, 0.0, one.flagged, 1.0)
        for one in answered(block.pairs, spec)
    ]


def _classes(block: ScoreBlock) -> list[tuple[float, ...] | None]:
    """Of each reading, label by label: whether it is a hit; the times it is given or true."""
    held = [row.sample.references.get(LABELS, ()) for row, _ in block.pairs]
    labels = sorted({label for own in held for label in own})
    found: list[tuple[float, ...] | None] = []
    for own, (row, verdict) in zip(held, block.pairs, strict=True):
        given = np.array([verdict.detail.get(LABELLED[0] + label, 0.0) for label in labels])
        if not own or not given.any():
            found.append(None)
            continue
        gold = own[row.sample.choices.index(row.sample.gold or "")]
        true = np.array([float(label == gold) for label in labels])
        found.append((*(given * true).tolist(), *(given + true).tolist()))
    return found


@dataclass(frozen=True, slots=True)
class Standing:
    """A headline's place on its board.

    `value` is what the board ranks by, of all the model's own items, with its interval; `shared`
    the same of the items that all ranked models have. Both rank and group are None for a control,
    for a constant answer, without a value, and for too few of the shared items; the group alone
    where no verdicts are at hand. `rates` are those of hits and false alarms where these are
    ranked. `unbounded` is why their difference has no interval; None where it has one, and for
    verdicts that are not at hand.
    """

    row: BoardRow
    value: float | None
    low: float | None = None
    high: float | None = None
    shared: float | None = None
    rank: int | None = None
    group: int | None = None
    rates: tuple[float | None, float | None] | None = None
    is_constant: bool = False
    unbounded: NoValue | None = None

    @property
    def is_control(self) -> bool:
        """Whether it is a control's."""
        return self.row.parsed.kind == CONTROL

    @property
    def is_apart(self) -> bool:
        """Whether it stands below the others, without a rank: a control, or a constant answer."""
        return self.is_control or self.is_constant


@dataclass(frozen=True, slots=True)
class RankedTable:
    """The headlines of one recipe, the best first; those without a value come last.

    `items` counts the verdicts that all ranked models have, of `clusters` independent samples;
    None where verdicts are not at hand, and ranks are by the values as they stand.
    """

    recipe: str
    ranked_by: RankedBy
    lines: tuple[Standing, ...]
    items: int | None = None
    clusters: int | None = None

    @property
    def rows(self) -> tuple[BoardRow, ...]:
        """The headline rows, in their order."""
        return tuple(line.row for line in self.lines)

    @property
    def ranked(self) -> list[Standing]:
        """The lines that have a rank."""
        return [line for line in self.lines if line.rank is not None]


def ranked_tables(
    rows: Sequence[BoardRow], verdicts: Mapping[str, BoardVerdicts]
) -> list[RankedTable]:
    """A board a recipe, with ranks."""
    own, constant = by_signature(rows), constant_runs(rows)
    made = []
    for recipe, members in by_recipe(headlines(rows)).items():
        found = [_unranked(row, own[row.signature]) for row in members]
        lines = [
            replace(
                _with_interval(line, verdicts.get(line.row.signature)),
                is_constant=line.row.signature in constant,
            )
            for _, line in found
        ]
        made.append(ranked(RankedTable(recipe, found[0][0], tuple(lines)), verdicts))
    return made


def ranked(board: RankedTable, verdicts: Mapping[str, BoardVerdicts]) -> RankedTable:
    """A board with its ranks and groups, in their order."""
    return _ordered(_ranked(board, verdicts))


def by_recipe(heads: Iterable[BoardRow]) -> dict[str, list[BoardRow]]:
    """Headline rows by their recipe: those of one board."""
    grouped: dict[str, list[BoardRow]] = {}
    for row in heads:
        grouped.setdefault(row.recipe, []).append(row)
    return grouped


def _unranked(row: BoardRow, own: Mapping[str, ScoreRow]) -> tuple[RankedBy, Standing]:
    if HITS in own or FALSE_ALARMS in own:
        hits, false = (own[m].score.value if m in own else None for m in (HITS, FALSE_ALARMS))
        value = None if hits is None or false is None else hits - false
        return RankedBy.INFORMEDNESS, Standing(row, value, rates=(hits, false))
    if MACRO in own:
        score = own[MACRO].score
        return RankedBy.MACRO_F1, Standing(row, score.value, score.low, score.high)
    score = row.score
    return RankedBy.MEAN, Standing(row, score.value, score.low, score.high)


def _with_interval(line: Standing, held: BoardVerdicts | None) -> Standing:
    """The line with the jackknife's interval of a difference of rates, which has none so far."""
    if line.rates is None or line.value is None or held is None or not held.sums:
        return line
    names = sorted(held.sums)
    rows = np.array([held.sums[name] for name in names], dtype=np.float64)
    totals = Clusters.named([held.clusters[name] for name in names]).totals(rows)
    without = informedness(totals.sum(axis=0) - totals)
    ends = jackknife_bounds(Estimate(line.value, len(names)), without, range_="any")
    ends = ends.within(-1.0, 1.0)
    return replace(line, low=ends.low, high=ends.high, unbounded=ends.reason)


def _ranked(board: RankedTable, verdicts: Mapping[str, BoardVerdicts]) -> RankedTable:
    able = [line for line in board.lines if line.value is not None and not line.is_apart]
    if any(line.row.signature not in verdicts for line in able) or len(able) < 2:
        return _by_values(board, able)
    held = {line.row.signature: verdicts[line.row.signature] for line in able}
    held, shared = _shared(held)
    if not shared:
        return replace(board, items=0, clusters=0)
    sums, pooled = _sums(list(held.values()), shared), _POOLED[board.ranked_by]
    board = replace(board, items=len(shared), clusters=sums.shape[1])
    if np.isnan(pooled(sums.sum(axis=1))).any():
        return board
    found = rank_groups(sums, pooled, seed=_SEED)
    places = {name: place for place, name in enumerate(held)}
    lines = tuple(_placed(line, found, places.get(line.row.signature)) for line in board.lines)
    return replace(board, lines=lines)


def _by_values(board: RankedTable, able: Sequence[Standing]) -> RankedTable:
    values = [line.value or 0.0 for line in able]
    lines = tuple(
        replace(line, rank=1 + sum(value > (line.value or 0.0) for value in values))
        if line in able
        else line
        for line in board.lines
    )
    return replace(board, lines=lines)


def _shared(
    held: Mapping[str, BoardVerdicts],
) -> tuple[dict[str, BoardVerdicts], list[Item]]:
    """The models with enough of the items that any has, and the items that all of these have."""
    every = {item for one in held.values() for item in one.sums}
    kept = {
        name: one for name, one in held.items() if len(one.sums) >= LEAST_SHARED * len(every) > 0
    }
    shared = set.intersection(*(set(one.sums) for one in kept.values())) if kept else set()
    return kept, sorted(shared)


def _sums(held: Sequence[BoardVerdicts], shared: Sequence[Item]) -> Floats:
    """Models x clusters x features: what each cluster's items add."""
    clusters = [held[0].clusters[item] for item in shared]
    names, places = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    made = []
    for one in held:
        rows = np.array([one.sums[item] for item in shared], dtype=np.float64)
        total = np.zeros((len(names), rows.shape[-1]))
        np.add.at(total, places, rows)
        made.append(total)
    return np.stack(made)


def _placed(line: Standing, found: ModelRanking, place: int | None) -> Standing:
    if place is None:
        return line
    rank, group = found.ranks[place], found.groups[place]
    return replace(line, shared=found.values[place], rank=rank, group=group)


def _ordered(board: RankedTable) -> RankedTable:
    def key(line: Standing) -> tuple[bool, bool, float, str]:
        value = line.value if line.shared is None else line.shared
        return (line.is_constant, value is None, -(value or 0.0), line.row.model)

    return replace(board, lines=tuple(sorted(board.lines, key=key)))


def placed(rows: Sequence[BoardRow], boards: Sequence[RankedTable]) -> list[BoardRow]:
    """All rows, those of the numbers that a board ranks by with their rank and group."""
    metrics = {RankedBy.MACRO_F1: (MACRO,), RankedBy.INFORMEDNESS: (HITS, FALSE_ALARMS)}
    found = {
        (line.row.signature, metric): (line, board.items)
        for board in boards
        for line in board.ranked
        for metric in metrics.get(board.ranked_by, (line.row.score.metric,))
    }
    return [
        replace(row, rank=at[0].rank, rank_group=at[0].group, rank_items=at[1])
        if row.score.group == ALL and (at := found.get((row.signature, row.score.metric)))
        else row
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class JudgeMatrix:
    """Models by judges for one recipe without the judges' part.

    `judges` are in the order of their names. A line is a model's name with its standing by each
    judge, None where one has not read it; lines are in the order of the first judge's board.
    """

    recipe: str
    judges: tuple[str, ...]
    lines: tuple[tuple[str, tuple[Standing | None, ...]], ...]


def judge_matrices(boards: Sequence[RankedTable]) -> list[JudgeMatrix]:
    """A matrix a task, data, variant, decoding and version: every model by every judge.

    Judges that read answers under swapped samples are left out: their value is no merit of the
    model's.
    """
    by_recipe: dict[str, dict[str, RankedTable]] = {}
    for table in boards:
        made, judge = table.rows[0].parsed, table.rows[0].score.judge
        if not JudgeLabel.parse(judge).is_swapped:
            recipe = made.without("model", "judge", "way")
            by_recipe.setdefault(recipe, {})[str(made.recipe)] = table
    return [_matrix(recipe, dict(sorted(own.items()))) for recipe, own in by_recipe.items()]


def _matrix(recipe: str, tables: Mapping[str, RankedTable]) -> JudgeMatrix:
    names: dict[str, str] = {}
    standings: dict[tuple[str, str], Standing] = {}
    for judge, table in tables.items():
        for line in table.lines:
            names.setdefault(tested(line.row), line.row.model)
            standings[tested(line.row), judge] = line
    lines = (
        (name, tuple(standings.get((model, judge)) for judge in tables))
        for model, name in names.items()
    )
    # Judges by name; by their whole recipe where two have one name.
    judges = [judge.partition(":")[0] for judge in tables]
    pairs = zip(judges, tables, strict=True)
    unique = tuple(name if judges.count(name) == 1 else judge for name, judge in pairs)
    return JudgeMatrix(recipe, unique, tuple(lines))
