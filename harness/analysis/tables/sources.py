"""Files and people's ratings to facts: counts, agreement of coders, numbers of other files."""

import json
from collections.abc import Iterable, Mapping, Sequence
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
from harness.stats.estimate import Estimate, Floats
from harness.stats.intervals import mean_interval
from harness.storage.frames import plain_rows
from harness.storage.runs import RunFolder
from harness.storage.tables import read_columns, read_file

SPLIT, PEOPLE = "split", "people"
_P: Final = "_p"  # the end of a statistic's name that means its p-value
Files = Mapping[str, Path]
Rated = Sequence[tuple[Panel, DataFrame | None]]
"""Panels of people's ratings with runs, each with its statistics, if these were asked for."""


def _rows(layout: FilesLayout, files: Files, columns: Iterable[str]) -> DataFrame:
    """Some columns of the rows of all files, their defaults filled in, and the split of each."""
    columns, found = dict.fromkeys(columns), []
    optional = [column for column in columns if column in layout.defaults]
    needed = [column for column in columns if column not in optional]
    for split, path in files.items():
        for row in read_columns(path, needed, optional=optional):
            cells = {c: layout.defaults.get(c) if v is None else v for c, v in row.cells.items()}
            found.append({**layout.defaults, **cells, SPLIT: split})
    return pandas.DataFrame(found, dtype=object)


def _columns(layout: FilesLayout, names: Iterable[str]) -> list[str]:
    return [column for name in names if name != SPLIT for column in layout.columns_of(name)]


def _dims(rows: DataFrame, layout: FilesLayout, names: Iterable[str]) -> DataFrame:
    """The values of each row under some names, as tuples: of each column, and of each list."""

    def texts(cells: Sequence[Any]) -> tuple[str, ...]:
        lists = [cell if isinstance(cell, list) else [cell] for cell in cells if cell is not None]
        return tuple(dict.fromkeys(str(part) for own in lists for part in own))

    made = {}
    for name in names:
        columns = [SPLIT] if name == SPLIT else [*layout.columns_of(name)]
        cells = rows.reindex(columns=columns).astype(object)
        cells = cells.where(cells.notna(), None)
        made[name] = [texts(row) for row in cells.itertuples(index=False, name=None)]
    return pandas.DataFrame(made, rows.index, dtype=object)


def _further(rows: DataFrame, layout: FilesLayout, *own: str) -> DataFrame:
    """The first value of what a layout names beyond some names of its kind, empty without one."""
    names = [name for name in (*layout.axes, *layout.where) if name not in own]
    dims = _dims(rows, layout, dict.fromkeys((*names, SPLIT)))
    return dims.map(lambda values: next(iter(values), ""))


def count_facts(layout: CountsLayout, files: Files) -> DataFrame:
    """The counts, or shares, of the rows of some files, each after the name of its split."""
    names, every = [*layout.axes], dict.fromkeys((*layout.axes, *layout.where))
    frame = _dims(_rows(layout, files, _columns(layout, every)), layout, every)
    for name, patterns in layout.where.items():
        kept = [tuple(one for one in own if matches(one, patterns)) for own in frame[name]]
        frame[name] = kept
        frame = frame if name in names else frame[frame[name].map(bool)]
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
    made = found.rename("value").reset_index().assign(n=np.nan)
    if layout.share_of:
        made = _shares(made, frame, layout)
    is_total = (made[[*layout.rows]] == TOTAL).any(axis=1).astype(int)
    return facts(made[names], value=made["value"], n=made["n"], block=is_total)


