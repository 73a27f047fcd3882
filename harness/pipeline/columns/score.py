"""Verdicts to scores: means by group and decoding, with cluster intervals and what is missing.

The value of a verdict is the judge's headline metric; every detail it gives is a metric too.
Verdicts by different snapshots of a model never share a row.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from msgspec import UNSET

from harness.core import Score
from harness.judges import gold
from harness.parts import digest
from harness.pipeline.columns import choice_scores
from harness.pipeline.columns.arrays import Codes
from harness.pipeline.columns.calls import ChargedCalls
from harness.pipeline.columns.readings import REASONS, UNSAID, Readings
from harness.pipeline.columns.run import RunColumns
from harness.specs.tasks import ClassesSpec, ImplicitnessSpec, TaskSpec
from harness.stats.estimate import Bools, Clusters, Floats, Indices, Limits, mean_interval
from harness.storage.runs import JudgeEntry, RunFile, SampleRecord, ScoreRow
from harness.storage.signature import JudgeRecipe, Signature

ALL, OF_DATA = "all", " (a group)"
_LIKE_ALL = re.compile(rf"{ALL}(?:{re.escape(OF_DATA)})*")
RIGHT_OR_WRONG = "accuracy"
"""The metric of judges whose verdict is 1, 0 or, for a tie, between."""
OF_CHOICE = (gold.PLACE, *gold.LABELLED)
OF_SHARES = ("accuracy_", *OF_CHOICE)
SHARES = frozenset(
    {
        *("accuracy", "consistency", "slot1_share", "parsed_share", "prob_right"),
        *("identical_scores", "spans_boundary", *choice_scores.RATES),
    }
)
"""The metrics that are 0 to 1 by nature, and what the names of others begin with.

