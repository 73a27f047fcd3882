import numpy as np
import pytest
from scipy.stats import t

from harness.stats.clustered import Range, jackknife_interval
from harness.stats.estimate import Estimate, Floats, NoValue


def left_out(values: Floats) -> Floats:
    return np.asarray((values.sum() - values) / (len(values) - 1), dtype=np.float64)


def test_the_jackknife_of_a_mean_is_students_interval() -> None:
    values = np.array([3.0, 1, 4, 1, 5, 9, 2, 6])
    error = values.std(ddof=1) / np.sqrt(8)
    reach = t.ppf(0.975, 7) * error

    found = jackknife_interval(Estimate(values.mean(), 8), left_out(values), range_="any")

    assert (found.low, found.high) == pytest.approx((values.mean() - reach, values.mean() + reach))
    assert found.n == 8


@pytest.mark.parametrize(("range_", "least", "most"), [("correlation", -1, 1), ("share", 0, 1)])
def test_the_ends_stay_within_the_range(range_: Range, least: int, most: int) -> None:
    without = np.array([0.2, 0.99, 0.6, 0.97])

    found = jackknife_interval(Estimate(0.95, 4), without, range_=range_)

    assert found.low is not None
    assert found.high is not None
    assert least < found.low < 0.95 < found.high < most


@pytest.mark.parametrize(
    ("without", "range_", "reason"),
    [
        ([0.5, 0.4], "any", NoValue.TOO_FEW),
        ([0.5, np.nan, 0.4], "any", NoValue.TOO_FEW),
        ([0.5, 0.5, 0.5], "any", NoValue.CONSTANT),
        ([0.5, 1.0, 0.4], "correlation", NoValue.DEGENERATE),
        ([0.5, 0.0, 0.4], "share", NoValue.DEGENERATE),
    ],
)
def test_what_has_no_interval_says_why(
    without: list[float], range_: Range, reason: NoValue
) -> None:
    found = jackknife_interval(Estimate(0.5, 3), np.array(without), range_=range_)

    assert (found.low, found.high, found.why) == (None, None, reason)


def test_an_estimate_without_value_keeps_its_reason() -> None:
    none = Estimate(None, 0, reason=NoValue.ONE_RATER)

    assert jackknife_interval(none, np.zeros(3), range_="any").reason is NoValue.ONE_RATER
