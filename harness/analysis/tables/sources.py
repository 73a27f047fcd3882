"""Files and people's ratings to facts: counts of rows, agreement of coders, numbers of other files.

Nothing here knows where in a table a fact will stand.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

import numpy as np

from harness.analysis.agreement import AgreementSettings, agreement
from harness.analysis.panels import AgreementQuery, Panel, panels
from harness.analysis.tables.facts import TOTAL, Fact, level_of, matches
from harness.errors import DataError, SpecError
from harness.implicitness.pairs import read_pairs
from harness.lazy import DataFrame
from harness.specs.layouts import (
    CodersLayout,
    CountsLayout,
    FilesLayout,
    LayerSpec,
    ValuesLayout,
)
from harness.stats.agreement import alpha, cohen_kappa, percent_agreement
from harness.stats.estimate import Estimate, Floats, mean_interval
from harness.storage.frames import records
from harness.storage.runs import RunFolder
from harness.storage.tables import read_columns, read_file

SPLIT, PEOPLE = "split", "people"
_P: Final = "_p"
"""The end of a statistic's name that means its p-value."""
Row = Mapping[str, Any]


def count_facts(layout: CountsLayout, files: Mapping[str, Path]) -> list[Fact]:
    """The counts, or shares, of the rows of some files, each after the name of its split."""
    names = layout.axes
    further = [name for name in layout.where if name not in names]
    rows = _rows(layout, files, [name for name in (*names, *further) if name != SPLIT])
    rows = [row for row in rows if all(_asked(row, layout, name) for name in further)]
    choices = _always([[_asked(row, layout, name) for name in names] for row in rows], layout)
    counts = Counter(key for values in choices for key in product(*values))
    totals = {"row": layout.rows, "column": layout.columns}
    for made in _total_sets([totals[name] for name in layout.totals]):
        # A row of data counts once in a total, however many values it has.
        whole = [
            [(TOTAL,) if n in made and v else v for n, v in zip(names, values, strict=True)]
            for values in choices
        ]
        counts += Counter(key for values in whole for key in product(*values))
    own = len(layout.rows)
    facts = [
        Fact(dict(zip(names, key, strict=True)), float(n), block=int(TOTAL in key[:own]))
        for key, n in counts.items()
    ]
    return _shares(facts, layout) if layout.share_of else _filled(facts, layout)


def _asked(row: Row, layout: FilesLayout, name: str) -> tuple[str, ...]:
    """The values of a row that a layout keeps."""
    patterns = layout.where.get(name)
    found = _values(row, layout, name)
    return found if patterns is None else tuple(v for v in found if matches(v, patterns))


def _always(
    choices: list[list[tuple[str, ...]]], layout: CountsLayout
) -> list[list[tuple[str, ...]]]:
    for name, value in layout.always.items():
        place = layout.axes.index(name)
        known = tuple(dict.fromkeys(part for values in choices for part in values[place]))
        for values in choices:
            values[place] = known if value in values[place] else values[place]
    return choices


def _total_sets(sides: Sequence[tuple[str, ...]]) -> list[set[str]]:
    single = [set(names) for names in sides]
    return [*single, *([single[0] | single[1]] if len(single) > 1 else [])]


def _filled(facts: Sequence[Fact], layout: CountsLayout) -> list[Fact]:
    """A count of zero where the files have the row and the column, but not together."""
    if layout.groups:
        return list(facts)
    rows = {tuple(f.dims[n] for n in layout.rows): f for f in facts}
    columns = dict.fromkeys(tuple(f.dims[n] for n in layout.columns) for f in facts)
    seen = {tuple(f.dims[n] for n in (*layout.rows, *layout.columns)) for f in facts}
    made = [
        replace(like, dims={**like.dims, **dict(zip(layout.columns, column, strict=True))}, value=0)
        for row, like in rows.items()
        for column in columns
        if (*row, *column) not in seen
    ]
    return [*facts, *made]


def _shares(facts: Sequence[Fact], layout: CountsLayout) -> list[Fact]:
    over = {"row": layout.rows, "column": layout.columns, "table": ()}[layout.share_of or "table"]
    sums: Counter[tuple[str, ...]] = Counter()
    for fact in facts:
        other = [fact.dims[name] for name in layout.axes if name not in over]
        if TOTAL not in other:
            sums[tuple(fact.dims[n] for n in over)] += int(fact.value or 0)
    return [
        replace(fact, value=(fact.value or 0) / whole, n=whole)
        for fact in facts
        if (whole := sums[tuple(fact.dims[n] for n in over)])
    ]


