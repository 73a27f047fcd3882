"""Seeded tables of ratings with ties and gaps, and the tables no statistic can say much about."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from harness.stats import correlation
from harness.stats import estimate as estimates
from harness.stats.clustered import jackknife_interval
from harness.stats.correlation import document_tau, pearson, spearman, system_means
from harness.stats.estimate import Estimate, Floats, Indices, NoValue, Resamples, mean_estimate

NAN = float("nan")

# Emphasized-Talk, table 1: seven systems; people's mean and three judges' means.
MOS = np.array([3.59, 3.73, 3.51, 3.21, 3.41, 2.61, 3.29])
BERT_F1 = np.array([88.7, 88.5, 88.2, 86.5, 87.7, 86.3, 87.4])
AUTO_GPT4_GT = np.array([2.94, 3.03, 2.79, 2.54, 2.36, 1.71, 2.47])
AUTO_GPT4 = np.array([3.83, 3.86, 3.39, 2.92, 3.06, 1.85, 2.82])

BARREN: dict[str, Floats] = {
    "no documents": np.zeros((0, 4)),
    "no systems": np.zeros((4, 0)),
    "one system": np.array([[1.0], [2.0], [3.0]]),
    "one cell": np.array([[2.0]]),
    "all missing": np.full((3, 4), NAN),
    "all alike": np.full((5, 4), 0.1),
    "documents alike": np.tile([[1.0], [2.0], [3.0]], 4),
    "one cell a document": np.array([[1.0, NAN, NAN], [NAN, 2.0, NAN], [NAN, NAN, 3.0]]),
    "huge": np.array([[1e300, -1e300], [1e300, 1e300]]),
}


def table_pair(
    seed: int, documents: int = 12, systems: int = 5, *, gaps: float = 0.15
) -> tuple[Floats, Floats]:
    """People's ratings on a grid of thirds and a judge's, related to them, with gaps in both."""
    random = np.random.default_rng(seed)
    truth = random.normal(2.5, 1, (documents, systems))
    human = np.round(3 * (truth + random.normal(0, 0.6, truth.shape))) / 3
    judge = np.round(2 * (truth + random.normal(0, 0.8, truth.shape))) / 2
    for rows in (human, judge):
        rows[random.random(rows.shape) < gaps] = NAN
    return human, judge


def rater_table(seed: int, units: int = 40, raters: int = 4, *, gaps: float = 0.25) -> Floats:
    """Ratings 1 to 5 of units by raters, some of whom skipped some."""
    random = np.random.default_rng(seed)
    truth = random.normal(3, 1, (units, 1))
    ratings = np.clip(np.round(truth + random.normal(0, 0.8, (units, raters))), 1, 5)
    ratings[random.random(ratings.shape) < gaps] = NAN
    return ratings


def documents_of(rows: int, clusters: int, seed: int = 0) -> list[str]:
    """A cluster's name for each row, every cluster used where rows allow."""
    extra = np.random.default_rng(seed).integers(0, clusters, max(0, rows - clusters))
    return [f"dialogue-{c}" for c in [*range(min(rows, clusters)), *extra.tolist()]]


def acc_eq(human: ArrayLike, judge: ArrayLike, *, epsilon: float = 0.0) -> Estimate:
    """Pairwise accuracy with ties at a given epsilon."""
    return mean_estimate(
        correlation.document_accuracies(human, judge, epsilon=epsilon), NoValue.TOO_FEW
    )


OF_SYSTEMS: dict[str, Callable[[ArrayLike, ArrayLike], Estimate]] = {
    "spearman_system": lambda human, judge: spearman(*system_means(human, judge)),
    "pearson_system": lambda human, judge: pearson(*system_means(human, judge)),
}


def tau_zero(human: ArrayLike, judge: ArrayLike) -> Estimate:
    """The zero-filled tau."""
    return document_tau(human, judge, is_zero_filled=True)


def drawn_rows(resamples: Resamples) -> Iterator[Indices]:
    """The rows each draw takes, in order, a row as often as its cluster was drawn."""
    for counts in (one for block in resamples.counts() for one in block[:, resamples.places]):
        yield np.repeat(np.arange(len(counts)), counts.astype(np.intp))


def resampled(statistic: Callable[[Indices], Estimate], resamples: Resamples) -> Estimate:
    """Any statistic of rows with its interval, the slow way: one call a draw."""
    estimate = statistic(np.arange(len(resamples.places)))
    drawn = [statistic(rows).value for rows in drawn_rows(resamples)]
    values = np.array([np.nan if value is None else value for value in drawn])
    return estimates.drawn_interval(estimate, values, resamples)


def jackknifed(statistic: Callable[[Indices], Estimate], resamples: Resamples) -> Estimate:
    """A correlation of rows with its interval, the slow way: one call a cluster left out."""
    estimate = statistic(np.arange(len(resamples.places)))
    left = [np.nonzero(resamples.places != out)[0] for out in range(resamples.clusters)]
    values = [statistic(rows).value for rows in left]
    without = np.array([np.nan if value is None else value for value in values])
    return jackknife_interval(estimate, without, range_="correlation")
