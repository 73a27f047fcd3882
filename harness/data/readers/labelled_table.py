"""Tables of labelled texts to choice samples, by a column map: one sample for each text.

Rows without a text or a label are left out, and one line of the log counts them. A row that
contradicts the map raises a DataError that names the row and the key to correct.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isfinite, nan
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from harness.core import Sample
from harness.data.choices import LABELS
from harness.data.map_drafts import table_map
from harness.errors import DataError, SpecError, did_you_mean
from harness.lazy import DataFrame, pandas
from harness.parts import digest
from harness.specs.data import NEGATIVE, POSITIVE, LabelSpec, OriginalsSpec, TableSpec
from harness.storage.cells import REPLACED, cell_text, csv_text, decode_json
from harness.storage.files import write_whole
from harness.storage.tables import Quotes, TableRow, Value, read_columns, read_file
from harness.text.cleanup import without_controls
from harness.text.dedup import fingerprint, nearest_originals, normal

_log = logging.getLogger(__name__)
Cells = Mapping[str, Value]
LABEL, IMPLICITNESS = "label", "implicitness"
LONG = 8_000
"""A text of more characters is flagged `long`: models and metrics may read only a part of it."""
CONTROLS, UNREAD, TOO_LONG = "control_characters", "unread_characters", "long"
REPEATS = ("row", "text", "label", "copy_of", "copy_of_id", "copy_of_label")
"""The columns of a list of repeated texts: the row left out, and the one that counts."""
DISPUTED, MADE = "disputed_label", "made"


ROWS = ("place", "cells", "text", "label", "cluster", "flags")
"""The columns of labelled rows; `cells` are those of the table's row, by column."""


@dataclass(frozen=True, slots=True)
class OriginalRows:
    """The files that samples were made of, and the rows of each sample, by its id.

    A row is `file:line`. The first is the one that the sample was made of; the others have the
    same words.
    """

    files: tuple[Path, ...]
    places: Mapping[str, tuple[str, ...]]
    quotes: Quotes


def read(
    files: Sequence[Path],
    spec: TableSpec,
    choices: Mapping[str, str],
    *,
    repeats: Path | None = None,
) -> list[Sample]:
    """The samples of some files, in order; `choices` has the answer of each label.

    Rows with a label that is not in `choices` are left out. Rows that repeat a text are listed in
    the file `repeats`, which is written if there are any.
    """
    rows = _labelled(files, spec, choices)
    return [sample for _, sample in _asked(rows, spec, choices, repeats=repeats)]


def original_rows(
    files: Sequence[Path], spec: TableSpec, choices: Mapping[str, str]
) -> OriginalRows:
    """The rows behind the samples that `read` returns."""
    rows = _labelled(files, spec, choices)
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for text, place in zip(rows["text"], rows["place"], strict=True):
        alike[normal(text)].append(place)
    places = {
        sample.id: (place, *(at for at in alike[normal(sample.fields["text"])] if at != place))
        for place, sample in _asked(rows, spec, choices, repeats=None)
    }
    return OriginalRows(tuple(files), places, spec.quotes)


def _labelled(files: Sequence[Path], spec: TableSpec, choices: Mapping[str, str]) -> DataFrame:
    """The rows of some files that have a text and a label: ROWS."""
    if unknown := sorted(set(choices) - set(spec.label.names)):
        raise SpecError(
            f"the task's `choices` name label {unknown[0]!r}, which this table's map does not"
            f"{did_you_mean(unknown[0], list(spec.label.names))}"
        )
    found = pandas.concat([_of_file(path, spec) for path in files], ignore_index=True)
    if (rule := spec.originals) and all(MADE in flags for flags in found["flags"]):
        raise DataError(
            f"{', '.join(map(str, files))}: no labelled text has {rule.value!r} in column "
            f"{rule.column!r}, which marks originals; correct `originals` in the column map"
        )
    return found


def _asked(
    rows: DataFrame, spec: TableSpec, choices: Mapping[str, str], *, repeats: Path | None
) -> list[tuple[str, Sample]]:
    """The places of the rows that are asked about, each with its sample."""
    if spec.rows == "ratings":
        rows = _rated(rows, spec.label)
    elif spec.duplicates == "drop":
        rows = _distinct(rows, spec, repeats)
    rows = _kept(rows, rows["label"].isin(list(choices)), "a label not asked about")
    seen: Counter[str] = Counter()
    found = []
    for row in rows.itertuples():
        seen[words := _id(row.text, spec)] += 1
        name = words if seen[words] == 1 else f"{words}-{seen[words]}"
        found.append((str(row.place), _sample(row, name, spec, choices)))
    return found


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
    rows = pandas.DataFrame(texts, columns=list(ROWS[:3]), dtype=object)
    rows = _kept(rows, rows["text"] != "", "no text", of=path)
    column, left_out, rule = spec.label.column, spec.label.left_out, spec.originals
    asked = [
        not any(is_same(cell_text(cells[column]), other) for other in left_out)
        for cells in rows["cells"]
    ]
    rows = _kept(rows, asked, "a label that the map's `left_out` names", of=path)
    pairs = zip(rows["place"], rows["cells"], strict=True)
    rows["label"] = [_label(place, cells, spec.label, rule) for place, cells in pairs]
    rows = _kept(rows, rows["label"].notna(), "no label", of=path)
    named = [cell_text(c.get(spec.cluster)) if spec.cluster else "" for c in rows["cells"]]
    pairs = zip(named, rows["text"], strict=True)
    rows["cluster"] = [f"{spec.source}-{name or fingerprint(text)}" for name, text in pairs]
    rows["flags"] = [()] * len(rows)
    return _with_originals(rows, spec.label.names, rule, path) if rule else rows


