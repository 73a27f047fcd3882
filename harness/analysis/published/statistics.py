"""Worked examples of the papers that define our statistics to what our own code gives."""

from collections.abc import Mapping, Sequence

import numpy as np

from harness.analysis.verify import FromInputs
from harness.stats.agreement import alpha
from harness.stats.comparison import williams_test
from harness.stats.correlation import calibrated_acc_eq, pearson

Inputs = Mapping[str, Sequence[float]]


def williams(inputs: Inputs) -> Mapping[str, float | None]:
    """Williams' t and p of three correlations, and of three vectors of raw values."""
    first, second, between = inputs["correlations"]
    stated = williams_test(first, second, between, n=int(inputs["n"][0]))
    gold, one, other = (inputs[name] for name in ("gold", "first_metric", "second_metric"))
    first_r, second_r, between_r = (
        pearson(*pair).value or 0.0 for pair in ((gold, one), (gold, other), (one, other))
    )
    raw = williams_test(first_r, second_r, between_r, n=len(gold), alternative="greater")
    return {
        "t_of_correlations": stated.statistic,
        "p_of_correlations": stated.p,
        "first_r": first_r,
        "second_r": second_r,
        "one_sided_p": raw.p,
    }


def tie_calibration(inputs: Inputs) -> Mapping[str, float | None]:
    """The best tie threshold and the accuracy there, of one metric with two sets of ratings."""
    metric, values = [inputs["metric"]], dict[str, float | None]()
    for name in ("without_ties", "with_ties"):
        best = calibrated_acc_eq([inputs[name]], metric)
        values |= {
            f"{name}_epsilon": best.epsilons[0] if best.epsilons else None,
            f"{name}_accuracy": best.estimate.value,
        }
    return values


def krippendorff(inputs: Inputs) -> Mapping[str, float | None]:
    """Krippendorff's alpha of four observers, some of whose values are missing, by scale."""
    observers = ("observer_a", "observer_b", "observer_c", "observer_d")
    ratings = np.array([inputs[name] for name in observers]).T
    return {
        "nominal": alpha(ratings, "nominal").value,
        "ordinal": alpha(ratings, "ordinal").value,
        "interval": alpha(ratings, "interval").value,
    }


RECOMPUTATIONS = {
    "williams": FromInputs(williams),
    "tie_calibration": FromInputs(tie_calibration),
    "krippendorff": FromInputs(krippendorff),
}