def _rows(layout: FilesLayout, files: Mapping[str, Path], names: Iterable[str]) -> list[Row]:
    """The rows of all files with the columns of some names, their defaults filled in."""
    columns = list(dict.fromkeys(c for name in names for c in layout.columns_of(name)))
    optional = [column for column in columns if column in layout.defaults]
    needed = [column for column in columns if column not in optional]
    found: list[Row] = []
    for split, path in files.items():
        for row in read_columns(path, needed, optional=optional):
            cells = {c: layout.defaults.get(c) if v is None else v for c, v in row.cells.items()}
            found.append({**layout.defaults, **cells, SPLIT: split})
    return found


def _values(row: Row, layout: FilesLayout, name: str) -> tuple[str, ...]:
    columns = (SPLIT,) if name == SPLIT else layout.columns_of(name)
    cells = [cell for column in columns if (cell := row.get(column)) is not None]
    values = (part for cell in cells for part in (cell if isinstance(cell, list) else [cell]))
    return tuple(dict.fromkeys(map(str, values)))


def coder_facts(layout: CodersLayout, files: Mapping[str, Path]) -> list[Fact]:
    """How far coders agree on each layer, by the further names of the layout."""
    own = {"layer", "statistic", SPLIT}
    further = [n for n in dict.fromkeys((*layout.axes, *layout.where)) if n not in own]
    columns = [layout.unit, layout.coder, *(s.column for s in layout.layers.values() if s.column)]
    rows = _rows(layout, files, [*columns, *further])
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        key = (row[SPLIT], *(next(iter(_values(row, layout, name)), "") for name in further))
        found.setdefault(key, []).append(row)
    facts = []
    for key, members in found.items():
        dims = dict(zip((SPLIT, *further), key, strict=True))
        tables: dict[str, Floats] = {}
        for name, spec in layout.layers.items():
            tables[name] = _layer(spec, layout, members, tables)
            for statistic, estimate in _agreements(tables[name]):
                reason = "" if estimate.value is not None else str(estimate.reason)
                names = {**dims, "layer": name, "statistic": statistic}
                facts.append(Fact(names, estimate.value, n=estimate.n, reason=reason))
    return facts


def _layer(
    spec: LayerSpec, layout: CodersLayout, rows: Sequence[Row], others: Mapping[str, Floats]
) -> Floats:
    """What coders said of a layer, units x coders, NaN where one said nothing."""
    if spec.sum:
        if absent := [name for name in spec.sum if name not in others]:
            raise SpecError(f"layer {absent[0]!r} is summed before it is there; put it first")
        return np.asarray(sum(weight * others[name] for name, weight in spec.sum.items()))
    units = list(dict.fromkeys(str(row[layout.unit]) for row in rows))
    coders = sorted({str(row[layout.coder]) for row in rows})
    places = {name: at for at, name in enumerate(units)}
    table = np.full((len(units), len(coders)), np.nan)
    for row in rows:
        at = places[str(row[layout.unit])], coders.index(str(row[layout.coder]))
        table[at] = spec.values.get(str(row[spec.column]), spec.otherwise)
    return table


def _agreements(table: Floats) -> Iterator[tuple[str, Estimate]]:
    if table.shape[1] == 2:
        yield "kappa", cohen_kappa(table)
    for scale in ("nominal", "ordinal", "interval"):
        yield f"alpha_{scale}", alpha(table, scale)
    pairs = [(a, b) for b in range(table.shape[1]) for a in range(b)]
    yield "percent", percent_agreement(table, pairs)


def value_facts(layout: ValuesLayout, files: Mapping[str, Path]) -> list[Fact]:
    """The numbers of some files; those that share all names are averaged."""
    own = {"measure", "place", SPLIT}
    names = [n for n in dict.fromkeys((*layout.axes, *layout.where)) if n not in own]
    found: dict[tuple[tuple[str, str], ...], list[float]] = {}
    for row in _records(layout, files, names):
        keys = {name: next(iter(_values(row, layout, name)), "") for name in (*names, SPLIT)}
        for measure in layout.values:
            cell = row.get(measure)
            cell = len(cell) if layout.lengths and isinstance(cell, str) else cell
            for dims, value in _numbers(cell, {**keys, "measure": measure}):
                found.setdefault(tuple(dims.items()), []).extend([] if value is None else [value])
    return [_mean(dict(key), values) for key, values in found.items()]


def _numbers(cell: Any, dims: dict[str, str]) -> Iterator[tuple[dict[str, str], float | None]]:  # noqa: ANN401 - a cell of any file
    for place, one in enumerate(cell if isinstance(cell, list) else [cell], 1):
        try:
            value = None if one in (None, "") else float(one)
        except (TypeError, ValueError):
            raise DataError(f"{dims['measure']}: {one!r} is no number; see `values`") from None
        yield {**dims, **({"place": str(place)} if isinstance(cell, list) else {})}, value


