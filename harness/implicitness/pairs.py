"""Tables to pairs that heads are trained on, and to items that scorers are evaluated on.

Three layouts are read: columns of our own, those of the authors' release, and the sample format, as
`harness build` writes it. A blank cell is an absent one, for CSV has no other.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite, nan
from typing import Final, TypeVar

from harness.errors import DataError
from harness.storage.cells import cell_text, filled
from harness.storage.tables import Table

RELEASED: Final = ("pos_implicit", "pos_explicit", "neg_implicit", "neg_explicit")
SAMPLES: Final = ("fields", "references")
GROUPS: Final = ("topic", "original", "group")
NEEDED_PAIRS: Final = (
    "implicit and explicit (levels, plain, topic, intention), or "
    f"{', '.join(RELEASED)}, or fields with a sentence and references with an explicit one"
)
NEEDED_ITEMS: Final = (
    "levels (a list of sentences, the most explicit first); "
    "topic, level and text (a sentence a row, a higher level more implicit); "
    "implicit and explicit (neg_implicit and neg_explicit: two of two meanings); "
    "sentence, choices (a list) and answer (the place of the nearest, from 0); "
    "or lines of the sample format with references levels, explicit or choices"
)
Row = dict[str, object]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPair:
    """A sentence that implies what its counterpart states.

    Negatives are drawn from the same `source`; a split never divides a `group`. Pairs of one
    `meaning` are never each other's negatives. `levels` has sentences of one meaning, the most
    explicit first; `plain` and `negative` are of other meanings.
    """

    implicit: str
    explicit: str
    source: str | None = None
    group: str | None = None
    meaning: str | None = None
    levels: tuple[str, ...] = ()
    plain: str | None = None
    negative: tuple[str, str] | None = None

    @property
    def own(self) -> tuple[str, ...]:
        """The sentences of its meaning and its plain one, without those of its negative."""
        return (self.implicit, self.explicit, *self.levels, *([self.plain] if self.plain else []))

    @property
    def sentences(self) -> tuple[str, ...]:
        """All its sentences, those of its negative included."""
        return (*self.own, *(self.negative or ()))


@dataclass(frozen=True, slots=True)
class Item:
    """Sentences of one topic to evaluate a scorer on.

    A ranking has `levels`, one a sentence, a higher one more implicit. A pair is an implicit and an
    explicit sentence, then those of its negative if it has one. A choice is a sentence and its
    choices; the one at place `answer`, from 0, is nearest in meaning.
    """

    topic: str
    sentences: tuple[object, ...]
    levels: tuple[float, ...] = ()
    answer: int = 0


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a file; an item without a topic is its own topic."""

    rankings: tuple[Item, ...] = ()
    pairs: tuple[Item, ...] = ()
    choices: tuple[Item, ...] = ()

    @property
    def all(self) -> tuple[Item, ...]:
        """The items of every kind."""
        return self.rankings + self.pairs + self.choices


def unit_names(items: Sequence[Item]) -> list[str]:
    """A name for each set: its topic, with a number from the second one of a topic on."""
    seen: Counter[str] = Counter()
    names = []
    for item in items:
        seen[item.topic] += 1
        names.append(f"{item.topic} ({seen[item.topic]})" if seen[item.topic] > 1 else item.topic)
    return names


def read_pairs(table: Table, *, where: str) -> list[TrainingPair]:
    """Read the pairs of a table, by the columns it has: docs/impscore.md."""
    columns, rows = _rows(table)
    if not {"implicit", "explicit"} <= {*columns}:
        raise DataError(f"{where}: columns {', '.join(columns)}; there must be {NEEDED_PAIRS}")
    by = next((name for name in GROUPS if name in columns), "")
    return _each(rows, lambda row, _: _training_pair(row, by), where)


def read_items(table: Table, *, where: str) -> Items:
    """Read the items of a table: of each row one of each kind whose columns it fills."""
    columns, rows = _rows(table)
    rankings = _each(rows, _ranking, where)
    if {"topic", "level", "text"} <= {*columns}:
        rankings += _grouped(rows, where)
    pairs, choices = _each(rows, _pair, where), _each(rows, _choice, where)
    if not (rankings or pairs or choices):
        fact = f"{where}: nothing to evaluate on among the columns {', '.join(columns)}"
        raise DataError(f"{fact}; there must be {NEEDED_ITEMS}")
    return Items(tuple(rankings), tuple(pairs), tuple(choices))


def _rows(table: Table) -> tuple[list[str], list[Row]]:
    """The columns of a table under our names, and its rows, None for a blank cell."""
    cells = [table.cells(place) for place in range(len(table.columns))]
    rows = [dict(zip(table.columns, row, strict=True)) for row in zip(*cells, strict=True)]
    if set(SAMPLES) <= {*table.columns}:
        rows = [_of_sample(row) for row in rows]
    ours = dict(zip(RELEASED, ("implicit", "explicit"), strict=False))
    found = [{ours.get(name, name): filled(cell) for name, cell in row.items()} for row in rows]
    names = (name for row in found for name in row) if found else table.columns
    return list(dict.fromkeys(names)), found


