"""Tables to what a paper prints in the same place: paper, here, difference."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from harness.analysis.tables.facts import matches
from harness.analysis.tables.pivot import MOST_NAMED, SHOWN, PaperTable, dim
from harness.analysis.verify import by_rule
from harness.errors import SpecError, StoreError
from harness.lazy import DataFrame, pandas
from harness.specs.data import CellSpec, GoldenSpec, decimals

_Numbers = Mapping[str, Mapping[str, Any]]
"""Numbers in place of a printed one, by what they are of: models and judges, "" of a rule."""


def with_printed(
    papers: Mapping[str, GoldenSpec], layout: str, tables: Sequence[PaperTable]
) -> list[PaperTable]:
    """The printed numbers of a layout that some tables have too, a row each.

    The whole numbers of one place share a table, and so do the others. A printed rank, share or
    correlation of numbers that are all here is made of these by the paper's rule. Raises SpecError
    where no paper prints such numbers, StoreError where the tables have none of them.
    """
    own = [spec for spec in papers.values() if any(c.layout == layout for c in spec.all_cells)]
    if not own:
        known = {c.layout for spec in papers.values() for c in spec.all_cells if c.layout}
        some = ", ".join(sorted(known))
        raise SpecError(f"no printed numbers of layout {layout!r}; name one of {some}")
    made = [one for spec in own for table in tables for one in _of_table(spec, layout, table)]
    if not made:
        raise StoreError(f"the table has none of the numbers that {_short(own[0])} prints")
    return made


def _of_table(spec: GoldenSpec, layout: str, table: PaperTable) -> list[PaperTable]:
    cells, figures = spec.all_cells, spec.figures
    found = {c.cell: _numbers(c, table.facts) for c in cells if c.layout == layout}
    here = {
        name: (one["value"],)
        for name, own in found.items()
        if len(own) == 1
        for one in own.values()
    }
    for cell in cells:
        value = by_rule(cell, figures, here) if cell.rule and not found.get(cell.cell) else None
        found |= {} if value is None else {cell.cell: {"": {"value": value}}}
    lost = [name for name, own in found.items() if not own]
    more = f" and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
    note = f"Printed, and not here: {'; '.join(lost[:MOST_NAMED])}{more}."
    groups: dict[tuple[str, bool], list[CellSpec]] = {}
    for cell in cells:
        if found.get(cell.cell):
            groups.setdefault((cell.table, isinstance(cell.published, int)), []).append(cell)
    made = []
    for (place, _), own in groups.items():
        digits = max(decimals(cell.published) for cell in own)
        style = replace(table.style, shows=("value", "interval"), digits=digits, percent=False)
        rows = [(c, of, number) for c in own for of, number in found[c.cell].items()]
        names = 1 + any(of for _, of, _ in rows)
        one = PaperTable(
            title=f"{_short(spec)}, {place}; here: {table.title}",
            head=("number", "of")[:names],
            columns=(("paper",), ("here",), ("difference",)),
            rows=tuple((cell.cell, of)[:names] for cell, of, _ in rows),
            blocks=(0,) * len(rows),
            cells=_sides([(float(cell.published), number) for cell, _, number in rows]),
            style=style,
            notes=(*table.notes, *([note] if lost else [])),
            signatures=table.signatures,
            shared=table.shared,
        )
        made.append(one)
    return made


def _short(spec: GoldenSpec) -> str:
    """Authors and year."""
    return spec.paper.partition(",")[0]


def _numbers(cell: CellSpec, facts: DataFrame | None) -> _Numbers:
    """The numbers of a table in place of a printed one, in the paper's unit."""
    if facts is None:
        return {}
    found = facts[facts["cell", "value"].notna()]
    for name, pattern in cell.here.items():
        own = dim(found, name).fillna("")
        found = found[own.isin([one for one in own.unique() if matches(one, pattern.split("|"))])]
    shown = [name for name in ("model", "judge", "level") if name in cell.here]
    made = {}
    for _, row in found.iterrows():
        numbers = {end: row["cell", end] * cell.times for end in ("value", "low", "high")}
        made[", ".join(str(row["dim", name]) for name in shown)] = numbers
    return made


def _sides(pairs: Sequence[tuple[float, Mapping[str, Any]]]) -> DataFrame:
    """The cells of a table of printed numbers and those here: both, and how far these are off."""
    rows = []
    for at, (paper, number) in enumerate(pairs):
        rows += [
            {"row": at, "column": 0, "value": paper},
            {"row": at, "column": 1, **number},
            {"row": at, "column": 2, "value": number["value"] - paper},
        ]
    cells = pandas.DataFrame(rows, columns=["row", "column", *SHOWN])
    cells = cells.assign(is_best=False, reason="")
    return cells.astype({"low": float, "high": float, "sd": float, "n": "Int64"})
