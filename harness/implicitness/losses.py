"""Training pairs to rows of vectors, and these to a head's matrices, by the paper's margin losses.

The encoder is not trained, so each sentence is encoded once for all epochs, splits and settings.
All randomness comes from one seed: on one machine the same seed gives the same bits. Nothing here
splits or writes.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import ceil, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from harness.implicitness.formula import (
    Features,
    Maps,
    Matrix,
    features,
    implicitness,
    pragmatic_distance,
)
from harness.implicitness.pairs import TrainingPair
from harness.implicitness.scorer import Embedded, embedded_texts
from harness.lazy import Tensor, torch
from harness.models.encoders.encoders import Encoder
from harness.models.extras import require
from harness.models.vectors import Progress, Vectors
from harness.specs.implicitness import Direction, SettingsSpec

Places = NDArray[np.int64]
NO_PAIRS: Final[Places] = np.empty((0, 2), np.int64)
NO_ROWS: Final[Places] = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class PairExamples:
    """Examples that refer to rows of `vectors` [n, dim].

    `pairs` [m, 4] has the rows of a pair's implicit and explicit sentence and of its negative's.
    In `orders` [o, 2] the first row is more implicit than the second, by `steps` [o] levels.
    `plain` [p, 2] has an implicit row and that of its plain sentence; `second` [s] the rows of
    second levels, which say what they mean in softer words.
    """

    vectors: Vectors
    pairs: Places
    orders: Places
    steps: Places
    plain: Places = field(default_factory=NO_PAIRS.copy)
    second: Places = field(default_factory=NO_ROWS.copy)

    def __len__(self) -> int:
        return len(self.pairs)


def embed(
    pairs: Iterable[TrainingPair], encoder: Encoder, progress: Progress | None = None
) -> Embedded:
    """Encode each distinct sentence of the pairs, the short ones first."""
    texts = (text for pair in pairs for text in pair.sentences)
    return embedded_texts(texts, encoder, progress, stage="sentences")


def examples(pairs: Sequence[TrainingPair], embedded: Embedded) -> PairExamples:
    """Build examples of pairs, each with its negative; levels give all orders of two."""
    place = embedded.places
    fours = [
        (place[pair.implicit], place[pair.explicit], *(place[text] for text in pair.negative or ()))
        for pair in pairs
    ]
    orders = [
        (place[pair.levels[high]], place[pair.levels[low]], high - low)
        for pair in pairs
        for low, high in combinations(range(len(pair.levels)), 2)
    ]
    known = np.array(orders, dtype=np.int64).reshape(-1, 3)
    table = np.array(fours, dtype=np.int64).reshape(-1, 4)
    plain = [(place[pair.implicit], place[pair.plain]) for pair in pairs if pair.plain]
    second = [place[pair.levels[1]] for pair in pairs if len(pair.levels) > 2]
    return PairExamples(
        embedded.vectors,
        table,
        known[:, :2],
        known[:, 2],
        plain=np.array(plain, dtype=np.int64).reshape(-1, 2),
        second=np.array(second, dtype=np.int64),
    )


SMALLEST: Final = 1e-6  # a column that is narrower counts as one that never changes
VARIED: Final = 2 / 3  # of a scaled row's mean squared length; the rest is the column that does not


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """What is subtracted from each column [dim], and the factor [dim] it is multiplied by.

    `constant` is the place of a column that never changes and `value` its value, None where
    there is none; then nothing is subtracted.
    """

    shift: NDArray[np.float64]
    factor: NDArray[np.float64]
    constant: int | None = None
    value: float | None = None

    def scaled(self, vectors: Vectors) -> Vectors:
        """Scale vectors [n, dim] to columns of equal spread and rows of length about 1."""
        rows: Vectors = ((vectors - self.shift) * self.factor).astype(np.float32)
        return rows

    def unscaled(self, maps: Maps[Matrix]) -> Maps[Matrix]:
        """Turn matrices for scaled vectors into equivalent ones for the vectors."""
        return replace(
            maps, semantic=self._back(maps.semantic), pragmatic=self._back(maps.pragmatic)
        )

    def _back(self, matrix: Matrix) -> Matrix:
        found = matrix.astype(np.float64) * self.factor[:, None]
        if self.constant is not None and self.value is not None:
            found[self.constant] -= self.shift @ found / self.value
        return found.astype(np.float32)


def scaling(vectors: Vectors) -> Scaling:
    """Compute the scaling by the means and standard deviations of vectors [n, dim]."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    spread = vectors.std(axis=0, dtype=np.float64)
    is_varied = spread > SMALLEST
    unit = sqrt(VARIED / max(is_varied.sum(), 1))
    factor = np.where(is_varied, unit / np.where(is_varied, spread, 1), 0.0)
    constants = np.flatnonzero(~is_varied & (np.abs(mean) > SMALLEST))
    if not len(constants):
        return Scaling(np.zeros_like(mean), factor)
    constant = int(constants[0])
    factor[constant] = sqrt(1 - VARIED) / mean[constant]
    return Scaling(np.where(is_varied, mean, 0.0), factor, constant, float(mean[constant]))


