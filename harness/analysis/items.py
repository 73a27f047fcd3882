"""Runs to answers that are read side by side: which items, in which order, with which verdicts.

A block is one item with its answers: of one run, of several runs, or of several variants where
these are compared. Items are chosen on the frames of answers and verdicts; the records of those
alone are read. Nothing here computes a statistic, prints or asks a model.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness.analysis.pairings import judge_named
from harness.analysis.run_views import describe_run
from harness.data.choices import LABELS
from harness.errors import SpecError, StoreError, did_you_mean
from harness.lazy import DataFrame
from harness.pipeline.choice_scores import IMPLICITNESS
from harness.pipeline.items import (
    choice_text,
    expected_texts,
    item_cells,
    item_columns,
    item_texts,
    missing_reason,
)
from harness.pipeline.plan import options, parted
from harness.pipeline.score import RIGHT_OR_WRONG
from harness.storage.frames import load
from harness.storage.run_tables import SampleRecord, VerdictRecord
from harness.storage.runs import JudgeEntry, RunFile, RunFolder, StoredRows

Where = Literal["right", "wrong", "disagree", "missing", "flip"]
Sort = Literal["data", "worst", "best"]
ROOM = {RIGHT_OR_WRONG: 0.0, "mean_rating": 1.0}
"""Values that differ by more disagree: ratings that are not even adjacent."""
_SHORT = 50
"""Choices of at most so many characters together are in one line."""
_KNOWN = ("label", LABELS, IMPLICITNESS)
_KEY = ["run", "row"]
AT_ONCE = 2_000
"""The answers of a run whose prompts are read at once."""
ShownText = tuple[Literal["text", "answer", "verdict"], str, str]
"""One line of a block as a reader sees it: what it is, its label and its text."""
ItemAnswer = tuple[RunFile, str, SampleRecord]
"""An answer: its run, the name of what it differs by from the others of its block, its record."""


@dataclass(frozen=True, slots=True)
class ItemQuery:
    """Which answers are wanted, and in which order; empty names mean all.

    `below` keeps answers whose value by the one judge is below it. With `has_pairs` the other
    items of a wanted item's cluster are shown too, under each other.
    """

    where: Where | None = None
    judges: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    below: float | None = None
    sort: Sort = "data"
    has_pairs: bool = False


@dataclass(frozen=True, slots=True)
class ItemSelection:
    """The wanted answers in order, the number of all blocks, the judges to be shown.

    `answers` has the columns run, row, block, sample, cluster, title (the variant and decoding
    that all of a block share) and label.
    """

    answers: DataFrame
    total: int
    judges: tuple[JudgeEntry, ...]
    folders: tuple[RunFolder, ...]

    def __len__(self) -> int:
        return int(self.answers["block"].nunique())

    def first(self, count: int | None) -> "ItemSelection":
        """The first blocks, by default all."""
        kept = self.answers["block"].unique()[:count]
        return replace(self, answers=self.answers[self.answers["block"].isin(kept)])

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the answers, as in items.csv."""
        return item_columns(self.judges)

    def rows(self) -> Iterator[tuple[object, ...]]:
        """The rows of the answers one by one, as in items.csv.

        Those of one run in its own order are read some at a time.
        """
        answers, block = self.answers, self.answers["block"]
        is_whole = (block != block.shift()).sum() == block.nunique()
        if len(self.folders) == 1 and answers["row"].is_monotonic_increasing and is_whole:
            [folder] = self.folders
            file, stored, wanted = folder.read(), StoredRows(folder), {*answers["row"]}
            for some in parted((one for at, one in enumerate(stored) if at in wanted), AT_ONCE):
                for record in stored.prompted(some):
                    yield item_cells(file, record, self.judges)
            return
        for _, own in self.blocks():
            for file, _, record in own:
                yield item_cells(file, record, self.judges)

    def blocks(self) -> Iterator[tuple[str, list[ItemAnswer]]]:
        """The title and the answers of each block."""
        known: dict[tuple[str, int], SampleRecord] = {}
        files = {folder.path.name: folder.read() for folder in self.folders}
        for folder in self.folders:
            name, rows = folder.path.name, StoredRows(folder)
            wanted = {*self.answers.loc[self.answers["run"] == name, "row"]}
            found = [(at, record) for at, record in enumerate(rows) if at in wanted]
            prompted = rows.prompted([record for _, record in found])
            places = [(name, at) for at, _ in found]
            known |= dict(zip(places, prompted, strict=True))
        columns = self.answers[["run", "row", "label"]]
        for _, own in self.answers.groupby("block", sort=False):
            named = columns.loc[own.index].itertuples(index=False)
            answers = [(files[run], label, known[run, row]) for run, row, label in named]
            yield own["title"].iat[0], answers


