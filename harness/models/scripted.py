"""Models that need no weights: the controls, and whatever a test wants a model to say.

A control answers from the task's own samples, so it may use references; that gives each judge
a known floor and ceiling.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from harness.core import Request, Response, Sample
from harness.data.choices import lay_out
from harness.errors import SpecError, did_you_mean
from harness.parts import ChoiceScore, Mode, Option, digest
from harness.specs.tasks import ChoiceSpec

_CLUSTER = "cluster:"
UNLIKELY = -50.0
"""The log-probability, in nats, of what a control does not choose."""


@dataclass(frozen=True, slots=True)
class ScriptedModel:
    """Answers every request with a function of the request."""

    name: str
    reply: Callable[[Request], Response]
    identity: str = "scripted"
    revision: str | None = None
    kind: str = "scripted"
    modes: frozenset[Mode] = frozenset(Mode)

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

    `sources` maps a policy to its steps and those to names, one drawn for each sample, step and
    seed. `one+other` joins two; `cluster:name` answers for all samples of
    a cluster with what the first of them, by id, has. Where `layouts` says how a variant lays out
    choices, `gold` names the right one, `first` and `last` the ones shown there, `fixed` the first
    in the sample's own order, `any` one drawn for each prompt, any other name the one of that
    text; at a step its source does not name, a control has no preference.
    """
    if policy not in sources:
        raise SpecError(
            f"control {policy!r} is not defined by this task's `controls`"
            f"{did_you_mean(policy, list(sources))}"
        )
    steps, known = sources[policy], {sample.id: sample for sample in samples}
    first = {part.cluster: part for part in sorted(samples, key=_id, reverse=True)}
    version = digest((policy, steps, samples))

    def reply(request: Request) -> Response:
        names, sample = steps.get(request.step), known[request.sample_id]
        if layouts and request.variant in layouts:
            options = lay_out(sample, layouts[request.variant])
            place = _place(_drawn(names, request), request, sample, options) if names else None
            return _chosen(request, options, place)
        if not names:
            fact = f"has nothing for step {request.step!r} of variant {request.variant}"
            known_steps = did_you_mean(request.step, list(steps))
            raise SpecError(f"control {policy!r} {fact}; add it to `controls`{known_steps}")
        name = _drawn(names, request)
        if name.startswith(_CLUSTER):
            name, sample = name.removeprefix(_CLUSTER), first[sample.cluster]
        return Response(request.key, ("".join(_text(sample, part) for part in name.split("+")),))

    return ScriptedModel(
        name=name, reply=reply, identity=f"scripted:{policy}@{version}", revision=version[:7]
    )


def _place(name: str, request: Request, sample: Sample, options: Sequence[Option]) -> int:
    """Where the choice of a name is shown, from 0."""
    if name in ("first", "last"):
        return 0 if name == "first" else len(options) - 1
    indices = [option.index for option in options]
    if name == "any":
        # By the prompt, so that each order is drawn for; not by place: an order that no prompt
        # shows has the key, and so the answer, of any other.
        return indices.index(_draw(request, request.messages).randrange(len(options)))
    if name == "fixed":
        return indices.index(0)
    text = sample.gold if name == "gold" else _text(sample, name).strip()
    if text not in sample.choices:
        raise SpecError(
            f"sample {sample.id}: {name!r} is {text!r}, none of its choices; correct the task's "
            "`controls`"
        )
    return indices.index(sample.choices.index(text))


def _chosen(request: Request, options: Sequence[Option], place: int | None) -> Response:
    """A choice, written or, where choices are scored, all but certain; null makes all alike."""
    answers = request.choices or tuple(option.answer for option in options)
    if request.mode is Mode.GENERATE:
        return Response(key=request.key, texts=(answers[place or 0].strip(),))
    return Response(
        key=request.key,
        choice_scores=tuple(
            ChoiceScore(0.0 if place in (at, None) else UNLIKELY, None, len(answer.encode()))
            for at, answer in enumerate(answers)
        ),
    )


def _id(sample: Sample) -> str:
    return sample.id


def _drawn(names: tuple[str, ...], request: Request) -> str:
    return _draw(request).choice(names)


def _draw(request: Request, *more: object) -> Random:
    # Not the variant: two variants that come to the same words share a key, and so an answer.
    place = (request.sample_id, request.step, request.decoding.seed, *more)
    return Random(digest(place))  # noqa: S311 - a reproducible draw, no secret


def _text(sample: Sample, name: str) -> str:
    if name in sample.fields:
        return sample.fields[name]
    if name in sample.references:
        return sample.references[name][0]
    raise SpecError(
        f"sample {sample.id} has no field or reference {name!r}, which the task's `controls` name"
        f"{did_you_mean(name, [*sample.fields, *sample.references])}"
    )
