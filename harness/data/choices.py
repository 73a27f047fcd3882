"""A sample's choices to the options of a prompt: their order, and the answer that means each.

An order depends only on the sample and the number of the order. Samples also become choice samples:
which of two stresses has this meaning, which of two texts is right. A choice is then a reference's
first text that is not blank, without outer white space. Nothing here reads a file.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, permutations
from random import Random

from harness.core import Sample
from harness.errors import DataError, SpecError, did_you_mean
from harness.parts import Option, digest
from harness.specs.tasks import ChoiceSpec, PairsSpec, ReferenceChoiceSpec

_log = logging.getLogger(__name__)
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
    if given := sample.references.get(name := f"{ORDER}{number}"):
        if sorted(given) != sorted(str(place) for place in range(1, count + 1)):
            raise DataError(
                f"sample {sample.id}: {name} is {', '.join(given)}, not an order of the places "
                f"1 to {count}; correct it"
            )
        return tuple(int(place) - 1 for place in given)
    if count > MOST_LISTED:
        draw = Random(f"orders:{sample.id}:{number}")  # noqa: S311 - a reproducible draw, no secret
        return tuple(draw.sample(range(count), count))
    orders = list(permutations(range(count)))
    Random(f"orders:{sample.id}").shuffle(orders)  # noqa: S311 - a reproducible draw, no secret
    return orders[number % len(orders)]


def derive(samples: Sequence[Sample], spec: PairsSpec | ReferenceChoiceSpec) -> list[Sample]:
    """The choice samples that a task's `derive` describes; raises DataError without any."""
    if isinstance(spec, PairsSpec):
        return _pairs(samples, spec)
    return _reference_choices(samples, spec)


def share_a_text(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two references share a text, ignoring case and outer white space."""
    return bool({t.strip().casefold() for t in one} & {t.strip().casefold() for t in other})


def _pairs(samples: Sequence[Sample], spec: PairsSpec) -> list[Sample]:
    """Two samples for every two of one cluster whose references share no text.

    Each has the fields of one of the two; the choices of both are the first one's reference, then
    the second one's, in the order of the file. The end of their ids names the pair.
    """
    _refuse_unknown([spec.reference], _references(samples), what="reference")
    with_text = [sample for sample in samples if _texts(sample, spec.reference)]
    clusters: dict[str, list[Sample]] = {}
    for sample in with_text:
        clusters.setdefault(sample.cluster, []).append(sample)
    every = [duo for members in clusters.values() for duo in combinations(members, 2)]
    usable = [duo for duo in every if not share_a_text(*(_texts(s, spec.reference) for s in duo))]
    paired = {sample.id for duo in usable for sample in duo}
    left_out = {
        f"samples without {spec.reference!r}": len(samples) - len(with_text),
        "samples without a partner": len(with_text) - len(paired),
        "pairs that share a text": len(every) - len(usable),
    }
    derived = []
    for duo in usable:
        choices = tuple(_texts(sample, spec.reference)[0] for sample in duo)
        pair = digest(tuple(sample.id for sample in duo))[:8]
        derived += [
            replace(sample, id=f"{sample.id}-{pair}", choices=choices, gold=own)
            for sample, own in zip(duo, choices, strict=True)
        ]
    return _log_left_out(derived, left_out, kind="minimal_pairs")


def _reference_choices(samples: Sequence[Sample], spec: ReferenceChoiceSpec) -> list[Sample]:
    _refuse_unknown([spec.right, spec.wrong], _references(samples), what="reference")
    fields = {name for sample in samples for name in sample.fields}
    for name, parts in spec.join.items():
        _refuse_unknown(parts, fields, what="field")
        if name in {LABELS} | fields | _references(samples):
            raise SpecError(f"`join` makes {name!r}, which samples have already; rename it")
    both = [s for s in samples if _texts(s, spec.right) and _texts(s, spec.wrong)]
    choices = {s.id: (_texts(s, spec.right)[0], _texts(s, spec.wrong)[0]) for s in both}
    usable = [s for s in both if not share_a_text(*([text] for text in choices[s.id]))]
    left_out = {
        f"samples without {spec.right!r} or {spec.wrong!r}": len(samples) - len(both),
        "samples whose two texts are one": len(both) - len(usable),
    }
    derived = [
        replace(
            sample,
            fields={**sample.fields, **_joined(sample.fields, spec.join)},
            references={**sample.references, LABELS: spec.labels},
            choices=choices[sample.id],
            gold=choices[sample.id][0],
        )
        for sample in usable
    ]
    return _log_left_out(derived, left_out, kind="references")


def _joined(fields: Mapping[str, str], join: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {
        name: "".join(fields[part] for part in parts)
        for name, parts in join.items()
        if all(part in fields for part in parts)
    }


def _texts(sample: Sample, reference: str) -> tuple[str, ...]:
    return tuple(text.strip() for text in sample.references.get(reference, ()) if text.strip())


def _references(samples: Sequence[Sample]) -> set[str]:
    return {name for sample in samples for name in sample.references}


def _refuse_unknown(names: Sequence[str], known: Collection[str], *, what: str) -> None:
    for name in names:
        if name not in known:
            raise SpecError(f"`derive` names {what} {name!r}{did_you_mean(name, list(known))}")


def _log_left_out(derived: list[Sample], left_out: Mapping[str, int], *, kind: str) -> list[Sample]:
    counted = ", ".join(f"{count} {what}" for what, count in left_out.items() if count)
    if not derived:
        raise DataError(
            f"`derive` ({kind}) makes no sample ({counted}); name other references in the task"
        )
    if counted:
        _log.warning("%s: %d choice samples, left out: %s", kind, len(derived), counted)
    return derived
