"""Facts and a layout to tables: rows, columns, ranks and the notes that say how they were made.

Two numbers never share a cell: what they differ in makes tables of their own. What is not there
is an empty cell whose reason stands in the notes.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from msgspec.structs import replace as replace_spec

from harness.analysis.tables.facts import (
    RECIPE,
    TOTAL,
    VISIBLE,
    Fact,
    Ranks,
    Standing,
    chosen,
    matches,
)
from harness.pipeline.score import ALL
from harness.specs.layouts import CellStyle, TableLayout
from harness.stats.estimate import LEAST_CLUSTERS
from harness.storage.runs import ScoreRow

MOST_NAMED = 6
"""So many cells are named in one note; the rest are counted."""
NO_NUMBER: Final = "no run or row has it"
_Key = tuple[str, ...]
_Cells = dict[tuple[_Key, _Key], "LayoutCell"]


@dataclass(frozen=True, slots=True)
class LayoutCell:
    """A cell: a number as its table prints it, or the reason why there is none.

    `is_best`: a paired test finds its model better than another, and none better than it.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    sd: float | None = None
    rank: int | None = None
    is_best: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LayoutRow:
    """The names at the left of a row, and its cells; a rule stands before a new `block`."""

    names: tuple[str, ...]
    cells: tuple[LayoutCell, ...]
    block: int = 0


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table: its title, what its rows are of, its columns by level, its rows and its notes.

    `signatures` are the full recipes of its scores, `shared` says what all its numbers are of.
    """

    title: str
    head: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    rows: tuple[LayoutRow, ...]
    notes: tuple[str, ...]
    signatures: tuple[str, ...]
    style: CellStyle
    shared: str = ""

    @property
    def caption(self) -> str:
        """The title with what all numbers are of."""
        return f"{self.title}: {self.shared}" if self.shared else self.title

    @property
    def text_style(self) -> CellStyle:
        """What a cell shows in text: without n, where a note says the one of each column."""
        columns = zip(*(row.cells for row in self.rows if row.block < 2), strict=True)
        is_told = all(len({c.n for c in own if c.n is not None}) < 2 for own in columns)
        rest = tuple(name for name in self.style.shows if name != "n")
        return replace_spec(self.style, shows=rest) if is_told and rest else self.style

    @property
    def headings(self) -> tuple[str, ...]:
        """The heading of each column of cells, its levels in one line."""
        return tuple(" / ".join(levels) for levels in self.columns)


def number(value: float, style: CellStyle) -> str:
    """A number as a table's style prints it, never as a negative zero."""
    shown = round(value * 100 if style.percent else value, style.digits) + 0.0
    return f"{shown:,.{style.digits}f}"


def paper_tables(
    facts: Sequence[Fact],
    layout: TableLayout,
    *,
    extra: Sequence[Fact] = (),
    ranks: Ranks | None = None,
) -> list[PaperTable]:
    """The tables of a layout; `extra` facts join the others where their names fit.

    Raises SpecError for a name that no fact has, StoreError where no fact is left.
    """
    kept = chosen(facts, layout)
    groups = _groups(kept, layout)
    kept, single = _without_single(kept, layout, groups)
    found: dict[_Key, list[Fact]] = {}
    for fact in kept:
        found.setdefault(_key(fact, groups), []).append(fact)
    joined = [*single, *_of_models(extra, [*kept, *single], layout)]
    made = []
    for key in _ordered(found, groups, layout):
        named = dict(zip(groups, key, strict=True))
        own = [*found[key], *(fact for fact in joined if _fits(fact, named))]
        made.append(_Pivot(layout, own, named, ranks).table())
    return made


