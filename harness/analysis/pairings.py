"""Two stored runs, or one, to pairings: the same items with two verdicts each.

A view has one judge's score of each sample, under one variant and decoding; the variants of a
pool, which are orders of the same choices, are one more view together. What is paired:
a task answered by choices against one answered in words; two runs of one task; variants of one
run; the intention that a model spelled out against its response. Runs that may not be compared
are refused. Nothing here computes a statistic.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.core import Sample
from harness.errors import SpecError, StoreError, did_you_mean
from harness.judges.custom import JudgeLabel
from harness.pipeline import choice_scores
from harness.pipeline.score import RIGHT_OR_WRONG, averages, headline_label, signature
from harness.stats.estimate import mean
from harness.storage.find_runs import run_differences
from harness.storage.runs import (
    JudgeEntry,
    ModelEntry,
    RunFile,
    SampleRecord,
    StoredRun,
    VerdictRecord,
)
from harness.storage.signature import JudgeRecipe

Read = tuple[SampleRecord, VerdictRecord]


@dataclass(frozen=True, slots=True)
class ItemScore:
    """One judge's score of one sample; `value` is None where the verdict is missing."""

    sample: Sample
    value: float | None


@dataclass(frozen=True, slots=True)
class RunView:
    """One judge's scores of a run under a variant or pool, by sample id.

    `snapshots` are those of the model under test and of the judge model, empty where unknown.
    """

    file: RunFile
    judge: JudgeEntry
    variant: str
    decoding: str
    scores: Mapping[str, ItemScore]
    snapshots: tuple[str, str]
    is_pool: bool = False

    def signature(self, decoding: str) -> str:
        """The recipe of these scores in one line, under the name of its decodings."""
        recipe = {"variant": self.variant, "decoding": decoding}
        return signature(self.file, self.judge, **recipe, snapshots=self.snapshots)


def views(run: StoredRun, judge: JudgeEntry) -> list[RunView]:
    """Every view of a run by a judge: its variants, then the pools that are whole."""
    read = [(row, row.verdicts[judge.name]) for row in run.rows if judge.name in row.verdicts]
    snapshots = _snapshots(run, judge, read)
    known = dict.fromkeys((row.variant, row.decoding) for row, _ in read)
    chosen: list[tuple[str, str, tuple[str, ...], bool]]
    chosen = [(variant, decoding, (variant,), False) for variant, decoding in known]
    for average, members in averages(run.file.task).items():
        for decoding in dict.fromkeys(label for name, label in known if name in members):
            if all((name, decoding) in known for name in members):
                chosen.append((average, decoding, members, True))
    return [
        RunView(run.file, judge, name, decoding, _scores(own, is_pool), snapshots, is_pool)
        for name, decoding, members, is_pool in chosen
        if (own := [p for p in read if p[0].variant in members and p[0].decoding == decoding])
    ]


def _scores(read: Sequence[Read], is_pool: bool) -> dict[str, ItemScore]:
    """The score of each sample; of one shown in several orders, by its averaged probabilities.

    Without probabilities, as of written answers, it is the mean of its verdicts. It is missing
    where any of them is.
    """
    by_sample: dict[str, list[Read]] = {}
    for row, verdict in read:
        by_sample.setdefault(row.sample.id, []).append((row, verdict))
    scores = {}
    for name, orders in by_sample.items():
        values = [verdict.value for _, verdict in orders if verdict.value is not None]
        value = mean(values) if len(values) == len(orders) else None
        if is_pool and value is not None and all(verdict.shares for _, verdict in orders):
            sample = orders[-1][0].sample
            gold = sample.choices.index(sample.gold or "")
            value = choice_scores.credit([verdict.shares for _, verdict in orders], gold)
        scores[name] = ItemScore(orders[0][0].sample, value)
    return scores


def _snapshots(run: StoredRun, judge: JudgeEntry, read: Sequence[Read]) -> tuple[str, str]:
    pairs = {
        (row.served or "", verdict.served or "")
        for row, verdict in read
        if verdict.value is not None
    }
    if len(pairs) > 1:
        names = "; ".join(" by ".join(name or "unknown" for name in pair) for pair in sorted(pairs))
        raise StoreError(
            f"{describe_run(run.file)}, judge {judge.name}: its verdicts are of several snapshots "
            f"({names}), which share no row; name one in the model's YAML and repeat the run"
        )
    return pairs.pop() if pairs else ("", "")