A rating, or what a judge of your own calls by another name, may be 0 or 1 throughout by accident.
"""


@dataclass(frozen=True, slots=True)
class ScoreBlock:
    """The readings behind some scores: of a variant or average, under some decodings."""

    variant: str
    decoding: str
    group: str
    readings: Readings
    details: tuple[str, ...] = ()
    has_choices: bool = False
    is_average: bool = False
    implicitness: ImplicitnessSpec | None = None
    classes: ClassesSpec | None = None

    @property
    def recipe(self) -> dict[str, str]:
        """The variant and the decoding by name, as signatures take them."""
        return {"variant": self.variant, "decoding": self.decoding}


def score_rows(run: RunFile, records: Iterable[SampleRecord]) -> list[ScoreRow]:
    """The scores of a run by every judge that has read it; records are taken in once."""
    return rows_of(run, RunColumns.of(run.task, records))


def rows_of(run: RunFile, columns: RunColumns) -> list[ScoreRow]:
    """The scores of a run by every judge that has read it, from its columns."""
    return [
        ScoreRow(
            task=run.run.task,
            model=run.model.name,
            score=score,
            chance=_chance(run, block, judge=judge, metric=score.metric),
            cost_usd=cost if score.group == block.group else None,
            signature=made,
        )
        for judge in run.judges
        for charged in [ChargedCalls.of(columns.calls, judge, run.model.identity)]
        for snapshots, readings in by_snapshot(columns, judge)
        for block in blocks(readings, run.task)
        for cost in [charged.dollars(block.readings.records[block.readings.own])]
        for made in [signature(run, judge, **block.recipe, snapshots=snapshots)]
        for score in block_scores(block, judge)
    ]


def averages(task: TaskSpec) -> dict[str, tuple[str, ...]]:
    """The averages over variants that a task names, and the variants of each."""
    members: dict[str, tuple[str, ...]] = {}
    for name, spec in task.variants.items():
        if spec.averaged_over:
            members[spec.averaged_over] = (*members.get(spec.averaged_over, ()), name)
    return members


def block_scores(block: ScoreBlock, judge: JudgeEntry) -> Iterator[Score]:
    """Every score of one judge in one block: its metric, and each detail its verdicts have."""
    readings = block.readings
    yield _mean(block, judge, metric=judge.metric, values=readings.value)
    for metric in block.details:
        is_own = metric == judge.metric
        values = readings.value if is_own else readings.detail(metric)
        yield _mean(block, judge, metric=metric, values=values)
    if not block.has_choices:
        return
    if block.is_average:
        values = choice_scores.permuted(readings)
        yield _mean(block, judge, metric=choice_scores.PERMUTED, values=values)
    for metric, (value, counted) in choice_scores.over_all(readings).items():
        yield _whole(block, judge, metric=metric, value=value, counted=counted)
    if block.implicitness is not None and block.group == ALL:
        yield from _detected(block, judge, block.implicitness)
    if block.classes is not None and block.group == ALL:
        found = choice_scores.class_numbers(readings, block.classes, everything=ALL)
        yield from (_numbered(block, judge, group, number) for group, number in found)


def _detected(block: ScoreBlock, judge: JudgeEntry, spec: ImplicitnessSpec) -> Iterator[Score]:
    answers = choice_scores.answered(block.readings, spec.positive)
    for part in choice_scores.parts(answers, spec, everything=ALL):
        for metric in choice_scores.RATES:
            places = choice_scores.kind(part, answers, is_positive=metric == choice_scores.HITS)
            if choice_scores.is_enough(part, places, answers, spec.least):
                some = _some(block, part.group, places)
                yield _mean(some, judge, metric=metric, values=answers.flagged[places])
        for found in choice_scores.detection_numbers(part, answers, spec):
            yield _numbered(block, judge, part.group, found)


def _numbered(
    block: ScoreBlock, judge: JudgeEntry, group: str, found: choice_scores.EarlierNumber
) -> Score:
    score = _whole(
        _some(block, group, found.planned),
        judge,
        metric=found.metric,
        value=found.value,
        counted=np.isin(found.planned, found.counted),
    )
    return replace(score, low=found.low, high=found.high)


def _some(block: ScoreBlock, group: str, places: Indices) -> ScoreBlock:
    return replace(block, group=group, readings=block.readings.at(places))


def headline_label(labels: Sequence[str]) -> str:
    """The name of several decodings taken together: T0.3 and T0.5 make T0.3+0.5."""
    return "+".join([labels[0], *(label.removeprefix("T") for label in labels[1:])])


def signature(
    run: RunFile, judge: JudgeEntry, *, variant: str, decoding: str, snapshots: tuple[str, str]
) -> str:
    """The recipe of a score in one line: task, data, variant, model, decoding, judge, version."""
    served, judged_by = snapshots
    recipe = JudgeRecipe.parse(judge.recipe)
    words = run.variants.get(variant) or digest(
        [run.variants[member] for member in averages(run.task)[variant]]
    )
    made = Signature(
        task=run.run.task,
        prompts=words[:8],
        data=run.data.label,
        limit="all" if run.run.limit is None else str(run.run.limit),
        variant=variant,
        model=run.model.name,
        kind=run.model.kind,
        version="+".join(filter(None, (run.model.revision, served))) or "unknown",
        decoding=decoding,
        repeats=str(run.run.decodings[0].n),
        seed=str(run.run.seed),
        judge=recipe.at(judged_by or judge.asks),
        way=recipe.way,
        harness=run.version,
    )
    return str(made)


def blocks(readings: Readings, task: TaskSpec) -> Iterator[ScoreBlock]:
    """Each variant under each decoding and, last, under all of them; each group after `all`.

    An average, all of whose variants must be there, comes after the variants.
    """
    samples, records, details = readings.samples, readings.records, readings.detail_names
    variant = samples.variant.codes[records]
    found = _met(samples.variant.kinds, variant)
    whole = {
        name: members for name, members in averages(task).items() if set(members) <= set(found)
    }
    for name in (*found, *whole):
        codes = [samples.variant.code(member) for member in whole.get(name, (name,))]
        members = readings.at(np.isin(variant, codes))
        decoding = samples.decoding.codes[members.records]
        labels = _met(samples.decoding.kinds, decoding)
        sets = {label: decoding == samples.decoding.code(label) for label in labels}
        if len(labels) > 1:
            sets[headline_label(labels)] = np.ones(len(members), dtype=bool)
        group = samples.group.codes[members.records]
        groups = named_groups(_met(samples.group.kinds, group))
        for (label, chosen), (title, own) in product(sets.items(), groups.items()):
            inside = chosen if own is None else chosen & (group == samples.group.code(own))
            part = members.at(inside)
            # What is said of a kind of choice that none of the samples has, has no meaning.
            foreign = {n for n in details - part.detail_names if n.startswith(OF_CHOICE)}
            yield ScoreBlock(
                *(name, label, title, part),
                details=tuple(sorted(details - foreign)),
                has_choices=task.has_choices,
                is_average=name in whole,
                implicitness=task.implicitness,
                classes=task.classes,
            )


def _met(kinds: Sequence[str], codes: Codes) -> list[str]:
    """The kinds that are there, in the order in which they are met."""
    found, first = np.unique(codes, return_index=True)
    return [kinds[code] for code in found[np.argsort(first)].tolist()]


def named_groups(groups: Iterable[str]) -> dict[str, str | None]:
    """The groups of some samples by their names in tables, after ALL, which is every one: None.

    Beside others, a group that the data itself calls "all" is told apart from the total.
    """
    found = sorted(set(groups))
    own = [] if found == [ALL] else found
    return {ALL: None} | {f"{g}{OF_DATA}" if _LIKE_ALL.fullmatch(g) else g: g for g in own}


def _mean(block: ScoreBlock, judge: JudgeEntry, *, metric: str, values: Floats) -> Score:
    counted = ~np.isnan(values)
    is_share = metric in SHARES or metric.startswith(OF_SHARES)
    interval = mean_interval(
        values[counted],
        block.readings.cluster[counted],
        is_share=is_share,
        limits=value_range(judge, metric),
    )
    score = _whole(block, judge, metric=metric, value=interval.value, counted=counted)
    return replace(score, low=interval.low, high=interval.high)


def _whole(
    block: ScoreBlock, judge: JudgeEntry, *, metric: str, value: float | None, counted: Bools
) -> Score:
    reasons = block.readings.reason[~counted]
    # Without a reason: the verdict has a value, and lacks this number alone.
    lost = np.bincount(np.where(reasons == 0, UNSAID, reasons), minlength=len(REASONS) + 1)
    return Score(
        judge=judge.name,
        variant=block.variant,
        decoding=block.decoding,
        group=block.group,
        metric=metric,
        value=value,
        low=None,
        high=None,
        n=int(counted.sum()),
        clusters=Clusters.named(block.readings.cluster[counted]).clusters,
        missing={reason: int(lost[at]) for at, reason in enumerate(REASONS, 1)},
    )


def value_range(judge: JudgeEntry, metric: str) -> Limits | None:
    """The least and the greatest that a judge's values of a metric can be; None if not known."""
    if metric in SHARES or metric.startswith(OF_SHARES):
        return 0.0, 1.0
    return JudgeRecipe.parse(judge.recipe).scale if metric == judge.metric else None


