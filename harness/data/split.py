"""Rows of a table to parts, stratified, with rows that belong together in one part."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from random import Random
from typing import Final, Literal

from harness.errors import DataError
from harness.lazy import DataFrame, pandas
from harness.storage.tables import Table, cells_named, column_of
from harness.text.dedup import linked, near_duplicates, normal

Link = Literal["near", "same", "none"]
LINKS: Final[tuple[Link, ...]] = ("near", "same", "none")
TEXT, STRATUM = "text", "stratum"


def split_rows(rows: DataFrame, shares: Sequence[float], *, link: Link, seed: int) -> DataFrame:
    """Deal units into parts by their shares, within each stratum; each row is in one part.

    The columns of `rows` are `text` (a blank one is like no other), `stratum`, and groups, None
    where a row has none; `unit` and `part`, from 0, are added. Large units first, each to the part
    that needs it most; the seed, and not the order of the rows, decides between equal ones.
    """
    strata, texts = rows[STRATUM].tolist(), rows[TEXT].tolist()
    keys = [*zip(map(normal, texts), strata, texts, strict=True)]
    unit_of = linked(range(len(rows)), _links(rows, link))
    members: dict[int, list[int]] = {}
    for row, first in unit_of.items():
        members.setdefault(first, []).append(row)
    units = sorted(members.values(), key=lambda own: min(keys[row] for row in own))
    Random(seed).shuffle(units)  # noqa: S311 - no secret
    sizes, part_of = Counter(strata), [0] * len(rows)
    needs = [{name: share / sum(shares) * n for name, n in sizes.items()} for share in shares]
    for own in sorted(units, key=len, reverse=True):
        counts = Counter(strata[row] for row in own)
        needed = [sum(n * lack[name] / sizes[name] for name, n in counts.items()) for lack in needs]
        totals = (sum(lack.values()) for lack in needs)
        wanted = [*zip((round(n, 9) for n in needed), totals, strict=True)]
        best = wanted.index(max(wanted))
        for row in own:
            part_of[row] = best
            needs[best][strata[row]] -= 1
    if len({*part_of}) < len(shares):
        fact = f"rows: {len(rows)}, in groups that belong together: {len(units)} (link {link!r})"
        raise DataError(f"{fact}; too few to split: give more rows, or link 'same' or 'none'")
    return rows.assign(unit=list(unit_of.values()), part=part_of)


def counts_of_parts(found: DataFrame, names: Sequence[str]) -> dict[str, object]:
    """The rows of each part by stratum, and the units that were dealt."""
    strata = {name: found[STRATUM][found["part"] == at] for at, name in enumerate(names)}
    return {
        "units": found["unit"].nunique(),
        "largest_unit": int(found["unit"].value_counts().max()),
        "parts": {
            name: {"rows": len(own), "strata": own.value_counts().sort_index().to_dict()}
            for name, own in strata.items()
        },
    }


def rows_of(
    table: Table,
    column: str | None,
    by: Sequence[str],
    groups: Sequence[str],
    *,
    where: str,
    has_links: bool,
) -> DataFrame:
    """The rows as `split_rows` takes them."""
    has_text = column is not None or TEXT in table.columns or has_links
    texts = column_of(table, column, where=where) if has_text else [""] * len(table)
    known = [cells_named(table, n, where) for n in by]
    rows = zip(*known, strict=True) if by else [()] * len(table)
    strata = [" + ".join(cell or "(empty)" for cell in row) for row in rows]
    words = [text if isinstance(text, str) else "" for text in texts]
    cells = {f"group {n}": [c or None for c in cells_named(table, n, where)] for n in groups}
    return pandas.DataFrame({TEXT: words, STRATUM: strata, **cells})


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
    """Some rows of a table, from 0, as they are in it."""
    return Table(
        table.file_format,
        table.columns,
        [table.lines[row] for row in rows],
        lambda at: [*map(table.cells(at).__getitem__, rows)],
        arrow=None if table.arrow is None else table.arrow.take([*rows]),
    )


def _links(rows: DataFrame, link: Link) -> Iterator[tuple[int, int]]:
    """Pairs of rows that belong together."""
    columns = [rows[name] for name in rows if name not in (TEXT, STRATUM)]
    words = rows[TEXT].map(normal)
    for column in [*columns, *([] if link == "none" else [words.where(words != "")])]:
        first: dict[str, int] = {}
        for row, name in enumerate(column):
            if isinstance(name, str):
                yield first.setdefault(name, row), row
    if link == "near":
        for one, other in near_duplicates([*first]):
            yield first[one], first[other]
