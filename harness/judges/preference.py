"""Preference: which of two references is a response closest to, by a judge model's choice.

Asks in both orders of the options, or in one drawn for each sample, and reads option numbers.
An answer chosen in one order only counts a half and as inconsistent.
"""

from collections.abc import Sequence
from random import Random

from harness.core import Case, Request, Response, Sample, Verdict
from harness.judges.custom import AskingJudge, served_by
from harness.parts import Decoding, Message, Reason, digest
from harness.specs.judges import PreferenceSpec
from harness.text.parsers import option_number
from harness.text.prompts import Prompts

ACCEPT_FIRST, REJECT_FIRST = "accept-first", "reject-first"


class PreferenceJudge(AskingJudge):
    """Two references, a judge model, and the number it answers with; 1 accept, 0 reject."""

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
            Request(
                sample_id=sample.id,
                variant=self.name,
                step=order,
                model=self._model,
                messages=self._messages(sample, response, order=order),
                decoding=decoding,
            )
            for order in self._orders(sample)
        )

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """The mean over orders of whether `accept` was chosen."""
        return [self._verdict(case) for case in cases]

    def _orders(self, sample: Sample) -> tuple[str, ...]:
        both = (ACCEPT_FIRST, REJECT_FIRST)
        if self._spec.orders == "both":
            return both
        return (Random(f"order:{sample.id}").choice(both),)  # noqa: S311 - no secret

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
                note = f"{order}: {_text_of(reply)}"
                return Verdict(case.response.key, self.name, None, number, note=note, served=served)
            chosen.append(number)
        accepted = [
            number == (1 if order == ACCEPT_FIRST else 2)
            for order, number in zip(orders, chosen, strict=True)
        ]
        detail = {"slot1_share": chosen.count(1) / len(chosen)}
        if len(orders) > 1:
            detail["consistency"] = float(len(set(accepted)) == 1)
        value = sum(accepted) / len(accepted)
        return Verdict(case.response.key, self.name, value, detail=detail, served=served)


def _option(reply: Response) -> int | Reason:
    """The option number a reply opens with; one that was cut before it is truncated."""
    if reply.failure is not None:
        return reply.failure.reason
    if reply.texts is None:
        return Reason.UNSUPPORTED
    number = option_number(reply.texts[0], count=2)
    return Reason.TRUNCATED if isinstance(number, Reason) and reply.stop == "length" else number


def _text_of(reply: Response) -> str:
    return reply.failure.message if reply.failure else (reply.texts or ("",))[0]
