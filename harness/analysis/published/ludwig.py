"""LUDWIG: five people's answers to each implicature to their accuracy and agreement."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from harness.analysis.verify import FromFiles
from harness.errors import DataError
from harness.stats.agreement import alpha
from harness.stats.estimate import Floats
from harness.storage.tables import TableRow, read_rows

FILES = tuple(f"human_eval_{part}.csv" for part in ("1-150", "151-300", "301-450", "451-600"))
_GOLD, _RATERS = "Ground truth", tuple(f"Annotator {number}" for number in range(1, 6))
_ANSWERS = {"yes": 1.0, "no": 0.0}


def people(folder: Path) -> Mapping[str, float | None]:
    """The accuracy of people, one by one and by majority, and their agreement."""
    rows = [row for name in FILES for row in read_rows(folder / name, [_GOLD, *_RATERS])]
    ratings, gold = _ratings(rows), np.array([_answer(row, _GOLD) for row in rows])
    yes = ratings.sum(axis=1)
    is_wrong = (yes > len(_RATERS) / 2) != (gold == 1)
    minority = Counter(int(min(count, len(_RATERS) - count)) for count in yes)
    is_unanimous = (yes == 0) | (yes == len(_RATERS))
    return {
        "items": len(rows),
        "annotator_accuracy": float((ratings == gold[:, None]).mean()),
        "majority_accuracy": float(1 - is_wrong.mean()),
        "nominal_alpha": alpha(ratings, "nominal").value,
        "unanimous": minority[0],
        "four_to_one": minority[1],
        "three_to_two": minority[2],
        "majority_against_gold": int(is_wrong.sum()),
        "unanimous_against_gold": int((is_wrong & is_unanimous).sum()),
    }


def _ratings(rows: list[TableRow]) -> Floats:
    return np.array([[_answer(row, name) for name in _RATERS] for row in rows])


def _answer(row: TableRow, column: str) -> float:
    """Yes or no, whatever its case and full stop."""
    answer = row.cells[column].strip().rstrip(".").lower()
    if answer not in _ANSWERS:
        raise DataError(
            f"{row.place}: {column} says {row.cells[column]!r}, not Yes or No; fetch the file again"
        )
    return _ANSWERS[answer]


RECOMPUTATIONS = {"ludwig": FromFiles(FILES, people)}
