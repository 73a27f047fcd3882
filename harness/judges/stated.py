"""Stated ratings: responses that are ratings themselves, as those imported from others are.

Asks nothing; reads the texts of a response by one of the grammars for ratings in free text.
"""

from collections.abc import Sequence
from math import fsum

from harness.core import Case, Request, Response, Sample, Verdict
from harness.parts import Reason, digest
from harness.specs.judges import Scale, StatedSpec
from harness.text.parsers import STATED


class StatedJudge:
    """The mean over a response's readable texts; `parsed_share` is the share of readable ones."""

    metric = "mean_rating"

    def __init__(self, name: str, spec: StatedSpec) -> None:
        """Read under `name`, on the scale and by the grammar that `spec` names."""
        self.name = name
        self._spec = spec
        scale = spec.scale
        changes = digest((scale, spec.scales, spec.reading))
        ends = "by-variant" if spec.scales else f"{scale.low}-{scale.high}"
        self.recipe = f"{name}:{changes[:8]}|{spec.reading}-{ends}"

    def ask(self, sample: Sample, response: Response) -> tuple[Request, ...]:
        """No question: the response says it."""
        return ()

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict a case, in the order of the cases."""
        scales = [self._spec.scales.get(case.variant, self._spec.scale) for case in cases]
        pairs = zip(cases, scales, strict=True)
        return [self._verdict(case.response, scale) for case, scale in pairs]

    def _verdict(self, response: Response, scale: Scale) -> Verdict:
        """The verdict on one response; unparsed where none of its texts can be read."""
        if response.failure is not None:
            why = response.failure
            return Verdict(response.key, self.name, None, why.reason, note=why.message)
        if response.texts is None:
            return Verdict(response.key, self.name, None, Reason.UNSUPPORTED)
        grammar = STATED[self._spec.reading]
        found = [grammar(text, low=scale.low, high=scale.high) for text in response.texts]
        values = [value for value in found if not isinstance(value, Reason)]
        if not values:
            note = response.texts[0]
            return Verdict(response.key, self.name, None, Reason.UNPARSED, note=note)
        share = len(values) / len(found)
        mean = fsum(values) / len(values)
        return Verdict(response.key, self.name, mean, detail={"parsed_share": share})
