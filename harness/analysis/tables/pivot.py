"""Facts and a layout to tables: what shares a table, its rows, columns and ranks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from msgspec.structs import replace

from harness.analysis.tables.facts import RECIPE, TOTAL, VISIBLE, Ranks, chosen, matches
from harness.lazy import DataFrame, Series, pandas
from harness.pipeline.score import ALL
from harness.specs.layouts import CellStyle, TableLayout, ValuesLayout
from harness.stats.intervals import LEAST_CLUSTERS
from harness.storage.frames import Row, records
from harness.storage.signature import Signature
from harness.text.cleanup import as_counted

MOST_NAMED = 6  # so many cells are named in one note; the rest are counted
Words = Sequence[Sequence[tuple[str, ...]]]
"""The words of each row and of each column."""


def number(value: float, style: CellStyle) -> str:
    """A number as a table's style prints it, never as a negative zero."""
    shown = round(value * 100 if style.percent else value, style.digits) + 0.0
    return f"{shown:,.{style.digits}f}"


def notes_of(
    layout: TableLayout, dims: DataFrame, placed: DataFrame, cells: DataFrame, words: Words
) -> list[str]:
    """All notes of a table; `placed` are its facts at their `row` and `column`."""
    shows, is_score = layout.cell.shows, placed["is_score"].astype(bool)
    notes = [*recipe_notes(placed.loc[is_score, "signature"]), *_counts(placed, shows)]
    if "interval" in shows and cells["low"].notna().any():
        notes.append("In brackets: 95% intervals.")
    notes += _rank_notes(cells, shows)
    of_people = ~is_score & (placed["n"] > 0) & (placed["block"] == 0)
    if "rank" in shows and of_people.any():
        notes.append("What people say is ranked by its mean alone.")
    if chances := sorted({*placed["chance"].dropna()}):
        notes.append(f"Chance: {', '.join(number(one, layout.cell) for one in chances)}.")
    is_known = placed["value"].notna()
    partial = placed[is_known & (placed["missing"] != "")]
    notes += _reasons("Missing verdicts, not counted in n", partial, "missing", words)
    if "interval" in shows:
        open_ = placed[is_score & is_known & placed["low"].isna()]
        alike = {True: "all values are alike", False: "too few independent items"}
        open_ = open_.assign(why=(open_["clusters"] >= LEAST_CLUSTERS).map(alike))
        notes += _reasons("No interval", open_, "why", words)
    notes += _reasons("Empty cells (-)", cells[cells["value"].isna()], "reason", words)
    values = {value for name in layout.axes if name in dims for value in dims[name]}
    legend = [
        f"{layout.names.get(v, v)}: {said}" for v, said in layout.legend.items() if v in values
    ]
    return [*notes, *filter(None, (f"{'; '.join(legend)}." if legend else "", layout.note))]


def _counts(placed: DataFrame, shows: Sequence[str]) -> list[str]:
    """How many answers, where no cell says so, and of how many independent items, if fewer."""
    counted = placed[placed["n"].notna() & (placed["block"] < 2)]
    if not len(counted) or ("n" in shows and counted["n"].nunique() > 1):
        return []
    least, most = int(counted["n"].min()), int(counted["n"].max())
    answers = f"n = {least:,}" if least == most else f"n from {least:,} to {most:,}"
    items = counted["clusters"].dropna()
    if not len(items) or (items.min(), items.max()) == (least, most):
        return [f"{answers}."]
    few, many = int(items.min()), int(items.max())
    independent = f"{few:,}" if few == many else f"{few:,} to {many:,}"
    return [f"{answers} answers, of {independent} independent items."]


def _rank_notes(cells: DataFrame, shows: Sequence[str]) -> list[str]:
    notes, tested = [], cells[cells["rank"].notna() & cells["is_score"].eq(True)]
    if "rank" in shows and len(tested):
        items = sorted({int(count) for count in tested["items"].dropna() if count})
        on = f", on the {'/'.join(map(str, items))} verdicts that all of them have" if items else ""
        notes.append(f"In parentheses: the ranks that a model may have{on}; controls have none.")
    if cells["is_best"].any():
        notes.append(
            "Bold (* on a screen): better than the models that are not bold in its column, by "
            "paired tests that swap clusters of samples, corrected by Holm over pairs (p <= .05)."
        )
    return notes


def _reasons(what: str, found: DataFrame, why: str, words: Words) -> list[str]:
    """A line that says the reason of each place; places of one reason together."""
    parts = []
    for reason, own in found.groupby(why, sort=False):
        pairs = zip(own["row"], own["column"], strict=True)
        places = [", ".join((*words[0][row], *words[1][column])) for row, column in pairs]
        parts.append(f"{reason} ({_some(places, '; ')})")
    return [f"{what}: {_some(parts, '; ')}."] if parts else []


