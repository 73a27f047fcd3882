"""Panels to frames of agreement: that of each judge with people, and of people with each other."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from harness.analysis.findings import agreement_findings
from harness.analysis.panels import ALL_SYSTEMS, JudgeTable, Panel
from harness.data.ratings import MEAN
from harness.lazy import DataFrame, pandas
from harness.stats import agreement as agreements
from harness.stats import comparison, correlation, reliability
from harness.stats import estimate as estimates
from harness.stats.agreement import Scale
from harness.stats.correlation import Coefficient
from harness.stats.estimate import Estimate, Floats, NoValue, Resamples
from harness.storage.frames import records
from harness.storage.signature import JudgeRecipe

_LEAST_RATERS = 3  # of the alternative annotator test

EPSILONS = {"expert": 0.2, "skilled": 0.15, "crowd": 0.1}
"""The epsilon of the alternative annotator test by the kind of raters (Calderon et al. 2025)."""


@dataclass(frozen=True, slots=True)
class AgreementSettings(estimates.BootstrapSettings):
    """Draws, the raters' level of measurement, and epsilon of the alternative annotator test."""

    draws: int = 1000
    level: Scale = "interval"
    epsilon: float = 0.1


COLUMNS = (
    *("task", "model", "variant", "judge", "statistic", "value", "low", "high", "n", "skipped"),
    *("documents", "systems", "raters", "tie_rate_human", "tie_rate_judge", "epsilon", "p"),
    *("reason", "scale", "averaging", "signature", "sd", "p_holm", "note"),
)
"""The columns of agreement.csv (docs/people.md): a row has a statistic of one judge, or of two."""
_Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Analysis:
    """A panel with what all its statistics share; `human` is the raters' mean of each cell."""

    panel: Panel
    settings: AgreementSettings
    human: Floats
    resamples: Resamples


def agreement(panel: Panel, settings: AgreementSettings) -> DataFrame:
    """Every statistic of every judge of a panel, then the differences of its judges.

    `attrs` has a `title` and `sentences`: on the raters, each judge, and which judges differ.
    """
    analysis = _Analysis(panel, settings, panel.human, settings.resamples(panel.clusters))
    people, rows = [*_of_people(analysis)], []
    for judge in panel.judges:
        blank = _blank(analysis, [judge])
        allowed = _attainable(analysis, judge)
        own = [*_correlations(analysis, judge), *people, allowed, *_of_values(analysis, judge)]
        rows += [{**blank, **row} for row in own]
    rows += _differences(analysis)
    if not panel.rows:
        why = f"no overlap: none of {len(panel.offered)} ratings matches a response"
        rows = [{**row, "reason": why if row["value"] is None else row["reason"]} for row in rows]
    made = pandas.DataFrame(rows, columns=list(COLUMNS))
    rated = f"{panel.task}, {panel.variant}, rated: {panel.scale or 'all'}"
    cells = f"{len({*panel.documents})} documents x {len(panel.systems)} systems"
    count = len(panel.raters)
    by = "means over raters" if panel.raters == (MEAN,) else f"{count} rater{'s' * (count > 1)}"
    made.attrs["title"] = "; ".join(filter(None, (rated, panel.label, f"{cells}, {by}")))
    made.attrs["sentences"] = agreement_findings(records(made))
    return made


def _row(statistic: str, found: Estimate, **more: object) -> _Row:
    taken = {name: getattr(found, name) for name in ("value", "low", "high", "n", "skipped", "sd")}
    reason = found.reason or found.why_no_interval
    return {"statistic": statistic, **taken, "reason": reason, **more}


def _of_people(analysis: _Analysis) -> Iterator[_Row]:
    ratings, resamples = analysis.panel.ratings, analysis.resamples
    level = analysis.settings.level
    yield _row("alpha_raters", agreements.alpha_ci(ratings, resamples, scale=level))
    yield _row("agreement_pairwise_raters", agreements.pairwise_agreement(ratings, None, resamples))
    yield _ceiling(analysis, "noise_ceiling", ratings)


def _attainable(analysis: _Analysis, judge: JudgeTable) -> _Row:
    """The r of a judge without errors, on the cells that this one rated."""
    ratings = np.where(np.isnan(judge.values)[..., None], np.nan, analysis.panel.ratings)
    return _ceiling(analysis, "attainable_r", ratings)


def _ceiling(analysis: _Analysis, name: str, ratings: Floats) -> _Row:
    found, notes = reliability.reliability_of_means(ratings, analysis.resamples), list[str]()
    if name == "attainable_r":
        found, notes = agreements.through(found, agreements.attainable_r), [_OF_PEARSON]
    notes += [_CONFOUNDED] if reliability.is_severity_confounded(ratings) else []
    notes += [_GROUPS] if reliability.rater_groups(ratings) > 1 else []
    row = _row(name, found, note="; ".join(notes))
    is_nominal = analysis.settings.level == "nominal" and found.value is not None
    return {**row, **_none(_NOMINAL)} if is_nominal else row


