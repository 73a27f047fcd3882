"""Files and people's ratings to facts: counts of rows, agreement of coders, numbers of other files.

Nothing here knows where in a table a fact will be.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

import numpy as np

from harness.analysis.agreement import AgreementSettings, agreement
from harness.analysis.panels import AgreementQuery, Panel, panels
from harness.analysis.tables.facts import TOTAL, facts, level_of, matches
from harness.errors import DataError, SpecError
from harness.implicitness.pairs import read_pairs
from harness.lazy import DataFrame, pandas
from harness.specs.layouts import CodersLayout, CountsLayout, FilesLayout, ValuesLayout
from harness.stats.agreement import alpha, cohen_kappa, percent_agreement
from harness.stats.estimate import Estimate, Floats, mean_interval
from harness.storage.frames import plain_rows, records
from harness.storage.runs import RunFolder
from harness.storage.tables import read_columns, read_file

SPLIT, PEOPLE = "split", "people"
_P: Final = "_p"
"""The end of a statistic's name that means its p-value."""
Row = Mapping[str, Any]
Files = Mapping[str, Path]
Rated = Sequence[tuple[Panel, Sequence[Any]]]
"""Panels of people's ratings with runs, each with its statistics, if these were asked for."""


def count_facts(layout: CountsLayout, files: Files) -> DataFrame:
    """The counts, or shares, of the rows of some files, each after the name of its split."""
    names = [*layout.axes]
    further = [name for name in layout.where if name not in names]
    rows = _rows(layout, files, [name for name in (*names, *further) if name != SPLIT])
    kept = {name: [_asked(row, layout, name) for row in rows] for name in (*names, *further)}
    frame = pandas.DataFrame(kept, dtype=object)
    for name in further:
        frame = frame[frame[name].map(bool)]
    for name, value in layout.always.items():
        known = tuple(frame[name].explode().dropna().unique())
        frame[name] = [known if value in own else own for own in frame[name]]
    sides = [{"row": layout.rows, "column": layout.columns}[name] for name in layout.totals]
    counts = []
    for summed in [(), *sides, *([sum(sides, ())] if len(sides) > 1 else [])]:
        # A row of data counts once in a total, however many values it has.
        own = frame.assign(**{n: frame[n].map(lambda v: (TOTAL,) if v else v) for n in summed})
        for name in names:
            own = own.explode(name)
        counts.append(own.groupby(names, sort=False).size())
    found = pandas.concat(counts)
    if layout.columns and not layout.groups and layout.share_of is None:
        # A count of zero where the files have the row and the column, but not together.
        across = [*layout.columns]
        found = found.unstack(across, fill_value=0).stack(across)
    made = found.rename("value").reset_index()
    if layout.share_of:
        made = _shares(made, layout)
    is_total = (made[[*layout.rows]] == TOTAL).any(axis=1).astype(int)
    cells = made.assign(block=is_total).reindex(columns=["value", "n", "block"])
    return facts([*zip(plain_rows(made[names]), plain_rows(cells), strict=True)])


def _shares(made: DataFrame, layout: CountsLayout) -> DataFrame:
    """Counts as shares of their row, column or table."""
    over = {"row": layout.rows, "column": layout.columns}.get(layout.share_of or "", ())
    other = [name for name in layout.axes if name not in over]
    plain = made[~(made[other] == TOTAL).any(axis=1)]
    if over:
        whole = plain.groupby([*over])["value"].sum().rename("n").reset_index()
        made = made.merge(whole, on=[*over])
    else:
        made = made.assign(n=plain["value"].sum())
    made = made[made["n"] > 0].reset_index(drop=True)
    return made.assign(value=made["value"] / made["n"])


def _asked(row: Row, layout: FilesLayout, name: str) -> tuple[str, ...]:
    """The values of a row that a layout keeps."""
    patterns = layout.where.get(name)
    found = _values(row, layout, name)
    return found if patterns is None else tuple(v for v in found if matches(v, patterns))


def _rows(layout: FilesLayout, files: Files, names: Iterable[str]) -> list[Row]:
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


def _named(rows: Sequence[Row], layout: FilesLayout, names: Iterable[str]) -> list[dict[str, str]]:
    """The first value of each name, empty where there is none, and the split of each row."""
    return [{n: next(iter(_values(row, layout, n)), "") for n in (*names, SPLIT)} for row in rows]


def coder_facts(layout: CodersLayout, files: Files) -> DataFrame:
    """How far coders agree on each layer, by the further names of the layout."""
    further = _further(layout, "layer", "statistic")
    columns = [layout.unit, layout.coder, *(s.column for s in layout.layers.values() if s.column)]
    rows = _rows(layout, files, [*columns, *further])
    frame, made = pandas.DataFrame(rows, dtype=object), []
    keys = pandas.Series([*map(tuple, map(dict.items, _named(rows, layout, further)))])
    for key, own in frame.groupby(keys, sort=False):
        tables: dict[str, Floats] = {}
        for name, spec in layout.layers.items():
            if absent := [one for one in spec.sum if one not in tables]:
                raise SpecError(f"layer {absent[0]!r} is summed before it is there; put it first")
            if spec.sum:
                table = sum(
                    (weight * tables[one] for one, weight in spec.sum.items()), np.zeros(())
                )
            else:
                said = own[spec.column].map(str).map(spec.values).fillna(spec.otherwise)
                by = [own[layout.unit].map(str), own[layout.coder].map(str)]
                table = said.astype(float).groupby(by).last().unstack().to_numpy()
            tables[name] = table
            for statistic, found in _agreements(table):
                dims = {**dict(key), "layer": name, "statistic": statistic}
                reason = "" if found.value is not None else str(found.reason)
                made.append((dims, {"value": found.value, "n": found.n, "reason": reason}))
    return facts(made)


