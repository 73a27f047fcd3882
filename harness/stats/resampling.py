"""Clusters of documents drawn anew to the interval of every statistic of agreement.

A draw takes as many clusters as there are, with replacement, each with all its documents
(Davison & Hinkley 1997, section 3.8); intervals are percentiles. Statistics that are made of
sums over documents are computed for all draws at once by one matrix product; anything else goes
through `resampled`, draw by draw. As with every percentile bootstrap, few clusters make it too
narrow. What is drawn depends on the seed's text and the clusters' names, and is the same for all
statistics of one `Resamples`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from harness.parts import digest
from harness.stats.agreement import (
    Scale,
    alpha,
    alphas_of_sums,
    interval_sums,
    pairable,
    weighted_alpha,
)
from harness.stats.correlation import (
    Coefficient,
    dataset_pearson,
    document_tau,
    document_taus,
    pearson,
    row_correlations,
    spearman,
    system_pearson,
    system_spearman,
)
from harness.stats.estimate import (
    Bounds,
    Estimate,
    Floats,
    Indices,
    NoValue,
    complete,
    ratio,
    table,
)
from harness.stats.ties import calibrated_acc_eq, document_accuracies

_CELLS = 1 << 20  # numbers in a block of draws: 8 MiB
_LEAST_DEFINED = 0.95  # an interval of the draws that happen to have a value is another interval


@dataclass(frozen=True, slots=True)
class EstimateCI:
    """An estimate and its interval; the interval's `n` counts the draws that had a value.

    Bounds are null with "too few" for a single cluster or where more than one draw in twenty
    has no value, and with "constant" where all draws agree, which is no certainty.
    """

    estimate: Estimate
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class AgreementStats:
    """A judge's agreement with people at every level, from one set of resamples.

    `epsilon` is the judge's tie threshold, fitted on all documents and kept in every draw; null
    where `acc_eq` is.
    """

    dataset_pearson: EstimateCI
    document_tau: EstimateCI
    system_spearman: EstimateCI
    system_pearson: EstimateCI
    acc_eq: EstimateCI
    epsilon: float | None


@dataclass(frozen=True, slots=True)
class Resamples:
    """Draws of clusters, the same ones each time they are asked for."""

    places: Indices
    clusters: int
    seed: str
    draws: int

    @classmethod
    def of(cls, clusters: Sequence[str], *, seed: str, draws: int = 1000) -> "Resamples":
        """Draws of the clusters of rows: one cluster's name a row."""
        if draws < 1:
            raise ValueError(f"one draw or more, not {draws!r}")
        names, places = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
        return cls(np.asarray(places, dtype=np.intp), len(names), seed, draws)

    def counts(self) -> Iterator[Floats]:
        """How often each draw takes each cluster, draws x clusters, some draws at a time."""
        return self._blocks(self.clusters)

    def row_counts(self) -> Iterator[Floats]:
        """How often each draw takes each row, draws x rows, some draws at a time."""
        return (counts[:, self.places] for counts in self._blocks(len(self.places)))

    def _blocks(self, width: int) -> Iterator[Floats]:
        """Draws x clusters, as many draws at a time as fit a block of so many columns.

        How many these are does not change what is drawn.
        """
        generator = np.random.default_rng(int(digest(self.seed), 16))
        step = max(1, _CELLS // max(1, width))
        for start in range(0, self.draws if self.clusters else 0, step):
            size = min(step, self.draws - start)
            drawn = generator.integers(0, self.clusters, size=(size, self.clusters))
            drawn += np.arange(size)[:, None] * self.clusters
            taken = np.bincount(drawn.ravel(), minlength=size * self.clusters)
            yield taken.reshape(size, self.clusters).astype(np.float64)

    def sums(self, rows: Floats) -> Floats:
        """The sum of the rows' columns in each draw, draws x columns."""
        if len(rows) != len(self.places):
            raise ValueError(f"{len(self.places)} rows were resampled, not {len(rows)}")
        totals = np.zeros((self.clusters, rows.shape[1]))
        np.add.at(totals, self.places, rows)
        return np.vstack([np.zeros((0, rows.shape[1])), *(c @ totals for c in self.counts())])

    def rows(self) -> Iterator[Indices]:
        """The rows each draw takes, in order, a row as often as its cluster was drawn."""
        everything = np.arange(len(self.places))
        for weights in self.weights():
            yield np.repeat(everything, weights.astype(np.intp))

    def weights(self) -> Iterator[Floats]:
        """How often each draw takes each row."""
        for counts in self.counts():
            for count in counts:
                yield count[self.places]


def agreement_stats(
    human: ArrayLike, judge: ArrayLike, resamples: Resamples, *, level: float = 0.95
) -> AgreementStats:
    """Every correlation of a judge with people, with intervals over clusters of documents.

    Resampling documents says how the figures would move with other documents, not with other
    systems: for that, see `fisher_interval` and the number of systems.
    """
    rows, others = complete(human, judge)
    taus = document_taus(rows, others)
    ties = calibrated_acc_eq(rows, others)
    epsilon = ties.epsilons[0] if ties.epsilons else None
    shares = document_accuracies(rows, others, epsilon=epsilon or 0.0)
    means = _drawn_system_means(rows, others, resamples)

    def figure(estimate: Estimate, values: Floats) -> EstimateCI:
        return EstimateCI(estimate, bounds(estimate, values, resamples, level=level))

    return AgreementStats(
        figure(dataset_pearson(rows, others), _drawn_pearson(rows, others, resamples)),
        figure(document_tau(rows, others), _drawn_means(taus, resamples)),
        figure(system_spearman(rows, others), _of_systems(*means, "spearman")),
        figure(system_pearson(rows, others), _of_systems(*means, "pearson")),
        figure(ties.estimate, _drawn_means(shares, resamples)),
        epsilon,
    )


def alpha_figure(
    ratings: ArrayLike, resamples: Resamples, *, scale: Scale, level: float = 0.95
) -> EstimateCI:
    """Krippendorff's alpha with its interval over clusters of units.

    `ratings` are units x raters, or documents x systems x raters: rows are what was resampled,
    and all cells of a document go with it.
    """
    cells = np.asarray(ratings, dtype=np.float64)
    if len(cells) != len(resamples.places):
        raise ValueError(f"{len(resamples.places)} rows were resampled, not {len(cells)}")
    flat = table(cells.reshape(int(np.prod(cells.shape[:-1])), cells.shape[-1]))
    found, estimate = pairable(flat), alpha(flat, scale)
    row = found.row // (cells.shape[1] if cells.ndim == 3 else 1)
    if estimate.value is None:
        values = np.zeros(0)
    elif scale == "interval":
        units = interval_sums(found, found.values - found.domain.mean())
        documents = np.zeros((len(cells), units.shape[1]))
        np.add.at(documents, row, units)
        values = alphas_of_sums(resamples.sums(documents))
    else:
        values = np.array([weighted_alpha(found, w[row], scale) for w in resamples.weights()])
    return EstimateCI(estimate, bounds(estimate, values, resamples, level=level))


def resampled(
    statistic: Callable[[Indices], Estimate], resamples: Resamples, *, level: float = 0.95
) -> EstimateCI:
    """Any statistic of rows with its interval: it is called with the rows of each draw.

    For what has no faster way: kappa, percent agreement, a difference of two judges.
    """
    estimate = statistic(np.arange(len(resamples.places)))
    drawn = [statistic(rows).value for rows in resamples.rows()]
    values = np.array([np.nan if value is None else value for value in drawn])
    return EstimateCI(estimate, bounds(estimate, values, resamples, level=level))


def mean_figure(values: Floats, estimate: Estimate, resamples: Resamples) -> EstimateCI:
    """A mean over documents, of values NaN where a document has none, with its interval."""
    return EstimateCI(estimate, bounds(estimate, _drawn_means(values, resamples), resamples))


def bounds(
    estimate: Estimate, values: Floats, resamples: Resamples, *, level: float = 0.95
) -> Bounds:
    """The percentile interval of the draws that have a value (NaN stands for none)."""
    if not 0 < level < 1:
        raise ValueError(f"0 < level < 1, not {level!r}")
    found = values[~np.isnan(values)]
    if estimate.value is None:
        return Bounds(None, None, n=0, reason=estimate.reason)
    if resamples.clusters < 2 or len(found) < _LEAST_DEFINED * resamples.draws:
        return Bounds(None, None, n=len(found), reason=NoValue.TOO_FEW)
    tail = (1 - level) / 2
    low, high = np.quantile(found, [tail, 1 - tail])
    if np.ptp(found) <= 1e-12:
        return Bounds(None, None, n=len(found), reason=NoValue.CONSTANT)
    return Bounds(float(low), float(high), n=len(found))


def _drawn_means(values: Floats, resamples: Resamples) -> Floats:
    """The mean of the documents' values in each draw, NaN where none has one."""
    is_there = ~np.isnan(values)
    sums = resamples.sums(np.column_stack([np.nan_to_num(values), is_there]))
    return ratio(sums[:, 0], sums[:, 1])


def _drawn_pearson(human: Floats, judge: Floats, resamples: Resamples) -> Floats:
    """Pearson's r over the cells of each draw, from sums of products."""
    is_there = ~np.isnan(human)
    x, y = _centred(human), _centred(judge)
    columns = [is_there.astype(np.float64), x, y, x * x, y * y, x * y]
    n, sx, sy, sxx, syy, sxy = resamples.sums(np.column_stack([c.sum(axis=1) for c in columns])).T
    spread = n * sxx - sx**2, n * syy - sy**2
    # Rounding leaves a trace of a variance where there is none.
    varies = (spread[0] > 1e-12 * n * sxx) & (spread[1] > 1e-12 * n * syy)
    length = np.sqrt(np.where(varies, spread[0], 0)) * np.sqrt(np.where(varies, spread[1], 0))
    return np.asarray(np.clip(ratio(n * sxy - sx * sy, length), -1, 1), dtype=np.float64)


def _centred(ratings: Floats) -> Floats:
    """The ratings less their mean, in units of the greatest distance, missing cells zero."""
    found = ratings[~np.isnan(ratings)]
    if len(found) == 0:
        return np.zeros(ratings.shape)
    centred = np.nan_to_num(ratings - found.mean())
    return np.asarray(centred / (np.abs(centred).max() or 1.0), dtype=np.float64)


def _drawn_system_means(
    human: Floats, judge: Floats, resamples: Resamples
) -> tuple[Floats, Floats]:
    """Each system's means in each draw, draws x systems, NaN where a draw leaves it no cell.

    Systems without any cell are left out.
    """
    is_there = ~np.isnan(human)
    is_rated = is_there.any(axis=0)
    counts = resamples.sums(is_there[:, is_rated].astype(np.float64))
    sums = [resamples.sums(np.nan_to_num(rows[:, is_rated])) for rows in (human, judge)]
    return ratio(sums[0], counts), ratio(sums[1], counts)


def _of_systems(human: Floats, judge: Floats, coefficient: Coefficient) -> Floats:
    """The correlation of the systems' means in each draw; a draw may lack some systems."""
    values = np.full(len(human), np.nan)
    if human.shape[1] < 2:
        return values
    is_whole = ~np.isnan(human).any(axis=1)
    values[is_whole] = row_correlations(human[is_whole], judge[is_whole], coefficient)
    measure = pearson if coefficient == "pearson" else spearman
    for draw in np.nonzero(~is_whole)[0]:
        found = measure(human[draw], judge[draw]).value
        values[draw] = np.nan if found is None else found
    return values
