"""Stored runs to views (one judge's score of each sample), and these to pairings of two."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from harness.errors import SpecError, StoreError, did_you_mean
from harness.judges.custom import JudgeLabel
from harness.lazy import DataFrame, Index, pandas
from harness.pipeline import verdict_frame as frames
from harness.pipeline.choice_scores import are_positive, permuted
from harness.pipeline.score import RIGHT_OR_WRONG, signature, value_range
from harness.pipeline.verdict_frame import Files, headline_label
from harness.specs.tasks import TaskSpec
from harness.stats.estimate import Clusters, Limits
from harness.storage.find_runs import run_differences
from harness.storage.read_tables import arrow_table, column_names
from harness.storage.runs import JudgeEntry, RunFile, RunFolder
from harness.storage.schema import FIELD, REFERENCE
from harness.storage.signature import JudgeRecipe

ABSENT = -1  # of a text that is not there: Python hashes nothing to -1

DECISIONS = "what was chosen is compared, not how probable it was"


@dataclass(frozen=True, slots=True, eq=False)
class ComparedRun:
    """A run with its `verdict_frame`, and the sample's `id`.

    `said` has a row a sample, by its id: hashes of its fields and references, in this process. With
    `is_wrong` a missing verdict counts as the least that it can be, if that is known.
    """

    file: RunFile
    verdicts: DataFrame
    said: DataFrame
    is_wrong: bool = False

    @classmethod
    def read(cls, folder: RunFolder) -> "ComparedRun":
        """The run of a folder; StoreError where its tables were changed."""
        return cls.of(folder.read(), folder.tables())

    @classmethod
    def of(cls, file: RunFile, files: Files) -> "ComparedRun":
        """A run from the files of its tables."""
        verdicts = frames.verdict_frame(files, file.task)
        ids = np.array(sorted({*map(str, _cells(files, "verdicts", "sample"))}), dtype=object)
        verdicts["id"] = ids[verdicts["sample"].to_numpy()]
        texts = (n for n in column_names(files["samples"]) if n.startswith((FIELD, REFERENCE)))
        hashes = {name: [*map(_hash, _cells(files, "samples", name))] for name in texts}
        index = pandas.Index(_cells(files, "samples", "sample"))
        said = pandas.DataFrame(hashes, index=index).reindex(ids)
        return cls(file, verdicts, said)


def _cells(files: Files, table: str, column: str) -> list[object]:
    cells: list[object] = arrow_table(files[table], [column]).column(column).to_pylist()
    return cells


def _hash(cell: object) -> int:
    return ABSENT if cell is None else hash(tuple(cell) if isinstance(cell, list) else cell)


def ways(verdicts: DataFrame) -> list[tuple[str, str]]:
    """The variants and decodings of some verdicts, in the order in which they come."""
    found = verdicts[["variant", "decoding"]].drop_duplicates()
    return list(found.itertuples(index=False, name=None))


@dataclass(frozen=True, slots=True, eq=False)
class RunView:
    """One judge's scores of a run under a variant or pool, a row a sample.

    `scores` has `id`, `cluster`, `group`, `sample_choices`, `value`, whether a verdict behind it is
    `lost`, and of texts with labels if it is `positive`. `snapshots` are those of the model under
    test and of the judge model, empty where unknown.
    """

    file: RunFile
    judge: JudgeEntry
    variant: str
    decoding: str
    snapshots: tuple[str, str]
    scores: DataFrame
    is_pool: bool = False

    def signature(self, decoding: str) -> str:
        """The recipe of these scores in one line, under the name of its decodings."""
        recipe = {"variant": self.variant, "decoding": decoding}
        return signature(self.file, self.judge, **recipe, snapshots=self.snapshots)


def views(run: ComparedRun, judge: JudgeEntry) -> list[RunView]:
    """Every view of a run by a judge: its variants, then the pools that are whole."""
    read = run.verdicts[run.verdicts["judge"] == judge.name]
    parts = [*frames.by_snapshot(read)]
    if len(parts) > 1:
        names = "; ".join(" by ".join(name or "unknown" for name in pair) for pair, _ in parts)
        raise StoreError(
            f"{describe_run(run.file)}, judge {judge.name}: its verdicts are of several snapshots "
            f"({names}), which share no row; name one in the model's YAML and repeat the run"
        )
    single, pools, found = set(read["decoding"].unique()), frames.averages(run.file.task), []
    ends = value_range(judge, judge.metric) if run.is_wrong else None
    least = ends[0] if ends else np.nan
    for snapshots, own in parts:
        for block in frames.blocks(own, run.file.task, has_groups=False):
            is_pool, verdicts = block.is_average, block.verdicts
            # A pool is whole if all of its variants were asked in this way.
            members = pools[block.variant] if is_pool else ()
            if block.decoding in single and {*members} <= {*verdicts["variant"].unique()}:
                of = (run.file, judge, block.variant, block.decoding, snapshots)
                scores = _scores(verdicts, least, run.file.task, is_pool=is_pool)
                found.append(RunView(*of, scores, is_pool))
    return found


def _scores(verdicts: DataFrame, least: float, task: TaskSpec, *, is_pool: bool) -> DataFrame:
    """A row a sample with its score; over several orders, by averaged probability if known.

    What is missing counts as the `least`, or not, if that is NaN.
    """
    codes, samples = verdicts["sample"].factorize()
    of, values = Clusters(codes, len(samples)), verdicts["value"].to_numpy()
    lost = of.totals(np.isnan(values)) > 0
    sums, sizes = of.exact_sums(np.where(np.isnan(values), least, values))
    found, is_first = sums / sizes, ~verdicts["sample"].duplicated()
    if is_pool:
        likeliest = permuted(verdicts)[is_first]
        found = np.where(np.isnan(found) | np.isnan(likeliest), found, likeliest)
    facts = ["id", "cluster", "group", "sample_choices"]
    scores = verdicts.loc[is_first, facts].assign(value=found, lost=lost)
    if task.implicitness:
        scores["positive"] = are_positive(verdicts, task.implicitness.positive)[is_first]
    return scores


def describe_run(file: RunFile) -> str:
    """A run in words, for messages."""
    return f"run {file.digest[:12]} ({file.model.name} on {file.run.task})"


class Kind(StrEnum):
    """What is compared with what."""

    CHOICE_AND_WORDS = "know_versus_act"
    RUNS = "runs"
    CONTRAST = "gap"
    INTENTION = "intention_and_response"


@dataclass(frozen=True, slots=True, eq=False)
class Pairing:
    """Two views and their common items, of one decoding each or of several together.

    `name` is the comparison's in tables. `items` has a row a sample and decoding: `id`, `cluster`,
    `group`, `sample_choices`, the scores `a` and `b`, NaN where one is missing, and whether it is,
    or counts as the least, in `lost_a` and `lost_b`.
    """

    kind: Kind
    name: str
    first: RunView
    second: RunView
    decodings: tuple[str, str]
    items: DataFrame

    @property
    def sides(self) -> tuple[RunView, RunView]:
        """Both views."""
        return self.first, self.second

    @property
    def is_right_or_wrong(self) -> bool:
        """Whether the verdicts of both sides are right or wrong."""
        return all(view.judge.metric == RIGHT_OR_WRONG for view in self.sides)

    @property
    def ranges(self) -> tuple[Limits | None, Limits | None]:
        """The least and the greatest value of each side; None where it is not known."""
        first, second = (value_range(view.judge, view.judge.metric) for view in self.sides)
        return first, second

    def limits(self, at_a: float = 0.0, at_b: float = 0.0) -> Limits | None:
        """What a difference can be, of values above chance levels; None where it is not known."""
        first, second = self.ranges
        if first is None or second is None:
            return None
        (low, high), (least, most) = (
            [(end - at) / (1 - at) for end in ends] for ends, at in ((first, at_a), (second, at_b))
        )
        return low - most, high - least


Pairings = tuple[list[Pairing], list[str], int]
"""All pairings, notes for the reader, and how many samples are in one run alone."""
Judges = tuple[str | None, str | None]
"""The judges of the first and of the second run, by name; None leaves the choice to the runs."""
_Runs = tuple[ComparedRun, ComparedRun]
_Pairs = Sequence[tuple[RunView, RunView]]


def within(run: ComparedRun, judge: str | None = None) -> Pairings:
    """The pairings within one run: its task's contrasts, and intentions with responses."""
    if not (pairings := [*_within(run, judge)]):
        gaps = "; ".join(",".join(two) for two in run.file.task.gaps.values()) or "none"
        raise StoreError(
            f"{describe_run(run.file)}: nothing within it can be compared; ask for the variants of "
            f"a gap of its task ({gaps}), let a judge read the intentions (`harness judge "
            f"{run.file.digest[:12]} --judge NAME`), or name a second run"
        )
    return pairings, [], 0


