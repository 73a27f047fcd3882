"""Pairs of answers to verdicts: does each answer go with its own reference, not the other's.

Samples of one cluster differ in the cue under test alone, so answers that do not follow the cue
do not follow the pair. Asks nothing; every text is encoded in one batch. No model judges, and no
threshold is set.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import fsum

from harness.core import Case, Verdict
from harness.data.choices import share_a_text
from harness.judges.custom import ComputedJudge, JudgeContext
from harness.judges.similarity import (
    Compared,
    VectorOf,
    missing_verdict,
    nearest_cosine,
    preferred,
)
from harness.models.encoders.encoders import Encoder
from harness.parts import Failure, Reason, digest
from harness.specs.judges import ContrastSpec


@dataclass(slots=True)
class _Tally:
    """The pairs of one response: their values, and how many share a reference text."""

    values: list[float] = field(default_factory=list)
    left_out: int = 0


class ContrastJudge(ComputedJudge):
    """The share of a response's pairs in which both answers go with their own references.

    A pair is two samples of one cluster, answered under the same variant and decoding. With s
    the cosine of an answer with the nearest text of a reference, a pair counts 1 where
    s(a, A) + s(b, B) > s(a, B) + s(b, A), 0 where it is less, 0.5 where both are equal: always
    so for two equal answers. Pairs whose references share a text are left out. Of several
    answers to one request each is paired with each.
    """

    metric = "accuracy"

    def __init__(self, name: str, spec: ContrastSpec, encoder: Encoder) -> None:
        """Judge under `name`, by the reference that `spec` names, in the space of `encoder`."""
        super().__init__(name, spec)
        self._reference = spec.reference
        self._encoder = encoder

    @property
    def recipe(self) -> str:
        """Name, digest of what changes a verdict, and encoder, as signatures show them."""
        changes = digest((self._reference, self._encoder.digest))
        return f"{self.name}:{changes[:8]}|{self._encoder.name}"

    @classmethod
    def build(cls, name: str, spec: ContrastSpec, context: JudgeContext) -> "ContrastJudge":
        """Build the judge of a spec, in the space of its encoder."""
        return cls(name, spec, context.encoder(spec.encoder))

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict a case, in the order of the cases."""
        texts = [Compared.of(case, self._reference, judge=self.name) for case in cases]
        vectors = self._vectors(texts)
        tallies = [_Tally() for _ in cases]
        for one, other in _pairs(cases):
            if share_a_text(texts[one].references, texts[other].references):
                tallies[one].left_out += 1
                tallies[other].left_out += 1
            elif texts[one].answers and texts[other].answers:
                value = _value(texts[one], texts[other], vectors)
                tallies[one].values.append(value)
                tallies[other].values.append(value)
        return [self._verdict(case, tally) for case, tally in zip(cases, tallies, strict=True)]

    def _vectors(self, texts: Sequence[Compared]) -> VectorOf:
        """The vector of every text, paired or not, so that one case shows that weights load."""
        every = [text for part in texts for text in (*part.answers, *part.references)]
        wanted = list(dict.fromkeys(every))
        return dict(zip(wanted, self._encoder.encode(wanted), strict=True))

    def _verdict(self, case: Case, tally: _Tally) -> Verdict:
        why = missing_verdict(case.response) or _unpaired(case, tally)
        if why is not None:
            return Verdict(case.response.key, self.name, None, why.reason, note=why.message)
        value = fsum(tally.values) / len(tally.values)
        detail = {"pairs": float(len(tally.values)), "left_out": float(tally.left_out)}
        return Verdict(case.response.key, self.name, value, detail=detail)


def _pairs(cases: Sequence[Case]) -> Iterator[tuple[int, int]]:
    """The places of every two cases of one cluster in one block."""
    groups: dict[tuple[str, str], list[int]] = {}
    for place, case in enumerate(cases):
        groups.setdefault((case.block, case.sample.cluster), []).append(place)
    for places in groups.values():
        yield from combinations(places, 2)


def _value(one: Compared, other: Compared, vectors: VectorOf) -> float:
    leans = [_lean(text, one, other, vectors=vectors) for text in one.answers]
    others = [_lean(text, other, one, vectors=vectors) for text in other.answers]
    found = [preferred(lean + counter) for lean in leans for counter in others]
    return fsum(found) / len(found)


def _lean(answer: str, own: Compared, other: Compared, *, vectors: VectorOf) -> float:
    """How much nearer an answer is to its own reference than to the other's."""
    near = nearest_cosine(answer, own.references, vectors)
    return near - nearest_cosine(answer, other.references, vectors)


def _unpaired(case: Case, tally: _Tally) -> Failure | None:
    """Why a response has no pair; None where it has one."""
    if tally.values:
        return None
    if tally.left_out:
        fact = f"each of its {tally.left_out} pairs shares a reference text"
    else:
        fact = f"no other answer of {case.sample.cluster} to pair it with"
    return Failure(Reason.UNSUPPORTED, fact)
