"""Tables of labelled texts to choice samples, by a column map: one sample for each text."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from harness.core import Sample
from harness.data.choices import LABELS
from harness.data.map_drafts import table_map
from harness.errors import DataError, check_names, did_you_mean
from harness.lazy import DataFrame, pandas
from harness.parts import digest
from harness.specs.data import NEGATIVE, POSITIVE, LabelSpec, OriginalsSpec, TableSpec
from harness.storage.cells import cell_text, decode_json, finite
from harness.storage.tables import FileFormat, Table, TableRow, Value, read_columns, read_file
from harness.text.cleanup import without_controls
from harness.text.dedup import fingerprint, nearest_originals, normal

_log = logging.getLogger(__name__)
Cells = Mapping[str, Value]
LABEL, IMPLICITNESS = "label", "implicitness"
DISPUTED, MADE = "disputed_label", "made"


@dataclass(frozen=True, slots=True)
class OriginalRows:
    """The files that samples were made of, their rows as one table, and the row of each sample."""

    files: tuple[Path, ...]
    table: Table
    places: Sequence[str]
    rows: Mapping[str, int]


def read(files: Sequence[Path], spec: TableSpec, choices: Mapping[str, str]) -> list[Sample]:
    """The samples of some files, in order; `choices` has the answer of each label.

    Rows without a text, without a label, or with a label that is not in `choices` are left out, and
    lines of the log count them. DataError names a row that contradicts the map.
    """
    return [sample for _, sample in _asked(_labelled(files, spec, choices), spec, choices)]


def original_rows(
    files: Sequence[Path], spec: TableSpec, choices: Mapping[str, str]
) -> OriginalRows:
    """The rows behind the samples that `read` returns."""
    tables = [read_file(path, quotes=spec.quotes) for path in files]
    pairs = zip(files, tables, strict=True)
    places = [f"{path}:{line}" for path, table in pairs for line in table.lines]
    row_at = {place: row for row, place in enumerate(places)}
    asked = _asked(_labelled(files, spec, choices), spec, choices)
    rows = {sample.id: row_at[place] for place, sample in asked}
    names = [Path(place).name for place in places]
    return OriginalRows(tuple(files), _joined(tables), names, rows)


def _joined(tables: Sequence[Table]) -> Table:
    """The rows of some tables as one, with the columns of all."""
    if len(tables) == 1:
        return tables[0]
    columns = tuple(dict.fromkeys(name for table in tables for name in table.columns))
    lines = [line for table in tables for line in table.lines]

    def cells(at: int) -> list[object]:
        pairs = [
            (one, [n for n, name in enumerate(one.columns) if name == columns[at]])
            for one in tables
        ]
        return [c for one, own in pairs for c in (one.cells(own[0]) if own else [None] * len(one))]

    kinds = {table.file_format for table in tables}
    return Table(kinds.pop() if len(kinds) == 1 else FileFormat.PARQUET, columns, lines, cells)


def _labelled(files: Sequence[Path], spec: TableSpec, choices: Mapping[str, str]) -> DataFrame:
    """The rows of some files that have a text and a label."""
    fact, then = "the task's `choices` name label", ", which this table's map does not"
    check_names(fact, sorted(choices), spec.label.names, then=then)
    found = pandas.concat([_of_file(path, spec) for path in files], ignore_index=True)
    if (rule := spec.originals) and all(MADE in flags for flags in found["flags"]):
        fact = f"no labelled text has {rule.value!r} in column {rule.column!r}"
        raise DataError(f"{', '.join(map(str, files))}: {fact}; correct `originals` in the map")
    return found


def _asked(
    rows: DataFrame, spec: TableSpec, choices: Mapping[str, str]
) -> list[tuple[str, Sample]]:
    """The places of the rows that are asked about, each with its sample."""
    if spec.rows == "ratings":
        rows = _rated(rows, spec.label)
    elif spec.duplicates == "drop":
        rows = _distinct(rows)
    rows = _kept(rows, rows["label"].isin(list(choices)), "a label not asked about")
    ids = f"{spec.source}-" + rows["text"].map(lambda text: digest(text)[:12])
    count = ids.groupby(ids).cumcount()
    ids = ids.where(count == 0, ids + "-" + (count + 1).astype(str))
    pairs = zip(rows.itertuples(), ids, strict=True)
    return [(str(row.place), _sample(row, name, spec, choices)) for row, name in pairs]


def _of_file(path: Path, spec: TableSpec) -> DataFrame:
    needed = [name for name in spec.columns if name not in spec.optional]
    table = read_file(path, quotes=spec.quotes)
    try:
        read = read_columns(path, needed, optional=spec.optional, table=table)
    except DataError as error:
        raise DataError(
            f"{error}; or, for a table of your own, fill in this map and name its file with --map "
            f"FILE.yaml:\n\n{table_map(path, table, spec.label.names)}\n"
        ) from error
    if spec.cluster and spec.cluster not in read[0].cells:
        _log.warning(
            "%s: no column %s: each text counts as independent of the others", path, spec.cluster
        )
    texts = [(row.place, row.cells, _text(row, spec)) for row in read]
    rows = pandas.DataFrame(texts, columns=["place", "cells", "text"], dtype=object)
    rows = _kept(rows, rows["text"] != "", "no text", of=path)
    values = [cell_text(cells[spec.label.column]) for cells in rows["cells"]]
    asked = [not _is_any(value, spec.label.left_out) for value in values]
    rows = _kept(rows, asked, "a label that the map's `left_out` names", of=path)
    pairs = zip(rows["place"], rows["cells"], strict=True)
    rows["label"] = [_label(place, cells, spec) for place, cells in pairs]
    rows = _kept(rows, rows["label"].notna(), "no label", of=path)
    pairs = zip(rows["cells"], rows["text"], strict=True)
    named = [cell_text(cells.get(spec.cluster or "")) or fingerprint(t) for cells, t in pairs]
    rows["cluster"] = [f"{spec.source}-{name}" for name in named]
    rows["flags"] = [()] * len(rows)
    return _with_originals(rows, spec, spec.originals, path) if spec.originals else rows


def _text(row: TableRow, spec: TableSpec) -> str:
    """The text of a row, unchanged; "" where it is missing or has no visible character."""
    value = row.cells[spec.text]
    if value is not None and not isinstance(value, str):
        fact = f"{row.place}: column {spec.text!r} holds {value!r}, which is no text"
        raise DataError(f"{fact}; correct the row, or `text` in the column map")
    return value if value and without_controls(value).strip() else ""


def _is_original(cells: Cells, rule: OriginalsSpec) -> bool:
    return rule.column not in cells or cell_text(cells[rule.column]) == rule.value


def _label(place: str, cells: Cells, spec: TableSpec) -> str | None:
    label, rule = spec.label, spec.originals
    value = cell_text(cells[label.column])
    if not value and rule is not None and not _is_original(cells, rule):
        return None
    if label.at_least is not None:
        number = _number(place, cells, label.column)
        return None if number is None else (POSITIVE if number >= label.at_least else NEGATIVE)
    found = next((name for name, known in label.classes.items() if _is_any(value, known)), None)
    if found is None and value:
        close = did_you_mean(value, [one for known in label.classes.values() for one in known])
        fact = f"{place}: column {label.column!r} says {value!r}"
        raise DataError(f"{fact}, which `label` in the column map does not name{close}")
    return found


def _is_any(value: str, others: Iterable[str]) -> bool:
    return any(is_same(value, other) for other in others)


def is_same(value: str, other: str) -> bool:
    """Whether two values are equal as texts or as numbers, as "1.0" and "1" are."""
    try:
        return value == other or (value != "" and float(value) == float(other))
    except ValueError:
        return False


def _number(place: str, cells: Cells, column: str) -> float | None:
    text = cell_text(cells.get(column))
    try:
        return finite(text)
    except ValueError as error:
        fact = f"{place}: column {column!r} says {text!r}, which is no number"
        raise DataError(f"{fact}; correct the row, or the column map") from error


def _with_originals(rows: DataFrame, spec: TableSpec, rule: OriginalsSpec, path: Path) -> DataFrame:
    """The rows, those made of others flagged and in the clusters of their originals."""
    is_made = ~np.array([_is_original(cells, rule) for cells in rows["cells"]], dtype=bool)
    if not rule.with_made:
        return _kept(rows, ~is_made, "made of others (`with_made: true` takes them in)", of=path)
    rows["flags"] = [(MADE,) if made else () for made in is_made]
    if rule.likeness is None:
        return rows
    clusters: dict[object, str] = {}
    for label in spec.label.names:
        made, sources = (rows[(rows["label"] == label) & part] for part in (is_made, ~is_made))
        texts = (part["text"].tolist() for part in (made, sources))
        pairs = zip(made.index, nearest_originals(*texts, likeness=rule.likeness), strict=True)
        clusters |= {at: sources["cluster"].iloc[to] for at, to in pairs if to is not None}
    said = "%s: %d of %d made rows are given to originals"
    _log.warning(said, path, len(clusters), is_made.sum())
    return rows.assign(cluster=[clusters.get(at, own) for at, own in rows["cluster"].items()])


def _rated(rows: DataFrame, spec: LabelSpec) -> DataFrame:
    """The first row of each text, labelled by the mean of its ratings or by most of its raters."""
    labels = dict[int, str | None]()
    for _, own in rows.groupby(rows["text"].map(normal), sort=False):
        if spec.at_least is not None:
            pairs = zip(own["place"], own["cells"], strict=True)
            mean = fsum(_number(*one, spec.column) or 0.0 for one in pairs) / len(own)
            labels[own.index[0]] = POSITIVE if mean >= spec.at_least else NEGATIVE
        else:
            (label, most), *others = Counter(own["label"]).most_common(2)
            labels[own.index[0]] = None if others and others[0][1] == most else label
    merged = rows.loc[list(labels)].assign(label=list(labels.values()))
    why = "raters who are equally many for two labels"
    return _kept(merged, merged["label"].notna(), why)


def _distinct(rows: DataFrame) -> DataFrame:
    """The first row of each text, flagged where another says another label."""
    words = rows["text"].map(normal)
    first = rows.groupby(words, sort=False)["label"].transform("first")
    is_disputed = words.isin(words[rows["label"] != first])
    if count := words[is_disputed].nunique():
        _log.warning("%d texts are repeated with another label; the first one counts", count)
    pairs = zip(rows["flags"], is_disputed, strict=True)
    flags = [(*own, DISPUTED) if is_one else own for own, is_one in pairs]
    return _kept(rows.assign(flags=flags), ~words.duplicated(), "a repeated text")


def _sample(row: Any, name: str, spec: TableSpec, choices: Mapping[str, str]) -> Sample:  # noqa: ANN401 - a row of a frame
    group = cell_text(row.cells.get(spec.group)) if spec.group else ""
    number = _number(row.place, row.cells, spec.implicitness) if spec.implicitness else None
    kept = {"subtlety": spec.subtlety, "properties": spec.properties, "origin": spec.origin}
    columns = {name: column or "" for name, column in (kept | {**spec.keep}).items()}
    references = {
        LABEL: (row.label,),
        LABELS: tuple(choices),
        **{name: texts_of(row.cells.get(column)) for name, column in columns.items()},
        IMPLICITNESS: () if number is None else (repr(number),),
    }
    return Sample(
        id=name,
        fields={"text": row.text},
        references={name: texts for name, texts in references.items() if texts},
        choices=tuple(choices.values()),
        gold=choices[row.label],
        group=group or row.label,
        cluster=row.cluster,
        flags=row.flags,
    )


def texts_of(value: Value) -> tuple[str, ...]:
    """The texts of a cell: those of a list, also of one written as JSON; none of an empty cell."""
    if isinstance(value, str) and value.startswith("["):
        try:
            value = decode_json(value)
        except msgspec.DecodeError:
            return (value,)
    parts = value if isinstance(value, list) else [value]
    return tuple(filter(None, map(cell_text, parts)))


def _kept(rows: DataFrame, mask: Iterable[bool], why: str, *, of: Path | None = None) -> DataFrame:
    """The rows of a mask; one line of the log counts what is left out, and why."""
    kept = rows[np.array([*mask], dtype=bool)].reset_index(drop=True)
    if lost := len(rows) - len(kept):
        where = f"{of}: " if of else ""
        _log.warning("%s%d of %d rows left out: %s", where, lost, len(rows), why)
    return kept
