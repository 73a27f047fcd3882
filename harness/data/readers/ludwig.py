"""The released LUDWIG implicatures to samples: a question, a reply, and what it means."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.core import Sample
from harness.data.readers.released import damaged, refuse_overlay
from harness.parts import digest
from harness.specs.data import OverlaySpec
from harness.storage.tables import TableRow, read_rows

SPLITS = {
    "test_conversational_implicatures.csv": "test",
    "dev_conversational_implicatures.csv": "dev",
}
PEOPLE = tuple(f"human_eval_{part}.csv" for part in ("1-150", "151-300", "301-450", "451-600"))
TYPES = "type_labels.csv"
ITEM = ("Context utterance", "Response utterance")
PAIR = ("Utterance", "Response")
RATERS = tuple(f"Annotator {number}" for number in range(1, 6))
CHOICES = ("yes", "no")
UNLABELLED, DEV = "unlabelled", "dev"
_OPENINGS = {"yes": "yes", "no": "no", "not": "no"}  # one released text begins "Not"

Pair = tuple[str, str]
ByPair = Mapping[Pair, TableRow]


def read(files: Sequence[Path], overlay: OverlaySpec | None) -> list[Sample]:
    """One sample for each question and reply, in the order of the files; `dev` flags that split.

    A type whose question and reply are in no split, as one in the release, is left out.
    """
    refuse_overlay("ludwig", overlay)
    named = {path.name: path for path in files}
    rated = [path for path in files if path.name in PEOPLE]
    people = _by_pair([row for path in rated for row in read_rows(path, (*PAIR, *RATERS))], PAIR)
    typed = read_rows(named[TYPES], (*PAIR, "Type")) if TYPES in named else []
    types = {_pair(row, PAIR): "_".join(_text(row, "Type").lower().split()) for row in typed}
    splits = [
        (SPLITS[name], _by_pair(read_rows(path, (*ITEM, "Implicature")), ITEM))
        for name, path in named.items()
        if name in SPLITS
    ]
    return [
        _sample(row, split, kind=types.get(pair, UNLABELLED), people=people.get(pair))
        for split, rows in splits
        for pair, row in rows.items()
    ]


def _sample(row: TableRow, split: str, *, kind: str, people: TableRow | None) -> Sample:
    utterance, response = _pair(row, ITEM)
    gold = _answer(row, "Implicature", is_opening=True)
    references: dict[str, tuple[str, ...]] = {"implicature": (_text(row, "Implicature"),)}
    if people is not None:
        references["people"] = tuple(_answer(people, column) for column in RATERS)
    return Sample(
        id=f"{split}-{digest((split, utterance, response))[:10]}",
        fields={"utterance": utterance, "response": response},
        references=references,
        choices=CHOICES,
        gold=gold,
        group=kind,
        flags=(DEV,) if split == DEV else (),
    )


def _by_pair(rows: Sequence[TableRow], columns: Sequence[str]) -> ByPair:
    return {_pair(row, columns): row for row in rows}


def _pair(row: TableRow, columns: Sequence[str]) -> Pair:
    utterance, response = (_text(row, column) for column in columns)
    return utterance, response


def _text(row: TableRow, column: str) -> str:
    if not (text := " ".join(row.cells[column].split())):
        raise damaged(row, f"nothing in {column}")
    return text


def _answer(row: TableRow, column: str, *, is_opening: bool = False) -> str:
    """What a cell says, which is yes or no, or opens with it."""
    words = re.findall(r"\w+", _text(row, column).lower())
    known = _OPENINGS if is_opening else dict(zip(CHOICES, CHOICES, strict=True))
    answer = known.get(words[0]) if words and (is_opening or len(words) == 1) else None
    if answer is None:
        raise damaged(row, f"{column} says {row.cells[column]!r}, not Yes or No")
    return answer