def _of_models(extra: Sequence[Fact], facts: Sequence[Fact], layout: TableLayout) -> list[Fact]:
    """Further facts of models that the table has, and statistics of their tasks and judges."""
    tasks = {fact.dims.get("task") for fact in facts}
    models = {(fact.dims.get("task"), fact.dims.get("model")) for fact in facts}
    asked = {name: layout.where.get(name, ("*",)) for name in ("task", "variant", "level", "judge")}
    return [
        fact
        for fact in extra
        if fact.dims["task"] in tasks
        and (fact.block > 1 or (fact.dims["task"], fact.dims["model"]) in models)
        and all(matches(fact.dims.get(name, kept[0]), kept) for name, kept in asked.items())
    ]


def _without_single(
    facts: Sequence[Fact], layout: TableLayout, groups: Sequence[str]
) -> tuple[list[Fact], list[Fact]]:
    """Facts that name their table, and those of tasks that have one judge, which fit into each.

    A task of choices has one judge where another task may have several.
    """
    judges: dict[str, set[str]] = {}
    for fact in facts:
        judges.setdefault(fact.dims.get("task", ""), set()).add(fact.dims.get("judge", ""))
    if "judge" not in groups or "judge" in layout.groups or "task" not in layout.columns:
        return list(facts), []
    alone = {task for task, own in judges.items() if len(own) == 1}
    if alone == judges.keys():
        return list(facts), []
    single = [fact for fact in facts if fact.dims.get("task", "") in alone]
    rest = [fact for fact in facts if fact.dims.get("task", "") not in alone]
    bare = [
        replace(f, dims={n: v for n, v in f.dims.items() if n not in ("judge", "metric")})
        for f in single
    ]
    return rest, bare


def _key(fact: Fact, names: Iterable[str]) -> _Key:
    return tuple(fact.dims.get(name, "") for name in names)


def _fits(fact: Fact, named: Mapping[str, str]) -> bool:
    return all(fact.dims.get(name, value) == value for name, value in named.items())


def _groups(facts: Sequence[Fact], layout: TableLayout) -> tuple[str, ...]:
    """The names that part the tables: the layout's, and those that keep numbers apart.

    No two numbers share a cell, and those of one column share all of their recipe but what the
    layout's names explain.
    """
    groups = list(layout.groups)
    for name in (*VISIBLE, *RECIPE, "signature"):
        cell = (*layout.rows, *layout.columns, *groups)
        if name not in (*layout.axes, "level") and _is_mixed(facts, cell, name):
            groups.append(name)
    for name, explaining in RECIPE.items():
        column = (*layout.columns, *groups, *({*explaining} & {*layout.rows}))
        if name not in column and _is_mixed(facts, column, name):
            groups.append(name)
    return tuple(groups)


def _is_mixed(facts: Sequence[Fact], names: Sequence[str], name: str) -> bool:
    """Whether facts that share some names differ in another."""
    found: dict[_Key, str | None] = {}
    return any(
        found.setdefault(_key(fact, names), fact.dims.get(name)) != fact.dims.get(name)
        for fact in facts
    )


def _ordered(keys: Iterable[_Key], names: Sequence[str], layout: TableLayout) -> list[_Key]:
    """Keys in the order of a layout's words and patterns, then as people count."""
    words = list(layout.names)

    def place(name: str, value: str) -> tuple[object, ...]:
        patterns = layout.where.get(name, ())
        at = [n for n, pattern in enumerate(patterns) if fnmatchcase(value, pattern)]
        by_word = words.index(value) if value in words else len(words)
        is_whole = value in (ALL, TOTAL)
        return by_word, at[0] if at else len(patterns), is_whole, _natural(value)

    return sorted(keys, key=lambda key: [place(n, v) for n, v in zip(names, key, strict=True)])


def _natural(text: str) -> list[tuple[bool, int, str]]:
    parts = re.split(r"(\d+)", text.lower())
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts if part]