def _shares(made: DataFrame, frame: DataFrame, layout: CountsLayout) -> DataFrame:
    """Counts as shares of the rows of data in their row, column or table, each counted once."""
    over = [*{"row": layout.rows, "column": layout.columns}.get(layout.share_of or "", ())]
    parts = []
    for summed in ({*layout.axes} - {*over}, {*layout.axes}):
        own = frame.assign(**{n: frame[n].map(lambda v: (TOTAL,) if v else v) for n in summed})
        for name in layout.axes:
            own = own.explode(name).dropna(subset=name)
        parts.append(own.groupby(over or [*layout.axes], sort=False).size().rename("n"))
    whole = pandas.concat(parts)
    whole = whole[~whole.index.duplicated()].reset_index()
    base = whole if over else whole[["n"]].max().to_frame().T
    made = made.drop(columns="n").merge(base, **({"on": over} if over else {"how": "cross"}))
    return made.assign(value=made["value"] / made["n"])


def coder_facts(layout: CodersLayout, files: Files) -> DataFrame:
    """How far coders agree on each layer, by the further names of the layout."""
    asked = [name for name in (*layout.axes, *layout.where) if name not in ("layer", "statistic")]
    spoken = [layer.column for layer in layout.layers.values() if layer.column]
    columns = [layout.unit, layout.coder, *spoken, *_columns(layout, asked)]
    rows = _rows(layout, files, columns)
    keys, dims, found = _further(rows, layout, "layer", "statistic"), [], []
    for key, own in rows.groupby([keys[name] for name in keys], sort=False):
        tables: dict[str, Floats] = {}
        for name, spec in layout.layers.items():
            if absent := [one for one in spec.sum if one not in tables]:
                raise SpecError(f"layer {absent[0]!r} is summed before it is there; put it first")
            if spec.sum:
                parts = (weight * tables[one] for one, weight in spec.sum.items())
                tables[name] = sum(parts, np.zeros(()))
            else:
                words = own[spec.column].map(lambda cell: "" if pandas.isna(cell) else str(cell))
                said = words.map(spec.values).fillna(spec.otherwise).where(words != "")
                by = [own[layout.unit].map(str), own[layout.coder].map(str)]
                tables[name] = said.astype(float).groupby(by).last().unstack().to_numpy()
            for statistic, one in _agreements(tables[name]).items():
                part = dict(zip(keys, key, strict=True))
                dims.append({**part, "layer": name, "statistic": statistic})
                found.append((one.value, one.n, "" if one.value is not None else str(one.reason)))
    known = pandas.DataFrame(found, columns=["value", "n", "reason"])
    return facts(pandas.DataFrame(dims), **known)


def _agreements(table: Floats) -> dict[str, Estimate]:
    pairs = [(a, b) for b in range(table.shape[1]) for a in range(b)]
    return {
        **({"kappa": cohen_kappa(table)} if table.shape[1] == 2 else {}),
        **{f"alpha_{one}": alpha(table, one) for one in ("nominal", "ordinal", "interval")},
        "percent": percent_agreement(table, pairs),
    }


def value_facts(layout: ValuesLayout, files: Files) -> DataFrame:
    """The numbers of some files; those that share all names are averaged."""
    rows = _records(layout, files)
    keys = _further(rows, layout, "measure", "place")
    found: dict[tuple[tuple[str, str | None], ...], list[float]] = {}
    for row, key in zip(plain_rows(rows), plain_rows(keys), strict=True):
        for measure in layout.values:
            cell = row.get(measure)
            cell = len(cell) if layout.lengths and isinstance(cell, str) else cell
            for place, one in enumerate(cell if isinstance(cell, list) else [cell], 1):
                at = str(place) if isinstance(cell, list) else None
                dims = {**key, "measure": measure, "place": at}
                own = found.setdefault(tuple(dims.items()), [])
                own += [] if one in (None, "") else [_number(one, measure)]
    for known, values in list(found.items()) if layout.mean else ():
        whole = {**dict(known), **dict.fromkeys(layout.rows, TOTAL)}
        found.setdefault(tuple(whole.items()), []).extend(values)
    several = [values if len(values) > 1 else None for values in found.values()]
    return facts(
        pandas.DataFrame(map(dict, found)),
        value=[fmean(values) if values else None for values in found.values()],
        n=[len(values) if values else None for values in several],
        sd=[stdev(values) if values else None for values in several],
        reason=["" if values else "the file's cell is empty" for values in found.values()],
        block=[int(TOTAL in dict(dims).values()) for dims in found],
    )


