"""Answers to verdicts by vectors: how near is an answer to one reference, and to another.

A local encoder gets every text of every case in one batch; a hosted one is asked for one text a
request, so that equal texts of two samples are one stored call. Blank texts are left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product
from math import fsum
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from harness.core import Case, Request, Response, Sample, Verdict
from harness.data.choices import share_a_text
from harness.errors import SpecError, StoreError
from harness.judges.custom import ComputedJudge, JudgeContext, missing, served_by
from harness.models.encoders.bertscore import BertScorer
from harness.models.encoders.encoders import Encoder
from harness.parts import Decoding, Failure, Message, Mode, Reason, digest
from harness.specs.implicitness import HostedEncoderSpec
from harness.specs.judges import BertScoreSpec, ContrastSpec, CosineSpec
from harness.text.cleanup import is_blank

DECIMALS = 6  # of a difference: what lies below is float noise of an encoder, and counts as a tie
VectorOf = Mapping[str, NDArray[np.float32]]
Texts = tuple[str, ...]


def answers_of(response: Response) -> Texts:
    """The texts of a response that are not blank."""
    return tuple(text for text in response.texts or () if not is_blank(text))


def reference_of(sample: Sample, name: str, *, judge: str) -> Texts:
    """The texts of one reference that are not blank; a sample without them is an error."""
    texts = tuple(text for text in sample.references.get(name, ()) if not is_blank(text))
    if not texts:
        has = ", ".join(sorted(sample.references)) or "none"
        fact = "a blank" if name in sample.references else "no"
        raise SpecError(
            f"judge {judge}: sample {sample.id} has {fact} reference {name!r} (it has: {has}); "
            "name other references in the judge's YAML or leave this judge out"
        )
    return texts


def nearest_cosine(text: str, others: Sequence[str], vectors: VectorOf) -> float:
    """The cosine of a text with the nearest of some others, from unit vectors."""
    row = vectors[text].astype(np.float64)
    return max(float(row @ vectors[other].astype(np.float64)) for other in others)


def preferred(margin: float) -> float:
    """A difference as a value: 1 above zero, 0 below, 0.5 where it is a tie."""
    return float(np.sign(round(margin, DECIMALS)) + 1) / 2


def missing_verdict(response: Response) -> Failure | None:
    """Why a response has no text to compare; None where it has one."""
    if response.failure is not None:
        return response.failure
    if response.texts is None:
        return Failure(Reason.UNSUPPORTED, "this judge reads texts only")
    return None if answers_of(response) else Failure(Reason.EMPTY, "the answer is blank")


_EMBEDDING = Decoding(max_tokens=1)  # nothing is drawn; one is the least a decoding can say


class _VectorJudge(ComputedJudge):
    metric = "accuracy"

    def __init__(self, name: str, spec: CosineSpec | ContrastSpec, encoder: Encoder | str) -> None:
        """Judge in the space of a local encoder, or of a hosted one of this identity."""
        super().__init__(name, spec)
        self._encoder = encoder

    @classmethod
    def build(cls, name: str, spec: Any, context: JudgeContext) -> Self:  # noqa: ANN401 - as above
        """Build the judge of a spec; a hosted encoder needs the identity of its model."""
        if isinstance(spec.encoder, HostedEncoderSpec):
            return cls(name, spec, context.asked_model(name))
        return cls(name, spec, context.encoder(spec.encoder))

    def _recipe(self, *changes: object) -> str:
        if isinstance(self._encoder, str):
            kind, own = "hosted", digest(("hosted", self._encoder))
        else:
            kind, own = self._encoder.name, self._encoder.digest
        return f"{self.name}:{digest((*changes, own))[:8]}|{kind}"

    def _vectors(self, cases: Sequence[Case], texts: Iterable[Texts]) -> VectorOf:
        """The vector of each text of each case, by the local encoder or from its replies."""
        if not isinstance(self._encoder, str):
            wanted = list(dict.fromkeys(text for own in texts for text in own))
            return dict(zip(wanted, self._encoder.encode(wanted), strict=True))
        found = {
            text: _unit(reply.vectors[0])
            for case, own in zip(cases, texts, strict=True)
            for text, reply in zip(own, case.replies, strict=True)
            if reply.vectors
        }
        lengths = sorted({len(vector) for vector in found.values()})
        if len(lengths) > 1:
            raise StoreError(
                f"judge {self.name}: {self._encoder} gave vectors of "
                f"{' and of '.join(map(str, lengths))} numbers, so that another model answers by "
                "its name than before; serve the earlier one again, or give the judge's model a "
                "file of another name in configs/models, to ask all again"
            )
        return found


class CosineJudge(_VectorJudge):
    """1 where an answer is nearer to the accepted reference, 0 to the rejected one, 0.5 a tie.

    A reference is as near as its nearest text; of several answers the mean counts.
    """

    reads_alone = True
    _spec: CosineSpec

    @property
    def recipe(self) -> str:
        """Name, digest and encoder, as signatures show them."""
        return self._recipe(self._spec.options, self._spec.step, self._spec.prepend)

    def ask(self, sample: Sample, response: Response) -> tuple[Request, ...]:
        """The vector of each text from a hosted encoder; no question with a local one."""
        if not isinstance(self._encoder, str):
            return ()
        said = ((Message("user", text),) for text in _each(*self._texts(sample, response)))
        of = (sample.id, self.name, "embed", self._encoder)
        return tuple(Request(*of, one, _EMBEDDING, mode=Mode.EMBED) for one in said)

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict a case, in the order of the cases."""
        texts = [self._texts(case.sample, case.response) for case in cases]
        vectors = self._vectors(cases, [_each(*own) for own in texts])
        return [self._verdict(case, own, vectors) for case, own in zip(cases, texts, strict=True)]

    def _texts(self, sample: Sample, response: Response) -> tuple[Texts, Texts, Texts]:
        """The answers, and the accepted and the rejected texts, each after what is put first."""
        options, prepend = self._spec.options, self._spec.prepend
        accept = reference_of(sample, options.accept, judge=self.name)
        reject = reference_of(sample, options.reject, judge=self.name)
        return (
            self._led(answers_of(response), sample, by=prepend.response),
            self._led(accept, sample, by=prepend.accept),
            self._led(reject, sample, by=prepend.reject),
        )

    def _led(self, texts: Texts, sample: Sample, *, by: str | None) -> Texts:
        if by is None:
            return texts
        lead = " ".join(reference_of(sample, by, judge=self.name))
        return tuple(f"{lead} {text}" for text in texts)

    def _verdict(self, case: Case, texts: tuple[Texts, Texts, Texts], vectors: VectorOf) -> Verdict:
        served, (answers, accept, reject) = served_by(case.replies), texts
        why = missing_verdict(case.response)
        for reply in case.replies:
            if not (why or reply.vectors):
                none = Failure(Reason.UNSUPPORTED, "the reply holds no vector")
                why = reply.failure or none
        if why is not None:
            return missing(case.response, self.name, why, served)
        margins = []
        for answer in answers:
            accepted = nearest_cosine(answer, accept, vectors)
            margins.append(round(accepted - nearest_cosine(answer, reject, vectors), DECIMALS))
        value = fsum(map(preferred, margins)) / len(margins)
        detail = {"margin": fsum(margins) / len(margins)}
        return Verdict(case.response.key, self.name, value, detail=detail, served=served)


