"""Two tables of ratings to the correlations between them: of cells, in documents, of systems.

After Chiang & Lee (2023, "A Closer Look into Automatic Evaluation Using Large Language Models",
appendix C). A cell that one side does not have is left out of both. Pairwise accuracy with ties
and tie calibration are those of Deutsch, Foster & Freitag (2023, "Ties Matter", arXiv
2305.14324): a pair of systems of one document is right where both sides order it alike or both
tie it; the judge ties what is at most epsilon apart.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import atanh, sqrt, tanh
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.stats import estimate as estimates
from harness.stats.estimate import Estimate, Floats, NoValue, complete, pair_directions, ratio
from harness.stats.scales import ROUNDING, normal_reach

Coefficient = Literal["pearson", "spearman"]

_MOST_PERMUTED = 8  # 40,320 orders; nine would be 362,880


def pearson(x: ArrayLike, y: ArrayLike) -> Estimate:
    """Pearson's r of the complete pairs of two vectors; None: "too few" below two, "constant"."""
    return _of_pairs(x, y, lambda rows: float(row_correlations(rows[:1], rows[1:], "pearson")[0]))


def spearman(x: ArrayLike, y: ArrayLike) -> Estimate:
    """Spearman's rho: Pearson's r of the ranks, ties sharing their mean rank; None as there."""
    return _of_pairs(x, y, lambda rows: float(row_correlations(rows[:1], rows[1:], "spearman")[0]))


def kendall(x: ArrayLike, y: ArrayLike) -> Estimate:
    """Kendall's tau-b of two vectors, much faster than `document_tau` of one long document."""

    def tau(rows: Floats) -> float:
        from scipy.stats import kendalltau

        return float(np.clip(kendalltau(*_ranks(rows)).statistic, -1, 1))

    return _of_pairs(x, y, tau)


def _of_pairs(x: ArrayLike, y: ArrayLike, coefficient: Callable[[Floats], float]) -> Estimate:
    first, second, skipped = estimates.complete_pairs(x, y)
    n = len(first)
    value = coefficient(np.stack([first, second])) if n > 1 else np.nan
    if np.isnan(value):
        return Estimate(None, n, skipped, NoValue.CONSTANT if n > 1 else NoValue.TOO_FEW)
    return Estimate(value, n, skipped)


def dataset_pearson(human: ArrayLike, judge: ArrayLike) -> Estimate:
    """One Pearson's r over all complete cells (Chiang & Lee 2023, method 1), which `n` counts."""
    rows, others = complete(human, judge)
    return pearson(rows.ravel(), others.ravel())


def document_tau(human: ArrayLike, judge: ArrayLike, *, is_zero_filled: bool = False) -> Estimate:
    """The mean over documents of Kendall's tau-b over their systems (Chiang & Lee, method 2).

    -1 to 1. `n` counts the documents that have a tau; those with fewer than two complete cells or
    with one value only on either side leave the denominator. None: "one system", "too few" where no
    document has two complete cells, "constant" where all that have are constant on a side.
    Zero-filled it is 0 for each document that the judge ties whole and people do not, so that a
    judge of few values is not measured on its easy documents alone.
    """
    rows, others = complete(human, judge)
    reason = NoValue.CONSTANT if ((~np.isnan(rows)).sum(axis=1) >= 2).any() else NoValue.TOO_FEW
    reason = NoValue.ONE_SYSTEM if rows.shape[1] < 2 else reason
    return estimates.mean_estimate(
        document_taus(rows, others, is_zero_filled=is_zero_filled), reason
    )


def document_taus(human: ArrayLike, judge: ArrayLike, *, is_zero_filled: bool = False) -> Floats:
    """Kendall's tau-b of each document, NaN for those that have none."""
    left, right = (pair_directions(rows) for rows in complete(human, judge))
    untied = np.sqrt((left != 0).sum(axis=1)) * np.sqrt((right != 0).sum(axis=1))
    taus = ratio((left * right).sum(axis=1, dtype=np.int64), untied)
    if not is_zero_filled:
        return taus
    return np.where((left != 0).any(axis=1), np.nan_to_num(taus), np.nan)


