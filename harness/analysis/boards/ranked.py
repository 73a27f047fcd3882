"""Scores of runs to boards: ranks of models on the items that all of them have.

A board is ranked by the headline's mean; where texts have labels, by macro F1, or by the rate of
hits less that of false alarms, for there a constant answer may have a high accuracy.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import numpy as np

from harness.analysis.boards import scores as scores_of
from harness.analysis.boards.scores import constant_runs
from harness.errors import LEFT_OUT, StoreError
from harness.lazy import DataFrame, Series, pandas
from harness.pipeline import choice_scores
from harness.pipeline.choice_scores import FALSE_ALARMS, HITS, MACRO
from harness.pipeline.score import ALL, SHARES, signature, value_range
from harness.pipeline.verdict_frame import averages, verdict_frame
from harness.specs.tasks import TaskSpec
from harness.stats.classification import one_hot
from harness.stats.clustered import ShareRows, share_gap
from harness.stats.estimate import Estimate
from harness.stats.intervals import mean_interval
from harness.stats.ranks import (
    Held,
    Pooled,
    informedness,
    macro_f1_of,
    mean_of,
    most_unlike,
    rank_models,
    shared_items,
)
from harness.stats.scales import SIGNIFICANT
from harness.storage.frames import load
from harness.storage.runs import RunFile, RunFolder

PARTS: Final = "part_"
"""How the columns begin that hold what a verdict adds to the sums behind a score."""
_NAMES = ("sample", "variant", "decoding", "cluster", "group")
_COLUMNS = (*_NAMES, "judge", "value", "served", "model_served")


def board_verdicts(
    folders: Sequence[RunFolder], heads: DataFrame, *, is_wrong: bool = False
) -> DataFrame:
    """The verdicts behind some headline scores, one row an item and score.

    With `is_wrong` a missing one counts as the worst that it can be, if that is known. Names are
    categories in their order. `value` is NaN if missing; the columns `part_0` on are what the item
    adds to the sums that the score is made of, NaN where it adds nothing. StoreError where the
    verdicts of a run were changed.
    """
    wanted = heads[["run", "judge", "variant", "decoding", "signature"]].astype(object)
    runs, tasks = set(wanted["run"]), dict[str, dict[RunFolder, RunFile]]()
    for folder in (folder for folder in folders if folder.key in runs):
        file = folder.read()
        tasks.setdefault(file.run.task, {})[folder] = file
    made = [_of_task(files, wanted, is_wrong=is_wrong) for files in tasks.values()]
    if not made:
        return pandas.DataFrame(columns=["signature", "run", *_NAMES, "value"])
    found = pandas.concat(made, ignore_index=True)
    for name in ("signature", "run", *_NAMES):
        found[name] = sorted_names(found[name])
    return found


def sorted_names(column: "Series[Any]") -> "Series[Any]":
    """A column of names as a category in the order of the names."""
    column = column.astype("category").cat.remove_unused_categories()
    return column.cat.reorder_categories(sorted(column.cat.categories), ordered=False)


def _of_task(files: Mapping[RunFolder, RunFile], wanted: DataFrame, *, is_wrong: bool) -> DataFrame:
    """The verdicts on one task behind the headlines that are wanted, of the runs that it has."""
    runs = {folder.key: file for folder, file in files.items()}
    task = next(iter(runs.values())).task
    found = load(files, "verdicts", _COLUMNS)
    if task.implicitness or task.classes:
        alike = groupby(files.items(), key=lambda pair: pair[1].task)
        parts = pandas.concat(
            [_parts([folder for folder, _ in own], one, is_wrong=is_wrong) for one, own in alike]
        )
        # A class that a run does not know is neither given nor true.
        parts = parts.fillna(0.0).where(parts[f"{PARTS}0"].notna())
        found = pandas.concat([found, parts.reset_index(drop=True)], axis=1)
    else:
        values = found["value"]
        if is_wrong:
            judges = {entry.name: entry for file in runs.values() for entry in file.judges}
            ranges = {name: value_range(one, one.metric) for name, one in judges.items()}
            least = {name: ends[0] if ends else np.nan for name, ends in ranges.items()}
            values = values.fillna(found["judge"].astype(object).map(least).astype(float))
        found = found.assign(**{f"{PARTS}0": values, f"{PARTS}1": 1.0})
    wanted = wanted[wanted["run"].isin(runs)]
    pools = {run: averages(file.task) for run, file in runs.items()}
    members = [
        pools[run].get(name, (name,))
        for run, name in zip(wanted["run"], wanted["variant"], strict=True)
    ]
    heads = wanted.assign(variant=members).explode("variant").rename(columns={"decoding": "drawn"})
    keys = {name: found[name].dtype for name in ("run", "judge", "variant")}
    made = found.merge(heads.astype(keys), on=[*keys])
    # Of several decodings together, all count.
    is_pooled = ~made["drawn"].isin(found["decoding"].cat.categories)
    made = made[is_pooled | (made["drawn"] == made["decoding"].astype(object))]
    is_other = ~_is_of_signature(found, made, wanted, runs)
    names = [name for name in made if name.startswith(PARTS)]
    made.loc[is_other, ["value", *names]] = np.nan
    if task.has_choices:  # an item is the same in whatever way it is answered
        made["decoding"] = ""
    return made[["signature", "run", *_NAMES, "value", *names]]


def _is_of_signature(
    found: DataFrame, made: DataFrame, wanted: DataFrame, runs: Mapping[str, RunFile]
) -> "Series[bool]":
    """Whether verdicts are of the snapshots that their signature names: others count as missing."""
    sides = ["model_served", "served"]
    known = found.loc[found["value"].notna(), ["run", "judge", *sides]].drop_duplicates()
    known = known[known.duplicated(["run", "judge"], keep=False)].astype(object).fillna("")
    is_own = pandas.Series(data=True, index=made.index)
    for head in wanted.merge(known, on=["run", "judge"]).itertuples():
        judge = next(entry for entry in runs[head.run].judges if entry.name == head.judge)
        way, pair = {"variant": head.variant, "decoding": head.decoding}, [*head[-2:]]
        if signature(runs[head.run], judge, **way, snapshots=(pair[0], pair[1])) == head.signature:
            rows = made.loc[made["signature"] == head.signature, sides].astype(object).fillna("")
            is_own[rows.index] = (rows == pair).all(axis=1)
    return is_own | made["value"].isna()


def _parts(folders: Sequence[RunFolder], task: TaskSpec, *, is_wrong: bool) -> DataFrame:
    """What each verdict of runs adds to `macro_f1_of` or `informedness`; NaN without an answer."""
    first, *more = (folder.tables() for folder in folders)
    verdicts = verdict_frame(first, task, *more)
    if task.implicitness is not None:
        flags = choice_scores.flags(verdicts, task.implicitness.positive)
        sides = np.column_stack([flags["is_positive"], ~flags["is_positive"]]).astype(np.float64)
        given = flags["flagged"].fillna(pandas.Series(sides[:, 1], flags.index) if is_wrong else {})
        hits = np.where(sides > 0, given.to_numpy()[:, None], 0.0)
        found = np.column_stack([hits[:, 0], sides[:, 0], hits[:, 1], sides[:, 1]])
    else:
        labels = sorted(choice_scores.labels_of(verdicts)) or [""]
        gold = choice_scores.gold_labels(verdicts, labels)
        given = choice_scores.given_labels(verdicts, labels)
        true, is_lost = one_hot(gold, len(labels)), (gold < 0) | ~(given.any(axis=1) | is_wrong)
        found = np.column_stack([given * true, given + true])
        found[is_lost] = np.nan
    frame = pandas.DataFrame(found).add_prefix(PARTS)
    return frame.where(frame.notna().all(axis=1))


_log = logging.getLogger(__name__)
CONTROL: Final = "scripted"  # the kind of the models that are built with the answers, or with none
_SEED = "0"
_RANKS = ["rank", "rank_best", "rank_worst", "rank_items"]
RATES: Final = "tpr_less_fpr"
POOLED: Final[Mapping[str, Pooled]] = {"mean": mean_of, MACRO: macro_f1_of, RATES: informedness}
"""What a board may be ranked by, with the score that sums over items make."""
RANKING: Final = {MACRO: "macro F1", RATES: "TPR-FPR"}
"""What people call it; the mean has the name of its metric."""


def leaderboard(
    folders: Sequence[RunFolder], *, is_every: bool = False, is_wrong: bool = False
) -> tuple[DataFrame, DataFrame, DataFrame]:
    """The scores of some runs (stored ones, or every one), their standings, and their verdicts.

    With `is_wrong` standings and verdicts, not scores, count missing verdicts as wrong. Left out,
    after a warning, are runs without scores, and those that are to be ranked with others and whose
    verdicts are damaged.
    """
    texts = {one.key: scores_of.score_text(one, is_every=is_every) for one in folders}
    words = scores_of.words_of(folders)
    scores = scores_of.board_scores(texts, words)
    try:
        verdicts = verdicts_of(folders, scores, is_wrong=is_wrong)
    except StoreError:
        for folder in folders:
            try:
                verdicts_of([folder], scores, is_wrong=is_wrong)
            except StoreError as error:
                _log.warning("%s: the run is left out", error, extra=LEFT_OUT)
                texts[folder.key] = None
        scores = scores_of.board_scores(texts, words)
        verdicts = verdicts_of(folders, scores, is_wrong=is_wrong)
    scores_of.warn_of_changed(folders, texts)
    return scores, standings(scores, verdicts, is_wrong=is_wrong), verdicts


def verdicts_of(
    folders: Sequence[RunFolder], scores: DataFrame, *, is_wrong: bool = False
) -> DataFrame:
    """The verdicts behind the headlines that share a board or have rates: `board_verdicts`."""
    heads = scores_of.headlines(scores)
    sizes = heads.groupby("recipe", observed=True)["signature"].transform("size")
    rates = scores.loc[(scores["metric"] == HITS) & (scores["group"] == ALL), "signature"]
    heads = heads[(sizes > 1) | heads["signature"].isin(set(rates)) | is_wrong]
    return board_verdicts(folders, heads, is_wrong=is_wrong)


def board_rows(scores: DataFrame, boards: DataFrame, *, is_every: bool = False) -> DataFrame:
    """The rows of leaderboard.csv, BOARD_COLUMNS: every score, or those that boards rank by.

    The overall ones have their ranks, as `standings` does.
    """
    shown = {*scores_of.HEADLINES, MACRO, HITS, FALSE_ALARMS}
    rows = scores[scores["metric"].isin(shown) | is_every].reset_index(drop=True)
    own = boards.loc[boards["rank"].notna(), ["signature", "metric", "ranked_by", *_RANKS]]
    of_metric = {MACRO: [MACRO], RATES: [HITS, FALSE_ALARMS]}
    pairs = zip(own["metric"], own["ranked_by"], strict=True)
    own = own.assign(metric=[of_metric.get(by, [metric]) for metric, by in pairs], group=ALL)
    key = ["signature", "metric", "group"]
    own = own.explode("metric").astype(dict.fromkeys(key, "object"))
    made = rows[key].astype("object").merge(own, "left", on=key)
    rows = rows.assign(**{name: made[name].astype("Int64") for name in _RANKS})
    return rows[[*scores_of.BOARD_COLUMNS]]


def standings(scores: DataFrame, verdicts: DataFrame, *, is_wrong: bool = False) -> DataFrame:
    """The headlines of all boards, board after board, the best model of each first.

    To the columns of `board_scores`: `value`, `low` and `high` are of what the board ranks by
    (`ranked_by`), `score` and its ends of the headline; `shared` is on the `rank_items` that all
    ranked models have, in `rank_clusters`; `unlike` says which models miss more than others, or
    None; `rank`, which may be `rank_best` to `rank_worst`, is NaN without one; `why` says why there
    is no interval. With `is_wrong` value, interval and counts take missing verdicts for wrong;
    macro F1 has no interval then.
    """
    heads = unranked(scores_of.headlines(scores), constant_runs(scores))
    overall = scores[scores["group"] == ALL]
    signatures = heads["signature"].astype("object")
    rates, hits, macro = (
        overall[overall["metric"] == name].drop_duplicates("signature").set_index("signature")
        for name in (FALSE_ALARMS, HITS, MACRO)
    )
    tpr, fpr = (signatures.map(of["value"]).astype(float) for of in (hits, rates))
    has_rates = signatures.isin({*hits.index, *rates.index})
    has_macro = signatures.isin({*macro.index}) & ~has_rates
    heads = heads.assign(tpr=tpr, fpr=fpr, has_rates=has_rates)
    for name in ("value", "low", "high"):
        own = signatures.map(macro[name]).astype(float)
        heads[name] = heads[name].where(~has_macro, own)
        heads[name] = heads[name].where(~has_rates, tpr - fpr if name == "value" else np.nan)
    heads.loc[has_macro, "ranked_by"] = MACRO
    heads.loc[has_rates, "ranked_by"] = RATES
    return ranked(_with_missing(heads, _held(verdicts)) if is_wrong else heads, verdicts)


def unranked(heads: DataFrame, constant: Collection[str]) -> DataFrame:
    """Headlines with the columns of `standings`, ranked by their mean and without a rank so far.

    `constant` has the signatures of runs that give all texts one label.
    """
    heads = heads.reset_index(drop=True)
    return heads.assign(
        **{"score": heads["value"], "score_low": heads["low"], "score_high": heads["high"]},
        **{"tpr": np.nan, "fpr": np.nan, "has_rates": False, "why": None, "ranked_by": "mean"},
        **dict.fromkeys([*_RANKS, "shared", "rank_clusters"], np.nan),
        board=heads.groupby("recipe", observed=True, sort=False).ngroup(),
        missing_as="nothing missing",
        is_control=(heads["kind"] == CONTROL).astype(bool),
        is_constant=heads["signature"].isin(constant),
    )


def _held(verdicts: DataFrame) -> dict[str, Held]:
    """The rows of `board_verdicts` by signature, without those that add nothing."""
    if not len(verdicts):
        return {}
    items = np.zeros(len(verdicts), np.int64)
    for column in (verdicts[name].cat for name in ("sample", "variant", "decoding")):
        items = items * len(column.categories) + column.codes.to_numpy()
    clusters = verdicts["cluster"].cat.codes.to_numpy()
    parts = verdicts[[name for name in verdicts if name.startswith(PARTS)]].to_numpy()
    found = {}
    for name, places in verdicts.groupby("signature", observed=True).indices.items():
        places = places[~np.isnan(parts[places, 0])]
        places = places[np.argsort(items[places], kind="stable")]
        own = parts[places]
        found[str(name)] = Held(items[places], clusters[places], own[:, ~np.isnan(own).any(axis=0)])
    return found


def ranked(heads: DataFrame, verdicts: DataFrame) -> DataFrame:
    """Rows of `unranked` with ranks, as `standings`: board after board, the best value first.

    Constant answers and missing values are last.
    """
    held = _held(verdicts)
    heads = _with_intervals(heads, held)
    made = {name: heads[name].to_numpy(copy=True) for name in (*_RANKS, "shared", "rank_clusters")}
    made["unlike"] = np.full(len(heads), None, dtype=object)
    values, signatures = heads["value"].to_numpy(), heads["signature"].tolist()
    is_apart = (heads["is_control"] | heads["is_constant"]).to_numpy(dtype=bool)
    is_able, by = ~np.isnan(values) & ~is_apart, heads["ranked_by"].tolist()
    for places in heads.groupby("board").indices.values():
        able = places[is_able[places]]
        if len(able) < 2 or any(signatures[at] not in held for at in able):
            for at in able:
                made["rank"][at] = 1 + int((values[able] > values[at]).sum())
            continue
        names = heads["model"].iloc[able].astype(str).tolist()
        made["unlike"][places] = _missing_words([held[signatures[at]] for at in able], names)
        own, items = shared_items([held[signatures[at]] for at in able])
        made["rank_items"][places], made["rank_clusters"][places] = len(items), 0
        if not len(items):
            continue
        kept = able[own]
        sums = np.stack([held[signatures[at]].totals(items) for at in kept])
        made["rank_clusters"][places], pooled = sums.shape[1], POOLED[by[places[0]]]
        if not np.isnan(pooled(sums.sum(axis=1))).any():
            found = rank_models(sums, pooled, seed=_SEED)
            made["shared"][kept], made["rank"][kept] = found.values, found.ranks
            made["rank_best"][kept], made["rank_worst"][kept] = found.best, found.worst
    heads = heads.assign(**made)
    order = heads["shared"].fillna(heads["value"])
    heads = heads.assign(order=0.0 - order, name=heads["model"].astype(str))
    keys = ["board", "is_constant", "order", "name"]
    return heads.sort_values(keys, kind="stable", ignore_index=True).drop(columns=keys[2:])


def _missing_words(held: Sequence[Held], names: Sequence[str]) -> str | None:
    """The two models whose shares of missing verdicts differ most, if they do beyond chance."""
    (one, other), (most, least), p = most_unlike(held)
    if p is None or p > SIGNIFICANT:
        return None
    return (
        f"{names[one]} has no verdict on {most:.0%} of the items, {names[other]} on {least:.0%}: "
        "what a model does not answer may be what it would get wrong (--missing wrong)"
    )


def _with_intervals(heads: DataFrame, held: Mapping[str, Held]) -> DataFrame:
    """The interval of each difference of rates, which has none so far: that of `share_gap`."""
    heads = heads.astype({"why": "object"})
    for at in heads.index[(heads["ranked_by"] == RATES) & heads["value"].notna()]:
        if (one := held.get(str(heads.at[at, "signature"]))) is not None:
            hits, positives, alarms, negatives = one.sums.T
            true = ShareRows(hits, positives, one.clusters)
            found = share_gap(true, ShareRows(alarms, negatives, one.clusters))
            heads.loc[at, ["low", "high", "why"]] = found.low, found.high, found.why
    return heads


def _with_missing(heads: DataFrame, held: Mapping[str, Held]) -> DataFrame:
    """Headlines whose value, interval and counts are of the verdicts that are at hand."""
    heads = heads.astype({"n": "int64", "missing": "int64"})
    heads["missing_as"] = "missing verdicts are wrong"
    for at, row in zip(heads.index, heads.itertuples(), strict=True):
        if (one := held.get(str(row.signature))) is None:
            continue
        totals, size = one.sums.sum(axis=0), len(one.items)
        found = Estimate(float(POOLED[row.ranked_by](totals)), size)
        if row.ranked_by == "mean":
            is_share = row.metric in SHARES
            found = mean_interval(one.sums[:, 0], one.clusters, is_share=is_share)
        elif row.ranked_by == RATES:
            heads.loc[at, ["tpr", "fpr"]] = totals[::2] / totals[1::2]
        heads.loc[at, ["value", "low", "high"]] = found.value, found.low, found.high
        heads.loc[at, ["n", "missing"]] = size, max(0, row.n + row.missing - size)
    return heads