def _each(answers: Texts, accept: Texts, reject: Texts) -> Texts:
    """The texts whose vectors a verdict needs, each once; none where there is no answer."""
    return tuple(dict.fromkeys((*answers, *accept, *reject))) if answers else ()


def _unit(vector: Sequence[float]) -> NDArray[np.float32]:
    """A vector scaled to length 1; servers need not do it."""
    row = np.asarray(vector, dtype=np.float64)
    return (row / np.linalg.norm(row)).astype(np.float32)


class ContrastJudge(_VectorJudge):
    """The share of a response's pairs in which both answers go with their own references.

    A pair is two samples of one cluster, answered in the same way. With s the cosine of an answer
    with the nearest text of a reference, it counts 1 where s(a, A) + s(b, B) > s(a, B) + s(b, A),
    0 where it is less, else 0.5. Pairs whose references share a text are left out.
    """

    chance = 0.5  # which of two answers goes with which reference, by a toss
    _spec: ContrastSpec

    @property
    def recipe(self) -> str:
        """Name, digest and encoder, as signatures show them."""
        return self._recipe(self._spec.reference)

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict a case, in the order of the cases."""
        answers = [answers_of(case.response) for case in cases]
        name = self._spec.reference
        own = [reference_of(case.sample, name, judge=self.name) for case in cases]
        # Every text, paired or not, so that one case shows that weights load.
        vectors = self._vectors(cases, [*answers, *own])
        groups: dict[tuple[str, str], list[int]] = {}
        for place, case in enumerate(cases):
            groups.setdefault((case.block, case.sample.cluster), []).append(place)
        values: list[list[float]] = [[] for _ in cases]
        left_out = [0] * len(cases)
        for one, other in (pair for places in groups.values() for pair in combinations(places, 2)):
            if share_a_text(own[one], own[other]):
                left_out[one] += 1
                left_out[other] += 1
            elif answers[one] and answers[other]:
                leans = [
                    [
                        nearest_cosine(text, own[a], vectors)
                        - nearest_cosine(text, own[b], vectors)
                        for text in answers[a]
                    ]
                    for a, b in ((one, other), (other, one))
                ]
                found = [preferred(lean + counter) for lean, counter in product(*leans)]
                values[one].append(fsum(found) / len(found))
                values[other].append(values[one][-1])
        return [self._verdict(*of_case) for of_case in zip(cases, values, left_out, strict=True)]

    def _verdict(self, case: Case, values: Sequence[float], left_out: int) -> Verdict:
        why = missing_verdict(case.response)
        if why is None and not values:
            fact = f"no other answer of {case.sample.cluster} to pair it with"
            fact = f"each of its {left_out} pairs shares a reference text" if left_out else fact
            why = Failure(Reason.UNSUPPORTED, fact)
        if why is not None:
            return missing(case.response, self.name, why)
        detail = {"pairs": float(len(values)), "left_out": float(left_out)}
        value = fsum(values) / len(values)
        return Verdict(case.response.key, self.name, value, detail=detail)


Figures = NDArray[np.float64]


class BertScoreJudge(ComputedJudge):
    """BERTScore F1 of an answer with each text of a reference, their mean or their maximum.

    As the bert-score package gives it; of several answers the mean counts.
    """

    metric = "mean_f1"
    reads_alone = True
    _spec: BertScoreSpec

    def __init__(self, name: str, spec: BertScoreSpec) -> None:
        """Judge under `name` as `spec` says; the model is loaded at the first case."""
        super().__init__(name, spec)
        self._scorer = BertScorer(spec.encoder, spec.layer)

    @property
    def recipe(self) -> str:
        """Name, digest, model and layer, as signatures show them."""
        # The last two say that tokens are not weighed, nor values rescaled.
        way = (self._spec.reference, self._spec.over, False, None)
        return f"{self.name}:{digest((way, self._scorer.digest))[:8]}|{self._scorer.name}"

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict a case, in the order of the cases."""
        name = self._spec.reference
        own = [reference_of(case.sample, name, judge=self.name) for case in cases]
        answers = [answers_of(case.response) for case in cases]
        pairs = list(
            dict.fromkeys(p for sides in zip(answers, own, strict=True) for p in product(*sides))
        )
        figures = self._scorer.figures(pairs) if pairs else np.empty((0, 3))
        found = dict(zip(pairs, figures, strict=True))
        return [
            self._verdict(case.response, [[found[a, text] for text in texts] for a in said])
            for case, texts, said in zip(cases, own, answers, strict=True)
        ]

    def _verdict(self, response: Response, found: Sequence[Sequence[Figures]]) -> Verdict:
        if why := missing_verdict(response):
            return missing(response, self.name, why)
        over = np.mean if self._spec.over == "mean" else np.max
        answers = [over(np.array(figures), axis=0) for figures in found]
        precision, recall, f1 = (
            round(float(figure), DECIMALS) for figure in np.mean(answers, axis=0)
        )
        detail = {"precision": precision, "recall": recall}
        return Verdict(response.key, self.name, f1, detail=detail)
