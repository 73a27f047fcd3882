"""Two judges of the same cells to whether one agrees with people better than the other.

Also what many such tests need: corrections for their number. Everything drawn is drawn from the
seed's text.
"""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from harness.parts import digest
from harness.stats.estimate import Estimate, Floats, NoValue, Significance, complete

Statistic = Callable[[Floats, Floats], Estimate]
Alternative = Literal["two-sided", "greater"]

_ROUNDING = 1e-12  # statistics nearer than this are equal
_CELLS = 1 << 21  # signs drawn at a time: 16 MiB of numbers


def williams_test(
    first: float, second: float, between: float, *, n: int, alternative: Alternative = "two-sided"
) -> Significance:
    """Williams' test of two correlations that share a variable (Williams 1959; Steiger 1980).

    `first` and `second` are the two judges' Pearson correlations with people, `between` that
    of the judges with one another, over `n` independent cells; t has n - 3 degrees of freedom,
    and "greater" asks whether the first is greater. It takes cells for independent: where they
    come in clusters, prefer `permutation_test`. Null: "too few" below four cells, "degenerate"
    where the three correlations leave no variance.
    """
    if max(abs(first), abs(second), abs(between)) > 1:
        raise ValueError(f"correlations lie in -1..1, not {first!r}, {second!r}, {between!r}")
    if n < 4:
        return Significance(None, None, n=n, reason=NoValue.TOO_FEW)
    determinant = 1 - first**2 - second**2 - between**2 + 2 * first * second * between
    mean = (first + second) / 2
    variance = 2 * determinant * (n - 1) / (n - 3) + mean**2 * (1 - between) ** 3
    if determinant < -_ROUNDING or variance <= _ROUNDING**2:
        return Significance(None, None, n=n, reason=NoValue.DEGENERATE)
    from scipy.stats import t

    statistic = (first - second) * sqrt((n - 1) * (1 + between) / variance)
    tail = t.sf(abs(statistic), n - 3) * 2 if alternative == "two-sided" else t.sf(statistic, n - 3)
    return Significance(statistic, float(tail), n=n)


def permutation_test(
    human: ArrayLike,
    judges: tuple[ArrayLike, ArrayLike],
    statistic: Statistic,
    *,
    seed: str,
    draws: int = 1000,
) -> Significance:
    """PERM-BOTH: is the difference of two judges' statistics more than chance? (Deutsch, Dror &
    Roth 2021, "A Statistical Analysis of Summarization Evaluation Metrics", algorithm 2)

    Both judges' ratings are standardised over the complete cells and swapped cell by cell at
    random; `statistic` is any of a table of people and one of a judge, such as
    `dataset_pearson`. The result's statistic is first less second, p two-sided with the data at
    hand counted among the draws, so above 0. `n` counts the draws that had a value, `skipped`
    the others. Null: as the statistic, "constant" where a judge is,
    "too few" where no draw has a value.
    """
    if draws < 1:
        raise ValueError(f"one draw or more, not {draws!r}")
    rows, first, second = _complete_three(human, judges)
    if reason := _why_not_standard(first) or _why_not_standard(second):
        return Significance(None, None, n=0, reason=reason)
    first, second = _standardised(first), _standardised(second)
    pair = statistic(rows, first), statistic(rows, second)
    if pair[0].value is None or pair[1].value is None:
        return Significance(None, None, n=0, reason=pair[0].reason or pair[1].reason)
    observed = pair[0].value - pair[1].value
    generator = np.random.default_rng(int(digest(seed), 16))
    found, reached = 0, 0
    for _ in range(draws):
        swap = generator.integers(0, 2, size=rows.shape, dtype=np.int8) == 1
        one = statistic(rows, np.where(swap, second, first)).value
        other = statistic(rows, np.where(swap, first, second)).value
        if one is not None and other is not None:
            found += 1
            reached += abs(one - other) >= abs(observed) - _ROUNDING
    if found == 0:
        return Significance(None, None, n=0, skipped=draws, reason=NoValue.TOO_FEW)
    p = (reached + 1) / (found + 1)
    return Significance(observed, p, n=found, skipped=draws - found)


def holm(p: Sequence[float | None]) -> tuple[float | None, ...]:
    """The p-values as adjusted by Holm (1979), which bounds the chance of any false alarm.

    Nulls stay null and are not counted among the tests.
    """
    order, values = _ascending(p)
    factors = len(values) - np.arange(len(values))
    return _back(p, order, np.maximum.accumulate(values * factors))


