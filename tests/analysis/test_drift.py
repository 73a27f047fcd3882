"""Two sets of texts to what has moved: found where planted, and rarely where nothing has."""

import numpy as np
import pytest
from pandas import DataFrame
from scipy import stats

from harness.analysis.drift import drift
from harness.errors import SpecError
from harness.stats.shift import mean_shift, shift_test

COLUMNS = ("cluster", "implicitness", "flagged", "is_positive")
GROUPS = ("north", "south", "isles", "delta")


def texts(
    draw: np.random.Generator,
    count: int = 200,
    *,
    at: float = 0.8,
    rate: float = 0.6,
    isles: float | None = None,
    name: str = "",
) -> DataFrame:
    """Texts of four groups, half of them to detect; the hit rate of one may be its own."""
    found = []
    for n in range(count):
        group = GROUPS[n % 4]
        is_positive = n % 8 < 4
        own = isles if isles is not None and group == "isles" else rate
        said = float(draw.random() < (own if is_positive else 0.2))
        value = float(draw.gamma(4, at / 4))
        found.append((f"{name}{n}", value, said, float(is_positive), (group,)))
    return DataFrame(found, columns=[*COLUMNS, "target"])


def test_rows_are_those_counted_by_hand() -> None:
    old = [(f"o{n}", 0.1 * n, float(n < 5), float(n < 10)) for n in range(20)]
    new = [(f"n{n}", 0.1 * n + 1, float(n < 8), float(n < 10)) for n in range(20)]

    rows = drift(*(DataFrame(side, columns=COLUMNS) for side in (old, new)))
    found = {row.what: row for row in rows.itertuples()}

    assert list(found) == ["implicitness", "tpr", "fpr"]
    assert (found["implicitness"].old, found["implicitness"].new) == pytest.approx((0.95, 1.95))
    assert found["implicitness"].distance == pytest.approx(0.5)
    assert (found["tpr"].old, found["tpr"].new, found["tpr"].n_old) == (0.5, 0.8, 10)
    assert found["fpr"].change == 0
    assert all(row.tests == 3 for row in found.values())


def test_the_change_of_the_mean_is_welch_s_and_the_distance_kolmogorov_s() -> None:
    draw = np.random.default_rng(4)
    old, new = draw.normal(0, 1, 30).tolist(), draw.normal(0.7, 2, 50).tolist()
    names = [f"c{n}" for n in range(80)]
    sides = (old, names[:30]), (new, names[30:])

    mean, test = mean_shift(*sides), shift_test(*sides, seed="1")

    welch = stats.ttest_ind(new, old, equal_var=False)
    assert mean.statistic == pytest.approx(welch.statistic)
    assert mean.p == pytest.approx(welch.pvalue, rel=0.02)  # whole degrees of freedom
    exact = stats.ks_2samp(old, new)
    assert test.value == pytest.approx(exact.statistic)
    assert test.p == pytest.approx(exact.pvalue, abs=0.02)


def test_copies_of_a_text_count_once() -> None:
    draw = np.random.default_rng(2)
    old, new = draw.normal(0, 1, 8).tolist(), draw.normal(0.6, 1, 8).tolist()
    once = (old, [f"o{n}" for n in range(8)]), (new, [f"n{n}" for n in range(8)])
    many = [([*values] * 9, [*clusters] * 9) for values, clusters in once]

    assert mean_shift(*many).p == pytest.approx(mean_shift(*once).p)
    assert shift_test(*many, seed="1").p == pytest.approx(shift_test(*once, seed="1").p, abs=0.02)


def test_equal_sets_have_not_moved_and_a_column_of_names_is_refused() -> None:
    same = texts(np.random.default_rng(1), 40)
    found = drift(same, same, by=("target",))
    assert not found["is_alarm"].any()
    assert set(found[found["column"] != ""]["note"]) == {"too few"}

    rows = [(f"t{n}", 0.1, 1.0, 1.0, (f"t{n}",)) for n in range(101)]
    many = DataFrame(rows, columns=[*COLUMNS, "id"])
    with pytest.raises(SpecError, match="101 values"):
        drift(many, many, by=("id",))


@pytest.mark.slow
def test_data_without_drift_alarms_once_in_twenty_times_and_drift_is_found() -> None:
    draws, alarms, shifted, dropped = 400, 0, 0, 0
    for seed in range(draws):
        draw = np.random.default_rng(seed)
        old = texts(draw, name="o")
        alarms += drift(old, texts(draw, name="n"), by=("target",))["is_alarm"].any()
        if seed < 100:
            later = texts(draw, at=1.1, name="n")
            shifted += drift(old, later, by=("target",))["is_alarm"].iloc[0]
            worse = drift(
                texts(draw, 800, name="o"), texts(draw, 800, isles=0.2, name="n"), by=("target",)
            )
            is_found = (worse["what"] == "tpr") & (worse["group"] == "isles") & worse["is_alarm"]
            dropped += is_found.any()

    assert 0.03 <= alarms / draws <= 0.07
    assert shifted >= 80
    assert dropped >= 80
