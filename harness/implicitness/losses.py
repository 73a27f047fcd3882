"""Training pairs to rows of vectors, and these to a head's matrices, by the paper's margin losses.

The encoder is not trained. On one machine the same seed gives the same bits.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from math import ceil, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from harness.implicitness.formula import Maps, Matrix, distance, features, implicitness
from harness.implicitness.pairs import TrainingPair
from harness.implicitness.scorer import Embedded, embedded_texts
from harness.lazy import Tensor, torch
from harness.models.encoders.encoders import Encoder
from harness.models.extras import require
from harness.models.vectors import Progress, Vectors
from harness.specs.implicitness import Direction, SettingsSpec

Places = NDArray[np.int64]


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
    plain: Places
    second: Places

    @property
    def rows(self) -> Places:
        """The places of all vectors that they refer to, in order."""
        parts = self.pairs, self.orders, self.plain, self.second
        return np.unique(np.concatenate([each.ravel() for each in parts]))


def embed(
    pairs: Iterable[TrainingPair], encoder: Encoder, progress: Progress | None = None
) -> Embedded:
    """Encode each distinct sentence of the pairs, the short ones first."""
    texts = (text for pair in pairs for text in pair.sentences)
    return embedded_texts(texts, encoder, progress, stage="sentences")


def examples(pairs: Sequence[TrainingPair], embedded: Embedded) -> PairExamples:
    """Build examples of pairs, each with its negative; levels give all orders of two."""
    place = embedded.places
    orders = [
        (place[pair.levels[high]], place[pair.levels[low]], high - low)
        for pair in pairs
        for low, high in combinations(range(len(pair.levels)), 2)
    ]
    known = _table(orders, 3)
    fours = [(pair.implicit, pair.explicit, *(pair.negative or ())) for pair in pairs]
    return PairExamples(
        embedded.vectors,
        pairs=_table([[place[text] for text in four] for four in fours], 4),
        orders=known[:, :2],
        steps=known[:, 2],
        plain=_table([(place[p.implicit], place[p.plain]) for p in pairs if p.plain], 2),
        second=_table([[place[p.levels[1]]] for p in pairs if len(p.levels) > 2], 1)[:, 0],
    )


def _table(rows: Sequence[Sequence[int]], width: int) -> Places:
    return np.array(rows, dtype=np.int64).reshape(-1, width)


SMALLEST: Final = 1e-6  # a column that is narrower counts as one that never changes
VARIED: Final = 2 / 3  # of a scaled row's mean squared length; the rest is the column that does not
THREADS: Final = 1  # sums over several would depend on how many there are


def scaled(vectors: Vectors, rows: Places) -> tuple[Vectors, Callable[[Matrix], Matrix]]:
    """Scale vectors [n, dim] to columns of equal spread over some rows, of length about 1.

    A column that never changes stays, as a constant. Also gives the function that turns a matrix
    [dim, k] for scaled vectors into one for the vectors.
    """
    mean = vectors[rows].mean(axis=0, dtype=np.float64)
    spread = vectors[rows].std(axis=0, dtype=np.float64)
    is_varied = spread > SMALLEST
    unit = sqrt(VARIED / max(is_varied.sum(), 1))
    factor = np.where(is_varied, unit / np.where(is_varied, spread, 1), 0.0)
    shift = np.zeros_like(mean)
    constant = np.flatnonzero(~is_varied & (np.abs(mean) > SMALLEST))[:1]
    if len(constant):
        factor[constant] = sqrt(1 - VARIED) / mean[constant]
        shift = np.where(is_varied, mean, 0.0)

    def back(matrix: Matrix) -> Matrix:
        found = matrix.astype(np.float64) * factor[:, None]
        if len(constant):
            found[constant[0]] -= shift @ found / float(mean[constant[0]])
        return found.astype(np.float32)

    return ((vectors - shift) * factor).astype(np.float32), back


def train(
    known: PairExamples,
    settings: SettingsSpec,
    *,
    seed: int,
    validation: PairExamples | None = None,
) -> tuple[Maps[Matrix], int]:
    """Train float32 matrices on examples; give those of one epoch, from 1, and the epoch.

    It is the first of those that order most of the validation examples, without these the last.
    """
    require("torch", extra="embed")
    vectors, back = known.vectors, None
    if settings.is_scaled:
        vectors, back = scaled(known.vectors, known.rows)
    with _threads(THREADS):
        training = _Training(known, torch.from_numpy(vectors), settings, seed=seed)
        kept, best, most = training.maps(), settings.epochs, -1.0
        for epoch in range(1, settings.epochs + 1):
            training.learn()
            right = training.accuracy(validation) if validation is not None else float(epoch)
            if right > most:
                kept, best, most = training.maps(), epoch, right
    if back is not None:
        kept = replace(kept, semantic=back(kept.semantic), pragmatic=back(kept.pragmatic))
    return kept, best


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
        for rows, parts, margins in self._batches():
            self._optimizer.zero_grad()
            self._loss(rows, parts, margins).backward()  # type: ignore[no-untyped-call]  # torch's
            self._optimizer.step()

    def maps(self) -> Maps[Matrix]:
        """The matrices as they are now."""
        return Maps(*(matrix.detach().numpy().copy() for matrix in self._matrices))

    def accuracy(self, held: PairExamples) -> float:
        """The share of held-out pairs, orders and plain sentences in order; ties count half."""
        rows, maps = held.rows, Maps(*self._matrices)
        with torch.no_grad():
            found = features(self._vectors[torch.from_numpy(rows)], maps)
            scores = implicitness(found, maps, self._settings.form).numpy()
        both = np.concatenate([held.pairs[:, :2], held.orders, held.plain])
        higher, lower = scores[np.searchsorted(rows, both)].T
        return float(np.mean((higher > lower) + 0.5 * (higher == lower)))

    def _batches(self) -> Iterator[tuple[Tensor, list[Tensor], Tensor]]:
        """Rows of vectors, places of each kind of examples among them, margins of the orders."""
        known, settings = self._known, self._settings
        size = len(known.pairs)
        count = max(1, ceil(size / settings.batch))
        pairs = torch.randperm(size, generator=self._draw).numpy()
        orders = torch.randperm(len(known.orders), generator=self._draw).numpy()
        plain = second = _table([], 2)
        if settings.plain_weight:
            drawn = self._with_drawn(np.repeat(known.plain[:, 1], 2))
            plain, second = np.concatenate([known.plain, drawn]), self._with_drawn(known.second)
        for part in range(count):
            of = slice(part, None, count)
            chosen = known.pairs[pairs[of]], known.orders[orders[of]], plain[of], second[of]
            rows, places = np.unique(
                np.concatenate([each.ravel() for each in chosen]), return_inverse=True
            )
            ends = np.cumsum([each.size for each in chosen])[:-1]
            split = zip(np.split(places, ends), chosen, strict=True)
            margins = (settings.level_margin * known.steps[orders[of]]).astype(np.float32)
            yield (
                torch.from_numpy(rows),
                [torch.from_numpy(at.reshape(each.shape)) for at, each in split],
                torch.from_numpy(margins),
            )

    def _with_drawn(self, rows: Places) -> Places:
        """Some rows, each after a drawn implicit one."""
        size = len(self._known.pairs)
        drawn = torch.randint(size, (len(rows),), generator=self._draw).numpy()
        return np.stack([self._known.pairs[drawn, 0], rows], axis=1)

    def _loss(self, places: Tensor, parts: Sequence[Tensor], margins: Tensor) -> Tensor:
        """The margin losses of the paper, and one of levels: the mean shortfall of each margin."""
        # The sides of a pair must differ in implicitness, and so must those of its negative; the
        # negative's sides must be further apart in meaning than the pair's.
        from torch.nn.functional import embedding  # indexing is slow backwards

        settings, maps = self._settings, Maps(*self._matrices)
        rows, (pairs, orders, plain, second) = self._vectors[places], parts
        if settings.noise:
            drawn = torch.randn(rows.shape, generator=self._draw)
            rows = rows + drawn * (settings.noise / sqrt(rows.shape[1]))
        found = features(rows, maps)
        scores = implicitness(found, maps, settings.form)
        loss = _shortfall(scores, pairs[:, :2], settings.margin)
        loss = loss + _shortfall(scores, pairs[:, 2:], settings.margin)
        for weight, both, margin in (
            (settings.level_weight, orders, margins),
            (settings.plain_weight, plain, settings.margin),
            (settings.plain_weight, second, settings.level_margin),
        ):
            if len(both):
                loss = loss + weight * _shortfall(scores, both, margin)
        if settings.ceiling_weight:
            low = torch.cat([pairs[:, 1], plain[:, 1]])
            above = (scores.index_select(0, low) - settings.ceiling).relu().mean()
            loss = loss + settings.ceiling_weight * above
        if settings.pragmatic_weight:
            sides = [embedding(side, found[1]) for side in pairs.T]
            near = distance(sides[0], sides[1], settings.form.pragmatic)
            far = distance(sides[2], sides[3], settings.form.pragmatic)
            shortfall = (settings.pragmatic_margin - (far - near)).relu().mean()
            loss = loss + settings.pragmatic_weight * shortfall
        return loss


def _shortfall(scores: Tensor, both: Tensor, margin: float | Tensor) -> Tensor:
    """How far the first of two rows is, on average, from scoring a margin above the second."""
    more, less = both.T
    apart = scores.index_select(0, more) - scores.index_select(0, less)
    return (margin - apart).relu().mean()


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