def judge_named(run: StoredRun, name: str) -> JudgeEntry:
    """The judge of a name; SpecError where it has not read the run."""
    entries = {entry.name: entry for entry in run.file.judges}
    if name not in entries:
        raise SpecError(
            f"{describe_run(run.file)} was not read by judge {name!r}"
            f"{did_you_mean(name, list(entries))}; have it read: "
            f"harness judge {run.file.digest[:12]} --judge {name}"
        )
    return entries[name]


def response_judges(run: StoredRun) -> list[JudgeEntry]:
    """The judges whose verdict on a response is right or wrong, the task's own first."""
    order = {name: place for place, name in enumerate(run.file.task.judges)}
    judges = [
        entry for entry in _unswapped(run) if entry.metric == RIGHT_OR_WRONG and not entry.step
    ]
    return sorted(judges, key=lambda e: order.get(JudgeLabel.parse(e.name).name, len(order)))


def _unswapped(run: StoredRun) -> list[JudgeEntry]:
    return [entry for entry in run.file.judges if not JudgeLabel.parse(entry.name).is_swapped]


def closest_judge(judge: JudgeEntry, others: Sequence[JudgeEntry]) -> JudgeEntry | None:
    """The judge most like another: one that asks the same model, then one of the same method.

    The method ends a recipe: the encoder, or in how many orders a model is asked. None without
    others.
    """

    def likeness(other: JudgeEntry) -> tuple[bool, bool]:
        is_same_way = JudgeRecipe.parse(judge.recipe).way == JudgeRecipe.parse(other.recipe).way
        return judge.identity == other.identity, is_same_way

    return max(others, key=likeness, default=None)


def describe_run(file: RunFile) -> str:
    """A run in words, for messages."""
    return f"run {file.digest[:12]} ({file.model.name} on {file.run.task})"


def describe_differences(*files: RunFile) -> str:
    """What tells some runs apart, each side in words; empty where nothing does."""
    facts = zip(files, run_differences(files), strict=True)
    named = [f"{describe_run(file)} has {own}" for file, own in facts if own]
    return f" ({', while '.join(named)})" if named else ""


def right_or_wrong_judges(run: StoredRun, name: str | None) -> list[JudgeEntry]:
    """The judges of a run that give right or wrong: the one named, or all that read responses."""
    judges = response_judges(run) if name is None else [judge_named(run, name)]
    if bad := [entry for entry in judges if entry.metric != RIGHT_OR_WRONG]:
        raise SpecError(
            f"judge {bad[0].name} gives {bad[0].metric}, not right or wrong, and cannot be "
            "compared with another task's; name another judge"
        )
    if not judges:
        raise SpecError(
            f"{describe_run(run.file)}: no judge has said right or wrong of its responses; have "
            f"one: harness judge {run.file.digest[:12]} --judge NAME"
        )
    return judges


def intention_judges(run: StoredRun, name: str | None) -> list[JudgeEntry]:
    """The judges of a run that read an earlier step: the one named, or all."""
    if name is None:
        return [entry for entry in _unswapped(run) if entry.step]
    if (entry := judge_named(run, name)).step is None:
        raise SpecError(
            f"judge {name} reads responses, not what was spelled out before; name one that has a "
            "`step`"
        )
    return [entry]


def judges_of_both(
    runs: tuple[StoredRun, StoredRun], judges: tuple[str | None, str | None]
) -> tuple[list[tuple[JudgeEntry, JudgeEntry]], list[str]]:
    """The judges that have read two runs of one task by one recipe, and which have not."""
    names = (judges[0] or judges[1], judges[1] or judges[0])
    if names[0] is not None and names[1] is not None:
        pairs = [(judge_named(runs[0], names[0]), judge_named(runs[1], names[1]))]
    else:
        theirs = {entry.name: entry for entry in runs[1].file.judges}
        ours = _unswapped(runs[0])
        pairs = [(entry, theirs[entry.name]) for entry in ours if entry.name in theirs]
    alike = [pair for pair in pairs if len({(e.recipe, e.identity, e.step) for e in pair}) == 1]
    notes = [
        f"recipes differ: {one.recipe} read {describe_run(runs[0].file)}, {other.recipe} read "
        f"{describe_run(runs[1].file)}"
        for one, other in pairs
        if (one, other) not in alike
    ]
    if not alike:
        read = [", ".join(entry.name for entry in run.file.judges) or "nobody" for run in runs]
        fact = notes[0] if notes else f"read by no judge alike: {read[0]}; {read[1]}"
        unlike = describe_differences(runs[0].file, runs[1].file)
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


