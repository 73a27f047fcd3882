"""Scores of runs to facts: one number each, with the names that rows and columns are made of."""

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

import numpy as np

from harness.analysis.boards import views
from harness.analysis.boards.ranked import CONTROL, PARTS, board_verdicts, ranked, unranked
from harness.analysis.boards.scores import HEADLINES, missing_words
from harness.errors import SpecError, StoreError, check_names, did_you_mean
from harness.lazy import DataFrame, pandas
from harness.pipeline.choice_scores import MACRO
from harness.pipeline.score import ALL
from harness.specs.layouts import RunsLayout, TableLayout
from harness.storage.runs import RunFolder
from harness.storage.signature import Signature

VISIBLE: Final = ("task", "judge", "metric", "variant", "level", "decoding", "group", "model")
"""What scores of runs differ in, and tables may be made of."""
TOTAL: Final = "total"  # what all values of a name together are called
RECIPE: Final[Mapping[str, tuple[str, ...]]] = {
    "data": ("task",),
    "limit": (),
    "prompts": ("task", "variant", "level"),
    "repeats": (),
    "seed": (),
    "judge version": ("task", "judge"),
    "program": (),
}
"""The rest of a recipe, each part with the names that it may differ with in one table."""
NUMBERS: Final = ("value", "low", "high", "n", "sd", "clusters", "chance")
CELL: Final[Mapping[str, object]] = {
    **dict.fromkeys(NUMBERS, float("nan")),
    **{"missing": "", "reason": "", "block": 0, "is_score": False},
}
"""What is known of a number, and what it is by default.

`n` is NaN where nothing is counted, `sd` is that of numbers that were averaged, `missing` says
what the value is without, `reason` why there is no value. Facts of a later `block` are below a
rule: 1 for controls, or totals of data, 2 for statistics of judges.
"""


def facts(dims: DataFrame, **known: object) -> DataFrame:
    """Facts, a row a number: below `dim` its names, None without one, and below `cell` CELL."""
    dims = dims.astype(object).reset_index(drop=True)
    cell = pandas.DataFrame({**CELL, **known}, index=dims.index, columns=[*CELL])
    cell = cell.astype(dict.fromkeys(NUMBERS, float))
    return pandas.concat({"dim": dims.where(dims.notna(), None), "cell": cell}, axis=1)


def run_facts(scores: DataFrame) -> DataFrame:
    """A fact for each row of `board_scores`, in their order."""
    scores = _with_shares(scores)
    names = [name for name in (*VISIBLE, "signature") if name in scores]
    dims = scores[names].astype(object)
    recipes = {text: _recipe(Signature.parse(text)) for text in scores["signature"].unique()}
    for name in RECIPE:
        dims[name] = [recipes[text][name] for text in dims["signature"]]
    dims["prompts"] = scores["prompts"].astype(object)
    missing = [missing_words(row) for row in scores.itertuples()]
    why = [f"all missing: {words}" if words else "nothing to count" for words in missing]
    return facts(
        dims.assign(level=dims["variant"].map(level_of)),
        **{name: scores[name].to_numpy() for name in NUMBERS if name in scores},
        missing=missing,
        reason=np.where(scores["value"].isna(), why, ""),
        block=(scores["kind"] == CONTROL).to_numpy().astype(int),
        is_score=True,
    )


def _with_shares(scores: DataFrame) -> DataFrame:
    """Scores, and of counts of what was missed in groups also their shares of all missed."""
    missed = scores[scores["metric"].astype(str).str.startswith("missed_")]
    if missed.empty:
        return scores
    whole = missed[missed["group"] == ALL].drop_duplicates(["signature", "metric"])
    keys = missed[["signature", "metric"]].astype(str)
    found = keys.merge(whole[["signature", "metric", "value"]].astype({"metric": str}), "left")
    share = pandas.to_numeric(missed["value"]).to_numpy() / pandas.to_numeric(found["value"])
    added = missed.assign(metric="share_" + missed["metric"].astype(str), value=share.to_numpy())
    return pandas.concat([scores.astype({"metric": object}), added], ignore_index=True)


def _recipe(made: Signature) -> dict[str, str]:
    return {
        "data": made.data,
        "limit": "all samples" if made.limit == "all" else f"{made.limit} samples",
        **{"prompts": made.prompts, "repeats": made.repeats, "seed": made.seed},
        "judge version": f"{made.judge.partition(':')[2]}, {made.way}",
        "program": made.harness,
    }


def level_of(variant: str) -> str:
    """The number at the end of a variant's name; the name where there is none."""
    found = re.search(r"\d+$", variant)
    return found[0] if found else variant


