"""All runs' scores as records; `analysis.boards.scores` has them as a frame.

A row of the leaderboard is a score with the run it is of and, where it is ranked, its standing
(`analysis.standings`). Nothing here computes a score.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from harness.analysis.boards.scores import whole_scores
from harness.pipeline.score import ALL, RIGHT_OR_WRONG
from harness.storage.runs import COLUMNS, RunFolder, ScoreRow, cells_of

HEADLINE_METRICS = frozenset({RIGHT_OR_WRONG, "mean_rating", "mean_f1"})
Row = TypeVar("Row", bound=ScoreRow)


@dataclass(frozen=True, slots=True)
class BoardRow(ScoreRow):
    """A score with the name of its run's folder and, where it is ranked, its standing.

    `rank` is among the models on the same `rank_items`, the verdicts that all of them have;
    `rank_group` is that of models of which no order is known. None where it is not ranked.
    """

    run: str = ""
    rank: int | None = None
    rank_group: int | None = None
    rank_items: int | None = None


BOARD_COLUMNS = (
    *COLUMNS,
    *("run", "data", "limit", "seed", "prompts", "version", "judge_version"),
    *("rank", "rank_group", "rank_items"),
)


def board_cells(row: BoardRow) -> list[object]:
    """The cells of a row, in the order of BOARD_COLUMNS."""
    made = row.parsed
    return [
        *cells_of(row),
        *(row.run, made.data, made.limit, made.seed, made.prompts),
        *(f"{made.kind}@{made.version}", made.judge.partition(":")[2]),
        *(row.rank, row.rank_group, row.rank_items),
    ]


def collect(folders: Iterable[RunFolder]) -> list[BoardRow]:
    """Every row of every run, each score once, in a fixed order; nothing is ranked yet.

    What is not whole is left out.
    """
    return merged({folder: whole_scores(folder) for folder in folders})


def merged(tables: Mapping[RunFolder, Sequence[ScoreRow] | None]) -> list[BoardRow]:
    """The rows of several runs, each score once, in a fixed order."""
    best: dict[tuple[str, ...], BoardRow] = {}
    for folder, rows in tables.items():
        for row in rows or ():
            key = (row.signature, row.score.group, row.score.metric)
            if key not in best or row.score.n > best[key].score.n:
                own = (row.task, row.model, row.score, row.chance, row.cost_usd, row.signature)
                best[key] = BoardRow(*own, run=folder.path.name)
    return sorted(best.values(), key=_place)


def by_signature(rows: Iterable[ScoreRow]) -> dict[str, dict[str, ScoreRow]]:
    """The overall rows of each signature, by their metrics."""
    found: dict[str, dict[str, ScoreRow]] = {}
    for row in rows:
        if row.score.group == ALL:
            found.setdefault(row.signature, {})[row.score.metric] = row
    return found


def headlines(
    rows: Sequence[Row], metrics: Collection[str] = HEADLINE_METRICS, group: str = ALL
) -> list[Row]:
    """The row of each run, variant and judge over all decodings together: by default overall."""
    chosen: dict[tuple[str, ...], Row] = {}
    for row in rows:
        score = row.score
        if score.group != group or score.metric not in metrics:
            continue
        # All of a recipe but the temperatures of the decoding.
        rest = replace(row.parsed, decoding="").without("variant", "model")
        key = (row.task, tested(row), score.variant, score.judge, rest)
        other = chosen.get(key)
        if other is None or score.decoding.count("+") > other.score.decoding.count("+"):
            chosen[key] = row
    return list(chosen.values())


def tested(row: ScoreRow) -> str:
    """The model under test with its kind and version, as signatures have it."""
    return row.parsed.fields["model"]


def _place(row: ScoreRow) -> tuple[str, ...]:
    score = row.score
    overall = "" if score.group == ALL else score.group
    return (row.task, score.judge, score.variant, score.decoding, row.model, overall, score.metric)
