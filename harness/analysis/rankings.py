"""People's rankings of graded sentences and choices of the nearest, and a scorer's.

People who share a set form a part: a study that gave half of its sets to one group and half to
another has two. Correlations are computed for each set and averaged, for ranks of two sets have
nothing to do with each other. A set that somebody ranked in part counts as missing for them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.analysis.sheets import unit_names
from harness.data.ratings import COLUMNS, RATED, number, plain_cells, read_ratings
from harness.errors import DataError, did_you_mean
from harness.implicitness.evaluate import Evaluation, Value, mean_known, rho, tau
from harness.implicitness.pairs import Item, Items
from harness.lazy import DataFrame, pandas
from harness.storage.frames import Row, records
from harness.storage.tables import TableRow, read_spreadsheet

_MEANS: Final = ("tau", "rho", "tau_people", "rho_people", "closest")
_COUNTS: Final = ("sets", "choices", "missing")
SHORT: Final = "rater, topic, and level or text, and rank; or rater, topic and choice"


@dataclass(frozen=True, slots=True)
class Judged:
    """What one person, or the scorer, said of sets and choices, by their names.

    `ranks` has a number for each sentence of a set, in the rising order of the levels; a higher
    one is more implicit. `credits` are 1 for a right choice, 0 for a wrong one. `missing` counts
    sets ranked in part, and sentences with no choice, or with several.
    """

    who: str
    ranks: Mapping[str, tuple[float, ...]]
    credits: Mapping[str, float]
    missing: int = 0


def read_people(paths: Sequence[Path], items: Items) -> list[Judged]:
    """What people said of some items, in one or more files.

    A file has ratings in long form, as those of a sheet, or the short layout.

    The short layout has rater and topic, then level (from 1, the most explicit, or as the file
    counts levels) or text, and rank; or the choice, by its text or its place from 1. A higher rank
    is more implicit. Raises DataError for what the items do not have.
    """
    sets = dict(zip(unit_names(items.rankings), items.rankings, strict=True))
    choices = dict(zip(unit_names(items.choices), items.choices, strict=True))
    found: dict[str, _Said] = {}
    for rating in (one for path in paths for one in _ratings(path, sets, choices)):
        if rating.value is not None:
            found.setdefault(rating.rater, _Said({}, {})).take(rating, sets, choices)
    return [said.judged(who, sets, choices) for who, said in sorted(found.items())]


def _ratings(path: Path, sets: Mapping[str, Item], choices: Mapping[str, Item]) -> list[Row]:
    rows = read_spreadsheet(path, ("rater",))
    columns = list(rows[0].cells) if rows else []
    if set(COLUMNS) <= set(columns):
        return records(read_ratings(path))
    if not {"rater", "topic"} <= set(columns):
        raise DataError(f"{path}: columns {', '.join(columns)}; there must be {SHORT}")
    found = [_rating(row, sets, choices) for row in rows]
    return records(pandas.DataFrame(found, columns=list(RATED)))


@dataclass(frozen=True, slots=True)
class _Said:
    """What somebody said so far: ranks by set and place, and chosen places by sentence."""

    ranks: dict[str, dict[int, float]]
    chosen: dict[str, list[int]]

    def take(self, rating: Row, sets: Mapping[str, Item], choices: Mapping[str, Item]) -> None:
        name, value = rating.sample_id, rating.value or 0.0
        place = int(rating.model) - 1 if rating.model.isdecimal() else -1
        if name in sets and rating.scale != "choices":
            _check_place(rating, place, len(sets[name].sentences))
            if place in self.ranks.setdefault(name, {}):
                raise DataError(
                    f"{rating.place}: {rating.rater} has ranked sentence {place + 1} of {name!r} "
                    "already; keep one of the two"
                )
            self.ranks[name][place] = value
        elif name in choices:
            _check_place(rating, place, len(choices[name].sentences) - 1)
            self.chosen.setdefault(name, []).extend([place] if value > 0 else [])
        else:
            known = [*sets, *choices]
            raise DataError(
                f"{rating.place}: no topic {name!r} in the file that was ranked"
                f"{did_you_mean(name, known)}"
            )

    def judged(self, who: str, sets: Mapping[str, Item], choices: Mapping[str, Item]) -> Judged:
        whole = {
            name: tuple(ranks[place] for place in range(len(ranks)))
            for name, ranks in self.ranks.items()
            if len(ranks) == len(sets[name].sentences)
        }
        # Two chosen, or none, is no choice.
        right = {
            name: float(places[0] == choices[name].answer)
            for name, places in self.chosen.items()
            if len(places) == 1
        }
        lost = len(self.ranks) - len(whole) + len(self.chosen) - len(right)
        return Judged(who, whole, right, lost)


def _check_place(rating: Row, place: int, count: int) -> None:
    if place not in range(count):
        raise DataError(
            f"{rating.place}: {rating.model!r} is no place among the {count} texts of "
            f"{rating.sample_id!r}, from 1"
        )


def _rating(
    row: TableRow, sets: Mapping[str, Item], choices: Mapping[str, Item]
) -> tuple[object, ...]:
    """A row of the short layout as a rating; a choice is one of the value 1."""
    cells = plain_cells(row)
    rater, topic = cells["rater"], cells["topic"]
    if chosen := cells.get("choice", ""):
        texts = [str(text) for text in choices[topic].sentences[1:]] if topic in choices else []
        place = texts.index(chosen) + 1 if chosen in texts else chosen
        return "", topic, str(place), rater, 1.0, "choices", row.place
    if "rank" not in cells:
        raise DataError(f"{row.place}: neither rank nor choice; there must be {SHORT}")
    rank = number(cells["rank"], place=row.place)
    place_text = _place_text(cells, sets.get(topic))
    return "", topic, place_text, rater, rank, "sentences", row.place


def _place_text(cells: Mapping[str, str], ranking: Item | None) -> str:
    """The place, from 1 in the rising order of levels, that a row's text or level names."""
    said = cells.get("text", "") or cells.get("level", "")
    if ranking is None:
        return said
    rising = _order(ranking)
    texts = [str(ranking.sentences[at]).strip() for at in rising]
    if said in texts:
        return str(texts.index(said) + 1)
    # Levels of a file's own need not count from 1.
    own = [f"{ranking.levels[at]:g}" for at in rising]
    is_own = ranking.levels != tuple(map(float, range(len(rising))))
    return str(own.index(said) + 1) if is_own and said in own else said


