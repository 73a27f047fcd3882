"""The notes below a paper's table: how its numbers were made, and why some are not there."""

from collections.abc import Iterable, Sequence

from harness.lazy import DataFrame
from harness.specs.layouts import CellStyle, TableLayout
from harness.stats.estimate import LEAST_CLUSTERS
from harness.storage.signature import Signature

MOST_NAMED = 6
"""So many cells are named in one note; the rest are counted."""
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
        notes.append(f"In parentheses: rank among the models that are no controls{on}.")
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
