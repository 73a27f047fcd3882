"""Flagged texts to rates for moderation: TPR, FPR and precision by columns, and their gaps."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import fsum, inf, nextafter
from typing import Any

import numpy as np

from harness.analysis.findings import p_words
from harness.analysis.flags import AND, BLOCK, RateQuery, crossed
from harness.errors import SpecError, check_names
from harness.lazy import DataFrame, pandas
from harness.parts import digest
from harness.pipeline.choice_scores import FALSE_ALARMS, HITS
from harness.pipeline.verdict_frame import ALL
from harness.stats.clustered import ShareRows, share_gap, share_interval
from harness.stats.comparison import holm
from harness.stats.estimate import Estimate, Floats, NoValue, Resamples
from harness.stats.operating import tpr_gap_at
from harness.stats.scales import SIGNIFICANT
from harness.storage.frames import plain_rows
from harness.storage.signature import Signature, short_labels

PRECISION = "precision"
RATES = (HITS, FALSE_ALARMS, PRECISION)
"""Of positive texts those flagged, of negative ones those flagged, of flagged ones the positive.

Precision is that of texts of both kinds alone: of one kind it is 0 or 1 whatever is flagged.
"""
REST = "the rest"
NONE_FLAGGED = "nothing flagged"
MODELS = "(models)"  # the column of gaps between models
_DRAWS, _DRAWS_PER_TEST = 2000, 60
MOST_VALUES = 100  # a column with more values names single texts, not groups of them
RATE_COLUMNS = (
    *(*BLOCK, "column", "group", "rate", "value", "low", "high", "n", "clusters", "missing"),
    *("note", "score", "threshold", "chosen_on", "texts", "measured", "benign_weight"),
)
"""The columns of `rates`.

`column` is empty for all texts. `n` counts the texts behind a rate (of precision, the flagged
ones), `clusters` their originals, `missing` those without an answer or a score. `threshold` is NaN
where texts are flagged as the model answered. Of all `texts` of the run `measured` had no part in
its choice; each text of an original that might have had counts `benign_weight` times.
"""
GAP_COLUMNS = (
    *(*BLOCK, "column", "rate", "group", "against", "gap", "low", "high", "p", "p_holm", "tests"),
    *("n", "n_against", "note"),
)
"""The columns of `gaps`: a rate of one group less that of another, or of all others, -1 to 1.

`p_holm` is corrected for the `tests` gaps of the table. A gap of precision has no p: shares of
texts to detect differ between groups. `note` says why an interval is missing.
"""
_POINT = ("score_name", "threshold", "chosen_on", "texts", "measured", "benign_weight")


def _groups(texts: DataFrame, cells: DataFrame, column: str) -> DataFrame:
    """The measured texts with their `group` in a column; one with several values is in several."""
    parts = crossed(column, list(cells.columns))
    check_names(f"--by {column}: no column", parts, list(cells.columns), then=" is kept")
    values = cells[parts[0]]
    for name in parts[1:]:
        pairs = zip(values, cells[name], strict=True)
        made = [tuple(f"{a} {AND} {b}" for a in one for b in two) for one, two in pairs]
        values = pandas.Series(made, index=cells.index)
    values = values.map(lambda texts: list(dict.fromkeys(texts)))
    found = texts.assign(group=texts["sample"].map(values)).explode("group").dropna(subset="group")
    refuse_many(column, found["group"].nunique())
    return found


def refuse_many(column: str, count: int) -> None:
    """Raise SpecError for a column of more values than groups can have."""
    if count > MOST_VALUES:
        fact = f"it has {count} values, and rates are split by {MOST_VALUES} at most"
        raise SpecError(f"--by {column}: {fact}; name a column of fewer")


def _split(
    texts: DataFrame, query: RateQuery, cells: DataFrame | None
) -> Iterator[tuple[str, dict[str, DataFrame]]]:
    """The measured texts of one signature by each column's values, in alphabetical order."""
    for column in query.by if cells is not None else ():
        found = _groups(texts, cells, column)
        yield column, {str(name): own for name, own in found.groupby("group", sort=True)}


RateTexts = tuple[DataFrame, RateQuery, DataFrame]
"""The texts of a run as `flags` gives them, the query, and the cells of `sample_cells`."""


def rates(texts: DataFrame, query: RateQuery, cells: DataFrame | None = None) -> DataFrame:
    """TPR, FPR and precision of all texts, then by each column's values: RATE_COLUMNS."""
    rows = [
        [*(own[name].iloc[0] for name in BLOCK), column, group, rate, *_rate(part, rate)]
        + [own[name].iloc[0] for name in _POINT]
        for _, own in texts.groupby("signature", sort=False)
        for measured in [own[own["is_measured"]]]
        for column, values in (("", {ALL: measured}), *_split(measured, query, cells))
        for group, part in values.items()
        for rate in RATES
    ]
    return pandas.DataFrame(rows, columns=list(RATE_COLUMNS)).astype(
        dict.fromkeys(("value", "low", "high", "threshold"), "float64")
    )