def _text(row: TableRow, spec: TableSpec) -> str:
    """The text of a row, unchanged; "" where it is missing or has no visible character."""
    value = row.cells[spec.text]
    if value is not None and not isinstance(value, str):
        raise DataError(
            f"{row.place}: column {spec.text!r} holds {value!r}, which is no text; correct the "
            "row, or `text` in the column map"
        )
    return value if value and without_controls(value).strip() else ""


def _is_original(cells: Cells, rule: OriginalsSpec) -> bool:
    return rule.column not in cells or cell_text(cells[rule.column]) == rule.value


def _label(place: str, cells: Cells, spec: LabelSpec, rule: OriginalsSpec | None) -> str | None:
    value = cell_text(cells[spec.column])
    if rule is not None and not _is_original(cells, rule) and not value:
        return None
    if spec.at_least is not None:
        number = _number(place, cells, spec.column)
        return None if number is None else (POSITIVE if number >= spec.at_least else NEGATIVE)
    for name, values in spec.classes.items():
        if any(is_same(value, other) for other in values):
            return name
    if not value:
        return None
    known = [value for values in spec.classes.values() for value in values]
    raise DataError(
        f"{place}: column {spec.column!r} says {value!r}, which `label` in the column map does "
        f"not name{did_you_mean(value, known)}"
    )


def is_same(value: str, other: str) -> bool:
    """Whether two values are equal as texts or as numbers, as "1.0" and "1" are."""
    try:
        return value == other or (value != "" and float(value) == float(other))
    except ValueError:
        return False


def _number(place: str, cells: Cells, column: str) -> float | None:
    text = cell_text(cells.get(column))
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = nan
    if not isfinite(number):
        raise DataError(
            f"{place}: column {column!r} says {text!r}, which is no number; correct the row, "
            "or the column map"
        )
    return number


def _with_originals(
    rows: DataFrame, labels: Iterable[str], rule: OriginalsSpec, path: Path
) -> DataFrame:
    """The rows, those made of others flagged and in the clusters of their originals."""
    is_made = ~np.array([_is_original(cells, rule) for cells in rows["cells"]], dtype=bool)
    if not rule.with_made:
        return _kept(rows, ~is_made, "made of others (`with_made: true` takes them in)", of=path)
    rows["flags"] = [(MADE,) if made else () for made in is_made]
    if rule.likeness is None:
        return rows
    clusters: dict[object, str] = {}
    for label in labels:
        made, sources = (rows[(rows["label"] == label) & part] for part in (is_made, ~is_made))
        nearest = nearest_originals(
            list(made["text"]), list(sources["text"]), likeness=rule.likeness
        )
        pairs = zip(made.index, nearest, strict=True)
        clusters |= {at: sources["cluster"].iloc[to] for at, to in pairs if to is not None}
    rows["cluster"] = [clusters.get(at, own) for at, own in rows["cluster"].items()]
    count = is_made.sum()
    _log.warning("%s: %d of %d made rows are given to originals", path, len(clusters), count)
    return rows


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


def _distinct(rows: DataFrame, spec: TableSpec, repeats: Path | None) -> DataFrame:
    """The first row of each text, flagged where another says another label; the others listed."""
    words = rows["text"].map(normal)
    first = rows.groupby(words, sort=False)["label"].transform("first")
    is_first = ~words.duplicated()
    disputed = set(words[rows["label"] != first])
    if disputed:
        fact = "%d texts are repeated with another label; the first one counts"
        _log.warning(fact, len(disputed))
    why, kept = "a repeated text", rows.assign(words=words)[is_first].set_index("words")
    listed = [
        (row.place, row.text, row.label, of.place, _id(of.text, spec), of.label)
        for row, key in zip(rows[~is_first].itertuples(), words[~is_first], strict=True)
        for of in [kept.loc[key]]
    ]
    if listed and repeats is not None:
        write_whole(repeats, csv_text(REPEATS, listed).encode())
        why += f", listed in {repeats}"
    pairs = zip(words, rows["flags"], strict=True)
    flags = [(*own, DISPUTED) if key in disputed else own for key, own in pairs]
    return _kept(rows.assign(flags=flags), is_first, why)


def _id(text: str, spec: TableSpec) -> str:
    return f"{spec.source}-{digest(text)[:12]}"


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
        flags=(*row.flags, *_flags(row.text)),
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


def _flags(text: str) -> Iterable[str]:
    if without_controls(text) != text:
        yield CONTROLS
    if REPLACED in text:
        yield UNREAD
    if len(text) > LONG:
        yield TOO_LONG


def _kept(rows: DataFrame, mask: Iterable[bool], why: str, *, of: Path | None = None) -> DataFrame:
    """The rows of a mask; one line of the log counts what is left out, and why."""
    kept = rows[np.array([*mask], dtype=bool)].reset_index(drop=True)
    if lost := len(rows) - len(kept):
        where = f"{of}: " if of else ""
        _log.warning("%s%d of %d rows left out: %s", where, lost, len(rows), why)
    return kept
