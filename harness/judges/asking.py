"""Judges that ask a model: how good is a response, and to which of two references is it closest.

Replies that cannot be read are left out of the mean rating and counted. A preference is asked for
in both orders of the two options, or in one drawn for each sample; an answer chosen in one order
only counts a half.
"""

from collections.abc import Sequence
from math import fsum
from random import Random
from typing import Literal

from harness.core import Case, Request, Response, Sample, Verdict
from harness.judges.custom import AskingJudge, ComputedJudge, missing, served_by
from harness.parts import Decoding, Failure, Message, Reason, digest
from harness.specs.judges import PreferenceSpec, RatingSpec, Scale, StatedSpec
from harness.text.parsers import STATED, Grammar, option_number, rating
from harness.text.prompts import Prompts

ACCEPT_FIRST, REJECT_FIRST = "accept-first", "reject-first"
CONSISTENCY, FIRST_SLOT = "consistency", "slot1_share"
"""Details of a preference: whether both orders chose alike, and the share of slot 1."""


class RatingJudge(AskingJudge):
    """A rubric, a judge model, and the ratings it gives; of several answers the first is rated."""

    reads_alone = True
    metric = "mean_rating"
    _spec: RatingSpec

    def __init__(self, name: str, spec: RatingSpec, *, prompts: Prompts, model: str) -> None:
        """Judge as `spec` says; `model` is the identity of the judge model."""
        super().__init__(name, spec, prompts=prompts, model=model)
        scale = spec.scale
        drawn = (spec.replies, spec.seed, spec.is_structured, spec.decoding)
        words = [prompts.digest(part) for part in (spec.template, *spec.slots.values())]
        recipe = digest((scale, spec.shows, spec.slots, drawn, words, model))
        self.recipe = f"{name}:{recipe[:8]}|ratings-{scale.low}-{scale.high}-x{spec.replies}"

    def ask(self, sample: Sample, response: Response) -> tuple[Request, ...]:
        """One request, for all replies."""
        spec = self._spec
        temperature, most = spec.decoding.temperature, spec.decoding.max_tokens
        seed = spec.seed if temperature > 0 else None
        decoding = Decoding(temperature, most, n=spec.replies, seed=seed)
        schema = _schema(spec.scale) if spec.is_structured else None
        messages = self._messages(sample, response)
        return (self._request(sample, "rating", messages, decoding, schema),)

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """The mean over the readable replies to each case."""
        scale = self._spec.scale
        return [_mean(self.name, c.response, c.replies[0], rating, scale) for c in cases]

    def _messages(self, sample: Sample, response: Response) -> tuple[Message, ...]:
        worded = {
            name: self._prompts.text(f"{template}.j2", sample.fields)
            for name, template in self._spec.slots.items()
        }
        shown = {
            name: "\n".join(" ".join(text.split()) for text in self._reference(sample, name))
            for name in self._spec.shows
        }
        answer = (response.texts or ("",))[0]
        slots = {**sample.fields, **worded, **shown, "response": answer}
        return self._prompts.render(self._spec.template, slots)


def _mean(
    judge: str, response: Response, reply: Response, grammar: Grammar, scale: Scale
) -> Verdict:
    """The mean rating of a reply about a response, or of the response itself."""
    is_asked = reply is not response
    served = reply.served if is_asked else None
    if reply.failure is not None:
        return missing(response, judge, reply.failure, served)
    if reply.texts is None:
        return missing(response, judge, Failure(Reason.UNSUPPORTED, ""), served)
    found = [grammar(text, low=scale.low, high=scale.high) for text in reply.texts]
    values = [value for value in found if not isinstance(value, Reason)]
    if isinstance(found[0], Reason) and not values:
        reason = found[0] if is_asked else Reason.UNPARSED
        reason = Reason.TRUNCATED if is_asked and reply.stop == "length" else reason
        return missing(response, judge, Failure(reason, reply.texts[0]), served)
    detail = {"parsed_share": len(values) / (len(found) + len(reply.lost) * is_asked)}
    value = fsum(values) / len(values)
    return Verdict(response.key, judge, value, detail=detail, served=served)


def _schema(scale: Scale) -> dict[str, object]:
    score = {"type": "integer", "minimum": scale.low, "maximum": scale.high}
    return {
        "type": "object",
        "properties": {"analysis": {"type": "string"}, "score": score},
        "required": ["analysis", "score"],
        "additionalProperties": False,
    }


