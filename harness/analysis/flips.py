"""A run of perturbed samples to flip rates: how many verdicts and answers each changes."""

from collections.abc import Sequence
from typing import Any, Final

from harness.analysis.pairings import ComparedRun, RunView, describe_run, views
from harness.errors import StoreError
from harness.lazy import DataFrame, pandas
from harness.pipeline.score import RIGHT_OR_WRONG, value_range
from harness.pipeline.transforms import BY, FROM, KEEPS
from harness.stats.estimate import Estimate, mean
from harness.stats.intervals import mean_interval
from harness.storage.frames import load
from harness.storage.runs import JudgeEntry, RunFolder

KEEPING: Final = "all that keep the meaning"
OTHERS: Final = "all that may not"
_WHOLE = ("n", "clusters", "to_wrong", "to_right", "missing", "unmatched")


def flip_rates(folder: RunFolder, judges: Sequence[JudgeEntry]) -> DataFrame:
    """Every perturbation by every judge, then those that keep the meaning and the others.

    A row is of `n` pairs with both verdicts. `value` is the share of pairs whose verdicts differ,
    with its interval over clusters of originals; `to_wrong` and `to_right` count turned verdicts.
    `answers` is the share that choose another answer. `original` and `perturbed` are mean verdicts.
    `missing` counts pairs without a verdict, `unmatched` samples without their original.
    """
    run = ComparedRun.read(folder)
    samples = load([folder], "samples", ["sample", "references"])
    known = samples["references"].map(lambda one: one.get(BY) is not None)
    if not known.any():
        fact, make = describe_run(run.file), f"`harness perturb --task {run.file.run.task}`"
        raise StoreError(f"{fact} has no perturbed samples; make some with {make}, and run these")
    references = samples.loc[known, "references"]
    made = pandas.DataFrame(
        {
            "id": samples.loc[known, "sample"],
            "from": [one[FROM][0] for one in references],
            "perturbation": [one[BY][0] for one in references],
            "keeps_meaning": [one[KEEPS][0] == "yes" for one in references],
        }
    )
    answers = load([folder], "answers", ["sample", "variant", "decoding", "answer"])
    rows = [
        _row(view, name, own)
        for judge in judges
        for view in views(run, judge)
        for pairs in [_pairs(view, made, answers)]
        for keeps in [pairs["keeps_meaning"]]
        for name, own in (
            *pairs.groupby("perturbation", sort=False),
            *((KEEPING, pairs[keeps]), (OTHERS, pairs[~keeps])),
        )
        if len(own)
    ]
    frame = pandas.DataFrame(rows)
    return frame.astype({name: "Int64" for name in _WHOLE if name in frame})


def _pairs(view: RunView, made: DataFrame, answers: DataFrame) -> DataFrame:
    """The perturbed samples of a view with both verdicts and answers; NaN where one is missing."""
    scores = view.scores[["id", "cluster", "value"]]
    # Of a pool there is no answer: it has no variant's name.
    is_own = (answers["variant"] == view.variant) & (answers["decoding"] == view.decoding)
    own = answers[is_own].drop_duplicates("sample").set_index("sample")["answer"]
    scores = scores.assign(answer=scores["id"].map(own))
    pairs = scores.merge(made, on="id")
    before = scores[["id", "value", "answer"]].rename(columns={"id": "from"})
    return pairs.merge(before, on="from", how="left", suffixes=("", "_before"), indicator="matched")


def _row(view: RunView, name: str, pairs: DataFrame) -> dict[str, Any]:
    matched = int((pairs["matched"] == "both").sum())
    read = pairs[pairs["value"].notna() & pairs["value_before"].notna()]
    before, after = read["value_before"], read["value"]
    is_decided = view.judge.metric == RIGHT_OR_WRONG
    flip = _changed(read if is_decided else read[:0], "value")
    chosen = read[read["answer"].notna() & read["answer_before"].notna()]
    change = _changed(chosen if view.file.task.has_choices else chosen[:0], "answer")
    ends = value_range(view.judge, view.judge.metric)
    limits = ends and (ends[0] - ends[1], ends[1] - ends[0])
    moved = mean_interval(
        (after - before).tolist(), read["cluster"].to_numpy(), is_share=False, limits=limits
    )
    reason = None if is_decided else "verdicts are not right or wrong: see the difference"
    return {
        "task": view.file.run.task,
        "model": view.file.model.name,
        "variant": view.variant,
        "decoding": view.decoding,
        "judge": view.judge.name,
        "perturbation": name,
        "keeps_meaning": bool(pairs["keeps_meaning"].iat[0]),
        **{"value": flip.value, "low": flip.low, "high": flip.high},
        "n": len(read),
        "clusters": read["cluster"].nunique(),
        "to_wrong": int(((before == 1) & (after == 0)).sum()) if is_decided else None,
        "to_right": int(((before == 0) & (after == 1)).sum()) if is_decided else None,
        **{"answers": change.value, "answers_low": change.low, "answers_high": change.high},
        **{"original": mean(before.tolist()), "perturbed": mean(after.tolist())},
        "difference": moved.value,
        **{"difference_low": moved.low, "difference_high": moved.high},
        **{"missing": matched - len(read), "unmatched": len(pairs) - matched},
        "reason": reason if len(read) else "no pair with both verdicts",
        "signature": view.signature(view.decoding),
    }


def _changed(pairs: DataFrame, name: str) -> Estimate:
    """The share of pairs that differ in a column."""
    differ = (pairs[name] != pairs[f"{name}_before"]).astype(float)
    return mean_interval(differ.tolist(), pairs["cluster"].to_numpy(), is_share=True)
