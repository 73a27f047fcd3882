"""Scores of texts to operating points: the threshold that keeps a rate of false alarms."""

from collections.abc import Sequence
from dataclasses import replace
from math import floor
from typing import NamedTuple

import numpy as np

from harness.stats import estimate as estimates
from harness.stats.estimate import Estimate, Floats
from harness.stats.intervals import LEAST_CLUSTERS


def threshold_below(scores: Sequence[float], rate: float) -> tuple[float, estimates.Limits | None]:
    """The score above which further ones lie with a chance of at most `rate`, and what it may be.

    Of m scores k lie above it, and of a further one the chance is (k + 1) / (m + 1): at most the
    rate on average, while it varies as a beta distribution, whose 95 % ends come with it (Vovk
    2012, split conformal prediction). The greatest score, and None, with too few for the rate.
    """
    from scipy.special import betaincinv

    ordered = sorted(scores, reverse=True)
    above = _most_above(len(ordered), rate)
    if above < 0:
        return ordered[0], None
    low, high = betaincinv(above + 1, len(ordered) - above, [0.025, 0.975])
    return ordered[above], (float(low), float(high))


def _most_above(count: float, rate: float) -> int:
    """How many of some benign scores may lie above the threshold; -1 where none may be flagged."""
    return floor(rate * (count + 1) + 1e-9) - 1


def tpr_gap_at(
    scores: tuple[Floats, Floats],
    is_positive: estimates.Bools,
    resamples: estimates.Resamples,
    rate: float,
    known: dict[bytes, Floats] | None = None,
) -> Estimate:
    """How much higher the first scores' TPR is, -1 to 1, each at the threshold of this FPR.

    Both thresholds are those of `threshold_below` on all benign rows, which two models have; so
    they are chosen again in each draw of whole clusters, without which equal models differ in 4 of
    10. The interval has the draws' quantiles, p is twice the smaller share of draws on one side of
    0 (Efron & Tibshirani 1993, chapters 13 and 16). "too few" where a kind has fewer than three
    clusters, or too few benign rows are there for the rate; no interval where more than one draw in
    twenty has too few. `known` keeps what a model has in each draw for its further pairs.
    """
    counts = [len(np.unique(resamples.places[side])) for side in (is_positive, ~is_positive)]
    n, clusters = len(is_positive), resamples.clusters
    if min(counts) < LEAST_CLUSTERS or _most_above(int((~is_positive).sum()), rate) < 0:
        return Estimate.missing(estimates.NoValue.TOO_FEW, n, clusters=clusters)
    found, known = list[Floats](), {} if known is None else known
    for own in scores:
        key = b"".join(part.tobytes() for part in (own, is_positive, resamples.places))
        if key not in known:
            side = _Ordered.of(own, is_positive, resamples)
            draws = (side.tprs(some, rate) for some in resamples.counts())
            known[key] = np.concatenate([side.tprs(np.ones((1, clusters)), rate), *draws])
        found.append(known[key])
    every = found[0] - found[1]
    gaps, gap = every[1:][~np.isnan(every[1:])], Estimate(float(every[0]), n)
    if len(gaps) < estimates.LEAST_DEFINED * resamples.draws:
        return gap.unbounded(estimates.NoValue.TOO_FEW, clusters=clusters)
    low, high = np.quantile(gaps, [0.025, 0.975]).tolist()
    nearer = min(int((gaps <= 0).sum()), int((gaps >= 0).sum()))
    tested = replace(gap, p=min(1.0, 2 * (nearer + 1) / (len(gaps) + 1)))
    return tested.between(low, high, clusters=clusters)


class _Ordered(NamedTuple):
    """The scores of a model's benign and positive rows, greatest first, and their clusters."""

    benign: Floats
    positive: Floats
    benign_places: Floats
    positive_places: Floats

    @classmethod
    def of(
        cls, scores: Floats, is_positive: estimates.Bools, clusters: estimates.Clusters
    ) -> "_Ordered":
        orders = [np.flatnonzero(side) for side in (~is_positive, is_positive)]
        orders = [rows[np.argsort(-scores[rows], kind="stable")] for rows in orders]
        return cls(*(scores[rows] for rows in orders), *(clusters.places[rows] for rows in orders))

    def tprs(self, counts: Floats, rate: float) -> Floats:
        """The TPR of each draw, draws x how often each cluster is in it.

        NaN without a positive, and with too few benign rows for the rate.
        """
        benign = counts[:, self.benign_places].cumsum(axis=1)
        most = np.array([_most_above(total, rate) for total in benign[:, -1].tolist()])
        at = np.minimum((benign <= most[:, None]).sum(axis=1), benign.shape[1] - 1)
        thresholds = self.benign[at]
        above = np.searchsorted(-self.positive, -thresholds, side="left")
        positive = np.pad(counts[:, self.positive_places].cumsum(axis=1), ((0, 0), (1, 0)))
        with np.errstate(invalid="ignore"):
            found: Floats = positive[np.arange(len(above)), above] / positive[:, -1]
        return np.where(most < 0, np.nan, found)
