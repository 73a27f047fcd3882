"""Samples to requests: which cells a run has, and what each of their steps asks.

Pure: nothing here answers, stores or judges. References reach a prompt only where the variant
reveals them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.core import Request, Run, Sample
from harness.errors import SpecError
from harness.parts import Decoding, digest
from harness.prompts import Prompts
from harness.specs.checked import nearest
from harness.specs.tasks import DecodingSpec, StepSpec, TaskSpec


@dataclass(frozen=True, slots=True)
class Cell:
    """One planned response: a sample, under a variant, drawn one way."""

    sample: Sample
    variant: str
    decoding: DecodingSpec

    @property
    def label(self) -> str:
        """The name of the decoding in tables, such as T0.3."""
        return decoding_label(self.decoding)


@dataclass(frozen=True, slots=True)
class Plan:
    """A run, resolved: what to ask of which samples, in which words, of which model."""

    run: Run
    task: TaskSpec
    samples: tuple[Sample, ...]
    prompts: Prompts
    identity: str

    @property
    def cells(self) -> list[Cell]:
        """Every response of the run, in the order of variant, decoding and sample."""
        return [
            Cell(sample, variant, decoding)
            for variant in self.run.variants
            for decoding in self.task.decodings
            for sample in self.samples
        ]


def decoding_label(decoding: DecodingSpec) -> str:
    """The name of a decoding in tables, such as T0.3."""
    return f"T{decoding.temperature:g}"


def take(samples: Sequence[Sample], limit: int | None, *, seed: int) -> tuple[Sample, ...]:
    """A seeded subset in which every group keeps its share; a smaller one lies within a larger.

    Samples are ranked within their group by a seeded digest and dealt out in proportion: no
    group is ever a whole sample from its share. The subset keeps the order of the file.
    """
    if limit is None or limit >= len(samples):
        return tuple(samples)
    groups: dict[str, list[Sample]] = {}
    for sample in sorted(samples, key=lambda s: digest((seed, s.id))):
        groups.setdefault(sample.group, []).append(sample)
    counts = _dealt({name: len(members) for name, members in groups.items()}, limit)
    chosen = {s.id for name, members in groups.items() for s in members[: counts[name]]}
    return tuple(sample for sample in samples if sample.id in chosen)


def _dealt(sizes: Mapping[str, int], limit: int) -> dict[str, int]:
    """How many each group gives: the quota method (Balinski and Young 1975), which never takes
    back what it dealt, as largest remainders do, nor strays from a share, as divisors do.
    """
    counts, total = dict.fromkeys(sorted(sizes), 0), sum(sizes.values())
    for place in range(1, limit + 1):
        behind = [name for name in counts if counts[name] * total < place * sizes[name]]
        counts[min(behind, key=lambda name: (counts[name] + 1) / sizes[name])] += 1
    return counts


def request(plan: Plan, cell: Cell, *, step: StepSpec, earlier: Mapping[str, str]) -> Request:
    """The request of one step of a cell; `earlier` holds the texts of the steps before it."""
    return Request(
        sample_id=cell.sample.id,
        variant=cell.variant,
        step=step.name,
        model=_asked(plan.identity, cell.sample),
        messages=plan.prompts.render(step.template, {**slots(plan, cell, step=step), **earlier}),
        decoding=_decoding(plan, cell, step),
    )


def slots(plan: Plan, cell: Cell, *, step: StepSpec) -> dict[str, str]:
    """What a step's template may show of a sample: fields, phrases, revealed references."""
    sample, variant = cell.sample, plan.task.variants[cell.variant]
    wanted = plan.prompts.variables(step.template)
    found = dict(sample.fields)
    for name in variant.reveals:
        if not sample.references.get(name):
            raise SpecError(
                f"tasks/{plan.run.task}.yaml: variant {cell.variant} reveals {name!r}, which "
                f"sample {sample.id} lacks"
                f"{nearest(name, list(sample.references))}"
            )
        found[name] = "\n".join(sample.references[name])
    for name, template in variant.slots.items():
        found[name] = plan.prompts.text(f"{template}.j2", sample.fields)
    for phrase in plan.task.phrases:
        if phrase in wanted:
            file = f"{plan.run.task}/{phrase}/{sample.group}.j2"
            found[phrase] = plan.prompts.text(file, sample.fields)
    return found


def check_templates(plan: Plan) -> None:
    """Refuse a template whose slots a step does not have, in any group, before the first call."""
    for name in plan.run.variants:
        variant = plan.task.variants[name]
        known = {*plan.samples[0].fields, *variant.slots, *variant.reveals, *plan.task.phrases}
        for step in variant.steps:
            for cell in _one_a_group(plan, name):
                slots(plan, cell, step=step)
            for slot in sorted(plan.prompts.variables(step.template) - known):
                place = f"{plan.prompts.place(step.template)}, variant {name}"
                is_reference = any(slot in sample.references for sample in plan.samples)
                remedy = f"; it is a reference: add it to `reveals` of {name}" * is_reference
                raise SpecError(
                    f"{place}: slot {slot!r} is not defined here{remedy}"
                    f"{nearest(slot, sorted(known))}"
                )
            known.add(step.name)


def _one_a_group(plan: Plan, variant: str) -> list[Cell]:
    first = {sample.group: sample for sample in reversed(plan.samples)}
    return [Cell(sample, variant, plan.task.decodings[0]) for sample in first.values()]


def variant_digest(task: TaskSpec, variant: str, *, prompts: Prompts, name: str) -> str:
    """Digest of all in a task's YAML and prompts that shapes the answers of one variant."""
    spec = task.variants[variant]
    wanted = frozenset().union(*(prompts.variables(step.template) for step in spec.steps))
    words = [prompts.digest(step.template) for step in spec.steps]
    words += [prompts.digest(template) for template in spec.slots.values()]
    words += [prompts.digest_below(f"{name}/{slot}") for slot in task.phrases if slot in wanted]
    return digest(
        (task.mode, task.cut, task.decodings, spec.steps, spec.slots, spec.reveals, words)
    )


def _asked(identity: str, sample: Sample) -> str:
    # A control answers by the sample, not by the prompt: equal prompts must not share an answer.
    return f"{identity}#{sample.id}" if identity.startswith("scripted:") else identity


def _decoding(plan: Plan, cell: Cell, step: StepSpec) -> Decoding:
    """How a step's answer is drawn; the seed depends on its place alone, and greedy has none."""
    temperature = cell.decoding.temperature
    place = (plan.run.seed, cell.sample.id, cell.variant, step.name, temperature)
    return Decoding(
        temperature=temperature,
        max_tokens=step.max_tokens or cell.decoding.max_tokens,
        seed=int(digest(place)[:7], 16) if temperature > 0 else None,
    )