def _of_sample(row: Row) -> Row:
    """A line of the sample format as a row; the first of its `choices` is the nearest."""
    parts = (row[name] for name in SAMPLES)
    fields, references = (dict(part) if isinstance(part, dict) else {} for part in parts)
    flat: Row = {name: cell for name, cell in row.items() if name not in SAMPLES} | {"answer": 0}
    flat |= fields
    flat |= {name: said[0] for name, said in references.items() if isinstance(said, list) and said}
    flat |= {name: references.get(name) for name in ("levels", "choices")}
    flat.setdefault("implicit", fields.get("sentence"))
    flat.setdefault("source", None if "topic" in flat else row.get("group"))
    flat.setdefault("original", filled(row.get("cluster")) or row.get("id"))
    return flat


def _each(rows: Sequence[Row], read: Callable[[Row, str], T | None], where: str) -> list[T]:
    """What is read of each row and its topic, where there is anything."""
    found = []
    for number, row in enumerate(rows, start=1):
        # Rows without a topic are independent.
        topic = cell_text(row.get("topic")) or cell_text(row.get("cluster")) or f"row {number}"
        try:
            found.append(read(row, topic))
        except ValueError as error:
            raise DataError(f"{where}: row {number}: {error}") from error
    return [one for one in found if one is not None]


def _training_pair(row: Row, group: str) -> TrainingPair:
    negative = [_sentence(row, name) for name in RELEASED[2:] if row.get(RELEASED[2]) is not None]
    return TrainingPair(
        implicit=_sentence(row, "implicit"),
        explicit=_sentence(row, "explicit"),
        source=_name(row, "source") or _name(row, "topic"),
        group=_name(row, group),
        meaning=_name(row, "intention"),
        levels=tuple(_sentence({"levels": text}, "levels") for text in _listed(row, "levels")),
        plain=_sentence(row, "plain") if row.get("plain") is not None else None,
        negative=(negative[0], negative[1]) if negative else None,
    )


def _ranking(row: Row, topic: str) -> Item | None:
    sentences = _listed(row, "levels")
    return Item(topic, sentences, tuple(map(float, range(len(sentences))))) if sentences else None


def _pair(row: Row, topic: str) -> Item | None:
    if "implicit" not in row or row.get("explicit") is None:
        return None
    negative = tuple(row.get(name) for name in RELEASED[2:])
    own = row["implicit"], row["explicit"]
    return Item(topic, own if None in negative else own + negative)


def _choice(row: Row, topic: str) -> Item | None:
    choices, answer = _listed(row, "choices"), row.get("answer")
    if not choices:
        return None
    if isinstance(answer, bool) or not isinstance(answer, int) or answer not in range(len(choices)):
        raise ValueError(f"answer {answer!r} is no place among {len(choices)} choices, from 0")
    return Item(topic, (row.get("sentence"), *choices), answer=answer)


def _listed(row: Row, column: str) -> tuple[object, ...]:
    """The sentences of a cell; empty if it has none."""
    cell = row.get(column)
    if cell is not None and (not isinstance(cell, list) or len(cell) < 2):
        raise ValueError(f"{column} is {cell!r:.80}, no list of two sentences or more")
    return tuple(cell or ())


def _grouped(rows: Sequence[Row], where: str) -> list[Item]:
    """A ranking a topic, of tables with a sentence a row."""
    by_topic: dict[str, list[tuple[object, float]]] = {}
    for number, row in enumerate(rows, start=1):
        if (level := row["level"]) is None:
            continue
        if row["topic"] is None:
            raise DataError(f"{where}: row {number}: a level without a topic; give it the topic")
        known = nan
        with suppress(ValueError, TypeError):
            known = float(cell_text(level))
        if not isfinite(known):
            raise DataError(f"{where}: topic {row['topic']!r}: level {level!r} is not a number")
        by_topic.setdefault(cell_text(row["topic"]), []).append((row["text"], known))
    for topic, graded in by_topic.items():
        if len({level for _, level in graded}) < 2:
            raise DataError(f"{where}: topic {topic!r} has one level alone; a ranking has two")
    return [
        Item(topic, tuple(text for text, _ in own), tuple(level for _, level in own))
        for topic, own in by_topic.items()
    ]


def _name(row: Row, column: str) -> str | None:
    value = row.get(column)
    if not isinstance(value, str | int | float | None):
        raise ValueError(f"{column} is {value!r:.80}; give a text or a number")
    return cell_text(value) or None


def _sentence(row: Row, name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError(f"{name} is {value!r:.80}; give a sentence")
    return value
