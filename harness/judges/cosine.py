"""Answers to verdicts by vectors: right where nearer to one reference than to another.

A local encoder is asked nothing and gets every text of every case in one batch; a hosted one is
asked for one text a request, so that equal texts of two samples are one stored call. This does
not cut or clean an answer: it reads the texts it is handed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import NDArray

from harness.core import Case, Request, Response, Sample, Verdict
from harness.judges.custom import JudgeContext, served_by
from harness.judges.similarity import (
    DECIMALS,
    VectorOf,
    answers_of,
    missing_verdict,
    nearest_cosine,
    preferred,
    reference_of,
)
from harness.models.encoders.encoders import Encoder
from harness.parts import Decoding, Failure, Message, Mode, Reason, digest
from harness.specs.encoders import HostedEncoderSpec
from harness.specs.judges import CosineSpec

_EMBEDDING = Decoding(max_tokens=1)  # nothing is drawn; one is the least a decoding can say


@dataclass(frozen=True, slots=True)
class Hosted:
    """The vectors of a model that is asked for them; `model` is its identity."""

    model: str

    @property
    def name(self) -> str:
        """What signatures call it."""
        return "hosted"

    @property
    def digest(self) -> str:
        """Digest of the model asked."""
        return digest((self.name, self.model))


@dataclass(frozen=True, slots=True)
class _Texts:
    """What is compared: the answers that are not blank, and the texts of both references."""

    answers: tuple[str, ...]
    accept: tuple[str, ...]
    reject: tuple[str, ...]

    @property
    def wanted(self) -> tuple[str, ...]:
        """The texts whose vectors a verdict needs, each once; none where there is no answer."""
        texts = (*self.answers, *self.accept, *self.reject) if self.answers else ()
        return tuple(dict.fromkeys(texts))


class CosineJudge:
    """1 where an answer is nearer to the accepted reference, 0 to the rejected one, 0.5 a tie.

    A reference is as near as its nearest text. Of several answers to one request the mean
    counts, blank ones left out. `margin` is the accepted similarity less the rejected one.
    """

    metric = "accuracy"

    def __init__(self, name: str, spec: CosineSpec, encoder: Encoder | Hosted) -> None:
        """Judge under `name`, comparing what `spec` names in the space of `encoder`."""
        self.name = name
        self._options = spec.options
        self._prepend = spec.prepend
        self._step = spec.step
        self._encoder = encoder

    @classmethod
    def build(cls, name: str, spec: CosineSpec, context: JudgeContext) -> "CosineJudge":
        """Build the judge of a spec; a hosted encoder needs the identity of its model."""
        if isinstance(spec.encoder, HostedEncoderSpec):
            return cls(name, spec, Hosted(context.asked_model(name)))
        return cls(name, spec, context.encoder(spec.encoder))

    @property
    def recipe(self) -> str:
        """Name, digest of what changes a verdict, and encoder, as signatures show them."""
        changes = digest((self._options, self._step, self._prepend, self._encoder.digest))
        return f"{self.name}:{changes[:8]}|{self._encoder.name}"

    def ask(self, sample: Sample, response: Response) -> tuple[Request, ...]:
        """The vector of each text from a hosted encoder; no question with a local one."""
        if not isinstance(self._encoder, Hosted):
            return ()
        return tuple(
            Request(
                sample_id=sample.id,
                variant=self.name,
                step="embed",
                model=self._encoder.model,
                messages=(Message("user", text),),
                decoding=_EMBEDDING,
                mode=Mode.EMBED,
            )
            for text in self._texts(sample, response).wanted
        )

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict a case, in the order of the cases."""
        texts = [self._texts(case.sample, case.response) for case in cases]
        vectors = self._vectors(cases, texts)
        return [self._verdict(case, part, vectors) for case, part in zip(cases, texts, strict=True)]

    def _texts(self, sample: Sample, response: Response) -> _Texts:
        """The texts compared, led by what is prepended; a sample without them is an error."""
        accept = reference_of(sample, self._options.accept, judge=self.name)
        reject = reference_of(sample, self._options.reject, judge=self.name)
        return _Texts(
            answers=self._led(answers_of(response), sample, by=self._prepend.response),
            accept=self._led(accept, sample, by=self._prepend.accept),
            reject=self._led(reject, sample, by=self._prepend.reject),
        )

    def _led(self, texts: tuple[str, ...], sample: Sample, *, by: str | None) -> tuple[str, ...]:
        """Texts with a reference put before each of them, one space between."""
        if by is None:
            return texts
        lead = " ".join(reference_of(sample, by, judge=self.name))
        return tuple(f"{lead} {text}" for text in texts)

    def _vectors(self, cases: Sequence[Case], texts: Sequence[_Texts]) -> VectorOf:
        """The unit vector of every text that a verdict needs, those of failed replies left out."""
        if isinstance(self._encoder, Hosted):
            return {
                text: _unit(reply.vectors[0])
                for case, part in zip(cases, texts, strict=True)
                for text, reply in zip(part.wanted, case.replies, strict=True)
                if reply.vectors
            }
        wanted = list(dict.fromkeys(text for part in texts for text in part.wanted))
        return dict(zip(wanted, self._encoder.encode(wanted), strict=True))

    def _verdict(self, case: Case, texts: _Texts, vectors: VectorOf) -> Verdict:
        served = served_by(case.replies)
        key, why = case.response.key, missing_verdict(case.response) or _lacks_vector(case.replies)
        if why is not None:
            return Verdict(key, self.name, None, why.reason, note=why.message, served=served)
        margins = [_margin(answer, texts, vectors) for answer in texts.answers]
        return Verdict(
            response_key=key,
            judge=self.name,
            value=fsum(map(preferred, margins)) / len(margins),
            detail={"margin": fsum(margins) / len(margins)},
            served=served,
        )


def _lacks_vector(replies: Sequence[Response]) -> Failure | None:
    """Why the first reply without a vector has none."""
    lost = next((reply for reply in replies if not reply.vectors), None)
    if lost is None:
        return None
    return lost.failure or Failure(Reason.UNSUPPORTED, "the reply holds no vector")


def _unit(vector: Sequence[float]) -> NDArray[np.float32]:
    """A vector scaled to length 1; servers need not do it."""
    row = np.asarray(vector, dtype=np.float64)
    return (row / np.linalg.norm(row)).astype(np.float32)


def _margin(answer: str, texts: _Texts, vectors: VectorOf) -> float:
    """How much nearer an answer is to the accepted reference than to the rejected one."""
    accepted = nearest_cosine(answer, texts.accept, vectors)
    return round(accepted - nearest_cosine(answer, texts.reject, vectors), DECIMALS)
