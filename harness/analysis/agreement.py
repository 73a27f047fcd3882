"""Panels to the rows of agreement.csv: how far each judge agrees with people, and people alone.

Every statistic is one of `stats`; what has no value has a reason. Nothing here reads files.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from itertools import combinations

import numpy as np

from harness.analysis.panels import ALL_SYSTEMS, JudgeTable, Panel
from harness.stats.agreement import (
    AgreementStats,
    Scale,
    against_each,
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
    dataset_pearson,
    pearson_against,
    permutation_p,
    system_means,
    tau_against,
)
from harness.stats.estimate import Bounds, Estimate, Floats, NoValue, Significance, complete, ratio
from harness.stats.intervals import EstimateCI, Resamples, bounds, mean_ci
from harness.stats.ties import cross_fitted_acc_eq, cross_fitted_accuracies, tie_rate
from harness.storage.csv import csv_line

_LEAST_RATERS, _LEAST_UNITS = 3, 30  # of the alternative annotator test
_PAIRS_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class AgreementSettings:
    """How statistics are computed: draws, the raters' level of measurement, the judge's bonus.

    `epsilon` is that of the alternative annotator test.
    """

    seed: int = 0
    draws: int = 1000
    level: Scale = "interval"
    epsilon: float = 0.1


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """One statistic of one judge; `value` null has its reason, and so has a missing interval.

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
class _Desk:
    """A panel with what all its statistics share."""

    panel: Panel
    method: AgreementSettings
    human: Floats
    resamples: Resamples
    people: tuple[tuple[str, EstimateCI], ...]


def agreement_rows(panel: Panel, method: AgreementSettings) -> list[AgreementRow]:
    """Every statistic of every judge of a panel, then the differences of its judges."""
    resamples = Resamples.of(panel.clusters, seed=f"{method.seed}", draws=method.draws)
    human = ratio(np.nansum(panel.ratings, axis=2), (~np.isnan(panel.ratings)).sum(axis=2))
    desk = _Desk(panel, method, human, resamples, ())
    desk = replace(desk, people=tuple(_of_people(desk)))
    rows = [row for judge in panel.judges for row in _of_judge(desk, judge)]
    return [*rows, *_differences(desk)]


def agreement_text(rows: Iterable[AgreementRow]) -> str:
    """Rows as CSV."""
    head = [field.name for field in fields(AgreementRow)]
    return "".join(map(csv_line, [head, *map(astuple, rows)]))


def _of_people(desk: _Desk) -> Iterator[tuple[str, EstimateCI]]:
    """What people alone come to: agreement, and what it allows any judge."""
    ratings, method = desk.panel.ratings, desk.method
    alpha = alpha_ci(ratings, desk.resamples, scale=method.level)
    yield "alpha_raters", alpha
    yield "agreement_pairwise_raters", _pairwise_figure(ratings, None, desk.resamples)
    there = (~np.isnan(ratings)).sum(axis=2)
    raters = float(there.sum() / (there > 0).sum()) if there.any() else 1.0
    ceiling = _through(alpha, lambda part: reliability_of_mean(part, raters))
    yield "noise_ceiling", ceiling
    yield (
        "attainable_r",
        _through(ceiling, lambda part: attainable_r(part, Estimate(1.0, n=part.n))),
    )


def _of_judge(desk: _Desk, judge: JudgeTable) -> Iterator[AgreementRow]:
    """The rows of one judge."""
    panel, method, values = desk.panel, desk.method, judge.values
    blank = _blank(desk, (judge,))
    found = agreement_stats(desk.human, values, desk.resamples)
    for name, figure, p in _correlations(desk, values, found):
        yield replace(_filled(desk, blank, figure), statistic=name, p=p)
    figure, epsilon = _acc_eq(desk, values)
    yield replace(_filled(desk, blank, figure), statistic="acc_eq", epsilon=epsilon)
    together = np.concatenate([panel.ratings, values[:, :, None]], axis=2)
    alpha = alpha_ci(together, desk.resamples, scale=method.level)
    pairwise = _pairwise_figure(panel.ratings, values, desk.resamples)
    for name, figure in (
        *desk.people,
        ("alpha_judge_with_raters", alpha),
        ("agreement_pairwise_judge", pairwise),
    ):
        yield replace(_filled(desk, blank, figure), statistic=name)
    for name, estimate in _annotator(desk, values):
        figure = EstimateCI(estimate, Bounds(None, None, n=0, reason=NoValue.TOO_FEW))
        row = replace(_filled(desk, blank, figure), statistic=name, epsilon=method.epsilon)
        yield row if estimate.value is None else replace(row, reason=None)


