"""Two tables of texts, or two runs, to what has moved: implicitness, and rates by columns."""

from collections.abc import Callable, Sequence
from math import nan
from typing import Final

from harness.analysis.flags import LEAST
from harness.analysis.rates import RateTexts, corrected, refuse_many, tested_gap
from harness.errors import SpecError
from harness.lazy import DataFrame, pandas
from harness.pipeline.choice_scores import FALSE_ALARMS, HITS, IMPLICITNESS
from harness.pipeline.verdict_frame import ALL
from harness.stats.clustered import ShareRows, share_interval
from harness.stats.scales import SIGNIFICANT
from harness.stats.shift import mean_shift, shift_test
from harness.storage.cells import flag_in, number_in
from harness.storage.runs import RunFolder
from harness.storage.tables import cells_named, column_of, read_input
from harness.text.dedup import normal

FLAGGED: Final = "flagged"
DRIFT_COLUMNS: Final = (
    *("what", "column", "group", "old", "new", "change", "low", "high", "distance", "p"),
    *("n_old", "n_new", "p_holm", "tests", "note", "is_alarm"),
)
"""The columns of `drift`: what has moved, implicitness (its mean) or a rate of a group, 0 to 1.

`change` is new less old, with its 95 % interval. `distance` is Kolmogorov and Smirnov's, 0 to 1, of
the two distributions of implicitness, NaN for rates; p is that of the distribution, or of the
change of a rate. `p_holm` is corrected for all `tests`. p is NaN where `note` says why; `is_alarm`
says that something moved beyond chance over all tests.
"""
_DRIFT_NUMBERS = ("old", "new", "change", "low", "high", "distance", "p")


def drift(
    old: DataFrame, new: DataFrame, *, by: Sequence[str] = (), seed: int = 0, least: int = LEAST
) -> DataFrame:
    """Implicitness first, then each rate of all texts, then by each column's groups: DRIFT_COLUMNS.

    A row of `old` and `new` is a text: `cluster`, shared by texts of the same words, `flagged`,
    `implicitness` and `is_positive`, NaN if unknown, and tuples for each of `by`. A rate needs
    `least` clusters on both sides to be tested.
    """
    rows = _implicitness(old, new, seed) + _moved_rates("", ALL, old, new, least)
    for column in by:
        sides = [side.explode(column) for side in (old, new)]
        groups = sorted({name for side in sides for name in side[column].dropna()})
        refuse_many(column, len(groups))
        for name in groups:
            before, after = (side[side[column] == name] for side in sides)
            rows += _moved_rates(column, name, before, after, least)
    found = pandas.DataFrame(rows, columns=[n for n in DRIFT_COLUMNS if n not in _CORRECTED])
    found = corrected(found.astype(dict.fromkeys(_DRIFT_NUMBERS, "float64")))
    return found.assign(is_alarm=found["p_holm"] <= SIGNIFICANT)[list(DRIFT_COLUMNS)]


_CORRECTED = ("p_holm", "tests", "is_alarm")


def file_texts(
    name: str,
    by: Sequence[str],
    score: Callable[[Sequence[object]], Sequence[float | None]],
    *,
    column: str | None,
    flag: str | None,
    measured: str | None,
) -> DataFrame:
    """The texts of a table, as `drift` takes them; a row without words is like no other.

    `column`, `flag` and `measured` name the columns of the texts, of what was flagged and of
    implicitness; without the last `score` gives that of each text.
    """
    if by and flag is None:
        raise SpecError("--by: splits rates by groups, of what is flagged; add --flag COLUMN")
    table, source = read_input(name, None, has_column=any((column, flag, measured, by)))
    texts = column_of(table, column, where=source)
    words = [normal(text) if isinstance(text, str) else "" for text in texts]

    def cells(of: str) -> list[tuple[str, str]]:
        return [(cell, f"{source}: column {of!r}") for cell in cells_named(table, of, source)]

    groups = {column: cells_named(table, column, source) for column in by}
    return pandas.DataFrame(
        {
            "cluster": [own or f"{source}:{at}" for at, own in enumerate(words)],
            "implicitness": [number_in(*c) for c in cells(measured)] if measured else score(texts),
            "flagged": [flag_in(*cell) for cell in cells(flag)] if flag else nan,
            "is_positive": nan,
            **{n: [(cell,) if cell else () for cell in of] for n, of in groups.items()},
        }
    ).astype({"implicitness": float, "flagged": float})


def run_texts(
    folders: Sequence[RunFolder], tables: Sequence[RateTexts], by: Sequence[str]
) -> list[DataFrame]:
    """The texts of two runs, as `drift` takes them, under the one variant and decoding of both."""
    first, second = (folder.read().run for folder in folders)
    if first.task != second.task:
        raise SpecError(f"drift: runs of {first.task} and {second.task}; name one task's")
    if len({run.data.partition("+")[2] for run in (first, second)}) > 1:
        fact = "drift: implicitness by two scorers is not on one scale"
        raise SpecError(f"{fact}; run again with one --scorer")
    sides = [_by_way(table) for table in tables]
    shared = [place for place in sides[0] if place in sides[1]]
    if len(shared) != 1:
        said = ", ".join(f"{variant} ({decoding})" for variant, decoding in shared) or "none"
        raise SpecError(f"drift: the runs share {said}; choose one by --variant")
    found = [side[shared[0]] for side in sides]
    known = {*found[0], *found[1]}
    if unknown := [name for name in by if name not in known]:
        raise SpecError(f"--by {unknown[0]}: these runs do not keep it, and their data has none")
    return [one.reindex(columns=[*one.columns, *(n for n in by if n not in one)]) for one in found]


def _by_way(table: RateTexts) -> dict[tuple[str, str], DataFrame]:
    """The texts of a run by variant and decoding."""
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


def _moved_rates(
    column: str, group: str, old: DataFrame, new: DataFrame, least: int
) -> list[dict[str, object]]:
    has_labels = any(side["is_positive"].notna().any() for side in (old, new))
    found: list[dict[str, object]] = []
    for rate in (HITS, FALSE_ALARMS) if has_labels else (FLAGGED,):
        before, after = (_moved_shares(texts, rate) for texts in (old, new))
        if before.hits and after.hits:
            names = ("change", "low", "high", "p", "note")
            ends = zip(names, tested_gap(after, before, least), strict=True)
            row: dict[str, object] = {"what": rate, "column": column, "group": group, **dict(ends)}
            row |= {"old": share_interval(before).value, "new": share_interval(after).value}
            found.append(row | {"n_old": len(before.hits), "n_new": len(after.hits)})
    return found


def _moved_shares(texts: DataFrame, rate: str) -> ShareRows:
    known = texts[texts["flagged"].notna()]
    if rate != FLAGGED:
        known = known[known["is_positive"] == float(rate == HITS)]
    return ShareRows.alike(known["flagged"].tolist(), known["cluster"].tolist())
