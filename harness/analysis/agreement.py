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
    Spread,
    agreement_stats,
    alpha_ci,
    alpha_with_each,
    attainable_r,
    deviation,
    document_means,
    interval_with_test,
    jackknife_ci,
    mean_jackknife,
    means_without,
    pearsons_without,
    percent_agreement,
    sums_without,
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
    document_taus_zero,
    pearson_against,
    permutation_p,
    system_means,
    tau_zero_against,
    tie_rate,
)
from harness.stats.estimate import (
    BootstrapSettings,
    Estimate,
    Floats,
    NoValue,
    Resamples,
    Significance,
    complete,
    mean_estimate,
    ratio,
    snapped,
)
from harness.stats.reliability import is_severity_confounded, rater_groups, reliability_of_means
from harness.storage.signature import JudgeRecipe

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

    `documents` counts each document once, also where it was rated at several decodings. `sd` is
    the standard deviation of a mean over raters or pairs. `p_holm` is `p` corrected for all
    differences of the panel: those by permutation together, Williams' together. `note` says what
    to know of the value.
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
    sd: float | None = None
    p_holm: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Analysis:
    """A panel with what all its statistics share; `human` is the raters' mean of each cell."""

    panel: Panel
    settings: AgreementSettings
    human: Floats
    resamples: Resamples


def agreement_rows(panel: Panel, settings: AgreementSettings) -> list[AgreementRow]:
    """Every statistic of every judge of a panel, then the differences of its judges."""
    counts = (~np.isnan(panel.ratings)).sum(axis=2)
    human = snapped(ratio(np.nansum(panel.ratings, axis=2), counts))
    analysis = _Analysis(panel, settings, human, settings.resamples(panel.clusters))
    people = list(_of_people(analysis))
    rows = [row for judge in panel.judges for row in _of_judge(analysis, judge, people)]
    return [*rows, *_differences(analysis)]


def _of_people(analysis: _Analysis) -> Iterator[AgreementRow]:
    ratings, resamples = analysis.panel.ratings, analysis.resamples
    level, blank = analysis.settings.level, AgreementRow("", "", "", "", "")
    alpha = alpha_ci(ratings, resamples, scale=level)
    yield replace(_filled(analysis, blank, alpha), statistic="alpha_raters")
    shares = _pairwise(ratings, None, resamples)
    yield replace(_spread(analysis, blank, shares), statistic="agreement_pairwise_raters")
    ceiling = reliability_of_means(ratings, resamples)
    root = _through(ceiling, lambda one: attainable_r(one, Estimate(1.0, n=one.n)))
    notes = _severity_notes(analysis)
    for name, result, said in (
        ("noise_ceiling", ceiling, notes),
        ("attainable_r", root, [_OF_PEARSON, *notes]),
    ):
        row = replace(_filled(analysis, blank, result), statistic=name, note="; ".join(said))
        none = replace(row, value=None, low=None, high=None, reason=_NOMINAL)
        yield none if level == "nominal" and row.value is not None else row


_OF_PEARSON = "of pearson_dataset, with a judge that makes no errors"
_NOMINAL = "nominal ratings have no mean; --level interval where values are numbers"
_CONFOUNDED = "systems had different raters, whose severity shifts the systems' means"
_GROUPS = "raters that rated no cell together: their severity is not in it, so it is too high"


def _severity_notes(analysis: _Analysis) -> list[str]:
    ratings = analysis.panel.ratings
    confounded = [_CONFOUNDED] if is_severity_confounded(ratings) else []
    return [*confounded, *([_GROUPS] if rater_groups(ratings) > 1 else [])]


def _of_judge(
    analysis: _Analysis, judge: JudgeTable, people: Iterable[AgreementRow]
) -> Iterator[AgreementRow]:
    blank = _blank(analysis, (judge,))
    yield from _correlations(analysis, judge, blank)
    for row in people:
        filled = {name: getattr(row, name) for name in _RESULTS}
        yield replace(blank, **filled)
    is_other = _is_on_another_scale(analysis, judge)
    for row in _of_values(analysis, judge, blank):
        if is_other:
            row = replace(row, value=None, low=None, high=None, sd=None)
            row = replace(row, reason=_OTHER_SCALE, note="")
        yield row


