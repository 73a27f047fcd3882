"""Tables of sentences that people graded, paired or chose among, to the items of an evaluation.

A blank cell is an absent one, for CSV has no other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final, TypeVar

from harness.errors import DataError
from harness.storage.cells import cell_text, filled
from harness.storage.tables import Table

NEEDED: Final = (
    "levels (a list of sentences, the most explicit first); "
    "topic, level and text (a sentence a row, a higher level more implicit); "
    "implicit and explicit; "
    "sentence, choices (a list) and answer (the place of the nearest, from 0)"
)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Two or more sentences with the level of each; a higher one is more implicit."""

    topic: str
    sentences: tuple[object, ...]
    levels: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence that implies what its counterpart states."""

    topic: str
    implicit: object
    explicit: object

    @property
    def sentences(self) -> tuple[object, ...]:
        """Both sentences."""
        return self.implicit, self.explicit


@dataclass(frozen=True, slots=True)
class Choice:
    """A sentence and its choices; the choice at place `answer` is nearest in meaning."""

    topic: str
    sentence: object
    choices: tuple[object, ...]
    answer: int

    @property
    def sentences(self) -> tuple[object, ...]:
        """The sentence, then the choices."""
        return self.sentence, *self.choices


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a file; an item without a topic is its own topic."""

    rankings: tuple[Ranking, ...] = ()
    pairs: tuple[Pair, ...] = ()
    choices: tuple[Choice, ...] = ()

    @property
    def all(self) -> "tuple[Ranking | Pair | Choice, ...]":
        """The items of every kind."""
        return self.rankings + self.pairs + self.choices


Item = TypeVar("Item", Ranking, Pair, Choice)
Row = dict[str, object]


def rows_of(table: Table) -> list[Row]:
    """Turn a table into a dict a row, by column."""
    columns = [table.cells(place) for place in range(len(table.columns))]
    return [dict(zip(table.columns, row, strict=True)) for row in zip(*columns, strict=True)]


def read_items(table: Table, *, where: str) -> Items:
    """Read the items of a table by the columns it has; `where` is named in errors.

    A row has an item of each kind whose columns it fills.
    """
    columns = table.columns
    rows = [{name: filled(cell) for name, cell in row.items()} for row in rows_of(table)]
    rankings = _each(rows, "levels", _ranking, where=where)
    if {"topic", "level", "text"} <= set(columns):
        rankings += _grouped(rows, where=where)
    pairs = _each(rows, "explicit", _pair, where=where) if "implicit" in columns else ()
    choices = _each(rows, "choices", _choice, where=where)
    if not (rankings or pairs or choices):
        raise DataError(
            f"{where}: nothing to evaluate on among the columns {', '.join(columns)}; "
            f"there must be {NEEDED}"
        )
    return Items(rankings, pairs, choices)


def _each(
    rows: Sequence[Row], column: str, read: Callable[[Row, str], Item], *, where: str
) -> tuple[Item, ...]:
    found = []
    for number, row in enumerate(rows, start=1):
        if row.get(column) is None:
            continue
        try:
            found.append(read(row, _topic(row, number)))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{where}: row {number}: {error}; there must be {NEEDED}") from error
    return tuple(found)


def _topic(row: Row, number: int) -> str:
    """The topic of a row, else its number: rows without one count as independent."""
    return cell_text(row.get("topic")) or f"row {number}"


def _ranking(row: Row, topic: str) -> Ranking:
    sentences = _listed(row, "levels")
    return Ranking(topic, sentences, tuple(float(level) for level in range(len(sentences))))


def _pair(row: Row, topic: str) -> Pair:
    return Pair(topic, row["implicit"], row["explicit"])


def _choice(row: Row, topic: str) -> Choice:
    choices, answer = _listed(row, "choices"), row.get("answer")
    if isinstance(answer, bool) or not isinstance(answer, int) or answer not in range(len(choices)):
        raise ValueError(f"answer {answer!r} is no place among {len(choices)} choices, from 0")
    return Choice(topic, row.get("sentence"), choices, answer)


def _listed(row: Row, column: str) -> tuple[object, ...]:
    cell = row[column]
    if not isinstance(cell, list) or len(cell) < 2:
        raise ValueError(f"{column} is {cell!r:.80}, no list of two sentences or more")
    return tuple(cell)


def _grouped(rows: Sequence[Row], *, where: str) -> tuple[Ranking, ...]:
    by_topic: dict[str, list[tuple[object, float]]] = {}
    for number, row in enumerate(rows, start=1):
        if row["level"] is None:
            continue
        if row["topic"] is None:
            raise DataError(f"{where}: row {number}: a level without a topic; give it the topic")
        by_topic.setdefault(_topic(row, number), []).append((row["text"], _level(row, where)))
    rankings = []
    for topic, graded in by_topic.items():
        sentences, levels = zip(*graded, strict=True)
        if len(set(levels)) < 2:
            raise DataError(f"{where}: topic {topic!r} has one level alone; a ranking has two")
        rankings.append(Ranking(topic, sentences, levels))
    return tuple(rankings)


def _level(row: Row, where: str) -> float:
    cell = row["level"]
    try:
        level = float(cell) if isinstance(cell, int | float | str) else float("nan")
    except ValueError:
        level = float("nan")
    if not isfinite(level):
        raise DataError(f"{where}: topic {row['topic']!r}: level {cell!r} is not a number")
    return level
