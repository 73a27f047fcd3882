"""Boards of one task and judge side by side: models by variants, in the order of the task.

Boards stand in one matrix where their signatures differ in nothing but model, variant and the
words that the variant asks in. Nothing here ranks, prints or writes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.analysis.leaderboard import HEADLINE_METRICS, BoardRow, headlines, tested
from harness.analysis.standings import RankedBy, RankedTable, Standing
from harness.storage.find_runs import data_words
from harness.storage.runs import RunFile
from harness.storage.signature import short_labels


@dataclass(frozen=True, slots=True)
class BoardMatrix:
    """Models by variants: a board for each column.

    `averaged` names the variants that are left out because a column is the average over them,
    `label` what tells this matrix from others of the same task and judge, empty without others.
    """

    columns: tuple[RankedTable, ...]
    averaged: tuple[str, ...] = ()
    label: str = ""

    @property
    def variants(self) -> tuple[str, ...]:
        """The variant of each column."""
        return tuple(_variant(board) for board in self.columns)

    @property
    def row(self) -> BoardRow:
        """A row of the first column: all have its task, judge, metric and data."""
        return self.columns[0].rows[0]

    def lines(self, sort: str = "") -> list[tuple[str, tuple[Standing | None, ...]]]:
        """Each model's name with its standing in each column, None where it was not run.

        In the order of the column that `sort` names, by default the first; or of the names, where
        it is `model`.
        """
        found: dict[str, dict[int, Standing]] = {}
        places = range(len(self.columns))
        for place in sorted(places, key=lambda at: self.variants[at] != sort):
            for line in self.columns[place].lines:
                found.setdefault(tested(line.row), {})[place] = line
        names = [next(iter(own.values())).row.model for own in found.values()]
        pairs = zip(names, found, strict=True)
        shown = [name if names.count(name) == 1 else full for name, full in pairs]
        made = [
            (n, tuple(map(own.get, places))) for n, own in zip(shown, found.values(), strict=True)
        ]
        return sorted(made, key=lambda line: line[0]) if sort == "model" else made


def board_matrices(
    boards: Iterable[RankedTable], files: Mapping[str, RunFile], *, is_all: bool = False
) -> list[BoardMatrix]:
    """A matrix a task, data, decoding, judge and version, of the run files by their runs' names.

    Averages over variants come first and stand for them, unless `is_all`.
    """
    alike: dict[tuple[str, str], list[dict[str, RankedTable]]] = {}
    for board in boards:
        row = board.rows[0]
        rest = row.parsed.without("model", "prompts", "variant")
        # The same variant in other words has a matrix of its own.
        parts = alike.setdefault((row.task, rest), [])
        free = next((part for part in parts if _variant(board) not in part), None)
        if free is None:
            parts.append(free := {})
        free[_variant(board)] = board
    made = [_matrix(part, files, is_all=is_all) for parts in alike.values() for part in parts]
    return _labelled(made, files)


def _variant(board: RankedTable) -> str:
    return board.rows[0].score.variant


def _matrix(
    boards: Mapping[str, RankedTable], files: Mapping[str, RunFile], *, is_all: bool
) -> BoardMatrix:
    used = dict.fromkeys(row.run for board in boards.values() for row in board.rows)
    pools = _pools([files[run] for run in used])
    order = [*pools.values(), *pools]
    averaged = [name for name in boards if pools.get(name) in boards and not is_all]
    shown = sorted(
        (name for name in boards if name not in averaged),
        key=lambda name: order.index(name) if name in order else len(order),
    )
    return BoardMatrix(tuple(boards[name] for name in shown), tuple(averaged))


def _pools(files: Iterable[RunFile]) -> dict[str, str | None]:
    """Each variant that was run, in the order in which it was, with the name of its average."""
    return {
        name: file.task.variants[name].averaged_over for file in files for name in file.run.variants
    }


def _labelled(made: Sequence[BoardMatrix], files: Mapping[str, RunFile]) -> list[BoardMatrix]:
    alike: dict[tuple[str, str], list[BoardMatrix]] = {}
    for one in made:
        alike.setdefault((one.row.task, one.row.score.judge), []).append(one)
    found = []
    for members in alike.values():
        labels = recipe_labels([one.row for one in members], files)
        found += [replace(one, label=text) for one, text in zip(members, labels, strict=True)]
    return found


def recipe_labels(rows: Sequence[BoardRow], files: Mapping[str, RunFile]) -> list[str]:
    """What tells the recipes of some rows apart, whatever their models are; empty for one row."""
    plain = [replace(row.parsed, model="", kind="", version="", variant="") for row in rows]
    sources = {str(one): data_words(files[row.run]) for one, row in zip(plain, rows, strict=True)}
    labels = {text: name.removeprefix(", ") for text, name in short_labels(sources).items()}
    return [labels[str(one)] for one in plain]


def plain_tables(
    rows: Sequence[BoardRow],
    metric: str | None,
    group: str,
    *,
    constant: Collection[str] = (),
) -> list[RankedTable]:
    """A board a recipe of another metric or of one group, the best value first; none is ranked.

    The runs of the signatures in `constant` come last.
    """
    metrics = HEADLINE_METRICS if metric is None else frozenset({metric})
    found: dict[str, list[Standing]] = {}
    for row in headlines(rows, metrics, group):
        score = row.score
        is_constant = row.signature in constant
        line = Standing(row, score.value, score.low, score.high, is_constant=is_constant)
        found.setdefault(row.recipe, []).append(line)
    return [RankedTable(recipe, RankedBy.MEAN, _by_value(own)) for recipe, own in found.items()]


def _by_value(lines: Iterable[Standing]) -> tuple[Standing, ...]:
    def key(line: Standing) -> tuple[bool, bool, float, str]:
        return (line.is_constant, line.value is None, -(line.value or 0.0), line.row.model)

    return tuple(sorted(lines, key=key))
