"""Turns to sheets on which people mark stressed words, and marked sheets to samples.

An annotator copies the turn with asterisks around what is stressed, and writes what that brings
out. A stress is a span of characters in the turn: no text is replaced to mark it, and what two
annotators stressed alike is one sample with the meanings of both. Nothing here asks a model.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.core import Sample
from harness.data.ratings import unguarded
from harness.errors import DataError
from harness.storage.cells import csv_text
from harness.storage.spreadsheets import read_spreadsheet
from harness.storage.tables import BOM

FIELDS: Final = ("context", "speaker", "turn")
STRESSES: Final = ("1", "2")
"""Each annotator marks two stresses of a turn, as in the Emphasized-Talk paper."""
GUIDE: Final = """\
Each row has a dialogue and its last turn. Read the turn aloud, and find two different parts of it,
each of one word or a few, that its speaker may stress to bring something out that the words alone
do not say.

stressed 1: copy the turn and put one asterisk before and one behind the stressed part:
  I booked *that* seat.
meaning 1: write in one sentence what this stress brings out. Do not quote the stressed words,
  explain them.
stressed 2, meaning 2: the same for the other part, whose meaning must be another one.

Leave cells blank where you find no stress. Change nothing else.
"""


def sheet_text(turns: Sequence[Sample]) -> str:
    """An annotator's file as CSV, formula-safe: a row a turn, with blank cells for two stresses.

    DataError for a turn without a field that is shown, or with an asterisk of its own.
    """
    asked = [f"{name} {one}" for one in STRESSES for name in ("stressed", "meaning")]
    rows = []
    for turn in turns:
        if absent := [name for name in FIELDS if name not in turn.fields]:
            raise DataError(f"turn {turn.id}: no field {absent[0]!r}; give {', '.join(FIELDS)}")
        if "*" in turn.fields["turn"]:
            raise DataError(f"turn {turn.id}: has an asterisk, which marks a stress; take it out")
        rows.append((turn.id, *(turn.fields[name] for name in FIELDS), *[None] * len(asked)))
    return BOM + csv_text(("row", *FIELDS, *asked), rows)


def read_sheets(paths: Iterable[Path], turns: Sequence[Sample]) -> list[dict[str, Any]]:
    """Marked sheets as lines of the sample format, one for each stressed part of each turn.

    In the order of the turns. DataError, with its line, for a row of another turn, a mark that
    fits no turn, and a stress without a meaning or the other way round.
    """
    found: dict[str, dict[tuple[int, int], list[str]]] = {turn.id: {} for turn in turns}
    for turn, span, meaning in _marks(paths, {turn.id: turn for turn in turns}):
        meanings = found[turn.id].setdefault(span, [])
        meanings += [meaning] if meaning not in meanings else []
    return [
        _line(turn, span, meanings)
        for turn in turns
        for span, meanings in sorted(found[turn.id].items())
    ]


def _marks(
    paths: Iterable[Path], turns: Mapping[str, Sample]
) -> Iterator[tuple[Sample, tuple[int, int], str]]:
    """Each stress of each row: its turn, where it stands in it, and what it brings out."""
    asked = [(f"stressed {one}", f"meaning {one}") for one in STRESSES]
    required = ["row", *(name for pair in asked for name in pair)]
    for row in (row for path in paths for row in read_spreadsheet(path, required).rows):
        cells = {name: unguarded(cell).strip() for name, cell in row.cells.items()}
        if (turn := turns.get(cells["row"])) is None:
            raise DataError(f"{row.place}: no turn {cells['row']!r}; give the file of its turns")
        for stressed, meaning in asked:
            if bool(cells[stressed]) != bool(cells[meaning]):
                blank = meaning if cells[stressed] else stressed
                raise DataError(f"{row.place}: {blank} is blank; fill it in, or blank both")
            if cells[stressed]:
                place = f"{row.place}, column {stressed!r}"
                span = marked_span(cells[stressed], turn.fields["turn"], place=place)
                yield turn, span, cells[meaning]


def marked_span(marked: str, turn: str, *, place: str) -> tuple[int, int]:
    """Where the stressed part begins and ends in the turn, in characters.

    Blanks may differ. DataError where there is no one part of whole words between two asterisks,
    or the rest is not the turn.
    """
    parts = marked.split("*")
    bare = [len("".join(part.split())) for part in parts]
    if len(parts) != 3 or not bare[1]:
        raise DataError(f"{place}: {marked!r} has no one part between two asterisks; mark one")
    places = [at for at, char in enumerate(turn) if not char.isspace()]
    if "".join("".join(parts).split()) != "".join(turn[at] for at in places):
        raise DataError(f"{place}: {marked!r} is not the turn {turn!r}; copy it and add asterisks")
    start, end = places[bare[0]], places[bare[0] + bare[1] - 1] + 1
    if re.search(r"\w\Z", turn[:start]) and re.match(r"\w", turn[start:]):
        raise DataError(f"{place}: {marked!r} stresses a part of a word; mark the whole word")
    if re.search(r"\w\Z", turn[:end]) and re.match(r"\w", turn[end:]):
        raise DataError(f"{place}: {marked!r} stresses a part of a word; mark the whole word")
    return start, end


def _line(turn: Sample, span: tuple[int, int], meanings: Sequence[str]) -> dict[str, Any]:
    text, (start, end) = turn.fields["turn"], span
    shown = {"context": turn.fields["context"], "speaker": turn.fields["speaker"]}
    parts = {"before": text[:start], "emphasis": text[start:end], "after": text[end:]}
    return {
        "group": turn.group,
        "cluster": turn.cluster,
        "fields": shown | parts,
        "references": {"implication": list(meanings)},
    }
