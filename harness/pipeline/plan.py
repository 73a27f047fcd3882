"""Samples to requests: which responses a run plans, and what each of their steps asks.

Pure: nothing here answers, stores or judges. References reach a prompt only where the variant
reveals them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.core import Request, Run, Sample
from harness.data.choices import display_texts, lay_out
from harness.errors import SpecError, did_you_mean
from harness.parts import Decoding, Option, digest
from harness.pipeline.answer_modes import SCORED, decoding_label
from harness.specs.tasks import DecodingSpec, StepSpec, TaskSpec, VariantSpec
from harness.text.prompts import Prompts, Slot, as_data

SCORING = Decoding(max_tokens=1)


@dataclass(frozen=True, slots=True)
class PlannedResponse:
    """One planned response: a sample, under a variant, drawn one way."""

    sample: Sample
    variant: str
    decoding: DecodingSpec


@dataclass(frozen=True, slots=True)
class Plan:
    """A run, resolved: what to ask of which samples, in which words, of which model."""

    run: Run
    task: TaskSpec
    samples: tuple[Sample, ...]
    prompts: Prompts
    identity: str

    @property
    def cells(self) -> list[PlannedResponse]:
        """Every response of the run, in the order of variant, decoding and sample."""
        return [
            PlannedResponse(sample, variant, decoding)
            for variant in self.run.variants
            for decoding in self.task.decodings
            for sample in applicable(self.task.variants[variant], self.samples)
        ]

    def label(self, cell: PlannedResponse) -> str:
        """The name in tables of how a cell is answered, such as T0.3."""
        return decoding_label(self.task, cell.decoding)


def applicable(variant: VariantSpec, samples: Sequence[Sample]) -> list[Sample]:
    """The samples that are asked under a variant: those that have the fields it needs."""
    return [sample for sample in samples if all(name in sample.fields for name in variant.needs)]


def decodings(task: TaskSpec) -> tuple[Decoding, ...]:
    """How answers are drawn; a choice that is scored has nothing to draw."""
    if _is_scored(task):
        return (SCORING,)
    return tuple(Decoding(part.temperature, part.max_tokens) for part in task.decodings)


def chosen_variants(task: TaskSpec, names: tuple[str, ...], *, name: str) -> tuple[str, ...]:
    """The variants of some names: all of them, those named, or the task's own without names."""
    if "all" in names:
        return tuple(task.variants)
    wanted = {_variant(task, part, task_name=name) for part in names}
    return tuple(v for v in task.variants if v in wanted) if names else task.default_variants


def _variant(task: TaskSpec, name: str, *, task_name: str) -> str:
    """The variant of a name, or of the part after the first colon of a name."""
    ends = [variant for variant in task.variants if variant.partition(":")[2] == name]
    if name not in task.variants and len(ends) != 1:
        known = did_you_mean(name, [*task.variants, "all"])
        raise SpecError(f"no variant {name!r} in tasks/{task_name}.yaml{known}")
    return name if name in task.variants else ends[0]


def _is_scored(task: TaskSpec) -> bool:
    return task.has_choices and task.mode in SCORED


def options(task: TaskSpec, variant: str, sample: Sample) -> tuple[Option, ...]:
    """A sample's choices in the order and form of a variant; none where it has no choice.

    An answer is data as much as what a prompt shows: it passes the same filter.
    """
    spec = task.variants[variant].choice
    laid_out = lay_out(sample, spec) if spec else ()
    return tuple(Option(option.index, as_data(option.answer)) for option in laid_out)


def subsample(samples: Sequence[Sample], limit: int | None, *, seed: int) -> tuple[Sample, ...]:
    """A seeded subset in which every group keeps its share; a smaller one lies within a larger.

    Samples are ranked within their group by a seeded digest and dealt out in proportion: no
    group is ever a whole sample from its share. The subset keeps the order of the file.
    """
    if limit is None or limit >= len(samples):
        return tuple(samples)
    groups: dict[str, list[Sample]] = {}
    for sample in sorted(samples, key=lambda s: digest((seed, s.id))):
        groups.setdefault(sample.group, []).append(sample)
    counts = _apportion({name: len(members) for name, members in groups.items()}, limit)
    chosen = {s.id for name, members in groups.items() for s in members[: counts[name]]}
    return tuple(sample for sample in samples if sample.id in chosen)


def _apportion(sizes: Mapping[str, int], limit: int) -> dict[str, int]:
    """How many each group gives: the quota method (Balinski and Young 1975), which never takes
    back what it dealt, as largest remainders do, nor strays from a share, as divisors do.
    """
    counts, total = dict.fromkeys(sorted(sizes), 0), sum(sizes.values())
    for place in range(1, limit + 1):
        behind = [name for name in counts if counts[name] * total < place * sizes[name]]
        counts[min(behind, key=lambda name: (counts[name] + 1) / sizes[name])] += 1
    return counts