def select_items(folders: Sequence[RunFolder], query: ItemQuery) -> ItemSelection:
    """The blocks of some runs that a query wants.

    Raises SpecError for names that no run has, and where the query needs other judges.
    """
    files = [folder.read() for folder in folders]
    answers = _answers(folders, query)
    judges = _judges(files, query)
    if not len(answers):
        raise StoreError(
            f"{describe_run(files[0])}: no answer of this group and variant; leave out --group or "
            "--variant"
        )
    answers = _in_blocks(answers, files, query)
    total = int(answers["block"].max()) + 1
    values = load(folders, "verdicts", ["row", "judge", "value"]).astype({"run": object})
    values = values[values["judge"].isin([judge.name for judge in judges])]
    values = values.merge(answers[[*_KEY, "block", "place"]], on=_KEY)
    kept = answers[answers["block"].isin(_wanted(answers, values, query, judges))]
    if query.has_pairs:
        pairs = {*zip(kept["cluster"], kept["title"], strict=True)}
        is_near = [pair in pairs for pair in zip(answers["cluster"], answers["title"], strict=True)]
        kept = answers[is_near]
    kept = _sorted(kept, values, query, judges)
    return ItemSelection(kept, total, tuple(judges), tuple(folders))


def _answers(folders: Sequence[RunFolder], query: ItemQuery) -> DataFrame:
    """The answers of the groups and variants that are named, by default of all."""
    names = ["row", "sample", "variant", "decoding", "answer"]
    answers = load(folders, "answers", names)
    samples = load(folders, "samples", ["sample", "cluster", "group"])
    found = answers.merge(samples, on=["task", "model", "run", "sample"], how="left").astype(object)
    for what, wanted in (("group", query.groups), ("variant", query.variants)):
        known = {*found[what].unique()}
        for name in (name for name in wanted if name not in known):
            hint = did_you_mean(name, sorted(known))
            raise SpecError(f"--{what} {name!r}: no answer of these runs is of it{hint}")
    for what, wanted in (("group", query.groups), ("variant", query.variants)):
        found = found[found[what].isin(wanted)] if wanted else found
    return found.reset_index(drop=True)


def _judges(files: Sequence[RunFile], query: ItemQuery) -> list[JudgeEntry]:
    """The named judges, or all; each once, in the order of the runs."""
    found = {entry.name: entry for file in files for entry in file.judges}
    if lost := [name for name in query.judges if name not in found]:
        judge_named(files[0], lost[0])
    return [found[name] for name in query.judges or found]


def _in_blocks(answers: DataFrame, files: Sequence[RunFile], query: ItemQuery) -> DataFrame:
    """Every answer with its block: items of one variant together, of these clusters together."""
    way = answers["variant"] + " " + answers["decoding"]
    run = answers["run"].map(
        {f.digest[:16]: name for f, name in zip(files, _run_labels(files), strict=True)}
    )
    if len(files) == 1 and query.where == "flip":
        title, label = answers["decoding"], answers["variant"]
    elif len(files) == 1 or set.intersection(*map(set, way.groupby(answers["run"]).unique())):
        title, label = way, run
    else:
        title, label = way.map(lambda _: ""), run + ", " + way
    found = answers.assign(title=title, label=label)
    places = {name: found.groupby(name, sort=False).ngroup() for name in ("title", "cluster")}
    found["first"] = found.groupby(["title", "sample"], sort=False).ngroup()
    order = found.assign(of_title=places["title"], of_cluster=places["cluster"])
    found = order.sort_values(["of_title", "of_cluster", "first"], kind="stable")
    found["block"] = found.groupby("first", sort=False).ngroup()
    key = ["cluster" if query.has_pairs else "sample", "title"]
    found["place"] = found.groupby(key, sort=False).ngroup()
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
    answers: DataFrame, values: DataFrame, query: ItemQuery, judges: Sequence[JudgeEntry]
) -> set[int]:
    """The blocks that a query wants: by `where` and by `below`."""
    wanted = {*answers["block"]}
    if query.below is not None:
        _one_judge(judges, "--below")
        wanted &= {*values.loc[values["value"] < query.below, "block"]}
    if query.where == "missing":
        lost = answers.loc[answers["answer"].isna(), "block"]
        return wanted & {*lost, *values.loc[values["value"].isna(), "block"]}
    if query.where == "disagree":
        kinds = _comparable(judges)
        own = values[values["judge"].isin(kinds)].assign(
            kind=values["judge"].astype(object).map(kinds)
        )
        by = own.groupby([*_KEY, "block", "kind"])["value"]
        spread = (by.max() - by.min()).reset_index()
        room = spread["kind"].map(lambda kind: ROOM[kind.partition("|")[0]])
        return wanted & {*spread.loc[spread["value"] > room, "block"]}
    if query.where is None:
        return wanted
    own = values[values["judge"].isin(_deciding(judges, query))]
    if query.where == "right":
        all_right = own["value"].eq(1.0).groupby([own["run"], own["row"], own["block"]]).all()
        return wanted & {*all_right[all_right].index.get_level_values("block")}
    if query.where == "wrong":
        return wanted & {*own.loc[own["value"] == 0.0, "block"]}
    both = own[own["value"].isin([0.0, 1.0])]
    both = both.groupby(["block", "judge"], observed=True)["value"].nunique()
    return wanted & {*both[both > 1].index.get_level_values("block")}


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