THREADS: Final = 1  # sums over several would depend on how many there are


@dataclass(frozen=True, slots=True, eq=False)
class TrainedMember:
    """The float32 matrices of the best epoch, counted from 1.

    `history` has the implicitness accuracy on the validation examples after each epoch; it is
    empty where there are none, and the last epoch is kept.
    """

    maps: Maps[Matrix]
    epoch: int
    history: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Rows of vectors, and places among them: pairs [m, 4], orders [o, 2] with margins.

    `plain` and `second` [., 2]: an implicit row, and a plain sentence or a second level.
    """

    rows: Tensor
    pairs: Tensor
    orders: Tensor
    margins: Tensor
    plain: Tensor
    second: Tensor


def train(
    known: PairExamples,
    settings: SettingsSpec,
    *,
    seed: int,
    validation: PairExamples | None = None,
    progress: Progress | None = None,
) -> TrainedMember:
    """Train the matrices on examples, from a seeded start.

    The first of the epochs that order most of the validation examples is kept; the validation
    examples must be of the same vectors.
    """
    require("torch", extra="embed")

    scale = scaling(known.vectors[_rows(known)]) if settings.is_scaled else None
    vectors = torch.from_numpy(scale.scaled(known.vectors) if scale else known.vectors)
    with _threads(THREADS):
        training = _Training(known, vectors, settings, seed=seed)
        kept, history = training.maps(), []
        for epoch in range(1, settings.epochs + 1):
            training.learn()
            if validation is not None:
                history.append(training.accuracy(validation))
            if not history or history.index(max(history)) == epoch - 1:
                kept = training.maps()
            if progress is not None:
                progress("epochs", epoch, settings.epochs)
    best = history.index(max(history)) + 1 if history else settings.epochs
    return TrainedMember(scale.unscaled(kept) if scale else kept, best, tuple(history))


class _Training:
    def __init__(
        self, known: PairExamples, vectors: Tensor, settings: SettingsSpec, *, seed: int
    ) -> None:
        """Start with Xavier's uniform numbers (Glorot & Bengio 2010)."""
        self._known, self._vectors, self._settings = known, vectors, settings
        self._draw = torch.Generator().manual_seed(seed)
        dim, k = vectors.shape[1], settings.features
        is_third = settings.form.direction is Direction.THIRD
        shapes = [(dim, k), (dim, k), (k, k), *([(k, k)] if is_third else [])]
        uniform = [torch.rand(shape, generator=self._draw) * 2 - 1 for shape in shapes]
        self._matrices = [
            (numbers * sqrt(6 / sum(numbers.shape))).requires_grad_() for numbers in uniform
        ]
        self._optimizer = torch.optim.Adam(
            self._matrices, lr=settings.learning_rate, weight_decay=settings.weight_decay
        )

    def learn(self) -> None:
        """Train one epoch."""
        for batch in self._batches():
            self._optimizer.zero_grad()
            self._loss(batch).backward()  # type: ignore[no-untyped-call]  # torch's
            self._optimizer.step()

    def maps(self) -> Maps[Matrix]:
        """The matrices as they are now."""
        return Maps(*(matrix.detach().numpy().copy() for matrix in self._matrices))

    def accuracy(self, held: PairExamples) -> float:
        """The share of held-out pairs, orders and plain sentences in order; ties count half."""
        rows = _rows(held)
        with torch.no_grad():
            found = features(self._vectors[torch.from_numpy(rows)], self._maps())
            scores = implicitness(found, self._maps(), self._settings.form).numpy()
        both = np.concatenate([held.pairs[:, :2], held.orders, held.plain])
        higher, lower = scores[np.searchsorted(rows, both)].T
        return float(np.mean((higher > lower) + 0.5 * (higher == lower)))

    def _maps(self) -> Maps[Tensor]:
        return Maps(*self._matrices)

    def _batches(self) -> Iterator[_Batch]:
        known = self._known
        count = max(1, ceil(len(known) / self._settings.batch))
        pairs = torch.randperm(len(known), generator=self._draw).numpy()
        orders = torch.randperm(len(known.orders), generator=self._draw).numpy()
        plain, second = self._drawn()
        for part in range(count):
            of = slice(part, None, count)
            chosen = known.pairs[pairs[of]], known.orders[orders[of]], plain[of], second[of]
            rows, places = np.unique(
                np.concatenate([each.ravel() for each in chosen]), return_inverse=True
            )
            ends = np.cumsum([each.size for each in chosen])[:-1]
            four, two, under, softer = (
                torch.from_numpy(at.reshape(each.shape))
                for at, each in zip(np.split(places, ends), chosen, strict=True)
            )
            margins = self._settings.level_margin * known.steps[orders[of]]
            yield _Batch(
                torch.from_numpy(rows),
                pairs=four,
                orders=two,
                margins=torch.from_numpy(margins.astype(np.float32)),
                plain=under,
                second=softer,
            )

    def _drawn(self) -> tuple[Places, Places]:
        """Implicit rows with their own plain ones and drawn ones, and with second levels."""
        known = self._known
        if not self._settings.plain_weight:
            return NO_PAIRS, NO_PAIRS
        drawn = self._beside(np.repeat(known.plain[:, 1], 2))
        return np.concatenate([known.plain, drawn]), self._beside(known.second)

    def _beside(self, rows: Places) -> Places:
        drawn = torch.randint(len(self._known), (len(rows),), generator=self._draw).numpy()
        return np.stack([self._known.pairs[drawn, 0], rows], axis=1)

    def _loss(self, batch: _Batch) -> Tensor:
        """The margin losses of the paper, and one of levels: the mean shortfall of each margin."""
        # The sides of a pair must differ in implicitness, and so must those of its negative; the
        # negative's sides must be further apart in meaning than the pair's.
        from torch.nn.functional import embedding  # indexing is slow backwards

        settings, maps = self._settings, self._maps()
        rows = self._vectors[batch.rows]
        if settings.noise:
            drawn = torch.randn(rows.shape, generator=self._draw)
            rows = rows + drawn * (settings.noise / sqrt(rows.shape[1]))
        found = features(rows, maps)
        scores = implicitness(found, maps, settings.form)
        implied, stated, implied_not, stated_not = batch.pairs.T
        loss = _shortfall(scores, implied, stated, settings.margin)
        loss = loss + _shortfall(scores, implied_not, stated_not, settings.margin)
        if len(batch.orders):
            more, less = batch.orders.T
            loss = loss + settings.level_weight * _shortfall(scores, more, less, batch.margins)
        for pair, margin in ((batch.plain, settings.margin), (batch.second, settings.level_margin)):
            if len(pair):
                more, less = pair.T
                loss = loss + settings.plain_weight * _shortfall(scores, more, less, margin)
        if settings.ceiling_weight:
            low = torch.cat([stated, batch.plain[:, 1]])
            above = (scores.index_select(0, low) - settings.ceiling).relu().mean()
            loss = loss + settings.ceiling_weight * above
        if settings.pragmatic_weight:
            # The distance needs the pragmatic features alone.
            pragmatic = [embedding(side, found.pragmatic) for side in batch.pairs.T]
            sides = [Features(one, one) for one in pragmatic]
            near = pragmatic_distance(sides[0], sides[1], settings.form)
            far = pragmatic_distance(sides[2], sides[3], settings.form)
            shortfall = (settings.pragmatic_margin - (far - near)).relu().mean()
            loss = loss + settings.pragmatic_weight * shortfall
        return loss


def _shortfall(scores: Tensor, more: Tensor, less: Tensor, margin: float | Tensor) -> Tensor:
    apart = scores.index_select(0, more) - scores.index_select(0, less)
    return (margin - apart).relu().mean()


def _rows(known: PairExamples) -> Places:
    parts = known.pairs, known.orders, known.plain, known.second
    return np.unique(np.concatenate([each.ravel() for each in parts]))


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
