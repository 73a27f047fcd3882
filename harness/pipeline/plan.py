"""Samples to requests: which responses a run plans, how it answers choices, and what steps ask.

Choices are answered by log-probability, by the likeliest next tokens or in writing, each with a
column of its own in tables. Pure: nothing here answers, stores or judges, and a task that a model
cannot answer is refused before the first call. References reach a prompt only where revealed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from msgspec import structs

from harness.core import Request, Run, Sample
from harness.data.choices import display_texts, lay_out
from harness.errors import SpecError, did_you_mean
from harness.parts import Decoding, Mode, Option, digest
from harness.specs.tasks import DecodingSpec, StepSpec, TaskSpec, VariantSpec
from harness.text.prompts import Prompts, Slot, as_data

SCORED = (Mode.CHOOSE, Mode.CHOOSE_TOKEN)
SCORING = Decoding(max_tokens=1)


class AnswerMode(StrEnum):
    """A way of answering choices, as options and tables name it; exact ones come first."""

    LOGPROB = "logprob"
    TOP_LOGPROBS = "top_logprobs"
    WRITTEN = "written"

    @property
    def mode(self) -> Mode:
        """What a model is asked for."""
        return _MODES[self][0]

    @property
    def ability(self) -> str:
        """What a model must be able to do, after `can`."""
        return _MODES[self][1]


_MODES = {
    AnswerMode.LOGPROB: (Mode.CHOOSE, "tell the log-probability of any choice"),
    AnswerMode.TOP_LOGPROBS: (
        Mode.CHOOSE_TOKEN,
        "tell the log-probabilities of the likeliest next tokens",
    ),
    AnswerMode.WRITTEN: (Mode.GENERATE, "write answers"),
}


def with_mode(
    task: TaskSpec, modes: frozenset[Mode], wanted: AnswerMode | None, *, model: str
) -> TaskSpec:
    """The task as a model with these modes is asked: as `wanted`, or as exactly as it can.

    Answers in writing are taken only where they are wanted.
    """
    if not task.has_choices:
        if wanted is not None:
            raise SpecError(f"--answers {wanted} is for tasks with choices; leave it out")
        if Mode.GENERATE not in modes:
            raise SpecError(f"model {model} writes no answers; name one that does")
        return task
    able = [part for part in AnswerMode if part.mode in modes]
    chosen = wanted or next((part for part in able if part is not AnswerMode.WRITTEN), None)
    if chosen is None or chosen not in able:
        ability = (chosen or AnswerMode.LOGPROB).ability
        raise SpecError(f"model {model} cannot {ability}; {_remedy(able)}")
    variants = dict(task.variants)
    if chosen is AnswerMode.WRITTEN:
        for name, spec in task.variants.items():
            steps = tuple(step for step in spec.steps if not step.is_unconditional)
            variants[name] = structs.replace(spec, steps=steps)
    return structs.replace(task, mode=chosen.mode, variants=variants)


def decoding_label(task: TaskSpec, decoding: DecodingSpec) -> str:
    """The name in tables of how answers are drawn: T0.3, or how choices are answered."""
    if task.has_choices:
        return str(next(part for part in AnswerMode if part.mode is task.mode))
    return f"T{decoding.temperature:g}"


def _remedy(able: Sequence[AnswerMode]) -> str:
    """What works: other ways of this model, in a column of their own, or other models."""
    others = "a model of kind transformers or vllm, or a server that echoes log-probabilities"
    if not able:
        return f"what works: {others}"
    ways = f"--answers {' or '.join(able)}, in a column of its own"
    is_exact = AnswerMode.LOGPROB in able
    return f"what works: {ways}" if is_exact else f"what works: {ways}; or {others}"


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


def applicable(variant: VariantSpec, samples: Sequence[Sample]) -> list[Sample]:
    """The samples that are asked under a variant: those that have the fields it needs."""
    return [sample for sample in samples if all(name in sample.fields for name in variant.needs)]


def decodings(task: TaskSpec) -> tuple[Decoding, ...]:
    """How answers are drawn; a choice that is scored has nothing to draw."""
    if _is_scored(task):
        return (SCORING,)
    return tuple(Decoding(part.temperature, part.max_tokens) for part in task.decodings)


def chosen_variants(task: TaskSpec, names: tuple[str, ...], *, name: str) -> tuple[str, ...]:
    """The variants of some names: all of them, those named, or the task's own without names.

    A name may be the part of a variant's name after its first colon.
    """
    if "all" in names:
        return tuple(task.variants)
    wanted = set()
    for part in names:
        ends = [variant for variant in task.variants if variant.partition(":")[2] == part]
        if part not in task.variants and len(ends) != 1:
            known = did_you_mean(part, [*task.variants, "all"])
            raise SpecError(f"no variant {part!r} in tasks/{name}.yaml{known}")
        wanted.add(part if part in task.variants else ends[0])
    return tuple(v for v in task.variants if v in wanted) if names else task.default_variants


def _is_scored(task: TaskSpec) -> bool:
    return task.has_choices and task.mode in SCORED


def options(task: TaskSpec, variant: str, sample: Sample) -> tuple[Option, ...]:
    """A sample's choices in the order and form of a variant; none where it has no choice.

    An answer is data as much as what a prompt shows: it passes the same filter.
    """
    spec = task.variants[variant].choice
    laid_out = lay_out(sample, spec) if spec else ()
    return tuple(Option(option.index, as_data(option.answer)) for option in laid_out)


def subsample(
    samples: Sequence[Sample], limit: int | None, *, seed: int, is_by_cluster: bool = False
) -> tuple[Sample, ...]:
    """A seeded subset in which every group keeps its share; a smaller one lies within a larger.

    Samples are ranked within their group by a seeded digest and dealt out in proportion: no
    group is ever a whole sample from its share. The subset keeps the order of the file. By
    cluster, clusters are taken whole, as many as fit; if the first does not, samples are dealt.
    """
    if limit is None or limit >= len(samples):
        return tuple(samples)
    if is_by_cluster and (whole := _whole_clusters(samples, limit, seed=seed)):
        return tuple(sample for sample in samples if sample.cluster in whole)
    groups: dict[str, list[Sample]] = {}
    for sample in sorted(samples, key=lambda s: digest((seed, s.id))):
        groups.setdefault(sample.group, []).append(sample)
    counts = _apportion({name: len(members) for name, members in groups.items()}, limit)
    chosen = {s.id for name, members in groups.items() for s in members[: counts[name]]}
    return tuple(sample for sample in samples if sample.id in chosen)


def _whole_clusters(samples: Sequence[Sample], limit: int, *, seed: int) -> set[str]:
    """The clusters, ranked by a seeded digest, that come before the first that does not fit."""
    sizes = Counter(sample.cluster for sample in samples)
    ranked = sorted(sizes, key=lambda cluster: digest((seed, cluster)))
    filled = accumulate(sizes[cluster] for cluster in ranked)
    return {cluster for cluster, count in zip(ranked, filled, strict=True) if count <= limit}


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
    decoding, temperature = SCORING, cell.decoding.temperature
    if not is_scored:
        # The seed depends on the place alone; greedy answers have none.
        place = (plan.run.seed, cell.sample.id, cell.variant, step.name, temperature)
        seed = int(digest(place)[:7], 16) if temperature > 0 else None
        decoding = Decoding(temperature, step.max_tokens or cell.decoding.max_tokens, seed=seed)
    # It answers by the sample, not by the prompt: equal prompts must not share an answer.
    is_control = plan.identity.startswith("scripted:")
    choices = options(plan.task, cell.variant, cell.sample) if is_scored else ()
    return Request(
        sample_id=cell.sample.id,
        variant=cell.variant,
        step=step.name,
        model=f"{plan.identity}#{cell.sample.id}" if is_control else plan.identity,
        messages=plan.prompts.render(
            step.template, {**template_values(plan, cell, step=step), **earlier}
        ),
        decoding=decoding,
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
        samples = applicable(variant, plan.samples)
        # A cell for each group, set of fields and number of choices.
        first = {(s.group, frozenset(s.fields), len(s.choices)): s for s in reversed(samples)}
        cells = [PlannedResponse(s, name, plan.task.decodings[0]) for s in first.values()]
        if not cells:
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
