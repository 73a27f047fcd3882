"""Printed numbers to what they imply: ranks, correlations, scores of whole counts, tests."""

from collections.abc import Sequence
from statistics import fmean
from typing import get_args

import numpy as np

from harness.analysis.published import Inputs, Recomputation, Values
from harness.stats import agreement, correlation
from harness.stats.comparison import williams_test
from harness.stats.correlation import pearson, spearman

JUDGES = {"bertf1": "BERTf1", "auto_gpt4_gt": "auto-gpt4-gt", "auto_gpt4": "auto-gpt4"}


def ranking(inputs: Inputs) -> Values:
    """The agreement of each judge of Emphasized-Talk's Table 1 with the mean opinion scores."""
    opinions, values = inputs["MOS"], dict[str, float | None]()
    for name, column in JUDGES.items():
        judge = inputs[column]
        order = spearman(judge, opinions)
        span = correlation.fisher_interval(order.value or 0.0, order.n)
        values |= {
            f"{name}_spearman": order.value,
            f"{name}_pearson": pearson(judge, opinions).value,
            f"{name}_discordant": correlation.discordant_pairs(judge, opinions).value,
            f"{name}_permutation_p": correlation.permutation_p(judge, opinions, "spearman").value,
            f"{name}_fisher_low": span.low,
            f"{name}_fisher_high": span.high,
            **_ranks(name, judge),
        }
    return {**values, **_ranks("mos", opinions)}


def _ranks(name: str, column: Sequence[float]) -> Values:
    """The rank of each row of a column, from 1 for the highest."""
    ranks = [1 + sum(other > value for other in column) for value in column]
    return {f"{name}_rank_{row}": rank for row, rank in enumerate(ranks, 1)}


def graded_sentences(inputs: Inputs) -> Values:
    """How the scores of each topic of ImpScore, in the gold order of its sentences, keep to it."""
    topics = [inputs[f"topic {number}"] for number in range(1, 11)]
    order = range(len(topics[0]))
    taus = [float(tau) for tau in correlation.document_taus([order] * len(topics), topics)]
    rhos = [spearman(order, topic).value or 0.0 for topic in topics]
    half = len(topics) // 2
    values: dict[str, float | None] = {
        "first_not_lowest": sum(min(topic) < topic[0] for topic in topics),
        "last_not_highest": sum(max(topic) > topic[-1] for topic in topics),
        "first_below_last": sum(topic[0] < topic[-1] for topic in topics),
    }
    for name, found in (("tau", taus), ("rho", rhos)):
        values |= {f"{name}_{topic}": value for topic, value in enumerate(found, 1)}
        values |= {f"{name}_first": fmean(found[:half]), f"{name}_second": fmean(found[half:])}
    return values


def counted_f1(inputs: Inputs) -> Values:
    """F1 of the whole counts that a printed precision and recall come from, row by row."""
    values: dict[str, float | None] = {}
    for label in ("implicit", "subtle"):
        (gold,) = inputs[f"{label} in test"]
        pairs = zip(inputs[f"{label}, precision"], inputs[f"{label}, recall"], strict=True)
        for row, (precision, recall) in enumerate(pairs, 1):
            hits = round(recall * gold)
            values[f"{label}_f1_{row}"] = 2 * hits / (round(hits / precision) + gold)
            values[f"{label}_missed_{row}"] = gold - hits
    return values


def contrastive_pairs(inputs: Inputs) -> Values:
    """The pairs that ImpScore is trained on: a negative one for each positive one."""
    (positive,) = inputs["positive pairs"]
    return {"pairs": 2 * positive}


def williams(inputs: Inputs) -> Values:
    """Williams' t and p of three correlations, and of three vectors of raw values."""
    first, second, between = inputs["correlations"]
    stated = williams_test(first, second, between, n=int(inputs["n"][0]))
    gold, one, other = (inputs[name] for name in ("gold", "first_metric", "second_metric"))
    first_r, second_r, between_r = (
        pearson(*pair).value or 0.0 for pair in ((gold, one), (gold, other), (one, other))
    )
    raw = williams_test(first_r, second_r, between_r, n=len(gold), alternative="greater")
    return {
        "t_of_correlations": stated.value,
        "p_of_correlations": stated.p,
        "first_r": first_r,
        "second_r": second_r,
        "one_sided_p": raw.p,
    }


def tie_calibration(inputs: Inputs) -> Values:
    """The best tie threshold and the accuracy there, of one metric with two sets of ratings."""
    metric, values = [inputs["metric"]], dict[str, float | None]()
    for name in ("without_ties", "with_ties"):
        best, epsilons = correlation.calibrated_acc_eq([inputs[name]], metric)
        values[f"{name}_epsilon"] = epsilons[0] if epsilons else None
        values[f"{name}_accuracy"] = best.value
    return values


def krippendorff(inputs: Inputs) -> Values:
    """Krippendorff's alpha of four observers, some of whose values are missing, by scale."""
    observers = ("observer_a", "observer_b", "observer_c", "observer_d")
    ratings = np.array([inputs[name] for name in observers]).T
    return {scale: agreement.alpha(ratings, scale).value for scale in get_args(agreement.Scale)}


RECOMPUTATIONS = {
    "emphasized_talk_ranking": Recomputation(ranking),
    "impscore_levels": Recomputation(graded_sentences),
    "impscore_pairs": Recomputation(contrastive_pairs),
    "ishate_f1": Recomputation(counted_f1),
    "williams": Recomputation(williams),
    "tie_calibration": Recomputation(tie_calibration),
    "krippendorff": Recomputation(krippendorff),
}
