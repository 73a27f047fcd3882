"""Option probabilities in the format of Hu et al. 2022 to answers: a CSV row for an item and order.

A row has the item, its options in the order of its `seed`, and a probability for each option. The
probabilities are the answer, not the file's column `answer`. The content of a row shows whether it
belongs to the control without stories; a file's name does not matter.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core import Sample
from harness.data.choices import permutation
from harness.data.readers.hu2022 import COLUMNS, PosedItem, posed_item
from harness.errors import DataError
from harness.importers.record import (
    FileAnswers,
    SampleLookup,
    StoredAnswer,
    notes_of,
    numbers_by_option,
    scores_of_probabilities,
)
from harness.parts import Message
from harness.specs.data import MapSpec
from harness.storage.cells import long_cells
from harness.storage.tables import TableRow, read_rows

LOOKS_FOR = "a CSV file with the columns phenomenon, randomized_option_order and distribution"

SCENARIO, WITHOUT_STORY = "scenario", "without_story"
_CONTRADICTED = "whose `answer` or `correct` is not what the probabilities say: these count"
_MARKS = {"phenomenon", "randomized_option_order", "distribution"}
# A missing distribution in the notation of pandas and Python.
_NO_NUMBER = r"""['"]?[0-9]+['"]?\s*:\s*(?:nan|none)"""
_NOTHING = re.compile(rf"|nan|none|\{{(?:\s*{_NO_NUMBER}\s*,?)*\s*\}}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Line:
    row: TableRow
    item: PosedItem
    sample: Sample

    @property
    def is_control(self) -> bool | None:
        """Whether it is without its story; None where the item is the same without it."""
        texts = [self.sample.fields.get(name) for name in (SCENARIO, WITHOUT_STORY)]
        return None if len(set(texts) - {None}) == 1 else texts[1] == self.item.scenario


def recognises(text: str) -> bool:
    """Whether a file's text is in this format, damaged or not."""
    with long_cells(len(text)):
        header = next(csv.reader(text.lstrip("\ufeff").splitlines()[:1]), [])
    return set(header) >= _MARKS


def read(path: Path, text: str, lookup: SampleLookup, spec: MapSpec | None = None) -> FileAnswers:
    """The answers of a file; a row without probabilities counts as missing."""
    rows = read_rows(path, (*COLUMNS, "distribution"))
    lines = [_line(row, lookup) for row in rows if row.cells.get("is_example") != "True"]
    counts: Counter[str] = Counter({"of examples in prompts: left out": len(rows) - len(lines)})
    answers = []
    for line, is_control in zip(lines, _controls(lines), strict=True):
        if _NOTHING.fullmatch(line.row.cells["distribution"].strip()):
            counts["without probabilities: missing"] += 1
        elif is_control is None:
            counts["of the control, as the story itself reads: left out, as published"] += 1
        else:
            answers.append(_answer(line, lookup, is_control=is_control))
            counts[_CONTRADICTED] += _is_contradicted(line, answers[-1])
    return FileAnswers(tuple(answers), notes_of(path, counts))


def _line(row: TableRow, lookup: SampleLookup) -> _Line:
    item = posed_item(row)
    same = [
        sample
        for name in (SCENARIO, WITHOUT_STORY)
        for sample in lookup.having({name: item.scenario}, item.group)
        if sample.choices == item.options and sample.gold == item.right
    ]
    if not same:
        raise lookup.unknown(item.place, f"{item.id} with these words and options")
    own = [sample for sample in same if sample.id == item.id]
    return _Line(row, item, (own or same)[0])


def _controls(lines: Sequence[_Line]) -> Iterator[bool | None]:
    """Whether each row belongs to the control; None for a row that the control leaves out.

    Some items are the same without their story; the published control leaves them out. Where all
    other rows of a phenomenon and order belong to the control, so do theirs; where there are both
    kinds, the first such row of an item has the story.
    """
    kinds = {(line.item.group, line.item.seed, line.is_control) for line in lines}
    seen: set[tuple[str, int]] = set()
    for line in lines:
        block, place = (line.item.group, line.item.seed), (line.sample.id, line.item.seed)
        if line.is_control is not None:
            yield line.is_control
            continue
        has_control, has_story = (*block, True) in kinds, (*block, False) in kinds
        is_control = has_control and (not has_story or place in seen)
        seen.add(place)
        is_left_out = is_control and WITHOUT_STORY not in line.sample.fields
        yield None if is_left_out else is_control


def _answer(line: _Line, lookup: SampleLookup, *, is_control: bool) -> StoredAnswer:
    row, choices = line.row, tuple(str(place) for place, _ in enumerate(line.item.order, 1))
    try:
        values = numbers_by_option(row.cells["distribution"], len(choices))
        scores = scores_of_probabilities(values, choices)
    except ValueError as error:
        raise DataError(f"{row.place}: distribution: {error}; get the file again") from error
    return StoredAnswer(
        place=row.place,
        sample_id=line.sample.id,
        variant=_variant(line, lookup, is_control=is_control),
        messages=(Message("user", row.cells["prompt"]),),
        choices=choices,
        scores=scores,
        model=row.cells.get("model", "").strip(),
    )


def _variant(line: _Line, lookup: SampleLookup, *, is_control: bool) -> str:
    item = line.item
    names = [
        name
        for name, spec in lookup.task.variants.items()
        if spec.choice is not None
        and (spec.choice.order, spec.choice.answers) == (item.seed, "number")
        and (WITHOUT_STORY in spec.needs) == is_control
    ]
    if not names:
        raise DataError(
            f"{item.place}: seed {item.seed}, but the task has no variant that asks for a number "
            f"in order {item.seed}{' without the story' * is_control}; leave the file out"
        )
    order = tuple(place + 1 for place in permutation(line.sample, item.seed))
    if order != item.order:
        raise DataError(
            f"{item.place}: options in order {list(item.order)}, while order {item.seed} of sample "
            f"{line.sample.id} is {list(order)}; name the data it belongs to with --data"
        )
    return names[0]


def _is_contradicted(line: _Line, answer: StoredAnswer) -> bool:
    cells, values = line.row.cells, [score.logprob for score in answer.scores]
    likeliest = {str(place) for place, v in enumerate(values, 1) if v == max(values)}
    answered = cells.get("answer", "").strip().removesuffix(".0")
    correct = {"true": True, "1": True, "false": False, "0": False}.get(
        cells.get("correct", "").strip().casefold()
    )
    is_other = bool(answered) and answered not in likeliest
    is_right = str(int(cells["randomized_true_answer"])) in likeliest
    return is_other or (correct is not None and len(likeliest) == 1 and correct != is_right)