@dataclass(frozen=True, slots=True)
class PairedItem:
    """A sample with its two verdicts, None where one is missing."""

    sample: Sample
    first: float | None
    second: float | None


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two views and their common items; `is_pooled` for those of several decodings together.

    `name` is the comparison's in tables: its kind, or the name of the contrast.
    """

    kind: Kind
    name: str
    first: RunView
    second: RunView
    decodings: tuple[str, str]
    items: tuple[PairedItem, ...]
    is_pooled: bool = False


@dataclass(frozen=True, slots=True)
class Pairings:
    """All pairings, notes for the reader, and how many samples are in one run alone."""

    pairings: tuple[Pairing, ...]
    notes: tuple[str, ...]
    unmatched: int


def within(run: StoredRun, query: PairingQuery) -> Pairings:
    """The pairings within one run: its task's contrasts, and intentions with responses."""
    if query.judge_b is not None:
        raise SpecError("--judge-b names the judge of a second run, and there is one; leave it out")
    pairings = _within(run, judge=query.judge_a, intention=query.intention_judge)
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
    return Pairings(tuple(pairings), (), 0)


def between(first: StoredRun, second: StoredRun, query: PairingQuery) -> Pairings:
    """The pairings between two runs, and then those within each of them."""
    if (first.file.digest, first.file.model) == (second.file.digest, second.file.model):
        raise SpecError(
            f"{describe_run(first.file)} is named twice; name another run, or this one once"
        )
    runs, judges = (first, second), (query.judge_a, query.judge_b)
    if first.file.run.task == second.file.run.task:
        pairings, notes = _of_one_task(runs, judges)
    else:
        if second.file.task.has_choices:
            runs, judges = runs[::-1], judges[::-1]
        pairings, notes = _of_two_tasks(runs, judges)
    unmatched, more = _check_samples(runs, pairings)
    pairings += [
        pairing
        for run, judge in zip(runs, judges, strict=True)
        for pairing in _within(run, judge=judge, intention=query.intention_judge)
    ]
    return Pairings(tuple(pairings), (*notes, *more), unmatched)


def of_one_task(first: StoredRun, second: StoredRun, judge: str | None) -> Pairings:
    """The pairings of two runs of one task, by one judge or by all that have read both.

    They may be of one recipe and model, such as one that was run again on another day.
    """
    runs = first, second
    if first.file.run.task != second.file.run.task:
        raise SpecError(
            f"{describe_run(first.file)} and {describe_run(second.file)} are of two tasks; name "
            "two runs of one task"
        )
    pairings, notes = _of_one_task(runs, (judge, judge))
    unmatched, more = _check_samples(runs, pairings)
    return Pairings(tuple(pairings), (*notes, *more), unmatched)


def _of_two_tasks(
    runs: tuple[StoredRun, StoredRun], judges: tuple[str | None, str | None]
) -> tuple[list[Pairing], list[str]]:
    """A task with choices against one without: every variant of the one by every of the other."""
    know, act = runs
    if not know.file.task.has_choices or act.file.task.has_choices:
        raise SpecError(
            f"tasks {know.file.run.task} and {act.file.run.task}: of two tasks one must be "
            "answered by choices and the other in words; name such runs, or two of one task"
        )
    acted = [views(act, entry) for entry in right_or_wrong_judges(act, judges[1])]
    pairings: list[Pairing] = []
    for entry in right_or_wrong_judges(know, judges[0]):
        known = views(know, entry)
        # The pools are all orders of the choices together.
        for first in [view for view in known if view.is_pool] or known:
            for seconds in acted:
                pairs = [(first, view) for view in seconds]
                pairings += _by_variant(Kind.CHOICE_AND_WORDS, pairs)
    return pairings, [*_other_models(know.file.model, act.file.model)]


def _by_variant(kind: Kind, pairs: Sequence[tuple[RunView, RunView]]) -> Iterator[Pairing]:
    for variant in dict.fromkeys(second.variant for _, second in pairs):
        members = [pair for pair in pairs if pair[1].variant == variant]
        yield from _over_decodings(kind, kind.value, members)


