"""Vectors of sentence pairs to the matrices of a head, by the margin losses of the paper.

The encoder is not trained, so each sentence is a row of vectors computed once for all epochs. All
randomness comes from one seed: on one machine the same seed gives the same bits. Nothing here
encodes, splits or writes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from harness.implicitness.formula import (
    Features,
    Maps,
    Matrix,
    features,
    implicitness,
    pragmatic_distance,
)
from harness.implicitness.training.examples import PairExamples, Places, scaling
from harness.models.extras import require
from harness.models.vectors import Progress
from harness.specs.implicitness import Direction, SettingsSpec

if TYPE_CHECKING:
    from torch import Tensor

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
    """Rows of vectors, and places among them: pairs [m, 4], orders [o, 2] with margins."""

    rows: "Tensor"
    pairs: "Tensor"
    orders: "Tensor"
    margins: "Tensor"


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
    import torch

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
        self, known: PairExamples, vectors: "Tensor", settings: SettingsSpec, *, seed: int
    ) -> None:
        """Start with Xavier's uniform numbers (Glorot & Bengio 2010)."""
        import torch

        self._known, self._vectors, self._settings = known, vectors, settings
        self._draw = torch.Generator().manual_seed(seed)
        dim, k = vectors.shape[1], settings.features
        is_third = settings.form.direction is Direction.THIRD
        shapes = [(dim, k), (dim, k), (k, k), *([(k, k)] if is_third else [])]
        self._matrices = [self._xavier(shape).requires_grad_() for shape in shapes]
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
        """The share of held-out pairs and orders that are in order; ties count half."""
        import torch

        rows = _rows(held)
        with torch.no_grad():
            scores = implicitness(
                features(self._vectors[torch.from_numpy(rows)], self._maps()),
                self._maps(),
                self._settings.form,
            ).numpy()
        both = np.concatenate([held.pairs[:, :2], held.orders])
        higher, lower = scores[np.searchsorted(rows, both)].T
        return float(np.mean((higher > lower) + 0.5 * (higher == lower)))

    def _xavier(self, shape: tuple[int, int]) -> "Tensor":
        """Uniform numbers between plus and minus the square root of 6 / (ins + outs)."""
        import torch

        return (torch.rand(shape, generator=self._draw) * 2 - 1) * sqrt(6 / sum(shape))

    def _maps(self) -> "Maps[Tensor]":
        return Maps(*self._matrices)

    def _batches(self) -> Iterator[_Batch]:
        """The examples in a new order; each batch has its share of pairs and of orders."""
        import torch

        known = self._known
        count = max(1, ceil(len(known) / self._settings.batch))
        pairs = torch.randperm(len(known), generator=self._draw).numpy()
        orders = torch.randperm(len(known.orders), generator=self._draw).numpy()
        for part in range(count):
            yield self._batch(pairs[part::count], orders[part::count])

    def _batch(self, pairs: Places, orders: Places) -> _Batch:
        import torch

        known = self._known
        four, two = known.pairs[pairs], known.orders[orders]
        rows, places = np.unique(np.concatenate([four.ravel(), two.ravel()]), return_inverse=True)
        margins = self._settings.level_margin * known.steps[orders]
        return _Batch(
            torch.from_numpy(rows),
            torch.from_numpy(places[: four.size].reshape(four.shape)),
            torch.from_numpy(places[four.size :].reshape(two.shape)),
            torch.from_numpy(margins.astype(np.float32)),
        )

    def _loss(self, batch: _Batch) -> "Tensor":
        """The margin losses of the paper, and one of levels: the mean shortfall of each margin.

        The sides of a pair must differ in implicitness, and so must those of its negative; the
        negative's sides must be further apart in meaning than the pair's.
        """
        settings, maps = self._settings, self._maps()
        found = features(self._noisy(self._vectors[batch.rows]), maps)
        scores = implicitness(found, maps, settings.form)
        implied, stated, implied_not, stated_not = batch.pairs.T
        loss = _shortfall(scores, implied, stated, settings.margin)
        loss = loss + _shortfall(scores, implied_not, stated_not, settings.margin)
        if len(batch.orders):
            more, less = batch.orders.T
            loss = loss + settings.level_weight * _shortfall(scores, more, less, batch.margins)
        if settings.pragmatic_weight:
            sides = [_pragmatic_at(found, side) for side in batch.pairs.T]
            near = pragmatic_distance(sides[0], sides[1], settings.form)
            far = pragmatic_distance(sides[2], sides[3], settings.form)
            shortfall = (settings.pragmatic_margin - (far - near)).relu().mean()
            loss = loss + settings.pragmatic_weight * shortfall
        return loss

    def _noisy(self, rows: "Tensor") -> "Tensor":
        import torch

        if not self._settings.noise:
            return rows
        drawn = torch.randn(rows.shape, generator=self._draw)
        return rows + drawn * (self._settings.noise / sqrt(rows.shape[1]))


def _shortfall(
    scores: "Tensor", more: "Tensor", less: "Tensor", margin: "float | Tensor"
) -> "Tensor":
    """The mean shortfall of a margin by which some scores should exceed others."""
    apart = scores.index_select(0, more) - scores.index_select(0, less)
    return (margin - apart).relu().mean()


def _pragmatic_at(found: "Features[Tensor]", places: "Tensor") -> "Features[Tensor]":
    """The pragmatic features at some places, the only ones the distance needs."""
    from torch.nn.functional import embedding  # indexing is slow backwards

    pragmatic = embedding(places, found.pragmatic)
    return Features(pragmatic, pragmatic)


def _rows(known: PairExamples) -> Places:
    return np.unique(np.concatenate([known.pairs.ravel(), known.orders.ravel()]))


@contextmanager
def _threads(count: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
