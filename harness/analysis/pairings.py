"""Two stored runs, or one, to pairings: the same items with two verdicts each.

What is paired: a task answered by choices against one answered in words; two runs of one task;
variants of one run; the intention that a model spelled out against its response. Runs that may not
be compared are refused. Nothing here computes a statistic.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from harness.analysis.run_views import ABSENT, ComparedRun, RunView, describe_run, views, ways
from harness.errors import SpecError, StoreError, did_you_mean
from harness.judges.custom import JudgeLabel
from harness.lazy import pandas
from harness.pipeline.score import RIGHT_OR_WRONG, headline_label
from harness.storage.find_runs import run_differences
from harness.storage.runs import JudgeEntry, ModelEntry, RunFile
from harness.storage.signature import JudgeRecipe

if TYPE_CHECKING:
    from pandas import DataFrame, Index


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
    judges = [
        entry for entry in _unswapped(file) if entry.metric == RIGHT_OR_WRONG and not entry.step
    ]
    return sorted(judges, key=lambda e: order.get(JudgeLabel.parse(e.name).name, len(order)))


def _unswapped(file: RunFile) -> list[JudgeEntry]:
    return [entry for entry in file.judges if not JudgeLabel.parse(entry.name).is_swapped]


def closest_judge(judge: JudgeEntry, others: Sequence[JudgeEntry]) -> JudgeEntry | None:
    """The judge most like another: one that asks the same model, then one of the same method.

    The method ends a recipe: the encoder, or in how many orders a model is asked. None without
    others.
    """

    def likeness(other: JudgeEntry) -> tuple[bool, bool]:
        is_same_way = JudgeRecipe.parse(judge.recipe).way == JudgeRecipe.parse(other.recipe).way
        return judge.identity == other.identity, is_same_way

    return max(others, key=likeness, default=None)


def describe_differences(*files: RunFile) -> str:
    """How some runs differ, each side in words; empty where nothing does."""
    facts = zip(files, run_differences(files), strict=True)
    named = [f"{describe_run(file)} has {own}" for file, own in facts if own]
    return f" ({', while '.join(named)})" if named else ""


def right_or_wrong_judges(file: RunFile, name: str | None) -> list[JudgeEntry]:
    """The judges of a run that give right or wrong: the one named, or all that read responses."""
    judges = response_judges(file) if name is None else [judge_named(file, name)]
    if bad := [entry for entry in judges if entry.metric != RIGHT_OR_WRONG]:
        raise SpecError(
            f"judge {bad[0].name} gives {bad[0].metric}, not right or wrong, and cannot be "
            "compared with another task's; name another judge"
        )
    if not judges:
        raise SpecError(
            f"{describe_run(file)}: no judge has said right or wrong of its responses; have "
            f"one: harness judge {file.digest[:12]} --judge NAME"
        )
    return judges


def intention_judges(file: RunFile, name: str | None) -> list[JudgeEntry]:
    """The judges of a run that read an earlier step: the one named, or all."""
    if name is None:
        return [entry for entry in _unswapped(file) if entry.step]
    if (entry := judge_named(file, name)).step is None:
        raise SpecError(
            f"judge {name} reads responses, not what was spelled out before; name one that has a "
            "`step`"
        )
    return [entry]


def judges_of_both(
    files: tuple[RunFile, RunFile], judges: tuple[str | None, str | None]
) -> tuple[list[tuple[JudgeEntry, JudgeEntry]], list[str]]:
    """The judges that have read two runs of one task by one recipe, and which have not."""
    names = (judges[0] or judges[1], judges[1] or judges[0])
    if names[0] is not None and names[1] is not None:
        pairs = [(judge_named(files[0], names[0]), judge_named(files[1], names[1]))]
    else:
        theirs = {entry.name: entry for entry in files[1].judges}
        ours = _unswapped(files[0])
        pairs = [(entry, theirs[entry.name]) for entry in ours if entry.name in theirs]
    alike = [pair for pair in pairs if len({(e.recipe, e.identity, e.step) for e in pair}) == 1]
    notes = [
        f"recipes differ: {one.recipe} read {describe_run(files[0])}, {other.recipe} read "
        f"{describe_run(files[1])}"
        for one, other in pairs
        if (one, other) not in alike
    ]
    if not alike:
        read = [", ".join(entry.name for entry in file.judges) or "nobody" for file in files]
        fact = notes[0] if notes else f"read by no judge alike: {read[0]}; {read[1]}"
        unlike = describe_differences(files[0], files[1])
        raise SpecError(f"{fact}; have one judge read both: harness judge RUN --judge NAME{unlike}")
    return alike, notes


class Kind(StrEnum):
    """What is compared with what."""

    CHOICE_AND_WORDS = "know_versus_act"
    RUNS = "runs"
    CONTRAST = "gap"
    INTENTION = "intention_and_response"


@dataclass(frozen=True, slots=True)
class PairingQuery:
    """The judges of the first run, of the second, and of spelled-out intentions, by name.

    None leaves the choice to the runs.
    """

    judge_a: str | None = None
    judge_b: str | None = None
    intention_judge: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Pairing:
    """Two views and their common items; `is_pooled` for those of several decodings together.

    `name` is the comparison's in tables: its kind, or the name of the contrast. `items` has a row
    a sample and decoding: `id`, `cluster`, `group`, `sample_choices`, and the scores `a` and `b`,
    NaN where one is missing.
    """

    kind: Kind
    name: str
    first: RunView
    second: RunView
    decodings: tuple[str, str]
    items: "DataFrame"
    is_pooled: bool = False


Pairings = tuple[list[Pairing], list[str], int]
"""All pairings, notes for the reader, and how many samples are in one run alone."""
_Pairs = Sequence[tuple[RunView, RunView]]


def within(run: ComparedRun, query: PairingQuery) -> Pairings:
    """The pairings within one run: its task's contrasts, and intentions with responses."""
    if query.judge_b is not None:
        raise SpecError("--judge-b names the judge of a second run, and there is one; leave it out")
    pairings = _within(run, query.judge_a, query.intention_judge)
    if not pairings:
        task, model = run.file.run.task, run.file.model.name
        both = [
            f"run both variants of a gap (`harness run --task {task} --model {model} --variant "
            f"{','.join(pair)}`), "
            for pair in run.file.task.gaps.values()
        ]
        raise StoreError(
            f"{describe_run(run.file)}: nothing within it can be compared; {''.join(both[:1])}let "
            f"a judge read the intentions (`harness judge {run.file.digest[:12]} --judge NAME`), "
            "or name a second run"
        )
    return pairings, [], 0


