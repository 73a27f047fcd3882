"""The released prompts of Hu et al. 2022 to samples: an item, its options, five orders of them.

A phenomenon has five files, one an order of the options; five phenomena have five more in which
the story is left out. What an item says in one of its files it says in all, or they are refused.
Texts lose their outer white space and nothing else.
"""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from harness.core import Sample
from harness.errors import DataError, SpecError, did_you_mean
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

    `options` and `labels` stand in the item's own order, `right` is one of the options; `order`
    says, from 1, which of them stands at each place of the prompt. `content` is the scenario as
    released.
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
        """The id of its sample: phenomenon and number, as the release has them."""
        return f"{self.group}-{self.number}"

    @property
    def scenario(self) -> str:
        """The story and the question, without outer white space."""
        return self.content.strip()


def read(files: Sequence[Path], overlay: OverlaySpec | None) -> list[Sample]:
    """One sample an item, in the order of the files."""
    if overlay is not None:
        raise SpecError("hu2022: this data takes no overlay; remove `overlay` from the task")
    stories = _by_item([path for path in files if WITHOUT_STORY not in path.name])
    controls = _by_item([path for path in files if WITHOUT_STORY in path.name])
    for name, orders in controls.items():
        if name not in stories:
            raise DataError(
                f"{orders[0].place}: {name} is there without its story alone; name the files "
                "with the stories too"
            )
        for seed in SEEDS:
            _refuse_difference(stories[name][seed], orders[seed], {*_OPTIONS, "order"})
    return [_sample(orders, controls.get(name)) for name, orders in stories.items()]


def posed_item(row: TableRow) -> PosedItem:
    """A row of a file of prompts, or of stored answers to them; it needs COLUMNS."""
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
    """The rows of each item, one a seed, in the order of the seeds."""
    found: dict[str, dict[int, PosedItem]] = {}
    for item in (posed_item(row) for path in paths for row in read_rows(path, COLUMNS)):
        orders = found.setdefault(item.id, {})
        if first := orders.get(item.seed):
            raise DataError(
                f"{item.place}: {item.id} with seed {item.seed} stands in {first.place} too; "
                "remove one of them"
            )
        orders[item.seed] = item
    return {name: _agreed(orders) for name, orders in found.items()}


def _agreed(orders: Mapping[int, PosedItem]) -> tuple[PosedItem, ...]:
    """The rows of one item, in the order of the seeds, once they all say the same."""
    first = next(iter(orders.values()))
    if orders.keys() != set(SEEDS):
        raise DataError(
            f"{first.place}: {first.id} is there with seeds {sorted(orders)}, not "
            f"{list(SEEDS)}; name the files of all five"
        )
    for other in orders.values():
        _refuse_difference(first, other, {*_OPTIONS, "scenario"})
    return tuple(orders[seed] for seed in SEEDS)


def _refuse_difference(one: PosedItem, other: PosedItem, names: Set[str]) -> None:
    """Refuse two rows of an item that differ in any of these."""
    for name in sorted(names):
        if getattr(one, name) != getattr(other, name):
            raise DataError(
                f"{other.place}: the {name} of {other.id}, {getattr(other, name)!r}, differs from "
                f"{one.place}, {getattr(one, name)!r}; fetch both files again"
            )


def _sample(orders: Sequence[PosedItem], control: Sequence[PosedItem] | None) -> Sample:
    """The sample of an item; where leaving the story out changed nothing, no such field.

    Both are compared as released, so that the items are those of the published control. (In two
    of them it changed the outer white space alone.)
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
    """The numbers or words of a list as Python writes it."""
    text = row.cells[column].strip()
    if not form.fullmatch(text):
        raise DataError(f"{row.place}: {column} says {text!r}, not a list; fetch the file again")
    return tuple(re.findall(r"\w+", text))


def _options(row: TableRow, count: int) -> list[str]:
    """The options at the end of a prompt, in the order they stand in; no two are alike."""
    tail = re.split(r"\r?\n", row.cells["prompt"].strip())[-count - 2 :]
    lines = [line.strip() for line in tail]
    if len(lines) < count + 2 or lines[0] not in _HEADINGS or lines[-1] != _END:
        raise DataError(
            f"{row.place}: the prompt does not end with {' or '.join(_HEADINGS)}, {count} options "
            f"of a line each and {_END} (its last line is {lines[-1]!r}); fetch the file again"
        )
    texts = [_numbered(row, line, place) for place, line in enumerate(lines[1:-1], 1)]
    if twice := [text for text in texts if texts.count(text) > 1]:
        raise DataError(f"{row.place}: option {twice[0]!r} is there twice; make them differ")
    return texts


def _numbered(row: TableRow, line: str, place: int) -> str:
    """The text of the option at a place."""
    text = line.removeprefix(f"{place})").strip()
    if not text or text == line:
        raise DataError(
            f"{row.place}: the prompt's option {place} reads {line!r}, not '{place}) ' and a "
            "text; fetch the file again"
        )
    return text


def _right(row: TableRow, order: Sequence[int], *, labels: Sequence[str]) -> int:
    """The index of the right option in the item's own order, told by number and by label."""
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
            f"{row.place}: randomized_true_answer is {answer}, while {_RIGHT}... labels stand at "
            f"{right}; fetch the file again"
        )
    return order[answer - 1] - 1


def _number(row: TableRow, column: str) -> str:
    """A cell that holds a whole number."""
    text = row.cells[column].strip()
    if not re.fullmatch(r"0|[1-9][0-9]*", text):
        raise DataError(f"{row.place}: {column} says {text!r}, not a number; fetch the file again")
    return text


def _group(row: TableRow) -> str:
    """The phenomenon of a row."""
    code = row.cells["phenomenon"].strip()
    if code not in GROUPS:
        raise DataError(
            f"{row.place}: unknown phenomenon {code!r}{did_you_mean(code, list(GROUPS))}; "
            "fetch the "
            "file again"
        )
    return GROUPS[code]