def chosen(found: DataFrame, layout: TableLayout) -> DataFrame:
    """The facts that a layout asks for; SpecError for a name that none has."""
    known = [name for name in found.get("dim", ()) if found["dim", name].notna().any()]
    check_names("no number has a", (*layout.axes, *layout.where) if len(found) else (), known)
    for name, patterns in layout.where.items() if len(found) else ():
        own = found["dim", name]
        values = sorted(own.dropna().unique())
        kept = [one for one in values if one == TOTAL or matches(one, patterns)]
        if values and not kept:
            near = did_you_mean(patterns[0], values)
            raise SpecError(f"no number has {name} {', '.join(patterns)}{near}")
        found = found[own.isin(kept)]
    if len(found) and isinstance(layout, RunsLayout) and "statistic" not in layout.axes:
        found = _main(found, {*layout.axes, *layout.where})
        found = found if layout.controls else found[found["cell", "block"] == 0]
    if not len(found):
        fact = "no number is left for the table"
        raise StoreError(f"{fact}; see `where` of the layout, or name other runs")
    return found


def matches(value: str, patterns: Sequence[str]) -> bool:
    """Whether a value fits one of some patterns such as `cot*`; upper and lower case differ."""
    return any(fnmatchcase(value, pattern) for pattern in patterns)


def _main(found: DataFrame, named: set[str]) -> DataFrame:
    """The overall facts of main metrics, over all decodings, where a layout does not name these."""
    if "group" not in named:
        found = found[found["dim", "group"] == ALL]
    if "metric" not in named:
        # A group of a class task may have no main metric; then nothing is left out.
        is_main = found["dim", "metric"].isin(HEADLINES)
        found = found[is_main] if is_main.any() else found
    if "decoding" in named:
        return found
    apart = [("dim", name) for name in (*VISIBLE, *RECIPE) if name != "decoding"]
    pooled = found["dim", "decoding"].str.count(r"\+").sort_values(ascending=False, kind="stable")
    return found.loc[pooled.index].drop_duplicates(apart).sort_index()


Ranks = Callable[[DataFrame], DataFrame]
"""The scores of one column to `rank`, `is_best` and `items`, the verdicts compared, by signature.

`is_best`: a paired test finds a worse model and no better one. Those without a rank are not there.
"""


def ranks_of(scores: DataFrame, folders: Sequence[RunFolder]) -> Ranks:
    """Rank scores by the verdicts of their runs, which are read once, when they are needed."""
    read: dict[str, DataFrame] = {}
    none = pandas.DataFrame(columns=["rank", "is_best", "items"])

    def ranks(found: DataFrame) -> DataFrame:
        able = found[(found["cell", "block"] == 0) & found["cell", "value"].notna()]
        values = able["cell", "value"].set_axis(able["dim", "signature"])
        metrics = {*able["dim", "metric"]}
        if len(able) < 2 or len(metrics) > 1 or not metrics <= {*HEADLINES, MACRO}:
            return none
        decoding, group = able["dim", "decoding"].iloc[0], able["dim", "group"].iloc[0]
        heads = scores[(scores["group"] == ALL) & scores["metric"].isin(HEADLINES)]
        heads = heads[heads["decoding"] == decoding]
        own = heads[heads["signature"].isin(values.index)].drop_duplicates("signature")
        if len(own) < len(values) or own["recipe"].nunique() > 1:
            return none
        if decoding not in read:
            read[decoding] = board_verdicts(folders, heads)
        verdicts = read[decoding]
        kept = verdicts["signature"].isin(values.index) & verdicts["value"].notna()
        kept &= (verdicts["group"] == group) | (group == ALL)
        own = unranked(own.assign(value=own["signature"].astype(object).map(values)), ())
        verdicts = verdicts[kept]
        if MACRO not in metrics:
            # What a board of classes adds up is no mean of values.
            verdicts = verdicts.drop(columns=[one for one in verdicts if one.startswith(PARTS)])
            verdicts = verdicts.assign(**{f"{PARTS}0": verdicts["value"], f"{PARTS}1": 1.0})
        made = ranked(own.assign(ranked_by=MACRO if MACRO in metrics else "mean"), verdicts)
        made = made[made["rank"].notna()].set_index("signature")
        is_best = (made["rank_best"] == 1) & (made["rank_best"].max() > 1)
        made = made.assign(rank=[views.ranks(row) for row in made.itertuples()], is_best=is_best)
        return made[["rank", "is_best"]].assign(items=made["rank_items"])

    return ranks
