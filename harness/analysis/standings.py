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
from functools import partial, reduce
from itertools import product
from typing import Final

import numpy as np

from harness.analysis.boards.alarms import constant_runs
from harness.analysis.boards.scores import scores_frame
from harness.analysis.leaderboard import (
    BoardRow,
    by_signature,
    headlines,
)
from harness.judges.gold import LABELLED
from harness.pipeline.columns.arrays import Codes, Texts, name_bytes
from harness.pipeline.columns.choice_scores import (
    FALSE_ALARMS,
    HITS,
    MACRO,
    answered,
    gold_labels,
    labels_of,
)
from harness.pipeline.columns.readings import Readings
from harness.pipeline.columns.run import RunColumns
from harness.pipeline.columns.score import ALL, blocks, by_snapshot, signature
from harness.specs.tasks import ImplicitnessSpec, TaskSpec
from harness.stats.classification import one_hot
from harness.stats.estimate import Bools, Clusters, Estimate, Floats, Indices, NoValue
from harness.stats.jackknife import jackknife_interval
from harness.stats.ranks import (
    ModelRanking,
    Pooled,
    informedness,
    macro_f1_of,
    mean_of,
    rank_groups,
)
from harness.storage.runs import RunFolder, ScoreRow, StoredRows

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
    """The verdicts behind one headline as columns, in the order of their items.

    `items` names a sample, variant and decoding each, `clusters` the sample's cluster, both as
    bytes. `values` are NaN where they are missing. `sums` has what an item adds to the sums that
    the board's score is made of, a row an item, NaN where it adds nothing. `group` is the place of
    a sample's group in `groups`.
    """

    items: Texts
    clusters: Texts
    values: Floats
    sums: Floats
    group: Codes
    groups: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        values: Mapping[Item, float],
        sums: Mapping[Item, tuple[float, ...]],
        clusters: Mapping[Item, str],
    ) -> "BoardVerdicts":
        """The verdicts of some items, as far as they are known, and what each of them adds."""
        features = max(map(len, sums.values()), default=0)
        names = sorted(clusters)
        return cls(
            np.array([b"\0".join(map(name_bytes, name)) for name in names], dtype=object),
            np.array([name_bytes(clusters[name]) for name in names], dtype=object),
            np.array([values.get(name, np.nan) for name in names]),
            np.array([sums.get(name, (np.nan,) * features) for name in names]),
            np.zeros(len(names), np.int32),
        )

    def __len__(self) -> int:
        """How many there are."""
        return len(self.items)

    def at(self, places: Bools | Indices) -> "BoardVerdicts":
        """Those at some places, or where it is true."""
        return BoardVerdicts(
            items=self.items[places],
            clusters=self.clusters[places],
            values=self.values[places],
            sums=self.sums[places],
            group=self.group[places],
            groups=self.groups,
        )

    @property
    def summed(self) -> "BoardVerdicts":
        """Those that add something."""
        return self.at(~np.isnan(self.sums.sum(axis=1))) if self.sums.ndim > 1 else self

    def of_items(self, items: Texts) -> "BoardVerdicts":
        """Those on some items, which are all there."""
        is_same = len(items) == len(self.items) and bool((items == self.items).all())
        return self if is_same else self.at(np.searchsorted(self.items, items))


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
            found |= _verdicts(folder, {*wanted} - {*found})
    return found


def _verdicts(folder: RunFolder, wanted: set[str]) -> dict[str, BoardVerdicts]:
    """The verdicts of a run by every judge, by signature, as far as they are wanted."""
    file = folder.read()
    columns = RunColumns.of(file.task, StoredRows(folder))
    named = {
        signature(file, judge, **block.recipe, snapshots=snapshots): block.readings
        for judge in file.judges
        for snapshots, readings in by_snapshot(columns, judge)
        for block in blocks(readings, file.task)
        if block.group == ALL
    }
    return {name: _of_block(named[name], file.task) for name in wanted & named.keys()}


def _of_block(readings: Readings, task: TaskSpec) -> BoardVerdicts:
    if task.implicitness is not None:
        sums = _flags(readings, task.implicitness)
    elif task.classes is not None:
        sums = _classes(readings)
    else:
        sums = np.column_stack([readings.value, np.ones(len(readings))])
    samples, items = readings.samples, _items(readings)
    found = BoardVerdicts(
        *(items, samples.cluster_names.bytes[readings.records], readings.value, sums),
        *(samples.group.codes[readings.records], tuple(samples.group.kinds)),
    )
    return found.at(np.argsort(items, kind="stable"))


