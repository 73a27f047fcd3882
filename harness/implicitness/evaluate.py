"""Tables of sentences that people graded, paired or chose among, to how well a scorer agrees.

A blank cell is an absent one, for CSV has no other. An item with a sentence that cannot be scored
is missing, and counted; it is never zero.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from math import isfinite
from typing import Final, TypeVar

import numpy as np

from harness.errors import DataError
from harness.implicitness.scorer import Scorer
from harness.lazy import DataFrame, pandas
from harness.models.vectors import Progress
from harness.stats.correlation import document_taus, spearman
from harness.stats.estimate import mean_interval
from harness.storage.cells import cell_text, filled
from harness.storage.tables import Table

NEEDED: Final = (
    "levels (a list of sentences, the most explicit first); "
    "topic, level and text (a sentence a row, a higher level more implicit); "
    "implicit and explicit (neg_implicit and neg_explicit: two of two meanings); "
    "sentence, choices (a list) and answer (the place of the nearest, from 0); "
    "or lines of the sample format with references levels, explicit or choices"
)
SAMPLES: Final = ("fields", "references")
MEASURED: Final = ("metric", "value", "low", "high", "n", "topics", "missing", "chance")
RELEASED: Final = {"pos_implicit": "implicit", "pos_explicit": "explicit"}
"""Columns of the authors' release to ours; its neg_implicit and neg_explicit are the negatives."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Two or more sentences with the level of each; a higher one is more implicit."""

    topic: str
    sentences: tuple[object, ...]
    levels: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence that implies what its counterpart states; `negative` has two of two meanings."""

    topic: str
    implicit: object
    explicit: object
    negative: tuple[object, object] | None = None

    @property
    def sentences(self) -> tuple[object, ...]:
        """Both sentences, then those of its negative."""
        return (self.implicit, self.explicit, *(self.negative or ()))


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
    def all(self) -> "tuple[Item, ...]":
        """The items of every kind."""
        return self.rankings + self.pairs + self.choices


Item = Ranking | Pair | Choice
Kind = TypeVar("Kind", Ranking, Pair, Choice)
Row = dict[str, object]


def rows_of(table: Table) -> list[Row]:
    """Turn a table into a dict a row, by column."""
    columns = [table.cells(place) for place in range(len(table.columns))]
    return [dict(zip(table.columns, row, strict=True)) for row in zip(*columns, strict=True)]


def read_items(table: Table, *, where: str) -> Items:
    """Read the items of a table by the columns it has; `where` is named in errors.

    A row has an item of each kind whose columns it fills.
    """
    columns = list(table.columns)
    found = rows_of(table)
    if set(SAMPLES) <= set(columns):
        found = [_of_sample(row) for row in found]
        columns = list(dict.fromkeys(name for row in found for name in row))
    columns = [RELEASED.get(name, name) for name in columns]
    rows = [{RELEASED.get(name, name): filled(cell) for name, cell in row.items()} for row in found]
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


def _of_sample(row: Row) -> Row:
    """A line of the sample format, as `harness build` writes it, as a row of columns.

    The first of its `choices` is the nearest; its topic is its field, else its cluster.
    """
    found = (row[name] for name in SAMPLES)
    fields, references = (dict(part) if isinstance(part, dict) else {} for part in found)
    flat: Row = {"topic": row.get("cluster"), "answer": 0, **fields}
    flat |= {name: references.get(name) for name in ("levels", "choices")}
    explicit = references.get("explicit")
    if isinstance(explicit, list) and explicit:
        flat |= {"implicit": fields.get("sentence"), "explicit": explicit[0]}
    return flat


def _each(
    rows: Sequence[Row], column: str, read: Callable[[Row, str], Kind], *, where: str
) -> tuple[Kind, ...]:
    found = []
    for number, row in enumerate(rows, start=1):
        try:
            found += [read(row, _topic(row, number))] if row.get(column) is not None else []
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{where}: row {number}: {error}; there must be {NEEDED}") from error
    return tuple(found)


def _topic(row: Row, number: int) -> str:
    """The topic of a row, else its number: rows without one count as independent."""
    return cell_text(row.get("topic")) or f"row {number}"


def _ranking(row: Row, topic: str) -> Ranking:
    sentences = _listed(row, "levels")
    return Ranking(topic, sentences, tuple(map(float, range(len(sentences)))))


def _pair(row: Row, topic: str) -> Pair:
    negative = row.get("neg_implicit"), row.get("neg_explicit")
    return Pair(topic, row["implicit"], row["explicit"], None if None in negative else negative)


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
    with suppress(ValueError):
        if isinstance(cell, int | float | str) and isfinite(level := float(cell)):
            return level
    raise DataError(f"{where}: topic {row['topic']!r}: level {cell!r} is not a number")


@dataclass(frozen=True, slots=True)
class RankedItem:
    """One ranking: the scores of its sentences, its tau and rho; None where there is none."""

    topic: str
    scores: tuple[float | None, ...]
    tau: float | None
    rho: float | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How well a scorer does: the means, and each ranking by itself.

    A row of `measured` is the mean of a metric over items, with its 95 % interval over topics.
    tau (Kendall's tau-b) and rho (Spearman's) of a ranking's scores with its levels are -1 to 1.
    The others are shares, 0 to 1, a tie counting as half: `ordered`, of a ranking's sentence
    pairs of unequal level that are in order; `ends`, of rankings whose lowest level (the first
    of it) scores below the highest; `pairs`, of pairs whose implicit sentence scores higher;
    `pragmatics`, of pairs with a negative that are nearer in meaning than it is; `closest`, of
    choices made right. `value` is NaN without items, `low` and `high` where there is no interval.
    `missing` items have a sentence without a score, or scores that are all equal.

    A row of `means` is the mean over pairs with its standard deviation, NaN without a pair, or with
    one alone, and the `n` that were measured: `of` the implicitness of the `implicit` and the
    `explicit` side, and the pragmatic distance of a `pair` and of its `negative`.

    `closest` has the credit of each choice, 0 to 1; None where one cannot be scored. `trained_on`
    counts the items with a sentence that the scorer was trained on; None where
    nobody knows its training texts.
    """

    scorer: str
    items: int
    trained_on: int | None
    measured: DataFrame
    rankings: tuple[RankedItem, ...]
    means: DataFrame
    closest: tuple[float | None, ...]