def _further(layout: FilesLayout, *own: str) -> list[str]:
    """What a layout names besides some names of its kind and the split."""
    names = dict.fromkeys((*layout.axes, *layout.where))
    return [name for name in names if name not in (*own, SPLIT)]


def _agreements(table: Floats) -> Iterator[tuple[str, Estimate]]:
    if table.shape[1] == 2:
        yield "kappa", cohen_kappa(table)
    for scale in ("nominal", "ordinal", "interval"):
        yield f"alpha_{scale}", alpha(table, scale)
    pairs = [(a, b) for b in range(table.shape[1]) for a in range(b)]
    yield "percent", percent_agreement(table, pairs)


def value_facts(layout: ValuesLayout, files: Files) -> DataFrame:
    """The numbers of some files; those that share all names are averaged."""
    names = _further(layout, "measure", "place")
    rows = _records(layout, files, names)
    found: dict[tuple[tuple[str, str], ...], list[float]] = {}
    for row, keys in zip(rows, _named(rows, layout, names), strict=True):
        for measure in layout.values:
            cell = row.get(measure)
            cell = len(cell) if layout.lengths and isinstance(cell, str) else cell
            for place, one in enumerate(cell if isinstance(cell, list) else [cell], 1):
                at = {"place": str(place)} if isinstance(cell, list) else {}
                own = found.setdefault((*(keys | {"measure": measure} | at).items(),), [])
                own += [] if one in (None, "") else [_number(one, measure)]
    made = []
    for key, values in found.items():
        mean: dict[str, object] = (
            {"value": fmean(values)} if values else {"reason": "the file's cell is empty"}
        )
        spread = {"n": len(values), "sd": stdev(values)} if len(values) > 1 else {}
        made.append((dict(key), {**mean, **spread}))
    return facts(made)


def _number(cell: Any, measure: str) -> float:  # noqa: ANN401 - a cell of any file
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise DataError(f"{measure}: {cell!r} is no number; see `values`") from None


def _records(layout: ValuesLayout, files: Files, names: Sequence[str]) -> list[Row]:
    if not layout.pairs and not layout.records:
        return _rows(layout, files, [*names, *layout.values])
    found: list[Row] = []
    for split, path in files.items():
        if layout.pairs:
            for pair in read_pairs(read_file(path), where=str(path)):
                sides = {"implicit": pair.implicit, "explicit": pair.explicit, SPLIT: split}
                found.append({"source": pair.source or "all", "topic": pair.group, **sides})
            continue
        try:
            rows = json.loads(path.read_bytes())[layout.records]
            found += [{**row, SPLIT: split} for row in rows]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path}: no JSON with rows under {layout.records!r} ({error}); make it with --json"
            ) from error
    return found


def match_people(
    ratings: DataFrame, folders: Sequence[RunFolder], *, has_statistics: bool
) -> Rated:
    """Match ratings with the runs of their tasks; statistics take a while."""
    known = ratings[ratings["task"].isin([folder.read().run.task for folder in folders])]
    found, settings = panels(known, folders, AgreementQuery()), AgreementSettings()
    return [(p, records(agreement(p, settings)) if has_statistics else []) for p in found]


def agreement_facts(rated: Rated, names: Sequence[str] | None = None) -> DataFrame:
    """Every statistic of every judge; or some, as rows of models, where _p names a p-value."""
    rows = [row for _, own in rated for row in own]
    statistics = dict.fromkeys(row.statistic for row in rows)
    for name in names or ():
        if rated and name.removesuffix(_P) not in statistics:
            raise SpecError(f"no statistic {name!r}; known: {', '.join(sorted(statistics))}")
    made = []
    for name in statistics if names is None else names:
        for row in rows:
            if row.statistic != name.removesuffix(_P) or not row.judge:
                continue
            dims = {**_of_variant(row.task, row.variant), "judge": row.judge, "statistic": name}
            dims |= {"model": row.model} if row.model else {}
            dims |= {} if names is None else {"model": name}
            known: dict[str, object] = {"n": row.n, "block": 0 if names is None else 2}
            if name != row.statistic:
                known |= {"value": row.p, "reason": row.reason or "no test"}
            else:
                ends = {"value": row.value, "low": row.low, "high": row.high}
                known |= {**ends, "reason": row.reason or ""}
            made.append((dims, known))
    return facts(made)


def rated_notes(rated: Rated) -> list[str]:
    """What was rated, by how many, and how it was averaged: a line a panel."""
    return [
        f"Task {panel.task}, variant {panel.variant}: {len({*panel.documents})} documents, "
        f"{len(panel.systems)} systems, {len(panel.raters)} raters; {rows[0].averaging}."
        for panel, own in rated
        if (rows := [row for row in own if row.averaging])
    ]


def _of_variant(task: str, variant: str) -> dict[str, str]:
    return {"task": task, "variant": variant, "level": level_of(variant)}


def mean_facts(rated: Rated, metric: str) -> DataFrame:
    """The mean rating of each system, by all raters, with its interval over clusters."""
    made = []
    for panel, _ in rated:
        means = np.ma.masked_invalid(panel.ratings).mean(axis=2)
        for place, system in enumerate(panel.systems):
            column = means[:, place]
            gone = np.ma.getmaskarray(column)
            clusters = [c for c, is_gone in zip(panel.clusters, gone, strict=True) if not is_gone]
            found = mean_interval(column.compressed().tolist(), clusters, is_share=False)
            dims = {**_of_variant(panel.task, panel.variant), "judge": PEOPLE, "metric": metric}
            ends = {"value": found.value, "low": found.low, "high": found.high, "n": found.n}
            why = {"reason": "" if clusters else "no ratings"}
            made.append(({**dims, "model": system}, {**ends, **why}))
    return facts(made)
