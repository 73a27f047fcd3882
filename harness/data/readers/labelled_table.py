"""Tables of labelled texts to choice samples, by a column map: one sample a text.

What a row cannot be asked about - no text, no label - is left out and told of in one line of
the log; what contradicts the map is an error that names the row and the key to correct.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.core import Sample
from harness.data.choices import LABELS
from harness.errors import DataError, SpecError, did_you_mean
from harness.parts import digest
from harness.specs.tables import NEGATIVE, POSITIVE, LabelSpec, OriginalsSpec, TableSpec
from harness.storage.cells import REPLACED, cell_text
from harness.storage.tables import Columns, Value, read_columns
from harness.text.controls import without_controls
from harness.text.dedup import fingerprint, nearest_originals, normal

_log = logging.getLogger(__name__)
_Kept = TypeVar("_Kept")
LABEL, IMPLICITNESS = "label", "implicitness"
LONG = 8_000
"""Characters from which on a text is flagged `long`: models and metrics may read a part of it."""
CONTROLS, UNREAD, TOO_LONG = "control_characters", "unread_characters", "long"
DISPUTED, MADE = "disputed_label", "made"


@dataclass(frozen=True, slots=True)
class LabelledItem:
    """One text with its label, as its row or its raters say; `cells` are the row's, by column."""

    text: str
    label: str
    place: str
    cells: Mapping[str, Value]
    cluster: str
    flags: tuple[str, ...] = ()


def read(files: Sequence[Path], spec: TableSpec, choices: Mapping[str, str]) -> list[Sample]:
    """The samples of some files, in their order; `choices` gives the answer that each label takes.

    Of labels that have no choice rows are left out.
    """
    if unknown := sorted(set(choices) - set(spec.label.names)):
        raise SpecError(
            f"the task's `choices` name label {unknown[0]!r}, which this table's map does not"
            f"{did_you_mean(unknown[0], list(spec.label.names))}"
        )
    items = [item for path in files for item in _items(path, spec)]
    if (rule := spec.originals) and all(MADE in item.flags for item in items):
        raise DataError(
            f"{', '.join(map(str, files))}: no labelled text has {rule.value!r} in column "
            f"{rule.column!r}, which tells originals; correct `originals` in the column map"
        )
    if spec.rows == "ratings":
        items = _rated(items, spec)
    elif spec.duplicates == "drop":
        items = _distinct(items)
    items = _told(
        items, [item for item in items if item.label in choices], "a label not asked about"
    )
    seen: Counter[str] = Counter()
    return [_sample(item, spec, choices=choices, seen=seen) for item in items]


