"""Ranks of models, and from which to which each may be: as far as their differences are known."""

from itertools import product

import numpy as np
import pytest

from harness.stats.classification import classification_metrics
from harness.stats.estimate import Resamples
from harness.stats.ranks import ModelRanking, informedness, macro_f1_of, mean_of, rank_models


def ranked(
    verdicts: np.ndarray, *, size: int = 1, seed: str = "0", draws: int = 10_000
) -> ModelRanking:
    """The ranking of verdicts, models x items, in clusters of so many items."""
    models, items = verdicts.shape
    values = verdicts.reshape(models, items // size, size).sum(axis=2)
    sums = np.stack([values, np.full_like(values, size)], axis=2)
    return rank_models(sums, mean_of, seed=seed, draws=draws)


def test_the_better_model_is_above_and_apart() -> None:
    found = ranked(np.array([[0.0] * 30, [1.0] * 30, [1.0] * 30]))
    assert found.values == (0.0, 1.0, 1.0)
    assert (found.ranks, found.best, found.worst) == ((3, 1, 1), (3, 1, 1), (3, 2, 2))


def test_a_model_between_two_that_differ_may_be_either_of_them() -> None:
    # 30 of 30 against 26, and 26 against 22, are no difference; 30 against 22 is one.
    lines = [[1.0] * hits + [0.0] * (30 - hits) for hits in (30, 26, 22)]
    found = ranked(np.array(lines))

    assert found.p[0, 2] <= 0.05 < min(found.p[0, 1], found.p[1, 2])
    assert found.ranks == (1, 2, 3)
    assert [*zip(found.best, found.worst, strict=True)] == [(1, 2), (1, 3), (2, 3)]


def test_two_models_that_differ_are_told_apart_among_eight_that_neither_differs_from() -> None:
    # The one has 60 of 60, the other 48, and each of eight fails at three items of its own: twelve
    # of twelve have p .0005, times 45 pairs .022; twelve of fifteen .035, and three of three .25.
    lines = np.ones((10, 60))
    lines[9, :12] = 0
    for place in range(1, 9):
        lines[place, 3 * place + 9 : 3 * place + 12] = 0

    found = ranked(lines)

    assert {pair for pair, p in found.p.items() if p <= 0.05} == {(0, 9)}
    assert (found.best, found.worst) == ((1,) * 9 + (2,), (9,) + (10,) * 9)


def test_of_few_clusters_every_swap_is_tried() -> None:
    first, second = np.array([3.0, 1.0, 2.0, 0.0]), np.array([1.0, 1.0, 0.0, 1.0])
    signs = [np.dot(sign, first - second) for sign in product((1, -1), repeat=4)]
    p = np.mean(np.abs(signs) >= abs((first - second).sum()))

    assert ranked(np.array([first, second])).p[0, 1] == pytest.approx(p)


def test_many_pairs_have_enough_draws_to_be_separated() -> None:
    # 780 pairs: the smallest p of 10,000 draws would be .078 after Holm.
    lines = np.repeat(np.arange(40) % 2, 60).reshape(40, 60).astype(float)
    found = ranked(lines)
    assert (found.best, found.worst) == ((21, 1) * 20, (40, 20) * 20)


@pytest.mark.slow
def test_a_hundred_models_of_two_kinds_are_told_apart_in_a_second() -> None:
    # 4,950 pairs of 198,000 draws each, were they all needed.
    draw = np.random.default_rng(3)
    lines = draw.random((100, 60)) < np.where(np.arange(100) < 50, 0.02, 0.98)[:, None]
    found = ranked(lines.astype(float))

    assert (found.best, found.worst) == ((51,) * 50 + (1,) * 50, (100,) * 50 + (50,) * 50)
    assert all((p > 0.05) == ((a < 50) == (b < 50)) for (a, b), p in found.p.items())


def test_informedness_is_the_rate_of_hits_less_that_of_false_alarms() -> None:
    assert informedness(np.array([[8.0, 10.0, 3.0, 12.0]])).tolist() == [0.8 - 0.25]


def test_macro_f1_is_that_of_the_scores() -> None:
    draw = np.random.default_rng(1)
    gold, given = draw.integers(0, 3, 50), draw.integers(0, 3, 50)
    hits = [((gold == c) & (given == c)).sum() for c in range(4)]
    times = [(gold == c).sum() + (given == c).sum() for c in range(4)]
    clusters = Resamples.of([*map(str, range(50))], seed="0", draws=10)
    other = classification_metrics(np.eye(4)[gold], np.eye(4)[given], clusters)[1]

    found = macro_f1_of(np.array([[*hits, *times]], dtype=float))

    assert found[0] == pytest.approx(other.value)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "shared"), [(1, 0.0), (5, 0.3)])
def test_ten_equal_models_may_have_any_rank_in_19_runs_of_20(size: int, shared: float) -> None:
    draw, apart = np.random.default_rng(2), 0
    for number in range(200):
        odds = 0.7 + shared * (draw.random((10, 100 // size)) - 0.5)
        verdicts = (draw.random((10, 100)) < np.repeat(odds, size, axis=1)).astype(float)
        found = ranked(verdicts, size=size, seed=str(number))
        is_apart = min(found.p.values()) <= 0.05
        assert (max(found.best) > 1) == (min(found.worst) < 10) == is_apart
        apart += is_apart

    assert apart <= 20  # 5 % of 200, and three standard errors
