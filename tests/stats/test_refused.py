"""What no figure can be of: each function says what it was given, and what it takes."""

from collections.abc import Callable
from functools import partial
from math import inf

import numpy as np
import pytest
from support.each import each
from support.rating_tables import NAN

from harness.stats.agreement import cohen_kappa
from harness.stats.classification import auc, calibration_error
from harness.stats.clustered import clustered_mean
from harness.stats.comparison import annotator_test, fourfold, holm
from harness.stats.comparison import williams_test as williams
from harness.stats.correlation import cross_fitted_acc_eq, document_accuracies
from harness.stats.estimate import Clusters, Estimate, NoValue, Resamples, complete
from harness.stats.intervals import mean_interval
from harness.stats.ranks import mean_of, rank_models

ROW, PAIR = [[1.0, 2.0]], Clusters.named(["a", "b"])
judged = partial(annotator_test, np.ones((4, 2)), alignment="rmse")
CALLS: list[tuple[Callable[[], object], str]] = [
    *((partial(clustered_mean, [1, bad, 0], list("abc")), "1 of 3 values") for bad in (NAN, inf)),
    *(
        (partial(mean_interval, [1, bad], ["a", "b"], is_share=False), "1 of 2")
        for bad in (NAN, inf)
    ),
    *((partial(auc, np.array([1, bad]), [True, False], PAIR), "1 of 2 sc") for bad in (NAN, inf)),
    *((partial(clustered_mean, [1.0], ["a"], level=at), "0 < level < 1") for at in (0, 1, 95)),
    *((partial(Estimate, bad, n=3), "finite value or a reason") for bad in (None, NAN, inf)),
    (partial(Estimate, 0.5, n=3, reason=NoValue.CONSTANT), "finite value or a reason"),
    (partial(complete, ROW, [[1, 2, 3]]), r"\(1, 2\) and \(1, 3\)"),
    (partial(complete, [1, 2], [1, 2]), "1 dimensions"),
    (partial(complete, [[1, inf]], ROW), "1 infinite"),
    (partial(judged, np.ones(3), epsilon=0.1), "3 ratings for 4 units"),
    *((partial(judged, np.ones(4), epsilon=bad), "4 ratings for 4 units") for bad in (-0.1, 1.0)),
    (partial(calibration_error, [0.5], []), "1 confidences for 0 credits"),
    *((partial(calibration_error, [bad], [1.0]), f"not at {bad}") for bad in (1.5, -0.1, NAN)),
    (partial(rank_models, np.zeros((2, 3, 2)), mean_of, seed="0"), "each model needs a score"),
    (partial(Resamples.of, ["a", "b"], seed="s", draws=0), "one draw"),
    (partial(cohen_kappa, [[1, 1, 1]]), "two raters, not 3"),
    (partial(williams, 1.1, 0.5, 0.1, n=9), r"lie in -1\.\.1, not 1\.1"),
    *((partial(holm, [0.5, bad]), rf"lie in 0\.\.1, not {bad}") for bad in (1.5, -0.1, NAN)),
    (partial(fourfold, [True], [True, False]), "1 verdicts and 2"),
    (partial(cross_fitted_acc_eq, ROW, ROW, ["a", "b"], seed="s"), "2 clusters for 1 documents"),
    (partial(cross_fitted_acc_eq, ROW, ROW, ["a"], seed="s", folds=1), "and 1 folds"),
    *((partial(document_accuracies, ROW, ROW, epsilon=e), f"more, not {e}") for e in (-0.1, NAN)),
]


@each(("call", "message"), CALLS)
def test_arguments_that_cannot_be_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
