"""The released prompts of Hu et al. 2022 to samples: an item, its options, five orders of them.

Each phenomenon has five files, one for each order of the options; five phenomena have five more
without the story. An item must be equal in all its files. Texts lose only outer white space.
"""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from harness.core import Sample
from harness.data.readers.released import refuse_overlay
from harness.errors import DataError, did_you_mean
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
    "phenomenon",
    "item_id",
    "content",
    "randomized_option_order",
    "randomized_labels_complex",
    "randomized_true_answer",
    "original_labels_complex",
    "prompt",
    "seed",
)
SEEDS = range(5)
WITHOUT_STORY = "_no-story_"
_HEADINGS = ("Options:", "Punchlines:")
_END = "Answer:"
_RIGHT = "Correct"
_OPTIONS = ("options", "labels", "right")
_PLACES = re.compile(r"\[[0-9]+(?:, [0-9]+)*\]")
_LABELS = re.compile(r"\['\w+'(?:, '\w+')*\]")


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
        for seed in SEEDS:
            _refuse_difference(stories[name][seed], orders[seed], {*_OPTIONS, "order"})
    return [_sample(orders, controls.get(name)) for name, orders in stories.items()]


def posed_item(row: TableRow) -> PosedItem:
    """The item of a row, of prompts or of stored answers to them; the row needs COLUMNS."""
    order = tuple(map(int, _listed(row, "randomized_option_order", _PLACES)))
    labels = _listed(row, "original_labels_complex", _LABELS)
    if sorted(order) != list(range(1, len(labels) + 1)):
        raise DataError(
            f"{row.place}: randomized_option_order says {list(order)}, not an order of "
            f"{len(labels)} options; fetch the file again"
        )
    laid_out = _options(row, len(order))
    options = tuple(laid_out[order.index(number)] for number in range(1, len(order) + 1))
    content = row.cells["content"]
    if not content.strip() or content.strip() not in row.cells["prompt"]:
        raise DataError(f"{row.place}: the prompt does not hold the content; fetch the file again")
    return PosedItem(
        place=row.place,
        group=_group(row),
        number=_number(row, "item_id"),
        seed=int(_number(row, "seed")),
        order=order,
        options=options,
        labels=labels,
        right=options[_right(row, order, labels=labels)],
        content=content,
    )


def _by_item(paths: Sequence[Path]) -> Mapping[str, tuple[PosedItem, ...]]:
    found: dict[str, dict[int, PosedItem]] = {}
    for item in (posed_item(row) for path in paths for row in read_rows(path, COLUMNS)):
        orders = found.setdefault(item.id, {})
        if first := orders.get(item.seed):
            raise DataError(
                f"{item.place}: {item.id} with seed {item.seed} is in {first.place} too; "
                "remove one of them"
            )
        orders[item.seed] = item
    return {name: _agreed(orders) for name, orders in found.items()}


def _agreed(orders: Mapping[int, PosedItem]) -> tuple[PosedItem, ...]:
    """The rows of one item, in the order of the seeds; refused where they differ."""
    first = next(iter(orders.values()))
    if orders.keys() != set(SEEDS):
        raise DataError(
            f"{first.place}: {first.id} is here with seeds {sorted(orders)}, not "
            f"{list(SEEDS)}; name the files of all five"
        )
    for other in orders.values():
        _refuse_difference(first, other, {*_OPTIONS, "scenario"})
    return tuple(orders[seed] for seed in SEEDS)


def _refuse_difference(one: PosedItem, other: PosedItem, names: Set[str]) -> None:
    for name in sorted(names):
        if getattr(one, name) != getattr(other, name):
            raise DataError(
                f"{other.place}: the {name} of {other.id}, {getattr(other, name)!r}, differs from "
                f"{one.place}, {getattr(one, name)!r}; fetch both files again"
            )


def _sample(orders: Sequence[PosedItem], control: Sequence[PosedItem] | None) -> Sample:
    """The sample of an item, with `without_story` only where the control differs from the item.

    Both are compared as released, outer white space included, as for the published control.
    """
    item = orders[0]
    fields = {"scenario": item.scenario}
    if control is not None and control[0].content != item.content:
        fields["without_story"] = control[0].scenario
    return Sample(
        id=item.id,
        fields=fields,
        references={
            "labels": item.labels,
            **{f"order{one.seed}": tuple(map(str, one.order)) for one in orders},
        },
        choices=item.options,
        gold=item.right,
        group=item.group,
    )


def _listed(row: TableRow, column: str, form: re.Pattern[str]) -> tuple[str, ...]:
    text = row.cells[column].strip()
    if not form.fullmatch(text):
        raise DataError(f"{row.place}: {column} says {text!r}, not a list; fetch the file again")
    return tuple(re.findall(r"\w+", text))


def _options(row: TableRow, count: int) -> list[str]:
    """The options at the end of a prompt, in its order; no two are equal."""
    tail = re.split(r"\r?\n", row.cells["prompt"].strip())[-count - 2 :]
    lines = [line.strip() for line in tail]
    if len(lines) < count + 2 or lines[0] not in _HEADINGS or lines[-1] != _END:
        raise DataError(
            f"{row.place}: the prompt does not end with {' or '.join(_HEADINGS)}, {count} options "
            f"of a line each and {_END} (its last line is {lines[-1]!r}); fetch the file again"
        )
    texts = [_numbered(row, line, place) for place, line in enumerate(lines[1:-1], 1)]
    if repeated := [text for text in texts if texts.count(text) > 1]:
        raise DataError(f"{row.place}: option {repeated[0]!r} occurs twice; make them differ")
    return texts


def _numbered(row: TableRow, line: str, place: int) -> str:
    text = line.removeprefix(f"{place})").strip()
    if not text or text == line:
        raise DataError(
            f"{row.place}: the prompt's option {place} reads {line!r}, not '{place}) ' and a "
            "text; fetch the file again"
        )
    return text


def _right(row: TableRow, order: Sequence[int], *, labels: Sequence[str]) -> int:
    """The index of the right option in the item's order; its number and its label must agree."""
    shown = _listed(row, "randomized_labels_complex", _LABELS)
    if shown != tuple(labels[number - 1] for number in order):
        raise DataError(
            f"{row.place}: randomized_labels_complex is not original_labels_complex in the order "
            f"{list(order)}; fetch the file again"
        )
    answer = int(_number(row, "randomized_true_answer"))
    right = [place for place, label in enumerate(shown, 1) if label.startswith(_RIGHT)]
    if right != [answer]:
        raise DataError(
            f"{row.place}: randomized_true_answer is {answer}, while {_RIGHT}... labels are at "
            f"{right}; fetch the file again"
        )
    return order[answer - 1] - 1


def _number(row: TableRow, column: str) -> str:
    text = row.cells[column].strip()
    if not re.fullmatch(r"0|[1-9][0-9]*", text):
        raise DataError(f"{row.place}: {column} says {text!r}, not a number; fetch the file again")
    return text


def _group(row: TableRow) -> str:
    code = row.cells["phenomenon"].strip()
    if code not in GROUPS:
        raise DataError(
            f"{row.place}: unknown phenomenon {code!r}{did_you_mean(code, list(GROUPS))}; "
            "fetch the file again"
        )
    return GROUPS[code]
