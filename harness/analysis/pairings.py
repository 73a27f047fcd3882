"""Two stored runs, or one, to pairings: the same items with two verdicts each.

A view has one judge's score of each sample, under one variant and decoding; the variants of a
pool, which are orders of the same choices, are one more view together. What is paired:
a task answered by choices against one answered in words; two runs of one task; variants of one
run; the intention that a model spelled out against its response. Runs that may not be compared
are refused. Nothing here computes a statistic.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from harness.errors import SpecError, StoreError, did_you_mean
from harness.judges.custom import JudgeLabel
from harness.pipeline.columns import choice_scores
from harness.pipeline.columns.readings import Readings
from harness.pipeline.columns.score import RIGHT_OR_WRONG, averages, headline_label, signature
from harness.pipeline.columns.stored import ColumnRun, PairedItems, shared, ways
from harness.stats.estimate import Clusters, Floats, Indices
from harness.storage.find_runs import run_differences
from harness.storage.runs import JudgeEntry, ModelEntry, RunFile
from harness.storage.signature import JudgeRecipe


@dataclass(frozen=True, slots=True, eq=False)
class RunView:
    """One judge's scores of a run under a variant or pool, a sample each.

    `records` has the first record of each sample, `values` the score, NaN where the verdict is
    missing. `snapshots` are those of the model under test and of the judge model, empty where
    unknown.
    """

    run: ColumnRun
    judge: JudgeEntry
    variant: str
    decoding: str
    records: Indices
    values: Floats
    snapshots: tuple[str, str]
    is_pool: bool = False

    @property
    def file(self) -> RunFile:
        """What was run."""
        return self.run.file

    def signature(self, decoding: str) -> str:
        """The recipe of these scores in one line, under the name of its decodings."""
        recipe = {"variant": self.variant, "decoding": decoding}
        return signature(self.file, self.judge, **recipe, snapshots=self.snapshots)


def views(run: ColumnRun, judge: JudgeEntry) -> list[RunView]:
    """Every view of a run by a judge: its variants, then the pools that are whole."""
    read = run.readings[judge.name]
    snapshots = _snapshots(run, judge, read)
    known = [*ways(run.samples, read.records)]
    chosen: list[tuple[str, str, tuple[str, ...], bool]]
    chosen = [(variant, decoding, (variant,), False) for variant, decoding in known]
    for average, members in averages(run.file.task).items():
        for decoding in dict.fromkeys(label for name, label in known if name in members):
            if all((name, decoding) in known for name in members):
                chosen.append((average, decoding, members, True))
    return [
        RunView(run, judge, name, decoding, *_scores(own, is_pool), snapshots, is_pool)
        for name, decoding, members, is_pool in chosen
        if len(own := _asked(read, members, decoding))
    ]


def _asked(read: Readings, variants: Sequence[str], decoding: str) -> Readings:
    """The readings of some variants in one decoding."""
    samples, rows = read.samples, read.records
    own = samples.decoding.codes[rows] == samples.decoding.code(decoding)
    codes = [samples.variant.code(name) for name in variants]
    return read.at(own & np.isin(samples.variant.codes[rows], codes))


def _scores(read: Readings, is_pool: bool) -> tuple[Indices, Floats]:
    """The first record of each sample, and its score; over several orders, by averaged probability.

    Without probabilities, as of written answers, it is the mean of its verdicts. It is missing
    where any of them is.
    """
    rows, values = read.records, read.value
    _, first, places = np.unique(read.samples.ids[rows], return_index=True, return_inverse=True)
    sums, sizes = Clusters(places, len(first)).exact_sums(values)
    found = sums / sizes
    if is_pool:
        likeliest = choice_scores.permuted(read)[first]
        found = np.where(np.isnan(found) | np.isnan(likeliest), found, likeliest)
    order = np.argsort(first)
    return rows[first[order]], found[order]


def _snapshots(run: ColumnRun, judge: JudgeEntry, read: Readings) -> tuple[str, str]:
    known = read.at(~np.isnan(read.value))
    models, judges = run.samples.served, read.served
    size = max(1, len(judges.kinds))
    codes = models.codes[known.records].astype(np.intp) * size + judges.codes[known.places]
    pairs = [
        (models.kinds[code // size], judges.kinds[code % size])
        for code in np.unique(codes).tolist()
    ]
    if len(pairs) > 1:
        names = "; ".join(" by ".join(name or "unknown" for name in pair) for pair in sorted(pairs))
        raise StoreError(
            f"{describe_run(run.file)}, judge {judge.name}: its verdicts are of several snapshots "
            f"({names}), which share no row; name one in the model's YAML and repeat the run"
        )
    return pairs[0] if pairs else ("", "")


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


def describe_run(file: RunFile) -> str:
    """A run in words, for messages."""
    return f"run {file.digest[:12]} ({file.model.name} on {file.run.task})"


def describe_differences(*files: RunFile) -> str:
    """What tells some runs apart, each side in words; empty where nothing does."""
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

    `name` is the comparison's in tables: its kind, or the name of the contrast.
    """

    kind: Kind
    name: str
    first: RunView
    second: RunView
    decodings: tuple[str, str]
    items: PairedItems
    is_pooled: bool = False


