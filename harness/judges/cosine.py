"""Answers to verdicts by vectors: right where nearer to one reference than to another.

Asks nothing; every text of every case is encoded in one batch. It does not cut or clean an
answer: it reads the texts it is handed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import NDArray

from harness.core import Case, Request, Response, Sample, Verdict
from harness.encoders import Encoder
from harness.errors import SpecError
from harness.parts import Reason, digest
from harness.specs.judges import CosineSpec

_DECIMALS = 6  # of a margin: what lies below is float noise of an encoder, and counts as a tie

Vectors = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class _Sides:
    """The texts an answer is compared with."""

    accept: tuple[str, ...]
    reject: tuple[str, ...]


class CosineJudge:
    """1 where an answer is nearer to the accepted reference, 0 to the rejected one, 0.5 a tie.

    A reference is as near as its nearest text. Of several answers to one request the mean
    counts, blank ones left out. `margin` is the accepted similarity less the rejected one.
    """

    metric = "accuracy"

    def __init__(self, name: str, spec: CosineSpec, encoder: Encoder) -> None:
        """Judge under `name`, comparing what `spec` names in the space of `encoder`."""
        self.name = name
        self._options = spec.options
        self._encoder = encoder

    @property
    def recipe(self) -> str:
        """Name, digest of what changes a verdict, and encoder, as signatures show them."""
        changes = digest((self._options, self._encoder.digest))
        return f"{self.name}:{changes[:8]}|{self._encoder.name}"

    def ask(self, sample: Sample, response: Response) -> tuple[Request, ...]:
        """No question: this judge computes."""
        return ()

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict a case, in the order of the cases."""
        sides = [self._sides(case.sample) for case in cases]
        vectors = self._vectors(cases, sides)
        return [
            self._verdict(case.response, side, vectors)
            for case, side in zip(cases, sides, strict=True)
        ]

    def _sides(self, sample: Sample) -> _Sides:
        """The texts of the two references; a sample without them is an error."""
        return _Sides(
            accept=_reference(sample, self._options.accept, judge=self.name),
            reject=_reference(sample, self._options.reject, judge=self.name),
        )

    def _vectors(self, cases: Sequence[Case], sides: Sequence[_Sides]) -> Vectors:
        """The vector of every text that a verdict needs."""
        texts: dict[str, None] = {}
        for case, side in zip(cases, sides, strict=True):
            if answers := _answers(case.response):
                texts |= dict.fromkeys((*answers, *side.accept, *side.reject))
        return dict(zip(texts, self._encoder.encode(list(texts)), strict=True))

    def _verdict(self, response: Response, sides: _Sides, vectors: Vectors) -> Verdict:
        """The verdict on one response."""
        if response.failure is not None:
            return self._missing(response, response.failure.reason, response.failure.message)
        if response.texts is None:
            return self._missing(response, Reason.UNSUPPORTED, "a cosine judge reads texts only")
        answers = _answers(response)
        if not answers:
            return self._missing(response, Reason.EMPTY, "the answer is blank")
        margins = [_margin(answer, sides, vectors) for answer in answers]
        return Verdict(
            response_key=response.key,
            judge=self.name,
            value=fsum(map(_correct, margins)) / len(margins),
            detail={"margin": fsum(margins) / len(margins)},
        )

    def _missing(self, response: Response, reason: Reason, note: str) -> Verdict:
        """A verdict without a value."""
        return Verdict(response.key, self.name, value=None, reason=reason, note=note)


def _reference(sample: Sample, name: str, *, judge: str) -> tuple[str, ...]:
    """The texts of one reference that are not blank."""
    texts = tuple(text for text in sample.references.get(name, ()) if text.strip())
    if not texts:
        has = ", ".join(sorted(sample.references)) or "none"
        fact = "a blank" if name in sample.references else "no"
        raise SpecError(
            f"judge {judge}: sample {sample.id} has {fact} reference {name!r} (it has: {has}); "
            "name other options in the judge's YAML or leave this judge out"
        )
    return texts


def _answers(response: Response) -> tuple[str, ...]:
    """The texts of a response that are not blank."""
    return tuple(text for text in response.texts or () if text.strip())


def _margin(answer: str, sides: _Sides, vectors: Vectors) -> float:
    """How much nearer an answer is to the accepted reference than to the rejected one."""
    accepted = _similarity(answer, sides.accept, vectors)
    return round(accepted - _similarity(answer, sides.reject, vectors), _DECIMALS)


def _similarity(answer: str, texts: Sequence[str], vectors: Vectors) -> float:
    """The cosine of an answer with the nearest of the texts."""
    row = vectors[answer].astype(np.float64)
    return max(float(row @ vectors[text].astype(np.float64)) for text in texts)


def _correct(margin: float) -> float:
    """A margin as a value on the judge's scale."""
    return float(np.sign(margin) + 1) / 2
