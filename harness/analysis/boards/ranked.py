"""Scores of runs to boards: ranks and groups of models on the items that all of them have.

Rows share a board only where their signatures differ in nothing but the model. A board is ranked
by the headline's mean; where texts have labels, by macro F1, or by the rate of hits less that of
false alarms, for there a constant answer may have a high accuracy. Controls and constant answers
have no rank. Rows are rows of frames. Nothing here writes a file.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, Final, NamedTuple

import numpy as np

from harness.analysis.boards.alarms import constant_runs
from harness.analysis.boards.scores import board_scores, headlines
from harness.analysis.boards.verdicts import Held, board_verdicts, held_verdicts
from harness.errors import StoreError
from harness.lazy import DataFrame
from harness.pipeline.choice_scores import FALSE_ALARMS, HITS, MACRO
from harness.pipeline.score import ALL
from harness.stats.clustered import jackknife_interval
from harness.stats.estimate import Clusters, Estimate
from harness.stats.ranks import (
    ModelRanking,
    Pooled,
    informedness,
    macro_f1_of,
    mean_of,
    rank_groups,
)
from harness.storage.runs import RunFolder, ScoreRow

_log = logging.getLogger(__name__)
CONTROL: Final = "scripted"
"""The kind of the models that are built with the answers, or with none."""
LEAST_SHARED = 0.5
"""A model without this share of the verdicts that others have would leave them too few items."""
_SEED = "0"
_RANKED = ("rank", "rank_group", "shared", "rank_items", "rank_clusters")
POOLED: Final[Mapping[str, Pooled]] = {
    "mean": mean_of,
    MACRO: macro_f1_of,
    "tpr_less_fpr": informedness,
    "tpr_at_fpr": mean_of,  # of positive texts alone
}
"""What a board may be ranked by, with the score that sums over items make."""
RANKING: Final = {MACRO: "macro F1", "tpr_less_fpr": "TPR-FPR", "tpr_at_fpr": "TPR"}
"""What people call it; the mean has the name of its metric."""


def leaderboard(
    tables: Mapping[RunFolder, Sequence[ScoreRow] | None],
) -> tuple[DataFrame, DataFrame, DataFrame, set[RunFolder]]:
    """Scores, their standings and the verdicts behind these, and the runs that are left out.

    Left out, after a warning, are runs without scores, and those that are to be ranked with others
    and whose verdicts are damaged.
    """
    lost = {folder for folder, rows in tables.items() if rows is None}
    scores = board_scores(tables)
    while True:
        kept = {folder: rows for folder, rows in tables.items() if folder not in lost}
        try:
            verdicts = board_verdicts([*kept], _needed(scores))
        except StoreError:
            lost |= {folder for folder in kept if _is_damaged(folder, scores)}
            scores = board_scores({f: rows for f, rows in kept.items() if f not in lost})
        else:
            return scores, standings(scores, verdicts), verdicts, lost


def _is_damaged(folder: RunFolder, scores: DataFrame) -> bool:
    try:
        board_verdicts([folder], _needed(scores))
    except StoreError as error:
        _log.warning("%s: the run is left out", error)
        return True
    return False


def verdicts_of(folders: Iterable[RunFolder], scores: DataFrame) -> DataFrame:
    """The verdicts that `standings` and the fitness of judges need, as `board_verdicts`."""
    return board_verdicts([*folders], _needed(scores))


def _needed(scores: DataFrame) -> DataFrame:
    """The headlines whose verdicts are read: those that share a board, or have rates."""
    heads = headlines(scores)
    sizes = heads.groupby("recipe", observed=True)["signature"].transform("size")
    rates = scores.loc[(scores["metric"] == HITS) & (scores["group"] == ALL), "signature"]
    return heads[(sizes > 1) | heads["signature"].isin(set(rates))]


def standings(scores: DataFrame, verdicts: DataFrame) -> DataFrame:
    """The headlines of all boards, board after board, the best model of each first.

    The columns of `board_scores`, where `value`, `low` and `high` are now of what the board ranks
    by, over the model's own items; `score`, `score_low` and `score_high` are the headline's; then

    - `board`: the number of the board; `ranked_by`: a name of POOLED;
    - `is_control`, `is_constant`: a control, or nearly the same answer to all texts: no rank;
    - `shared`: the value on the items that all ranked models have;
    - `rank`, `rank_group`: NaN without a rank; models without a known order share a group;
    - `rank_items`, `rank_clusters`: what the board ranks on, NaN where verdicts are not known;
    - `tpr`, `fpr`, `has_rates`: the rates; `why`: why their difference has no interval.
    """
    heads = unranked(headlines(scores), constant_runs(scores))
    return ranked(_ranked_values(heads, scores), verdicts)


def unranked(heads: DataFrame, constant: Collection[str]) -> DataFrame:
    """Headlines with the columns of `standings`, ranked by their mean and without a rank so far.

    `constant` has the signatures of runs that give all texts one label.
    """
    heads = heads.reset_index(drop=True)
    return heads.assign(
        **{"score": heads["value"], "score_low": heads["low"], "score_high": heads["high"]},
        **{"tpr": np.nan, "fpr": np.nan, "has_rates": False, "why": None, "ranked_by": "mean"},
        **dict.fromkeys(_RANKED, np.nan),
        board=heads.groupby("recipe", observed=True, sort=False).ngroup(),
        is_control=(heads["kind"] == CONTROL).astype(bool),
        is_constant=heads["signature"].isin(constant),
    )


def _ranked_values(heads: DataFrame, scores: DataFrame) -> DataFrame:
    """Headlines with the value that their boards rank by."""
    overall = scores[scores["group"] == ALL]
    of = {
        name: overall[overall["metric"] == name].drop_duplicates("signature").set_index("signature")
        for name in (HITS, FALSE_ALARMS, MACRO)
    }
    signatures = heads["signature"].astype("object")
    tpr, fpr = (signatures.map(of[m]["value"]).astype(float) for m in (HITS, FALSE_ALARMS))
    has_rates = signatures.isin({*of[HITS].index, *of[FALSE_ALARMS].index})
    has_macro = signatures.isin({*of[MACRO].index}) & ~has_rates
    heads = heads.assign(tpr=tpr, fpr=fpr, has_rates=has_rates)
    for name in ("value", "low", "high"):
        macro = signatures.map(of[MACRO][name]).astype(float)
        rates = tpr - fpr if name == "value" else np.nan
        heads[name] = heads[name].where(~has_macro, macro).where(~has_rates, rates)
    heads.loc[has_macro, "ranked_by"] = MACRO
    heads.loc[has_rates, "ranked_by"] = "tpr_less_fpr"
    return heads


def ranked(heads: DataFrame, verdicts: DataFrame) -> DataFrame:
    """Rows of `unranked`, as `standings`: with ranks, and in their order."""
    held = held_verdicts(verdicts)
    heads = _with_intervals(heads, held)
    made = {name: heads[name].to_numpy(copy=True) for name in _RANKED}
    values, signatures = heads["value"].to_numpy(), heads["signature"].tolist()
    is_apart = (heads["is_control"] | heads["is_constant"]).to_numpy(dtype=bool)
    is_able, by = ~np.isnan(values) & ~is_apart, heads["ranked_by"].tolist()
    for places in heads.groupby("board").indices.values():
        able = places[is_able[places]]
        if len(able) < 2 or any(signatures[at] not in held for at in able):
            for at in able:
                made["rank"][at] = 1 + int((values[able] > values[at]).sum())
            continue
        found = _rank([held[signatures[at]] for at in able], by[places[0]])
        made["rank_items"][places], made["rank_clusters"][places] = found.items, found.clusters
        if found.ranking is not None:
            own = able[found.kept]
            made["shared"][own], made["rank"][own] = found.ranking.values, found.ranking.ranks
            made["rank_group"][own] = found.ranking.groups
    return in_order(heads.assign(**made))


def in_order(heads: DataFrame) -> DataFrame:
    """Rows board after board, the best value first; constant answers and missing values last."""
    order = heads["value"].where(heads["shared"].isna(), heads["shared"])
    heads = heads.assign(order=-order.fillna(0.0) + 0.0, is_empty=order.isna())
    heads["name"] = heads["model"].astype(str)
    keys = ["board", "is_constant", "is_empty", "order", "name"]
    made = heads.sort_values(keys, kind="stable", ignore_index=True)
    return made.drop(columns=["order", "is_empty", "name"])


def _with_intervals(heads: DataFrame, held: Mapping[str, Held]) -> DataFrame:
    """The jackknife's interval of each difference of rates, which has none so far."""
    heads = heads.astype({"why": "object"})
    open_ = heads.index[(heads["ranked_by"] == "tpr_less_fpr") & heads["value"].notna()]
    for at in open_:
        one = held.get(str(heads.at[at, "signature"]))
        if one is None or not len(one.items):
            continue
        totals = Clusters.named(np.unique(one.clusters, return_inverse=True)[1]).totals(one.sums)
        without = informedness(totals.sum(axis=0) - totals)
        found = Estimate(float(heads.at[at, "value"]), len(one.items))
        ends = jackknife_interval(found, without, range_="any").within(-1.0, 1.0)
        heads.at[at, "low"], heads.at[at, "high"] = ends.low, ends.high
        heads.at[at, "why"] = ends.why
    return heads


