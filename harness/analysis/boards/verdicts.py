"""Stored verdicts to the rows that boards rank: what each item adds to a model's score.

Nothing here ranks or computes a score.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from harness.data.choices import LABELS
from harness.judges.gold import LABELLED
from harness.pipeline.score import averages, signature
from harness.specs.tasks import TaskSpec
from harness.stats.classification import one_hot
from harness.stats.estimate import Bools, Floats, Indices
from harness.storage.frames import load
from harness.storage.runs import RunFile, RunFolder

if TYPE_CHECKING:
    from pandas import DataFrame, Series

PARTS: Final = "part_"
"""How the columns begin that hold what a verdict adds to the sums behind a score."""
_NAMES = ("sample", "variant", "decoding", "cluster", "group")
_COLUMNS = (*_NAMES, "judge", "value", "served", "model_served")


class HeadlineKey(NamedTuple):
    """What a headline score is of."""

    run: str
    judge: str
    variant: str
    decoding: str
    signature: str


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


def held_verdicts(verdicts: "DataFrame") -> dict[str, Held]:
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


def item_numbers(verdicts: "DataFrame") -> Indices:
    """A number for each sample, variant and decoding, in the order of their names."""
    found = np.zeros(len(verdicts), np.int64)
    for name in ("sample", "variant", "decoding"):
        column = verdicts[name].cat
        found = found * len(column.categories) + column.codes.to_numpy()
    return found


def board_verdicts(folders: Sequence[RunFolder], heads: "DataFrame") -> "DataFrame":
    """The verdicts behind some headline scores, one row an item and score.

    `signature`, `run`, `sample`, `variant`, `decoding`, `cluster` and `group` (categories in the
    order of their names), `value` (NaN if missing), `parts` and the columns `part_0` on: what the
    item adds to the sums that the score is made of, NaN where it adds nothing. StoreError where the
    verdicts of a run were changed.
    """
    import pandas

    wanted: dict[tuple[str, str], list[HeadlineKey]] = {}
    for head in map(
        HeadlineKey._make, zip(*(heads[name] for name in HeadlineKey._fields), strict=True)
    ):
        wanted.setdefault((head.run, head.judge), []).append(head)
    runs = {run for run, _ in wanted}
    files = {f.path.name: f.read() for f in folders if f.path.name in runs}
    tasks: dict[str, list[RunFolder]] = {}
    for folder in folders:
        if (file := files.get(folder.path.name)) is not None:
            tasks.setdefault(file.run.task, []).append(folder)
    made = [_of_task(own, files, wanted) for own in tasks.values()]
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
    folders: Sequence[RunFolder],
    files: Mapping[str, RunFile],
    wanted: Mapping[tuple[str, str], Sequence[HeadlineKey]],
) -> "DataFrame":
    spec = files[folders[0].path.name].task
    labels = Labels.of(folders) if spec.implicitness or spec.classes else None
    details = [LABELLED[0] + label for label in labels.names] if labels else []
    frame = load(folders, "verdicts", [*_COLUMNS, *details])
    variants, decodings = _Names(frame["variant"]), _Names(frame["decoding"])
    values, snapshots = frame["value"].to_numpy(), _Snapshots(frame)
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
            if labels is not None:
                parts = labels.parts(frame, own, is_own, file.task)
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

    def __init__(self, frame: "DataFrame") -> None:
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


def _snapshot(file: RunFile, head: HeadlineKey, found: Sequence[_Pair]) -> _Pair | None:
    """The snapshots that a headline is of, where verdicts are of several; else None."""
    if len(found) < 2:
        return None
    judge = next(entry for entry in file.judges if entry.name == head.judge)
    recipe = {"variant": head.variant, "decoding": head.decoding}
    made = {signature(file, judge, **recipe, snapshots=pair): pair for pair in found}
    return made.get(head.signature, ("?", "?"))


def _joined(frame: "DataFrame", made: Sequence[tuple[str, Indices, Floats, Floats]]) -> "DataFrame":
    import pandas

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


class Labels:
    """The labels of the choices of some runs' samples, and which one is right."""

    def __init__(self, choices: Mapping[tuple[str, str], tuple[tuple[str, ...], int]]) -> None:
        """`choices` has the labels and the place of the right one, by run and sample."""
        self._choices = choices
        self.names = sorted({label for labels, _ in choices.values() for label in labels})

    @classmethod
    def of(cls, folders: Sequence[RunFolder]) -> "Labels":
        """Those of the samples of some runs."""
        samples = load(folders, "samples", ["sample", "gold", "choices", "references"])
        columns = (samples[name] for name in ("run", "sample", "gold", "choices", "references"))
        return cls(
            {
                (run, sample): (
                    tuple(references.get(LABELS, ())),
                    list(choices).index(gold) if choices is not None and gold in choices else -1,
                )
                for run, sample, gold, choices, references in zip(*columns, strict=True)
            }
        )

    def parts(self, frame: "DataFrame", places: Indices, is_own: Bools, task: TaskSpec) -> Floats:
        """What each verdict adds; NaN where there is no answer."""
        rows = frame.take(places)
        known = [self._choices[pair] for pair in zip(rows["run"], rows["sample"], strict=True)]
        detail = {
            label: np.where(is_own, rows[LABELLED[0] + label].to_numpy(), np.nan)
            for label in self.names
        }
        if task.implicitness is not None:
            return _flags(known, detail, task.implicitness.positive)
        return _classes(known, detail)


_Known = Sequence[tuple[tuple[str, ...], int]]


def _flags(known: _Known, detail: Mapping[str, Floats], positive: Sequence[str]) -> Floats:
    """Of each verdict: positives flagged, positives, negatives flagged, negatives."""
    flagged, has_any = np.zeros(len(known)), np.zeros(len(known), dtype=bool)
    for label in positive:
        has = np.array([label in labels for labels, _ in known], dtype=bool)
        flagged += np.where(has, detail.get(label, np.nan), 0.0)
        has_any |= has
    flagged = np.where(has_any, flagged, np.nan)
    is_positive = np.array(
        [at >= 0 and labels[at] in positive if labels else False for labels, at in known],
        dtype=bool,
    )
    sides = np.column_stack([is_positive, ~is_positive]).astype(np.float64)
    flags = np.where(sides > 0, flagged[:, None], 0.0)
    return np.column_stack([flags[:, 0], sides[:, 0], flags[:, 1], sides[:, 1]])


def _classes(known: _Known, detail: Mapping[str, Floats]) -> Floats:
    """Of each verdict, label by label: whether it is a hit; the times it is given or true."""
    labels = sorted({label for labels, _ in known for label in labels})
    columns = [np.nan_to_num(detail[label]) for label in labels]
    given = np.column_stack(columns) if labels else np.zeros((len(known), 0))
    right = [labels.index(own[at]) if own and at >= 0 else -1 for own, at in known]
    gold = np.array(right, dtype=np.intp)
    true = one_hot(gold, len(labels)) if labels else given
    is_lost = (gold < 0) | ~given.any(axis=1)
    return np.where(is_lost[:, None], np.nan, np.column_stack([given * true, given + true]))