_OF_PEARSON = "of pearson_dataset, with a judge that makes no errors, on the cells that it rated"
_NOMINAL = "nominal ratings have no mean; --level interval where values are numbers"
_CONFOUNDED = "systems had different raters, whose severity shifts the systems' means"
_GROUPS = "raters that rated no cell together: their severity is not in it, so it is too high"
_OTHER_SCALE = "the judge's scale is not the raters'"
_MEANS = "these ratings are means over raters"


def _none(reason: str) -> _Row:
    """What replaces a value that would mean nothing."""
    return dict(value=None, low=None, high=None, sd=None, reason=reason)


def _is_on_another_scale(panel: Panel, judge: JudgeTable, values: Floats) -> bool:
    """Whether raters leave the judge's scale, or one side alone has all values in 0..1."""
    parts = (JudgeRecipe(judge.judge, part).scale for part in judge.recipe.split("|"))
    scales = [scale for scale in parts if scale and scale[1] > 1]
    known = panel.ratings[~np.isnan(panel.ratings)]
    if not len(known) or not len(values):
        return False
    if any(np.min(known) < low or np.max(known) > high for low, high in scales):
        return True
    sides = [bool(np.min(side) >= 0 and np.max(side) <= 1) for side in (known, values)]
    is_other = sides[0] > sides[1] if scales else sides[0] != sides[1]
    return is_other and bool(np.ptp(known) > 0 and np.ptp(values) > 0)


def _of_values(analysis: _Analysis, judge: JudgeTable) -> Iterator[_Row]:
    """What compares a judge's values with the raters' as they are, so has to be on their scale."""
    panel, settings, resamples = analysis.panel, analysis.settings, analysis.resamples
    ratings, values, level = panel.ratings, judge.values, settings.level
    known = values[~np.isnan(values) & ~np.isnan(analysis.human)]
    note = _unmatched_values(ratings, judge, known)
    found = {
        "alpha_judge_with_each": agreements.alpha_with_each(
            ratings, values, resamples, scale=level
        ),
        "agreement_pairwise_judge": agreements.pairwise_agreement(ratings, values, resamples),
    }
    rows = [_row(name, one, note=note) for name, one in found.items()]
    for name, one in _annotator(analysis, values):
        row = _row(name, one, epsilon=settings.epsilon)
        rows.append(row if one.value is None else {**row, "reason": None, "note": note})
    why = _MEANS if (is_none := panel.raters == (MEAN,)) else _OTHER_SCALE
    is_none = is_none or _is_on_another_scale(panel, judge, known)
    yield from ({**row, **_none(why), "note": ""} if is_none else row for row in rows)


def _unmatched_values(ratings: Floats, judge: JudgeTable, values: Floats) -> str:
    """How many of a judge's values are no value that any rater gave: such agree with nobody."""
    given = estimates.snapped(ratings[~np.isnan(ratings)])
    if not (odd := int((~np.isin(values, given)).sum())):
        return ""
    halves = f"; {judge.split} verdicts are .5, two orders that disagree: see --orders"
    words = f"{odd} of {len(values)} judge values are no rater's and equal no rating"
    return words + halves * (judge.split > 0)


_OF_SYSTEMS: dict[str, Coefficient] = {"spearman_system": "spearman", "pearson_system": "pearson"}


def _correlations(analysis: _Analysis, judge: JudgeTable) -> Iterator[_Row]:
    values, resamples, panel = judge.values, analysis.resamples, analysis.panel
    means = correlation.system_means(analysis.human, values)
    stats = agreements.agreement_stats(analysis.human, values, resamples, documents=panel.documents)
    note = _CONFOUNDED if reliability.is_severity_confounded(panel.ratings) else ""
    for name, found in stats.items():
        more: _Row = {}
        if name in _OF_SYSTEMS:  # the exact p-values are there where few systems allow them
            more = {"p": correlation.permutation_p(*means, _OF_SYSTEMS[name]).value, "note": note}
        yield _row(name, found, **more)
    names = {"clusters": panel.clusters, "documents": panel.documents}
    found, epsilon = agreements.acc_eq(analysis.human, values, resamples, **names)
    yield _row("acc_eq", found, epsilon=epsilon)


def _annotator(analysis: _Analysis, values: Floats) -> list[tuple[str, Estimate]]:
    panel, settings = analysis.panel, analysis.settings
    found = comparison.annotator_test(
        panel.ratings.reshape(values.size, len(panel.raters)),
        values.ravel(),
        alignment="accuracy" if settings.level == "nominal" else "rmse",
        epsilon=settings.epsilon,
        clusters=[name for name in panel.clusters for _ in panel.systems],
    )
    first = found[0]
    if first.value is not None and first.n < _LEAST_RATERS:
        found = (Estimate(None, first.n, first.skipped, NoValue.TOO_FEW),) * 3
    names = ("annotator_winning_rate", "annotator_losing_rate", "annotator_advantage")
    return [*zip(names, found, strict=True)]


