"""Samples to further samples: by a data-making job's questions, or with one field perturbed.

Each step of a job sees only what its spec names; its calls are kept like a run's. A perturbed
sample is its original with one field changed: same references, choices, orders and cluster. What
has no answer, or cannot be changed, is left out and counted, never filled in. No file is written.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Final

from msgspec import structs

from harness.core import Request, Response, Sample
from harness.data.choices import ORDER, permutation
from harness.data.readers.labelled_table import IMPLICITNESS
from harness.errors import SpecError, did_you_mean
from harness.lazy import DataFrame, pandas
from harness.models.client.cached import CachedClient
from harness.parts import Decoding, Reason, digest
from harness.specs import tasks
from harness.specs.tasks import (
    TEXT,
    AskedSpec,
    BuildSpec,
    BuildStepSpec,
    PerturbationSpec,
    TaskSpec,
)
from harness.text.cleanup import is_blank
from harness.text.dedup import normal
from harness.text.edits import edit_text, group_exchange, synonyms, with_group_exchanged
from harness.text.parsers import POSTPROCESSORS, closing_yes_no, is_refusal, listed_lines
from harness.text.prompts import Prompts

FROM, BY, KEEPS = "perturbed_from", "perturbed_by", "keeps_meaning"
ORIGINAL: Final = "original"


@dataclass(frozen=True, slots=True)
class Draft:
    """A sample on its way: what was made of it so far, or why it cannot be finished.

    `sources` has the model, template and key of the stored call of each text that was made.
    """

    sample: Sample
    sources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    reason: Reason | None = None
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
    drafts = [Draft(one, is_dropped=not _is_taken(one, spec.takes)) for one in samples]
    for step in spec.steps:
        asked = {
            place: Request(
                sample_id=sample.id,
                variant="build",
                step=step.name,
                model=model,
                messages=prompts.render(step.template, _slots(sample, step)),
                decoding=_decoding(spec.decoding, (seed, sample.id, step.name)),
            )
            for place, draft in enumerate(drafts)
            for sample in [draft.sample]
            if draft.reason is None and not draft.is_dropped
            if not step.judges or len(sample.references.get(step.judges, ())) >= step.at_least
        }
        answers = client.answer(asked.values(), stage=f"build, {step.name}")
        template = f"{step.template}@{prompts.digest(step.template)[:8]}"
        for place, request in asked.items():
            response, draft = answers[request.key], drafts[place]
            texts = [POSTPROCESSORS[spec.postprocess](text) for text in response.texts or ()]
            source = {"model": model, "template": template, "key": request.key}
            named = replace(draft, sources={**draft.sources, step.name: source})
            drafts[place] = _taken(named, step, response, texts[0] if texts else "")
    chooses = any(step.makes == "choice" for step in spec.steps)
    whole = [draft for draft in drafts if draft.reason is None and not draft.is_dropped]
    finished = tuple(draft for draft in whole if chooses or draft.sample.references)
    lost = Counter(draft.reason for draft in drafts if draft.reason is not None)
    return Built(finished, lost, len(drafts) - len(finished) - lost.total())


def _is_taken(sample: Sample, rule: tasks.TurnRuleSpec | None) -> bool:
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


def _slots(sample: Sample, step: BuildStepSpec) -> dict[str, str]:
    return {
        slot: sample.fields.get(source) or "\n".join(sample.references.get(source, ()))
        for slot, source in step.sees.items()
    }


def _decoding(spec: tasks.DecodingSpec, place: tuple[object, ...]) -> Decoding:
    seed = int(digest(place)[:7], 16) if spec.temperature else None
    return Decoding(temperature=spec.temperature, max_tokens=spec.max_tokens, seed=seed)


def _taken(draft: Draft, step: BuildStepSpec, response: Response, said: str) -> Draft:
    """A draft with what a step answered, `said`, or with why that is no answer."""
    if response.failure is not None:
        return replace(draft, reason=response.failure.reason)
    if is_blank(said):
        return replace(draft, reason=Reason.EMPTY)
    if step.refusals == "missing" and is_refusal(said):
        return replace(draft, reason=Reason.REFUSED)
    references = dict(draft.sample.references)
    if step.makes != "reference" and step.count is None:
        verdict = closing_yes_no(said)
        if isinstance(verdict, Reason):
            is_cut = verdict is Reason.UNPARSED and response.stop == "length"
            return replace(draft, reason=Reason.TRUNCATED if is_cut else verdict)
        if verdict or step.judges is None:
            return replace(draft, is_dropped=not verdict)
        del references[step.judges]
    else:
        lines = (said,) if step.makes == "reference" else listed_lines(said)
        if step.makes != "reference" and len(lines) != step.count:
            return replace(draft, reason=Reason.UNPARSED)
        references[step.name] = lines
    return replace(draft, sample=replace(draft.sample, references=references))


Ask = Callable[[Sequence[Sample], BuildSpec], Built]
"""`build` by some model, with its prompts and seed."""


@dataclass(frozen=True, slots=True)
class PerturbationPlan:
    """What is perturbed: the field, by which perturbations, by what seed."""

    field: str
    specs: Mapping[str, PerturbationSpec]
    seed: int = 0


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
    samples: Sequence[Sample], task: TaskSpec, plan: PerturbationPlan, ask: Ask | None = None
) -> tuple[list[Sample], DataFrame]:
    """The samples, then those of each perturbation; and the counts of each perturbation.

    A row counts the texts `changed`, `unchanged` and, by the reason, `missing`. `ask` is None
    where no perturbation asks a model.
    """
    # Groups stay where they word the task's prompts.
    found = list(samples) if task.phrases else [replace(s, group=ORIGINAL) for s in samples]
    counts: list[tuple[object, ...]] = []
    for name, spec in plan.specs.items():
        missing: Counter[Reason] = Counter()
        if isinstance(spec, AskedSpec):
            texts, missing = _written(samples, spec, plan.field, ask)
        else:
            texts = _changed(samples, name, spec, plan)
        found += [
            _sample(sample, texts[sample.id], task, plan=plan, name=name)
            for sample in samples
            if sample.id in texts
        ]
        left = len(samples) - len(texts) - missing.total()
        counts.append((name, spec.keeps_meaning, len(texts), left, missing))
    heads = ["perturbation", "keeps_meaning", "changed", "unchanged", "missing"]
    return found, pandas.DataFrame(counts, columns=heads)


def perturbed_task(task: TaskSpec, *, name: str, of: str, about: str) -> TaskSpec:
    """The task whose sample set is the perturbed one, under a name of its own, made of `of`."""
    sample = f"samples/{name}.jsonl"
    data = tasks.DataSpec(source=name, reader="samples_jsonl", files=(), sample=sample)
    return structs.replace(task, about=about, data=data, made_of=task.origin(of))


def sample_line(sample: Sample) -> dict[str, Any]:
    """A sample as a line of the sample format, which has no place for blank references."""
    references = {
        name: kept
        for name, texts in sample.references.items()
        if (kept := tuple(text for text in texts if text.strip()))
    }
    line = draft_line(Draft(replace(sample, references=references)))
    del line["flags"], line["provenance"]
    return {**line, "choices": sample.choices, "gold": sample.gold, "flags": sample.flags}


def _changed(
    samples: Sequence[Sample], name: str, spec: tasks.LocalSpec, plan: PerturbationPlan
) -> dict[str, str]:
    """The texts that word lists change, by sample id; each drawn by its sample's id alone."""
    lookup = synonyms(spec.part_of_speech) if isinstance(spec, tasks.WordNetSpec) else lambda _: ()
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
    samples: Sequence[Sample], spec: AskedSpec, field: str, ask: Ask | None
) -> tuple[dict[str, str], Counter[Reason]]:
    if ask is None:
        raise SpecError(f"perturbation {spec.about!r} asks a model; name one with --model")
    there = {s.id: s.fields[field] for s in samples if s.fields.get(field, "").strip()}
    job = BuildSpec(
        about=spec.about, steps=spec.steps, decoding=spec.decoding, postprocess=spec.postprocess
    )
    asked = [Sample(id=name, fields={TEXT: text, **spec.words}) for name, text in there.items()]
    built = ask(asked, job)
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
    if not isinstance(spec, tasks.GroupNamesSpec):
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
