"""Samples to requests: which responses a run plans, how it answers choices, and what steps ask."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import nsmallest
from itertools import accumulate, product
from types import MappingProxyType

from msgspec import defstruct, structs

from harness.core import Request, Run, Sample
from harness.data.choices import display_texts, lay_out
from harness.errors import SpecError, did_you_mean
from harness.models.vectors import chunks
from harness.parts import Decoding, Message, Mode, Option, digest
from harness.specs.tasks import DecodingSpec, StepSpec, TaskSpec, VariantSpec
from harness.storage.stored_samples import SampleHead, StoredSamples
from harness.text.prompts import Prompts, Slot, as_data

SCORED = (Mode.CHOOSE, Mode.CHOOSE_TOKEN)
SCORING = Decoding(max_tokens=1)
_NONE: Mapping[str, str] = MappingProxyType({})
_FIELDS = [(field.name, field.type) for field in structs.fields(StepSpec)]
# Digests have the key by its first name.
_Digested = defstruct("_Digested", _FIELDS, rename={"is_unconditional": "is_neutral"})


class AnswerMode(StrEnum):
    """A way of answering choices; exact ones come first."""

    LOGPROB = "logprob"
    TOP_LOGPROBS = "top_logprobs"
    WRITTEN = "written"

    @property
    def mode(self) -> Mode:
        """What a model is asked for."""
        return {"logprob": Mode.CHOOSE, "top_logprobs": Mode.CHOOSE_TOKEN}.get(self, Mode.GENERATE)


_ABILITIES = {
    AnswerMode.LOGPROB: "give the log-probability of any choice",
    AnswerMode.TOP_LOGPROBS: "give the log-probabilities of the likeliest next tokens",
    AnswerMode.WRITTEN: "write answers",
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
        ways = [f"--answers {' or '.join(able)}, in a column of its own"] if able else []
        if AnswerMode.LOGPROB not in able:
            kinds = "a model of kind transformers or vllm, or a server that echoes"
            ways.append(f"{kinds} log-probabilities")
        ability = _ABILITIES[chosen or AnswerMode.LOGPROB]
        raise SpecError(f"model {model} cannot {ability}; what works: {'; or '.join(ways)}")
    if chosen is not AnswerMode.WRITTEN:
        return structs.replace(task, mode=chosen.mode)
    return as_written(task)


def as_written(task: TaskSpec) -> TaskSpec:
    """A task with choices as a model is asked that writes its answers."""
    variants = {
        name: structs.replace(spec, steps=tuple(s for s in spec.steps if not s.is_unconditional))
        for name, spec in task.variants.items()
    }
    return structs.replace(task, mode=AnswerMode.WRITTEN.mode, variants=variants)


def decoding_label(task: TaskSpec, decoding: DecodingSpec) -> str:
    """The name in tables of how answers are drawn: T0.3, or how choices are answered."""
    if task.has_choices:
        return str(next(part for part in AnswerMode if part.mode is task.mode))
    return f"T{decoding.temperature:g}"


@dataclass(frozen=True, slots=True)
class PlannedResponse:
    """One planned response: a sample, under a variant, drawn one way."""

    sample: Sample
    variant: str
    decoding: DecodingSpec


@dataclass(frozen=True, slots=True)
class Plan:
    """A run, resolved: the questions, the samples, the words, the model."""

    run: Run
    task: TaskSpec
    samples: Sequence[Sample]
    prompts: Prompts
    identity: str

    @property
    def cells(self) -> list[PlannedResponse]:
        """Every response of the run, in the order of variant, decoding and sample."""
        return list(self._cells(self.samples))

    @property
    def planned(self) -> int:
        """How many responses are planned."""
        specs = [self.task.variants[name] for name in self.run.variants]
        counts = (
            sum(1 for _ in applicable(spec, self.samples)) if spec.needs else len(self.samples)
            for spec in specs
        )
        return sum(counts) * len(self.task.decodings)

    def chunks(self, size: int) -> Iterator[list[PlannedResponse]]:
        """Every response, at most `size` at once, in the order of variant, decoding and sample."""
        return chunks(self._cells(self.samples), size)

    def chunks_by_sample(self, size: int) -> Iterator[list[PlannedResponse]]:
        """Every response, about `size` at once, those of a sample together."""
        ways = len(self.run.variants) * len(self.task.decodings)
        for some in chunks(self.samples, max(1, size // ways)):
            yield list(self._cells(some))

    def _cells(self, samples: Iterable[Sample]) -> Iterator[PlannedResponse]:
        for variant, decoding in product(self.run.variants, self.task.decodings):
            for sample in applicable(self.task.variants[variant], samples):
                yield PlannedResponse(sample, variant, decoding)


def applicable(variant: VariantSpec, samples: Iterable[Sample]) -> Iterator[Sample]:
    """The samples that are asked under a variant: those that have the fields it needs."""
    return (sample for sample in samples if all(name in sample.fields for name in variant.needs))


def _is_scored(task: TaskSpec) -> bool:
    return task.has_choices and task.mode in SCORED


def decodings(task: TaskSpec) -> tuple[Decoding, ...]:
    """How answers are drawn; a choice that is scored has nothing to draw."""
    drawn = (Decoding(part.temperature, part.max_tokens) for part in task.decodings)
    return (SCORING,) if _is_scored(task) else tuple(drawn)


def chosen_variants(task: TaskSpec, names: tuple[str, ...], *, name: str) -> tuple[str, ...]:
    """The variants of some names: all of them, those named, or the task's own without names.

    A name may be the part of a variant's name after its first colon.
    """
    wanted = set(task.variants) if "all" in names else set[str]()
    for part in names if "all" not in names else ():
        ends = [variant for variant in task.variants if variant.partition(":")[2] == part]
        found = [part] if part in task.variants else ends
        if len(found) != 1:
            known = did_you_mean(part, [*task.variants, "all"])
            raise SpecError(f"no variant {part!r} in tasks/{name}.yaml{known}")
        wanted.update(found)
    return tuple(v for v in task.variants if v in wanted) if names else task.default_variants


def options(task: TaskSpec, variant: str, sample: Sample) -> tuple[Option, ...]:
    """A sample's choices in the order and form of a variant; none where it has no choice.

    An answer is data as much as what a prompt shows: it passes the same filter.
    """
    spec = task.variants[variant].choice
    laid_out = lay_out(sample, spec) if spec else ()
    return tuple([Option(option.index, as_data(option.answer)) for option in laid_out])


def subsample(
    samples: Sequence[Sample], limit: int | None, *, seed: int, is_by_cluster: bool = False
) -> Sequence[Sample]:
    """A seeded subset in which every group keeps its share; a smaller one lies within a larger.

    The subset keeps the order of the file. By cluster, clusters are taken whole, as many as fit; if
    the first does not, samples are taken as else.
    """
    if limit is None or limit >= len(samples):
        return samples if isinstance(samples, StoredSamples) else tuple(samples)
    heads: Callable[[], Iterator[Sample | SampleHead]] = (
        samples.heads if isinstance(samples, StoredSamples) else samples.__iter__
    )
    if is_by_cluster:
        # Ranked by a seeded digest, those that come before the first that does not fit.
        sizes = Counter(head.cluster for head in heads())
        ranked = sorted(sizes, key=lambda cluster: digest((seed, cluster)))
        filled = accumulate(sizes[cluster] for cluster in ranked)
        whole = {c for c, count in zip(ranked, filled, strict=True) if count <= limit}
        if whole:
            return samples_at(samples, [at for at, s in enumerate(heads()) if s.cluster in whole])
    groups: dict[str, list[tuple[str, int]]] = {}
    for place, head in enumerate(heads()):
        groups.setdefault(head.group, []).append((digest((seed, head.id)), place))
    counts = _apportion({name: len(members) for name, members in groups.items()}, limit)
    chosen = (nsmallest(counts[name], members) for name, members in groups.items())
    return samples_at(samples, sorted(place for members in chosen for _, place in members))


def samples_at(samples: Sequence[Sample], places: Sequence[int]) -> Sequence[Sample]:
    """The samples at some places, in a file where all of them are."""
    if isinstance(samples, StoredSamples):
        return samples.at(places)
    return tuple(samples[place] for place in places)


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
    plan: Plan, cell: PlannedResponse, step: StepSpec, earlier: Mapping[str, str]
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
        messages=_messages(plan, cell, step, earlier),
        decoding=decoding,
        mode=plan.task.mode,
        choices=tuple(option.answer for option in choices),
    )


def _messages(
    plan: Plan, cell: PlannedResponse, step: StepSpec, earlier: Mapping[str, str]
) -> tuple[Message, ...]:
    """The turns of a step; of one that follows up with those before it, and their answer."""
    values = template_values(plan, cell, step=step, earlier=earlier)
    shown = plan.prompts.render(step.template, values)
    if not step.is_follow_up:
        return shown
    steps = plan.task.variants[cell.variant].steps
    before = steps[[part.name for part in steps].index(step.name) - 1]
    known = {name: text for name, text in earlier.items() if name != before.name}
    asked = _messages(plan, cell, before, known)
    if any(turn.role == "system" and turn not in asked for turn in shown):
        fact = f"step {step.name} goes on in the conversation of step {before.name}, and has a"
        place = f"word it in {before.template}.system.j2, in the same words or alone"
        where = plan.prompts.place(step.template)
        raise SpecError(f"{where}: {fact} system turn that this one has not; {place}")
    answer = Message("assistant", as_data(earlier[before.name]))
    return (*asked, answer, *(turn for turn in shown if turn.role != "system"))


def template_values(
    plan: Plan, cell: PlannedResponse, *, step: StepSpec, earlier: Mapping[str, str] = _NONE
) -> dict[str, Slot]:
    """What a step's template may show of a sample: fields, choices, phrases, revealed references.

    The choices are the list `options`, and `option_1`, `option_2`, ...; `earlier` holds the texts
    of the steps before it. The variant's own slots may show all of these.
    """
    sample, variant = cell.sample, plan.task.variants[cell.variant]
    slots: dict[str, Slot] = dict(sample.fields)
    if texts := display_texts(sample, options(plan.task, cell.variant, sample)):
        slots |= {"options": texts} | {f"option_{n}": text for n, text in enumerate(texts, 1)}
    for name in variant.reveals:
        if not sample.references.get(name):
            fact = f"{cell.variant} reveals {name!r}, which sample {sample.id} does not have"
            hint = did_you_mean(name, list(sample.references))
            raise SpecError(f"tasks/{plan.run.task}.yaml: variant {fact}{hint}")
        slots[name] = "\n".join(sample.references[name])
    wanted = _wanted(variant, step, plan.prompts)
    for phrase in wanted.intersection(plan.task.phrases):
        file = f"{plan.task.origin(plan.run.task)}/{phrase}/{sample.group}.j2"
        slots[phrase] = plan.prompts.text(file, sample.fields)
    slots |= earlier
    own = {
        name: plan.prompts.text(f"{template}.j2", slots)
        for name, template in variant.slots.items()
        if name in wanted
    }
    return {**slots, **own, **earlier}


def _wanted(variant: VariantSpec, step: StepSpec, prompts: Prompts) -> frozenset[str]:
    """The slots that a step's template shows, and those shown in the variant's own among them."""
    wanted = prompts.variables(step.template)
    own = [template for name, template in variant.slots.items() if name in wanted]
    return wanted.union(*map(prompts.variables, own))


def check_templates(plan: Plan) -> None:
    """Refuse what cannot be asked, or would ask nothing of its own, before the first call.

    A template may ask for a slot that the step does not have, or show a list as if it were a text;
    no prompt may show what its variant reveals or has the model spell out.
    """
    for name in plan.run.variants:
        variant = plan.task.variants[name]
        first = dict[object, Sample]()  # of each group, set of fields and number of choices
        for sample in applicable(variant, plan.samples):
            first.setdefault((sample.group, frozenset(sample.fields), len(sample.choices)), sample)
        cells = [PlannedResponse(s, name, plan.task.decodings[0]) for s in first.values()]
        if not cells:
            needs = f"has the fields it needs ({', '.join(variant.needs)})"
            fact = f"variant {name}: none of the {len(plan.samples)} samples {needs}"
            raise SpecError(f"{fact}; leave it out, or raise --limit")
        earlier: dict[str, str] = {}
        for step in variant.steps:
            _check_step(plan, cells, step, earlier)
            # A step that scores choices leaves no text to show.
            earlier |= {} if _is_scored(plan.task) else {step.name: step.name}
        _check_shown(plan, name)


def _check_step(
    plan: Plan, cells: Sequence[PlannedResponse], step: StepSpec, earlier: Mapping[str, str]
) -> None:
    name, prompts = cells[0].variant, plan.prompts
    reveals = plan.task.variants[name].reveals
    filled = [template_values(plan, cell, step=step, earlier=earlier) for cell in cells]
    known = {*reveals, *plan.task.phrases, *set(filled[0]).intersection(*filled)}
    for slot in sorted(prompts.variables(step.template) - known):
        is_reference = any(slot in sample.references for sample in plan.samples)
        remedy = f"; it is a reference: add it to `reveals` of {name}" * is_reference
        raise SpecError(
            f"{prompts.place(step.template)}, variant {name}: slot {slot!r} is not defined "
            f"here{remedy}{did_you_mean(slot, sorted(known))}"
        )
    for cell in cells:
        _messages(plan, cell, step, earlier)


def _check_shown(plan: Plan, name: str) -> None:
    """Refuse a variant whose prompts do not show what it reveals, or has the model spell out."""
    variant = plan.task.variants[name]
    steps = [step for step in variant.steps if not step.is_unconditional]
    shown = [_wanted(variant, step, plan.prompts) for step in steps]
    every = frozenset().union(*shown)
    hidden = [(f"reveals {one!r}", one) for one in variant.reveals if one not in every]
    for place, step in enumerate(steps[:-1] if not _is_scored(plan.task) else (), 1):
        is_seen = any(part.is_follow_up for part in steps[place:])
        if not is_seen and not any(step.name in part for part in shown[place:]):
            hidden.append((f"has step {step.name!r} answered first", step.name))
    for fact, one in hidden:
        places = (plan.prompts.place(step.template) for step in variant.steps)
        files = ", ".join(dict.fromkeys(places))
        raise SpecError(
            f"variant {name} of task {plan.run.task} {fact}, and no prompt shows it, with {files}; "
            f"put {{{{ {one} }}}} in there, or leave the variant out with --variant"
        )


def variant_digest(task: TaskSpec, variant: str, *, prompts: Prompts, name: str) -> str:
    """Digest of all in a task's YAML and prompts that shapes the answers of one variant."""
    spec = task.variants[variant]
    wanted = frozenset().union(*(_wanted(spec, step, prompts) for step in spec.steps))
    words = [prompts.digest(step.template) for step in spec.steps]
    words += [prompts.digest(template) for template in spec.slots.values()]
    below = task.origin(name)
    words += [prompts.digest_below(f"{below}/{slot}") for slot in task.phrases if slot in wanted]
    steps = [_Digested(*structs.astuple(step)) for step in spec.steps]
    shape = (steps, spec.slots, spec.reveals, spec.choice, spec.needs)
    return digest((task.mode, task.postprocess, task.decodings, *shape, words))