def _correlations(
    desk: _Desk, values: Floats, found: AgreementStats
) -> Iterator[tuple[str, EstimateCI, float | None]]:
    """The correlations with their exact p-values where few systems allow them."""
    means = system_means(desk.human, values)
    yield "pearson_dataset", found.dataset_pearson, None
    yield "kendall_document", found.document_tau, None
    yield "spearman_system", found.system_spearman, permutation_p(*means, "spearman").value
    yield "pearson_system", found.system_pearson, permutation_p(*means, "pearson").value


def _acc_eq(desk: _Desk, values: Floats) -> tuple[EstimateCI, float | None]:
    """The cross-fitted accuracy, its folds' epsilons kept in every draw; and their mean."""
    clusters, seed = desk.panel.clusters, f"{desk.method.seed}"
    fit = cross_fitted_acc_eq(desk.human, values, clusters, seed=seed)
    shares, epsilons = cross_fitted_accuracies(desk.human, values, clusters, seed=seed)
    epsilon = float(np.mean(epsilons)) if fit.epsilons else None
    return mean_ci(shares, fit.estimate, desk.resamples), epsilon


def _annotator(desk: _Desk, values: Floats) -> list[tuple[str, Estimate]]:
    """The alternative annotator test, where enough raters have rated enough."""
    panel, method = desk.panel, desk.method
    units = panel.ratings.reshape(values.size, len(panel.raters))
    found = annotator_test(
        units,
        values.ravel(),
        alignment="accuracy" if method.level == "nominal" else "rmse",
        epsilon=method.epsilon,
        least_units=_LEAST_UNITS,
    )
    rate, advantage = found.winning_rate, found.advantage
    if rate.value is not None and rate.n < _LEAST_RATERS:
        few = Estimate(None, n=rate.n, skipped=rate.skipped, reason=NoValue.TOO_FEW)
        rate = advantage = few
    return [("annotator_winning_rate", rate), ("annotator_advantage", advantage)]


def _pairwise_figure(ratings: Floats, judge: Floats | None, resamples: Resamples) -> EstimateCI:
    """The share rated alike, over pairs of raters or of the judge with each, with its interval."""
    raters = ratings.shape[2]
    units = ratings.reshape(-1, raters) if ratings.size else np.zeros((0, raters))
    if judge is None:
        pairs = list(combinations(range(raters), 2))
        estimate = percent_agreement(units)
    else:
        pairs = [(place, raters) for place in range(raters)]
        estimate = against_each(units, judge.ravel(), percent_agreement).mean
        ratings = np.concatenate([ratings, judge[:, :, None]], axis=2)
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


def _through(figure: EstimateCI, change: Callable[[Estimate], Estimate]) -> EstimateCI:
    """A figure through a function that only grows, its bounds with it; below 0 is 0 there."""
    estimate, ends = change(figure.estimate), figure.bounds
    if estimate.value is None or ends.low is None or ends.high is None:
        return EstimateCI(
            estimate, Bounds(None, None, n=ends.n, reason=estimate.reason or ends.reason)
        )
    low, high = (change(Estimate(max(0.0, end), n=1)).value for end in (ends.low, ends.high))
    return EstimateCI(estimate, Bounds(low, high, n=ends.n))


