"""Models without weights: a function of the request, and the controls of tasks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from harness.core import Request, Response, Sample
from harness.data.choices import lay_out
from harness.errors import SpecError, check_names, did_you_mean
from harness.models.custom import ModelContext
from harness.parts import ChoiceScore, Mode, Option, digest, digest_with
from harness.specs.models import ScriptedSpec
from harness.specs.tasks import ChoiceSpec
from harness.storage.stored_samples import StoredSamples

_CLUSTER = "cluster:"
UNLIKELY = -50.0  # the log-probability, in nats, of a choice that a control does not make


@dataclass(frozen=True, slots=True)
class ScriptedModel:
    """A model that answers with a function of the request."""

    name: str
    reply: Callable[[Request], Response]
    identity: str = "scripted"
    revision: str | None = None
    kind: str = "scripted"
    modes: frozenset[Mode] = frozenset(Mode)

    @classmethod
    def build(cls, name: str, spec: ScriptedSpec, context: ModelContext) -> "ScriptedModel":
        """Build the control model of a task."""
        task = context.task
        sources, variants = (task.controls, task.variants) if task else ({}, {})
        layouts = {n: spec.choice for n, spec in variants.items() if spec.choice}
        return control(name, spec.policy, sources=sources, samples=context.samples, layouts=layouts)

    def resolve(self) -> None:
        """Do nothing: the identity is given."""

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request as it comes."""
        return map(self.reply, requests)


def control(
    name: str,
    policy: str,
    *,
    sources: Mapping[str, Mapping[str, tuple[str, ...]]],
    samples: Sequence[Sample],
    layouts: Mapping[str, ChoiceSpec] | None = None,
) -> ScriptedModel:
    """The control model of a policy: at each step it answers with a field or a reference.

    `sources` maps a policy to its steps, and these to names of fields and references: one is drawn
    for each sample, step and seed. In variants with a choice layout, `gold` is the right
    choice, `first` and `last` are by displayed order, `fixed` is the first in the sample's own
    order, `any` is random for each prompt, and any other name gives the choice with that text. At a
    step that its source does not name, a control has no preference.
    """
    then = " is not defined by this task's `controls`"
    check_names("control", [policy], sources, then=then)
    steps, first = sources[policy], dict[str, str]()
    named = _by_id(samples)
    if any(name.startswith(_CLUSTER) for names in steps.values() for name in names):
        for sample in samples:
            first[sample.cluster] = min(sample.id, first.get(sample.cluster, sample.id))
    version = digest_with((policy, steps), samples)

    def reply(request: Request) -> Response:
        names, sample = steps.get(request.step), named(request.sample_id)
        if layouts and request.variant in layouts:
            options = lay_out(sample, layouts[request.variant])
            name = _drawn(request, names) if names else None
            return _choose(request, options, _index(name, request, sample, options))
        if not names:
            fact = f"has nothing for step {request.step!r} of variant {request.variant}"
            known_steps = did_you_mean(request.step, list(steps))
            raise SpecError(f"control {policy!r} {fact}; add it to `controls`{known_steps}")
        name = _drawn(request, names)
        if name.startswith(_CLUSTER):
            name, sample = name.removeprefix(_CLUSTER), named(first[sample.cluster])
        return Response(request.key, ("".join(_text(sample, one) for one in name.split("+")),))

    return ScriptedModel(name, reply, f"scripted:{policy}@{version}", version[:7])


def _by_id(samples: Sequence[Sample]) -> Callable[[str], Sample]:
    if isinstance(samples, StoredSamples):
        return samples.named
    return {sample.id: sample for sample in samples}.__getitem__


def _index(
    name: str | None, request: Request, sample: Sample, options: Sequence[Option]
) -> int | None:
    if name is None:
        return None
    if name in ("first", "last"):
        return 0 if name == "first" else len(options) - 1
    indices = [option.index for option in options]
    if name == "any":
        # By the prompt, so that each order has its own; not by position: an order that no prompt
        # shows has the key, and so the answer, of any other.
        return indices.index(_random(request, request.messages).randrange(len(options)))
    if name == "fixed":
        return indices.index(0)
    text = sample.gold if name == "gold" else _text(sample, name).strip()
    if text not in sample.choices:
        fact = f"sample {sample.id}: {name!r} is {text!r}, none of its choices"
        raise SpecError(f"{fact}; correct the task's `controls`")
    return indices.index(sample.choices.index(text))


def _choose(request: Request, options: Sequence[Option], index: int | None) -> Response:
    """A choice, written or, where choices are scored, near certain; None makes all equal."""
    answers = request.choices or tuple(option.answer for option in options)
    if request.mode is Mode.GENERATE:
        return Response(key=request.key, texts=(answers[index or 0].strip(),))
    return Response(
        key=request.key,
        choice_scores=tuple(
            [
                ChoiceScore(0.0 if index in (at, None) else UNLIKELY, None, len(answer.encode()))
                for at, answer in enumerate(answers)
            ]
        ),
    )


def _drawn(request: Request, names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else _random(request).choice(names)


def _random(request: Request, *more: object) -> Random:
    # Not the variant: two variants with the same prompt share a key, and so an answer.
    seed = (request.sample_id, request.step, request.decoding.seed, *more)
    return Random(digest(seed))  # noqa: S311 - reproducible, no secret


def _text(sample: Sample, name: str) -> str:
    if name in sample.fields:
        return sample.fields[name]
    if name in sample.references:
        return sample.references[name][0]
    raise SpecError(
        f"sample {sample.id} has no field or reference {name!r}, which the task's `controls` name"
        f"{did_you_mean(name, [*sample.fields, *sample.references])}"
    )
