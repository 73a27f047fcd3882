"""Samples to further samples: a data-making job's questions, asked and kept like a run's.

Each step sees only what its spec names. A sample that lacks an answer is left out and counted,
never filled in; nothing here writes a file.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.core import Request, Response, Sample
from harness.errors import SpecError, did_you_mean
from harness.models.client.cached import CachedClient
from harness.parts import Decoding, Reason, digest
from harness.specs.transforms import BuildSpec, BuildStepSpec
from harness.text.parsers import POSTPROCESSORS, closing_yes_no
from harness.text.prompts import Prompts


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
    drafts = [Draft(sample, {}) for sample in samples]
    for step in spec.steps:
        asked = {
            place: _request(
                draft.sample, step, spec=spec, prompts=prompts, model=client.model.identity
            )
            for place, draft in enumerate(drafts)
            if draft.reason is None and _is_asked(draft.sample, step)
        }
        seeded = {place: _seeded(part, seed) for place, part in asked.items()}
        found = client.answer(seeded.values(), stage=f"build, {step.name}")
        for place, request in seeded.items():
            template = prompts.digest(step.template)
            source = Source(client.model.identity, f"{step.template}@{template[:8]}", request.key)
            response = _postprocessed(found[request.key], spec.postprocess)
            drafts[place] = _taken(drafts[place], step, response, source)
    finished = tuple(draft for draft in drafts if draft.reason is None and draft.sample.references)
    lost = Counter(draft.reason for draft in drafts if draft.reason is not None)
    return Built(finished, lost, len(drafts) - len(finished) - lost.total())


def check_slots(samples: Sequence[Sample], spec: BuildSpec, *, prompts: Prompts) -> None:
    """Refuse a step that sees what no sample has, or a template that asks for more."""
    for step in spec.steps:
        if unseen := sorted(prompts.variables(step.template) - set(step.sees)):
            raise SpecError(
                f"template {step.template}: step {step.name} does not show it {unseen[0]!r}"
                f"{did_you_mean(unseen[0], list(step.sees))}"
            )
    for sample in samples:
        known = {*sample.fields, *sample.references}
        for step in spec.steps:
            _check_seen(sample, step, known)
            _check_room(sample, step)
            known.add(step.name)


def _check_seen(sample: Sample, step: BuildStepSpec, known: set[str]) -> None:
    for source in step.sees.values():
        if source not in known:
            raise SpecError(
                f"sample {sample.id} has no field or reference {source!r}, which step "
                f"{step.name} sees{did_you_mean(source, sorted(known))}"
            )


def _check_room(sample: Sample, step: BuildStepSpec) -> None:
    if step.judges is None and step.name in sample.references:
        raise SpecError(
            f"sample {sample.id} has the reference {step.name!r} already, which this job makes; "
            "remove it from the file to have it made anew"
        )


def line(draft: Draft) -> dict[str, Any]:
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
    sample: Sample, step: BuildStepSpec, *, spec: BuildSpec, prompts: Prompts, model: str
) -> Request:
    slots = {slot: _text(sample, source) for slot, source in step.sees.items()}
    return Request(
        sample_id=sample.id,
        variant="build",
        step=step.name,
        model=model,
        messages=prompts.render(step.template, slots),
        decoding=Decoding(spec.decoding.temperature, spec.decoding.max_tokens),
    )


def _seeded(request: Request, seed: int) -> Request:
    """The request with a seed of its own where its answer is drawn."""
    if request.decoding.temperature == 0:
        return request
    place = (seed, request.sample_id, request.step)
    return replace(request, decoding=replace(request.decoding, seed=int(digest(place)[:7], 16)))


def _is_asked(sample: Sample, step: BuildStepSpec) -> bool:
    return step.judges is None or len(sample.references.get(step.judges, ())) >= step.at_least


def _text(sample: Sample, source: str) -> str:
    return sample.fields.get(source) or "\n".join(sample.references.get(source, ()))


def _postprocessed(response: Response, how: str) -> Response:
    texts = tuple(map(POSTPROCESSORS[how], response.texts or ()))
    return replace(response, texts=texts) if texts else response


def _taken(draft: Draft, step: BuildStepSpec, response: Response, source: Source) -> Draft:
    """The draft after one step: a reference more, one fewer, or the reason it stops here."""
    if response.failure is not None:
        return replace(draft, reason=response.failure.reason, note=response.failure.message)
    said = response.texts[0] if response.texts else ""
    if not said:
        return replace(draft, reason=Reason.EMPTY, note=f"step {step.name}: the answer is blank")
    sources, references = {**draft.sources, step.name: source}, dict(draft.sample.references)
    if step.judges is None:
        references[step.name] = (said,)
    else:
        verdict = closing_yes_no(said)
        if isinstance(verdict, Reason):
            is_cut = verdict is Reason.UNPARSED and response.stop == "length"
            return replace(draft, reason=Reason.TRUNCATED if is_cut else verdict, note=said)
        if not verdict:
            del references[step.judges]
    return replace(draft, sample=replace(draft.sample, references=references), sources=sources)
