"""Random heads of the metric, and the metric spelled out anew in plain numpy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from harness.implicitness.formula import PUBLISHED, Maps, Matrix
from harness.implicitness.scorer import Flag, Head, Scored, Scorer
from harness.models.encoders.encoders import CharNgrams
from harness.models.vectors import Vectors
from harness.specs.implicitness import CharNgramsSpec, Direction, Distance, Form
from harness.text.dedup import fingerprint

Floats = NDArray[np.float64]
K = 8


def random_maps(width: int, *, form: Form = PUBLISHED, seed: int = 0, k: int = K) -> Maps[Matrix]:
    normal = np.random.default_rng(seed).standard_normal
    first, second, third, fourth = (
        normal(shape).astype(np.float32) for shape in ((width, k), (width, k), (k, k), (k, k))
    )
    return Maps(first, second, third, fourth if form.direction is Direction.THIRD else None)


def random_head(
    *, form: Form = PUBLISHED, seeds: tuple[int, ...] = (0,), seen: Sequence[str] = ()
) -> Head:
    """A head on character n-grams, which need no weights; a member a seed.

    It says that it was trained on the texts in `seen`; without any nobody knows.
    """
    return Head(
        name="random",
        members=tuple(random_maps(CharNgrams.width, form=form, seed=seed) for seed in seeds),
        encoder=CharNgramsSpec(),
        encoder_digest=CharNgrams().digest,
        form=form,
        seen=frozenset(map(fingerprint, seen)),
    )


def random_scorer(*, form: Form = PUBLISHED) -> Scorer:
    return Scorer("random", random_head(form=form), CharNgrams())


def plain_implicitness(embedding: Floats, maps: Maps[Matrix], form: Form) -> float:
    """The implicitness of one embedding, number by number."""
    semantic = _times(embedding, maps.semantic)
    pragmatic = _times(embedding, maps.pragmatic)
    if form.direction is not Direction.TO_PRAGMATIC:
        pragmatic = _times(pragmatic, maps.transfer)
    if form.direction is Direction.TO_PRAGMATIC:
        semantic = _times(semantic, maps.transfer)
    if maps.transfer_semantic is not None:
        semantic = _times(semantic, maps.transfer_semantic)
    return MEASURES[form.implicitness](semantic, pragmatic)


def plain_distance(first: Floats, second: Floats, maps: Maps[Matrix], form: Form) -> float:
    """The pragmatic distance of two embeddings, number by number."""
    sides = (_times(first, maps.pragmatic), _times(second, maps.pragmatic))
    return MEASURES[form.pragmatic](*sides)


def _times(row: Floats, matrix: Matrix) -> Floats:
    columns = [sum(float(a) * float(b) for a, b in zip(row, c, strict=True)) for c in matrix.T]
    return np.array(columns)


def _cosine(first: Floats, second: Floats) -> float:
    return float(1 - np.dot(first, second) / np.linalg.norm(first) / np.linalg.norm(second))


def _euclidean(first: Floats, second: Floats) -> float:
    return float(np.linalg.norm(first - second))


MEASURES: dict[Distance, Callable[[Floats, Floats], float]] = {
    Distance.COSINE: _cosine,
    Distance.EUCLIDEAN: _euclidean,
}


@dataclass(frozen=True)
class Telling:
    """An encoder of texts that say how implicit they are, in digits: 0.25 is the score of 0.25."""

    name: str = "telling"
    digest: str = "of no file"

    def encode(self, texts: Sequence[str]) -> Vectors:
        """1, then the point of the unit circle whose cosine with (1, 0) is 1 less the score."""
        cosines = np.array([1 - float(text) for text in texts])
        sines = np.sqrt(1 - cosines**2)
        return np.stack([np.ones(len(cosines)), cosines, sines], axis=1).astype(np.float32)


def telling_scorer() -> Scorer:
    """A scorer of texts that say their own score; distances are those on the unit circle."""
    eye = np.eye(3, dtype=np.float32)
    first: Matrix = np.array([[1, 0], [0, 0], [0, 0]], dtype=np.float32)
    maps: Maps[Matrix] = Maps(first, eye[:, 1:], np.eye(2, dtype=np.float32))
    head = Head(
        name="telling", members=(maps,), encoder=CharNgramsSpec(), encoder_digest=Telling().digest
    )
    return Scorer("telling", head, Telling())


@dataclass
class Standin:
    signature: str = "standin@00112233"
    seen: frozenset[str] = frozenset({fingerprint("Never asked about.")})
    heard: list[object] = field(default_factory=list)

    def score(self, texts: Sequence[object]) -> list[Scored]:
        self.heard += texts
        return [Scored(len(str(t)) / 10) if t else Scored(None, Flag.EMPTY) for t in texts]