def system_means(human: ArrayLike, judge: ArrayLike) -> tuple[Floats, Floats]:
    """Each system's mean over the documents where both sides rated it, NaN where none is."""
    rows, others = complete(human, judge)
    counts = (~np.isnan(rows)).sum(axis=0)
    return ratio(np.nansum(rows, axis=0), counts), ratio(np.nansum(others, axis=0), counts)


def permutation_p(x: ArrayLike, y: ArrayLike, coefficient: Coefficient) -> Estimate:
    """The exact two-sided p-value of a correlation, over all orders of `y` (Fisher 1935).

    None: as the coefficient, or "too many" above eight complete pairs.
    """
    observed = (pearson if coefficient == "pearson" else spearman)(x, y)
    n, skipped = observed.n, observed.skipped
    if observed.value is None:
        return observed
    if n > _MOST_PERMUTED:
        return Estimate(None, n, skipped, NoValue.TOO_MANY)
    first, second, _ = estimates.complete_pairs(x, y)
    orders = np.array(list(permutations(range(n))))
    rows, others = np.tile(first, (len(orders), 1)), second[orders]
    reached = np.abs(row_correlations(rows, others, coefficient)) >= abs(observed.value) - ROUNDING
    return Estimate(float(reached.mean()), n, skipped)


def discordant_pairs(x: ArrayLike, y: ArrayLike) -> Estimate:
    """How many of the `n` untied pairs of two vectors are in opposite orders (Kocmi et al. 2021).

    None: "too few" below two complete values, "constant" where every pair is tied.
    """
    first, second, _ = estimates.complete_pairs(x, y)
    if len(first) < 2:
        return Estimate(None, 0, reason=NoValue.TOO_FEW)
    product = pair_directions(first[None]) * pair_directions(second[None])
    decided = int((product != 0).sum())
    skipped = product.size - decided
    if decided == 0:
        return Estimate(None, 0, skipped, NoValue.CONSTANT)
    return Estimate(float((product < 0).sum()), decided, skipped)


def fisher_interval(r: float, n: int) -> Estimate:
    """The interval of a correlation of `n` independent normal pairs by Fisher's z (Fisher 1921).

    No interval: "too few" below four pairs, "degenerate" for r of 1 or -1, whose z is infinite.
    """
    if n < 4:
        return Estimate(r, n).unbounded(NoValue.TOO_FEW, clusters=n)
    if abs(r) >= 1 - ROUNDING:
        return Estimate(r, n).unbounded(NoValue.DEGENERATE, clusters=n)
    reach = normal_reach() / sqrt(n - 3)
    return Estimate(r, n).between(tanh(atanh(r) - reach), tanh(atanh(r) + reach), clusters=n)


def row_correlations(x: ArrayLike, y: ArrayLike, coefficient: Coefficient) -> Floats:
    """The correlation of each row of two complete tables; NaN where a row has no spread."""
    rows, others = estimates.table(x), estimates.table(y)
    if coefficient == "spearman":
        rows, others = _ranks(rows), _ranks(others)
    products: Floats = (_standardised(rows) * _standardised(others)).sum(axis=1)
    return np.clip(products, -1, 1)


def _standardised(rows: Floats) -> Floats:
    scaled = _scaled(rows)
    centred = scaled - scaled.mean(axis=1, keepdims=True)
    length = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    is_flat = length <= ROUNDING * sqrt(rows.shape[1])
    return ratio(centred, np.where(is_flat, 0, length))


def _scaled(rows: Floats) -> Floats:
    """Each row divided by its largest magnitude, so that no square overflows."""
    largest = np.abs(rows).max(axis=-1, keepdims=True, initial=0)
    return np.asarray(rows / np.where(largest > 0, largest, 1), dtype=np.float64)