def between(first: ComparedRun, second: ComparedRun, judges: Judges = (None, None)) -> Pairings:
    """The pairings between two runs, and then those within each of them."""
    runs, is_one_task = (first, second), first.file.run.task == second.file.run.task
    if not is_one_task and second.file.task.has_choices:
        runs, judges = runs[::-1], judges[::-1]
    found, notes, unmatched = (_of_one_task if is_one_task else _of_two_tasks)(runs, judges)
    inner = [_within(run, judge) for run, judge in zip(runs, judges, strict=True)]
    return [*found, *inner[0], *inner[1]], notes, unmatched


def of_one_task(first: ComparedRun, second: ComparedRun, judge: str | None) -> Pairings:
    """The pairings of two runs of one task, by one judge or by all that have read both."""
    if first.file.run.task != second.file.run.task:
        names = f"{describe_run(first.file)} and {describe_run(second.file)}"
        raise SpecError(f"{names} are of two tasks; name two runs of one task")
    return _of_one_task((first, second), (judge, judge))


def of_known_least(pairings: Sequence[Pairing]) -> tuple[list[Pairing], list[str]]:
    """The pairings whose judges have a known least value, and a note on the others.

    SpecError where there are only others.
    """
    kept = [one for one in pairings if None not in one.ranges]
    ends = [(one.sides, one.ranges) for one in pairings if None in one.ranges]
    views = [view for sides, own in ends for view, end in zip(sides, own, strict=True) if not end]
    names = dict.fromkeys(f"{view.judge.metric} by {view.judge.name}" for view in views)
    if not names:
        return kept, []
    fact = f"--missing wrong: of {' and '.join(names)} no least value is known"
    if not kept:
        raise SpecError(f"{fact}; name another judge")
    return kept, [f"{fact}: left out"]


