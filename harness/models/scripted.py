"""Models that need no weights: the controls, and whatever a test wants a model to say.

A control answers from the task's own samples, so it may use references; that gives each judge
a known floor and ceiling.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from harness.core import Request, Response, Sample
from harness.errors import SpecError
from harness.parts import Mode, digest
from harness.specs.checked import nearest

_CLUSTER = "cluster:"


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
) -> ScriptedModel:
    """The control model of a policy: at each step it answers with a field or a reference.

    `sources` maps a policy to its steps and those to names; of several names one is drawn for
    each sample, step and seed. `one+other` joins two; `cluster:name` answers for all samples of
    a cluster with what the first of them, by id, has.
    """
    if policy not in sources:
        raise SpecError(
            f"control {policy!r} is not defined by this task's `controls`"
            f"{nearest(policy, list(sources))}"
        )
    steps, known = sources[policy], {sample.id: sample for sample in samples}
    first = {part.cluster: part for part in sorted(samples, key=_id, reverse=True)}
    version = digest((policy, steps, samples))

    def reply(request: Request) -> Response:
        if not steps.get(request.step):
            raise SpecError(
                f"control {policy!r} has nothing for step {request.step!r} of variant "
                f"{request.variant}; add it to the task's `controls`"
                f"{nearest(request.step, list(steps))}"
            )
        name, sample = _drawn(steps[request.step], request), known[request.sample_id]
        if name.startswith(_CLUSTER):
            name, sample = name.removeprefix(_CLUSTER), first[sample.cluster]
        text = "".join(_text(sample, part) for part in name.split("+"))
        return Response(key=request.key, texts=(text,))

    return ScriptedModel(
        name=name, reply=reply, identity=f"scripted:{policy}@{version}", revision=version[:7]
    )


def _id(sample: Sample) -> str:
    return sample.id


def _drawn(names: tuple[str, ...], request: Request) -> str:
    # Not the variant: two variants that come to the same words share a key, and so an answer.
    place = (request.sample_id, request.step, request.decoding.seed)
    return Random(digest(place)).choice(names)  # noqa: S311 - a reproducible draw, no secret


def _text(sample: Sample, name: str) -> str:
    if name in sample.fields:
        return sample.fields[name]
    if name in sample.references:
        return sample.references[name][0]
    raise SpecError(
        f"sample {sample.id} has no field or reference {name!r}, which the task's `controls` name"
        f"{nearest(name, [*sample.fields, *sample.references])}"
    )
