"""A sample's choices to the options of a prompt, and samples to derived choice samples."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, permutations
from random import Random

from harness.core import Sample
from harness.errors import DataError, SpecError, check_names
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
        fact = f"sample {sample.id} has {len(labels)} labels for {len(sample.choices)} choices"
        raise DataError(f"{fact}; give each choice one, or none at all")
    order = permutation(sample, spec.order)
    if spec.answers == "number":
        return tuple([Option(at, f"{spec.lead}{place}") for place, at in enumerate(order, 1)])
    return tuple([Option(at, f"{spec.lead}{sample.choices[at]}") for at in order])


def display_texts(sample: Sample, options: Sequence[Option]) -> tuple[str, ...]:
    """The texts of the choices, in the order of the options."""
    return tuple(sample.choices[option.index] for option in options)


def permutation(sample: Sample, number: int | None) -> tuple[int, ...]:
    """One order of a sample's choices, as indices from 0; None is the sample's own order.

    A reference order0, order1, ... gives an order, as numbers from 1. Otherwise the numbers go in
    turn through all orders, shuffled by the sample's id; of more than six choices each is drawn.
    """
    count = len(sample.choices)
    if number is None:
        return tuple(range(count))
    if given := sample.references.get(name := f"{ORDER}{number}"):
        if sorted(given) != sorted(str(place) for place in range(1, count + 1)):
            fact = f"{name} is {', '.join(given)}, not an order of the places 1 to {count}"
            raise DataError(f"sample {sample.id}: {fact}; correct it")
        return tuple(int(place) - 1 for place in given)
    if count > MOST_LISTED:
        draw = Random(f"orders:{sample.id}:{number}")  # noqa: S311 - a reproducible draw, no secret
        return tuple(draw.sample(range(count), count))
    orders = list(permutations(range(count)))
    Random(f"orders:{sample.id}").shuffle(orders)  # noqa: S311 - a reproducible draw, no secret
    return orders[number % len(orders)]


def derive(samples: Sequence[Sample], spec: PairsSpec | ReferenceChoiceSpec) -> list[Sample]:
    """The choice samples that a task's `derive` describes; DataError without any."""
    names = [spec.reference] if isinstance(spec, PairsSpec) else [spec.right, spec.wrong]
    check_names("`derive` names reference", names, _references(samples))
    usable = [one for one in samples if all(_texts(one, name) for name in names)]
    if isinstance(spec, PairsSpec):
        kind, (derived, left_out) = "minimal_pairs", _pairs(usable, spec)
    else:
        kind, (derived, left_out) = "references", _reference_choices(usable, spec)
    without = f"samples without {' or '.join(map(repr, names))}"
    left_out = {without: len(samples) - len(usable), **left_out}
    counted = ", ".join(f"{count} {what}" for what, count in left_out.items() if count)
    if not derived:
        fact = f"`derive` ({kind}) makes no sample ({counted})"
        raise DataError(f"{fact}; name other references in the task")
    if counted:
        _log.warning("%s: %d choice samples, left out: %s", kind, len(derived), counted)
    return derived


def share_a_text(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two references share a text, ignoring case and outer white space."""
    return bool({t.strip().casefold() for t in one} & {t.strip().casefold() for t in other})


def _pairs(samples: Sequence[Sample], spec: PairsSpec) -> tuple[list[Sample], dict[str, int]]:
    """Two samples for every two of one cluster whose references share no text."""
    texts = {sample.id: _texts(sample, spec.reference) for sample in samples}
    clusters: dict[str, list[Sample]] = {}
    for sample in samples:
        clusters.setdefault(sample.cluster, []).append(sample)
    every = [duo for members in clusters.values() for duo in combinations(members, 2)]
    usable = [(a, b) for a, b in every if not share_a_text(texts[a.id], texts[b.id])]
    derived = []
    for duo in usable:
        choices = tuple(texts[sample.id][0] for sample in duo)
        pair = digest(tuple(sample.id for sample in duo))[:8]
        derived += [
            replace(sample, id=f"{sample.id}-{pair}", choices=choices, gold=own)
            for sample, own in zip(duo, choices, strict=True)
        ]
    paired = {sample.id for duo in usable for sample in duo}
    return derived, {
        "samples without a partner": len(samples) - len(paired),
        "pairs that share a text": len(every) - len(usable),
    }


def _reference_choices(
    samples: Sequence[Sample], spec: ReferenceChoiceSpec
) -> tuple[list[Sample], dict[str, int]]:
    fields = {name for sample in samples for name in sample.fields}
    for name, parts in spec.join.items():
        check_names("`derive` names field", parts, fields)
        if name in {LABELS} | fields | _references(samples):
            raise SpecError(f"`join` makes {name!r}, which samples have already; rename it")
    derived = []
    for sample in samples:
        choices = tuple(_texts(sample, name)[0] for name in (spec.right, spec.wrong))
        if not share_a_text(choices[:1], choices[1:]):
            own = {**sample.fields, **_joined(sample.fields, spec.join)}
            references = {**sample.references, LABELS: spec.labels}
            made = replace(sample, fields=own, references=references)
            derived.append(replace(made, choices=choices, gold=choices[0]))
    return derived, {"samples whose two texts are one": len(samples) - len(derived)}


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
