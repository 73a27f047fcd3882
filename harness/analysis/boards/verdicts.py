"""Stored verdicts to the rows that boards rank: what each item adds to a model's score.

Nothing here ranks or computes a score.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from harness.judges.gold import LABELLED
from harness.lazy import DataFrame, Series, pandas
from harness.pipeline import choice_scores
from harness.pipeline.score import averages, signature
from harness.pipeline.verdict_frame import detail, verdict_frame
from harness.specs.tasks import TaskSpec
from harness.stats.classification import one_hot
from harness.stats.estimate import Bools, Floats, Indices
from harness.storage.frames import Row, load
from harness.storage.runs import RunFile, RunFolder

PARTS: Final = "part_"
"""How the columns begin that hold what a verdict adds to the sums behind a score."""
_NAMES = ("sample", "variant", "decoding", "cluster", "group")
_COLUMNS = (*_NAMES, "judge", "value", "served", "model_served")


class Held(NamedTuple):
    """The verdicts of one score that add something, in the order of their items."""

    items: Indices
    clusters: Indices
    sums: Floats

    def on(self, items: Indices) -> "Held":
        """Those on some items that are all there."""
        if np.array_equal(items, self.items):
            return self
        at = np.searchsorted(self.items, items)
        return Held(items, self.clusters[at], self.sums[at])


def held_verdicts(verdicts: DataFrame) -> dict[str, Held]:
    """The rows of `board_verdicts` by signature, without those that add nothing."""
    if not len(verdicts):
        return {}
    names = [name for name in verdicts if name.startswith(PARTS)]
    items, clusters = item_numbers(verdicts), verdicts["cluster"].cat.codes.to_numpy()
    parts = verdicts[names].to_numpy()
    found = {}
    for name, places in verdicts.groupby("signature", observed=True).indices.items():
        own = parts[places]
        own = own[:, : int(verdicts["parts"].iat[places[0]])]
        is_known = ~np.isnan(own.sum(axis=1))
        known, own = places[is_known], own[is_known]
        order = np.argsort(items[known], kind="stable")
        found[str(name)] = Held(items[known][order], clusters[known][order], own[order])
    return found


def item_numbers(verdicts: DataFrame) -> Indices:
    """A number for each sample, variant and decoding, in the order of their names."""
    found = np.zeros(len(verdicts), np.int64)
    for name in ("sample", "variant", "decoding"):
        column = verdicts[name].cat
        found = found * len(column.categories) + column.codes.to_numpy()
    return found


def board_verdicts(folders: Sequence[RunFolder], heads: DataFrame) -> DataFrame:
    """The verdicts behind some headline scores, one row an item and score.

    `signature`, `run`, `sample`, `variant`, `decoding`, `cluster` and `group` (categories in the
    order of their names), `value` (NaN if missing), `parts` and the columns `part_0` on: what the
    item adds to the sums that the score is made of, NaN where it adds nothing. StoreError where the
    verdicts of a run were changed.
    """
    wanted: dict[tuple[str, str], list[Row]] = {}
    for head in heads[["run", "judge", "variant", "decoding", "signature"]].itertuples():
        wanted.setdefault((head.run, head.judge), []).append(head)
    runs, tasks = {run for run, _ in wanted}, dict[str, dict[RunFolder, RunFile]]()
    for folder in folders:
        if folder.path.name in runs:
            file = folder.read()
            tasks.setdefault(file.run.task, {})[folder] = file
    made = [_of_task(files, wanted) for files in tasks.values()]
    if not made:
        return pandas.DataFrame(columns=["signature", "run", *_NAMES, "value", "parts"])
    found = pandas.concat(made, ignore_index=True)
    for name in ("signature", "run", *_NAMES):
        found[name] = sorted_names(found[name])
    return found


def sorted_names(column: "Series[Any]") -> "Series[Any]":
    """A column of names as a category in the order of the names."""
    column = column.astype("category").cat.remove_unused_categories()
    return column.cat.reorder_categories(sorted(column.cat.categories), ordered=False)


def _of_task(
    folders: Mapping[RunFolder, RunFile], wanted: Mapping[tuple[str, str], Sequence[Row]]
) -> DataFrame:
    files = {folder.path.name: file for folder, file in folders.items()}
    task = next(iter(files.values())).task
    frame = load(folders, "verdicts", _COLUMNS)
    variants, decodings = _Names(frame["variant"]), _Names(frame["decoding"])
    values, snapshots = frame["value"].to_numpy(), _Snapshots(frame)
    added: dict[str, tuple[int, Floats]] = {}
    start = 0
    for folder in folders if task.implicitness or task.classes else ():
        added[folder.path.name] = start, _parts(folder, task)
        start += len(added[folder.path.name][1])
    made: list[tuple[str, Indices, Floats, Floats]] = []
    for key, places in frame.groupby(["run", "judge"], observed=True).indices.items():
        file = files[key[0]]
        pools, found = averages(file.task), snapshots.of(places)
        for head in wanted.get(key, ()):
            some = variants.are(places, pools.get(head.variant, (head.variant,)))
            if head.decoding in decodings:
                some &= decodings.are(places, [head.decoding])
            own = places[some]
            is_own = snapshots.are(own, _snapshot(file, head, found))
            value = np.where(is_own, values[own], np.nan)
            parts = np.column_stack([value, np.ones(len(value))])
            if key[0] in added:
                start, of_run = added[key[0]]
                parts = np.where(is_own[:, None], of_run[own - start], np.nan)
            made.append((head.signature, own, value, parts))
    return _joined(frame, made)


class _Names:
    """A column of names, as numbers; a missing name is empty."""

    def __init__(self, column: "Series[Any]") -> None:
        column = column.astype("category")
        self.codes = column.cat.codes.to_numpy()
        self.names = [*map(str, column.cat.categories), ""]
        self._known = {name: at for at, name in enumerate(self.names)}

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def are(self, places: Indices, names: Sequence[str]) -> Bools:
        """Whether the names at some places are among these."""
        return np.isin(self.codes[places], [self._known[n] for n in names if n in self._known])


_Pair = tuple[str, str]


class _Snapshots:
    """The snapshots of the answering and of the judging model behind each verdict."""

    def __init__(self, frame: DataFrame) -> None:
        self._sides = _Names(frame["model_served"]), _Names(frame["served"])
        self._is_known = frame["value"].notna().to_numpy()

    def of(self, places: Indices) -> list[_Pair]:
        """Those of the verdicts at some places that have a value."""
        known = places[self._is_known[places]]
        codes = np.unique(np.stack([side.codes[known] for side in self._sides]), axis=1).tolist()
        one, two = self._sides
        pairs = zip(*codes, strict=True)
        return [(one.names[first], two.names[second]) for first, second in pairs]

    def are(self, places: Indices, pair: _Pair | None) -> Bools:
        """Whether verdicts are of these snapshots; those of others count as missing."""
        if pair is None:
            return np.ones(len(places), dtype=bool)
        is_of = ~self._is_known[places]
        both = (one.are(places, [name]) for one, name in zip(self._sides, pair, strict=True))
        return np.asarray(is_of | np.logical_and(*both), dtype=bool)


def _snapshot(file: RunFile, head: Row, found: Sequence[_Pair]) -> _Pair | None:
    """The snapshots that a headline is of, where verdicts are of several; else None."""
    if len(found) < 2:
        return None
    judge = next(entry for entry in file.judges if entry.name == head.judge)
    recipe = {"variant": head.variant, "decoding": head.decoding}
    made = {signature(file, judge, **recipe, snapshots=pair): pair for pair in found}
    return made.get(head.signature, ("?", "?"))


def _joined(frame: DataFrame, made: Sequence[tuple[str, Indices, Floats, Floats]]) -> DataFrame:
    names, places, values, parts = zip(*made, strict=True)
    found = frame[["run", *_NAMES]].take(np.concatenate(places)).reset_index(drop=True)
    sizes = [len(own) for own in places]
    codes, categories = pandas.factorize(np.array(names, dtype=object))
    found.insert(0, "signature", pandas.Categorical.from_codes(np.repeat(codes, sizes), categories))
    found["value"] = np.concatenate(values)
    widths = [own.shape[1] for own in parts]
    found["parts"] = np.repeat(widths, sizes)
    whole = np.full((len(found), max(widths)), np.nan)
    for own, start in zip(parts, np.cumsum([0, *sizes]), strict=False):
        whole[start : start + len(own), : own.shape[1]] = own
    for at in range(max(widths)):
        found[f"{PARTS}{at}"] = whole[:, at]
    return found


def _parts(folder: RunFolder, task: TaskSpec) -> Floats:
    """What each verdict of a run adds; NaN where there is no answer.

    Of flags: positives flagged, positives, negatives flagged, negatives. Of classes, label by
    label: whether it is a hit; then the times it is given or true.
    """
    verdicts = verdict_frame(folder.tables(), task)
    if task.implicitness is not None:
        flags = choice_scores.flags(verdicts, task.implicitness.positive)
        positive, flagged = flags["is_positive"].to_numpy(), flags["flagged"].to_numpy()
        sides = np.column_stack([positive, ~positive]).astype(np.float64)
        found = np.where(sides > 0, flagged[:, None], 0.0)
        return np.column_stack([found[:, 0], sides[:, 0], found[:, 1], sides[:, 1]])
    labels = sorted(choice_scores.labels_of(verdicts))
    if not labels:
        return np.zeros((len(verdicts), 0))
    gold = choice_scores.gold_labels(verdicts, labels)
    given = np.column_stack([detail(verdicts, LABELLED[0] + label) for label in labels])
    given, true = np.nan_to_num(given), one_hot(gold, len(labels))
    is_lost = (gold < 0) | ~given.any(axis=1)
    return np.where(is_lost[:, None], np.nan, np.column_stack([given * true, given + true]))
