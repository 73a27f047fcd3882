"""Two sets of texts, or two runs, to how far implicitness and rates have moved, with one alarm."""

from collections.abc import Sequence
from typing import Final

from harness.analysis.flags import LEAST
from harness.analysis.rates import RateTexts, corrected, refuse_many, tested_gap
from harness.lazy import DataFrame, pandas
from harness.pipeline.choice_scores import FALSE_ALARMS, HITS, IMPLICITNESS
from harness.pipeline.score import ALL
from harness.stats.clustered import ShareRows, share_interval
from harness.stats.shift import mean_shift, shift_test

FLAGGED: Final = "flagged"
ALARM: Final = 0.05


COLUMNS: Final = (
    *("what", "column", "group", "old", "new", "change", "low", "high", "distance", "p"),
    *("n_old", "n_new", "p_holm", "tests", "note", "is_alarm"),
)
"""The columns of `drift`: what has moved, implicitness (its mean) or a rate of a group, 0 to 1.

`change` is new less old, with its 95 % interval. `distance` is Kolmogorov and Smirnov's, 0 to 1, of
the two distributions of implicitness, NaN for rates; p is that of the distribution, or of the
change of a rate. `p_holm` is corrected for all `tests`. p is NaN where `note` says why; `is_alarm`
says that something moved beyond chance over all tests.
"""
_NUMBERS = ("old", "new", "change", "low", "high", "distance", "p")


def drift(
    old: DataFrame, new: DataFrame, *, by: Sequence[str] = (), seed: int = 0, least: int = LEAST
) -> DataFrame:
    """Implicitness first, then each rate of all texts, then by each column's groups: COLUMNS.

    A row of `old` and `new` is a text: `cluster`, shared by texts of the same words, `flagged`,
    `implicitness` and `is_positive`, NaN if unknown, and tuples for each of `by`. A rate needs
    `least` clusters on both sides to be tested.
    """
    rows = _implicitness(old, new, seed) + _rates("", ALL, old, new, least)
    for column in by:
        sides = [side.explode(column) for side in (old, new)]
        groups = sorted({name for side in sides for name in side[column].dropna()})
        refuse_many(column, len(groups))
        for name in groups:
            before, after = (side[side[column] == name] for side in sides)
            rows += _rates(column, name, before, after, least)
    found = pandas.DataFrame(rows, columns=[n for n in COLUMNS if n not in _CORRECTED])
    found = corrected(found.astype(dict.fromkeys(_NUMBERS, "float64")))
    return found.assign(is_alarm=found["p_holm"] < ALARM)[list(COLUMNS)]


_CORRECTED = ("p_holm", "tests", "is_alarm")


def run_texts(table: RateTexts) -> dict[tuple[str, str], DataFrame]:
    """The texts of a run as `drift` takes them, by variant and decoding."""
    texts, _, cells = table
    found = texts[["sample", "cluster", "implicitness"]].assign(
        is_positive=texts["is_positive"].astype(float),
        flagged=texts["flagged"].where(texts["is_measured"]),
    )
    found = found.join(cells, on="sample")
    parts = texts.groupby(["variant", "decoding"], sort=False).groups
    return {(str(one), str(other)): found.loc[at] for (one, other), at in parts.items()}


def _implicitness(old: DataFrame, new: DataFrame, seed: int) -> list[dict[str, object]]:
    known = [side[side["implicitness"].notna()] for side in (old, new)]
    if not all(map(len, known)):
        return []
    before, after = ((k["implicitness"].tolist(), k["cluster"].tolist()) for k in known)
    found, test = mean_shift(before, after), shift_test(before, after, seed=str(seed))
    means = [sum(values) / len(values) for values, _ in (before, after)]
    row = {
        **{"what": IMPLICITNESS, "column": "", "group": ALL, "old": means[0], "new": means[1]},
        **{"change": found.value, "low": found.low, "high": found.high},
        **{"distance": test.value, "p": test.p},
        **{"n_old": len(before[0]), "n_new": len(after[0])},
        "note": str(found.why or test.reason or ""),
    }
    return [row]


def _rates(
    column: str, group: str, old: DataFrame, new: DataFrame, least: int
) -> list[dict[str, object]]:
    has_labels = any(side["is_positive"].notna().any() for side in (old, new))
    found: list[dict[str, object]] = []
    for rate in (HITS, FALSE_ALARMS) if has_labels else (FLAGGED,):
        before, after = (_shares(texts, rate) for texts in (old, new))
        if before.hits and after.hits:
            ends = zip(
                ("change", "low", "high", "p", "note"),
                tested_gap(after, before, least),
                strict=True,
            )
            row: dict[str, object] = {"what": rate, "column": column, "group": group, **dict(ends)}
            row |= {"old": share_interval(before).value, "new": share_interval(after).value}
            found.append(row | {"n_old": len(before.hits), "n_new": len(after.hits)})
    return found


def _shares(texts: DataFrame, rate: str) -> ShareRows:
    known = texts[texts["flagged"].notna()]
    if rate != FLAGGED:
        known = known[known["is_positive"] == float(rate == HITS)]
    flags: list[float] = known["flagged"].tolist()
    return ShareRows(flags, [1.0] * len(flags), known["cluster"].tolist())