def request(
    plan: Plan, cell: PlannedResponse, *, step: StepSpec, earlier: Mapping[str, str]
) -> Request:
    """The request of one step of a cell; `earlier` holds the texts of the steps before it."""
    is_scored = _is_scored(plan.task)
    choices = options(plan.task, cell.variant, cell.sample) if is_scored else ()
    return Request(
        sample_id=cell.sample.id,
        variant=cell.variant,
        step=step.name,
        model=_asked(plan.identity, cell.sample),
        messages=plan.prompts.render(
            step.template, {**template_values(plan, cell, step=step), **earlier}
        ),
        decoding=SCORING if is_scored else _decoding(plan, cell, step),
        mode=plan.task.mode,
        choices=tuple(option.answer for option in choices),
    )


def template_values(plan: Plan, cell: PlannedResponse, *, step: StepSpec) -> dict[str, Slot]:
    """What a step's template may show of a sample: fields, choices, phrases, revealed references.

    The choices are the list `options`, in the order of the variant, and `option_1`, `option_2`, ...
    """
    sample, variant = cell.sample, plan.task.variants[cell.variant]
    wanted = plan.prompts.variables(step.template)
    slots: dict[str, Slot] = dict(sample.fields)
    if texts := display_texts(sample, options(plan.task, cell.variant, sample)):
        slots |= {"options": texts} | {f"option_{n}": text for n, text in enumerate(texts, 1)}
    for name in variant.reveals:
        if not sample.references.get(name):
            raise SpecError(
                f"tasks/{plan.run.task}.yaml: variant {cell.variant} reveals {name!r}, which "
                f"sample {sample.id} lacks"
                f"{did_you_mean(name, list(sample.references))}"
            )
        slots[name] = "\n".join(sample.references[name])
    for name, template in variant.slots.items():
        slots[name] = plan.prompts.text(f"{template}.j2", sample.fields)
    for phrase in plan.task.phrases:
        if phrase in wanted:
            file = f"{plan.task.origin(plan.run.task)}/{phrase}/{sample.group}.j2"
            slots[phrase] = plan.prompts.text(file, sample.fields)
    return slots


def check_templates(plan: Plan) -> None:
    """Refuse a template that cannot be rendered at its step, in any group, before the first call.

    It may ask for a slot that the step does not have, or show a list as if it were a text.
    """
    for name in plan.run.variants:
        variant = plan.task.variants[name]
        if not (cells := _one_a_kind(plan, name)):
            raise SpecError(
                f"variant {name}: none of the {len(plan.samples)} samples has the fields it needs "
                f"({', '.join(variant.needs)}); leave it out, or raise --limit"
            )
        earlier: dict[str, Slot] = {}
        for step in variant.steps:
            filled = [{**template_values(plan, cell, step=step), **earlier} for cell in cells]
            known = {*variant.reveals, *plan.task.phrases, *set(filled[0]).intersection(*filled)}
            for slot in sorted(plan.prompts.variables(step.template) - known):
                place = f"{plan.prompts.place(step.template)}, variant {name}"
                is_reference = any(slot in sample.references for sample in plan.samples)
                remedy = f"; it is a reference: add it to `reveals` of {name}" * is_reference
                raise SpecError(
                    f"{place}: slot {slot!r} is not defined here{remedy}"
                    f"{did_you_mean(slot, sorted(known))}"
                )
            for part in filled:
                plan.prompts.render(step.template, part)
            # A step that scores choices leaves no text to show.
            earlier |= {} if _is_scored(plan.task) else {step.name: step.name}


def _one_a_kind(plan: Plan, variant: str) -> list[PlannedResponse]:
    """A cell for each group, set of fields and number of choices."""
    samples = applicable(plan.task.variants[variant], plan.samples)
    first = {(s.group, frozenset(s.fields), len(s.choices)): s for s in reversed(samples)}
    return [PlannedResponse(sample, variant, plan.task.decodings[0]) for sample in first.values()]


def variant_digest(task: TaskSpec, variant: str, *, prompts: Prompts, name: str) -> str:
    """Digest of all in a task's YAML and prompts that shapes the answers of one variant."""
    spec = task.variants[variant]
    wanted = frozenset().union(*(prompts.variables(step.template) for step in spec.steps))
    words = [prompts.digest(step.template) for step in spec.steps]
    words += [prompts.digest(template) for template in spec.slots.values()]
    below = task.origin(name)
    words += [prompts.digest_below(f"{below}/{slot}") for slot in task.phrases if slot in wanted]
    shape = (spec.steps, spec.slots, spec.reveals, spec.choice, spec.needs)
    return digest((task.mode, task.postprocess, task.decodings, *shape, words))


def _asked(identity: str, sample: Sample) -> str:
    # A control answers by the sample, not by the prompt: equal prompts must not share an answer.
    return f"{identity}#{sample.id}" if identity.startswith("scripted:") else identity


def _decoding(plan: Plan, cell: PlannedResponse, step: StepSpec) -> Decoding:
    """How a step's answer is drawn; the seed depends on its place alone, and greedy has none."""
    temperature = cell.decoding.temperature
    place = (plan.run.seed, cell.sample.id, cell.variant, step.name, temperature)
    return Decoding(
        temperature=temperature,
        max_tokens=step.max_tokens or cell.decoding.max_tokens,
        seed=int(digest(place)[:7], 16) if temperature > 0 else None,
    )
