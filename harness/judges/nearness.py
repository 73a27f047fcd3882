"""Answers to verdicts by vectors: how near is an answer to one reference, and to another.

By the cosine of whole texts, of one sample or of pairs of samples, and by BERTScore, token by
token. A local encoder is asked nothing and gets every text of every case in one batch; a hosted
one is asked for one text a request, so that equal texts of two samples are one stored call.
Blank texts are left out; no text is cut or cleaned, and no threshold is set.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from math import fsum
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from harness.core import Case, Request, Response, Sample, Verdict
from harness.data.choices import share_a_text
from harness.errors import SpecError, StoreError
from harness.judges.custom import ComputedJudge, JudgeContext, served_by
from harness.models.encoders.bertscore import BertScorer
from harness.models.encoders.encoders import Encoder
from harness.parts import Decoding, Failure, Message, Mode, Reason, digest
from harness.specs.implicitness import HostedEncoderSpec
from harness.specs.judges import BertScoreSpec, ContrastSpec, CosineSpec
from harness.text.cleanup import is_blank

DECIMALS = 6  # of a difference: what lies below is float noise of an encoder, and counts as a tie
VectorOf = Mapping[str, NDArray[np.float32]]


def answers_of(response: Response) -> tuple[str, ...]:
    """The texts of a response that are not blank."""
    return tuple(text for text in response.texts or () if not is_blank(text))


def reference_of(sample: Sample, name: str, *, judge: str) -> tuple[str, ...]:
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


@dataclass(frozen=True, slots=True)
class Compared:
    """The answers to a sample that are not blank, and the texts of its reference."""

    answers: tuple[str, ...]
    references: tuple[str, ...]

    @classmethod
    def of(cls, case: Case, reference: str, *, judge: str) -> "Compared":
        """Take the texts of a case; a sample without the reference is an error."""
        return cls(answers_of(case.response), reference_of(case.sample, reference, judge=judge))


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


@dataclass(frozen=True, slots=True)
class Hosted:
    """The vectors of a model that is asked for them; `model` is its identity."""

    model: str
    name: ClassVar = "hosted"

    @property
    def digest(self) -> str:
        """Digest of the model asked."""
        return digest((self.name, self.model))


@dataclass(frozen=True, slots=True)
class _Texts:
    answers: tuple[str, ...]
    accept: tuple[str, ...]
    reject: tuple[str, ...]

    @property
    def wanted(self) -> tuple[str, ...]:
        """The texts whose vectors a verdict needs, each once; none where there is no answer."""
        texts = (*self.answers, *self.accept, *self.reject) if self.answers else ()
        return tuple(dict.fromkeys(texts))


class _VectorJudge(ComputedJudge):
    metric = "accuracy"
    _encoder: Encoder | Hosted

    def __init__(
        self, name: str, spec: CosineSpec | ContrastSpec, encoder: Encoder | Hosted
    ) -> None:
        """Judge under `name`, comparing what `spec` names in the space of `encoder`."""
        super().__init__(name, spec)
        self._encoder = encoder

    @classmethod
    def build(cls, name: str, spec: Any, context: JudgeContext) -> Self:  # noqa: ANN401 - as above
        """Build the judge of a spec; a hosted encoder needs the identity of its model."""
        if isinstance(spec.encoder, HostedEncoderSpec):
            return cls(name, spec, Hosted(context.asked_model(name)))
        return cls(name, spec, context.encoder(spec.encoder))

    def _recipe(self, *changes: object) -> str:
        changed = digest((*changes, self._encoder.digest))
        return f"{self.name}:{changed[:8]}|{self._encoder.name}"


class CosineJudge(_VectorJudge):
    """1 where an answer is nearer to the accepted reference, 0 to the rejected one, 0.5 a tie.

    A reference is as near as its nearest text. Of several answers to one request the mean
    counts, blank ones left out. `margin` is the accepted similarity less the rejected one.
    """

    reads_alone = True
    _spec: CosineSpec

    @property
    def recipe(self) -> str:
        """Name, digest of what changes a verdict, and encoder, as signatures show them."""
        return self._recipe(self._spec.options, self._spec.step, self._spec.prepend)

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
        accept = reference_of(sample, self._spec.options.accept, judge=self.name)
        reject = reference_of(sample, self._spec.options.reject, judge=self.name)
        return _Texts(
            answers=self._led(answers_of(response), sample, by=self._spec.prepend.response),
            accept=self._led(accept, sample, by=self._spec.prepend.accept),
            reject=self._led(reject, sample, by=self._spec.prepend.reject),
        )

    def _led(self, texts: tuple[str, ...], sample: Sample, *, by: str | None) -> tuple[str, ...]:
        if by is None:
            return texts
        lead = " ".join(reference_of(sample, by, judge=self.name))
        return tuple(f"{lead} {text}" for text in texts)

    def _vectors(self, cases: Sequence[Case], texts: Sequence[_Texts]) -> VectorOf:
        if isinstance(self._encoder, Hosted):
            found = {
                text: _unit(reply.vectors[0])
                for case, part in zip(cases, texts, strict=True)
                for text, reply in zip(part.wanted, case.replies, strict=True)
                if reply.vectors
            }
            _refuse_mixed(found, judge=self.name, model=self._encoder.model)
            return found
        return _encoded(self._encoder, (text for part in texts for text in part.wanted))

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


def _encoded(encoder: Encoder, texts: Iterable[str]) -> VectorOf:
    wanted = list(dict.fromkeys(texts))
    return dict(zip(wanted, encoder.encode(wanted), strict=True))


def _lacks_vector(replies: Sequence[Response]) -> Failure | None:
    for reply in replies:
        if not reply.vectors:
            return reply.failure or Failure(Reason.UNSUPPORTED, "the reply holds no vector")
    return None


def _refuse_mixed(vectors: VectorOf, *, judge: str, model: str) -> None:
    """Raise StoreError for vectors of more than one length: no cosine can be taken of two."""
    lengths = sorted({len(vector) for vector in vectors.values()})
    if len(lengths) > 1:
        raise StoreError(
            f"judge {judge}: {model} gave vectors of {' and of '.join(map(str, lengths))} numbers, "
            "so that another model answers by its name than before; serve the earlier one again, "
            "or give the judge's model a file of another name in configs/models, to ask all again"
        )


def _unit(vector: Sequence[float]) -> NDArray[np.float32]:
    """A vector scaled to length 1; servers need not do it."""
    row = np.asarray(vector, dtype=np.float64)
    return (row / np.linalg.norm(row)).astype(np.float32)


def _margin(answer: str, texts: _Texts, vectors: VectorOf) -> float:
    accepted = nearest_cosine(answer, texts.accept, vectors)
    return round(accepted - nearest_cosine(answer, texts.reject, vectors), DECIMALS)


@dataclass(slots=True)
class _Tally:
    values: list[float] = field(default_factory=list)
    left_out: int = 0


class ContrastJudge(_VectorJudge):
    """The share of a response's pairs in which both answers go with their own references.

    A pair is two samples of one cluster, answered under the same variant and decoding. With s
    the cosine of an answer with the nearest text of a reference, a pair counts 1 where
    s(a, A) + s(b, B) > s(a, B) + s(b, A), 0 where it is less, 0.5 where both are equal: always
    so for two equal answers. Pairs whose references share a text are left out. Of several
    answers to one request each is paired with each.
    """

    chance = 0.5  # which of two answers goes with which reference, by a toss
    _spec: ContrastSpec
    _encoder: Encoder

    @property
    def recipe(self) -> str:
        """Name, digest of what changes a verdict, and encoder, as signatures show them."""
        return self._recipe(self._spec.reference)

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict a case, in the order of the cases."""
        texts = [Compared.of(case, self._spec.reference, judge=self.name) for case in cases]
        # Every text, paired or not, so that one case shows that weights load.
        every = (text for part in texts for text in (*part.answers, *part.references))
        vectors = _encoded(self._encoder, every)
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

    def _verdict(self, case: Case, tally: _Tally) -> Verdict:
        why = missing_verdict(case.response) or _unpaired(case, tally)
        if why is not None:
            return Verdict(case.response.key, self.name, None, why.reason, note=why.message)
        value = fsum(tally.values) / len(tally.values)
        detail = {"pairs": float(len(tally.values)), "left_out": float(tally.left_out)}
        return Verdict(case.response.key, self.name, value, detail=detail)