def between(first: ComparedRun, second: ComparedRun, query: PairingQuery) -> Pairings:
    """The pairings between two runs, and then those within each of them."""
    if (first.file.digest, first.file.model) == (second.file.digest, second.file.model):
        raise SpecError(
            f"{describe_run(first.file)} is named twice; name another run, or this one once"
        )
    runs, judges = (first, second), (query.judge_a, query.judge_b)
    is_one_task = first.file.run.task == second.file.run.task
    if not is_one_task and second.file.task.has_choices:
        runs, judges = runs[::-1], judges[::-1]
    pairings, notes, unmatched = (_of_one_task if is_one_task else _of_two_tasks)(runs, judges)
    for run, judge in zip(runs, judges, strict=True):
        pairings += _within(run, judge, query.intention_judge)
    return pairings, notes, unmatched


def of_one_task(first: ComparedRun, second: ComparedRun, judge: str | None) -> Pairings:
    """The pairings of two runs of one task, by one judge or by all that have read both.

    They may be of one recipe and model, such as one that was run again on another day.
    """
    if first.file.run.task != second.file.run.task:
        raise SpecError(
            f"{describe_run(first.file)} and {describe_run(second.file)} are of two tasks; name "
            "two runs of one task"
        )
    return _of_one_task((first, second), (judge, judge))