def _some(values: Iterable[str], between: str = ", ") -> str:
    """The first of some values, each once, and the number of the others."""
    unique = list(dict.fromkeys(values))
    more = f" and {len(unique) - MOST_NAMED} more" if len(unique) > MOST_NAMED else ""
    return between.join(unique[:MOST_NAMED]) + more


def recipe_notes(signatures: Iterable[str]) -> list[str]:
    """How some scores were made, in words."""
    made = [Signature.parse(text) for text in dict.fromkeys(signatures)]
    if not made:
        return []
    said = {
        name: _some(getattr(one, name) for one in made)
        for name in ("task", "data", "variant", "prompts", "decoding", "repeats", "seed", "harness")
    }
    limits = _some("all samples" if m.limit == "all" else f"{m.limit} samples" for m in made)
    replies = "1 reply" if said["repeats"] == "1" else f"{said['repeats']} replies"
    judges = _some(f"{one.judge.replace(':', ' (', 1)}, {one.way})" for one in made)
    return [
        f"Task {said['task']}; data {said['data']}, {limits}; variant {said['variant']}; prompts "
        f"{said['prompts']}; decoding {said['decoding']}, {replies} a prompt, seed {said['seed']}; "
        f"judge {judges}; program {said['harness']}."
    ]


NO_NUMBER: Final = "no run or row has it"
SHOWN: Final = ("value", "low", "high", "n", "sd", "rank", "is_best", "reason")
"""What is known of each cell of a table."""
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table: its title, what its rows are of, its columns by level, its rows and its notes.

    `rows` are the names at the left, `blocks` the block of each row: a rule is before a new one.
    `cells` has a row for each cell, row by row: `row` and `column`, counted from 0, and SHOWN.
    `signatures` are the full recipes of its scores, `shared` says what all its numbers are of,
    `facts` are what it was made of.
    """

    title: str
    head: Key
    columns: tuple[Key, ...]
    rows: tuple[Key, ...]
    blocks: tuple[int, ...]
    cells: DataFrame
    style: CellStyle
    notes: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    shared: str = ""
    facts: DataFrame | None = None

    @property
    def caption(self) -> str:
        """The title with what all numbers are of."""
        return f"{self.title}: {self.shared}" if self.shared else self.title

    @property
    def text_style(self) -> CellStyle:
        """What a cell shows in text: without n, where a note says the one of all cells."""
        own = self.cells["n"][self.cells["row"].map(dict(enumerate(self.blocks))) < 2]
        rest = tuple(name for name in self.style.shows if name != "n")
        return replace(self.style, shows=rest) if own.nunique() < 2 and rest else self.style

    @property
    def headings(self) -> Key:
        """The heading of each column of cells, its levels in one line."""
        return tuple(" / ".join(levels) for levels in self.columns)

    def lines(self) -> list[tuple[Key, int, list[Row]]]:
        """The names, the block and the cells of each row; None for what a cell has not."""
        cells, width = records(self.cells), len(self.columns)
        parted = [cells[at : at + width] for at in range(0, len(cells), width)]
        return list(zip(self.rows, self.blocks, parted, strict=True))


def paper_tables(
    facts: DataFrame,
    layout: TableLayout,
    *,
    extra: DataFrame | None = None,
    ranks: Ranks | None = None,
) -> list[PaperTable]:
    """The tables of a layout; `extra` facts join the others where their names fit.

    Raises SpecError for a name that no fact has, StoreError where no fact is left.
    """
    kept = chosen(facts, layout)
    more = [] if extra is None or not len(extra) else [_of_models(extra, kept["dim"], layout)]
    return _tables(kept, layout, more, ranks)


def _tables(
    facts: DataFrame, layout: TableLayout, more: Sequence[DataFrame], ranks: Ranks | None
) -> list[PaperTable]:
    """The tables of chosen facts; no fact is left out."""
    groups = _groups(facts["dim"], layout)
    kept, *loose = _without_single(facts, layout, groups)
    keys, made = _keys(kept, groups), list[PaperTable]()
    left = [pandas.Series(True, one.index) for one in loose]
    for key in _ordered({*keys}, groups, layout):
        named = dict(zip(groups, key, strict=True))
        own = [kept[[one == key for one in keys]]]
        for place, joined in enumerate((*loose, *more)):
            is_fit = pandas.Series(True, joined.index)
            for name in {*named} - ({"judge", "metric"} if place == 0 else set()):
                is_fit &= dim(joined, name).isna() | (dim(joined, name) == named[name])
            own.append(joined[is_fit])
            if place < len(loose):
                left[place] &= ~is_fit
        found = pandas.concat([one for one in own if len(one)], ignore_index=True)
        made.append(_table(layout, found, named, ranks))
    rest = pandas.concat([one[is_left] for one, is_left in zip(loose, left, strict=True)])
    return made + (_tables(rest, layout, more, ranks) if len(rest) else [])


def dim(facts: DataFrame, name: str) -> "Series[Any]":
    """The names of facts under one name, None without one."""
    known = ("dim", name) in facts
    return facts["dim", name] if known else pandas.Series(None, facts.index, dtype=object)


def _keys(facts: DataFrame, names: Sequence[str]) -> list[Key]:
    """The names of each fact, empty where it has none."""
    if not names:
        return [()] * len(facts)
    return list(zip(*(dim(facts, name).fillna("") for name in names), strict=True))


def _of_models(extra: DataFrame, dims: DataFrame, layout: TableLayout) -> DataFrame:
    """Further facts of models that the table has, and statistics of their tasks and judges."""
    known = {*zip(dims["task"], dims["model"], strict=True)}
    pairs = pandas.Series(_keys(extra, ("task", "model")), extra.index)
    kept = dim(extra, "task").isin(dims["task"].unique())
    kept &= (extra["cell", "block"] > 1) | pairs.isin(known)
    for name in {"task", "variant", "level", "judge"} & {*layout.where}:
        own = dim(extra, name)
        kept &= own.isna() | own.fillna("").map(lambda v, at=name: matches(v, layout.where[at]))
    return extra[kept]


def _without_single(
    facts: DataFrame, layout: TableLayout, groups: Sequence[str]
) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Facts that name their table, and those which fit into each.

    These are of tasks that have one judge, and of variants that have the same prompts everywhere.
    """
    is_apart = "judge" in groups and "judge" not in layout.groups and "task" in layout.columns
    is_single = is_shared = pandas.Series(False, facts.index)
    if is_apart:
        judges = facts["dim"].groupby("task")["judge"].transform("nunique")
        is_single = (judges == 1) & (judges > 1).any()
    if "prompts" in groups:
        is_shared = dim(facts, "prompts").isna() & ~is_single
    return facts[~(is_single | is_shared)], facts[is_single], facts[is_shared]