def unpaired(run: ComparedRun, pairings: Sequence[Pairing], judge: str | None) -> list[str]:
    """What the first of two runs has and no pairing is of, in words: judges, and ways of asking."""
    entries = [judge_named(run.file, judge)] if judge else run.file.judges
    own = {e.name: ways(run.verdicts[run.verdicts["judge"] == e.name]) for e in entries}
    paired = {(p.first.judge.name, (p.first.variant, p.first.decoding)) for p in pairings}
    have = {name for name, _ in paired}
    judges = [f"judge {name}" for name in own if name not in have]
    lost = [way for name in own if name in have for way in own[name] if (name, way) not in paired]
    return judges + [f"variant {variant} ({label})" for variant, label in dict.fromkeys(lost)]


def judge_named(file: RunFile, name: str) -> JudgeEntry:
    """The judge of a name; SpecError where it has not read the run."""
    entries = {entry.name: entry for entry in file.judges}
    if name not in entries:
        raise SpecError(
            f"{describe_run(file)} was not read by judge {name!r}"
            f"{did_you_mean(name, list(entries))}; have it read: "
            f"harness judge {file.digest[:12]} --judge {name}"
        )
    return entries[name]


def response_judges(file: RunFile) -> list[JudgeEntry]:
    """The judges whose verdict on a response is right or wrong, the task's own first."""
    order = {name: place for place, name in enumerate(file.task.judges)}
    judges = [one for one in file.judges if one.metric == RIGHT_OR_WRONG and not one.step]
    return sorted(judges, key=lambda e: order.get(JudgeLabel.parse(e.name).name, len(order)))


def describe_differences(*files: RunFile) -> str:
    """How some runs differ, each side in words; empty where nothing does."""
    facts = zip(files, run_differences(files), strict=True)
    named = [f"{describe_run(file)} has {own}" for file, own in facts if own]
    return f" ({', while '.join(named)})" if named else ""


def _right_or_wrong_judges(file: RunFile, name: str | None) -> list[JudgeEntry]:
    judges = response_judges(file) if name is None else [judge_named(file, name)]
    if not judges or judges[0].metric != RIGHT_OR_WRONG:
        fact = f"judge {name} gives {judges[0].metric}, not" if judges else "no judge has said"
        raise SpecError(
            f"{describe_run(file)}: {fact} right or wrong of its responses; have a judge do so: "
            f"harness judge {file.digest[:12]} --judge NAME"
        )
    return judges


