"""Panels to the rows of agreement.csv: the agreement of each judge with people, and of people.

Every statistic is a function of `stats`, where its source is; a missing value has a reason.
Nothing here reads files.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from harness.analysis.panels import ALL_SYSTEMS, JudgeTable, Panel
from harness.stats.agreement import (
    Scale,
    agreement_stats,
    alpha_ci,
    attainable_r,
    percent_agreement,
    reliability_of_mean,
)
from harness.stats.comparison import (
    Statistic,
    annotator_test,
    holm,
    permutation_test,
    williams_test,
)
from harness.stats.correlation import (
    cross_fitted_acc_eq,
    dataset_pearson,
    pearson_against,
    permutation_p,
    system_means,
    tau_against,
    tie_rate,
)
from harness.stats.estimate import (
    BootstrapSettings,
    Bounds,
    Estimate,
    EstimateCI,
    Floats,
    NoValue,
    Resamples,
    Significance,
    bounds,
    complete,
    mean_ci,
    ratio,
)

_LEAST_RATERS, _LEAST_UNITS = 3, 30  # of the alternative annotator test
_PAIRS_AT_ONCE = 512

EPSILONS = {"expert": 0.2, "skilled": 0.15, "crowd": 0.1}
"""The epsilon of the alternative annotator test by the kind of raters (Calderon et al. 2025)."""


@dataclass(frozen=True, slots=True)
class AgreementSettings(BootstrapSettings):
    """How statistics are computed: draws, the raters' level of measurement, the judge's bonus.

    `epsilon` is that of the alternative annotator test.
    """

    draws: int = 1000
    level: Scale = "interval"
    epsilon: float = 0.1


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """One statistic of one judge, or of two; a missing value or interval has its `reason`.

    `p` of a difference is corrected for the number of pairs of judges by Holm.
    """

    task: str
    model: str
    variant: str
    judge: str
    statistic: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    skipped: int = 0
    documents: int = 0
    systems: int = 0
    raters: int = 0
    tie_rate_human: float | None = None
    tie_rate_judge: float | None = None
    epsilon: float | None = None
    p: float | None = None
    reason: str | None = None
    scale: str = ""
    averaging: str = ""
    signature: str = ""


@dataclass(frozen=True, slots=True)
class _Analysis:
    """A panel with what all its statistics share; `human` is the raters' mean of each cell."""

    panel: Panel
    settings: AgreementSettings
    human: Floats
    resamples: Resamples


def agreement_rows(panel: Panel, settings: AgreementSettings) -> list[AgreementRow]:
    """Every statistic of every judge of a panel, then the differences of its judges."""
    human = ratio(np.nansum(panel.ratings, axis=2), (~np.isnan(panel.ratings)).sum(axis=2))
    analysis = _Analysis(panel, settings, human, settings.resamples(panel.clusters))
    people = list(_of_people(analysis))
    rows = [row for judge in panel.judges for row in _of_judge(analysis, judge, people)]
    return [*rows, *_differences(analysis)]


def _of_people(analysis: _Analysis) -> Iterator[tuple[str, EstimateCI]]:
    ratings = analysis.panel.ratings
    alpha = alpha_ci(ratings, analysis.resamples, scale=analysis.settings.level)
    yield "alpha_raters", alpha
    yield "agreement_pairwise_raters", _pairwise_ci(ratings, None, analysis.resamples)
    counts = (~np.isnan(ratings)).sum(axis=2)
    raters = float(counts.sum() / (counts > 0).sum()) if counts.any() else 1.0
    ceiling = _through(alpha, lambda one: reliability_of_mean(one, raters))
    yield "noise_ceiling", ceiling
    attainable = _through(ceiling, lambda one: attainable_r(one, Estimate(1.0, n=one.n)))
    yield "attainable_r", attainable


