"""Samples to further samples: by a data-making job's questions, or with one field perturbed.

Each step of a job sees only what its spec names; its calls are kept like a run's. A perturbed
sample is its original with one field changed: same references, choices, orders and cluster. What
has no answer, or cannot be changed, is left out and counted, never filled in. No file is written.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Final

from msgspec import structs

from harness.core import Request, Response, Sample
from harness.data.choices import ORDER, permutation
from harness.data.readers.labelled_table import IMPLICITNESS
from harness.errors import SpecError, did_you_mean
from harness.models.client.cached import CachedClient
from harness.parts import Decoding, Reason, digest
from harness.specs.tasks import (
    TEXT,
    AskedSpec,
    BuildSpec,
    BuildStepSpec,
    DataSpec,
    DecodingSpec,
    GroupNamesSpec,
    LocalSpec,
    PerturbationSpec,
    TaskSpec,
    TurnRuleSpec,
    WordNetSpec,
)
from harness.text.cleanup import is_blank
from harness.text.dedup import normal
from harness.text.edits import edit_text, group_exchange, synonyms, with_group_exchanged
from harness.text.parsers import POSTPROCESSORS, closing_yes_no, is_refusal, listed_lines
from harness.text.prompts import Prompts

FROM, BY, KEEPS = "perturbed_from", "perturbed_by", "keeps_meaning"
ORIGINAL: Final = "original"


@dataclass(frozen=True, slots=True)
class Source:
    """Where one made text comes from: the model, the words it was asked in, the stored call."""

    model: str
    template: str
    key: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A sample on its way: what was made of it so far, or why it cannot be finished."""

    sample: Sample
    sources: Mapping[str, Source]
    reason: Reason | None = None
    note: str = ""
    is_dropped: bool = False


@dataclass(frozen=True, slots=True)
class Built:
    """What a job made, in the order of the samples, and what is missing or dropped, by reason."""

    finished: tuple[Draft, ...]
    missing: Counter[Reason]
    dropped: int


def build(
    samples: Sequence[Sample], spec: BuildSpec, *, prompts: Prompts, client: CachedClient, seed: int
) -> Built:
    """Take every step of a job on every sample; what is stored already is not asked again."""
    check_slots(samples, spec, prompts=prompts)
    client.model.resolve()
    model = client.model.identity
    drafts = [Draft(one, {}, is_dropped=not _is_taken(one, spec.takes)) for one in samples]
    for step in spec.steps:
        asked = {
            place: _request(sample, step, spec.decoding, prompts=prompts, model=model, seed=seed)
            for place, draft in enumerate(drafts)
            for sample in [draft.sample]
            if draft.reason is None and not draft.is_dropped
            if not step.judges or len(sample.references.get(step.judges, ())) >= step.at_least
        }
        answers = client.answer(asked.values(), stage=f"build, {step.name}")
        template = f"{step.template}@{prompts.digest(step.template)[:8]}"
        for place, request in asked.items():
            response = answers[request.key]
            texts = tuple(map(POSTPROCESSORS[spec.postprocess], response.texts or ()))
            response = replace(response, texts=texts) if texts else response
            source = Source(model, template, request.key)
            drafts[place] = _taken(drafts[place], step, response, source)
    chooses = any(step.makes == "choice" for step in spec.steps)
    whole = [draft for draft in drafts if draft.reason is None and not draft.is_dropped]
    finished = tuple(draft for draft in whole if chooses or draft.sample.references)
    lost = Counter(draft.reason for draft in drafts if draft.reason is not None)
    return Built(finished, lost, len(drafts) - len(finished) - lost.total())


def _is_taken(sample: Sample, rule: TurnRuleSpec | None) -> bool:
    """Whether a sample has enough turns before its own, and enough content words in it."""
    if rule is None:
        return True
    turns = [line for line in sample.fields[rule.context].splitlines() if line.strip()]
    words = re.findall(r"\w+(?:['\u2019]\w+)*", sample.fields[rule.turn].casefold())
    content = [word for word in words if word.replace("\u2019", "'") not in rule.function_words]
    return len(turns) >= rule.least_turns and len(content) >= rule.least_words


