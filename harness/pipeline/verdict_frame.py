"""The tables of a run to one frame of verdicts, with what scores need of each sample, and no text.

Its columns, besides those of docs/frames.md: `sample` and `cluster` are numbers in the order of the
names; `is_own` is false where the verdict is of other snapshots than the score; `sample_choices` is
how many choices there are, `sample_gold` the place of the right one, or -1, `sample_labels` their
labels; `sample_parts` are the texts of the reference by which missed samples are counted;
`probabilities` is how many choices have a probability, `probability_0` and so on each of them.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from harness.data.choices import LABELS
from harness.judges import gold
from harness.lazy import DataFrame, Series, compute, pandas, pyarrow
from harness.parts import Reason
from harness.specs.tasks import TaskSpec
from harness.stats.estimate import Floats, Indices
from harness.storage.read_tables import opened
from harness.storage.schema import REFERENCE, STORED

ALL, OF_DATA = "all", " (a group)"
IMPLICITNESS = "implicitness"
OF_CHOICE = (gold.PLACE, *gold.LABELLED)
REASONS = tuple(str(reason) for reason in Reason)
Wanted = Callable[[str], bool]
Files = Mapping[str, Path | IO[bytes]]
"""The Parquet file of each table."""
_NAMES = ("variant", "decoding", "group", "judge", "reason", "served", "model_served")
_NUMBERED = ("sample", "cluster")
_UNREAD = frozenset({"note", "keys", "replies", "usages"})
_FACTS = frozenset({*STORED["verdicts"], "is_own"})
_SAMPLE, _SHARE = "sample_", "probability_"


def verdict_frame(files: Files, task: TaskSpec, *more: Files, judge: str = "") -> DataFrame:
    """The frame of all verdicts of a run, and of more runs of its task, in the order of the tables.

    Of several runs each has samples of its own, whatever they are called. With `judge` it has those
    of that judge alone.
    """
    every = (files, *more)
    named = (*_NUMBERED, *_NAMES)
    table = _joined(every, "verdicts", lambda name: name not in _UNREAD, named, judge)
    columns = {"is_own": np.ones(len(table), dtype=bool)}
    for name in table.column_names:  # each goes when it is read: together they are large
        column, table = table.column(name).unify_dictionaries(), table.drop_columns([name])
        if name == "probabilities":
            columns |= _shares(column.combine_chunks())
        elif name in _NUMBERED:
            names = column.combine_chunks()
            places = names.indices.to_numpy()
            columns[name] = _ranks(names.dictionary)[places]
            facts = _sample_facts(every, task, names.dictionary) if name == "sample" else {}
            columns |= {f"{_SAMPLE}{fact}": cells[places] for fact, cells in facts.items()}
        else:
            columns[name] = column.to_pandas()
    frame = pandas.DataFrame(columns, copy=False)
    frame["reason"] = frame["reason"].cat.set_categories(REASONS)
    return frame


def _shares(lists: Any) -> dict[str, Any]:  # noqa: ANN401 - pyarrow has no types
    sizes = lists.value_lengths().fill_null(0).to_numpy()
    values = lists.flatten().to_numpy()
    starts = np.cumsum(sizes) - sizes
    found: dict[str, Any] = {"probabilities": sizes}
    for at in range(int(sizes.max(initial=0))):
        has, column = sizes > at, np.full(len(sizes), np.nan)
        column[has] = values[starts[has] + at]
        found[f"{_SHARE}{at}"] = column
    return found


def _joined(
    every: Sequence[Files], table: str, is_wanted: Wanted, named: Sequence[str], judge: str = ""
) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Some columns of a table of some runs; of several runs, samples begin with the run's place.

    With `judge` the rows of that judge alone, which are sought before all are in memory.
    """
    parts = []
    for place, files in enumerate(every):
        with opened(files[table], named) as file:
            wanted = [name for name in file.schema_arrow.names if is_wanted(name)]
            groups = (file.read_row_group(at, wanted) for at in range(file.num_row_groups))
            own = [group.filter(compute.field("judge") == judge) for group in groups if judge]
            part = pyarrow.concat_tables(own) if own else file.read(wanted)
        if len(every) > 1:
            names, at = part.column("sample").cast("string"), part.column_names.index("sample")
            names = compute.binary_join_element_wise(f"{place}|", names, "")
            part = part.set_column(at, "sample", names.dictionary_encode() if named else names)
        parts.append(part)
    return pyarrow.concat_tables(parts, promote_options="default")


