"""Two stored runs, or one, to pairings: the same items with two verdicts each.

A task answered by choices against one answered in words; two runs of one task; variants of one
run; the intention that a model spelled out against its response. Runs that may not be compared
are refused. Nothing here computes a statistic.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.analysis.run_views import (
    RunView,
    closest_judge,
    describe_run,
    intention_judges,
    judge_named,
    judges_of_both,
    response_judges,
    right_or_wrong_judges,
    views,
)
from harness.analysis.stored_runs import StoredRun
from harness.core import Sample
from harness.errors import SpecError, StoreError
from harness.pipeline.score import headline_label
from harness.storage.runs import ModelEntry


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
    """Two runs of one task: the same variants, each by every judge that has read both alike."""
    entries, notes = judges_of_both(runs, judges)
    pairings: list[Pairing] = []
    for one, other in entries:
        theirs = {(view.variant, view.decoding): view for view in views(runs[1], other)}
        pairs = [
            (view, theirs[key])
            for view in views(runs[0], one)
            if (key := (view.variant, view.decoding)) in theirs
        ]
        _check_snapshots(pairs)
        pairings += _by_variant(Kind.RUNS, pairs)
    if not pairings:
        ways = " and ".join(f"{describe_run(run.file)} has {_asked(run)}" for run in runs)
        raise StoreError(f"no variant was answered in both runs in one way: {ways}; run one anew")
    ours, theirs_too = (run.file.variants for run in runs)
    if differ := [name for name in ours if ours[name] != theirs_too.get(name, ours[name])]:
        notes.append(f"prompts or decoding differ between the runs: {', '.join(differ)}")
    return pairings, notes


def _within(run: StoredRun, *, judge: str | None, intention: str | None) -> list[Pairing]:
    """The contrasts of a run, and its intentions with its responses, where it has them."""
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
        firsts, seconds = zip(*(pairing.decodings for pairing in each), strict=True)
        labels = (_label(firsts), _label(seconds))
        items = tuple(item for pairing in each for item in pairing.items)
        yield Pairing(kind, name, each[0].first, each[0].second, labels, items, is_pooled=True)


def _label(decodings: Iterable[str]) -> str:
    return headline_label(list(dict.fromkeys(decodings)))


def _items(first: RunView, second: RunView) -> Iterator[PairedItem]:
    """The samples that both views have, in the order of the first."""
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
    """How many samples are in one run alone, in words too; refused where none is common."""
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
        )
    return sum(counts), [note] if any(counts) else []


def _check_snapshots(pairs: Sequence[tuple[RunView, RunView]]) -> None:
    for one, other in pairs:
        snapshots = {view.snapshots[1] for view in (one, other)} - {""}
        if len(snapshots) > 1:
            raise StoreError(
                f"judge {one.judge.name} was two snapshots in the two runs "
                f"({', '.join(sorted(snapshots))}); name one in its model's YAML and judge both "
                "anew"
            )


def _other_models(one: ModelEntry, other: ModelEntry) -> Iterator[str]:
    if one.name != other.name:
        yield (
            f"the runs are of two models, {one.name} and {other.name}: what one knows says nothing "
            "of how the other acts"
        )
    elif {one.kind, other.kind} != {"scripted"} and one.identity != other.identity:
        yield f"model {one.name} is not the same in both runs: {one.identity}; {other.identity}"


def _asked(run: StoredRun) -> str:
    ways = dict.fromkeys(f"{row.variant} ({row.decoding})" for row in run.rows)
    return ", ".join(ways)
