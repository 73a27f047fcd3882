"""A judge's and several raters' ratings to whether the judge may stand in for a rater.

The alternative annotator test of Calderon, Reichart & Dror (ACL 2025, "The Alternative Annotator
Test for LLM-as-a-Judge", arXiv 2501.10970). Tables are units x raters, NaN where a rater saw
nothing.
"""

from dataclasses import dataclass
from math import inf, sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from harness.stats.comparison import benjamini_yekutieli
from harness.stats.estimate import Estimate, Floats, NoValue, table

Alignment = Literal["accuracy", "rmse"]

_ROUNDING = 1e-12  # alignments nearer than this are equal
_RATE = 0.05  # the false discovery rate of the paper


@dataclass(frozen=True, slots=True)
class RaterTrial:
    """The judge against one rater, both measured by the other raters.

    `advantage` is the share of the rater's `n` units where the judge is at least as near to
    the others as the rater is; `p` that of the rater being better by epsilon, before
    correction; `is_won` says whether it was rejected after it.
    """

    rater: int
    n: int
    advantage: float
    p: float
    is_won: bool


@dataclass(frozen=True, slots=True)
class AnnotatorTest:
    """The winning rate over raters, the mean advantage, and the trials behind them.

    The judge passes with a winning rate of one half or more.
    """

    winning_rate: Estimate
    advantage: Estimate
    epsilon: float
    trials: tuple[RaterTrial, ...]

    @property
    def is_passed(self) -> bool | None:
        """Null where no rater could be tried."""
        return None if self.winning_rate.value is None else self.winning_rate.value >= 0.5


def annotator_test(
    raters: ArrayLike,
    judge: ArrayLike,
    *,
    alignment: Alignment,
    epsilon: float,
    least_units: int = 30,
) -> AnnotatorTest:
    """Whether the judge agrees with the remaining raters as well as the one left out does.

    `epsilon` is what the judge's lower price is worth: .2 beside experts, .15 beside skilled
    raters, .1 beside a crowd. "accuracy" is for labels, "rmse" for ratings. Units with two
    raters and a judge's rating count; raters with fewer than `least_units` of them are
    skipped. Winning rate and advantage lie in 0..1, `n` counting raters. Null: "one rater"
    where fewer than two rated anything, "too few" where no rater has enough units.
    """
    rows, column = table(raters), table(np.reshape(judge, (-1, 1)))
    if len(rows) != len(column) or not 0 <= epsilon < 1:
        raise ValueError(
            f"one judge's rating a unit and 0 <= epsilon < 1, not {len(column)} ratings for "
            f"{len(rows)} units and {epsilon!r}"
        )
    is_kept = ((~np.isnan(rows)).sum(axis=1) >= 2) & ~np.isnan(column[:, 0])
    rows, column = rows[is_kept], column[is_kept]
    counts = (~np.isnan(rows)).sum(axis=0)
    places = [int(place) for place in np.nonzero(counts >= max(2, least_units))[0]]
    skipped = rows.shape[1] - len(places)
    if len(places) == 0:
        reason = _why_no_trial(table(raters))
        none = Estimate(None, n=0, skipped=skipped, reason=reason)
        return AnnotatorTest(none, none, epsilon, ())
    found = [_wins(rows, column, rater=place, alignment=alignment) for place in places]
    ps = [_p_below(human - machine, epsilon) for machine, human in found]
    is_won = [q is not None and q <= _RATE for q in benjamini_yekutieli(ps)]
    trials = tuple(
        RaterTrial(place, len(machine), float(machine.mean()), p, won)
        for place, (machine, _), p, won in zip(places, found, ps, is_won, strict=True)
    )
    rate, advantage = np.mean(is_won), np.mean([trial.advantage for trial in trials])
    return AnnotatorTest(
        Estimate(float(rate), n=len(trials), skipped=skipped),
        Estimate(float(advantage), n=len(trials), skipped=skipped),
        epsilon,
        trials,
    )


def _wins(
    rows: Floats, judge: Floats, *, rater: int, alignment: Alignment
) -> tuple[Floats, Floats]:
    """1 for each unit where the judge is at least as near to the other raters as this one, and
    1 where this one is at least as near as the judge: both where they tie."""
    own = rows[:, [rater]]
    seen = ~np.isnan(own[:, 0])
    others = np.delete(rows, rater, axis=1)[seen]
    lead = _near(judge[seen], others, alignment) - _near(own[seen], others, alignment)
    return (lead >= -_ROUNDING).astype(np.float64), (lead <= _ROUNDING).astype(np.float64)


def _near(ratings: Floats, others: Floats, alignment: Alignment) -> Floats:
    """How near a rating is to the others of its unit: share alike, or minus the RMSE."""
    if alignment == "accuracy":
        alike = np.where(np.isnan(others), np.nan, ratings == others)
        return np.asarray(np.nanmean(alike, axis=1), dtype=np.float64)
    return np.asarray(-np.sqrt(np.nanmean((ratings - others) ** 2, axis=1)), dtype=np.float64)


def _p_below(differences: Floats, epsilon: float) -> float:
    """The one-sided p of Student's t that the mean lies below epsilon.

    Without any spread t is infinite, and p 0 or 1: all units agree.
    """
    from scipy.stats import t

    n, excess = len(differences), float(differences.mean()) - epsilon
    error = float(differences.std(ddof=1)) / sqrt(n)
    if error == 0:
        return float(t.cdf(inf if excess >= 0 else -inf, n - 1))
    return float(t.cdf(excess / error, n - 1))


def _why_no_trial(rows: Floats) -> NoValue:
    has_two = (~np.isnan(rows)).any(axis=0).sum() >= 2
    return NoValue.TOO_FEW if has_two else NoValue.ONE_RATER