def _differences(desk: _Desk) -> Iterator[AgreementRow]:
    """For each pair of judges the difference of their correlations; p corrected for all pairs."""
    pairs = list(combinations(desk.panel.judges, 2))
    people = desk.human
    tests: dict[str, list[Significance]] = {
        "difference_pearson_williams": [_williams(people, a.values, b.values) for a, b in pairs],
        "difference_pearson": [_permuted(desk, pair, pearson_against) for pair in pairs],
        "difference_kendall": [_permuted(desk, pair, tau_against) for pair in pairs],
    }
    for name, found in tests.items():
        corrected = holm([part.p for part in found])
        for pair, test, p in zip(pairs, found, corrected, strict=True):
            reason = _why(desk, test.reason)
            blank = replace(_blank(desk, pair), statistic=name, n=test.n, skipped=test.skipped)
            yield replace(blank, value=test.statistic, p=p, reason=reason)


def _permuted(
    desk: _Desk, pair: tuple[JudgeTable, JudgeTable], against: Callable[[Floats], Statistic]
) -> Significance:
    first, second = pair[0].values, pair[1].values
    shared = np.where(np.isnan(first) | np.isnan(second), np.nan, desk.human)
    seed, draws = f"{desk.method.seed}", desk.method.draws
    return permutation_test(shared, (first, second), against(shared), seed=seed, draws=draws)


def _williams(human: Floats, first: Floats, second: Floats) -> Significance:
    """Williams' test on the cells that all have; its statistic here is the difference of r."""
    missing = np.isnan(human) | np.isnan(first) | np.isnan(second)
    people, one, other = (np.where(missing, np.nan, part) for part in (human, first, second))
    three = [
        dataset_pearson(people, one),
        dataset_pearson(people, other),
        dataset_pearson(one, other),
    ]
    r1, r2, r12 = (part.value for part in three)
    if r1 is None or r2 is None or r12 is None:
        reason = next(part.reason for part in three if part.reason)
        return Significance(None, None, n=three[0].n, skipped=three[0].skipped, reason=reason)
    found = williams_test(r1, r2, r12, n=three[0].n)
    value = None if found.p is None else r1 - r2
    return replace(found, statistic=value, skipped=three[0].skipped)


def _blank(desk: _Desk, judges: Sequence[JudgeTable]) -> AgreementRow:
    """A row of one judge, or of two that are compared, without its statistic."""
    panel = desk.panel
    pairs = [complete(desk.human, judge.values) for judge in judges]
    is_one = len(judges) == 1
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
        tie_rate_human=tie_rate(pairs[0][0]).value if is_one else tie_rate(desk.human).value,
        tie_rate_judge=tie_rate(pairs[0][1]).value if is_one else None,
        scale=panel.scale,
        averaging=f"mean over raters; mean over {'+'.join(panel.decodings)}; "
        f"{desk.method.level} level; documents resampled by cluster",
        signature="|".join([panel.recipe, " vs ".join(j.recipe for j in judges), panel.given]),
    )


def _names(judges: Sequence[JudgeTable]) -> list[str]:
    """What judges are called: two of one name by their models, or by their recipes."""
    names = [judge.judge for judge in judges]
    if len(set(names)) == len(names):
        return names
    if all(judge.model == ALL_SYSTEMS for judge in judges):
        return [judge.recipe.split("|")[2] for judge in judges]
    return [f"{judge.judge} ({judge.model})" for judge in judges]


def _filled(desk: _Desk, row: AgreementRow, figure: EstimateCI) -> AgreementRow:
    """A row with a figure, its interval, and the reason for what it lacks."""
    estimate, ends = figure.estimate, figure.bounds
    reason = _why(desk, estimate.reason)
    if estimate.value is not None and ends.low is None:
        reason = f"no interval: {ends.reason}"
    return replace(
        row,
        value=estimate.value,
        low=ends.low,
        high=ends.high,
        n=estimate.n,
        skipped=estimate.skipped,
        reason=reason,
    )


def _why(desk: _Desk, gap: NoValue | None) -> str | None:
    """Why there is no value; without any cell in common that alone is why."""
    panel = desk.panel
    if gap is None or panel.documents:
        return gap
    return f"no overlap: {panel.unmatched} of {panel.offered} ratings match no response"