def _of_two_tasks(runs: _Runs, judges: Judges) -> Pairings:
    """A task with choices against one without: every variant of the one by every of the other."""
    know, act = (run.file for run in runs)
    if not know.task.has_choices or act.task.has_choices:
        raise SpecError(
            f"tasks {know.run.task} and {act.run.task}: of two tasks one must be "
            "answered by choices and the other in words; name such runs, or two of one task"
        )
    acted = [views(runs[1], entry) for entry in _right_or_wrong_judges(act, judges[1])]
    known = [views(runs[0], entry) for entry in _right_or_wrong_judges(know, judges[0])]
    common, unmatched, notes = _common(runs)
    # The pools are all orders of the choices together.
    firsts = [view for own in known for view in ([v for v in own if v.is_pool] or own)]
    kind = Kind.CHOICE_AND_WORDS
    pairings = [
        pairing
        for first in firsts
        for seconds in acted
        for pairing in _paired(kind, kind.value, [(first, second) for second in seconds], common)
    ]
    _check_items(runs, pairings, notes)
    one, other = know.model, act.model
    if one.name != other.name:
        words = "what one knows says nothing of how the other acts"
        notes = [f"the runs are of two models, {one.name} and {other.name}: {words}", *notes]
    elif {one.kind, other.kind} != {"scripted"} and one.identity != other.identity:
        words = f"{one.identity}; {other.identity}"
        notes = [f"model {one.name} is not the same in both runs: {words}", *notes]
    return pairings, notes, unmatched


def _of_one_task(runs: _Runs, judges: Judges) -> Pairings:
    ours, theirs = (run.file for run in runs)
    entries, notes = _judges_of_both(ours, theirs, judges)
    common, unmatched, more = _common(runs)
    pairings: list[Pairing] = []
    for one, other in entries:
        pairs = _alike(views(runs[0], one), views(runs[1], other))
        names = {view.snapshots[1] for pair in pairs for view in pair} - {""}
        if len(names) > 1:
            raise StoreError(
                f"judge {one.name} was two snapshots in the two runs "
                f"({', '.join(sorted(names))}); name one in its model's YAML and judge both again"
            )
        pairings += _paired(Kind.RUNS, Kind.RUNS.value, pairs, common)
    if not pairings:
        words = "no variant was answered in both runs in one way; run one again"
        raise StoreError(f"{words}{describe_differences(ours, theirs)}")
    asked = [file.variants for file in (ours, theirs)]
    if ours.task.mode is not theirs.task.mode:
        labels = dict.fromkeys(view.decoding for p in pairings for view in p.sides)
        notes.append(f"answered in different ways ({', '.join(labels)}): {DECISIONS}")
        asked = [{**file.variants, **file.written} for file in (ours, theirs)]
    changed = [name for name, own in asked[0].items() if own != asked[1].get(name, own)]
    if changed:
        notes.append(f"prompts or decoding differ between the runs: {', '.join(changed)}")
    _check_items(runs, pairings, more)
    return pairings, [*notes, *more], unmatched


def _judges_of_both(
    ours: RunFile, theirs: RunFile, judges: Judges
) -> tuple[list[tuple[JudgeEntry, JudgeEntry]], list[str]]:
    """The judges that have read two runs of one task by one recipe, and which have not."""
    names = (judges[0] or judges[1], judges[1] or judges[0])
    if names[0] and names[1]:
        pairs = [(judge_named(ours, names[0]), judge_named(theirs, names[1]))]
    else:
        known = {entry.name: entry for entry in theirs.judges}
        pairs = [(own, known[own.name]) for own in ours.judges if own.name in known]
    alike = [pair for pair in pairs if len({(e.recipe, e.identity, e.step) for e in pair}) == 1]
    notes = [
        f"recipes differ: {one.recipe} read {describe_run(ours)}, {other.recipe} read "
        f"{describe_run(theirs)}"
        for one, other in pairs
        if (one, other) not in alike
    ]
    if not alike:
        read = [", ".join(e.name for e in file.judges) or "nobody" for file in (ours, theirs)]
        fact = notes[0] if notes else f"read by no judge alike: {'; '.join(read)}"
        unlike = describe_differences(ours, theirs)
        raise SpecError(f"{fact}; have one judge read both: harness judge RUN --judge NAME{unlike}")
    return alike, notes


