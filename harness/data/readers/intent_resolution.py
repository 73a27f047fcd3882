"""The released intent-resolution CSV to samples, as released or with an overlay of corrections."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.core import Sample
from harness.data.readers.released import refuse_repeats
from harness.errors import DataError, did_you_mean
from harness.parts import digest
from harness.specs.data import OverlaySpec, Repair
from harness.storage.tables import TableRow, read_rows

FIELDS = {
    "context": "context_without_dialog_prefix",
    "prefix": "dialog_prefix",
    "utterance": "dialog",
    "speaker": "person1",
    "listener": "person2",
}
REFERENCES = {
    "true_intention": "true_intention",
    "literal_intention": "incorrect_literal_intention",
    "turn1_true": "turn1_true_intention_dialog",
    "turn1_literal": "turn1_literal_intention_dialog",
    "turn2_true": "turn2_response_from_true_intention",
    "turn2_literal": "turn2_response_from_literal_intention",
}
GROUPS = {
    "indirectspeech": "indirect_speech",
    "irony": "irony",
    "maxims": "maxims",
    "metaphor": "metaphor",
}
TEXTS = (*FIELDS.values(), *REFERENCES.values())
COLUMNS = ("item_id", "task", *TEXTS)
MAY_BE_BLANK = frozenset({FIELDS["context"]})


def read(files: Sequence[Path], overlay: OverlaySpec | None) -> list[Sample]:
    """One sample for each row, in the order of the files; as released without an overlay."""
    rows = [row for path in files for row in read_rows(path, COLUMNS)]
    samples = _samples(rows, overlay)
    refuse_repeats((row.place, sample.id) for row, sample in zip(rows, samples, strict=True))
    return samples


def _samples(rows: Sequence[TableRow], overlay: OverlaySpec | None) -> list[Sample]:
    if overlay is None:
        return [_sample(row, row) for row in rows]
    samples = []
    for row, released in zip(_repaired(rows, overlay.repairs), rows, strict=True):
        sample = _sample(row, released)
        fields = {name: re.sub(" {2,}", " ", text) for name, text in sample.fields.items()}
        if fields["prefix"].endswith(" "):
            fields["utterance"] = fields["utterance"].lstrip(" ")
        samples.append(replace(sample, fields=fields))
    return samples


def _sample(row: TableRow, released: TableRow) -> Sample:
    if (task := released.cells["task"].strip()) not in GROUPS:
        hint = did_you_mean(task, list(GROUPS))
        raise DataError(f"{row.place}: unknown task {task!r}{hint}; correct the cell")
    if blank := [name for name in COLUMNS if name not in MAY_BE_BLANK and not _text(row, name)]:
        remedy = "fetch the file again, or state the text in an overlay"
        raise DataError(f"{row.place}: nothing in {', '.join(blank)}; {remedy}")
    story = [_text(released, FIELDS[name]) for name in ("context", "prefix", "utterance")]
    return Sample(
        id=f"{GROUPS[task]}-{_text(released, 'item_id')}-{digest(story)[:8]}",
        fields={name: _text(row, column) for name, column in FIELDS.items()},
        references={name: (_text(row, column),) for name, column in REFERENCES.items()},
        group=GROUPS[task],
    )


def _text(row: TableRow, column: str) -> str:
    """A cell without outer white space; prefix and utterance keep it where they touch."""
    text: str = row.cells[column]
    if column == FIELDS["prefix"]:
        return text.lstrip()
    return text.rstrip() if column == FIELDS["utterance"] else text.strip()


def _repaired(rows: Sequence[TableRow], repairs: Sequence[Repair]) -> list[TableRow]:
    result = list(rows)
    for repair in repairs:
        at = _place(rows, repair)
        result[at] = _with_repair(result[at], repair)
    return result


def _place(rows: Sequence[TableRow], repair: Repair) -> int:
    """Which row a repair is of; DataError for other than one."""
    wanted = repair.row.items()
    places = [at for at, row in enumerate(rows) if all(_text(row, c) == v for c, v in wanted)]
    if len(places) != 1:
        fact = f"{len(places)} rows are that of the overlay's repair ({repair.defect}), not one"
        raise DataError(f"{rows[0].path}: {fact}; correct the overlay")
    return places[0]


def _with_repair(row: TableRow, repair: Repair) -> TableRow:
    cells = {**row.cells, **repair.set}
    for column, number in repair.take.items():
        cells[column] = row.overflow[number - 1]
    for column, texts in repair.swap.items():
        for old, new in zip(texts[::2], texts[1::2], strict=True):
            cells[column] = cells[column].replace(old, new)
    return replace(row, cells=cells)