@dataclass(frozen=True, slots=True)
class _Pivot:
    """The facts of one table; `named` is what they share."""

    layout: TableLayout
    facts: Sequence[Fact]
    named: Mapping[str, str]
    ranks: Ranks | None

    def table(self) -> PaperTable:
        """The table."""
        layout = self.layout
        at = {(_key(f, layout.rows), _key(f, layout.columns)): f for f in self.facts}
        blocks: dict[_Key, int] = {}
        for fact in self.facts:
            row = _key(fact, layout.rows)
            blocks[row] = max(fact.block, blocks.get(row, 0))
        rows = _ordered(blocks, layout.rows, layout)
        # Among the controls the ceiling comes first.
        rows.sort(key=lambda key: (blocks[key], blocks[key] == 1 and "oracle" not in key))
        columns = self._columns()
        boards = self._boards(at, rows, columns)
        cells = {
            (r, c): _cell(at.get((r, c)), boards.get((r, c)), is_statistic=blocks[r] > 1)
            for r in rows
            for c in columns
        }
        models = [row for row in rows if not blocks[row]]
        for column in columns if "model" in layout.rows else ():
            alone = [row for row in models if (f := at.get((row, column))) and f.row is None]
            cells |= _ranked_by_value({(row, column): cells[row, column] for row in alone})
        title = "; ".join([layout.about.rstrip("."), *map(self._said, self.named.items())])
        scores = [fact.row for fact in self.facts if fact.row is not None]
        return PaperTable(
            title,
            tuple(name.replace("_", " ") for name in layout.rows),
            tuple(self._words(key) for key in columns),
            tuple(
                LayoutRow(self._words(r), tuple(cells[r, c] for c in columns), blocks[r])
                for r in rows
            ),
            (*recipe_notes(scores), *self._notes(cells, list(boards.values()))),
            tuple(sorted({row.signature for row in scores})),
            layout.cell,
            self._shared(),
        )

    def _words(self, key: _Key) -> _Key:
        return tuple(self.layout.names.get(value, value) for value in key)

    def _said(self, pair: tuple[str, str]) -> str:
        name, value = pair
        return f"{name.replace('_', ' ')} {self.layout.names.get(value, value)}"

    def _shared(self) -> str:
        """The metric, task, judge and data of all scores, as far as no heading has them."""
        said = {"metric": "", "task": "on ", "judge": "by ", "data": "data: "}
        parts = {}
        for name, before in said.items():
            own = (fact.dims.get(name, "") for fact in self.facts if fact.row is not None)
            values = [value for value in dict.fromkeys(own) if value]
            if values and name not in (*self.layout.axes, *self.named):
                words = ", ".join(self.layout.names.get(one, one) for one in values)
                parts[name] = before + words.replace("_", " " if name == "metric" else "_")
        data = parts.pop("data", "")
        return "; ".join(filter(None, (" ".join(parts.values()), data)))

    def _columns(self) -> list[_Key]:
        layout = self.layout
        if not layout.columns:
            return [()]
        found = dict.fromkeys(_key(fact, layout.columns) for fact in self.facts)
        if len(layout.columns) == 1:
            # A column that is asked for by its name is there, be it empty.
            asked = layout.where.get(layout.columns[0], ())
            found |= dict.fromkeys((name,) for name in asked if not set(name) & set("*?["))
        return _ordered(found, layout.columns, layout)

    def _boards(
        self, at: Mapping[tuple[_Key, _Key], Fact], rows: Sequence[_Key], columns: Sequence[_Key]
    ) -> dict[tuple[_Key, _Key], Standing]:
        """The ranks of each cell's model among the models of its column."""
        if self.ranks is None or "model" not in self.layout.rows:
            return {}
        place = self.layout.rows.index("model")
        found: dict[tuple[_Key, _Key], Standing] = {}
        together: dict[tuple[_Key, _Key], list[tuple[_Key, ScoreRow]]] = {}
        for row in rows:
            for column in columns:
                fact = at.get((row, column))
                if fact is not None and fact.row is not None:
                    rest = row[:place] + row[place + 1 :]
                    together.setdefault((rest, column), []).append((row, fact.row))
        for (_, column), members in together.items():
            ranked = self.ranks([score for _, score in members])
            for row, score in members:
                if (own := ranked.get(score.signature)) is not None:
                    found[row, column] = own
        return found

    def _notes(
        self,
        cells: Mapping[tuple[_Key, _Key], LayoutCell],
        boards: Sequence[Standing],
    ) -> list[str]:
        shows, notes = self.layout.cell.shows, []
        notes += self._counts(shows)
        if "interval" in shows and any(cell.low is not None for cell in cells.values()):
            notes.append("In brackets: 95% intervals.")
        notes += _rank_notes(cells.values(), boards, shows)
        if "rank" in shows and any(f.row is None and f.n and not f.block for f in self.facts):
            notes.append("What people say is ranked by its mean alone.")
        chances = sorted({f.row.chance for f in self.facts if f.row and f.row.chance is not None})
        if chances:
            style = self.layout.cell
            notes.append(f"Chance: {', '.join(number(one, style) for one in chances)}.")
        partial = {
            (_key(fact, self.layout.rows), _key(fact, self.layout.columns)): ", ".join(
                f"{n} {why}" for why, n in fact.missing.items()
            )
            for fact in self.facts
            if fact.missing and fact.value is not None
        }
        empty = {at: cell.reason for at, cell in cells.items() if cell.value is None}
        notes += self._reasons("Missing verdicts, not counted in n", partial)
        if "interval" in shows:
            notes += self._reasons("No interval", self._unbounded())
        notes += self._reasons("Empty cells (-)", empty)
        explained = "; ".join(
            f"{self.layout.names.get(value, value)}: {words}"
            for value, words in self.layout.legend.items()
            if any(value in (f.dims.get(name) for name in self.layout.axes) for f in self.facts)
        )
        legend = f"{explained}." if explained else ""
        return [*notes, *filter(None, (legend, self.layout.note))]

    def _counts(self, shows: Sequence[str]) -> list[str]:
        """How many answers, once, or once a column where n is asked for and cells lack it."""
        counted = [f for f in self.facts if f.n is not None and f.block < 2]
        columns: dict[str, list[Fact]] = {}
        for fact in counted:
            words = ", ".join(self._words(_key(fact, self.layout.columns)))
            columns.setdefault(words, []).append(fact)
        is_even = all(len({fact.n for fact in own}) == 1 for own in columns.values())
        if not counted or ("n" in shows and not is_even):
            return []
        if "n" not in shows or len({fact.n for fact in counted}) == 1:
            return [_counted(counted)]
        names: dict[str, list[str]] = {}
        for name, own in columns.items():
            names.setdefault(_counted(own).rstrip("."), []).append(name)
        return ["; ".join(f"{said} ({', '.join(own)})" for said, own in names.items()) + "."]

    def _unbounded(self) -> dict[tuple[_Key, _Key], str]:
        """Why scores have no interval, by their cells."""
        without = [f for f in self.facts if f.row and f.value is not None and f.low is None]
        return {
            (_key(fact, self.layout.rows), _key(fact, self.layout.columns)): (
                "all values are alike"
                if fact.row and fact.row.score.clusters >= LEAST_CLUSTERS
                else "too few independent items"
            )
            for fact in without
        }

    def _reasons(self, what: str, found: Mapping[tuple[_Key, _Key], str]) -> list[str]:
        """A line that says the reason of each place; places of one reason together."""
        parts = []
        for reason, _ in Counter(found.values()).most_common(MOST_NAMED):
            rows: dict[_Key, list[_Key]] = {}
            for (row, column), why in found.items():
                if why == reason:
                    rows.setdefault(row, []).append(column)
            places = [
                ", ".join((*self._words(row), *self._words(columns[0])))
                if len(columns) == 1
                else f"{', '.join(self._words(row))} in {len(columns)} columns"
                for row, columns in rows.items()
            ]
            more = f" and {len(places) - MOST_NAMED} more" if len(places) > MOST_NAMED else ""
            parts.append(f"{reason} ({'; '.join(places[:MOST_NAMED])}{more})")
        rest = len(set(found.values())) - len(parts)
        more = f"; {rest} other reasons" if rest > 0 else ""
        return [f"{what}: {'; '.join(parts)}{more}."] if found else []


