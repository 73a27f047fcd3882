"""What no figure can be of: each function says what it was given, and what it takes."""

from collections.abc import Callable
from functools import partial
from math import inf

import numpy as np
import pytest
from support.each import each
from support.rating_tables import NAN

from harness.stats.agreement import cohen_kappa
from harness.stats.classification import auc
from harness.stats.clustered import clustered_mean
from harness.stats.comparison import holm
from harness.stats.estimate import Clusters, Estimate, NoValue, complete
from harness.stats.intervals import mean_interval
from harness.stats.ranks import mean_of, rank_models

ROW, PAIR = [[1.0, 2.0]], Clusters.named(["a", "b"])
CALLS: list[tuple[Callable[[], object], str]] = [
    *((partial(clustered_mean, [1, bad, 0], list("abc")), "1 of 3 values") for bad in (NAN, inf)),
    *(
        (partial(mean_interval, [1, bad], ["a", "b"], is_share=False), "1 of 2")
        for bad in (NAN, inf)
    ),
    *((partial(auc, np.array([1, bad]), [True, False], PAIR), "1 of 2 sc") for bad in (NAN, inf)),
    *((partial(Estimate, bad, n=3), "finite value or a reason") for bad in (None, NAN, inf)),
    (partial(Estimate, 0.5, n=3, reason=NoValue.CONSTANT), "finite value or a reason"),
    (partial(complete, ROW, [[1, 2, 3]]), r"\(1, 2\) and \(1, 3\)"),
    (partial(complete, [1, 2], [1, 2]), "1 dimensions"),
    (partial(complete, [[1, inf]], ROW), "1 infinite"),
    (partial(rank_models, np.zeros((2, 3, 2)), mean_of, seed="0"), "each model needs a score"),
    (partial(cohen_kappa, [[1, 1, 1]]), "two raters, not 3"),
    *((partial(holm, [0.5, bad]), rf"lie in 0\.\.1, not {bad}") for bad in (1.5, -0.1, NAN)),
]


@each(("call", "message"), CALLS)
def test_arguments_that_cannot_be_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