def evaluate(items: Items, scorer: Scorer, *, progress: Progress | None = None) -> Evaluation:
    """Evaluate a scorer on the items: tau, rho and shares right, for the kinds there are."""
    sentences = [text for one in items.rankings for text in one.sentences]
    sentences += [text for one in items.pairs for text in (one.implicit, one.explicit)]
    values = iter([scored.value for scored in scorer.score(sentences, progress)])
    ranked = [_ranked(one, [next(values) for _ in one.sentences]) for one in items.rankings]
    scores = [(next(values), next(values)) for _ in items.pairs]
    own, others = _distances(items.pairs, scorer, progress)
    with_negative = [one for one in items.pairs if one.negative]
    nearer = [
        _higher(other, near)
        for one, near, other in zip(items.pairs, own, others, strict=True)
        if one.negative
    ]
    closest = _closest(items.choices, scorer, progress)
    by_chance = sum(1 / len(one.choices) for one in items.choices) / max(len(items.choices), 1)
    found: list[tuple[str, Sequence[Item], Sequence[Value], float]] = [
        ("tau", items.rankings, [one.tau for one in ranked], 0.0),
        ("rho", items.rankings, [one.rho for one in ranked], 0.0),
        ("ordered", items.rankings, [*map(_ordered, items.rankings, ranked)], 0.5),
        ("ends", items.rankings, [*map(_ends, items.rankings, ranked)], 0.5),
        ("pairs", items.pairs, [_higher(*pair) for pair in scores], 0.5),
        ("pragmatics", with_negative, nearer, 0.5),
        ("closest", items.choices, closest, by_chance),
    ]
    sides = {"implicit": [one for one, _ in scores], "explicit": [other for _, other in scores]}
    means = pandas.DataFrame(sides | {"pair": own, "negative": others}, dtype=float)
    means = means.agg(["mean", "std", "count"]).T.rename_axis("of").reset_index()
    return Evaluation(
        scorer=scorer.signature,
        items=len(items.all),
        trained_on=scorer.overlap(item.sentences for item in items.all),
        measured=pandas.DataFrame([_measured(*one) for one in found if one[2]], columns=MEASURED),
        rankings=tuple(ranked),
        means=means.set_axis(["of", "mean", "sd", "n"], axis=1).astype({"n": int})[: 4 * bool(own)],
        closest=tuple(closest),
    )


