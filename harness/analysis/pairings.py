"""Two stored runs, or one, to what of them is compared: the same items, each read twice.

A task answered by choices against one answered in words; two runs of one task; variants of one
run; the intention a model spelled out against its response. What may not be compared is refused
with the fact and the remedy. Nothing here computes a statistic.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.analysis.panels import StoredRun
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
from harness.core import Sample
from harness.errors import SpecError, StoreError
from harness.pipeline.score import headline_label
from harness.storage.runs import ModelEntry


class Kind(StrEnum):
    """What is compared with what."""

    CHOICE_AND_WORDS = "know_versus_act"
    RUNS = "runs"
    GAP = "gap"
    INTENTION = "intention_and_response"


@dataclass(frozen=True, slots=True)
class PairingQuery:
    """Which judges are meant: of the first run, of the second, and of spelled-out intentions.

    Null leaves the choice to the runs.
    """

    judge_a: str | None = None
    judge_b: str | None = None
    intention_judge: str | None = None


@dataclass(frozen=True, slots=True)
class PairedItem:
    """A sample with its two readings, null where one is missing."""

    sample: Sample
    first: float | None
    second: float | None


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two views and their common items; of several decodings taken together, those of each.

    `name` is the comparison's in tables: its kind, or the name of the gap.
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
    """All that is compared, what a reader should know of it, and how many samples stand alone."""

    found: tuple[Pairing, ...]
    notes: tuple[str, ...]
    unmatched: int


def within(run: StoredRun, question: PairingQuery) -> Pairings:
    """What can be compared within one run: its task's gaps, and intentions with responses."""
    if question.judge_b is not None:
        raise SpecError("--judge-b names the judge of a second run, and there is one; leave it out")
    found = _within(run, judge=question.judge_a, intention=question.intention_judge)
    if not found:
        gaps = ", ".join(" and ".join(pair) for pair in run.file.task.gaps.values())
        raise StoreError(
            f"{describe_run(run.file)}: nothing within it can be compared; run both "
            "variants of a gap "
            f"({gaps or 'its task has none'}), have a judge read its spelled-out intentions, or "
            "name a second run"
        )
    return Pairings(tuple(found), (), 0)


def between(first: StoredRun, second: StoredRun, question: PairingQuery) -> Pairings:
    """What can be compared between two runs, and then within each of them."""
    if (first.file.digest, first.file.model) == (second.file.digest, second.file.model):
        raise SpecError(
            f"{describe_run(first.file)} is named twice; name another run, or this one once"
        )
    runs, judges = (first, second), (question.judge_a, question.judge_b)
    if first.file.run.task == second.file.run.task:
        found, notes = _of_one_task(runs, judges)
    else:
        if second.file.task.has_choices:
            runs, judges = runs[::-1], judges[::-1]
        found, notes = _of_two_tasks(runs, judges)
    unmatched, more = _check_samples(runs, found)
    found += [
        pairing
        for run, judge in zip(runs, judges, strict=True)
        for pairing in _within(run, judge=judge, intention=question.intention_judge)
    ]
    return Pairings(tuple(found), (*notes, *more), unmatched)


def _of_two_tasks(
    runs: tuple[StoredRun, StoredRun], judges: tuple[str | None, str | None]
) -> tuple[list[Pairing], list[str]]:
    """A task with choices against one without: every level by every way it was asked."""
    know, act = runs
    if not know.file.task.has_choices or act.file.task.has_choices:
        raise SpecError(
            f"tasks {know.file.run.task} and {act.file.run.task}: of two tasks one must be "
            "answered by choices and the other in words; name such runs, or two of one task"
        )
    acted = [views(act, entry) for entry in right_or_wrong_judges(act, judges[1])]
    found = [
        pairing
        for entry in right_or_wrong_judges(know, judges[0])
        for first in _whole(views(know, entry))
        for seconds in acted
        for pairing in _by_level(first, seconds)
    ]
    return found, [*_other_models(know.file.model, act.file.model)]


def _whole(held: Sequence[RunView]) -> list[RunView]:
    """The pools among some views, which are all orders of the choices; without any, the views."""
    return [view for view in held if view.is_pool] or list(held)


def _by_level(first: RunView, seconds: Sequence[RunView]) -> Iterator[Pairing]:
    """One reading of each sample against every variant of another run."""
    kind = Kind.CHOICE_AND_WORDS
    for variant in dict.fromkeys(view.variant for view in seconds):
        pairs = [(first, view) for view in seconds if view.variant == variant]
        yield from _over_decodings(kind, kind.value, pairs)