def _rate(part: DataFrame, rate: str) -> tuple[object, ...]:
    found = share_interval(shares(part, rate))
    is_answered, note = part["flagged"].notna(), str(found.why or "")
    missing = int((_is_of(part, rate) & ~is_answered).sum())
    if found.value is None and rate == PRECISION:
        is_mixed = part["is_positive"][is_answered].nunique() == 2
        note = NONE_FLAGGED if is_mixed else "texts of one kind"
    elif found.value is None:
        kind = "positive" if rate == HITS else "negative"
        note = "none answered" if missing else f"no {kind} text"
    return found.value, found.low, found.high, found.n, found.clusters, missing, note


def _is_of(part: DataFrame, rate: str) -> Any:  # noqa: ANN401 - a boolean column
    return part["is_positive"].isin([True, False] if rate == PRECISION else [rate == HITS])


def shares(part: DataFrame, rate: str) -> ShareRows:
    """What each text adds to a rate: its weight, and the part of it that counts."""
    known = part[part["flagged"].notna() & _is_of(part, rate)]
    if rate == PRECISION:
        if known["is_positive"].nunique() < 2:
            return ShareRows((), (), ())
        known = known[known["flagged"] > 0]
    weights, flagged = known["weight"].to_numpy(), known["flagged"].to_numpy()
    # Weights sum to their number: as many rows as there are support the rate.
    is_one = known["weight"].nunique() < 2
    weights = np.ones(len(weights)) if is_one else weights / (fsum(weights) / len(weights))
    sizes = weights * flagged if rate == PRECISION else weights
    hits = sizes * known["is_positive"].to_numpy() if rate == PRECISION else weights * flagged
    return ShareRows(hits.tolist(), sizes.tolist(), known["cluster"].tolist())


def gaps(tables: Sequence[RateTexts]) -> DataFrame:
    """The gaps between a column's groups: GAP_COLUMNS.

    Each table is what `rates` takes. Those of TPR and FPR are tested, corrected together by Holm,
    with those of models at a wanted FPR: of the column MODELS, on the texts that both have scored.
    SpecError where two tables have rows of one signature.
    """
    recipes = Counter(one for texts, _, _ in tables for one in texts["signature"].unique())
    if twice := [one for one, count in recipes.items() if count > 1]:
        raise SpecError(f"several runs have answers of one recipe, {twice[0]}; name one of them")
    rows = [
        [*(own[name].iloc[0] for name in BLOCK), column, rate, *_gap(*sides, rate, query.least)]
        for texts, query, cells in tables
        for _, own in texts.groupby("signature", sort=False)
        for column, values in _split(own[own["is_measured"]], query, cells)
        for sides in _sides(values)
        for rate in RATES
    ]
    rows += _model_gaps(tables, others=sum(row[-4] is not None for row in rows))  # those with a p
    names = [name for name in GAP_COLUMNS if name not in ("p_holm", "tests")]
    found = pandas.DataFrame(rows, columns=names)
    is_known = found["gap"].notna() | (found["column"] == MODELS)
    found = found[is_known].reset_index(drop=True)
    found = found.astype(dict.fromkeys(("gap", "low", "high", "p"), "float64"))
    return corrected(found)[list(GAP_COLUMNS)]


def _model_gaps(tables: Sequence[RateTexts], others: int) -> list[list[object]]:
    """The TPR of each model at the wanted FPR less that of another, asked the same of one data set.

    So many draws that Holm's p of these and of so many `others` may be small.
    """
    if not tables or (fpr := tables[0][1].fpr) is None:
        return []
    every = pandas.concat([texts for texts, _, _ in tables])
    called = short_labels(dict.fromkeys(every["signature"], ""))
    data = {one: Signature.parse(one).data.partition("+")[0] for one in called}
    every = every.assign(data=every["signature"].map(data))
    ways = ["task", "data", "variant", "decoding", "judge"]
    asked = [own for _, own in every.groupby(ways, sort=False)]
    pairs = [
        pair
        for own in asked
        for pair in combinations([one for _, one in own.groupby("signature", sort=False)], 2)
    ]
    rows, known = list[list[object]](), dict[bytes, Floats]()
    draws = max(_DRAWS, _DRAWS_PER_TEST * (len(pairs) + others))
    for first, second in pairs:
        both = first.merge(second[["sample", "score", "model"]], on="sample", suffixes=("", "_b"))
        both = both[both["score"].notna() & both["score_b"].notna()]
        clusters = Resamples.of(both["cluster"].tolist(), seed=str(tables[0][1].seed), draws=draws)
        scores = both["score"].to_numpy(), both["score_b"].to_numpy()
        found = tpr_gap_at(scores, both["is_positive"].to_numpy(dtype=bool), clusters, fpr, known)
        names = [own["model"].iloc[0] for own in (first, second)]
        if len({*names}) == 1:
            names = [called[own["signature"].iloc[0]] for own in (first, second)]
        size = int(both["is_positive"].sum())
        row = [*first[[*BLOCK]].iloc[0], MODELS, HITS, *names, found.value, found.low, found.high]
        why = found.why if len(both) else "no text that both have scored"
        note = f"at an FPR of {fpr:g} of all benign texts" + f"; {why}" * bool(why)
        rows.append([*row, found.p, size, size, note])
    return rows


