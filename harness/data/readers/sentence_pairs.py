"""Tables of public data sets to sentences that imply something, by a map of pairs."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core import Sample
from harness.data.readers.labelled_table import is_same
from harness.errors import DataError
from harness.parts import digest
from harness.specs.data import PairMapSpec
from harness.storage.cells import cell_text
from harness.storage.tables import TableRow, read_columns, read_file
from harness.text.cleanup import is_blank
from harness.text.dedup import fingerprint, normal

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
SENTENCE, EXPLICIT = "sentence", "explicit"


@dataclass(frozen=True, slots=True)
class Collected:
    """The sentences of some files, each once, and how many rows gave none, by the reason."""

    samples: tuple[Sample, ...]
    left_out: Mapping[str, int]


def collect(files: Sequence[Path], spec: PairMapSpec, source: str) -> Collected:
    """The sentences of some files as samples of the group `source`, in order.

    A sample has the field `sentence`, the map's `fields`, and the reference `explicit` where the
    map has a counterpart. Raises DataError for a table without a column of the map, and where no
    row is left.
    """
    tables = ((path, read_file(path, quotes=spec.quotes)) for path in files)
    rows = [row for path, t in tables for row in read_columns(path, spec.columns, table=t)]
    found: dict[str, Sample] = {}
    lost: Counter[str] = Counter()
    for row in rows:
        sentence = _joined(row, spec.sentence)
        if spec.lettered is not None:
            sentence = _option(sentence, cell_text(row.cells[spec.lettered]))
        said = sentence, _joined(row, spec.counterpart)
        key = normal(said[0])
        if reason := _why_not(row, spec, said) or ("a repeated sentence" if key in found else ""):
            lost[reason] += 1
        else:
            found[key] = _sample(row, spec, source, said)
    if not found:
        why = ", ".join(f"{count} with {reason}" for reason, count in lost.items())
        fact = f"none of {len(rows)} rows has a sentence for the map {source} ({why})"
        raise DataError(f"{', '.join(map(str, files))}: {fact}; correct its `where`")
    return Collected(tuple(found.values()), dict(lost))


def _why_not(row: TableRow, spec: PairMapSpec, said: tuple[str, str]) -> str:
    for column, values in spec.where.items():
        if not any(is_same(cell_text(row.cells[column]), value) for value in values):
            return "other values than those of `where`"
    for column, least in spec.at_least.items():
        known = _NUMBER.fullmatch(cell_text(row.cells[column]).strip())
        if known is None or float(known[0]) < least:
            return "lower numbers than those of `at_least`"
    return "" if said[0] and (said[1] or not spec.counterpart) else "no text"


def _option(text: str, letter: str) -> str:
    """The option of a letter in a text such as "Which? (A) One. (B) Two."; "" without it."""
    parts = re.split(r"\(([A-Z])\)", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True)).get(letter.strip(" ()"), "").strip()


def _joined(row: TableRow, columns: Sequence[str]) -> str:
    """The texts of some columns, joined by a blank; "" where one of them has no visible text."""
    texts = [cell_text(row.cells[name]).strip() for name in columns]
    return " ".join(texts) if not any(map(is_blank, texts)) else ""


def _sample(row: TableRow, spec: PairMapSpec, source: str, said: tuple[str, str]) -> Sample:
    sentence, explicit = said
    fields = {name: cell_text(row.cells[column]) for name, column in spec.fields.items()}
    shared = cell_text(row.cells[spec.cluster]) if spec.cluster else ""
    return Sample(
        id=f"{source}-{digest(sentence)[:12]}",
        fields={SENTENCE: sentence, **fields},
        references={EXPLICIT: (explicit,)} if explicit else {},
        group=source,
        cluster=f"{source}-{shared or fingerprint(sentence)}",
    )