def _mean(dims: Mapping[str, str], values: Sequence[float]) -> Fact:
    if not values:
        return Fact(dims, None, reason="the file's cell is empty")
    mean = fmean(values)
    if len(values) == 1:
        return Fact(dims, mean)
    return Fact(dims, mean, n=len(values), sd=stdev(values))


def _records(layout: ValuesLayout, files: Mapping[str, Path], names: Sequence[str]) -> list[Row]:
    if layout.pairs:
        return [row for split, path in files.items() for row in _pairs(path, split)]
    if not layout.records:
        return _rows(layout, files, [*names, *layout.values])
    found: list[Row] = []
    for split, path in files.items():
        try:
            rows = json.loads(path.read_bytes())[layout.records]
            found += [{**row, SPLIT: split} for row in rows]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path}: no JSON with rows under {layout.records!r} ({error}); make it with --json"
            ) from error
    return found


def _pairs(path: Path, split: str) -> Iterator[Row]:
    for pair in read_pairs(read_file(path), where=str(path)):
        sides = {"implicit": pair.implicit, "explicit": pair.explicit}
        yield {"source": pair.source or "all", "topic": pair.group, **sides, SPLIT: split}


@dataclass(frozen=True, slots=True)
class People:
    """What people's ratings give to tables: their panels with runs, and each panel's statistics."""

    panels: tuple[Panel, ...]
    rows: tuple[list[Any], ...]

    @classmethod
    def of(
        cls, ratings: DataFrame, folders: Sequence[RunFolder], *, has_statistics: bool
    ) -> "People":
        """Match ratings with the runs of their tasks; statistics take a while."""
        known = ratings[ratings.task.isin([folder.read().run.task for folder in folders])]
        found = tuple(panels(known, folders, AgreementQuery()))
        settings = AgreementSettings()
        rows = (records(agreement(one, settings)) if has_statistics else [] for one in found)
        return cls(found, tuple(rows))

    def means(self, metric: str) -> list[Fact]:
        """The mean rating of each system, by all raters, with its interval over clusters."""
        return [
            fact for panel in self.panels for fact in _means(panel, metric) if fact.n is not None
        ]

    def statistics(self, names: Sequence[str]) -> list[Fact]:
        """Statistics as rows below the models, by judge; a name that ends in _p is a p-value."""
        wanted = {row.statistic for rows in self.rows for row in rows}
        for name in names:
            if self.rows and name.removesuffix(_P) not in wanted:
                raise SpecError(f"no statistic {name!r}; known: {', '.join(sorted(wanted))}")
        return [
            replace(fact, dims={**fact.dims, "model": name}, block=2)
            for name in names
            for fact in self._facts(name)
        ]

    def facts(self) -> list[Fact]:
        """Every statistic of every judge, for tables of their own."""
        names = dict.fromkeys(row.statistic for rows in self.rows for row in rows)
        return [fact for name in names for fact in self._facts(name)]

    def notes(self) -> list[str]:
        """What was rated, by how many, and how it was averaged: a line a panel."""
        return [
            f"Task {panel.task}, variant {panel.variant}: {len({*panel.documents})} documents, "
            f"{len(panel.systems)} systems, {len(panel.raters)} raters; {rows[0].averaging}."
            for panel, own in zip(self.panels, self.rows, strict=True)
            if (rows := [row for row in own if row.averaging])
        ]

    def _facts(self, name: str) -> Iterator[Fact]:
        for row in (row for rows in self.rows for row in rows):
            if row.statistic == name.removesuffix(_P) and row.judge:
                dims = {**_of_variant(row.task, row.variant), "judge": row.judge, "statistic": name}
                dims |= {"model": row.model} if row.model else {}
                if name != row.statistic:
                    yield Fact(dims, row.p, n=row.n, reason=row.reason or "no test")
                else:
                    yield Fact(dims, row.value, row.low, row.high, row.n, reason=row.reason or "")


def _of_variant(task: str, variant: str) -> dict[str, str]:
    return {"task": task, "variant": variant, "level": level_of(variant)}


def _means(panel: Panel, metric: str) -> Iterator[Fact]:
    means = np.ma.masked_invalid(panel.ratings).mean(axis=2)
    for place, system in enumerate(panel.systems):
        column = means[:, place]
        values = [float(v) for v in column.compressed()]
        clusters = [
            c
            for c, gone in zip(panel.clusters, np.ma.getmaskarray(column), strict=True)
            if not gone
        ]
        found = mean_interval(values, clusters, is_share=False)
        dims = {**_of_variant(panel.task, panel.variant), "judge": PEOPLE, "metric": metric}
        ends = (found.value, found.low, found.high, found.n)
        yield Fact({**dims, "model": system}, *ends, reason="" if values else "no ratings")
