"""The released prompts of Hu et al. 2022 to samples: an item, its options, five orders of them.

Each phenomenon has five files, one for each order of the options; five phenomena have five more
without the story. An item must be equal in all its files. Texts lose only outer white space.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core import Sample
from harness.data.readers.released import damaged, refuse_overlay
from harness.errors import DataError
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
SEEDS = range(5)
WITHOUT_STORY = "_no-story_"
_PROMPT = re.compile(r".*^(?:Options|Punchlines):\s*^(?P<options>1\).*)^Answer:", re.S | re.M)


@dataclass(frozen=True, slots=True)
class PosedItem:
    """One row: an item with its options in one order.

    `options` and `labels` are in the item's own order, and `right` is one of the options. `order`
    has, for each position in the prompt, the number, from 1, of its option. `content` is the
    scenario as released.
    """

    place: str
    group: str
    number: str
    seed: int
    order: tuple[int, ...]
    options: tuple[str, ...]
    labels: tuple[str, ...]
    right: str
    content: str

    @property
    def id(self) -> str:
        """The id of its sample: the phenomenon and the released number."""
        return f"{self.group}-{self.number}"

    @property
    def scenario(self) -> str:
        """The story and the question, without outer white space."""
        return self.content.strip()


def read(files: Sequence[Path], overlay: OverlaySpec | None) -> list[Sample]:
    """One sample an item, in the order of the files."""
    refuse_overlay("hu2022", overlay)
    stories = _by_item([path for path in files if WITHOUT_STORY not in path.name])
    controls = _by_item([path for path in files if WITHOUT_STORY in path.name])
    for name, orders in controls.items():
        if name not in stories:
            raise DataError(
                f"{orders[0].place}: {name} is here without its story only; name the files "
                "with the stories too"
            )
        for story, control in zip(stories[name], orders, strict=True):
            _refuse_difference(story, control, "labels", "options", "order", "right")
    return [_sample(orders, controls.get(name)) for name, orders in stories.items()]


def posed_item(row: TableRow) -> PosedItem:
    """The item of a row, of prompts or of stored answers to them; the row needs COLUMNS.

    DataError where the columns contradict each other, or the prompt.
    """
    try:
        return _posed(row)
    except (AttributeError, IndexError, KeyError, ValueError) as error:
        raise damaged(row, f"its columns are not those of an item ({error})") from error


def _posed(row: TableRow) -> PosedItem:
    cells = {name: row.cells[name].strip() for name in COLUMNS}
    order = tuple(map(int, re.findall(r"\d+", cells["randomized_option_order"])))
    labels = tuple(re.findall(r"\w+", cells["original_labels_complex"]))
    shown = re.findall(r"\w+", cells["randomized_labels_complex"])
    found = _PROMPT.match(cells["prompt"])
    lines = found["options"].strip().splitlines() if found else []
    texts = [line.strip().removeprefix(f"{at})").strip() for at, line in enumerate(lines, 1)]
    answer = int(cells["randomized_true_answer"]) - 1
    right = [at for at, label in enumerate(shown) if label.startswith("Correct")]
    checks = {
        "the order is not one of the labels": sorted(order) == [*range(1, len(labels) + 1)],
        "the prompt does not list an option a line": len(lines) == len(order)
        and len({*texts} - {"", *lines}) == len(order),
        "the prompt does not hold the content": bool(cells["content"])
        and cells["content"] in cells["prompt"],
    }
    checks["the labels shown are in another order"] = shown == [labels[at - 1] for at in order]
    checks["another label is the right one"] = right == [answer]
    if faults := [fault for fault, holds in checks.items() if not holds]:
        raise ValueError(faults[0])
    options = tuple(texts[order.index(number)] for number in range(1, len(order) + 1))
    return PosedItem(
        place=row.place,
        group=GROUPS[cells["phenomenon"]],
        number=str(int(cells["item_id"])),
        seed=int(cells["seed"]),
        order=order,
        options=options,
        labels=labels,
        right=texts[answer],
        content=row.cells["content"],
    )


def _by_item(paths: Sequence[Path]) -> Mapping[str, tuple[PosedItem, ...]]:
    found: dict[str, list[PosedItem]] = {}
    for item in (posed_item(row) for path in paths for row in read_rows(path, COLUMNS)):
        found.setdefault(item.id, []).append(item)
    for name, orders in found.items():
        orders.sort(key=lambda item: item.seed)
        if [item.seed for item in orders] != [*SEEDS]:
            raise DataError(
                f"{orders[0].place}: {name} is here with seeds {[i.seed for i in orders]}, not "
                f"{list(SEEDS)}; name the files of all five, each once"
            )
        for other in orders:
            _refuse_difference(orders[0], other, "labels", "options", "right", "content")
    return {name: tuple(orders) for name, orders in found.items()}


def _refuse_difference(one: PosedItem, other: PosedItem, *names: str) -> None:
    for name in names:
        own, its = (getattr(item, name) for item in (one, other))
        if (own.strip() != its.strip()) if isinstance(own, str) else own != its:
            raise DataError(
                f"{other.place}: the {name} of {other.id}, {its!r}, differs from {one.place}, "
                f"{own!r}; fetch both files again"
            )


def _sample(orders: Sequence[PosedItem], control: Sequence[PosedItem] | None) -> Sample:
    """The sample of an item, with `without_story` only where the control differs from the item.

    Both are compared as released, outer white space included, as for the published control.
    """
    item = orders[0]
    fields = {"scenario": item.scenario}
    if control is not None and control[0].content != item.content:
        fields["without_story"] = control[0].scenario
    places = {f"order{one.seed}": tuple(map(str, one.order)) for one in orders}
    return Sample(
        id=item.id,
        fields=fields,
        references={"labels": item.labels, **places},
        choices=item.options,
        gold=item.right,
        group=item.group,
    )
