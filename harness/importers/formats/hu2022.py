"""Option probabilities in the format of Hu et al. 2022 to answers: a CSV row for an item and order.

A row has the item, its options in the order of its `seed`, and a probability for each option. The
probabilities are the answer, not the file's column `answer`. The content of a row shows whether it
belongs to the control without stories; a file's name does not matter.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.core import Sample
from harness.data.choices import permutation
from harness.data.readers.hu2022 import COLUMNS, SCENARIO, WITHOUT_STORY, posed_item
from harness.errors import DataError
from harness.importers.record import (
    FileAnswers,
    SampleLookup,
    StoredAnswer,
    numbers_by_option,
    scores_of_probabilities,
)
from harness.parts import Message
from harness.specs.data import MapSpec
from harness.storage.cells import long_cells
from harness.storage.tables import TableRow, read_rows

LOOKS_FOR = "a CSV file with the columns phenomenon, randomized_option_order and distribution"
# A missing distribution in the notation of pandas and Python.
_NO_NUMBER = r"""['"]?[0-9]+['"]?\s*:\s*(?:nan|none)"""
_NOTHING = re.compile(rf"|nan|none|\{{(?:\s*{_NO_NUMBER}\s*,?)*\s*\}}", re.IGNORECASE)
_Line = tuple[TableRow, Sample, Sample]
"""A row, the item as it poses it, and the sample of the task."""


def recognises(text: str) -> bool:
    """Whether a file's text is in this format, damaged or not."""
    with long_cells(len(text)):
        header = next(csv.reader(text.lstrip("\ufeff").splitlines()[:1]), [])
    return {"phenomenon", "randomized_option_order", "distribution"} <= {*header}


def read(path: Path, text: str, lookup: SampleLookup, spec: MapSpec | None = None) -> FileAnswers:
    """The answers of a file; a row without probabilities counts as missing."""
    rows = read_rows(path, (*COLUMNS, "distribution"))
    lines = [_line(row, lookup) for row in rows if row.cells.get("is_example") != "True"]
    counts: Counter[str] = Counter({"of examples in prompts: left out": len(rows) - len(lines)})
    answers = []
    for line, is_control in zip(lines, _controls(lines), strict=True):
        if _NOTHING.fullmatch(line[0].cells["distribution"].strip()):
            counts["without probabilities: missing"] += 1
        elif is_control is None:
            counts["of the control, as the story itself reads: left out, as published"] += 1
        else:
            answers.append(_answer(line, lookup, is_control=is_control))
    return answers, counts


def _line(row: TableRow, lookup: SampleLookup) -> _Line:
    item = posed_item(row)
    same = [
        sample
        for name in (SCENARIO, WITHOUT_STORY)
        for sample in lookup.having({name: item.fields[SCENARIO]}, item.group)
        if sample.choices == item.choices and sample.gold == item.gold
    ]
    if not same:
        raise lookup.unknown(row.place, f"{item.id} with these words and options")
    return row, item, next((sample for sample in same if sample.id == item.id), same[0])


def _is_control(item: Sample, sample: Sample) -> bool | None:
    """Whether a row is without its story; None where the item is the same without it."""
    texts = [sample.fields.get(name) for name in (SCENARIO, WITHOUT_STORY)]
    return None if len({*texts} - {None}) == 1 else texts[1] == item.fields[SCENARIO]


def _controls(lines: Sequence[_Line]) -> Iterator[bool | None]:
    """Whether each row belongs to the control; None for a row that the control leaves out.

    Some items are the same without their story; the published control leaves them out. Where all
    other rows of a phenomenon and order belong to the control, so do theirs; where there are both
    kinds, the first such row of an item has the story.
    """
    every = [(item, sample, int(row.cells["seed"])) for row, item, sample in lines]
    kinds = {(item.group, seed, _is_control(item, sample)) for item, sample, seed in every}
    seen: set[tuple[str, int]] = set()
    for item, sample, seed in every:
        is_control, place = _is_control(item, sample), (sample.id, seed)
        if is_control is not None:
            yield is_control
            continue
        has_control, has_story = ((item.group, seed, one) in kinds for one in (True, False))
        is_control = has_control and (not has_story or place in seen)
        seen.add(place)
        yield None if is_control and WITHOUT_STORY not in sample.fields else is_control


def _answer(line: _Line, lookup: SampleLookup, *, is_control: bool) -> StoredAnswer:
    row, item, sample = line
    choices = tuple(str(place) for place, _ in enumerate(item.choices, 1))
    try:
        values = numbers_by_option(row.cells["distribution"], len(choices))
        scores = scores_of_probabilities(values, choices)
    except ValueError as error:
        raise DataError(f"{row.place}: distribution: {error}; get the file again") from error
    return StoredAnswer(
        place=row.place,
        sample_id=sample.id,
        variant=_variant(line, lookup, is_control=is_control),
        messages=(Message("user", row.cells["prompt"]),),
        choices=choices,
        scores=scores,
    )


def _variant(line: _Line, lookup: SampleLookup, *, is_control: bool) -> str:
    row, item, sample = line
    seed = int(row.cells["seed"])
    names = [
        name
        for name, spec in lookup.task.variants.items()
        if spec.choice is not None
        and (spec.choice.order, spec.choice.answers) == (seed, "number")
        and (WITHOUT_STORY in spec.needs) == is_control
    ]
    if not names:
        raise DataError(
            f"{row.place}: seed {seed}, but the task has no variant that asks for a number "
            f"in order {seed}{' without the story' * is_control}; leave the file out"
        )
    order = tuple(str(place + 1) for place in permutation(sample, seed))
    if order != item.references["order"]:
        raise DataError(
            f"{row.place}: options in order {', '.join(item.references['order'])}, while order "
            f"{seed} of sample {sample.id} is {', '.join(order)}; name its data with --data"
        )
    return names[0]