class _Ranked(NamedTuple):
    """Which of some models were ranked, on how many items and clusters; None for no ranking."""

    kept: list[int]
    items: int
    clusters: int = 0
    ranking: ModelRanking | None = None


def _rank(held: Sequence[Held], by: str) -> _Ranked:
    kept, items = _shared(held)
    if not len(items):
        return _Ranked(kept, 0)
    parts = [held[at].on(items) for at in kept]
    clusters = Clusters.named(np.unique(parts[0].clusters, return_inverse=True)[1])
    sums, pooled = np.stack([clusters.totals(one.sums) for one in parts]), POOLED[by]
    has_all = not np.isnan(pooled(sums.sum(axis=1))).any()
    found = rank_groups(sums, pooled, seed=_SEED) if has_all else None
    return _Ranked(kept, len(items), sums.shape[1], found)


def _shared(held: Sequence[Held]) -> tuple[list[int], Any]:
    """The models with enough of the items that any has, and the items that all of these have."""
    first = held[0].items
    if all(np.array_equal(one.items, first) for one in held):
        return [*range(len(held))], first
    every = len(np.unique(np.concatenate([one.items for one in held])))
    kept = [at for at, one in enumerate(held) if len(one.items) >= LEAST_SHARED * every > 0]
    parts = [held[at].items for at in kept]
    return kept, reduce(partial(np.intersect1d, assume_unique=True), parts) if parts else first[:0]


def placed(scores: DataFrame, boards: DataFrame) -> DataFrame:
    """All scores, those that a board ranks by with `rank`, `rank_group` and `rank_items`."""
    names = ["rank", "rank_group", "rank_items"]
    of_metric = {MACRO: (MACRO,), "tpr_less_fpr": (HITS, FALSE_ALARMS)}
    own = boards[boards["rank"].notna()]
    ranks = {
        (row.signature, metric): (row.rank, row.rank_group, row.rank_items)
        for row in own.itertuples()
        for metric in of_metric.get(row.ranked_by, (row.metric,))
    }
    nothing = (np.nan, np.nan, np.nan)
    pairs = zip(scores["signature"], scores["metric"], scores["group"] == ALL, strict=True)
    found = [ranks.get(pair[:2], nothing) if pair[2] else nothing for pair in pairs]
    columns = np.array(found, dtype=float).reshape(len(scores), len(names))
    made = scores.assign(**dict(zip(names, columns.T, strict=True)))
    return made.astype(dict.fromkeys(names, "Int64"))
