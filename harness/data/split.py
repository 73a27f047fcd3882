"""Rows of a table to parts, stratified, with rows that belong together in one part.

Rows of one group, of the same words and, by default, of nearly the same words are a unit, which is
never divided. What parts share all the same is counted. Nothing here reads or writes a file.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Final, Literal

from harness.errors import DataError, SpecError
from harness.lazy import DataFrame, pandas
from harness.storage.tables import Table
from harness.text.dedup import linked, near_duplicates, normal

Link = Literal["near", "same", "none"]
LINKS: Final[tuple[Link, ...]] = ("near", "same", "none")
Stratum = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SplitRows:
    """What is known of each row: its text, its stratum, and the groups that it belongs to.

    A blank text is like no other. A group is None where the row has none.
    """

    texts: Sequence[str]
    strata: Sequence[Stratum]
    groups: Sequence[Sequence[str | None]] = ()

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True, slots=True)
class Parts:
    """The rows of each part, from 0, in the order of the table, and the units they were dealt in.

    `largest` is the number of rows in the largest unit.
    """

    rows: tuple[tuple[int, ...], ...]
    units: int
    largest: int


def split_rows(rows: SplitRows, shares: Sequence[float], *, link: Link, seed: int) -> Parts:
    """Deal units into parts by their shares, within each stratum; each row is in one part.

    Large units first, each to the part that needs most of its strata; the order of equal ones is
    drawn by the seed and does not depend on that of the rows. DataError for a part without a row.
    """
    units = _units(rows, link)
    names = [_name(rows, unit) for unit in units]
    order = sorted(range(len(units)), key=lambda at: names[at])
    Random(seed).shuffle(order)  # noqa: S311 - no secret
    sizes = Counter(rows.strata)
    needs = [{name: share / sum(shares) * n for name, n in sizes.items()} for share in shares]
    parts: list[list[int]] = [[] for _ in shares]
    for at in sorted(order, key=lambda at: -len(units[at])):
        counts = Counter(rows.strata[row] for row in units[at])
        wanted = [_wanted(lack, counts, sizes) for lack in needs]
        best = wanted.index(max(wanted))
        parts[best] += units[at]
        for name, count in counts.items():
            needs[best][name] -= count
    if any(not part for part in parts):
        raise DataError(
            f"rows: {len(rows)}, in groups that belong together: {len(units)}; cannot be split "
            f"{':'.join(f'{share:g}' for share in shares)}: give more rows, or link fewer of them"
            + " (--link same: only those of the same words)"
            * (link == "near")
        )
    return Parts(tuple(tuple(sorted(part)) for part in parts), len(units), max(map(len, units)))


def _wanted(
    lack: Mapping[Stratum, float], counts: Mapping[Stratum, int], sizes: Mapping[Stratum, int]
) -> tuple[float, float]:
    """How much a part needs the strata of a unit, each by its size; then how much it needs."""
    own = sum(count * lack[name] / sizes[name] for name, count in counts.items())
    return round(own, 9), sum(lack.values())


def _name(rows: SplitRows, unit: Sequence[int]) -> tuple[str, ...]:
    return min((normal(rows.texts[row]), *rows.strata[row], rows.texts[row]) for row in unit)


def leaks(parts: Sequence[tuple[str, Sequence[str]]]) -> DataFrame:
    """What each part shares with each earlier one; parts are names with their texts.

    A line is of a `part` and an `other` before it: of its `rows` so many have the `same_words` as
    a row there; `near` counts these and the rows that share .6 of their words with one (Jaccard).
    """
    words = [[normal(text) for text in texts] for _, texts in parts]
    near: dict[str, set[str]] = defaultdict(set)
    every = [text for texts in words for text in texts if text]
    first: dict[frozenset[str], str] = {}
    same = {text: first.setdefault(frozenset(text.split()), text) for text in dict.fromkeys(every)}
    for one, other in near_duplicates([*first.values()]):
        near[one].add(other)
        near[other].add(one)
    found = []
    for early, late in combinations(range(len(parts)), 2):
        there, alike = set(words[early]) - {""}, {same[text] for text in words[early] if text}
        close = [t for t in words[late] if t and not alike.isdisjoint({same[t], *near[same[t]]})]
        shared = sum(text in there for text in words[late])
        found.append((parts[late][0], parts[early][0], len(words[late]), shared, len(close)))
    return pandas.DataFrame(found, columns=["part", "other", "rows", "same_words", "near"])


def picked(table: Table, rows: Sequence[int]) -> Table:
    """Some rows of a table, from 0, as they stand in it."""
    return Table(
        table.file_format,
        table.columns,
        [table.lines[row] for row in rows],
        lambda at: [*map(table.cells(at).__getitem__, rows)],
        arrow=None if table.arrow is None else table.arrow.take([*rows]),
    )


def shares_of(text: str) -> tuple[float, ...]:
    """The shares that are given as 70,15,15; SpecError for other than positive numbers."""
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if len(found) < 2 or not all(0 < share < float("inf") for share in found):
        raise SpecError(f"--shares {text!r}: give two or more positive numbers, such as 70,15,15")
    return found


def _units(rows: SplitRows, link: Link) -> list[list[int]]:
    """The rows by what they are linked to, in the order of their first rows."""
    units: dict[int, list[int]] = {}
    for row, first in linked(range(len(rows)), _linked(rows, link)).items():
        units.setdefault(first, []).append(row)
    return list(units.values())


def _linked(rows: SplitRows, link: Link) -> Iterator[tuple[int, int]]:
    for column in rows.groups:
        first: dict[str, int] = {}
        for row, name in enumerate(column):
            if name is not None:
                yield first.setdefault(name, row), row
    if link == "none":
        return
    held: dict[str, int] = {}
    for row, text in enumerate(rows.texts):
        if words := normal(text):
            yield held.setdefault(words, row), row
    if link == "near":
        for one, other in near_duplicates([*held]):
            yield held[one], held[other]