def _items(path: Path, spec: TableSpec) -> list[LabelledItem]:
    """The rows of a file that can be asked about, those made of others in their clusters."""
    needed = [name for name in spec.columns if name not in spec.optional]
    found = read_columns(path, needed, optional=spec.optional, quotes=spec.quotes)
    if spec.cluster in found.absent:
        _log.warning(
            "%s: no column %s: each text counts as independent of the others", path, spec.cluster
        )
    rows = [_row(found, at) for at in range(len(found.lines))]
    rows = _told(rows, [row for row in rows if _text(row, spec)], "no text", of=path)
    asked = [row for row in rows if not _is_left_out(row, spec.label)]
    rows = _told(rows, asked, "a label that the map's `left_out` names", of=path)
    labelled = [(row, _label_of(row, spec)) for row in rows]
    kept = [(row, label) for row, label in labelled if label is not None]
    _told(rows, kept, "no label", of=path)
    items = [
        LabelledItem(_text(row, spec), label, row.place, row.cells, _cluster(row, spec))
        for row, label in kept
    ]
    return _linked(items, spec, spec.originals, path=path) if spec.originals else items


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of a file: where it stands, and its cells by column."""

    place: str
    cells: Mapping[str, Value]


def _row(found: Columns, at: int) -> _Row:
    return _Row(found.place(at), {name: values[at] for name, values in found.values.items()})


def _text(row: _Row, spec: TableSpec) -> str:
    """The text of a row as it stands; nothing where there is none, or none that can be seen."""
    value = row.cells[spec.text]
    if value is not None and not isinstance(value, str):
        raise DataError(
            f"{row.place}: column {spec.text!r} holds {value!r}, which is no text; correct the "
            "row, or `text` in the column map"
        )
    return value if value and without_controls(value).strip() else ""


def _label_of(row: _Row, spec: TableSpec) -> str | None:
    """The label of a row; null too where the row was made of another and its cell is empty."""
    rule = spec.originals
    is_made = rule is not None and not _is_own(row.cells, rule)
    if is_made and not cell_text(row.cells[spec.label.column]):
        return None
    return _label(row, spec.label)


def _is_own(cells: Mapping[str, Value], rule: OriginalsSpec) -> bool:
    """Whether a row is an original, as all are where no column tells."""
    return rule.column not in cells or cell_text(cells[rule.column]) == rule.value


def _label(row: _Row, spec: LabelSpec) -> str | None:
    """The label of a row; null where it has none."""
    value = row.cells[spec.column]
    if spec.at_least is not None:
        number = _number(row, spec.column)
        return None if number is None else (POSITIVE if number >= spec.at_least else NEGATIVE)
    said = cell_text(value)
    for name, values in spec.classes.items():
        if any(_is_same(said, other) for other in values):
            return name
    if not said:
        return None
    known = [value for values in spec.classes.values() for value in values]
    raise DataError(
        f"{row.place}: column {spec.column!r} says {said!r}, which `label` in the column map does "
        f"not name{did_you_mean(said, known)}"
    )


def _is_left_out(row: _Row, spec: LabelSpec) -> bool:
    """Whether the map says not to ask about rows with this label."""
    said = cell_text(row.cells[spec.column]) if spec.left_out else ""
    return any(_is_same(said, other) for other in spec.left_out)


def _is_same(said: str, other: str) -> bool:
    """Whether two values are the same, "1.0" and "1" among them."""
    try:
        return said == other or (said != "" and float(said) == float(other))
    except ValueError:
        return False


def _number(row: _Row, column: str) -> float | None:
    """The number in a cell, null where it is empty."""
    said = cell_text(row.cells.get(column))
    if not said:
        return None
    try:
        number = float(said)
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):
        raise DataError(
            f"{row.place}: column {column!r} says {said!r}, which is no number; correct the row, "
            "or the column map"
        )
    return number


def _cluster(row: _Row, spec: TableSpec) -> str:
    """What a row shares with others of its original: the named cell, else the words of its text."""
    named = cell_text(row.cells.get(spec.cluster)) if spec.cluster else ""
    return f"{spec.source}-{named or fingerprint(_text(row, spec))}"


def _linked(
    items: Sequence[LabelledItem], spec: TableSpec, rule: OriginalsSpec, *, path: Path
) -> list[LabelledItem]:
    """The originals and, where they are asked about, what was made of them, in its clusters."""
    is_own = [_is_own(item.cells, rule) for item in items]
    own = [item for item, is_original in zip(items, is_own, strict=True) if is_original]
    if not rule.with_made:
        return _told(items, own, "made of others (`with_made: true` takes them in)", of=path)
    clusters: dict[int, str] = {}
    for label in spec.label.names if rule.likeness is not None else ():
        places = [at for at, item in enumerate(items) if item.label == label and not is_own[at]]
        sources = [item for item in own if item.label == label]
        found = nearest_originals(
            [items[at].text for at in places],
            [item.text for item in sources],
            likeness=rule.likeness or 1.0,
        )
        pairs = zip(places, found, strict=True)
        clusters |= {at: sources[to].cluster for at, to in pairs if to is not None}
    if rule.likeness is not None:
        made = len(items) - len(own)
        _log.warning("%s: %d of %d made rows are given to originals", path, len(clusters), made)
    return [
        item
        if is_own[at]
        else replace(item, cluster=clusters.get(at, item.cluster), flags=(*item.flags, MADE))
        for at, item in enumerate(items)
    ]


def _rated(items: Sequence[LabelledItem], spec: TableSpec) -> list[LabelledItem]:
    """One item for the raters of each text: the mean of numbers, else what most of them say."""
    by_text: defaultdict[str, list[LabelledItem]] = defaultdict(list)
    for item in items:
        by_text[normal(item.text)].append(item)
    found = [_agreed(members, spec.label) for members in by_text.values()]
    held = [item for item in found if item is not None]
    return _told(found, held, "raters who are equally many for two labels")


def _agreed(items: Sequence[LabelledItem], spec: LabelSpec) -> LabelledItem | None:
    """What the raters of one text make of it together; null where they are equally divided."""
    first = items[0]
    if spec.at_least is not None:
        numbers = [_number(_Row(item.place, item.cells), spec.column) for item in items]
        mean = fsum(n for n in numbers if n is not None) / len(numbers)
        return replace(first, label=POSITIVE if mean >= spec.at_least else NEGATIVE)
    counts = Counter(item.label for item in items).most_common(2)
    if len(counts) > 1 and counts[0][1] == counts[1][1]:
        return None
    return replace(first, label=counts[0][0])


def _distinct(items: Sequence[LabelledItem]) -> list[LabelledItem]:
    """The first of the items of the same words; flagged where a later one has another label."""
    first: dict[str, LabelledItem] = {}
    disputed = 0
    for item in items:
        held = first.setdefault(words := normal(item.text), item)
        if held.label != item.label and DISPUTED not in held.flags:
            first[words] = replace(held, flags=(*held.flags, DISPUTED))
            disputed += 1
    if disputed:
        _log.warning(
            "%d texts stand there again with another label; the first one counts", disputed
        )
    return _told(items, list(first.values()), "a text that stands there already")


def _sample(
    item: LabelledItem, spec: TableSpec, *, choices: Mapping[str, str], seen: Counter[str]
) -> Sample:
    """The sample of an item; `seen` counts the texts so far, which ids are told apart by."""
    words = f"{spec.source}-{digest(item.text)[:12]}"
    seen[words] += 1
    group = cell_text(item.cells.get(spec.group)) if spec.group else ""
    is_measured = spec.implicitness is not None
    number = _number(_Row(item.place, item.cells), spec.implicitness or "") if is_measured else None
    references = {
        LABEL: (item.label,),
        LABELS: tuple(choices),
        "subtlety": _texts(item.cells, spec.subtlety),
        "properties": _texts(item.cells, spec.properties),
        "origin": _texts(item.cells, spec.origin),
        **{name: _texts(item.cells, column) for name, column in spec.keep.items()},
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


def _texts(cells: Mapping[str, Value], column: str | None) -> tuple[str, ...]:
    """What a cell says: a list's parts, or those of a list written as JSON, else its text."""
    value = cells.get(column) if column else None
    if isinstance(value, str) and value.startswith("["):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError:
            return (value,)
    parts = value if isinstance(value, list) else [value]
    return tuple(filter(None, map(cell_text, parts)))


def _flags(text: str) -> Iterable[str]:
    """What may keep a model or a metric from reading all of a text."""
    if without_controls(text) != text:
        yield CONTROLS
    if REPLACED in text:
        yield UNREAD
    if len(text) > LONG:
        yield TOO_LONG


def _told(
    before: Sequence[object], after: list[_Kept], why: str, *, of: Path | None = None
) -> list[_Kept]:
    """What is kept, after one line of the log that counts what is not."""
    if lost := len(before) - len(after):
        where = f"{of}: " if of else ""
        _log.warning("%s%d of %d rows left out: %s", where, lost, len(before), why)
    return after
