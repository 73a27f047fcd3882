"""Runs to answers that are read side by side: which items, in which order, with which verdicts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

import numpy as np

from harness.analysis.pairings import judge_named
from harness.errors import SpecError, StoreError, check_names
from harness.lazy import DataFrame, Series, pandas
from harness.pipeline.items import ItemAnswer, item_cells
from harness.pipeline.score import RIGHT_OR_WRONG
from harness.storage.frames import load
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import JudgeEntry, RunFile, RunFolder, StoredRows

Where = Literal["right", "wrong", "disagree", "missing", "flip", "lost", "won"]
_BETWEEN = ("lost", "won")
Sort = Literal["data", "worst", "best"]
ROOM = {RIGHT_OR_WRONG: 0.0, "mean_rating": 1.0}
"""Values that differ by more disagree: ratings that are not even adjacent."""
_KEY = ["run", "row"]
_SHOWN = ("block", "title", *_KEY, "label")


@dataclass(frozen=True, slots=True)
class ItemQuery:
    """Which answers are wanted, and in which order; empty names mean all.

    `lost` and `won` are those on which the second of two runs is worse, or better, than the first.

    With `has_pairs` the other items of a wanted item's cluster are shown too. With `ratings`, in
    long form, `below` and `sort` go by the mean of people's, which labels then have.
    """

    where: Where | None = None
    judges: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    below: float | None = None
    sort: Sort = "data"
    has_pairs: bool = False
    ratings: DataFrame | None = None


@dataclass(frozen=True, slots=True)
class ItemSelection:
    """The wanted answers in order (`title` is what a block shares), all blocks, the judges."""

    answers: DataFrame
    total: int
    judges: tuple[JudgeEntry, ...]
    folders: tuple[RunFolder, ...]

    def __len__(self) -> int:
        return int(self.answers["block"].nunique())

    def first(self, count: int | None) -> "ItemSelection":
        """The first blocks; all for None."""
        kept = self.answers["block"].unique()[:count]
        return replace(self, answers=self.answers[self.answers["block"].isin(kept)])

    def rows(self) -> Iterator[tuple[object, ...]]:
        """The rows of the answers one by one, as in items.csv."""
        for _, own in self.blocks():
            for file, _, record in own:
                yield item_cells(file, record, self.judges)

    def blocks(self) -> Iterator[tuple[str, list[ItemAnswer]]]:
        """The title and the answers of each block."""
        files = {folder.key: folder.read() for folder in self.folders}
        of_run = self.answers.groupby("run", observed=True)["row"]
        left = {folder.key: folder for folder in self.folders}
        ahead = {str(run): _records(left[str(run)], rows) for run, rows in of_run}
        held: dict[tuple[str, int], SampleRecord] = {}
        rows = self.answers.itertuples(index=False, name=None)
        for (_, title), own in groupby(rows, lambda row: row[:2]):
            answers: list[ItemAnswer] = []
            for *_, run, row, label in own:
                while (run, row) not in held:
                    at, record = next(ahead[run])
                    held[run, at] = record
                answers.append((files[run], label, held.pop((run, row))))
            yield title, answers


def _records(folder: RunFolder, rows: "Series[int]") -> Iterator[tuple[int, SampleRecord]]:
    """The records of some rows, in their order in the run."""
    stored = StoredRows(folder)
    is_wanted = np.zeros(len(stored), bool)
    is_wanted[rows] = True
    records = stored.at(is_wanted, is_brief=True)
    return zip(np.flatnonzero(is_wanted).tolist(), records, strict=True)


def select_items(folders: Sequence[RunFolder], query: ItemQuery) -> ItemSelection:
    """The blocks of some runs that a query wants; SpecError where no run or judge has them."""
    by_run = {folder.key: folder.read() for folder in folders}
    files = [*by_run.values()]
    if query.where in _BETWEEN and len(files) != 2:
        raise SpecError(f"--where {query.where}: compares two runs; name two, not {len(files)}")
    entries = {entry.name: entry for file in files for entry in file.judges}
    if lost := [name for name in query.judges if name not in entries]:
        judge_named(files[0], lost[0])
    judges = [entries[name] for name in query.judges or entries]
    answers = _in_blocks(_answers(folders, query), by_run, query)
    values = load(folders, "verdicts", ["row", "judge", "value"])
    values = values[values["judge"].isin([judge.name for judge in judges])]
    values = values.astype({"run": answers["run"].dtype})
    values = values.merge(answers[[*_KEY, "block", "place"]], on=_KEY)
    by_whom: Sequence[JudgeEntry] = judges
    if query.ratings is not None:
        by_whom, answers, values = _by_people(answers, query.ratings)
    kept = answers[answers["block"].isin(_wanted(answers, values, query, by_whom, [*by_run]))]
    if query.has_pairs:
        kept = answers[answers["place"].isin(kept["place"].unique())]
    if query.sort != "data":
        # The blocks by the value of the one judge, those without one last; whole clusters in pairs.
        _one_judge(by_whom, f"--sort {query.sort}")
        own = values["value"] if query.sort == "worst" else -values["value"]
        worst = own.groupby(values["place"]).min()
        kept = kept.assign(worst=kept["place"].map(worst)).sort_values("worst", kind="stable")
    total = int(answers["block"].max()) + 1
    return ItemSelection(kept[list(_SHOWN)], total, tuple(judges), tuple(folders))


def _by_people(
    answers: DataFrame, ratings: DataFrame
) -> tuple[list[JudgeEntry], DataFrame, DataFrame]:
    """People as a judge, the answers with their mean rating in the label, and these as verdicts."""
    mean = ratings.groupby(["task", "model", "sample_id"])["value"].mean().to_dict()
    keys = zip(*(answers[name].astype(str) for name in ("task", "model", "sample")), strict=True)
    found = pandas.Series([mean.get(key) for key in keys], answers.index, float)
    if found.isna().all():
        raise StoreError("no rating is of an answer of these runs; name the file of their ratings")
    said = found.map(lambda value: "" if value != value else f", people {value:.2f}")
    answers = answers.assign(label=answers["label"].astype(str) + said)
    values = answers[[*_KEY, "block", "place"]].assign(judge="people", value=found).dropna()
    return [JudgeEntry("people", "mean_rating", "people")], answers, values


def _answers(folders: Sequence[RunFolder], query: ItemQuery) -> DataFrame:
    """The answers of the groups and variants that are named, by default of all."""
    answers = load(folders, "answers", ["row", "sample", "variant", "decoding", "answer"])
    answers["answer"] = answers["answer"].notna()
    samples = load(folders, "samples", ["sample", "cluster", "group"])
    key = ["run", "sample"]
    samples = samples.astype({name: answers[name].dtype for name in key})
    found = answers.merge(samples[[*key, "cluster", "group"]], on=key, how="left")
    wanted = {"group": query.groups, "variant": query.variants}
    for what, names in wanted.items():
        then = ": no answer of these runs is of it"
        check_names(f"--{what}", names, {*found[what].unique()}, then=then)
    for what, names in wanted.items():
        found = found[found[what].isin(names)] if names else found
    if not len(found):
        raise StoreError("no answer of this group and variant; leave out --group or --variant")
    return found.reset_index(drop=True)


def _in_blocks(answers: DataFrame, files: Mapping[str, RunFile], query: ItemQuery) -> DataFrame:
    """Every answer with its block: items of one variant together, of these clusters together."""
    pair = ["variant", "decoding"]
    pairs = answers[pair].drop_duplicates().itertuples(index=False, name=None)
    of_pair = answers.groupby(pair, observed=True, sort=False).ngroup()
    way = of_pair.map({at: " ".join(names) for at, names in enumerate(pairs)})
    names = dict(zip(files, _run_labels([*files.values()]), strict=True))
    run = answers["run"].astype(object).map(names)
    if len(files) == 1 and query.where == "flip":
        if answers["variant"].nunique() < 2:
            fact = "--where flip: compares runs or variants, and there is one of each"
            raise SpecError(f"{fact}; name two runs, or a run of several variants")
        title, label = answers["decoding"], answers["variant"]
    elif len(files) == 1 or set.intersection(*map(set, way.groupby(run).unique())):
        title, label = way, run
    else:
        title, label = way.map(lambda _: ""), run + ", " + way
    found = answers.assign(title=title.astype("category"), label=label.astype("category"))
    at = {n: found.groupby(n, sort=False, observed=True).ngroup() for n in ("title", "cluster")}
    found["block"] = found.groupby(["title", "sample"], sort=False, observed=True).ngroup()
    order = np.lexsort((found["block"], at["cluster"], at["title"]))
    found = found.iloc[order]
    found["block"] = found.groupby("block", sort=False).ngroup()
    key = ["cluster" if query.has_pairs else "sample", "title"]
    found["place"] = found.groupby(key, sort=False, observed=True).ngroup()
    return found


def _run_labels(files: Sequence[RunFile]) -> list[str]:
    """A name for each run: its model, with the task or the digest where two are alike."""
    names = [file.model.name for file in files]
    if len({*names}) < len(names) and len({file.run.task for file in files}) > 1:
        names = [f"{name} on {file.run.task}" for name, file in zip(names, files, strict=True)]
    counts = Counter(names)
    return [
        name if counts[name] == 1 else f"{name} {file.digest[:6]}"
        for name, file in zip(names, files, strict=True)
    ]


def _wanted(
    answers: DataFrame,
    values: DataFrame,
    query: ItemQuery,
    judges: Sequence[JudgeEntry],
    runs: Sequence[str],
) -> "Series[int]":
    """The blocks of some runs that a query wants, by `where` and `below`; some are there twice."""
    if query.below is not None:
        _one_judge(judges, "--below")
        below = values.loc[values["value"] < query.below, "block"]
        answers, values = (one[one["block"].isin(below)] for one in (answers, values))
    if query.where == "missing":
        lost = answers.loc[~answers["answer"], "block"]
        return pandas.concat([lost, values.loc[values["value"].isna(), "block"]])
    if query.where == "disagree":
        kinds = values["judge"].astype(object).map(_comparable(judges))
        by = values["value"].groupby([values["run"], values["row"], values["block"], kinds])
        spread = (by.max() - by.min()).rename("spread").reset_index()
        room = spread["judge"].map(lambda kind: ROOM[kind.partition("|")[0]])
        return spread.loc[spread["spread"] > room, "block"]
    if query.where is None:
        return answers["block"]
    own = values[values["judge"].isin(_deciding(judges, query))]
    if query.where == "wrong":
        return own.loc[own["value"] == 0.0, "block"]
    if query.where == "right":
        by = own["value"].eq(1.0).groupby([own[name] for name in (*_KEY, "block")], observed=True)
        return by.all().loc[lambda is_right: is_right].reset_index()["block"]
    if query.where in _BETWEEN:
        wide = own.pivot_table("value", ["block", "judge"], "run", observed=True)
        gain = wide.reindex(columns=runs).diff(axis=1)[runs[1]]
        is_found = gain > 0 if query.where == "won" else gain < 0
        return gain[is_found].reset_index()["block"]
    both = own[own["value"].isin([0.0, 1.0])]
    counts = both.groupby(["block", "judge"], observed=True)["value"].nunique()
    return counts[counts > 1].reset_index()["block"]


def _named(judges: Iterable[JudgeEntry]) -> str:
    return ", ".join(f"{judge.name} ({judge.metric})" for judge in judges) or "nobody"


def _deciding(judges: Sequence[JudgeEntry], query: ItemQuery) -> list[str]:
    """The judges that say right or wrong; of all, those of responses."""
    found = [judge for judge in judges if judge.metric == RIGHT_OR_WRONG]
    if not query.judges:
        found = [j for j in found if not j.step]
    if not found:
        raise SpecError(
            f"--where {query.where}: no judge says right or wrong (judged by {_named(judges)}); "
            "for ratings use --below VALUE or --sort worst with --judge NAME, or have another "
            "judge read it"
        )
    return [judge.name for judge in found]


def _comparable(judges: Sequence[JudgeEntry]) -> dict[str, str]:
    """The scale and step of each judge that gives values as another one does."""
    plain = [judge for judge in judges if judge.metric in ROOM]
    kinds = {judge.name: f"{judge.metric}|{judge.step}" for judge in plain}
    counts = Counter(kinds.values())
    if found := {name: kind for name, kind in kinds.items() if counts[kind] > 1}:
        return found
    raise SpecError(
        f"--where disagree: no two judges of these runs are on one scale (judged by "
        f"{_named(judges)}); have one more read them: harness judge RUN --judge NAME"
    )


def _one_judge(judges: Sequence[JudgeEntry], option: str) -> None:
    if len(judges) != 1:
        names = ", ".join(judge.name for judge in judges) or "none has read these runs"
        raise SpecError(f"{option} goes by the values of one judge; add --judge NAME ({names})")
