"""Filled sheets of texts to what people said of them: labels step by step, and stressed words."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.core import Sample
from harness.data.ratings import ANNOTATOR, ROW, plain_cells
from harness.errors import DataError, did_you_mean
from harness.lazy import DataFrame, pandas
from harness.specs.sheets import AnnotationSpec, AnnotationStep
from harness.storage.cells import decode_json
from harness.storage.tables import read_spreadsheet

CODER: Final = "coder"
BETWEEN: Final = "; "  # what is between several labels of one step


def read_labels(spec: AnnotationSpec, path: Path) -> DataFrame:
    """The labels of a filled sheet, or of Label Studio's CSV export of one: a row a text and coder.

    Columns: message_id, coder, and one for each step, empty where it is not taken; None is a step
    that was left blank. A sheet without a column coder or annotator is of whom its file is named
    for. DataError for an unknown label, or one in a step that is not taken.
    """
    names = [step.name for step in spec.steps]
    lines = []
    for row in read_spreadsheet(path, (ROW, *names)):
        cells = plain_cells(row)
        coder = cells.get(CODER) or cells.get(ANNOTATOR) or path.stem.rpartition("-")[2]
        labels = _labels(spec, cells, row.place)
        lines.append({"message_id": cells[ROW], CODER: coder, **labels})
    found = pandas.DataFrame(lines, columns=["message_id", CODER, *names], dtype=object)
    for one in found[found.duplicated(["message_id", CODER])].itertuples():
        raise DataError(f"{path}: row {one.message_id} has two lines of {one.coder}; remove one")
    return found


def _labels(spec: AnnotationSpec, cells: Mapping[str, str], place: str) -> dict[str, str | None]:
    given: dict[str, tuple[str, ...] | None] = {}
    for step in spec.steps:
        words = _words(step, cells[step.name], place)
        is_taken = all({*(given[name] or ())} & {*wanted} for name, wanted in step.when.items())
        if words and not is_taken:
            raise DataError(
                f"{place}: {step.name} has {words[0]!r}, and is taken only where "
                f"{step.condition}; correct one of the two"
            )
        # Nobody knows whether a step is to be taken behind one that was left blank.
        is_open = is_taken or None in [given[name] for name in step.when]
        given[step.name] = words or (None if is_open else ())
    return {name: None if w is None else BETWEEN.join(w) for name, w in given.items()}


def _words(step: AnnotationStep, cell: str, place: str) -> tuple[str, ...]:
    if cell.startswith("{"):  # how Label Studio writes several choices
        try:
            words = decode_json(cell, dict[str, list[str]]).get("choices", [])
        except msgspec.DecodeError as error:
            raise DataError(f"{place}: {step.name} has {cell!r} ({error}); correct it") from error
    else:
        parts = cell.split(BETWEEN.strip()) if step.is_several else [cell]
        words = [part.strip() for part in parts if part.strip()]
    known = {word.casefold(): word for word in step.words}
    if unknown := [word for word in words if word.casefold() not in known]:
        close = did_you_mean(unknown[0], list(step.words))
        raise DataError(f"{place}: {step.name} has no label {unknown[0]!r}{close}")
    return tuple(dict.fromkeys(known[word.casefold()] for word in words))


FIELDS: Final = ("context", "speaker", "turn")
STRESSES: Final = (("stressed 1", "meaning 1"), ("stressed 2", "meaning 2"))
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


def read_stresses(paths: Iterable[Path], turns: Sequence[Sample]) -> list[dict[str, Any]]:
    """Marked sheets as lines of the sample format, one for each stressed part of each turn."""
    found: dict[str, dict[tuple[int, int], dict[str, None]]] = {turn.id: {} for turn in turns}
    for turn, span, meaning in _marks(paths, {turn.id: turn for turn in turns}):
        found[turn.id].setdefault(span, {})[meaning] = None
    return [
        {
            "group": turn.group,
            "cluster": turn.cluster,
            "fields": {
                "context": turn.fields["context"],
                "speaker": turn.fields["speaker"],
                "before": turn.fields["turn"][:start],
                "emphasis": turn.fields["turn"][start:end],
                "after": turn.fields["turn"][end:],
            },
            "references": {"implication": list(meanings)},
        }
        for turn in turns
        for (start, end), meanings in sorted(found[turn.id].items())
    ]


def _marks(
    paths: Iterable[Path], turns: Mapping[str, Sample]
) -> Iterator[tuple[Sample, tuple[int, int], str]]:
    """Each stress of each row: its turn, where it is in the turn, and what it brings out."""
    required = [ROW, *(name for pair in STRESSES for name in pair)]
    for row in (row for path in paths for row in read_spreadsheet(path, required)):
        cells = plain_cells(row)
        if (turn := turns.get(cells[ROW])) is None:
            raise DataError(f"{row.place}: no turn {cells[ROW]!r}; give the file of its turns")
        for stressed, meaning in STRESSES:
            if bool(cells[stressed]) != bool(cells[meaning]):
                blank = meaning if cells[stressed] else stressed
                raise DataError(f"{row.place}: {blank} is blank; fill it in, or blank both")
            if cells[stressed]:
                place = f"{row.place}, column {stressed!r}"
                span = marked_span(cells[stressed], turn.fields["turn"], place=place)
                yield turn, span, cells[meaning]


def marked_span(marked: str, turn: str, *, place: str) -> tuple[int, int]:
    """Where the stressed part begins and ends in the turn, in characters; blanks may differ."""
    parts = marked.split("*")
    bare = [len("".join(part.split())) for part in parts]
    if len(parts) != 3 or not bare[1]:
        raise DataError(f"{place}: {marked!r} has no one part between two asterisks; mark one")
    places = [at for at, char in enumerate(turn) if not char.isspace()]
    if "".join("".join(parts).split()) != "".join(turn[at] for at in places):
        raise DataError(f"{place}: {marked!r} is not the turn {turn!r}; copy it and add asterisks")
    start, end = places[bare[0]], places[bare[0] + bare[1] - 1] + 1
    if any(re.search(r"\w\Z", turn[:at]) and re.match(r"\w", turn[at:]) for at in (start, end)):
        raise DataError(f"{place}: {marked!r} stresses a part of a word; mark the whole word")
    return start, end