def _order(ranking: Item) -> list[int]:
    return sorted(range(len(ranking.levels)), key=ranking.levels.__getitem__)


def scorer_judged(items: Items, result: Evaluation) -> Judged:
    """What a scorer says of the items, in the form of a person's."""
    ranks = {
        name: tuple(float(v) for at in _order(ranking) if (v := one["scores"][at]) is not None)
        for name, ranking, one in zip(
            unit_names(items.rankings), items.rankings, result.rankings, strict=True
        )
        if None not in one["scores"]
    }
    named = zip(unit_names(items.choices), result.closest, strict=True)
    return Judged(result.scorer, ranks, {name: value for name, value in named if value is not None})


def people_and_metric(items: Items, people: Sequence[Judged], scorer: Judged) -> DataFrame:
    """How each person orders sets and chooses, all people of a part, and the scorer on its sets.

    A row each, named in `part` and `who`. `tau` (Kendall's tau-b) and `rho` (Spearman's) are means
    over sets of the correlation with the order of the levels, -1 to 1; `tau_people` and
    `rho_people` over sets and people, with the ranks of each other person. `closest` is the share
    of choices made right, 0 to 1. `sets` and `choices` count those behind them, `missing` the sets
    ranked in part or all alike, and the sentences without one choice. NaN without any.
    """
    levels = {
        name: tuple(sorted(ranking.levels))
        for name, ranking in zip(unit_names(items.rankings), items.rankings, strict=True)
    }
    rows: list[dict[str, Any]] = []
    for part, members in enumerate(_parts(people), 1):
        own = [_row(one, members, levels) for one in members]
        names = {name for one in members for name in (*one.ranks, *one.credits)}
        on_these = Judged(
            scorer.who,
            {name: ranks for name, ranks in scorer.ranks.items() if name in names},
            {name: value for name, value in scorer.credits.items() if name in names},
            len(names - {*scorer.ranks, *scorer.credits}),
        )
        whole = {name: mean_known([row[name] for row in own]) for name in _MEANS}
        whole |= {name: sum(row[name] for row in own) for name in _COUNTS}
        every = [*own, {"who": "people"} | whole, _row(on_these, members, levels)]
        rows += [{"part": str(part)} | row for row in every]
    frame = pandas.DataFrame(rows, columns=["part", "who", *_MEANS, *_COUNTS])
    return frame.astype(dict.fromkeys(_MEANS, "float64"))


def _parts(people: Sequence[Judged]) -> list[list[Judged]]:
    """People linked by a set or a sentence that both judged."""
    parts: list[tuple[set[str], list[Judged]]] = []
    for one in people:
        names, members = {*one.ranks, *one.credits}, [one]
        separate = []
        for part in parts:
            if part[0] & names:
                names, members = names | part[0], [*part[1], *members]
            else:
                separate.append(part)
        parts = [*separate, (names, members)]
    return [members for _, members in parts]


def _row(
    one: Judged, members: Sequence[Judged], levels: Mapping[str, tuple[float, ...]]
) -> dict[str, Any]:
    gold = Judged("", levels, {})
    others = [other for other in members if other.who != one.who]
    taus = by_set(one, gold, tau)
    found: dict[str, Any] = {"who": one.who, "tau": mean_known(taus)}
    found["rho"] = mean_known(by_set(one, gold, rho))
    for name, how in (("tau_people", tau), ("rho_people", rho)):
        found[name] = mean_known([v for other in others for v in by_set(one, other, how)])
    found |= {"closest": mean_known([*one.credits.values()]), "choices": len(one.credits)}
    lost = taus.count(None)
    return found | {"sets": len(taus) - lost, "missing": one.missing + lost}


Measure = Callable[[Sequence[float], Sequence[float]], Value]


def by_set(one: Judged, other: Judged, how: Measure) -> list[float | None]:
    """The correlation on each set that both have ranked; None where one of them is all ties."""
    found = (how(other.ranks[n], own) for n, own in one.ranks.items() if n in other.ranks)
    # Rounded, because a tau or rho of 1 may come out a little off.
    return [None if value is None else round(value, 12) for value in found]