_OTHER_SCALE = "the judge's scale is not the raters'"


def _is_on_another_scale(analysis: _Analysis, judge: JudgeTable) -> bool:
    """Whether one side's values are shares or cosines, all in 0..1, and the other's go beyond.

    One value throughout shows no scale, and ratings on a scale that the recipe names are ratings.
    """
    scales = [JudgeRecipe(judge.judge, part).scale for part in judge.recipe.split("|")]
    known = analysis.panel.ratings[~np.isnan(analysis.panel.ratings)]
    values = judge.values[~np.isnan(judge.values) & ~np.isnan(analysis.human)]
    if any(scale and scale[1] > 1 for scale in scales) or not len(known) or not len(values):
        return False
    sides = [bool(np.min(side) >= 0 and np.max(side) <= 1) for side in (known, values)]
    return sides[0] != sides[1] and bool(np.ptp(known) > 0 and np.ptp(values) > 0)


def _of_values(
    analysis: _Analysis, judge: JudgeTable, blank: AgreementRow
) -> Iterator[AgreementRow]:
    """What compares a judge's values with the raters' as they are, so has to be on their scale."""
    ratings, values, resamples = analysis.panel.ratings, judge.values, analysis.resamples
    level, note = analysis.settings.level, _unmatched_values(analysis, judge)
    together = np.concatenate([ratings, values[:, :, None]], axis=2)
    each = alpha_with_each(ratings, values, resamples, scale=level)
    for name, spread in (
        ("alpha_judge_with_raters", Spread(alpha_ci(together, resamples, scale=level), None)),
        ("alpha_judge_with_each", each),
        ("agreement_pairwise_judge", _pairwise(ratings, values, resamples)),
    ):
        yield replace(_spread(analysis, blank, spread), statistic=name, note=note)
    epsilon = analysis.settings.epsilon
    for name, estimate in _annotator(analysis, values):
        row = replace(_filled(analysis, blank, estimate), statistic=name, epsilon=epsilon)
        yield row if estimate.value is None else replace(row, reason=None, note=note)


_RESULTS = ("statistic", "value", "low", "high", "n", "skipped", "reason", "sd", "note")


def _correlations(
    analysis: _Analysis, judge: JudgeTable, blank: AgreementRow
) -> Iterator[AgreementRow]:
    values, resamples, panel = judge.values, analysis.resamples, analysis.panel
    means = system_means(analysis.human, values)
    stats = agreement_stats(analysis.human, values, resamples, documents=panel.of_rows)
    note = _CONFOUNDED if is_severity_confounded(panel.ratings) else ""
    # The exact p-values are there where few systems allow them.
    for name, result, p, said in (
        ("pearson_dataset", stats.dataset_pearson, None, ""),
        ("kendall_document", stats.document_tau, None, ""),
        ("kendall_document_zero", stats.document_tau_zero, None, ""),
        ("spearman_system", stats.system_spearman, permutation_p(*means, "spearman").value, note),
        ("pearson_system", stats.system_pearson, permutation_p(*means, "pearson").value, note),
    ):
        yield replace(_filled(analysis, blank, result), statistic=name, p=p, note=said)
    # The folds' epsilons are kept while clusters are left out.
    seed = str(analysis.settings.seed)
    fit, shares = cross_fitted_acc_eq(analysis.human, values, panel.clusters, seed=seed)
    places, shares = document_means(shares, resamples, panel.of_rows)
    mean = mean_estimate(shares, fit.estimate.reason or NoValue.TOO_FEW)
    row = _filled(analysis, blank, mean_jackknife(shares, mean, places, range_="share"))
    epsilon = float(np.mean(fit.epsilons)) if fit.epsilons else None
    yield replace(row, statistic="acc_eq", epsilon=epsilon)


def _unmatched_values(analysis: _Analysis, judge: JudgeTable) -> str:
    """How many of a judge's values are no value that any rater gave: such agree with nobody."""
    known = analysis.panel.ratings[~np.isnan(analysis.panel.ratings)]
    values = judge.values[~np.isnan(judge.values) & ~np.isnan(analysis.human)]
    if not (odd := int((~np.isin(values, snapped(known))).sum())):
        return ""
    said = f"{odd} of {len(values)} judge values are no rater's and equal no rating"
    halves = f"; {judge.split} verdicts are .5, two orders that disagree: see --orders"
    return said + (halves if judge.split else "")


