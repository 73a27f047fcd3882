"""The released intent-resolution CSV to samples, as released or with an overlay of corrections.

Ids come from the released text, so corrections do not change them. Cells lose outer white space,
but not where prefix and utterance meet. Nothing else changes but what the overlay names; with an
overlay, runs of blanks in the story become one.
"""

import re
from collections.abc import Mapping, Sequence
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
    repaired = _repaired(rows, overlay.repairs if overlay else ())
    samples = [_sample(row, old) for row, old in zip(repaired, rows, strict=True)]
    refuse_repeats((row.place, sample.id) for row, sample in zip(rows, samples, strict=True))
    return [_single_spaced(sample) for sample in samples] if overlay else samples


def _sample(row: TableRow, released: TableRow) -> Sample:
    """The sample of a row; its id comes from the released row."""
    group = _group(released)
    if blank := [name for name in COLUMNS if name not in MAY_BE_BLANK and not _text(row, name)]:
        raise DataError(
            f"{row.place}: nothing in {', '.join(blank)}; fetch the file again, or state the "
            "text in an overlay"
        )
    story = [_text(released, FIELDS[name]) for name in ("context", "prefix", "utterance")]
    return Sample(
        id=f"{group}-{_text(released, 'item_id')}-{digest(story)[:8]}",
        fields={name: _text(row, column) for name, column in FIELDS.items()},
        references={name: (_text(row, column),) for name, column in REFERENCES.items()},
        group=group,
    )


def _single_spaced(sample: Sample) -> Sample:
    """The sample without runs of blanks, also where prefix and utterance meet."""
    fields = {name: re.sub(" {2,}", " ", text) for name, text in sample.fields.items()}
    if fields["prefix"].endswith(" "):
        fields["utterance"] = fields["utterance"].lstrip(" ")
    return replace(sample, fields=fields)


def _text(row: TableRow, column: str) -> str:
    """A cell without outer white space; prefix and utterance keep it where they meet."""
    text = row.cells[column]
    if column == FIELDS["prefix"]:
        return text.lstrip()
    return text.rstrip() if column == FIELDS["utterance"] else text.strip()


def _group(row: TableRow) -> str:
    task = row.cells["task"].strip()
    if task not in GROUPS:
        raise DataError(
            f"{row.place}: unknown task {task!r}{did_you_mean(task, list(GROUPS))}; "
            "correct the cell"
        )
    return GROUPS[task]


def _repaired(rows: Sequence[TableRow], repairs: Sequence[Repair]) -> list[TableRow]:
    """The rows with each repair applied to the one released row that it names."""
    result = list(rows)
    for repair in repairs:
        _refuse_unknown_columns(rows, repair)
        index = _index(rows, repair)
        try:
            result[index] = _with_repair(result[index], repair, released=rows[index])
        except ValueError as error:
            raise DataError(f"{_described(rows, repair)} {error}") from None
    return result


def _with_repair(row: TableRow, repair: Repair, *, released: TableRow) -> TableRow:
    cells = {**row.cells, **repair.set}
    for column, number in repair.take.items():
        cells[column] = _unnamed(released, number)
    for column, texts in repair.swap.items():
        for old, new in zip(texts[::2], texts[1::2], strict=True):
            _refuse_unless_once(old, column, cells=(released.cells[column], cells[column]))
            cells[column] = cells[column].replace(old, new)
    return replace(row, cells=cells)


def _unnamed(row: TableRow, number: int) -> str:
    """The cell of this number, from 1, among those without a column name."""
    if number > len(row.overflow):
        raise ValueError(
            f"takes unnamed cell {number} of {row.place}, which has {len(row.overflow)}; "
            "correct the number"
        )
    return row.overflow[number - 1]


def _refuse_unless_once(fragment: str, column: str, *, cells: Sequence[str]) -> None:
    """Refuse a fragment that is not exactly once in the cell, as released and as repaired."""
    for cell in cells:
        count = sum(cell.startswith(fragment, start) for start in range(len(cell)))
        if count != 1:
            raise ValueError(
                f"swaps {fragment!r}, which occurs {count} times in column {column!r}; give a "
                "fragment that occurs there once and in no other swap"
            )


def _index(rows: Sequence[TableRow], repair: Repair) -> int:
    matches = [i for i, row in enumerate(rows) if _is_named(row, repair.row)]
    if len(matches) != 1:
        places = f" ({', '.join(rows[i].place for i in matches)})" if matches else ""
        raise DataError(
            f"{_described(rows, repair)} matches {len(matches)} rows{places}; name exactly one "
            "row there"
        )
    return matches[0]


def _is_named(row: TableRow, names: Mapping[str, str]) -> bool:
    return all(_text(row, column) == value for column, value in names.items())


def _refuse_unknown_columns(rows: Sequence[TableRow], repair: Repair) -> None:
    """Refuse columns that cannot name a row, and new text that no sample would contain."""
    for names, known in ((repair.row, COLUMNS), (repair.columns, TEXTS)):
        if unknown := [name for name in names if name not in known]:
            raise DataError(
                f"{_described(rows, repair)} names unknown column "
                f"{unknown[0]!r}{did_you_mean(unknown[0], list(known))}; correct the overlay"
            )


def _described(rows: Sequence[TableRow], repair: Repair) -> str:
    """A repair and the files it is for, as errors name them."""
    paths = ", ".join(sorted({str(row.path) for row in rows}))
    row = ", ".join(f"{column} {value!r}" for column, value in repair.row.items())
    return f"{paths}: the overlay's repair of row {row or 'without a name'} ({repair.defect})"