def _ranks(names: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    """The place of each name in their order."""
    ranks = np.empty(len(names), np.int32)
    ranks[compute.sort_indices(names).to_numpy()] = np.arange(len(names), dtype=np.int32)
    return ranks


def _sample_facts(every: Sequence[Files], task: TaskSpec, ids: Any) -> dict[str, Any]:  # noqa: ANN401 - pyarrow has no types
    """What scores need of the samples of some ids, in their order."""
    parts = task.classes.by if task.classes else None
    names = {"labels": LABELS, "parts": parts, IMPLICITNESS: IMPLICITNESS}
    of = {fact: f"{REFERENCE}{name}" for fact, name in names.items() if name}
    wanted = {"sample", "gold", "choices", *of.values()}
    table = _joined(every, "samples", wanted.__contains__, ())
    known = {fact: name for fact, name in of.items() if name in table.column_names}
    nothing: list[Any] = [None] * len(table)
    texts = {n: table.column(known[n]).to_pylist() if n in known else nothing for n in names}
    firsts = pandas.Series([s[0] if s else None for s in texts[IMPLICITNESS]], dtype=object)
    sizes, gold_places = _choices(table)
    facts = {
        "choices": sizes,
        "gold": gold_places,
        "labels": _tuples(texts["labels"]),
        "parts": _tuples(texts["parts"]),
        IMPLICITNESS: pandas.to_numeric(firsts, errors="coerce").to_numpy(float),
    }
    names = table.column("sample").combine_chunks()
    if names.equals(ids):  # as they are written: no table of a million names is needed
        return facts
    found = compute.index_in(ids, value_set=names)
    places = found.fill_null(-1).to_numpy(zero_copy_only=False)
    return {fact: cells[places] for fact, cells in facts.items()}


def _choices(table: Any) -> tuple[Indices, Indices]:  # noqa: ANN401 - pyarrow has no types
    """Of each sample how many choices it has, and the place of the right one, or -1."""
    lists, gold = (table.column(name).combine_chunks() for name in ("choices", "gold"))
    sizes = lists.value_lengths().fill_null(0).to_numpy()
    owners = compute.list_parent_indices(lists)
    is_right = compute.equal(lists.flatten(), gold.take(owners)).fill_null(False)
    right = np.flatnonzero(is_right.to_numpy(zero_copy_only=False))
    rows, places = owners.to_numpy()[right], np.full(len(sizes), -1)
    places[rows] = right - (np.cumsum(sizes) - sizes)[rows]
    return sizes, places


def _tuples(texts: Sequence[Sequence[str] | None]) -> Any:  # noqa: ANN401 - a pandas categorical
    known = dict[tuple[str, ...], int]()
    codes = [known.setdefault(tuple(some or ()), len(known)) for some in texts]
    kinds = np.empty(len(known), dtype=object)
    kinds[:] = list(known)
    return pandas.Categorical.from_codes(codes, pandas.Index(kinds, tupleize_cols=False))


def details(frame: DataFrame) -> list[str]:
    """The columns that judges add and that have a number in any of the rows."""
    return sorted(
        name
        for name in frame.columns
        if name not in _FACTS
        and not name.startswith((_SAMPLE, _SHARE))
        and frame[name].notna().any()
    )


def detail(frame: DataFrame, name: str) -> Floats:
    """One further number of each verdict, NaN where it has none."""
    return np.asarray(frame[name], float) if name in frame else np.full(len(frame), np.nan)


def probabilities(frame: DataFrame, size: int) -> Floats:
    """The probabilities of the choices of some verdicts that have `size` of them: rows x size."""
    shares = np.array([frame[f"{_SHARE}{at}"].to_numpy() for at in range(size)], float)
    return shares.T.reshape(len(frame), size)


def numbers(column: "Series[Any]") -> Indices:
    """The codes of a column of categories, -1 for none."""
    return np.asarray(column.cat.codes, dtype=np.intp)


def by_snapshot(frame: DataFrame) -> Iterator[tuple[tuple[str, str], DataFrame]]:
    """Split one judge's verdicts by the snapshots of model and judge: others are missing."""
    if frame.empty:
        return
    pairs, is_known = frame[["model_served", "served"]], frame["value"].notna()
    few = pairs[is_known].drop_duplicates().astype(object).fillna("")
    known = sorted(set(few.itertuples(index=False, name=None)))
    if len(known) < 2:
        # Without a value: the snapshots behind all verdicts, if there is one of each kind.
        some = [set(pairs[name].dropna().unique()) - {""} for name in pairs]
        silent = [min(found) if len(found) == 1 else "" for found in some]
        yield next(iter(known), (silent[0], silent[1])), frame
        return
    pairs = pairs.astype(object).fillna("")
    shares = [name for name in frame.columns if name.startswith(_SHARE)]
    for snapshots in known:
        made, is_other = frame.copy(), is_known & (pairs != list(snapshots)).any(axis=1)
        made["is_own"] = ~is_other
        made.loc[is_other, "reason"] = str(Reason.UNSUPPORTED)
        made.loc[is_other, "probabilities"] = 0
        made.loc[is_other, ["value", *details(frame), *shares]] = np.nan
        yield snapshots, made


def rows_where(frame: DataFrame, is_wanted: "Series[bool]") -> DataFrame:
    """Some of the rows; all of them are not copied."""
    return frame if is_wanted.all() else frame[is_wanted]


class Block(NamedTuple):
    """The verdicts behind some scores; `details` names what judges add and has a meaning here."""

    variant: str
    decoding: str
    group: str
    verdicts: DataFrame
    details: tuple[str, ...] = ()
    is_average: bool = False


def averages(task: TaskSpec) -> dict[str, tuple[str, ...]]:
    """The averages over variants that a task names, and the variants of each."""
    members: dict[str, tuple[str, ...]] = {}
    for name, spec in task.variants.items():
        if spec.averaged_over:
            members[spec.averaged_over] = (*members.get(spec.averaged_over, ()), name)
    return members


def blocks(frame: DataFrame, task: TaskSpec, *, has_groups: bool = True) -> Iterator[Block]:
    """Each variant, then each average, under each decoding and all of them; groups after `all`."""
    everything = set(details(frame)) if has_groups else set[str]()
    found = dict.fromkeys(frame["variant"].unique())
    members: dict[str, tuple[str, ...]] = {name: (name,) for name in found}
    members |= {n: own for n, own in averages(task).items() if found.keys() >= set(own)}
    for name, own in members.items():
        of_variant = rows_where(frame, frame["variant"].isin(own))
        labels = list(of_variant["decoding"].unique())
        parts = {label: rows_where(of_variant, of_variant["decoding"] == label) for label in labels}
        if len(labels) > 1:
            parts[headline_label(labels)] = of_variant
        groups = named_groups(of_variant["group"].unique()) if has_groups else {ALL: None}
        for (label, chosen), (title, group) in product(parts.items(), groups.items()):
            part = chosen if group is None else rows_where(chosen, chosen["group"] == group)
            # What is said of a kind of choice that none of the samples has, has no meaning.
            of_choice = [n for n in everything if n.startswith(OF_CHOICE)]
            kept = sorted(everything - {n for n in of_choice if np.isnan(detail(part, n)).all()})
            yield Block(name, label, title, part, tuple(kept), name not in found)


def headline_label(labels: Sequence[str]) -> str:
    """The name of several decodings taken together: T0.3 and T0.5 make T0.3+0.5."""
    return "+".join([labels[0], *(label.removeprefix("T") for label in labels[1:])])


def named_groups(groups: Sequence[str]) -> dict[str, str | None]:
    """The groups by their names in tables after ALL: None. One called "all" has another name."""
    found = sorted(set(groups))
    own = [] if found == [ALL] else found
    return {ALL: None} | {
        f"{g}{OF_DATA}" if re.fullmatch(f"{ALL}({re.escape(OF_DATA)})*", g) else g: g for g in own
    }