def _items(readings: Readings) -> Texts:
    """The name of each sample, its variant and its decoding, as bytes in the order of letters."""
    samples, rows = readings.samples, readings.records
    pair = samples.variant.codes[rows] * len(samples.decoding.kinds) + samples.decoding.codes[rows]
    kinds = product(samples.variant.kinds, samples.decoding.kinds)
    # No name has a zero, so that the order is that of names, then variants, then decodings.
    ends = [b"\0" + b"\0".join(map(name_bytes, kind)) for kind in kinds]
    names = samples.id_names.bytes[rows]
    if names.dtype == object:
        return np.array([a + ends[b] for a, b in zip(names, pair.tolist(), strict=True)], object)
    return np.asarray(np.strings.add(names, np.array(ends)[pair]))


def _flags(readings: Readings, spec: ImplicitnessSpec) -> Floats:
    """Of each reading: positives flagged, positives, negatives flagged, negatives; NaN if lost."""
    found = answered(readings, spec.positive)
    sides = np.column_stack([found.is_positive, ~found.is_positive]).astype(np.float64)
    flags = np.where(sides > 0, found.flagged[:, None], 0.0)
    return np.column_stack([flags[:, 0], sides[:, 0], flags[:, 1], sides[:, 1]])


def _classes(readings: Readings) -> Floats:
    """Of each reading, label by label: whether it is a hit; the times it is given or true."""
    met, gold = labels_of(readings), gold_labels(readings)
    labels = sorted(met)
    columns = [np.nan_to_num(readings.detail(LABELLED[0] + label)) for label in labels]
    given = np.column_stack(columns) if labels else np.zeros((len(readings), 0))
    right = np.array([labels.index(label) for label in met], dtype=np.intp)
    true = one_hot(right[gold], len(labels)) if labels else given
    is_lost = (gold < 0) | ~given.any(axis=1)
    return np.where(is_lost[:, None], np.nan, np.column_stack([given * true, given + true]))


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
    own, constant = by_signature(rows), constant_runs(scores_frame((row, row.run) for row in rows))
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
    if line.rates is None or line.value is None or held is None:
        return line
    if not len(held := held.summed):
        return line
    _, places = np.unique(held.clusters, return_inverse=True)
    totals = Clusters.named(places).totals(held.sums)
    without = informedness(totals.sum(axis=0) - totals)
    ends = jackknife_interval(Estimate(line.value, len(held)), without, range_="any")
    ends = ends.within(-1.0, 1.0)
    return replace(line, low=ends.low, high=ends.high, unbounded=ends.why)


def _ranked(board: RankedTable, verdicts: Mapping[str, BoardVerdicts]) -> RankedTable:
    able = [line for line in board.lines if line.value is not None and not line.is_apart]
    if any(line.row.signature not in verdicts for line in able) or len(able) < 2:
        return _by_values(board, able)
    held = {line.row.signature: verdicts[line.row.signature] for line in able}
    held, shared = _shared(held)
    if not shared:
        return replace(board, items=0, clusters=0)
    sums, pooled = _sums(list(held.values())), _POOLED[board.ranked_by]
    board = replace(board, items=shared, clusters=sums.shape[1])
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


def _shared(held: Mapping[str, BoardVerdicts]) -> tuple[dict[str, BoardVerdicts], int]:
    """The models with enough of the items that any has, on the items that all of these have."""
    known = {name: one.summed for name, one in held.items()}
    first = next(iter(known.values())).items
    if all(len(one) == len(first) and (one.items == first).all() for one in known.values()):
        return known, len(first)
    every = len(np.unique(np.concatenate([one.items for one in known.values()])))
    kept = {name: one for name, one in known.items() if len(one) >= LEAST_SHARED * every > 0}
    parts = [one.items for one in kept.values()]
    shared = reduce(partial(np.intersect1d, assume_unique=True), parts) if parts else first[:0]
    return {name: one.of_items(shared) for name, one in kept.items()}, len(shared)


def _sums(held: Sequence[BoardVerdicts]) -> Floats:
    """Models x clusters x features: what each cluster's items add."""
    _, places = np.unique(held[0].clusters, return_inverse=True)
    clusters = Clusters.named(places)
    return np.stack([clusters.totals(one.sums) for one in held])


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
