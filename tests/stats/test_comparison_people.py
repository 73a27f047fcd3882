"""Statistics with one side prepared are the statistics themselves."""

from collections.abc import Callable

import numpy as np
import pytest
from support.each import each
from support.rating_tables import BARREN, table_pair

from harness.stats.comparison import Statistic, permutation_test
from harness.stats.correlation import (
    dataset_pearson,
    document_tau_zero,
    pearson_against,
    tau_zero_against,
)
from harness.stats.estimate import Floats, complete

Prepared = Callable[[Floats], Statistic]
PAIRS: list[tuple[Prepared, Statistic]] = [
    (pearson_against, dataset_pearson),
    (tau_zero_against, document_tau_zero),
]


@each(("prepared", "plain"), PAIRS)
@each("seed", range(8))
def test_the_value_is_that_of_the_plain_statistic(
    prepared: Prepared, plain: Statistic, seed: int
) -> None:
    human, judge = complete(*table_pair(seed))

    found, expected = prepared(human)(human, judge), plain(human, judge)

    assert found.value == pytest.approx(expected.value, abs=1e-12)
    assert prepared is pearson_against or (found.n, found.skipped) == (expected.n, expected.skipped)


@each(("prepared", "plain"), PAIRS)
@each("name", BARREN)
def test_it_is_null_where_the_plain_statistic_is(
    prepared: Prepared, plain: Statistic, name: str
) -> None:
    rows = BARREN[name]

    found = prepared(rows)(rows, rows)

    assert (found.value is None) == (plain(rows, rows).value is None)


@pytest.mark.parametrize(("prepared", "plain"), PAIRS)
def test_a_permutation_test_comes_to_the_same_p(prepared: Prepared, plain: Statistic) -> None:
    human, first = table_pair(1)
    second = table_pair(2)[1]
    shared = np.where(np.isnan(first) | np.isnan(second), np.nan, human)

    tests = [
        permutation_test(shared, (first, second), way, seed="0", draws=200)
        for way in (prepared(shared), plain)
    ]

    assert (tests[0].p, tests[0].n) == (tests[1].p, tests[1].n)
