"""Answers to verdicts by BERTScore: how well the tokens of an answer and a reference match.

Asks nothing. Every text of every case is encoded once, and the pairs are matched in batches. It
does not cut or clean an answer: it reads the texts it is handed.
"""

from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from harness.core import Case, Response, Verdict
from harness.errors import SpecError
from harness.judges.custom import ComputedJudge
from harness.judges.similarity import DECIMALS, Compared, missing_verdict
from harness.models.encoders.token_vectors import TokenEncoder, TokenVectors
from harness.models.vectors import rising_batches
from harness.parts import digest
from harness.specs.judges import BertScoreSpec

BATCH_TOKENS = 16_384  # of the longer sides of the pairs that are matched together

Figures = NDArray[np.float64]
Pair = tuple[int, int]


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
        self._encoder = TokenEncoder(spec.encoder, spec.layer)

    @property
    def recipe(self) -> str:
        """Name, digest of what changes a verdict, model and layer, as signatures show them."""
        spec = self._spec
        baseline = self._encoder.baseline if spec.is_rescaled else None
        way = (spec.reference, spec.over, spec.has_idf, baseline)
        return f"{self.name}:{digest((way, self._encoder.digest))[:8]}|{self._encoder.name}"

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict a case, in the order of the cases."""
        name = self._spec.reference
        sides = [Compared.of(case, name, judge=self.name) for case in cases]
        answered = [
            (c.sample.id, side) for c, side in zip(cases, sides, strict=True) if side.answers
        ]
        texts = list(dict.fromkeys(t for _, s in answered for t in (*s.answers, *s.references)))
        place = {text: index for index, text in enumerate(texts)}
        pairs = list(
            dict.fromkeys(
                (place[answer], place[text])
                for _, side in answered
                for answer in side.answers
                for text in side.references
            )
        )
        documents = [place[t] for side in dict(answered).values() for t in side.references]
        found = dict(zip(pairs, self._figures(texts, documents, pairs), strict=True))
        return [
            self._verdict(
                case.response,
                [[found[place[a], place[t]] for t in side.references] for a in side.answers],
            )
            for case, side in zip(cases, sides, strict=True)
        ]

    def _figures(
        self, texts: Sequence[str], documents: Sequence[int], pairs: Sequence[Pair]
    ) -> Figures:
        """Precision, recall and F1 of each pair of texts; idf is taken from the documents."""
        if not pairs:
            return np.empty((0, 3))
        if self._spec.has_idf and len(documents) < 2:
            raise SpecError(
                f"judge {self.name}: idf of one reference gives no token a weight; judge more "
                "samples or set `has_idf: false`"
            )
        tokens = self._encoder.encode(texts)
        weights = token_weights(tokens, documents if self._spec.has_idf else None)
        figures = match(tokens, weights, pairs)
        if not self._spec.is_rescaled:
            return figures
        baseline = np.array(self._encoder.baseline)
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


def token_weights(tokens: TokenVectors, documents: Sequence[int] | None) -> NDArray[np.float32]:
    """The weight of each token: 1, and 0 for the markers; with documents its idf among them."""
    if documents is None:
        return (~np.isin(tokens.ids, tokens.markers)).astype(np.float32)
    counts = np.zeros(tokens.ids.max(initial=0) + 1)
    for text in documents:
        counts[np.unique(tokens.tokens(text))] += 1
    idf = [log((len(documents) + 1) / (count + 1)) for count in counts]
    return np.array(idf, dtype=np.float32)[tokens.ids]


def match(tokens: TokenVectors, weights: NDArray[np.float32], pairs: Sequence[Pair]) -> Figures:
    """Precision, recall and F1 of each pair (answer, reference), each token with its nearest.

    As in bert-score a marker may be the nearest, a text of two tokens counts as empty and has
    precision and recall 0, and F1 is 0 where no token of a text has a weight. Unlike there, no
    pair feels the padding of its neighbours.
    """
    lengths = np.array([tokens.lengths[list(pair)] for pair in pairs])
    longer = lengths.max(axis=1)
    order = np.lexsort((lengths.min(axis=1), longer)).tolist()
    figures = np.empty((len(pairs), 3))
    for batch in rising_batches(order, longer.tolist(), budget=BATCH_TOKENS):
        figures[batch] = _matched(tokens, weights, np.array([pairs[i] for i in batch]))
    figures[(lengths == 2).any(axis=1), :2] = 0
    return np.nan_to_num(figures, nan=0.0)


def _matched(
    tokens: TokenVectors, weights: NDArray[np.float32], pairs: NDArray[np.int64]
) -> Figures:
    """The figures of pairs that are matched together; not a number where no token counts."""
    import torch

    answers, references = _padded(tokens, pairs[:, 0]), _padded(tokens, pairs[:, 1])
    vectors = [torch.from_numpy(tokens.vectors[rows]) for rows, _ in (answers, references)]
    gaps = [torch.from_numpy(~is_token) for _, is_token in (answers, references)]
    near = torch.bmm(vectors[0], vectors[1].transpose(1, 2))
    best = (
        near.masked_fill(gaps[1][:, None, :], -torch.inf).amax(2),
        near.masked_fill(gaps[0][:, :, None], -torch.inf).amax(1),
    )
    with np.errstate(invalid="ignore"):
        precision, recall = (
            (side.numpy() * (share := weights[rows] * is_token)).sum(1) / share.sum(1)
            for side, (rows, is_token) in zip(best, (answers, references), strict=True)
        )
        f1 = 2 * precision * recall / (precision + recall)
    return np.stack((precision, recall, f1), axis=1).astype(np.float64)


def _padded(
    tokens: TokenVectors, texts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The rows of each text's tokens, as long as the longest text, and which are no padding."""
    lengths = tokens.lengths[texts]
    steps = np.arange(lengths.max())
    is_token = steps < lengths[:, None]
    return np.where(is_token, tokens.starts[texts][:, None] + steps, 0), is_token
