"""Tables of labelled texts to choice samples, by a column map: one sample for each text.

Rows without a text or a label are left out, and one line of the log counts them. A row that
contradicts the map raises a DataError that names the row and the key to correct.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, isfinite, nan
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.core import Sample
from harness.data.choices import LABELS
from harness.data.map_drafts import table_map
from harness.errors import DataError, SpecError, did_you_mean
from harness.parts import digest
from harness.specs.data import NEGATIVE, POSITIVE, LabelSpec, OriginalsSpec, TableSpec
from harness.storage.cells import REPLACED, cell_text, csv_text, decode_json
from harness.storage.files import write_whole
from harness.storage.tables import NoColumn, Quotes, TableRow, Value, read_columns
from harness.text.cleanup import without_controls
from harness.text.dedup import fingerprint, nearest_originals, normal

_log = logging.getLogger(__name__)
_Kept = TypeVar("_Kept")
LABEL, IMPLICITNESS = "label", "implicitness"
LONG = 8_000
"""A text of more characters is flagged `long`: models and metrics may read only a part of it."""
CONTROLS, UNREAD, TOO_LONG = "control_characters", "unread_characters", "long"
REPEATS = ("row", "text", "label", "copy_of", "copy_of_id", "copy_of_label")
"""The columns of a list of repeated texts: the row left out, and the one that counts."""
DISPUTED, MADE = "disputed_label", "made"


@dataclass(frozen=True, slots=True)
class LabelledItem:
    """One text with the label of its row or its raters; `cells` are the row's, by column."""

    text: str
    label: str
    place: str
    cells: Mapping[str, Value]
    cluster: str
    flags: tuple[str, ...] = ()


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
    items = _all_items(files, spec, choices)
    return [sample for _, sample in _asked(items, spec, choices, repeats=repeats)]


def original_rows(
    files: Sequence[Path], spec: TableSpec, choices: Mapping[str, str]
) -> OriginalRows:
    """The rows behind the samples that `read` returns."""
    items = _all_items(files, spec, choices)
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        alike[normal(item.text)].append(item.place)
    places = {
        sample.id: (item.place, *(at for at in alike[normal(item.text)] if at != item.place))
        for item, sample in _asked(items, spec, choices, repeats=None)
    }
    return OriginalRows(tuple(files), places, spec.quotes)


def _all_items(
    files: Sequence[Path], spec: TableSpec, choices: Mapping[str, str]
) -> list[LabelledItem]:
    if unknown := sorted(set(choices) - set(spec.label.names)):
        raise SpecError(
            f"the task's `choices` name label {unknown[0]!r}, which this table's map does not"
            f"{did_you_mean(unknown[0], list(spec.label.names))}"
        )
    items = [item for path in files for item in _items(path, spec)]
    if (rule := spec.originals) and all(MADE in item.flags for item in items):
        raise DataError(
            f"{', '.join(map(str, files))}: no labelled text has {rule.value!r} in column "
            f"{rule.column!r}, which marks originals; correct `originals` in the column map"
        )
    return items


def _asked(
    items: Sequence[LabelledItem],
    spec: TableSpec,
    choices: Mapping[str, str],
    *,
    repeats: Path | None,
) -> list[tuple[LabelledItem, Sample]]:
    """The items that are asked about, each with its sample."""
    if spec.rows == "ratings":
        items = _rated(items, spec)
    elif spec.duplicates == "drop":
        items = _distinct(items, spec, repeats)
    asked = [item for item in items if item.label in choices]
    seen: Counter[str] = Counter()
    return [
        (item, _sample(item, spec, choices=choices, seen=seen))
        for item in _log_left_out(items, asked, "a label not asked about")
    ]