def _groups(dims: DataFrame, layout: TableLayout) -> tuple[str, ...]:
    """The names that part the tables: the layout's, and those that keep numbers apart."""
    groups, dims = list(layout.groups), dims.fillna("")

    def is_mixed(names: Iterable[str], name: str) -> bool:
        """Whether facts that share some names differ in another."""
        shared = [one for one in dict.fromkeys(names) if one in dims]
        if name not in dims or name in shared:
            return False
        found = dims.groupby(shared)[name].nunique() if shared else dims[[name]].nunique()
        return bool((found > 1).any())

    for name in (*VISIBLE, *RECIPE, "signature"):
        cell = (*layout.rows, *layout.columns, *groups)
        if name not in (*layout.axes, "level") and is_mixed(cell, name):
            groups.append(name)
    for name, explaining in RECIPE.items():
        if is_mixed((*layout.columns, *groups, *({*explaining} & {*layout.rows})), name):
            groups.append(name)
    return tuple(groups)


def _ordered(keys: Iterable[Key], names: Sequence[str], layout: TableLayout) -> list[Key]:
    """Keys in the order of a layout's words and patterns, then as people count.

    The topics and sources of a file stay in its order.
    """
    words, keys = list(layout.names), [*keys]
    is_file = isinstance(layout, ValuesLayout)
    kept = {
        n: [key[at] for key in keys]
        for at, n in enumerate(names)
        if is_file and n in ("topic", "source")
    }

    def place(name: str, value: str) -> tuple[object, ...]:
        patterns = layout.where.get(name, ())
        at = [n for n, pattern in enumerate(patterns) if fnmatchcase(value, pattern)]
        by_word = words.index(value) if value in words else len(words)
        rest = kept[name].index(value) if name in kept else as_counted(value)
        return by_word, at[0] if at else len(patterns), value in (ALL, TOTAL), rest

    return sorted(keys, key=lambda key: [place(n, v) for n, v in zip(names, key, strict=True)])


