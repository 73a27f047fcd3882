"""Two tables of ratings to the share of pairs they order alike, ties counted as an answer.

Pairwise accuracy with ties and tie calibration after Deutsch, Foster & Freitag (2023, "Ties
Matter", arXiv 2305.14324): a pair of systems of one document is right where both sides order it
alike or both tie it; the judge ties what is at most epsilon apart. Values are means over
documents of each document's share, 0 to 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.stats.estimate import (
    Estimate,
    Floats,
    Indices,
    NoValue,
    complete,
    mean_estimate,
    pair_directions,
    ratio,
    table,
)
from harness.stats.intervals import generator

# Differences of means below this share of the largest rating are rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class TieCalibration:
    """The accuracy at the best epsilon, and that epsilon in the judge's units.

    `epsilons` has one number where it was fitted on all documents, one a fold where it was
    cross-fitted, and none where the estimate is None.
    """

    estimate: Estimate
    epsilons: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The pairs of complete cells of one document each, one entry a pair, over all documents."""

    documents: int
    document: Indices
    is_human_tie: NDArray[np.bool_]
    is_concordant: NDArray[np.bool_]
    difference: Floats
    rounding: float


def document_accuracies(human: ArrayLike, judge: ArrayLike, *, epsilon: float) -> Floats:
    """Each document's share of pairs ordered alike, NaN where it has no pair."""
    return _accuracies(_pairs(human, judge), epsilon)


def calibrated_acc_eq(human: ArrayLike, judge: ArrayLike) -> TieCalibration:
    """Pairwise accuracy at the epsilon that maximises it on these very data.

    Of several best epsilons the least. The fit gains on noise, so the accuracy is too high:
    cross-fit it where that matters. `n` counts the documents with a pair of complete cells,
    `skipped` the others. None: "one system", or "too few" where no document has a pair. Constant
    ratings are ties, not missing.
    """
    pairs = _pairs(human, judge)
    epsilon = _best_epsilon(pairs)
    estimate = mean_estimate(_accuracies(pairs, epsilon), _why_no_pair(human))
    return TieCalibration(estimate, () if estimate.value is None else (epsilon,))


def cross_fitted_acc_eq(
    human: ArrayLike, judge: ArrayLike, clusters: Sequence[str], *, seed: str, folds: int = 5
) -> tuple[TieCalibration, Floats]:
    """Pairwise accuracy of each fold of clusters at the epsilon that is best on the others.

    Clusters (one a document) are dealt whole; there are at most as many folds as clusters. Also
    returns each document's share at its fold's epsilon, NaN where it has no pair. `n`, `skipped`
    and None as for `calibrated_acc_eq`; None also: "too few", and no shares, with one cluster, or
    where the documents outside a fold have no pair to fit on.
    """
    rows, others = complete(human, judge)
    if len(clusters) != len(rows) or folds < 2:
        raise ValueError(
            f"one cluster a document and two folds or more, not {len(clusters)} clusters for "
            f"{len(rows)} documents and {folds} folds"
        )
    places = _folds(clusters, seed=seed, folds=folds)
    accuracies, epsilons = np.full(len(rows), np.nan), list[float]()
    for fold in range(int(places.max(initial=-1)) + 1):
        inside = places == fold
        training = _pairs(rows[~inside], others[~inside])
        if len(training.document) == 0:
            none = Estimate(None, n=0, skipped=len(rows), reason=NoValue.TOO_FEW)
            return TieCalibration(none, ()), np.full(len(rows), np.nan)
        epsilons.append(_best_epsilon(training))
        accuracies[inside] = _accuracies(_pairs(rows[inside], others[inside]), epsilons[-1])
    estimate = mean_estimate(accuracies, _why_no_pair(human) if epsilons else NoValue.TOO_FEW)
    fitted = () if estimate.value is None else tuple(epsilons)
    return TieCalibration(estimate, fitted), accuracies


def tie_rate(ratings: ArrayLike) -> Estimate:
    """The share of pairs of one document's ratings that are equal, over all documents, 0 to 1.

    `n` counts pairs. None: "one system", or "too few" where no document has two ratings.
    """
    pairs = _pairs(ratings, ratings)
    n = len(pairs.document)
    if n == 0:
        return Estimate(None, n=0, reason=_why_no_pair(ratings))
    return Estimate(float(pairs.is_human_tie.mean()), n=n)


def _pairs(human: ArrayLike, judge: ArrayLike) -> _Pairs:
    rows, others = complete(human, judge)
    first, second = np.triu_indices(rows.shape[1], 1)
    difference = np.abs(others[:, first] - others[:, second])
    is_pair = ~np.isnan(difference)
    direction = pair_directions(rows)
    return _Pairs(
        documents=len(rows),
        document=np.nonzero(is_pair)[0],
        is_human_tie=(direction == 0)[is_pair],
        is_concordant=(direction * pair_directions(others) > 0)[is_pair],
        difference=difference[is_pair],
        rounding=_ROUNDING * float(np.nanmax(np.abs(others), initial=0)),
    )


def _accuracies(pairs: _Pairs, epsilon: float) -> Floats:
    if not epsilon >= 0:
        raise ValueError(f"epsilon is a difference, 0 or more, not {epsilon!r}")
    is_tie = pairs.difference <= epsilon + pairs.rounding
    is_right = np.where(is_tie, pairs.is_human_tie, pairs.is_concordant)
    right = np.bincount(pairs.document, weights=is_right, minlength=pairs.documents)
    counts = np.bincount(pairs.document, minlength=pairs.documents)
    return ratio(right, counts)


def _best_epsilon(pairs: _Pairs) -> float:
    """The least epsilon of those that make the mean accuracy greatest.

    Pairs become ties in the order of their differences: each then gains its weight if people
    tie it and loses it if it was concordant, so one sort and one running sum try them all.
    """
    counts = np.bincount(pairs.document, minlength=pairs.documents)
    is_open = pairs.difference > pairs.rounding
    order = np.argsort(pairs.difference[is_open], kind="stable")
    differences = pairs.difference[is_open][order]
    change = pairs.is_human_tie.astype(np.int8) - pairs.is_concordant.astype(np.int8)
    gains = np.cumsum((change / counts[pairs.document])[is_open][order])
    if len(gains) == 0:
        return 0.0
    ends = np.append(np.diff(differences) > pairs.rounding, True)
    candidates = np.append(0.0, differences[ends])
    return float(candidates[np.argmax(np.round(np.append(0.0, gains[ends]), 9))])


def _folds(clusters: Sequence[str], *, seed: str, folds: int) -> Indices:
    """The fold of each document; a cluster's fold depends on the seed and the names alone."""
    names, places = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    order = generator(seed).permutation(len(names))
    return np.asarray((order % folds)[places], dtype=np.intp)


def _why_no_pair(ratings: ArrayLike) -> NoValue:
    return NoValue.ONE_SYSTEM if table(ratings).shape[1] == 1 else NoValue.TOO_FEW