def _of_one_task(
    runs: tuple[StoredRun, StoredRun], judges: tuple[str | None, str | None]
) -> tuple[list[Pairing], list[str]]:
    """Two runs of one task: the same variants, each by every judge that has read both alike."""
    entries, notes = judges_of_both(runs, judges)
    found: list[Pairing] = []
    for one, other in entries:
        theirs = {(view.variant, view.decoding): view for view in views(runs[1], other)}
        pairs = [
            (view, theirs[key])
            for view in views(runs[0], one)
            if (key := (view.variant, view.decoding)) in theirs
        ]
        _check_snapshots(pairs)
        for variant in dict.fromkeys(view.variant for view, _ in pairs):
            duos = [pair for pair in pairs if pair[0].variant == variant]
            found += _over_decodings(Kind.RUNS, Kind.RUNS.value, duos)
    if not found:
        ways = " and ".join(f"{describe_run(run.file)} has {_asked(run)}" for run in runs)
        raise StoreError(f"no variant was answered in both runs in one way: {ways}; run one anew")
    words = [run.file.variants for run in runs]
    differ = [name for name in words[0] if words[0][name] != words[1].get(name, words[0][name])]
    if differ:
        notes.append(f"prompts or decoding differ between the runs: {', '.join(differ)}")
    return found, notes


def _within(run: StoredRun, *, judge: str | None, intention: str | None) -> list[Pairing]:
    """The gaps of a run, and its intentions with its responses, where it has them."""
    entries = response_judges(run) if judge is None else [judge_named(run, judge)]
    found: list[Pairing] = []
    for entry in entries:
        held = views(run, entry)
        for name, variants in run.file.task.gaps.items():
            pairs = _same_decoding(held, held, variants=variants)
            found += _over_decodings(Kind.GAP, name, pairs)
    responses = [entry for entry in entries if entry in response_judges(run)]
    for entry in intention_judges(run, intention):
        if (other := closest_judge(entry, responses)) is None:
            continue
        read, answered = views(run, entry), views(run, other)
        for variant in dict.fromkeys(view.variant for view in read):
            pairs = _same_decoding(read, answered, variants=(variant, variant))
            found += _over_decodings(Kind.INTENTION, Kind.INTENTION.value, pairs)
    return found


def _same_decoding(
    firsts: Sequence[RunView], seconds: Sequence[RunView], *, variants: tuple[str, str]
) -> list[tuple[RunView, RunView]]:
    """The views of two variants, paired by decoding."""
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
        labels = (_together(part.first for part in each), _together(part.second for part in each))
        items = tuple(item for part in each for item in part.items)
        yield Pairing(kind, name, each[0].first, each[0].second, labels, items, is_pooled=True)


def _together(held: Iterable[RunView]) -> str:
    return headline_label(list(dict.fromkeys(view.decoding for view in held)))


def _items(first: RunView, second: RunView) -> Iterator[PairedItem]:
    """The samples that both views have, in the order of the first."""
    for name, reading in first.readings.items():
        other = second.readings.get(name)
        if other is not None and _is_same(reading.sample, other.sample):
            yield PairedItem(reading.sample, reading.value, other.value)


def _is_same(one: Sample, other: Sample) -> bool:
    """Whether two samples of one id say the same, as far as both say anything."""
    fields = set(one.fields) & set(other.fields)
    references = set(one.references) & set(other.references)
    return all(one.fields[name] == other.fields[name] for name in fields) and all(
        one.references[name] == other.references[name] for name in references
    )


def _check_samples(
    runs: tuple[StoredRun, StoredRun], found: Sequence[Pairing]
) -> tuple[int, list[str]]:
    """How many samples stand in one run alone, in words too; refused where none is common."""
    known = [{row.sample.id: row.sample for row in run.rows} for run in runs]
    named = set(known[0]) & set(known[1])
    common = {name for name in named if _is_same(known[0][name], known[1][name])}
    counts = [len(part) - len(common) for part in known]
    changed = f", {len(named) - len(common)} of them of one id" if len(named) > len(common) else ""
    told = (
        f"{counts[0]} samples of {describe_run(runs[0].file)} and {counts[1]} of "
        f"{describe_run(runs[1].file)} "
        f"are not in the other{changed}"
    )
    if not common or not any(pairing.items for pairing in found):
        raise StoreError(
            f"no sample in common: {told}; run both tasks on the same data and --data-mode"
        )
    return sum(counts), [told] if any(counts) else []


def _check_snapshots(pairs: Sequence[tuple[RunView, RunView]]) -> None:
    """Refuse one judge that two snapshots stand behind."""
    for one, other in pairs:
        asked = {view.snapshots[1] for view in (one, other) if view.snapshots[1]}
        if len(asked) > 1:
            raise StoreError(
                f"judge {one.judge.name} was two snapshots in the two runs "
                f"({', '.join(sorted(asked))}); name one in its model's YAML and judge both anew"
            )


def _other_models(one: ModelEntry, other: ModelEntry) -> Iterator[str]:
    """What to know where two runs are not of one model."""
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