def _sorted(
    kept: DataFrame, values: DataFrame, query: ItemQuery, judges: Sequence[JudgeEntry]
) -> DataFrame:
    """The blocks by the value of the one judge, those without one last; whole clusters in pairs."""
    if query.sort == "data":
        return kept
    _one_judge(judges, f"--sort {query.sort}")
    own = values[values["block"].isin(kept["block"])]
    worst = (own["value"] if query.sort == "worst" else -own["value"]).groupby(own["place"]).min()
    return kept.assign(worst=kept["place"].map(worst)).sort_values("worst", kind="stable")


def entries(answers: Sequence[ItemAnswer], judges: Sequence[JudgeEntry]) -> Iterator[ShownText]:
    """What a reader sees of a block: the item, what was expected, each answer, its verdicts."""
    file, _, first = answers[0]
    for name, text in item_texts(first).items():
        yield "text", name, text
    if file.task.data.map is not None and file.data.mode != "sample":
        # The columns of a table that its map keeps with text and label.
        for name, texts in first.sample.references.items():
            if name not in _KNOWN:
                yield "text", name, " / ".join(texts)
    choices = first.sample.choices
    if len(" / ".join(choices)) > _SHORT:
        yield from _choice_texts(answers)
    else:
        if choices:
            yield "text", "choices", " / ".join(choices)
        for text in expected_texts(first.sample, file.task, first.variant):
            yield "text", "expected", text
    for answer in answers:
        yield from _answer_entries(answer, judges, is_alone=len(answers) == 1)


def _choice_texts(answers: Sequence[ItemAnswer]) -> Iterator[ShownText]:
    """The choices as they were numbered; without numbers where the answers saw several orders."""
    sample = answers[0][2].sample
    orders = {
        tuple(option.index for option in options(file.task, record.variant, sample))
        for file, _, record in answers
    }
    has_one = len(orders) == 1
    order = orders.pop() if has_one else range(len(sample.choices))
    for place, index in enumerate(order, 1):
        label = f"choice {place}" if has_one else "choice"
        is_right = sample.choices[index] == sample.gold
        yield "text", f"{label}{', right' * is_right}", sample.choices[index]


def _answer_entries(
    answer: ItemAnswer, judges: Sequence[JudgeEntry], *, is_alone: bool
) -> Iterator[ShownText]:
    file, label, record = answer
    for step in () if file.task.has_choices else record.steps[:-1]:
        yield "text", step.step if is_alone else f"{label}: {step.step}", step.text or "-"
    if record.answer is None:
        said = f": {note}" if (note := record.steps[-1].note) else ""
        text = f"(no answer: {missing_reason(record, file.task)}{said})"
    else:
        words = choice_text(record, file.task)
        is_more = words is not None and words != record.answer
        text = f"{record.answer}: {words}" if is_more else record.answer
    yield "answer", label, text
    for judge in judges:
        if (verdict := record.verdicts.get(judge.name)) is not None:
            yield "verdict", judge.name, _said(verdict, judge)


def _said(verdict: VerdictRecord, judge: JudgeEntry) -> str:
    """A verdict, then what the judge replied or why there is none."""
    if verdict.value is None:
        value = f"missing, {verdict.reason}"
    else:
        words = {1.0: "right", 0.0: "wrong", 0.5: "tie"} if judge.metric == RIGHT_OR_WRONG else {}
        value = words.get(verdict.value, f"{verdict.value:.4g}")
    replies = [f'"{reply.strip()}"' for reply in verdict.replies if reply is not None]
    note = verdict.note if verdict.value is None else ""
    return ": ".join(filter(None, (value, "; ".join(replies) or note)))