def unpaired(run: ComparedRun, pairings: Sequence[Pairing], judge: str | None) -> list[str]:
    """What the first of two runs has and no pairing is of, in words: judges, and ways of asking."""
    entries = [judge_named(run.file, judge)] if judge else _unswapped(run.file)
    own = {e.name: ways(run.verdicts[run.verdicts["judge"] == e.name]) for e in entries}
    paired = {(p.first.judge.name, (p.first.variant, p.first.decoding)) for p in pairings}
    have = {name for name, _ in paired}
    judges = [f"judge {name}" for name in own if name not in have]
    lost = [way for name in own if name in have for way in own[name] if (name, way) not in paired]
    return judges + [f"variant {variant} ({label})" for variant, label in dict.fromkeys(lost)]


def _of_two_tasks(
    runs: tuple[ComparedRun, ComparedRun], judges: tuple[str | None, str | None]
) -> Pairings:
    """A task with choices against one without: every variant of the one by every of the other."""
    know, act = runs
    if not know.file.task.has_choices or act.file.task.has_choices:
        raise SpecError(
            f"tasks {know.file.run.task} and {act.file.run.task}: of two tasks one must be "
            "answered by choices and the other in words; name such runs, or two of one task"
        )
    acted = [views(act, entry) for entry in right_or_wrong_judges(act.file, judges[1])]
    common, unmatched, more = _common(runs)
    pairings: list[Pairing] = []
    for entry in right_or_wrong_judges(know.file, judges[0]):
        known = views(know, entry)
        # The pools are all orders of the choices together.
        for first in [view for view in known if view.is_pool] or known:
            for seconds in acted:
                pairs = [(first, view) for view in seconds]
                pairings += _by_variant(Kind.CHOICE_AND_WORDS, pairs, common)
    _check_items(runs, pairings, more)
    return pairings, [*_other_models(know.file.model, act.file.model), *more], unmatched


def _of_one_task(
    runs: tuple[ComparedRun, ComparedRun], judges: tuple[str | None, str | None]
) -> Pairings:
    entries, notes = judges_of_both((runs[0].file, runs[1].file), judges)
    common, unmatched, more = _common(runs)
    pairings: list[Pairing] = []
    for one, other in entries:
        theirs = {(view.variant, view.decoding): view for view in views(runs[1], other)}
        pairs = [
            (view, theirs[view.variant, view.decoding])
            for view in views(runs[0], one)
            if (view.variant, view.decoding) in theirs
        ]
        names = {view.snapshots[1] for pair in pairs for view in pair} - {""}
        if len(names) > 1:
            raise StoreError(
                f"judge {one.name} was two snapshots in the two runs "
                f"({', '.join(sorted(names))}); name one in its model's YAML and judge both again"
            )
        pairings += _by_variant(Kind.RUNS, pairs, common)
    if not pairings:
        asked = [
            f"{describe_run(run.file)} has {', '.join(f'{way[0]} ({way[1]})' for way in run.ways)}"
            for run in runs
        ]
        unlike = describe_differences(runs[0].file, runs[1].file)
        raise StoreError(
            f"no variant was answered in both runs in one way: {' and '.join(asked)}; run one "
            f"again{unlike}"
        )
    ours, others = (run.file.variants for run in runs)
    if differ := [name for name in ours if ours[name] != others.get(name, ours[name])]:
        notes.append(f"prompts or decoding differ between the runs: {', '.join(differ)}")
    _check_items(runs, pairings, more)
    return pairings, [*notes, *more], unmatched


def _within(run: ComparedRun, judge: str | None, intention: str | None) -> list[Pairing]:
    entries = response_judges(run.file) if judge is None else [judge_named(run.file, judge)]
    pairings: list[Pairing] = []
    for entry in entries:
        own = views(run, entry)
        for name, variants in run.file.task.gaps.items():
            pairs = _same_decoding(own, own, variants=variants)
            pairings += _over_decodings(Kind.CONTRAST, name, pairs)
    responses = [entry for entry in entries if entry in response_judges(run.file)]
    for entry in intention_judges(run.file, intention):
        if (other := closest_judge(entry, responses)) is None:
            continue
        intended, answered = views(run, entry), views(run, other)
        for variant in dict.fromkeys(view.variant for view in intended):
            pairs = _same_decoding(intended, answered, variants=(variant, variant))
            pairings += _over_decodings(Kind.INTENTION, Kind.INTENTION.value, pairs)
    return pairings