def _pairs(cases: Sequence[Case]) -> Iterator[tuple[int, int]]:
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
    near = nearest_cosine(answer, own.references, vectors)
    return near - nearest_cosine(answer, other.references, vectors)


def _unpaired(case: Case, tally: _Tally) -> Failure | None:
    if tally.values:
        return None
    if tally.left_out:
        fact = f"each of its {tally.left_out} pairs shares a reference text"
    else:
        fact = f"no other answer of {case.sample.cluster} to pair it with"
    return Failure(Reason.UNSUPPORTED, fact)


Figures = NDArray[np.float64]


class BertScoreJudge(ComputedJudge):
    """BERTScore F1 of an answer with each text of a reference, their mean or their maximum.

    Precision, recall and F1 as the bert-score package gives them for one pair at a time: 1 is
    the same text, there is no fixed floor. Of several answers to one request the mean counts,
    blank ones left out. With idf a token weighs by how few references hold it, each counted once
    a sample.
    """

    metric = "mean_f1"
    _spec: BertScoreSpec

    def __init__(self, name: str, spec: BertScoreSpec) -> None:
        """Judge under `name` as `spec` says; the model is loaded at the first case."""
        super().__init__(name, spec)
        self._scorer = BertScorer(spec.encoder, spec.layer)

    @classmethod
    def build(cls, name: str, spec: Any, context: JudgeContext) -> Self:  # noqa: ANN401 - as above
        """Build the judge of a spec."""
        return cls(name, spec)

    @property
    def reads_alone(self) -> bool:  # type: ignore[override]
        """Whether no other case counts: with idf, the references of all do."""
        return not self._spec.has_idf

    @property
    def recipe(self) -> str:
        """Name, digest of what changes a verdict, model and layer, as signatures show them."""
        spec = self._spec
        baseline = self._scorer.baseline if spec.is_rescaled else None
        way = (spec.reference, spec.over, spec.has_idf, baseline)
        return f"{self.name}:{digest((way, self._scorer.digest))[:8]}|{self._scorer.name}"

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict a case, in the order of the cases."""
        name = self._spec.reference
        sides = [Compared.of(case, name, judge=self.name) for case in cases]
        answered = [
            (c.sample.id, side) for c, side in zip(cases, sides, strict=True) if side.answers
        ]
        pairs = list(
            dict.fromkeys(
                pair for _, side in answered for pair in product(side.answers, side.references)
            )
        )
        documents = [text for side in dict(answered).values() for text in side.references]
        found = dict(zip(pairs, self._figures(pairs, documents), strict=True))
        return [
            self._verdict(
                case.response, [[found[a, text] for text in side.references] for a in side.answers]
            )
            for case, side in zip(cases, sides, strict=True)
        ]

    def _figures(self, pairs: Sequence[tuple[str, str]], documents: Sequence[str]) -> Figures:
        """Precision, recall and F1 of each pair of texts; idf is taken from the documents."""
        if not pairs:
            return np.empty((0, 3))
        if self._spec.has_idf and len(documents) < 2:
            raise SpecError(
                f"judge {self.name}: idf of one reference gives no token a weight; judge more "
                "samples or set `has_idf: false`"
            )
        figures = self._scorer.figures(pairs, documents if self._spec.has_idf else None)
        if not self._spec.is_rescaled:
            return figures
        baseline = np.array(self._scorer.baseline)
        rescaled: Figures = (figures - baseline) / (1 - baseline)
        return rescaled

    def _verdict(self, response: Response, found: Sequence[Sequence[Figures]]) -> Verdict:
        if why := missing_verdict(response):
            return Verdict(response.key, self.name, None, why.reason, note=why.message)
        over = np.mean if self._spec.over == "mean" else np.max
        answers = [over(np.array(figures), axis=0) for figures in found]
        precision, recall, f1 = (
            round(float(figure), DECIMALS) for figure in np.mean(answers, axis=0)
        )
        detail = {"precision": precision, "recall": recall}
        return Verdict(response.key, self.name, f1, detail=detail)