def check_slots(samples: Sequence[Sample], spec: BuildSpec, *, prompts: Prompts) -> None:
    """Refuse a step that sees what no sample has, or a template that asks for more."""
    for step in spec.steps:
        if unseen := sorted(prompts.variables(step.template) - set(step.sees)):
            raise SpecError(
                f"template {step.template}: step {step.name} does not show it {unseen[0]!r}"
                f"{did_you_mean(unseen[0], list(step.sees))}"
            )
    rule = spec.takes
    taken_by = {rule.context, rule.turn} if rule else set[str]()
    for sample in samples:
        known = {*sample.fields, *sample.references}
        if missing := sorted(taken_by - set(sample.fields)):
            raise SpecError(
                f"sample {sample.id} has no field {missing[0]!r}, by which this job takes samples"
                f"{did_you_mean(missing[0], sorted(sample.fields))}"
            )
        for step in spec.steps:
            if unseen := [source for source in step.sees.values() if source not in known]:
                raise SpecError(
                    f"sample {sample.id} has no field or reference {unseen[0]!r}, which step "
                    f"{step.name} sees{did_you_mean(unseen[0], sorted(known))}"
                )
            if step.makes == "reference" and step.name in sample.references:
                raise SpecError(
                    f"sample {sample.id} has the reference {step.name!r} already, which this job "
                    "makes; remove it from the file to have it made again"
                )
            known.add(step.name)


def draft_line(draft: Draft) -> dict[str, Any]:
    """A finished draft as a line of the sample format, with where its texts come from."""
    sample = draft.sample
    return {
        "id": sample.id,
        "group": sample.group,
        "cluster": sample.cluster,
        "fields": dict(sample.fields),
        "references": dict(sample.references),
        "flags": sample.flags,
        "provenance": dict(draft.sources),
    }


def _request(
    sample: Sample,
    step: BuildStepSpec,
    decoding: DecodingSpec,
    *,
    prompts: Prompts,
    model: str,
    seed: int,
) -> Request:
    fields, references = sample.fields, sample.references
    slots = {
        slot: fields.get(source) or "\n".join(references.get(source, ()))
        for slot, source in step.sees.items()
    }
    place = (seed, sample.id, step.name)
    return Request(
        sample_id=sample.id,
        variant="build",
        step=step.name,
        model=model,
        messages=prompts.render(step.template, slots),
        decoding=Decoding(
            temperature=decoding.temperature,
            max_tokens=decoding.max_tokens,
            seed=int(digest(place)[:7], 16) if decoding.temperature else None,
        ),
    )


def _taken(draft: Draft, step: BuildStepSpec, response: Response, source: Source) -> Draft:
    if response.failure is not None:
        return replace(draft, reason=response.failure.reason, note=response.failure.message)
    said = response.texts[0] if response.texts else ""
    if is_blank(said):
        return replace(draft, reason=Reason.EMPTY, note=f"step {step.name}: the answer is blank")
    if step.refusals == "missing" and is_refusal(said):
        return replace(draft, reason=Reason.REFUSED, note=said)
    taken = replace(draft, sources={**draft.sources, step.name: source})
    if step.makes == "reference":
        return _with_texts(taken, step, (said,))
    if step.count is None:
        return _judged(taken, step, said, response.stop)
    lines = listed_lines(said)
    if len(lines) != step.count:
        why = f"step {step.name}: {len(lines)} lines in place of {step.count}"
        return replace(draft, reason=Reason.UNPARSED, note=why)
    return _with_texts(taken, step, lines)


def _with_texts(draft: Draft, step: BuildStepSpec, texts: Sequence[str]) -> Draft:
    references = {**draft.sample.references, step.name: tuple(texts)}
    return replace(draft, sample=replace(draft.sample, references=references))


def _judged(draft: Draft, step: BuildStepSpec, said: str, stop: str | None) -> Draft:
    verdict = closing_yes_no(said)
    if isinstance(verdict, Reason):
        is_cut = verdict is Reason.UNPARSED and stop == "length"
        return replace(draft, reason=Reason.TRUNCATED if is_cut else verdict, note=said)
    if verdict:
        return draft
    if step.judges is None:
        return replace(draft, is_dropped=True)
    references = {name: t for name, t in draft.sample.references.items() if name != step.judges}
    return replace(draft, sample=replace(draft.sample, references=references))


