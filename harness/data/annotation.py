"""Texts to sheets that people label step by step, and filled sheets to labels.

A sheet is blind and shuffled: it shows an opaque id, the text, and an empty column for each step.
Which steps are taken depends on earlier labels; a label that should not be there is an error.
On sheets of turns people mark stressed words by asterisks, and write what the stress brings out.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import quoteattr

from harness.core import Sample
from harness.data.ratings import unguarded
from harness.errors import DataError, did_you_mean
from harness.parts import digest
from harness.specs.sheets import AnnotationSpec, AnnotationStep
from harness.storage.cells import csv_text, decode_json
from harness.storage.spreadsheets import read_spreadsheet
from harness.storage.tables import BOM, TEXT, TableRow, read_rows

ROW, CODER, ANNOTATOR, ROUND = "row", "coder", "annotator", "iteration"
BETWEEN: Final = "; "


@dataclass(frozen=True, slots=True)
class TextToLabel:
    """One row of a sheet: its opaque id, its text, and the line that it stands on in the file."""

    id: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """The labels that one coder gave a row, by step; empty for a step that is not taken.

    None is a step that should have been taken and was left blank: missing.
    """

    row: str
    coder: str
    labels: Mapping[str, tuple[str, ...] | None]


def texts_to_label(texts: Sequence[tuple[int, str]], seed: int) -> list[TextToLabel]:
    """The texts, each behind its line, under opaque ids and in an order that the seed draws."""
    # A letter first, or a spreadsheet takes some ids for numbers.
    found = [TextToLabel(f"r{digest((seed, line, text))[:15]}", text, line) for line, text in texts]
    return sorted(found, key=lambda one: one.id)


def sheet_csv(spec: AnnotationSpec, rows: Sequence[TextToLabel]) -> str:
    """A sheet as CSV, formula-safe, with an empty column for each step."""
    head = (ROW, TEXT, *(step.name for step in spec.steps))
    return BOM + csv_text(head, ((one.id, one.text, *[None] * len(spec.steps)) for one in rows))


def key_csv(rows: Sequence[TextToLabel]) -> str:
    """The line of the file that each row stands for."""
    return csv_text((ROW, "line"), ((one.id, one.line) for one in rows))


def guide_text(spec: AnnotationSpec) -> str:
    """What people read first: the steps, when each is taken, and what each label means."""
    parts = [spec.guide.strip(), ""]
    for number, step in enumerate(spec.steps, 1):
        parts.append(f"{number}. {step.name}: {step.question}")
        if step.when:
            parts.append(f"   Only where {_condition(step)}; else leave it blank.")
        if step.is_several:
            parts.append(f"   Write several labels with {BETWEEN.strip()!r} between them.")
        parts += [f"   {label.word}: {label.means}" for label in step.labels]
        parts.append("")
    return "\n".join(parts).lstrip()


def _condition(step: AnnotationStep) -> str:
    return " and ".join(f"{name} is {' or '.join(words)}" for name, words in step.when.items())


def steps_config(spec: AnnotationSpec) -> str:
    """The labelling config for Label Studio, in which a step shows up once it is to be taken."""
    lines = ["<View>", f'  <Text name="{TEXT}" value="${TEXT}"/>']
    for step in spec.steps:
        conditions = [
            f'<View visibleWhen="choice-selected" whenTagName={quoteattr(name)} '
            f"whenChoiceValue={quoteattr(','.join(words))}>"
            for name, words in step.when.items()
        ]
        choice = "multiple" if step.is_several else "single"
        lines += [f"  {line}" for line in conditions]
        lines.append(f"  <Header value={quoteattr(step.question)}/>")
        lines.append(
            f'  <Choices name="{step.name}" toName="{TEXT}" choice="{choice}" required="true">'
        )
        lines += [
            f"    <Choice value={quoteattr(label.word)} hint={quoteattr(label.means)}/>"
            for label in step.labels
        ]
        lines += ["  </Choices>", *["  </View>"] * len(conditions)]
    return "\n".join([*lines, "</View>", ""])


def read_labels(spec: AnnotationSpec, path: Path) -> list[LabelledRow]:
    """The labels of a filled sheet, or of Label Studio's CSV export of one.

    A sheet without a column coder or annotator is that of the coder whom its file is named for.
    DataError names the line of an unknown label, and of one in a step that is not taken.
    """
    found = []
    for row in read_rows(path, (ROW, *(step.name for step in spec.steps))):
        cells = {name: unguarded(cell).strip() for name, cell in row.cells.items()}
        coder = cells.get(CODER) or cells.get(ANNOTATOR) or path.stem.rpartition("-")[2]
        labels = dict(_labels(spec, row, cells))
        found.append(LabelledRow(cells[ROW], coder, labels))
    seen: set[tuple[str, str]] = set()
    for one in found:
        if (one.row, one.coder) in seen:
            raise DataError(f"{path}: row {one.row} has two lines of {one.coder}; remove one")
        seen.add((one.row, one.coder))
    return found


def _labels(
    spec: AnnotationSpec, row: TableRow, cells: Mapping[str, str]
) -> Iterator[tuple[str, tuple[str, ...] | None]]:
    given: dict[str, tuple[str, ...] | None] = {}
    for step in spec.steps:
        words = _words(step, cells[step.name], row.place)
        before = [given.get(name) for name in step.when]
        is_taken = all(
            not {*(given.get(name) or ())}.isdisjoint(wanted) for name, wanted in step.when.items()
        )
        if words and not is_taken:
            raise DataError(
                f"{row.place}: {step.name} has {words[0]!r}, and is taken only where "
                f"{_condition(step)}; correct one of the two"
            )
        # Nobody knows whether a step is to be taken behind one that was left blank.
        given[step.name] = words or (None if is_taken or None in before else ())
        yield step.name, given[step.name]


def _words(step: AnnotationStep, cell: str, place: str) -> tuple[str, ...]:
    if cell.startswith("{"):  # how Label Studio writes several choices
        read = decode_json(cell, dict[str, list[str]])
        words = tuple(read.get("choices", ()))
    else:
        parts = cell.split(BETWEEN.strip()) if step.is_several else [cell]
        words = tuple(part.strip() for part in parts if part.strip())
    known = {word.casefold(): word for word in step.words}
    if unknown := [word for word in words if word.casefold() not in known]:
        close = did_you_mean(unknown[0], list(step.words))
        raise DataError(f"{place}: {step.name} has no label {unknown[0]!r}{close}")
    return tuple(dict.fromkeys(known[word.casefold()] for word in words))


def labels_csv(spec: AnnotationSpec, rows: Sequence[LabelledRow], *, of_round: int) -> str:
    """Labels as CSV, one line a row and coder; blank for no label, as in a step not taken."""
    names = [step.name for step in spec.steps]
    lines = (
        (one.row, one.coder, of_round, *(BETWEEN.join(one.labels[name] or ()) for name in names))
        for one in rows
    )
    return csv_text(("message_id", CODER, ROUND, *names), lines)


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