class StatedJudge(ComputedJudge):
    """The mean of the ratings that a response's readable texts are."""

    reads_alone = True
    metric = "mean_rating"
    _spec: StatedSpec

    @property
    def recipe(self) -> str:
        """Name, digest and way of reading, as signatures show them."""
        spec = self._spec
        if spec.reading == "first_digit":  # which takes numbers off every scale
            return f"{self.name}:{digest(spec.reading)[:8]}|{spec.reading}-any-scale"
        changes = digest((spec.scale, spec.scales, spec.reading))
        ends = "by-variant" if spec.scales else f"{spec.scale.low}-{spec.scale.high}"
        return f"{self.name}:{changes[:8]}|{spec.reading}-{ends}"

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict a case, in the order of the cases."""
        scales = [self._spec.scales.get(case.variant, self._spec.scale) for case in cases]
        grammar = STATED[self._spec.reading]
        return [
            _mean(self.name, case.response, case.response, grammar, scale)
            for case, scale in zip(cases, scales, strict=True)
        ]


class PreferenceJudge(AskingJudge):
    """Two references, a judge model, and the number it answers with; 1 accept, 0 reject."""

    reads_alone = True
    metric = "accuracy"
    _spec: PreferenceSpec

    def __init__(self, name: str, spec: PreferenceSpec, *, prompts: Prompts, model: str) -> None:
        """Judge as `spec` says; `model` is the identity of the judge model."""
        super().__init__(name, spec, prompts=prompts, model=model)
        changes = (spec.options, spec.step, spec.shows, spec.orders, spec.decoding)
        recipe = digest((changes, model, prompts.digest(spec.template)))
        self.recipe = f"{name}:{recipe[:8]}|{spec.orders}-order{'s' * (spec.orders == 'both')}"

    def ask(self, sample: Sample, response: Response) -> tuple[Request, ...]:
        """One request for each order of the two options."""
        decoding = Decoding(self._spec.decoding.temperature, self._spec.decoding.max_tokens)
        return tuple(
            self._request(sample, order, self._messages(sample, response, order=order), decoding)
            for order in self._orders(sample)
        )

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """The mean over orders of whether `accept` was chosen."""
        return [self._verdict(case) for case in cases]

    def _orders(self, sample: Sample) -> tuple[str, ...]:
        both = (ACCEPT_FIRST, REJECT_FIRST)
        drawn = Random(f"order:{sample.id}").choice(both)  # noqa: S311 - no secret
        return both if self._spec.orders == "both" else (drawn,)

    def _messages(self, sample: Sample, response: Response, *, order: str) -> tuple[Message, ...]:
        names = self._spec.options.accept, self._spec.options.reject
        names = names if order == ACCEPT_FIRST else names[::-1]
        first, second = (self._reference(sample, name)[0] for name in names)
        slots = {
            **sample.fields,
            **{name: self._reference(sample, name)[0] for name in self._spec.shows},
            "response": (response.texts or ("",))[0],
            "option_1": first,
            "option_2": second,
        }
        return self._prompts.render(self._spec.template, slots)

    def _verdict(self, case: Case) -> Verdict:
        orders, served = self._orders(case.sample), served_by(case.replies)
        chosen: list[int] = []
        for order, reply in zip(orders, case.replies, strict=True):
            number = _option(reply)
            if isinstance(number, Reason):
                text = reply.failure.message if reply.failure else (reply.texts or ("",))[0]
                why = Failure(number, f"{order}: {text}")
                return missing(case.response, self.name, why, served)
            chosen.append(number)
        pairs = zip(orders, chosen, strict=True)
        accepted = [(number == 1) == (order == ACCEPT_FIRST) for order, number in pairs]
        detail = {FIRST_SLOT: chosen.count(1) / len(chosen)}
        if len(orders) > 1:
            detail[CONSISTENCY] = float(len(set(accepted)) == 1)
        value = sum(accepted) / len(accepted)
        return Verdict(case.response.key, self.name, value, detail=detail, served=served)


def _option(reply: Response) -> int | Reason:
    if reply.failure is not None:
        return reply.failure.reason
    if reply.texts is None:
        return Reason.UNSUPPORTED
    number = option_number(reply.texts[0], count=2)
    return Reason.TRUNCATED if isinstance(number, Reason) and reply.stop == "length" else number


Orders = Literal["both", "first", "second"]
"""Which orders of a preference judge count: both, a disagreement a half, or one of them."""