def corrected(tests: DataFrame) -> DataFrame:
    """Rows with `p`, NaN where nothing was tested, and Holm's `p_holm` over all their `tests`."""
    known = [None if np.isnan(p) else p for p in tests["p"]]
    p_holm = np.array(holm(known), dtype=float)
    return tests.assign(p_holm=p_holm, tests=int(tests["p"].notna().sum()))


def missing_notes(tables: Sequence[RateTexts]) -> list[str]:
    """What is missing of each run by the label of its texts, and whether beyond chance: sentences.

    As of a gap of two shares; the tests of all runs are corrected together.
    """
    found = [
        (own, *_lost_gap(own[own["is_measured"]]))
        for texts, _, _ in tables
        for _, own in texts.groupby("signature", sort=False)
    ]
    p_holm, notes = holm([gap.p for _, gap, _ in found]), []
    names = [f"{own['model'].iloc[0]}, {own['variant'].iloc[0]}" for own, _, _ in found]
    called = short_labels({own["signature"].iloc[0]: "" for own, _, _ in found})
    for (own, _, lost), name, p in zip(found, names, p_holm, strict=True):
        if not any(lost):
            continue
        is_known = names.count(name) == 1 or len(called) < len(found)
        shown = name if is_known else called[own["signature"].iloc[0]]
        counts = f"{lost[0]} texts to detect and {lost[1]} others are missing"
        words = ", unlike shares ({}): rates of those answered may mislead"
        why = words.format(p_words(p)) if p is not None and p <= SIGNIFICANT else ""
        notes.append(f"{shown}: {counts}{why}")
    return notes


def _lost_gap(texts: DataFrame) -> tuple[Estimate, tuple[int, int]]:
    """How much more of the texts to detect are missing, and how many of each kind are."""
    lost, kinds = texts["flagged"].isna(), texts["is_positive"].astype(bool)
    sides = [ShareRows.alike(lost[own], texts["cluster"][own]) for own in (kinds, ~kinds)]
    return share_gap(*sides), (int((lost & kinds).sum()), int((lost & ~kinds).sum()))


Side = tuple[str, "DataFrame"]


def _sides(values: Mapping[str, DataFrame]) -> Iterator[tuple[Side, Side]]:
    """Each group and the texts of all others; of two groups the one pair there is."""
    if len(values) < 3:
        yield from combinations(values.items(), 2)
        return
    every = pandas.concat([*values.values()])
    for group, own in values.items():
        others = every[~every.index.isin(own.index)]
        yield (group, own), (REST, others[~others.index.duplicated()])


def _gap(side: Side, other: Side, rate: str, least: int) -> list[object]:
    first, second = shares(side[1], rate), shares(other[1], rate)
    value, low, high, p, note = tested_gap(first, second, least)
    p = None if rate == PRECISION else p
    return [side[0], other[0], value, low, high, p, len(first.hits), len(second.hits), note]


def tested_gap(first: ShareRows, second: ShareRows, least: int) -> tuple[object, ...]:
    """The first share less the second, its interval, its p, and why these are missing."""
    found = share_gap(first, second)
    if min(len({*first.clusters}), len({*second.clusters})) < least:
        return found.value, None, None, None, str(NoValue.TOO_FEW)
    ends = (None, None) if found.p is None else (found.low, found.high)
    return found.value, *ends, found.p, str(found.why or "")


def point_words(row: Mapping[str, Any]) -> str:
    """From which score on the texts of a row are flagged, and which texts the rates are of.

    A chosen threshold is the number next above a score, by which it is named.
    """
    if not row["chosen_on"]:
        return f"flagged from {row['score']} {row['threshold']:.6g} on"
    above = nextafter(row["threshold"], -inf)
    said = f"flagged above {row['score']} {above:.6g}, chosen on {row['chosen_on']}"
    if row["measured"] == row["texts"]:
        return f"{said}; the rates are of texts that had no part in it"
    weight = f"{row['benign_weight']:.3g}".removesuffix(".0")
    return (
        f"{said}; the rates are of the {row['measured']} of {row['texts']} texts that had no part "
        f"in it, and in precision each benign one counts for {weight}"
    )


def rates_name(rows: DataFrame) -> str:
    """The name of the files of some rates: the task, and a digest of what they are split by."""
    cells = rows[["signature", "column", "score", "threshold"]].drop_duplicates()
    return f"{rows['task'].iloc[0]}-{digest(sorted(map(repr, plain_rows(cells))))[:8]}"