def _items(path: Path, spec: TableSpec) -> list[LabelledItem]:
    needed = [name for name in spec.columns if name not in spec.optional]
    try:
        rows = read_columns(path, needed, optional=spec.optional, quotes=spec.quotes)
    except NoColumn as error:
        raise DataError(
            f"{error}; or, for a table of your own, fill in this map and name its file with --map "
            f"FILE.yaml:\n\n{table_map(path, error.table, spec.label.names)}\n"
        ) from error
    if spec.cluster and spec.cluster not in rows[0].cells:
        _log.warning(
            "%s: no column %s: each text counts as independent of the others", path, spec.cluster
        )
    rows = _log_left_out(rows, [row for row in rows if _text(row, spec)], "no text", of=path)
    column, left_out = spec.label.column, spec.label.left_out
    asked = [r for r in rows if not any(is_same(cell_text(r.cells[column]), o) for o in left_out)]
    rows = _log_left_out(rows, asked, "a label that the map's `left_out` names", of=path)
    labelled = [(row, _label(row, spec.label, spec.originals)) for row in rows]
    items = []
    for row, label in labelled:
        if label is not None:
            named = cell_text(row.cells.get(spec.cluster)) if spec.cluster else ""
            cluster = f"{spec.source}-{named or fingerprint(_text(row, spec))}"
            items.append(LabelledItem(_text(row, spec), label, row.place, row.cells, cluster))
    _log_left_out(rows, items, "no label", of=path)
    return _linked(items, spec, spec.originals, path=path) if spec.originals else items


def _text(row: TableRow, spec: TableSpec) -> str:
    """The text of a row, unchanged; "" where it is missing or has no visible character."""
    value = row.cells[spec.text]
    if value is not None and not isinstance(value, str):
        raise DataError(
            f"{row.place}: column {spec.text!r} holds {value!r}, which is no text; correct the "
            "row, or `text` in the column map"
        )
    return value if value and without_controls(value).strip() else ""


def _is_original(cells: Mapping[str, Value], rule: OriginalsSpec) -> bool:
    return rule.column not in cells or cell_text(cells[rule.column]) == rule.value


def _label(row: TableRow, spec: LabelSpec, rule: OriginalsSpec | None) -> str | None:
    value = cell_text(row.cells[spec.column])
    if rule is not None and not _is_original(row.cells, rule) and not value:
        return None
    if spec.at_least is not None:
        number = _number(row, spec.column)
        return None if number is None else (POSITIVE if number >= spec.at_least else NEGATIVE)
    for name, values in spec.classes.items():
        if any(is_same(value, other) for other in values):
            return name
    if not value:
        return None
    known = [value for values in spec.classes.values() for value in values]
    raise DataError(
        f"{row.place}: column {spec.column!r} says {value!r}, which `label` in the column map does "
        f"not name{did_you_mean(value, known)}"
    )


def is_same(value: str, other: str) -> bool:
    """Whether two values are equal as texts or as numbers, as "1.0" and "1" are."""
    try:
        return value == other or (value != "" and float(value) == float(other))
    except ValueError:
        return False


def _number(row: TableRow | LabelledItem, column: str) -> float | None:
    text = cell_text(row.cells.get(column))
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = nan
    if not isfinite(number):
        raise DataError(
            f"{row.place}: column {column!r} says {text!r}, which is no number; correct the row, "
            "or the column map"
        )
    return number


def _linked(
    items: Sequence[LabelledItem], spec: TableSpec, rule: OriginalsSpec, *, path: Path
) -> list[LabelledItem]:
    is_original = [_is_original(item.cells, rule) for item in items]
    originals = [items[at] for at, is_one in enumerate(is_original) if is_one]
    if not rule.with_made:
        why = "made of others (`with_made: true` takes them in)"
        return _log_left_out(items, originals, why, of=path)
    clusters: dict[int, str] = {}
    for label in spec.label.names if rule.likeness is not None else ():
        edited = [at for at, one in enumerate(items) if one.label == label and not is_original[at]]
        sources = [item for item in originals if item.label == label]
        nearest = nearest_originals(
            [items[at].text for at in edited],
            [item.text for item in sources],
            likeness=rule.likeness or 1.0,
        )
        pairs = zip(edited, nearest, strict=True)
        clusters |= {at: sources[to].cluster for at, to in pairs if to is not None}
    if rule.likeness is not None:
        count = len(items) - len(originals)
        _log.warning("%s: %d of %d made rows are given to originals", path, len(clusters), count)
    return [
        item
        if is_original[at]
        else replace(item, cluster=clusters.get(at, item.cluster), flags=(*item.flags, MADE))
        for at, item in enumerate(items)
    ]