def _within(run: ComparedRun, judge: str | None) -> Iterator[Pairing]:
    responses = response_judges(run.file)
    entries = responses if judge is None else [judge_named(run.file, judge)]
    seen = {entry.name: views(run, entry) for entry in entries}
    for own in seen.values():
        for name, gap in run.file.task.gaps.items():
            yield from _paired(Kind.CONTRAST, name, _alike(own, own, gap))
    others = [entry for entry in entries if entry in responses]
    for entry in (one for one in run.file.judges if one.step and others):
        # The judge most like it: one that asks the same model, then one of the same method.
        way = JudgeRecipe.parse(entry.recipe).way
        likeness = {
            one.name: (one.identity == entry.identity, JudgeRecipe.parse(one.recipe).way == way)
            for one in others
        }
        intended, answered = views(run, entry), seen[max(likeness, key=likeness.__getitem__)]
        yield from _paired(Kind.INTENTION, Kind.INTENTION.value, _alike(intended, answered))


def _alike(
    ours: Sequence[RunView], others: Sequence[RunView], gap: tuple[str, str] | None = None
) -> _Pairs:
    """The views of one decoding and of one variant, or of the two variants of a gap.

    What two models choose is right or wrong in whatever way they answer.
    """
    identities = {view.file.model.identity for view in (*ours, *others)}

    def way(view: RunView) -> str:
        is_decided = view.file.task.has_choices and view.judge.metric == RIGHT_OR_WRONG
        return "" if is_decided and len(identities) > 1 else view.decoding

    theirs = {(view.variant, way(view)): view for view in others}
    of = dict([gap]) if gap else {view.variant: view.variant for view in ours}
    keys = [(of.get(view.variant, ""), way(view)) for view in ours]
    return [(one, theirs[key]) for one, key in zip(ours, keys, strict=True) if key in theirs]


def _paired(
    kind: Kind, name: str, pairs: _Pairs, common: "Index[str] | None" = None
) -> Iterator[Pairing]:
    """A pairing for each pair of views, then one of all decodings of a variant together."""
    for variant in dict.fromkeys(second.variant for _, second in pairs):
        each = []
        for one, other in (pair for pair in pairs if pair[1].variant == variant):
            items = one.scores.rename(columns={"value": "a", "lost": "lost_a"})
            values = other.scores[["id", "value", "lost"]]
            items = items.merge(values.set_axis(["id", "b", "lost_b"], axis=1), on="id")
            items = items if common is None else items[items["id"].isin(common)]
            each.append(Pairing(kind, name, one, other, (one.decoding, other.decoding), items))
        yield from each
        if len(each) > 1:
            sides = zip(*(pairing.decodings for pairing in each), strict=True)
            first, second = (headline_label(list(dict.fromkeys(labels))) for labels in sides)
            items = pandas.concat([pairing.items for pairing in each], ignore_index=True)
            yield replace(each[0], decodings=(first, second), items=items)


def _common(runs: _Runs) -> tuple["Index[str]", int, list[str]]:
    """The samples that say the same in both runs, the number of the others, and a note on these."""
    ours, theirs = (run.said for run in runs)
    both = ours.index.intersection(theirs.index)
    names = ours.columns.intersection(theirs.columns)
    one, other = (said.loc[both, names] for said in (ours, theirs))
    common = both[((one == other) | (one == ABSENT) | (other == ABSENT)).all(axis=1)]
    counts = [len(run.said) - len(common) for run in runs]
    parts = [
        f"{count} sample{'s' * (count != 1)} of {describe_run(run.file)}"
        for count, run in zip(counts, runs, strict=True)
        if count
    ]
    changed = f", {len(both) - len(common)} of them of one id" if len(both) > len(common) else ""
    notes = [f"{' and '.join(parts)} are not in the other{changed}"] if parts else []
    return common, sum(counts), notes


def _check_items(runs: _Runs, pairings: Sequence[Pairing], notes: Sequence[str]) -> None:
    if not any(len(pairing.items) for pairing in pairings):
        raise StoreError(
            f"no sample in common: {''.join(notes) or 'no verdict on one'}; run both tasks on the "
            f"same data and --data-mode{describe_differences(runs[0].file, runs[1].file)}"
        )