def _of_judge(
    analysis: _Analysis, judge: JudgeTable, people: Iterable[tuple[str, EstimateCI]]
) -> Iterator[AgreementRow]:
    settings, values, resamples = analysis.settings, judge.values, analysis.resamples
    ratings, blank = analysis.panel.ratings, _blank(analysis, (judge,))
    means = system_means(analysis.human, values)
    stats = agreement_stats(analysis.human, values, resamples)
    # The exact p-values are there where few systems allow them.
    for name, result, p in (
        ("pearson_dataset", stats.dataset_pearson, None),
        ("kendall_document", stats.document_tau, None),
        ("spearman_system", stats.system_spearman, permutation_p(*means, "spearman").value),
        ("pearson_system", stats.system_pearson, permutation_p(*means, "pearson").value),
    ):
        yield replace(_filled(analysis, blank, result), statistic=name, p=p)
    # The folds' epsilons are kept in every draw.
    clusters = analysis.panel.clusters
    fit, shares = cross_fitted_acc_eq(
        analysis.human, values, clusters, seed=str(analysis.settings.seed)
    )
    row = _filled(analysis, blank, mean_ci(shares, fit.estimate, resamples))
    epsilon = float(np.mean(fit.epsilons)) if fit.epsilons else None
    yield replace(row, statistic="acc_eq", epsilon=epsilon)
    together = np.concatenate([ratings, values[:, :, None]], axis=2)
    for name, result in (
        *people,
        ("alpha_judge_with_raters", alpha_ci(together, resamples, scale=settings.level)),
        ("agreement_pairwise_judge", _pairwise_ci(ratings, values, resamples)),
    ):
        yield replace(_filled(analysis, blank, result), statistic=name)
    for name, estimate in _annotator(analysis, values):
        result = EstimateCI(estimate, Bounds(None, None, n=0, reason=NoValue.TOO_FEW))
        row = replace(_filled(analysis, blank, result), statistic=name, epsilon=settings.epsilon)
        yield row if estimate.value is None else replace(row, reason=None)


def _annotator(analysis: _Analysis, values: Floats) -> list[tuple[str, Estimate]]:
    panel, settings = analysis.panel, analysis.settings
    test = annotator_test(
        panel.ratings.reshape(values.size, len(panel.raters)),
        values.ravel(),
        alignment="accuracy" if settings.level == "nominal" else "rmse",
        epsilon=settings.epsilon,
        least_units=_LEAST_UNITS,
    )
    rate, advantage = test.winning_rate, test.advantage
    if rate.value is not None and rate.n < _LEAST_RATERS:
        few = Estimate(None, n=rate.n, skipped=rate.skipped, reason=NoValue.TOO_FEW)
        rate = advantage = few
    return [("annotator_winning_rate", rate), ("annotator_advantage", advantage)]


def _pairwise_ci(ratings: Floats, judge: Floats | None, resamples: Resamples) -> EstimateCI:
    """The share rated alike, over pairs of raters or of the judge with each, with its interval."""
    raters = ratings.shape[2]
    pairs = list(combinations(range(raters), 2))
    if judge is not None:
        pairs = [(place, raters) for place in range(raters)]
        ratings = np.concatenate([ratings, judge[:, :, None]], axis=2)
    units = ratings.reshape(ratings.shape[0] * ratings.shape[1], ratings.shape[2])
    estimate = percent_agreement(units, pairs)
    total, counted = np.zeros(resamples.draws), np.zeros(resamples.draws)
    for start in range(0, len(pairs) if estimate.value is not None else 0, _PAIRS_AT_ONCE):
        one, other = np.array(pairs[start : start + _PAIRS_AT_ONCE]).T
        both = ~np.isnan(ratings[:, :, one]) & ~np.isnan(ratings[:, :, other])
        alike = ratings[:, :, one] == ratings[:, :, other]
        columns = np.hstack([alike.sum(axis=1), both.sum(axis=1)]).astype(np.float64)
        top, bottom = np.hsplit(resamples.sums(columns), 2)
        shares = ratio(top, bottom)
        total += np.nansum(shares, axis=1)
        counted += (~np.isnan(shares)).sum(axis=1)
    return EstimateCI(estimate, bounds(estimate, ratio(total, counted), resamples))


def _through(result: EstimateCI, change: Callable[[Estimate], Estimate]) -> EstimateCI:
    """A result through a function that only grows, its bounds with it; below 0 is 0 there."""
    estimate, ends = change(result.estimate), result.bounds
    if estimate.value is None or ends.low is None or ends.high is None:
        reason = estimate.reason or ends.reason
        return EstimateCI(estimate, Bounds(None, None, n=ends.n, reason=reason))
    low, high = (change(Estimate(max(0.0, end), n=1)).value for end in (ends.low, ends.high))
    return EstimateCI(estimate, Bounds(low, high, n=ends.n))