def _cell(fact: Fact | None, found: Standing | None, *, is_statistic: bool) -> LayoutCell:
    if fact is None:
        return LayoutCell(None, reason="a statistic of judges" if is_statistic else NO_NUMBER)
    rank, is_best = found[:2] if found else (None, False)
    reason = "" if fact.value is not None else fact.reason or NO_NUMBER
    return LayoutCell(fact.value, fact.low, fact.high, fact.n, fact.sd, rank, is_best, reason)


def _ranked_by_value(column: Mapping[tuple[_Key, _Key], LayoutCell]) -> _Cells:
    """The cells of a column of people's means with their ranks: no test is done of these."""
    values = {at: cell.value for at, cell in column.items() if cell.value is not None}
    return {
        at: replace(column[at], rank=1 + sum(other > own for other in values.values()))
        for at, own in values.items()
    }


def _counted(facts: Sequence[Fact]) -> str:
    """How many answers, and of how many independent items where these are fewer."""
    counts = sorted({fact.n or 0 for fact in facts})
    items = sorted({fact.row.score.clusters for fact in facts if fact.row is not None})
    is_one = len(counts) == 1
    answers = f"n = {counts[0]:,}" if is_one else f"n from {counts[0]:,} to {counts[-1]:,}"
    if not items or (items[0], items[-1]) == (counts[0], counts[-1]):
        return f"{answers}."
    independent = f"{items[0]:,}" if len(items) == 1 else f"{items[0]:,} to {items[-1]:,}"
    return f"{answers} answers, of {independent} independent items."