def _same_decoding(
    firsts: Sequence[RunView], seconds: Sequence[RunView], *, variants: tuple[str, str]
) -> list[tuple[RunView, RunView]]:
    theirs = {view.decoding: view for view in seconds if view.variant == variants[1]}
    ours = [view for view in firsts if view.variant == variants[0]]
    return [(view, theirs[view.decoding]) for view in ours if view.decoding in theirs]


def _by_variant(kind: Kind, pairs: _Pairs, common: "Index[str]") -> Iterator[Pairing]:
    for variant in dict.fromkeys(second.variant for _, second in pairs):
        members = [pair for pair in pairs if pair[1].variant == variant]
        yield from _over_decodings(kind, kind.value, members, common)


def _over_decodings(
    kind: Kind, name: str, pairs: _Pairs, common: "Index[str] | None" = None
) -> Iterator[Pairing]:
    """A pairing for each pair of views, which differ in decoding alone, then all together.

    Of the samples in `common`; None for all.
    """
    each = []
    for one, other in pairs:
        items = one.scores.rename(columns={"value": "a"})
        items = items.merge(other.scores[["id", "value"]].rename(columns={"value": "b"}), on="id")
        items = items if common is None else items[items["id"].isin(common)]
        each.append(Pairing(kind, name, one, other, (one.decoding, other.decoding), items))
    yield from each
    if len(each) > 1:
        sides = zip(*(pairing.decodings for pairing in each), strict=True)
        first, second = (headline_label(list(dict.fromkeys(labels))) for labels in sides)
        items = pandas.concat([pairing.items for pairing in each], ignore_index=True)
        yield replace(each[0], decodings=(first, second), items=items, is_pooled=True)


def have_common(one: ComparedRun, other: ComparedRun) -> bool:
    """Whether two runs have a sample of one id."""
    return bool(one.said.index.isin(other.said.index).any())


def _common(runs: tuple[ComparedRun, ComparedRun]) -> tuple["Index[str]", int, list[str]]:
    """The samples that say the same in both runs, the number of the others, and a note on these.

    A text that one of the two samples has not makes no difference.
    """
    ours, theirs = (run.said for run in runs)
    both = ours.index.intersection(theirs.index)
    one, other = (
        said.loc[both, ours.columns.intersection(theirs.columns)] for said in (ours, theirs)
    )
    is_alike = (one == other) | (one == ABSENT) | (other == ABSENT)
    common = both[is_alike.all(axis=1)]
    counts = [len(side) - len(common) for side in (ours, theirs)]
    changed = len(both) - len(common)
    parts = [
        f"{count} sample{'s' * (count != 1)} of {describe_run(run.file)}"
        for count, run in zip(counts, runs, strict=True)
        if count
    ]
    note = f"{' and '.join(parts) or 'no samples'} are not in the other"
    note += f", {changed} of them of one id" if changed else ""
    return common, sum(counts), [note] if parts else []


def _check_items(
    runs: tuple[ComparedRun, ComparedRun], pairings: Sequence[Pairing], notes: Sequence[str]
) -> None:
    if not any(len(pairing.items) for pairing in pairings):
        note = "".join(notes) or "no samples are not in the other"
        raise StoreError(
            f"no sample in common: {note}; run both tasks on the same data and --data-mode"
            f"{describe_differences(runs[0].file, runs[1].file)}"
        )


def _other_models(one: ModelEntry, other: ModelEntry) -> Iterator[str]:
    if one.name != other.name:
        yield (
            f"the runs are of two models, {one.name} and {other.name}: what one knows says nothing "
            "of how the other acts"
        )
    elif {one.kind, other.kind} != {"scripted"} and one.identity != other.identity:
        yield f"model {one.name} is not the same in both runs: {one.identity}; {other.identity}"
