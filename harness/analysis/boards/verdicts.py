"""Stored verdicts to the rows that boards rank: what each item adds to a model's score."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from harness.lazy import DataFrame, Series, pandas
from harness.pipeline import choice_scores
from harness.pipeline.score import signature
from harness.pipeline.verdict_frame import averages, verdict_frame
from harness.specs.tasks import TaskSpec
from harness.stats.classification import one_hot
from harness.storage.frames import load
from harness.storage.runs import RunFile, RunFolder

PARTS: Final = "part_"
"""How the columns begin that hold what a verdict adds to the sums behind a score."""
_NAMES = ("sample", "variant", "decoding", "cluster", "group")
_COLUMNS = (*_NAMES, "judge", "value", "served", "model_served")


def board_verdicts(folders: Sequence[RunFolder], heads: DataFrame) -> DataFrame:
    """The verdicts behind some headline scores, one row an item and score.

    Names are categories in their order. `value` is NaN if missing; the columns `part_0` on are what
    the item adds to the sums that the score is made of, NaN where it adds nothing. StoreError where
    the verdicts of a run were changed.
    """
    wanted = heads[["run", "judge", "variant", "decoding", "signature"]].astype(object)
    runs, tasks = set(wanted["run"]), dict[str, dict[RunFolder, RunFile]]()
    for folder in (folder for folder in folders if folder.path.name in runs):
        file = folder.read()
        tasks.setdefault(file.run.task, {})[folder] = file
    made = [_of_task(files, wanted) for files in tasks.values()]
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


def _of_task(files: Mapping[RunFolder, RunFile], wanted: DataFrame) -> DataFrame:
    """The verdicts on one task behind the headlines that are wanted, of the runs that it has."""
    runs = {folder.path.name: file for folder, file in files.items()}
    task = next(iter(runs.values())).task
    found = load(files, "verdicts", _COLUMNS)
    if task.implicitness or task.classes:
        parts = pandas.concat([_parts(folder, file.task) for folder, file in files.items()])
        # A class that a run does not know is neither given nor true.
        parts = parts.fillna(0.0).where(parts[f"{PARTS}0"].notna())
        found = pandas.concat([found, parts.reset_index(drop=True)], axis=1)
    else:
        found = found.assign(**{f"{PARTS}0": found["value"], f"{PARTS}1": 1.0})
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


def _parts(folder: RunFolder, task: TaskSpec) -> DataFrame:
    """What each verdict of a run adds; NaN where there is no answer.

    Positives flagged, positives, negatives flagged, negatives; of classes, label by label, the
    hits, then the times it is given or true.
    """
    verdicts = verdict_frame(folder.tables(), task)
    if task.implicitness is not None:
        flags = choice_scores.flags(verdicts, task.implicitness.positive)
        sides = np.column_stack([flags["is_positive"], ~flags["is_positive"]]).astype(np.float64)
        hits = np.where(sides > 0, flags[["flagged"]], 0.0)
        found = np.column_stack([hits[:, 0], sides[:, 0], hits[:, 1], sides[:, 1]])
    else:
        labels = sorted(choice_scores.labels_of(verdicts)) or [""]
        gold = choice_scores.gold_labels(verdicts, labels)
        given = choice_scores.given_labels(verdicts, labels)
        true, is_lost = one_hot(gold, len(labels)), (gold < 0) | ~given.any(axis=1)
        found = np.column_stack([given * true, given + true])
        found[is_lost] = np.nan
    frame = pandas.DataFrame(found).add_prefix(PARTS)
    return frame.where(frame.notna().all(axis=1))