@dataclass(frozen=True, slots=True)
class Pairings:
    """All pairings, notes for the reader, and how many samples are in one run alone."""

    pairings: tuple[Pairing, ...]
    notes: tuple[str, ...]
    unmatched: int


def within(run: ColumnRun, query: PairingQuery) -> Pairings:
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


def between(first: ColumnRun, second: ColumnRun, query: PairingQuery) -> Pairings:
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


def of_one_task(first: ColumnRun, second: ColumnRun, judge: str | None) -> Pairings:
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


def unpaired(run: ColumnRun, found: Pairings, judge: str | None) -> list[str]:
    """What the first of two runs has and no pairing is of, in words: judges, and ways of asking."""
    views_of = {
        entry.name: list(ways(run.samples, run.readings[entry.name].records))
        for entry in ([judge_named(run.file, judge)] if judge else _unswapped(run.file))
    }
    firsts = [pairing.first for pairing in found.pairings]
    paired = {(one.judge.name, (one.variant, one.decoding)) for one in firsts}
    have = {name for name, _ in paired}
    judges = [f"judge {name}" for name in views_of if name not in have]
    lost = [way for n in views_of if n in have for way in views_of[n] if (n, way) not in paired]
    return judges + [f"variant {variant} ({label})" for variant, label in dict.fromkeys(lost)]


def _of_two_tasks(
    runs: tuple[ColumnRun, ColumnRun], judges: tuple[str | None, str | None]
) -> tuple[list[Pairing], list[str]]:
    """A task with choices against one without: every variant of the one by every of the other."""
    know, act = runs
    if not know.file.task.has_choices or act.file.task.has_choices:
        raise SpecError(
            f"tasks {know.file.run.task} and {act.file.run.task}: of two tasks one must be "
            "answered by choices and the other in words; name such runs, or two of one task"
        )
    acted = [views(act, entry) for entry in right_or_wrong_judges(act.file, judges[1])]
    pairings: list[Pairing] = []
    for entry in right_or_wrong_judges(know.file, judges[0]):
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
    runs: tuple[ColumnRun, ColumnRun], judges: tuple[str | None, str | None]
) -> tuple[list[Pairing], list[str]]:
    entries, notes = judges_of_both((runs[0].file, runs[1].file), judges)
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
        asked = [[f"{variant} ({decoding})" for variant, decoding in run.ways] for run in runs]
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


def _within(run: ColumnRun, *, judge: str | None, intention: str | None) -> list[Pairing]:
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


def _over_decodings(
    kind: Kind, name: str, pairs: Sequence[tuple[RunView, RunView]]
) -> Iterator[Pairing]:
    """A pairing for each pair of views, which differ in decoding alone, then all together."""
    each = [
        Pairing(kind, name, one, other, (one.decoding, other.decoding), _items(one, other))
        for one, other in pairs
    ]
    yield from each
    if len(each) > 1:
        sides = zip(*(pairing.decodings for pairing in each), strict=True)
        first, second = (headline_label(list(dict.fromkeys(labels))) for labels in sides)
        items = each[0].items.joined(pairing.items for pairing in each[1:])
        yield replace(each[0], decodings=(first, second), items=items, is_pooled=True)


def _items(first: RunView, second: RunView) -> PairedItems:
    run, other = first.run, second.run
    ours, theirs = shared(run.names(first.records), other.names(second.records))
    is_same = run.is_said(first.records[ours], other, second.records[theirs])
    ours, theirs = ours[is_same], theirs[is_same]
    return PairedItems(run.samples, first.records[ours], first.values[ours], second.values[theirs])


def have_common(one: ColumnRun, other: ColumnRun) -> bool:
    """Whether two runs have a sample of one id."""
    sides = [run.names(run.last_of_each()) for run in (one, other)]
    return bool(len(shared(sides[0], sides[1])[0]))


def _check_samples(
    runs: tuple[ColumnRun, ColumnRun], pairings: Sequence[Pairing]
) -> tuple[int, list[str]]:
    ours, theirs = (run.last_of_each() for run in runs)
    places, others = shared(runs[0].names(ours), runs[1].names(theirs))
    common = int(runs[0].is_said(ours[places], runs[1], theirs[others]).sum())
    counts = [len(ours) - common, len(theirs) - common]
    changed = f", {len(places) - common} of them of one id" if len(places) > common else ""
    each = zip(counts, runs, strict=True)
    parts = [
        f"{count} sample{'s' * (count != 1)} of {describe_run(run.file)}"
        for count, run in each
        if count
    ]
    note = f"{' and '.join(parts) or 'no samples'} are not in the other{changed}"
    if not common or not any(len(pairing.items) for pairing in pairings):
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
