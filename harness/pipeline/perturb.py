"""A task's samples to a sample set of them and their perturbed texts, and the task that reads it.

A perturbed sample is its original with one field changed: same references, choices, orders and
cluster. A text that a perturbation cannot change is counted and left out, never passed off as
perturbed. Nothing here reads or writes a file.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from msgspec import structs

from harness.core import Sample
from harness.data.choices import ORDER, permutation
from harness.data.readers.labelled_table import IMPLICITNESS
from harness.errors import SpecError, did_you_mean
from harness.models.client.cached import CachedClient
from harness.parts import Reason
from harness.pipeline.build import build
from harness.specs.tasks import DataSpec, TaskSpec
from harness.specs.transforms import (
    TEXT,
    AskedSpec,
    BuildSpec,
    LocalSpec,
    PerturbationSpec,
    WordNetSpec,
)
from harness.text.dedup import normal
from harness.text.edits import edit_text, synonyms
from harness.text.parsers import is_refusal
from harness.text.prompts import Prompts

FROM, BY, KEEPS = "perturbed_from", "perturbed_by", "keeps_meaning"
ORIGINAL: Final = "original"


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes texts anew: a model's client and the templates it is asked in."""

    client: CachedClient
    prompts: Prompts


@dataclass(frozen=True, slots=True)
class PerturbationPlan:
    """What is perturbed: the field, by which perturbations, by what seed."""

    field: str
    specs: Mapping[str, PerturbationSpec]
    seed: int = 0


@dataclass(frozen=True, slots=True)
class PerturbationCounts:
    """The counts of one perturbation: texts changed, left as they were, and missing by reason."""

    perturbation: str
    keeps_meaning: bool
    changed: int
    unchanged: int
    missing: Counter[Reason] = field(default_factory=Counter)


def field_of(samples: Sequence[Sample], wanted: str | None) -> str:
    """The field to perturb: the one wanted, else `text`, else the one with the longest texts."""
    known = sorted({name for sample in samples for name in sample.fields})
    if wanted is not None:
        if wanted not in known:
            raise SpecError(
                f"--field: samples have no field {wanted!r}{did_you_mean(wanted, known)}"
            )
        return wanted
    if TEXT in known:
        return TEXT
    return max(known, key=lambda name: sum(len(s.fields.get(name, "")) for s in samples))


def perturbed(
    samples: Sequence[Sample], task: TaskSpec, plan: PerturbationPlan, *, writer: Writer | None
) -> tuple[list[Sample], list[PerturbationCounts]]:
    """The samples, then those of each perturbation; and the counts of each perturbation.

    `writer` is None where no perturbation asks a model.
    """
    found, counts = [_original(sample, task) for sample in samples], []
    for name, spec in plan.specs.items():
        texts: dict[str, str]
        if isinstance(spec, AskedSpec):
            texts, missing = _written(samples, spec, plan, writer=writer)
        else:
            texts, missing = _changed(samples, name, spec, plan), Counter[Reason]()
        found += [
            _sample(sample, texts[sample.id], task, plan=plan, name=name)
            for sample in samples
            if sample.id in texts
        ]
        left = len(samples) - len(texts) - missing.total()
        counts.append(PerturbationCounts(name, spec.keeps_meaning, len(texts), left, missing))
    return found, counts


def perturbed_task(task: TaskSpec, *, name: str, of: str, about: str) -> TaskSpec:
    """The task whose sample set is the perturbed one, under a name of its own, made of `of`."""
    data = DataSpec(
        source=name,
        reader="samples_jsonl",
        files=(),
        sample=f"samples/{name}.jsonl",
    )
    return structs.replace(task, about=about, data=data, made_of=task.origin(of))


def line(sample: Sample) -> dict[str, Any]:
    """A sample as a line of the sample format, which has no place for blank references."""
    references = {
        name: tuple(text for text in texts if text.strip())
        for name, texts in sample.references.items()
    }
    return {
        "id": sample.id,
        "group": sample.group,
        "cluster": sample.cluster,
        "fields": dict(sample.fields),
        "references": {name: texts for name, texts in references.items() if texts},
        "choices": sample.choices,
        "gold": sample.gold,
        "flags": sample.flags,
    }


def _changed(
    samples: Sequence[Sample], name: str, spec: LocalSpec, plan: PerturbationPlan
) -> dict[str, str]:
    """The texts that word lists change, by sample id; each drawn by its sample's id alone."""
    lookup: Callable[[str], Sequence[str]] = lambda _: ()  # noqa: E731 - asked by WordNetSpec alone
    if isinstance(spec, WordNetSpec):
        lookup = synonyms(spec.part_of_speech)
    found = {}
    for sample in samples:
        draw = Random(f"{plan.seed}:{name}:{sample.id}")  # noqa: S311 - a reproducible draw
        made = edit_text(sample.fields.get(plan.field, ""), spec, draw, wordnet=lookup)
        if made is not None:
            found[sample.id] = made
    return found


def _written(
    samples: Sequence[Sample], spec: AskedSpec, plan: PerturbationPlan, *, writer: Writer | None
) -> tuple[dict[str, str], Counter[Reason]]:
    """The texts that a model writes, by sample id, and what it did not write, by reason."""
    if writer is None:
        raise SpecError(f"perturbation {spec.about!r} asks a model; name one with --model")
    there = {s.id: s.fields[plan.field] for s in samples if s.fields.get(plan.field, "").strip()}
    job = BuildSpec(
        about=spec.about, steps=spec.steps, decoding=spec.decoding, postprocess=spec.postprocess
    )
    asked = [Sample(id=name, fields={TEXT: text}) for name, text in there.items()]
    built = build(asked, job, prompts=writer.prompts, client=writer.client, seed=plan.seed)
    missing, texts = Counter(built.missing), {}
    for draft in built.finished:
        said = draft.sample.references[spec.steps[-1].name][0]
        if is_refusal(said) and not is_refusal(there[draft.sample.id]):
            missing[Reason.REFUSED] += 1
        elif normal(said) != normal(there[draft.sample.id]):
            texts[draft.sample.id] = said
    return texts, missing


def _original(sample: Sample, task: TaskSpec) -> Sample:
    """A sample as it stands, in the group of originals unless groups word the task's prompts."""
    return sample if task.phrases else replace(sample, group=ORIGINAL)


def _sample(
    sample: Sample, text: str, task: TaskSpec, *, plan: PerturbationPlan, name: str
) -> Sample:
    """A sample with another text, linked to its original."""
    measured = {n: texts for n, texts in sample.references.items() if n != IMPLICITNESS}
    if taken := {FROM, BY, KEEPS} & {*measured, *sample.fields}:
        raise SpecError(
            f"sample {sample.id} has {min(taken)!r} already: it is perturbed; perturb its original"
        )
    keeps = "yes" if plan.specs[name].keeps_meaning else "no"
    return replace(
        sample,
        id=f"{sample.id}~{name}",
        fields={**sample.fields, plan.field: text},
        references={
            **measured,
            **_orders(sample, task),
            FROM: (sample.id,),
            BY: (name,),
            KEEPS: (keeps,),
        },
        group=sample.group if task.phrases else name,
    )


def _orders(sample: Sample, task: TaskSpec) -> dict[str, tuple[str, ...]]:
    """The orders of the choices under the sample's id, which its perturbed ones are to share."""
    if not sample.choices:
        return {}
    layouts = [variant.choice for variant in task.variants.values() if variant.choice]
    numbers = sorted({layout.order for layout in layouts if layout.order is not None})
    return {
        f"{ORDER}{number}": tuple(str(at + 1) for at in permutation(sample, number))
        for number in numbers
    }