def _ranks(rows: Floats) -> Floats:
    from scipy.stats import rankdata

    ranks: Floats = rankdata(estimates.snapped_rows(rows), axis=1)
    return ranks


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The pairs of complete cells of one document each, one entry a pair, over all documents."""

    documents: int
    document: estimates.Indices
    is_human_tie: NDArray[np.bool_]
    is_concordant: NDArray[np.bool_]
    difference: Floats
    rounding: float


def document_accuracies(human: ArrayLike, judge: ArrayLike, *, epsilon: float) -> Floats:
    """Each document's share of pairs ordered alike, NaN where it has no pair."""
    return _accuracies(_pairs(human, judge), epsilon)


def calibrated_acc_eq(human: ArrayLike, judge: ArrayLike) -> tuple[Estimate, tuple[float, ...]]:
    """Pairwise accuracy, 0 to 1, at the least epsilon that maximises it on these very data.

    The fit gains on noise, so the accuracy is too high. With it comes the epsilon, if any. `n`
    counts the documents with a pair. None: "one system", or "too few" where none has one.
    """
    pairs = _pairs(human, judge)
    epsilon = _best_epsilon(pairs)
    estimate = estimates.mean_estimate(_accuracies(pairs, epsilon), _why_no_pair(human))
    return estimate, () if estimate.value is None else (epsilon,)


def cross_fitted_acc_eq(
    human: ArrayLike, judge: ArrayLike, clusters: Sequence[str], *, seed: str, folds: int = 5
) -> tuple[Estimate, tuple[float, ...], Floats]:
    """Pairwise accuracy of each fold of clusters at the epsilon that is best on the others.

    With it come the folds' epsilons, if any, and each document's share, NaN where it has no pair.
    Clusters (one a document) are kept whole. None as for `calibrated_acc_eq`, and "too few" with
    one cluster, or where the documents outside a fold have no pair to fit on.
    """
    rows, others = complete(human, judge)
    # A cluster's fold depends on the seed and the names alone.
    names, numbers = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    places = (estimates.generator(seed).permutation(len(names)) % folds)[numbers]
    accuracies, epsilons = np.full(len(rows), np.nan), list[float]()
    for fold in range(int(places.max(initial=-1)) + 1):
        inside = places == fold
        training = _pairs(rows[~inside], others[~inside])
        if len(training.document) == 0:
            none = Estimate(None, 0, len(rows), NoValue.TOO_FEW)
            return none, (), np.full(len(rows), np.nan)
        epsilons.append(_best_epsilon(training))
        accuracies[inside] = _accuracies(_pairs(rows[inside], others[inside]), epsilons[-1])
    estimate = estimates.mean_estimate(
        accuracies, _why_no_pair(human) if epsilons else NoValue.TOO_FEW
    )
    return estimate, () if estimate.value is None else tuple(epsilons), accuracies


def tie_rate(ratings: ArrayLike) -> Estimate:
    """The share of pairs of one document's ratings that are equal; None without any pair."""
    pairs = _pairs(ratings, ratings)
    if not (n := len(pairs.document)):
        return Estimate(None, 0, reason=_why_no_pair(ratings))
    return Estimate(float(pairs.is_human_tie.mean()), n)


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
        rounding=ROUNDING * float(np.nanmax(np.abs(others), initial=0)),
    )


def _accuracies(pairs: _Pairs, epsilon: float) -> Floats:
    is_tie = pairs.difference <= epsilon + pairs.rounding
    is_right = np.where(is_tie, pairs.is_human_tie, pairs.is_concordant)
    right = np.bincount(pairs.document, weights=is_right, minlength=pairs.documents)
    counts = np.bincount(pairs.document, minlength=pairs.documents)
    return ratio(right, counts)


def _best_epsilon(pairs: _Pairs) -> float:
    """The least epsilon of those that make the mean accuracy greatest."""
    # Pairs become ties in the order of their differences: each then gains its weight if people
    # tie it and loses it if it was concordant, so one sort and one running sum try them all.
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


def _why_no_pair(ratings: ArrayLike) -> NoValue:
    return NoValue.ONE_SYSTEM if estimates.table(ratings).shape[1] == 1 else NoValue.TOO_FEW
