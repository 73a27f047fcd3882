"""The released prompts of Hu et al. 2022 to samples: an item, its options, five orders of them.

Each phenomenon has five files, one for each order of the options; five phenomena have five more
without the story. An item must be equal in all its files. Texts lose only outer white space.
"""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from harness.core import Sample
from harness.data.readers.released import damaged, refuse_overlay
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
    *("phenomenon", "item_id", "content", "randomized_option_order", "randomized_labels_complex"),
    *("randomized_true_answer", "original_labels_complex", "prompt", "seed"),
)
SEEDS = range(5)
WITHOUT_STORY = "_no-story_"
_HEADINGS = ("Options:", "Punchlines:")
_END = "Answer:"
_RIGHT = "Correct"
_OPTIONS = ("options", "labels", "right")
_PLACES = re.compile(r"\[[0-9]+(?:, [0-9]+)*\]")
_LABELS = re.compile(r"\['\w+'(?:, '\w+')*\]")
_NUMBER = re.compile(r"0|[1-9][0-9]*")


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
        fact = f"randomized_option_order says {list(order)}, not an order of {len(labels)} options"
        raise damaged(row, fact)
    laid_out = _options(row, len(order))
    options = tuple(laid_out[order.index(number)] for number in range(1, len(order) + 1))
    content = row.cells["content"]
    if not content.strip() or content.strip() not in row.cells["prompt"]:
        raise damaged(row, "the prompt does not hold the content")
    if (code := row.cells["phenomenon"].strip()) not in GROUPS:
        raise damaged(row, f"unknown phenomenon {code!r}{did_you_mean(code, list(GROUPS))}")
    return PosedItem(
        place=row.place,
        group=GROUPS[code],
        number=_matched(row, "item_id", _NUMBER, "a number"),
        seed=int(_matched(row, "seed", _NUMBER, "a number")),
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
        if (first := orders.setdefault(item.seed, item)) is not item:
            raise DataError(
                f"{item.place}: {item.id} with seed {item.seed} is in {first.place} too; "
                "remove one of them"
            )
    for orders in found.values():
        first = next(iter(orders.values()))
        if orders.keys() != set(SEEDS):
            raise DataError(
                f"{first.place}: {first.id} is here with seeds {sorted(orders)}, not "
                f"{list(SEEDS)}; name the files of all five"
            )
        for other in orders.values():
            _refuse_difference(first, other, {*_OPTIONS, "scenario"})
    return {name: tuple(orders[seed] for seed in SEEDS) for name, orders in found.items()}


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
    places = {f"order{one.seed}": tuple(map(str, one.order)) for one in orders}
    return Sample(
        id=item.id,
        fields=fields,
        references={"labels": item.labels, **places},
        choices=item.options,
        gold=item.right,
        group=item.group,
    )


def _matched(row: TableRow, column: str, form: re.Pattern[str], kind: str) -> str:
    text = row.cells[column].strip()
    if not form.fullmatch(text):
        raise damaged(row, f"{column} says {text!r}, not {kind}")
    return text


def _listed(row: TableRow, column: str, form: re.Pattern[str]) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", _matched(row, column, form, "a list")))


def _options(row: TableRow, count: int) -> list[str]:
    tail = re.split(r"\r?\n", row.cells["prompt"].strip())[-count - 2 :]
    lines = [line.strip() for line in tail]
    if len(lines) < count + 2 or lines[0] not in _HEADINGS or lines[-1] != _END:
        raise damaged(
            row,
            f"the prompt does not end with {' or '.join(_HEADINGS)}, {count} options of a line "
            f"each and {_END} (its last line is {lines[-1]!r})",
        )
    texts: list[str] = []
    for place, line in enumerate(lines[1:-1], 1):
        text = line.removeprefix(f"{place})").strip()
        if text in ("", line):
            fact = f"the prompt's option {place} reads {line!r}, not '{place}) ' and a text"
            raise damaged(row, fact)
        if text in texts:
            raise DataError(f"{row.place}: option {text!r} occurs twice; make them differ")
        texts.append(text)
    return texts


def _right(row: TableRow, order: Sequence[int], *, labels: Sequence[str]) -> int:
    shown = _listed(row, "randomized_labels_complex", _LABELS)
    if shown != tuple(labels[number - 1] for number in order):
        fact = f"randomized_labels_complex is not original_labels_complex in order {list(order)}"
        raise damaged(row, fact)
    answer = int(_matched(row, "randomized_true_answer", _NUMBER, "a number"))
    right = [place for place, label in enumerate(shown, 1) if label.startswith(_RIGHT)]
    if right != [answer]:
        fact = f"randomized_true_answer is {answer}, while {_RIGHT}... labels are at {right}"
        raise damaged(row, fact)
    return order[answer - 1] - 1