def _rated(items: Sequence[LabelledItem], spec: TableSpec) -> list[LabelledItem]:
    by_text: defaultdict[str, list[LabelledItem]] = defaultdict(list)
    for item in items:
        by_text[normal(item.text)].append(item)
    merged = [_merged_ratings(ratings, spec.label) for ratings in by_text.values()]
    kept = [item for item in merged if item is not None]
    return _log_left_out(merged, kept, "raters who are equally many for two labels")


def _merged_ratings(items: Sequence[LabelledItem], spec: LabelSpec) -> LabelledItem | None:
    """One item, labelled by the mean of its ratings or by most of its raters; None for a tie."""
    first = items[0]
    if spec.at_least is not None:
        mean = fsum(_number(item, spec.column) or 0.0 for item in items) / len(items)
        return replace(first, label=POSITIVE if mean >= spec.at_least else NEGATIVE)
    (label, most), *others = Counter(item.label for item in items).most_common(2)
    return None if others and others[0][1] == most else replace(first, label=label)


def _distinct(
    items: Sequence[LabelledItem], spec: TableSpec, repeats: Path | None
) -> list[LabelledItem]:
    first: dict[str, LabelledItem] = {}
    rows: list[tuple[str, ...]] = []
    disputed = 0
    for item in items:
        kept = first.setdefault(words := normal(item.text), item)
        if kept.place != item.place:
            of = (kept.place, _id(kept, spec), kept.label)
            rows.append((item.place, item.text, item.label, *of))
        if kept.label != item.label and DISPUTED not in kept.flags:
            first[words] = replace(kept, flags=(*kept.flags, DISPUTED))
            disputed += 1
    if disputed:
        _log.warning("%d texts are repeated with another label; the first one counts", disputed)
    why = "a repeated text"
    if rows and repeats is not None:
        write_whole(repeats, csv_text(REPEATS, rows).encode())
        why += f", listed in {repeats}"
    return _log_left_out(items, list(first.values()), why)


def _id(item: LabelledItem, spec: TableSpec) -> str:
    return f"{spec.source}-{digest(item.text)[:12]}"


def _sample(
    item: LabelledItem, spec: TableSpec, *, choices: Mapping[str, str], seen: Counter[str]
) -> Sample:
    words = _id(item, spec)
    seen[words] += 1
    group = cell_text(item.cells.get(spec.group)) if spec.group else ""
    number = _number(item, spec.implicitness) if spec.implicitness is not None else None
    kept = {"subtlety": spec.subtlety, "properties": spec.properties, "origin": spec.origin}
    columns = {name: column or "" for name, column in (kept | {**spec.keep}).items()}
    references = {
        LABEL: (item.label,),
        LABELS: tuple(choices),
        **{name: texts_of(item.cells.get(column)) for name, column in columns.items()},
        IMPLICITNESS: () if number is None else (repr(number),),
    }
    return Sample(
        id=words if seen[words] == 1 else f"{words}-{seen[words]}",
        fields={"text": item.text},
        references={name: texts for name, texts in references.items() if texts},
        choices=tuple(choices.values()),
        gold=choices[item.label],
        group=group or item.label,
        cluster=item.cluster,
        flags=(*item.flags, *_flags(item.text)),
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


def _log_left_out(
    before: Sequence[object], after: list[_Kept], why: str, *, of: Path | None = None
) -> list[_Kept]:
    """Returns `after`; one line of the log counts what is left out of `before`, and why."""
    if lost := len(before) - len(after):
        where = f"{of}: " if of else ""
        _log.warning("%s%d of %d rows left out: %s", where, lost, len(before), why)
    return after