def benjamini_yekutieli(p: Sequence[float | None]) -> tuple[float | None, ...]:
    """The p-values as adjusted by Benjamini & Yekutieli (2001), which bounds the share of false
    alarms among the alarms, however the tests depend on one another.

    Nulls stay null and are not counted among the tests.
    """
    order, values = _ascending(p)
    ranks = np.arange(1, len(values) + 1)
    scaled = values * len(values) * (1 / ranks).sum() / ranks
    return _back(p, order, np.minimum.accumulate(scaled[::-1])[::-1])


def soft_pairwise_accuracy(
    human: ArrayLike, judge: ArrayLike, *, seed: str, draws: int = 1000
) -> Estimate:
    """One less the mean difference of two certainties that one system beats another, 0 to 1.

    Thompson et al. (2024, "Improving Statistical Significance in Human Evaluation of Automatic
    Metrics via Soft Pairwise Accuracy"): for each pair of systems the one-sided p of a paired
    permutation test, once from people and once from the judge, on the same sign flips of the
    documents. Draws that equal the data count half, so that the order of the systems is without
    effect. `n` counts pairs of systems, `skipped` those without a common document. Null: "one
    system", or "too few" where no pair has a document.
    """
    rows, others = complete(human, judge)
    if rows.shape[1] < 2:
        return Estimate(None, n=0, reason=NoValue.ONE_SYSTEM)
    left, right = np.triu_indices(rows.shape[1], 1)
    people, machine = rows[:, left] - rows[:, right], others[:, left] - others[:, right]
    has_document = (~np.isnan(people)).any(axis=0)
    n, skipped = int(has_document.sum()), int((~has_document).sum())
    if n == 0:
        return Estimate(None, n=0, skipped=skipped, reason=NoValue.TOO_FEW)
    both = np.nan_to_num(np.hstack([people[:, has_document], machine[:, has_document]]))
    certainty = _flip_shares(both, seed=seed, draws=draws)
    return Estimate(1 - float(np.abs(certainty[:n] - certainty[n:]).mean()), n=n, skipped=skipped)


def _flip_shares(differences: Floats, *, seed: str, draws: int) -> Floats:
    """For each column, the share of sign flips whose sum is at least the column's own."""
    generator = np.random.default_rng(int(digest(seed), 16))
    observed, rounding = differences.sum(axis=0), _ROUNDING * np.abs(differences).sum(axis=0)
    reached = np.zeros(differences.shape[1])
    step = max(1, _CELLS // max(1, len(differences)))
    for start in range(0, draws, step):
        size = (min(step, draws - start), len(differences))
        signs = generator.integers(0, 2, size=size, dtype=np.int8) * 2.0 - 1
        excess = signs @ differences - observed
        reached += (excess > rounding).sum(axis=0) + (np.abs(excess) <= rounding).sum(axis=0) / 2
    return reached / draws


def _complete_three(
    human: ArrayLike, judges: tuple[ArrayLike, ArrayLike]
) -> tuple[Floats, Floats, Floats]:
    """The three tables, a cell kept only where all have one."""
    rows, first = complete(human, judges[0])
    first, second = complete(first, judges[1])
    return np.where(np.isnan(second), np.nan, rows), first, second


def _why_not_standard(ratings: Floats) -> NoValue | None:
    """Why a table cannot be standardised."""
    found = ratings[~np.isnan(ratings)]
    if len(found) < 2:
        return NoValue.TOO_FEW
    is_flat = np.ptp(found) <= _ROUNDING * np.abs(found).max()
    return NoValue.CONSTANT if is_flat else None


def _standardised(ratings: Floats) -> Floats:
    """The ratings with mean 0 and standard deviation 1 over all cells."""
    return np.asarray((ratings - np.nanmean(ratings)) / np.nanstd(ratings), dtype=np.float64)


def _ascending(p: Sequence[float | None]) -> tuple[list[int], Floats]:
    """The places of the p-values that are there, least first, and those values."""
    if bad := [value for value in p if value is not None and not 0 <= value <= 1]:
        raise ValueError(f"p-values lie in 0..1, not {bad[0]!r}")
    there = [(value, place) for place, value in enumerate(p) if value is not None]
    there.sort()
    return [place for _, place in there], np.array([value for value, _ in there])


def _back(
    p: Sequence[float | None], order: list[int], adjusted: Floats
) -> tuple[float | None, ...]:
    """The adjusted values in the places of the ones they were made of, none above 1."""
    result: list[float | None] = [None] * len(p)
    for place, value in zip(order, adjusted, strict=True):
        result[place] = min(1.0, float(value))
    return tuple(result)