def _annotator(analysis: _Analysis, values: Floats) -> list[tuple[str, Estimate]]:
    panel, settings = analysis.panel, analysis.settings
    test = annotator_test(
        panel.ratings.reshape(values.size, len(panel.raters)),
        values.ravel(),
        alignment="accuracy" if settings.level == "nominal" else "rmse",
        epsilon=settings.epsilon,
        least_units=_LEAST_UNITS,
        clusters=[name for name in panel.clusters for _ in panel.systems],
    )
    rate, advantage = test.winning_rate, test.advantage
    if rate.value is not None and rate.n < _LEAST_RATERS:
        few = Estimate(None, n=rate.n, skipped=rate.skipped, reason=NoValue.TOO_FEW)
        rate = advantage = few
    return [("annotator_winning_rate", rate), ("annotator_advantage", advantage)]


def _pairwise(ratings: Floats, judge: Floats | None, resamples: Resamples) -> Spread:
    """The share rated alike, over pairs of raters or of the judge with each, with its interval."""
    raters = ratings.shape[2]
    pairs = list(combinations(range(raters), 2))
    if judge is not None:
        pairs = [(place, raters) for place in range(raters)]
        ratings = np.concatenate([ratings, judge[:, :, None]], axis=2)
    units = ratings.reshape(ratings.shape[0] * ratings.shape[1], ratings.shape[2])
    estimate = percent_agreement(units, pairs)
    if estimate.value is None:
        return Spread(jackknife_ci(estimate, np.zeros(0), "share"), None)
    total, counted = np.zeros(resamples.clusters), np.zeros(resamples.clusters)
    alone: list[Floats] = []
    for start in range(0, len(pairs), _PAIRS_AT_ONCE):
        one, other = np.array(pairs[start : start + _PAIRS_AT_ONCE]).T
        both = ~np.isnan(ratings[:, :, one]) & ~np.isnan(ratings[:, :, other])
        alike = ratings[:, :, one] == ratings[:, :, other]
        columns = np.hstack([alike.sum(axis=1), both.sum(axis=1)]).astype(np.float64)
        alone.append(ratio(*np.split(columns.sum(axis=0), 2)))
        shares = ratio(*np.hsplit(sums_without(columns, resamples), 2))
        total += np.nansum(shares, axis=1)
        counted += (~np.isnan(shares)).sum(axis=1)
    known = np.concatenate(alone)
    spread = deviation(known[~np.isnan(known)])
    return Spread(jackknife_ci(estimate, ratio(total, counted), "share"), spread)


def _through(result: Estimate, change: Callable[[Estimate], Estimate]) -> Estimate:
    """A result through a function that only grows, its interval with it; below 0 is 0 there."""
    estimate = change(result)
    if estimate.value is None or result.low is None or result.high is None:
        return estimate.unbounded(estimate.reason or result.why, clusters=result.clusters)
    ends = (change(Estimate(max(0.0, end), n=1)).value for end in (result.low, result.high))
    low, high = (0.0 if end is None else end for end in ends)
    return estimate.between(low, high, clusters=result.clusters)


@dataclass(frozen=True, slots=True)
class _Difference:
    """Two judges' difference in a statistic: its test, and its interval where it has one."""

    pair: tuple[JudgeTable, JudgeTable]
    statistic: str
    test: Significance
    ends: Estimate | None = None
    note: str = ""


_INDEPENDENT = "assumes independent cells; difference_pearson does not"
_Without = Callable[[Floats, Floats, Resamples], Floats]


def _taus_without(human: Floats, judge: Floats, resamples: Resamples) -> Floats:
    return means_without(document_taus_zero(human, judge), resamples)


_TESTED: tuple[tuple[str, Callable[[Floats], Statistic], _Without], ...] = (
    ("difference_pearson", pearson_against, pearsons_without),
    ("difference_kendall", tau_zero_against, _taus_without),
)


