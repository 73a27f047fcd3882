"""A sample's choices to the options of a prompt: their order, and the answer that stands for each.

An order depends only on the sample and the number of the order.
"""

from collections.abc import Sequence
from itertools import permutations
from random import Random

from harness.core import Sample
from harness.errors import DataError
from harness.parts import Option
from harness.specs.tasks import ChoiceSpec

ORDER, LABELS = "order", "labels"
MOST_LISTED = 6


def lay_out(sample: Sample, spec: ChoiceSpec) -> tuple[Option, ...]:
    """The choices of a sample in the order the prompt shows them, each with its answer."""
    if not sample.choices:
        raise DataError(f"sample {sample.id} has no choices; give it some, and which is right")
    labels = sample.references.get(LABELS)
    if labels is not None and len(labels) != len(sample.choices):
        raise DataError(
            f"sample {sample.id} has {len(labels)} labels for {len(sample.choices)} choices; give "
            "each choice one, or none at all"
        )
    order = permutation(sample, spec.order)
    if spec.answers == "number":
        return tuple(Option(at, f"{spec.lead}{place}") for place, at in enumerate(order, 1))
    return tuple(Option(at, f"{spec.lead}{sample.choices[at]}") for at in order)


def display_texts(sample: Sample, options: Sequence[Option]) -> tuple[str, ...]:
    """The texts of the choices, in the order of the options."""
    return tuple(sample.choices[option.index] for option in options)


def permutation(sample: Sample, number: int | None) -> tuple[int, ...]:
    """One order of a sample's choices, as indices from 0; None is the sample's own order.

    A reference order0, order1, ... of the sample gives its orders, as numbers from 1. Otherwise the
    numbers go in turn through all orders, shuffled by the sample's id: the first few differ, and
    over samples no position is favoured. Orders of more than six choices are drawn independently.
    """
    count = len(sample.choices)
    if number is None:
        return tuple(range(count))
    if given := sample.references.get(f"{ORDER}{number}"):
        return _given(sample, given, name=f"{ORDER}{number}")
    if count > MOST_LISTED:
        draw = Random(f"orders:{sample.id}:{number}")  # noqa: S311 - a reproducible draw, no secret
        return tuple(draw.sample(range(count), count))
    orders = list(permutations(range(count)))
    Random(f"orders:{sample.id}").shuffle(orders)  # noqa: S311 - a reproducible draw, no secret
    return orders[number % len(orders)]


def _given(sample: Sample, places: Sequence[str], *, name: str) -> tuple[int, ...]:
    expected = [str(place) for place in range(1, len(sample.choices) + 1)]
    if sorted(places) != sorted(expected):
        raise DataError(
            f"sample {sample.id}: {name} is {', '.join(places)}, not an order of the places "
            f"1 to {len(expected)}; correct it"
        )
    return tuple(int(place) - 1 for place in places)
