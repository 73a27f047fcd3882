"""People's rankings of graded sentences and choices of the nearest, and a scorer's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.data.ratings import read_ratings
from harness.errors import DataError, did_you_mean
from harness.implicitness.evaluate import Evaluation, Value, mean_known, rho, tau
from harness.implicitness.pairs import Items, unit_names
from harness.lazy import DataFrame, pandas
from harness.storage.frames import Row, records
from harness.text.cleanup import as_counted

_MEANS: Final = ("tau", "rho", "tau_people", "rho_people", "closest")
_COUNTS: Final = ("sets", "choices", "missing")


@dataclass(frozen=True, slots=True)
class Judged:
    """What one person, or the scorer, said of sets and choices, by their names.

    `ranks` has a number for each sentence of a set by rising level, higher if more implicit;
    `credits` are 1 or 0. `missing` counts sets ranked in part, and sentences without one choice.
    """

    who: str
    ranks: Mapping[str, tuple[float, ...]]
    credits: Mapping[str, float]
    missing: int = 0


def read_people(paths: Sequence[Path], items: Items) -> list[Judged]:
    """What people said of some items, in files of ratings; DataError for unknown topics or places.

    `sample_id` is the topic, `model` the place of a sentence by rising level, or of a choice.
    """
    sizes = [len(one.sentences) for one in items.rankings]
    sets = dict(zip(unit_names(items.rankings), sizes, strict=True))
    choices = dict(zip(unit_names(items.choices), items.choices, strict=True))
    ranks = dict[str, dict[str, dict[int, float]]]()
    chosen = dict[str, dict[str, list[int]]]()
    rated = [one for path in paths for one in records(read_ratings(path)) if one.value is not None]
    for rating in rated:
        who, name = rating.rater, rating.sample_id
        if name in sets and rating.scale != "choices":
            ranks.setdefault(who, {}).setdefault(name, {})[_place(rating, sets[name])] = (
                rating.value
            )
        elif name in choices:
            place = _place(rating, len(choices[name].sentences) - 1)
            chosen.setdefault(who, {}).setdefault(name, []).extend([place] * (rating.value > 0))
        else:
            hint = did_you_mean(name, [*sets, *choices])
            raise DataError(f"{rating.place}: no topic {name!r} in the file that was ranked{hint}")
    found = []
    for who in sorted({*ranks, *chosen}, key=as_counted):
        orders, picks = ranks.get(who, {}), chosen.get(who, {})
        whole = {
            name: tuple(orders[name][place] for place in sorted(orders[name]))
            for name, size in sets.items()  # in their order, which no shuffled sheet has
            if len(orders.get(name, ())) == size
        }
        # Two chosen, or none, is no choice.
        right = {n: float(own[0] == choices[n].answer) for n, own in picks.items() if len(own) == 1}
        lost = len(orders) - len(whole) + len(picks) - len(right)
        found.append(Judged(who, whole, right, lost))
    return found


def _place(rating: Row, count: int) -> int:
    place = int(rating.model) - 1 if rating.model.isdecimal() else -1
    if place not in range(count):
        raise DataError(
            f"{rating.place}: {rating.model!r} is no place among the {count} texts of "
            f"{rating.sample_id!r}, from 1"
        )
    return place


def scorer_judged(items: Items, result: Evaluation) -> Judged:
    """What a scorer says of the items, in the form of a person's."""
    ranks = {
        name: tuple(
            float(one["scores"][at])
            for at in sorted(range(len(ranking.levels)), key=ranking.levels.__getitem__)
        )
        for name, ranking, one in zip(
            unit_names(items.rankings), items.rankings, result.rankings, strict=True
        )
        if None not in one["scores"]
    }
    named = zip(unit_names(items.choices), result.closest, strict=True)
    return Judged(result.scorer, ranks, {name: value for name, value in named if value is not None})


def people_and_metric(items: Items, people: Sequence[Judged], scorer: Judged) -> DataFrame:
    """How each person orders sets and chooses, all people of a part, and the scorer on its sets.

    `tau` (Kendall's tau-b) and `rho` (Spearman's) are means over sets of the correlation with the
    order of the levels; `tau_people` and `rho_people` over sets and people, with the ranks of each
    other person. `closest` is the share of choices made right. `missing` counts the sets ranked in
    part or all alike, and the sentences without one choice.
    """
    levels = {
        name: tuple(sorted(ranking.levels))
        for name, ranking in zip(unit_names(items.rankings), items.rankings, strict=True)
    }
    gold = Judged("gold", {name: tuple(map(float, own)) for name, own in levels.items()}, {})
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
    frame.attrs["each"] = [row for one in (*people, scorer, gold) for row in _one_by_one(one)]
    return frame.astype(dict.fromkeys(_MEANS, "float64"))


def _one_by_one(one: Judged) -> list[dict[str, Any]]:
    """The ranks of each set, the most explicit sentence 1, and whether each choice was right."""
    ranks = [
        {"topic": name, "who": one.who, "ranks": pandas.Series(own).rank().tolist()}
        for name, own in one.ranks.items()
    ]
    return ranks + [{"topic": n, "who": one.who, "right": own} for n, own in one.credits.items()]


def _parts(people: Sequence[Judged]) -> list[list[Judged]]:
    """People linked by a set or a sentence that both judged."""
    parts: list[tuple[set[str], list[Judged]]] = []
    for one in people:
        names = {*one.ranks, *one.credits}
        linked = [part for part in parts if part[0] & names]
        members = [other for part in reversed(linked) for other in part[1]]
        parts = [part for part in parts if part not in linked]
        parts.append((names.union(*(part[0] for part in linked)), [*members, one]))
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
