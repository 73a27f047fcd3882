"""The released prompts of Hu et al. 2022 to samples: an item, its options, five orders of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.core import Sample
from harness.data.readers.released import damaged, refuse_overlay
from harness.specs.data import OverlaySpec
from harness.storage.tables import TableRow, read_rows

GROUPS = {
    "DV": "deceits",
    "ISV": "indirect_speech",
    "IV": "irony",
    "MV": "maxims",
    "MPV": "metaphor",
    "HV": "humour",
    "CIV": "coherence_inference",
}
COLUMNS = (
    *("phenomenon", "item_id", "content", "randomized_option_order", "randomized_labels_complex"),
    *("randomized_true_answer", "original_labels_complex", "prompt", "seed"),
)
SCENARIO, WITHOUT_STORY = "scenario", "without_story"
_CONTROL = "_no-story_"
_PROMPT = re.compile(r".*^(?:Options|Punchlines):\s*^(?P<options>1\).*)^Answer:", re.S | re.M)
_Posed = Sequence[tuple[TableRow, Sample]]
"""The five rows of an item, by their seeds."""


def read(files: Sequence[Path], overlay: OverlaySpec | None) -> list[Sample]:
    """One sample an item, in the order of the files."""
    refuse_overlay("hu2022", overlay)
    stories = _by_item([path for path in files if _CONTROL not in path.name])
    controls = _by_item([path for path in files if _CONTROL in path.name])
    return [_sample(orders, controls.get(name)) for name, orders in stories.items()]


def posed_item(row: TableRow) -> Sample:
    """The sample of a row, of prompts or of stored answers to them; the row needs COLUMNS.

    Its reference `order` has, for each position in the prompt, the number, from 1, of its option.
    DataError where the columns are not those of an item.
    """
    try:
        return _posed(row)
    except (AttributeError, IndexError, KeyError, ValueError) as error:
        raise damaged(row, f"its columns are not those of an item ({error})") from error


def _posed(row: TableRow) -> Sample:
    cells = {name: row.cells[name].strip() for name in COLUMNS}
    order = [int(number) for number in re.findall(r"\d+", cells["randomized_option_order"])]
    labels = tuple(re.findall(r"\w+", cells["original_labels_complex"]))
    found = _PROMPT.match(cells["prompt"])
    lines = found["options"].strip().splitlines() if found else []
    texts = [line.strip().removeprefix(f"{at})").strip() for at, line in enumerate(lines, 1)]
    return Sample(
        id=f"{GROUPS[cells['phenomenon']]}-{int(cells['item_id'])}",
        fields={SCENARIO: cells["content"]},
        references={"labels": labels, "order": tuple(map(str, order))},
        choices=tuple(texts[order.index(number)] for number in range(1, len(order) + 1)),
        gold=texts[int(cells["randomized_true_answer"]) - 1],
        group=GROUPS[cells["phenomenon"]],
    )


def _by_item(paths: Sequence[Path]) -> Mapping[str, _Posed]:
    found: dict[str, list[tuple[TableRow, Sample]]] = {}
    for row in (row for path in paths for row in read_rows(path, COLUMNS)):
        item = posed_item(row)
        found.setdefault(item.id, []).append((row, item))
    for orders in found.values():
        orders.sort(key=lambda one: int(one[0].cells["seed"]))
    return found


def _sample(orders: _Posed, control: _Posed | None) -> Sample:
    """The sample of an item, with `without_story` only where the control differs from the item."""
    row, item = orders[0]
    fields = dict(item.fields)
    if control is not None and control[0][0].cells["content"] != row.cells["content"]:
        fields[WITHOUT_STORY] = control[0][1].fields[SCENARIO]
    places = {f"order{at}": one.references["order"] for at, (_, one) in enumerate(orders)}
    return replace(item, fields=fields, references={"labels": item.references["labels"], **places})
