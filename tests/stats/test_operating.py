"""Thresholds that keep a rate of false alarms, and models compared at their own thresholds."""

import numpy as np
import pytest

from harness.stats.estimate import Bools, Floats, NoValue, Resamples
from harness.stats.operating import threshold_below, tpr_gap_at


def drawn(seed: int, shift: float = 0.0, texts: int = 60) -> tuple[Floats, Floats]:
    """Scores of two models, rounded so that some are equal; the first half are positive."""
    random, is_positive = np.random.default_rng(seed), np.arange(texts) < texts / 2
    own = random.normal(size=(3, texts))
    one, other = (np.round(own[0] + side + is_positive * 1.5, 1) for side in own[1:])
    return one + shift * is_positive, other


def tpr(scores: Floats, is_positive: Bools, rate: float) -> float:
    above, ends = threshold_below(scores[~is_positive].tolist(), rate)
    return float((scores[is_positive] > above).mean()) if ends else 0.0


def test_both_thresholds_are_chosen_anew_in_each_draw_of_whole_clusters() -> None:
    scores, is_positive = drawn(3), np.arange(60) < 30
    places = Resamples.of([f"c{n % 20}" for n in range(60)], seed="0", draws=200)

    found = tpr_gap_at(scores, is_positive, places, 0.2)

    gaps = []
    for counts in np.concatenate([*places.counts()]):
        rows = np.repeat(np.arange(60), counts[places.places].astype(int))
        sides = [tpr(own[rows], is_positive[rows], 0.2) for own in scores]
        gaps.append(sides[0] - sides[1])
    assert found.value == tpr(scores[0], is_positive, 0.2) - tpr(scores[1], is_positive, 0.2)
    assert [found.low, found.high] == pytest.approx(np.quantile(gaps, [0.025, 0.975]).tolist())
    nearer = min(np.less_equal(gaps, 1e-12).sum(), np.greater_equal(gaps, -1e-12).sum())
    assert found.p == pytest.approx(min(1, 2 * (nearer + 1) / 201))


def test_equal_models_do_not_differ_and_too_few_benign_texts_have_no_threshold() -> None:
    is_positive, rows = np.arange(60) < 30, [str(n) for n in range(60)]
    resamples = Resamples.of(rows, seed="0", draws=500)
    one, other = drawn(1, shift=3.0)

    same = tpr_gap_at((one, one), is_positive, resamples, 0.1)
    apart = tpr_gap_at((one, other), is_positive, resamples, 0.1)
    none = tpr_gap_at((one, other), is_positive, resamples, 0.01)
    few = tpr_gap_at((one, other), is_positive, resamples, 0.033)  # 30 are just enough

    assert (same.value, same.low, same.high, same.p) == (0, 0, 0, 1)
    assert apart.p is not None
    assert apart.p < 0.05
    assert (none.value, none.reason) == (None, NoValue.TOO_FEW)
    assert few.value is not None
    assert (few.low, few.p, few.why) == (None, None, NoValue.TOO_FEW)