def _table(
    layout: TableLayout, facts: DataFrame, named: Mapping[str, str], ranks: Ranks | None
) -> PaperTable:
    """The table of some facts; `named` is what they share."""
    keys, across = _keys(facts, layout.rows), _keys(facts, layout.columns)
    blocks: dict[Key, int] = {}
    for key, block in zip(keys, facts["cell", "block"], strict=True):
        blocks[key] = max(block, blocks.get(key, 0))
    # Among the controls the ceiling comes first.
    rows = _ordered(blocks, layout.rows, layout)
    rows.sort(key=lambda key: (blocks[key], blocks[key] == 1 and "oracle" not in key))
    found = dict.fromkeys(across)
    if len(layout.columns) == 1:
        # A column that is asked for by its name is there, be it empty.
        asked = layout.where.get(layout.columns[0], ())
        found |= dict.fromkeys((name,) for name in asked if not set(name) & set("*?["))
    columns = _ordered(found, layout.columns, layout)
    placed = facts["cell"].assign(
        row=[*map(rows.index, keys)],
        column=[*map(columns.index, across)],
        row_block=[blocks[key] for key in keys],
        signature=dim(facts, "signature"),
    )
    cells = _grid(
        _ranked(placed, facts, layout, ranks), [blocks[row] for row in rows], len(columns)
    )
    words = [
        [tuple(layout.names.get(v, v) for v in key) for key in side] for side in (rows, columns)
    ]
    scores = facts[facts["cell", "is_score"].astype(bool)]
    said = [f"{n.replace('_', ' ')} {layout.names.get(v, v)}" for n, v in named.items()]
    return PaperTable(
        title="; ".join([layout.about.rstrip("."), *said]),
        head=tuple(name.replace("_", " ") for name in layout.rows),
        columns=tuple(words[1]),
        rows=tuple(words[0]),
        blocks=tuple(blocks[row] for row in rows),
        cells=cells[["row", "column", *SHOWN]],
        style=layout.cell,
        notes=tuple(notes_of(layout, facts["dim"], placed, cells, words)),
        signatures=tuple(sorted(dim(scores, "signature").unique())),
        shared=_shared(scores, layout, named),
        facts=facts,
    )


def _ranked(
    placed: DataFrame, facts: DataFrame, layout: TableLayout, ranks: Ranks | None
) -> DataFrame:
    """A fact a cell, with the ranks of models: of scores by tests, of people by their mean."""
    found = placed.drop_duplicates(["row", "column"], keep="last")
    if "model" not in layout.rows:
        return found
    rest = _keys(facts.loc[found.index], [name for name in layout.rows if name != "model"])
    is_score = found["is_score"].astype(bool)
    parts = [pandas.DataFrame(columns=["rank", "is_best", "items"], dtype=object)]
    for _, own in found.assign(rest=rest)[is_score].groupby(["rest", "column"]):
        if ranks is None:
            break
        standing = ranks(facts.loc[own.index]).reindex(own["signature"])
        parts.append(standing.set_index(own.index).dropna(subset="rank"))
    found = found.join(pandas.concat(parts))
    alone = found[~is_score & (found["row_block"] == 0)]
    by_value = alone.groupby("column")["value"].rank(method="min", ascending=False)
    return found.assign(rank=found["rank"].fillna(by_value.dropna().map("{:.0f}".format)))


def _grid(found: DataFrame, blocks: Sequence[int], width: int) -> DataFrame:
    """Every cell of a table, row by row; one without a number has a reason."""
    ends = [range(len(blocks)), range(width)]
    whole = pandas.MultiIndex.from_product(ends, names=["row", "column"])
    cells = found.set_index(["row", "column"]).reindex(whole).reset_index()
    cells = cells.reindex(columns=dict.fromkeys((*cells, *SHOWN, "items")))
    is_below = cells["row"].map(dict(enumerate(blocks))) > 1
    why = is_below.map({True: "a statistic of judges", False: NO_NUMBER})
    reason = cells["reason"].fillna(why).replace("", NO_NUMBER).where(cells["value"].isna(), "")
    cells = cells.assign(is_best=cells["is_best"].eq(True), reason=reason)
    return cells.astype({"n": "Int64", "is_best": bool})


def _shared(scores: DataFrame, layout: TableLayout, named: Mapping[str, str]) -> str:
    """The metric, task, judge and data of all scores, as far as no heading has them."""
    parts = {}
    for name, before in {"metric": "", "task": "on ", "judge": "by ", "data": "data: "}.items():
        values = [*dict.fromkeys(value for value in dim(scores, name) if value)]
        if values and name not in (*layout.axes, *named):
            words = ", ".join(dict.fromkeys(layout.names.get(one, one) for one in values))
            parts[name] = before + words.replace("_", " " if name == "metric" else "_")
    data = parts.pop("data", "")
    return "; ".join(filter(None, (" ".join(parts.values()), data)))