def _differences(analysis: _Analysis) -> Iterator[AgreementRow]:
    """For each pair of judges the difference of their correlations; p corrected for all pairs."""
    pairs, human = list(combinations(analysis.panel.judges, 2)), analysis.human
    tests: dict[str, list[Significance]] = {
        "difference_pearson_williams": [_williams(human, a.values, b.values) for a, b in pairs],
        "difference_pearson": [_permuted(analysis, pair, pearson_against) for pair in pairs],
        "difference_kendall": [_permuted(analysis, pair, tau_against) for pair in pairs],
    }
    for name, results in tests.items():
        corrected = holm([test.p for test in results])
        for pair, test, p in zip(pairs, results, corrected, strict=True):
            reason = _why(analysis, test.reason)
            blank = replace(_blank(analysis, pair), statistic=name, n=test.n, skipped=test.skipped)
            yield replace(blank, value=test.statistic, p=p, reason=reason)


def _permuted(
    analysis: _Analysis, pair: tuple[JudgeTable, JudgeTable], against: Callable[[Floats], Statistic]
) -> Significance:
    first, second = pair[0].values, pair[1].values
    shared = np.where(np.isnan(first) | np.isnan(second), np.nan, analysis.human)
    seed, draws = str(analysis.settings.seed), analysis.settings.draws
    return permutation_test(shared, (first, second), against(shared), seed=seed, draws=draws)


def _williams(human: Floats, first: Floats, second: Floats) -> Significance:
    """Williams' test on the cells that all have; its statistic here is the difference of r."""
    missing = np.isnan(human) | np.isnan(first) | np.isnan(second)
    shared = [np.where(missing, np.nan, cells) for cells in (human, first, second)]
    results = [dataset_pearson(*pair) for pair in combinations(shared, 2)]
    n, skipped, (r1, r2, r12) = results[0].n, results[0].skipped, [r.value for r in results]
    if r1 is None or r2 is None or r12 is None:
        reason = next(result.reason for result in results if result.reason)
        return Significance(None, None, n=n, skipped=skipped, reason=reason)
    test = williams_test(r1, r2, r12, n=n)
    return replace(test, statistic=None if test.p is None else r1 - r2, skipped=skipped)


def _blank(analysis: _Analysis, judges: Sequence[JudgeTable]) -> AgreementRow:
    panel, is_one = analysis.panel, len(judges) == 1
    people, values = complete(analysis.human, judges[0].values)
    models = dict.fromkeys(judge.model for judge in judges)
    return AgreementRow(
        task=panel.task,
        model=" vs ".join(models),
        variant=panel.variant,
        judge=" vs ".join(_names(judges)),
        statistic="",
        documents=len(panel.documents),
        systems=len(panel.systems),
        raters=len(panel.raters),
        tie_rate_human=tie_rate(people if is_one else analysis.human).value,
        tie_rate_judge=tie_rate(values).value if is_one else None,
        scale=panel.scale,
        averaging=f"mean over raters; mean over {'+'.join(panel.decodings)}; "
        f"{analysis.settings.level} level; documents resampled by cluster",
        signature="|".join([panel.recipe, " vs ".join(j.recipe for j in judges), panel.given]),
    )


def _names(judges: Sequence[JudgeTable]) -> list[str]:
    names = [judge.judge for judge in judges]
    if len(set(names)) == len(names):
        return names
    if all(judge.model == ALL_SYSTEMS for judge in judges):
        return [judge.recipe.split("|")[2] for judge in judges]
    return [f"{judge.judge} ({judge.model})" for judge in judges]


def _filled(analysis: _Analysis, row: AgreementRow, result: EstimateCI) -> AgreementRow:
    estimate, ends = result.estimate, result.bounds
    reason = _why(analysis, estimate.reason) or result.why_no_interval
    row = replace(row, n=estimate.n, skipped=estimate.skipped, reason=reason)
    return replace(row, value=estimate.value, low=ends.low, high=ends.high)


def _why(analysis: _Analysis, reason: NoValue | None) -> str | None:
    panel = analysis.panel
    if reason is None or panel.documents:
        return reason
    return f"no overlap: {panel.unmatched} of {panel.offered} ratings match no response"