Value = float | None


def _distances(
    pairs: Sequence[Pair], scorer: Scorer, progress: Progress | None
) -> tuple[list[Value], list[Value]]:
    """The pragmatic distance of each pair's sentences, and of its negative's; None without one."""
    if not pairs:
        return [], []
    own = [(one.implicit, one.explicit) for one in pairs]
    others = [one.negative or (None, None) for one in pairs]
    found = [scored.value for scored in scorer.distances([*own, *others], progress)]
    return found[: len(pairs)], found[len(pairs) :]


def _ranked(ranking: Ranking, values: Sequence[float | None]) -> RankedItem:
    scores = tuple(values)
    if None in scores:
        return RankedItem(ranking.topic, scores, None, None)
    known = [value for value in values if value is not None]
    rho = spearman(ranking.levels, known).value
    return RankedItem(ranking.topic, scores, tau(ranking.levels, known), rho)


def tau(levels: Sequence[float], scores: Sequence[float]) -> float | None:
    """Kendall's tau-b of scores with their levels; None where all are equal."""
    found = float(document_taus([levels], [scores])[0])
    return None if np.isnan(found) else found


def _ordered(ranking: Ranking, ranked: RankedItem) -> float | None:
    graded = [*zip(ranking.levels, ranked.scores, strict=True)]
    credits = [
        _higher(high[1], low[1])
        for one, other in combinations(graded, 2)
        if one[0] != other[0]
        for low, high in [(one, other) if one[0] < other[0] else (other, one)]
    ]
    known = [credit for credit in credits if credit is not None]
    return sum(known) / len(known) if known and len(known) == len(credits) else None


def _ends(ranking: Ranking, ranked: RankedItem) -> float | None:
    low, high = (ranking.levels.index(end(ranking.levels)) for end in (min, max))
    return _higher(ranked.scores[high], ranked.scores[low])


def _higher(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return None
    return 0.5 * (1 + (first > second) - (first < second))


def _closest(
    choices: Sequence[Choice], scorer: Scorer, progress: Progress | None
) -> list[float | None]:
    """The credit of each choice: 1 for the right one alone, its share of a tie, else 0."""
    asked = [(one.sentence, other) for one in choices for other in one.choices]
    values = iter([scored.value for scored in scorer.distances(asked, progress)])
    credits: list[float | None] = []
    for one in choices:
        apart = [next(values) for _ in one.choices]
        there = [value for value in apart if value is not None]
        share = (apart[one.answer] == min(there)) / there.count(min(there)) if there else None
        credits.append(share if len(there) == len(apart) else None)
    return credits


def _measured(
    metric: str, items: Sequence[Item], values: Sequence[Value], chance: float
) -> tuple[object, ...]:
    """The mean of the values of items (None: missing), and how many are missing."""
    # Rounded, because a rho of 1 comes out a little less.
    known = [
        (round(value, 12), item.topic)
        for value, item in zip(values, items, strict=True)
        if value is not None
    ]
    found = mean_interval(
        [value for value, _ in known],
        [topic for _, topic in known],
        is_share=metric not in ("tau", "rho"),
    ).within(-1, 1)
    missing = len(values) - found.n
    return metric, found.value, found.low, found.high, found.n, found.clusters, missing, chance