def _chance(run: RunFile, block: ScoreBlock, *, judge: JudgeEntry, metric: str) -> float | None:
    """The expected value of a blind answer on a metric; None where it is not known."""
    is_choice = run.task.has_choices and judge.chance is UNSET
    if metric != judge.metric and not (is_choice and metric.startswith(RIGHT_OR_WRONG)):
        return None
    # Of choices: of the samples behind the value, or of all where there is no value.
    choices = block.readings.samples.choices[block.readings.records]
    counted = choices[~np.isnan(block.readings.value)]
    return chance_level(run, judge, counted if len(counted) else choices)


def chance_level(run: RunFile, judge: JudgeEntry, choices: Codes) -> float | None:
    """What blind answers get by a judge to samples of so many choices; None where it is not known.

    A task's chance is that of a choice between its references: no rating has it, and a judge of
    one's own says itself what a blind answer gets.
    """
    if judge.chance is not UNSET:
        return judge.chance
    if judge.metric != RIGHT_OR_WRONG:
        return None
    if run.task.has_choices:
        return choice_scores.chance(choices) if len(choices) else None
    return run.chance


def by_snapshot(
    columns: RunColumns, judge: JudgeEntry
) -> Iterator[tuple[tuple[str, str], Readings]]:
    """Split verdicts by (model, judge) snapshot; verdicts of other snapshots become missing."""
    readings = columns.readings(judge.name)
    if not len(readings):
        return
    names = readings.samples.served.kinds, readings.served.kinds
    codes = readings.samples.served.codes[readings.records], readings.served.codes
    pair = codes[0].astype(np.intp) * len(names[1]) + codes[1]
    is_known = ~np.isnan(readings.value)
    known = {
        (names[0][code // len(names[1])], names[1][code % len(names[1])]): code
        for code in np.unique(pair[is_known]).tolist()
    }
    if len(known) < 2:
        # Without a value: the snapshots behind all readings, where there is one of each kind.
        met = [{*_met(names[side], codes[side])} - {""} for side in range(2)]
        silent = tuple(min(found) if len(found) == 1 else "" for found in met)
        yield next(iter(known), (silent[0], silent[1])), readings
        return
    for snapshots in sorted(known):
        yield snapshots, readings.without(is_known & (pair != known[snapshots]))
