"""Rules that make a number of other published ones: ranks, shares, correlations, tests."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean
from typing import get_args

import numpy as np

from harness.stats import agreement, correlation
from harness.stats.comparison import williams_test
from harness.stats.correlation import calibrated_acc_eq, pearson, spearman

Numbers = Sequence[float]
Rule = Callable[..., float | None]
"""Takes the numbers of each name in `of`, a sequence each."""


def _share(own: Numbers, *whole: Numbers, times: float = 1) -> float:
    """The part of a whole that the first number is."""
    return times * own[0] / sum(map(sum, whole))


def _f1_of_counts(precision: Numbers, recall: Numbers, gold: Numbers) -> float:
    """F1 of the whole counts that a printed precision and recall come from."""
    hits = round(recall[0] * gold[0])
    return 2 * hits / (round(hits / precision[0]) + gold[0])


def _fisher(judge: Numbers, opinions: Numbers, *, end: str) -> float | None:
    order = spearman(judge, opinions)
    ends = correlation.fisher_interval(order.value or 0.0, order.n)
    return ends.low if end == "low" else ends.high


def _tau(*topics: Numbers) -> float:
    """Kendall's tau of each topic's scores with their order, on average."""
    order = range(len(topics[0]))
    return fmean(map(float, correlation.document_taus([order] * len(topics), topics)))


def _one_sided(gold: Numbers, one: Numbers, other: Numbers) -> float | None:
    """Williams' p that the first of two vectors correlates more with the gold one."""
    pairs = (gold, one), (gold, other), (one, other)
    found = (pearson(*pair).value or 0.0 for pair in pairs)
    return williams_test(*found, n=len(gold), alternative="greater").p


RULES: dict[str, Rule] = {
    "sum": lambda *parts: sum(map(sum, parts)),
    "mean": lambda *parts: fmean(number for part in parts for number in part),
    **{"share": _share, "percent": partial(_share, times=100), "f1_of_counts": _f1_of_counts},
    "rank": lambda own, column: 1 + sum(other > own[0] for other in column),  # 1: the highest
    "f1": lambda precision, recall: 2 * precision[0] * recall[0] / (precision[0] + recall[0]),
    "missed": lambda recall, gold: gold[0] - round(recall[0] * gold[0]),
    "spearman": lambda one, other: spearman(one, other).value,
    "pearson": lambda one, other: pearson(one, other).value,
    "discordant": lambda one, other: correlation.discordant_pairs(one, other).value,
    "permutation_p": lambda one, two: correlation.permutation_p(one, two, "spearman").value,
    **{f"fisher_{end}": partial(_fisher, end=end) for end in ("low", "high")},
    "mean_tau": _tau,
    "mean_rho": lambda *topics: fmean(spearman(range(len(x)), x).value or 0.0 for x in topics),
    "first_not_lowest": lambda *topics: sum(min(topic) < topic[0] for topic in topics),
    "last_not_highest": lambda *topics: sum(max(topic) > topic[-1] for topic in topics),
    "first_below_last": lambda *topics: sum(topic[0] < topic[-1] for topic in topics),
    "williams_t": lambda r, n: williams_test(*r, n=int(n[0])).value,
    "williams_p": lambda r, n: williams_test(*r, n=int(n[0])).p,
    "williams_one_sided_p": _one_sided,
    "tie_epsilon": lambda gold, metric: next(iter(calibrated_acc_eq([gold], [metric])[1]), None),
    "tie_accuracy": lambda gold, metric: calibrated_acc_eq([gold], [metric])[0].value,
    **{
        f"alpha_{scale}": lambda *own, level=scale: agreement.alpha(np.array(own).T, level).value
        for scale in get_args(agreement.Scale)
    },
}