def _number(cell: Any, measure: str) -> float:  # noqa: ANN401 - a cell of any file
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise DataError(f"{measure}: {cell!r} is no number; see `values`") from None


def _records(layout: ValuesLayout, files: Files) -> DataFrame:
    if not layout.pairs and not layout.records:
        names = [n for n in (*layout.axes, *layout.where) if n not in ("measure", "place")]
        return _rows(layout, files, [*_columns(layout, names), *layout.values])
    found: list[Mapping[str, Any]] = []
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
            fact = f"{path}: no JSON with rows under {layout.records!r} ({error})"
            raise DataError(f"{fact}; make it with --json") from error
    return pandas.DataFrame(found, dtype=object)


def match_people(
    ratings: DataFrame, folders: Sequence[RunFolder], *, has_statistics: bool
) -> Rated:
    """Match ratings with the runs of their tasks; statistics take a while."""
    known = ratings[ratings["task"].isin([folder.read().run.task for folder in folders])]
    found, settings = panels(known, folders, AgreementQuery()), AgreementSettings()
    return [(p, agreement(p, settings) if has_statistics else None) for p in found]


def agreement_facts(rated: Rated, names: Sequence[str] | None = None) -> DataFrame:
    """Every statistic of every judge; or some, as rows of models, where _p names a p-value."""
    found = [own for _, own in rated if own is not None]
    if not found:
        return facts(pandas.DataFrame())
    rows = pandas.concat(found, ignore_index=True)
    known = dict.fromkeys(rows["statistic"])
    made = []
    for name in known if names is None else names:
        if (statistic := name.removesuffix(_P)) not in known:
            raise SpecError(f"no statistic {name!r}; known: {', '.join(sorted(known))}")
        own = rows[(rows["statistic"] == statistic) & rows["judge"].fillna("").astype(bool)]
        dims = own[["task", "variant", "judge"]].assign(
            level=own["variant"].map(level_of),
            statistic=name,
            model=own["model"].replace("", None) if names is None else name,
        )
        numbers = ["value", "low", "high", "n"] if statistic == name else ["p", "n"]
        cells = own[numbers].rename(columns={"p": "value"}).to_dict("list")
        reason = own["reason"].fillna("no test" if name != statistic else "")
        made.append(facts(dims, **cells, reason=[*reason], block=0 if names is None else 2))
    return pandas.concat(made, ignore_index=True)


def rated_notes(rated: Rated) -> list[str]:
    """What was rated, by how many, and how it was averaged: a line a panel."""
    found = []
    for panel, own in rated:
        words = [] if own is None else [word for word in own["averaging"].dropna() if word]
        found += [
            f"Task {panel.task}, variant {panel.variant}: {len({*panel.documents})} documents, "
            f"{len(panel.systems)} systems, {len(panel.raters)} raters; {word}."
            for word in words[:1]
        ]
    return found


def mean_facts(rated: Rated, metric: str) -> DataFrame:
    """The mean rating of each system, by all raters, with its interval over clusters."""
    dims, found = [], []
    for panel, _ in rated:
        means = np.ma.masked_invalid(panel.ratings).mean(axis=2)
        for place, system in enumerate(panel.systems):
            column = means[:, place]
            clusters = np.array(panel.clusters)[~np.ma.getmaskarray(column)].tolist()
            one = mean_interval(column.compressed().tolist(), clusters, is_share=False)
            level = level_of(panel.variant)
            dims.append((panel.task, panel.variant, level, PEOPLE, metric, system))
            why = "" if clusters else "no ratings"
            found.append((one.value, one.low, one.high, one.n, why))
    names = ["task", "variant", "level", "judge", "metric", "model"]
    known = pandas.DataFrame(found, columns=["value", "low", "high", "n", "reason"])
    return facts(pandas.DataFrame(dims, columns=names), **known)