def _differences(analysis: _Analysis) -> Iterator[AgreementRow]:
    """For each pair of judges the difference of their correlations; p corrected for all of them."""
    pairs, human = list(combinations(analysis.panel.judges, 2)), analysis.human
    name = "difference_pearson_williams"
    williams = [
        _Difference((a, b), name, _williams(human, a.values, b.values), note=_INDEPENDENT)
        for a, b in pairs
    ]
    permuted = [_permuted(analysis, pair, *kind) for kind in _TESTED for pair in pairs]
    for family in (williams, permuted):
        corrected = holm([one.test.p for one in family])
        for one, p in zip(family, corrected, strict=True):
            yield replace(_difference_row(analysis, one), p_holm=p)


def _difference_row(analysis: _Analysis, one: _Difference) -> AgreementRow:
    test, ends = one.test, one.ends
    row = replace(_blank(analysis, one.pair), statistic=one.statistic, note=one.note)
    row = replace(row, value=test.statistic, p=test.p, n=test.n, skipped=test.skipped)
    if ends is None or test.p is None:
        return replace(row, reason=_why(analysis, test.reason))
    return replace(row, low=ends.low, high=ends.high, reason=ends.why_no_interval)


def _permuted(
    analysis: _Analysis,
    pair: tuple[JudgeTable, JudgeTable],
    name: str,
    against: Callable[[Floats], Statistic],
    without: _Without,
) -> _Difference:
    first, second, resamples = pair[0].values, pair[1].values, analysis.resamples
    shared = np.where(np.isnan(first) | np.isnan(second), np.nan, analysis.human)
    test = permutation_test(
        shared,
        (first, second),
        against(shared),
        seed=str(analysis.settings.seed),
        draws=analysis.settings.draws,
        clusters=analysis.panel.clusters,
    )
    rests = [without(*complete(shared, judge), resamples) for judge in (first, second)]
    estimate = Estimate(test.statistic, n=test.n, reason=test.reason)
    found = jackknife_ci(estimate, rests[0] - rests[1], "any")
    ends = interval_with_test(found, test.p, resamples.clusters)
    return _Difference(pair, name, test, ends)


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
        documents=len(set(panel.of_rows)),
        systems=len(panel.systems),
        raters=len(panel.raters),
        tie_rate_human=tie_rate(people if is_one else analysis.human).value,
        tie_rate_judge=tie_rate(values).value if is_one else None,
        scale=panel.scale,
        averaging=_averaging(analysis, judges),
        signature="|".join([panel.recipe, " vs ".join(j.recipe for j in judges), panel.given]),
    )


def _averaging(analysis: _Analysis, judges: Sequence[JudgeTable]) -> str:
    panel, orders = analysis.panel, {judge.orders for judge in judges} - {"both"}
    decodings = f"mean over {'+'.join(panel.decodings)}"
    if panel.rated:
        decodings = f"each answer at {'+'.join(panel.rated)} by itself, then mean of a document's"
    parts = ["mean over raters", decodings, f"{analysis.settings.level} level"]
    if any(judge.split for judge in judges):
        parts.append("two orders that disagree are .5")
    parts += [f"{order} order of the options alone" for order in sorted(orders)]
    return "; ".join([*parts, "intervals over clusters of documents"])


def _names(judges: Sequence[JudgeTable]) -> list[str]:
    names = [judge.judge for judge in judges]
    if len(set(names)) == len(names):
        return names
    if all(judge.model == ALL_SYSTEMS for judge in judges):
        return [judge.recipe.split("|")[2] for judge in judges]
    return [f"{judge.judge} ({judge.model})" for judge in judges]


def _spread(analysis: _Analysis, row: AgreementRow, spread: Spread) -> AgreementRow:
    return replace(_filled(analysis, row, spread.result), sd=spread.sd)


def _filled(analysis: _Analysis, row: AgreementRow, found: Estimate) -> AgreementRow:
    reason = _why(analysis, found.reason) or found.why_no_interval
    row = replace(row, n=found.n, skipped=found.skipped, reason=reason)
    return replace(row, value=found.value, low=found.low, high=found.high)


def _why(analysis: _Analysis, reason: NoValue | None) -> str | None:
    panel = analysis.panel
    if reason is None or panel.documents:
        return reason
    return f"no overlap: {panel.unmatched} of {panel.offered} ratings match no response"