class _Tested(NamedTuple):
    """A statistic, its values without each cluster, and how far rows or cells move it."""

    name: str
    measure: Callable[[Floats, Floats], Estimate]
    without: Callable[[Floats, Floats, Resamples], Floats]
    moves: Callable[[Floats, Floats], Floats]


_TESTED = (
    _Tested(
        "difference_pearson",
        correlation.dataset_pearson,
        agreements.pearsons_without,
        agreements.pearson_moves,
    ),
    _Tested(
        "difference_kendall",
        partial(correlation.document_tau, is_zero_filled=True),
        agreements.taus_without,
        partial(correlation.document_taus, is_zero_filled=True),
    ),
)
_SAME_REPLIES = "no test: both read the same replies"


def _differences(analysis: _Analysis) -> list[_Row]:
    """For each pair of judges the difference of their correlations, p corrected for all pairs.

    Sentences are on Pearson's, which are a family of their own.
    """
    pairs, found = [*combinations(analysis.panel.judges, 2)], list[_Row]()
    for tested in _TESTED:
        rows = [{**_blank(analysis, two), **_difference(analysis, two, tested)} for two in pairs]
        p_holm = comparison.holm([row["p"] for row in rows])
        found += [{**row, "p_holm": p} for row, p in zip(rows, p_holm, strict=True)]
    return found


def _difference(analysis: _Analysis, pair: tuple[JudgeTable, JudgeTable], tested: _Tested) -> _Row:
    """How much better the first judge correlates, with interval and test by the jackknife's t."""
    first, second, resamples = pair[0].values, pair[1].values, analysis.resamples
    shared = np.where(np.isnan(first) | np.isnan(second), np.nan, analysis.human)
    sides = [estimates.complete(shared, judge) for judge in (first, second)]
    one, other = (tested.measure(*side) for side in sides)
    if one.value is None or other.value is None:
        return _row(
            tested.name, replace(one, value=None, reason=one.reason or other.reason), p=None
        )
    rests = [tested.without(*side, resamples) for side in sides]
    moves = [tested.moves(*side) for side in sides]
    difference = Estimate(one.value - other.value, one.n, one.skipped)
    found = agreements.difference_ci(
        difference, rests[0] - rests[1], moves[0] - moves[1], resamples
    )
    more: _Row = {"p": found.p}
    if ALL_SYSTEMS != pair[0].model == pair[1].model:
        more = {"p": None, "note": _SAME_REPLIES}
    return _row(tested.name, found.within(-2, 2), **more)


def _blank(analysis: _Analysis, judges: Sequence[JudgeTable]) -> _Row:
    panel, is_one = analysis.panel, len(judges) == 1
    people, values = estimates.complete(analysis.human, judges[0].values)
    recipes = " vs ".join(judge.recipe for judge in judges)
    return {
        "task": panel.task,
        "model": " vs ".join(dict.fromkeys(judge.model for judge in judges)),
        "variant": panel.variant,
        "judge": judges[0].judge if is_one else " vs ".join(_names(judges, panel.judges)),
        "documents": len({*panel.documents}),
        "systems": len(panel.systems),
        "raters": len(panel.raters),
        "tie_rate_human": correlation.tie_rate(people if is_one else analysis.human).value,
        "tie_rate_judge": correlation.tie_rate(values).value if is_one else None,
        "scale": panel.scale,
        "averaging": _averaging(analysis, judges),
        "signature": f"{panel.recipe}|{recipes}|{panel.given}",
        "note": "",
    }


def _averaging(analysis: _Analysis, judges: Sequence[JudgeTable]) -> str:
    panel, orders = analysis.panel, {judge.orders for judge in judges} - {"both"}
    parts = ["mean over raters", f"mean over {'+'.join(panel.decodings)}"]
    if rated := sorted({decoding for _, decoding in panel.rows if decoding}):
        parts[1] = f"each answer at {'+'.join(rated)} by itself, then mean of a document's"
    parts.append(f"{analysis.settings.level} level")
    if any(judge.split for judge in judges):
        parts.append("two orders that disagree are .5")
    parts += [f"{order} order of the options alone" for order in sorted(orders)]
    return "; ".join([*parts, "intervals over clusters of documents"])


def _names(judges: Sequence[JudgeTable], every: Sequence[JudgeTable]) -> list[str]:
    """Names that no two judges of a panel share: the name, with the model, or the recipe."""
    ways: tuple[Callable[[JudgeTable], str], ...] = (
        lambda judge: judge.judge,
        lambda judge: f"{judge.judge} ({judge.model})",
        lambda judge: judge.recipe.split("|")[2],
    )
    counts = [(way, Counter(map(way, every))) for way in ways]
    found = [[way(one) for way, count in counts if count[way(one)] == 1] for one in judges]
    return [(own or [ways[-1](one)])[0] for own, one in zip(found, judges, strict=True)]