def _of_one_task(
    runs: tuple[StoredRun, StoredRun], judges: tuple[str | None, str | None]
) -> tuple[list[Pairing], list[str]]:
    entries, notes = judges_of_both(runs, judges)
    pairings: list[Pairing] = []
    for one, other in entries:
        theirs = {(view.variant, view.decoding): view for view in views(runs[1], other)}
        pairs = [
            (view, theirs[key])
            for view in views(runs[0], one)
            if (key := (view.variant, view.decoding)) in theirs
        ]
        for view, theirs_too in pairs:
            if len(names := {view.snapshots[1], theirs_too.snapshots[1]} - {""}) > 1:
                raise StoreError(
                    f"judge {one.name} was two snapshots in the two runs "
                    f"({', '.join(sorted(names))}); name one in its model's YAML and judge both "
                    "anew"
                )
        pairings += _by_variant(Kind.RUNS, pairs)
    if not pairings:
        asked = [dict.fromkeys(f"{row.variant} ({row.decoding})" for row in r.rows) for r in runs]
        ways = " and ".join(
            f"{describe_run(run.file)} has {', '.join(own)}"
            for run, own in zip(runs, asked, strict=True)
        )
        unlike = describe_differences(runs[0].file, runs[1].file)
        raise StoreError(
            f"no variant was answered in both runs in one way: {ways}; run one anew{unlike}"
        )
    ours, others = (run.file.variants for run in runs)
    if differ := [name for name in ours if ours[name] != others.get(name, ours[name])]:
        notes.append(f"prompts or decoding differ between the runs: {', '.join(differ)}")
    return pairings, notes


def _within(run: StoredRun, *, judge: str | None, intention: str | None) -> list[Pairing]:
    entries = response_judges(run) if judge is None else [judge_named(run, judge)]
    pairings: list[Pairing] = []
    for entry in entries:
        own = views(run, entry)
        for name, variants in run.file.task.gaps.items():
            pairs = _same_decoding(own, own, variants=variants)
            pairings += _over_decodings(Kind.CONTRAST, name, pairs)
    responses = [entry for entry in entries if entry in response_judges(run)]
    for entry in intention_judges(run, intention):
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


def _over_decodings(
    kind: Kind, name: str, pairs: Sequence[tuple[RunView, RunView]]
) -> Iterator[Pairing]:
    """A pairing for each pair of views, which differ in decoding alone, then all together."""
    each = [
        Pairing(kind, name, one, other, (one.decoding, other.decoding), tuple(_items(one, other)))
        for one, other in pairs
    ]
    yield from each
    if len(each) > 1:
        sides = zip(*(pairing.decodings for pairing in each), strict=True)
        first, second = (headline_label(list(dict.fromkeys(labels))) for labels in sides)
        items = tuple(item for pairing in each for item in pairing.items)
        yield replace(each[0], decodings=(first, second), items=items, is_pooled=True)


def _items(first: RunView, second: RunView) -> Iterator[PairedItem]:
    for name, score in first.scores.items():
        other = second.scores.get(name)
        if other is not None and _is_same(score.sample, other.sample):
            yield PairedItem(score.sample, score.value, other.value)


def _is_same(one: Sample, other: Sample) -> bool:
    """Whether two samples of one id say the same, as far as both say anything."""
    pairs = ((one.fields, other.fields), (one.references, other.references))
    return all(mine[name] == its[name] for mine, its in pairs for name in mine.keys() & its.keys())


def _check_samples(
    runs: tuple[StoredRun, StoredRun], pairings: Sequence[Pairing]
) -> tuple[int, list[str]]:
    ours, theirs = ({row.sample.id: row.sample for row in run.rows} for run in runs)
    shared = ours.keys() & theirs.keys()
    common = sum(_is_same(ours[name], theirs[name]) for name in shared)
    counts = [len(ours) - common, len(theirs) - common]
    changed = f", {len(shared) - common} of them of one id" if len(shared) > common else ""
    note = (
        f"{counts[0]} samples of {describe_run(runs[0].file)} and {counts[1]} of "
        f"{describe_run(runs[1].file)} are not in the other{changed}"
    )
    if not common or not any(pairing.items for pairing in pairings):
        raise StoreError(
            f"no sample in common: {note}; run both tasks on the same data and --data-mode"
            f"{describe_differences(runs[0].file, runs[1].file)}"
        )
    return sum(counts), [note] if any(counts) else []


def _other_models(one: ModelEntry, other: ModelEntry) -> Iterator[str]:
    if one.name != other.name:
        yield (
            f"the runs are of two models, {one.name} and {other.name}: what one knows says nothing "
            "of how the other acts"
        )
    elif {one.kind, other.kind} != {"scripted"} and one.identity != other.identity:
        yield f"model {one.name} is not the same in both runs: {one.identity}; {other.identity}"