@dataclass(frozen=True, slots=True)
class Writer:
    """Who rewrites texts: a model's client and the templates it is asked in."""

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
    # Groups stay where they word the task's prompts.
    found = list(samples) if task.phrases else [replace(s, group=ORIGINAL) for s in samples]
    counts = []
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
    sample = f"samples/{name}.jsonl"
    data = DataSpec(source=name, reader="samples_jsonl", files=(), sample=sample)
    return structs.replace(task, about=about, data=data, made_of=task.origin(of))


def sample_line(sample: Sample) -> dict[str, Any]:
    """A sample as a line of the sample format, which has no place for blank references."""
    references = {
        name: kept
        for name, texts in sample.references.items()
        if (kept := tuple(text for text in texts if text.strip()))
    }
    line = draft_line(Draft(replace(sample, references=references), {}))
    del line["flags"], line["provenance"]
    return {**line, "choices": sample.choices, "gold": sample.gold, "flags": sample.flags}


def _changed(
    samples: Sequence[Sample], name: str, spec: LocalSpec, plan: PerturbationPlan
) -> dict[str, str]:
    """The texts that word lists change, by sample id; each drawn by its sample's id alone."""
    lookup = synonyms(spec.part_of_speech) if isinstance(spec, WordNetSpec) else lambda _: ()
    made = {
        one.id: edit_text(
            one.fields.get(plan.field, ""), spec, _draw(one, name, plan), wordnet=lookup
        )
        for one in samples
    }
    return {name: text for name, text in made.items() if text is not None}


def _draw(sample: Sample, name: str, plan: PerturbationPlan) -> Random:
    return Random(f"{plan.seed}:{name}:{sample.id}")  # noqa: S311 - a reproducible draw


def _written(
    samples: Sequence[Sample], spec: AskedSpec, plan: PerturbationPlan, *, writer: Writer | None
) -> tuple[dict[str, str], Counter[Reason]]:
    if writer is None:
        raise SpecError(f"perturbation {spec.about!r} asks a model; name one with --model")
    there = {s.id: s.fields[plan.field] for s in samples if s.fields.get(plan.field, "").strip()}
    job = BuildSpec(
        about=spec.about, steps=spec.steps, decoding=spec.decoding, postprocess=spec.postprocess
    )
    asked = [Sample(id=name, fields={TEXT: text, **spec.words}) for name, text in there.items()]
    built = build(asked, job, prompts=writer.prompts, client=writer.client, seed=plan.seed)
    missing, texts = Counter(built.missing), {}
    for draft in built.finished:
        said = draft.sample.references[spec.steps[-1].name][0]
        if is_refusal(said) and not is_refusal(there[draft.sample.id]):
            missing[Reason.REFUSED] += 1
        elif normal(said) != normal(there[draft.sample.id]):
            texts[draft.sample.id] = said
    return texts, missing


def _sample(
    sample: Sample, text: str, task: TaskSpec, *, plan: PerturbationPlan, name: str
) -> Sample:
    sample = _about_other_group(sample, plan, name)
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


def _about_other_group(sample: Sample, plan: PerturbationPlan, name: str) -> Sample:
    """The sample with the group exchanged in all its fields and references, where one was."""
    spec, text = plan.specs[name], sample.fields.get(plan.field, "")
    if not isinstance(spec, GroupNamesSpec):
        return sample
    if (pair := group_exchange(text, spec, _draw(sample, name, plan))) is None:
        return sample
    exchanged = partial(with_group_exchanged, pair=pair)
    references = {n: tuple(map(exchanged, texts)) for n, texts in sample.references.items()}
    fields = {n: exchanged(text) for n, text in sample.fields.items()}
    return replace(sample, fields=fields, references=references)


def _orders(sample: Sample, task: TaskSpec) -> dict[str, tuple[str, ...]]:
    layouts = [variant.choice for variant in task.variants.values() if variant.choice]
    orders = sorted({one.order for one in layouts if one.order is not None})
    return {
        f"{ORDER}{order}": tuple(str(at + 1) for at in permutation(sample, order))
        for order in (orders if sample.choices else ())
    }
