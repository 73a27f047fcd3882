"""Rows of scores and verdicts to the frames that boards, alarms and fitness are made of."""

from collections.abc import Mapping, Sequence

import pandas
from pandas import DataFrame

from harness.analysis.boards.scores import board_scores
from harness.analysis.boards.verdicts import sorted_names
from harness.storage.runs import ScoreRow, table_text

NAMES = ("signature", "sample", "variant", "decoding", "cluster")


def scores_of(rows: Sequence[ScoreRow]) -> DataFrame:
    return board_scores({"run": table_text(rows)})


def verdicts_on(values: Mapping[str, Sequence[float]]) -> DataFrame:
    """Verdicts on the same items, each a cluster, by the signatures of their scores."""
    rows = [
        (name, f"{at:04}", "base", "T0.3", f"{at:04}", value, value, 1.0)
        for name, own in values.items()
        for at, value in enumerate(own)
    ]
    found = pandas.DataFrame(rows, columns=[*NAMES, "value", "part_0", "part_1"])
    return found.assign(**{name: sorted_names(found[name]) for name in NAMES})
