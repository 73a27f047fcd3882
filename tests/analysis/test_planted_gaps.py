"""A planted gap between target groups is found, and none in data without one."""

from dataclasses import replace

import numpy as np
import pytest
from pandas import DataFrame
from support.hate_rows import text, written

from harness.analysis.flags import RateQuery, flags, sample_cells
from harness.analysis.rates import gaps
from harness.storage.run_tables import SampleRecord

GROUPS = ("north", "south", "isles", "delta", "upland")
PLANTED = "isles"


def answers(
    draw: np.random.Generator, *, planted: float = 0.75, each: int = 80
) -> list[SampleRecord]:
    """Texts of five groups, half to detect: hit rate .75, of one group as planted; FPR .2."""
    found = []
    for group in GROUPS:
        for n in range(each):
            is_hateful = n % 2 == 0
            rate = (planted if group == PLANTED else 0.75) if is_hateful else 0.2
            said = float(draw.random() < rate)
            row = text(f"{group}{n}", is_hateful=is_hateful, at=0.5, said=said)
            kept = {**row.sample.references, "target": (group,)}
            found.append(replace(row, sample=replace(row.sample, references=kept)))
    return found


def sure(rows: list[SampleRecord]) -> DataFrame:
    """The gaps that are beyond chance over all gaps of the command."""
    query, folder = RateQuery(by=("target",)), written(rows)
    found = gaps([(flags(folder, query), query, sample_cells(folder))])
    return found[found["p_holm"] < 0.05]


def test_a_great_planted_gap_is_found_where_it_was_planted() -> None:
    found = sure(answers(np.random.default_rng(1), planted=0.1))
    least = found.loc[found["p"].idxmin()]
    assert (least["group"], least["rate"]) == (PLANTED, "tpr")


@pytest.mark.slow
def test_planted_gaps_are_found_and_data_without_gaps_has_one_in_twenty_times() -> None:
    alarms = [len(sure(answers(np.random.default_rng(seed)))) > 0 for seed in range(600)]
    hits = [
        ((found["group"] == PLANTED) & (found["rate"] == "tpr")).any()
        for seed in range(100)
        for found in [sure(answers(np.random.default_rng(5000 + seed), planted=0.4))]
    ]
    assert 0.03 <= np.mean(alarms) <= 0.07
    assert np.mean(hits) >= 0.8
