"""All runs' scores as one table, and which of them may be ranked together.

Rows are compared only where their signatures differ in nothing but the model. Nothing here
computes a score.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.core import Score
from harness.runs import RunFolder
from harness.scores import ScoreRow, read_table
from harness.scoring import ALL

HEADLINE_METRICS = frozenset({"accuracy", "mean_rating", "mean_f1"})
CEILING, FLOOR = "oracle", "literal"


@dataclass(frozen=True, slots=True)
class Board:
    """The headline rows of one recipe, best first; a null value comes last."""

    recipe: str
    rows: tuple[ScoreRow, ...]


@dataclass(frozen=True, slots=True)
class Unfit:
    """A judge that does not tell the ceiling control from the floor control."""

    judge: str
    recipe: str
    ceiling: float | None
    floor: float | None


def collect(folders: Iterable[RunFolder]) -> list[ScoreRow]:
    """Every row of every run, each score once, in a fixed order."""
    tables = [read_table(folder.scores) for folder in folders if folder.scores.is_file()]
    best: dict[tuple[str, ...], ScoreRow] = {}
    for row in (row for table in tables for row in table):
        key = (row.signature, row.score.group, row.score.metric)
        if key not in best or row.score.n > best[key].score.n:
            best[key] = row
    return sorted(best.values(), key=_place)


def headlines(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """The overall row of each run, variant and judge, over all decodings together."""
    chosen: dict[tuple[str, ...], ScoreRow] = {}
    for row in rows:
        score = row.score
        if score.group != ALL or score.metric not in HEADLINE_METRICS:
            continue
        key = (row.task, row.signature.split("|")[3], score.variant, score.judge, *_rest(row))
        held = chosen.get(key)
        if held is None or score.decoding.count("+") > held.score.decoding.count("+"):
            chosen[key] = row
    return list(chosen.values())


def boards(rows: Sequence[ScoreRow]) -> list[Board]:
    """Headline rows by recipe, each board ranked by value."""
    grouped: dict[str, list[ScoreRow]] = {}
    for row in headlines(rows):
        grouped.setdefault(row.recipe, []).append(row)
    return [Board(recipe, tuple(sorted(members, key=_rank))) for recipe, members in grouped.items()]


def unfit(rows: Sequence[ScoreRow]) -> list[Unfit]:
    """The judges whose intervals for the oracle and the literal control overlap."""
    found = []
    for board in boards(rows):
        named = {row.model: row.score for row in board.rows}
        ceiling, floor = named.get(CEILING), named.get(FLOOR)
        if ceiling is None or floor is None:
            continue
        low, high = _bounds(ceiling)[0], _bounds(floor)[1]
        if low is None or high is None or low <= high:
            judge = board.rows[0].score.judge
            found.append(Unfit(judge, board.recipe, ceiling.value, floor.value))
    return found


def _bounds(score: Score) -> tuple[float | None, float | None]:
    """The interval of a score; a constant over several clusters is its own, for want of one."""
    is_constant = score.low is None and score.clusters > 1
    return (score.value, score.value) if is_constant else (score.low, score.high)


def _rank(row: ScoreRow) -> tuple[bool, float, str]:
    value = row.score.value
    return value is None, -(value or 0.0), row.model


def _place(row: ScoreRow) -> tuple[str, ...]:
    score = row.score
    overall = "" if score.group == ALL else score.group
    return (row.task, score.judge, score.variant, score.decoding, row.model, overall, score.metric)


def _rest(row: ScoreRow) -> tuple[str, ...]:
    """What else of a recipe keeps rows apart: all but the temperatures of the decoding."""
    parts = row.signature.split("|")
    parts[4] = parts[4].partition(",")[2]
    return tuple(part for place, part in enumerate(parts) if place not in (2, 3))