def _rank_notes(
    cells: Iterable[LayoutCell], boards: Sequence[Standing], shows: Sequence[str]
) -> list[str]:
    notes = []
    if "rank" in shows and boards:
        items = sorted({count for _, _, count in boards if count})
        on = f", on the {'/'.join(map(str, items))} verdicts that all of them have" if items else ""
        notes.append(f"In parentheses: rank among the models that are no controls{on}.")
    if any(cell.is_best for cell in cells):
        notes.append(
            "Bold (* on a screen): better than the models that are not bold in its column, by "
            "paired tests that swap clusters of samples, corrected by Holm over pairs (p <= .05)."
        )
    return notes


def recipe_notes(rows: Sequence[ScoreRow]) -> list[str]:
    """How some scores were made, in words."""
    if not rows:
        return []
    made = [row.parsed for row in rows]

    def said(values: Iterable[str]) -> str:
        unique = list(dict.fromkeys(values))
        more = f" and {len(unique) - MOST_NAMED} more" if len(unique) > MOST_NAMED else ""
        return ", ".join(unique[:MOST_NAMED]) + more

    limits = ("all samples" if one.limit == "all" else f"{one.limit} samples" for one in made)
    one_reply = {one.repeats for one in made} == {"1"}
    replies = "1 reply" if one_reply else f"{said(one.repeats for one in made)} replies"
    judges = said(f"{one.judge.replace(':', ' (', 1)}, {one.way})" for one in made)
    return [
        f"Task {said(one.task for one in made)}; data {said(one.data for one in made)}, "
        f"{said(limits)}; variant {said(one.variant for one in made)}; "
        f"prompts {said(one.prompts for one in made)}; decoding {said(o.decoding for o in made)}, "
        f"{replies} a prompt, seed {said(one.seed for one in made)}; judge {judges}; "
        f"program {said(one.harness for one in made)}."
    ]
