"""Verdicts to scores: means by group and decoding, with cluster intervals and what is missing.

The value of a verdict is the judge's headline metric; every detail it gives is a metric too.
Verdicts by different snapshots of a model never share a row.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, product

from msgspec import UNSET

from harness.core import Sample, Score
from harness.judges import gold
from harness.parts import Reason, digest
from harness.pipeline import choice_scores
from harness.pipeline.records import answer_calls, cost_of, is_unpaid, judge_calls, merged
from harness.specs.tasks import ClassesSpec, ImplicitnessSpec, TaskSpec
from harness.stats.estimate import Limits, mean_interval
from harness.storage.runs import JudgeEntry, RunFile, SampleRecord, ScoreRow, VerdictRecord
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
class JudgedResponse:
    """One judge's verdict on one response; `is_other`: of other snapshots than its scores are."""

    row: SampleRecord
    verdict: VerdictRecord
    is_other: bool = False

    @property
    def snapshots(self) -> tuple[str, str]:
        """The snapshots of the model under test and of the judge model; empty where unknown."""
        return self.row.served or "", self.verdict.served or ""


@dataclass(frozen=True, slots=True)
class ScoreBlock:
    """The readings behind some scores: of a variant or average, under some decodings."""

    variant: str
    decoding: str
    group: str
    readings: tuple[JudgedResponse, ...]
    details: tuple[str, ...] = ()
    has_choices: bool = False
    is_average: bool = False
    implicitness: ImplicitnessSpec | None = None
    classes: ClassesSpec | None = None

    @property
    def pairs(self) -> list[tuple[SampleRecord, VerdictRecord]]:
        """Each row with its verdict."""
        return [(part.row, part.verdict) for part in self.readings]


def score_rows(run: RunFile, rows: Sequence[SampleRecord]) -> list[ScoreRow]:
    """The scores of a run by every judge that has read it."""
    return [
        ScoreRow(
            task=run.run.task,
            model=run.model.name,
            score=score,
            chance=_chance(run, block, judge=judge, metric=score.metric),
            cost_usd=cost if score.group == block.group else None,
            signature=signature(
                run, judge, variant=score.variant, decoding=score.decoding, snapshots=snapshots
            ),
        )
        for judge in run.judges
        for snapshots, readings in by_snapshot(rows, judge)
        for block in blocks(readings, run.task)
        for cost in [_cost(block, judge, run.model.identity)]
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
    for metric in (judge.metric, *block.details):
        verdicts = [part.verdict for part in block.readings]
        is_own = metric == judge.metric
        values = [v.value if is_own else v.detail.get(metric) for v in verdicts]
        yield _mean(block, judge, metric=metric, values=values)
    if not block.has_choices:
        return
    if block.is_average:
        values = choice_scores.permuted(block.pairs)
        yield _mean(block, judge, metric=choice_scores.PERMUTED, values=values)
    for metric, (value, counted) in choice_scores.over_all(block.pairs).items():
        yield _whole(block, judge, metric=metric, value=value, counted=counted)
    if block.implicitness is not None and block.group == ALL:
        yield from _detected(block, judge, block.implicitness)
    if block.classes is not None and block.group == ALL:
        found = choice_scores.class_numbers(block.pairs, block.classes, everything=ALL)
        yield from (_numbered(block, judge, group, number) for group, number in found)


def _detected(block: ScoreBlock, judge: JudgeEntry, spec: ImplicitnessSpec) -> Iterator[Score]:
    answers = choice_scores.answered(block.pairs, spec)
    for part in choice_scores.parts(answers, spec, everything=ALL):
        for metric in choice_scores.RATES:
            places = choice_scores.kind(part, answers, is_positive=metric == choice_scores.HITS)
            if choice_scores.is_enough(part, places, answers, spec.least):
                values = [answers[at].flagged for at in places]
                some = _some(block, part.group, places)
                yield _mean(some, judge, metric=metric, values=values)
        for found in choice_scores.detection_numbers(part, answers, spec):
            yield _numbered(block, judge, part.group, found)


def _numbered(
    block: ScoreBlock, judge: JudgeEntry, group: str, found: choice_scores.Number
) -> Score:
    inside = set(found.counted)
    score = _whole(
        _some(block, group, found.planned),
        judge,
        metric=found.metric,
        value=found.value,
        counted=[at in inside for at in found.planned],
    )
    return replace(score, low=found.low, high=found.high)


def _some(block: ScoreBlock, group: str, places: Sequence[int]) -> ScoreBlock:
    return replace(block, group=group, readings=tuple(block.readings[at] for at in places))


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


def blocks(readings: Sequence[JudgedResponse], task: TaskSpec) -> Iterator[ScoreBlock]:
    """Each variant under each decoding and, last, under all of them; each group after `all`.

    An average, all of whose variants must be there, comes after the variants.
    """
    found = dict.fromkeys(reading.row.variant for reading in readings)
    details = {name for part in readings for name in part.verdict.detail}
    whole = {
        name: members for name, members in averages(task).items() if set(members) <= set(found)
    }
    for variant in (*found, *whole):
        members = [r for r in readings if r.row.variant in whole.get(variant, (variant,))]
        labels = list(dict.fromkeys(reading.row.decoding for reading in members))
        sets = {label: [r for r in members if r.row.decoding == label] for label in labels}
        sets |= {headline_label(labels): members} if len(labels) > 1 else {}
        groups = named_groups(reading.row.sample.group for reading in members)
        for (label, chosen), (group, own) in product(sets.items(), groups.items()):
            part = [r for r in chosen if own in (None, r.row.sample.group)]
            # What is said of a kind of choice that none of the samples has, has no meaning.
            given = {name for reading in part for name in reading.verdict.detail}
            foreign = {name for name in details - given if name.startswith(OF_CHOICE)}
            yield ScoreBlock(
                *(variant, label, group, tuple(part)),
                details=tuple(sorted(details - foreign)),
                has_choices=task.has_choices,
                is_average=variant in whole,
                implicitness=task.implicitness,
                classes=task.classes,
            )


def named_groups(groups: Iterable[str]) -> dict[str, str | None]:
    """The groups of some samples by their names in tables, after ALL, which is every one: None.

    Beside others, a group that the data itself calls "all" is told apart from the total.
    """
    found = sorted(set(groups))
    own = [] if found == [ALL] else found
    return {ALL: None} | {f"{g}{OF_DATA}" if _LIKE_ALL.fullmatch(g) else g: g for g in own}


def _mean(
    block: ScoreBlock, judge: JudgeEntry, *, metric: str, values: Sequence[float | None]
) -> Score:
    pairs = zip(values, block.readings, strict=True)
    known = [(value, part.row.sample.cluster) for value, part in pairs if value is not None]
    is_share = metric in SHARES or metric.startswith(OF_SHARES)
    columns = [v for v, _ in known], [c for _, c in known]
    limits = value_range(judge, metric)
    interval = mean_interval(*columns, is_share=is_share, limits=limits)
    counted = [value is not None for value in values]
    score = _whole(block, judge, metric=metric, value=interval.value, counted=counted)
    return replace(score, low=interval.low, high=interval.high)


def _whole(
    block: ScoreBlock,
    judge: JudgeEntry,
    *,
    metric: str,
    value: float | None,
    counted: Sequence[bool],
) -> Score:
    inside = list(compress(block.readings, counted))
    outside = compress(block.readings, (not one for one in counted))
    lost = Counter(part.verdict.reason or Reason.UNSUPPORTED for part in outside)
    return Score(
        judge=judge.name,
        variant=block.variant,
        decoding=block.decoding,
        group=block.group,
        metric=metric,
        value=value,
        low=None,
        high=None,
        n=len(inside),
        clusters=len({part.row.sample.cluster for part in inside}),
        missing={reason: lost[reason] for reason in Reason},
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
    counted = [row.sample for row, verdict in block.pairs if verdict.value is not None]
    return chance_level(run, judge, counted or [row.sample for row, _ in block.pairs])


def chance_level(run: RunFile, judge: JudgeEntry, samples: Sequence[Sample]) -> float | None:
    """What blind answers to some samples get by a judge; None where it is not known.

    A task's chance is that of a choice between its references: no rating has it, and a judge of
    one's own says itself what a blind answer gets.
    """
    if judge.chance is not UNSET:
        return judge.chance
    if judge.metric != RIGHT_OR_WRONG:
        return None
    if run.task.has_choices:
        return choice_scores.chance(samples) if samples else None
    return run.chance


def _cost(block: ScoreBlock, judge: JudgeEntry, model: str) -> float | None:
    own = [part for part in block.readings if not part.is_other]
    answers = merged(answer_calls(part.row, judge) for part in own)
    replies = merged(judge_calls(part.verdict) for part in own)
    sides = ((answers, model), (replies, judge.identity))
    unpaid = {key for calls, identity in sides if is_unpaid(identity) for key in calls}
    return cost_of({**answers, **replies}, unpaid).cost_usd


def by_snapshot(
    rows: Sequence[SampleRecord], judge: JudgeEntry
) -> Iterator[tuple[tuple[str, str], list[JudgedResponse]]]:
    """Split verdicts by (model, judge) snapshot; verdicts of other snapshots become missing."""
    readings = [JudgedResponse(r, r.verdicts[judge.name]) for r in rows if judge.name in r.verdicts]
    known = sorted({part.snapshots for part in readings if part.verdict.value is not None})
    if len(known) < 2:
        # Without a value: the snapshots behind all readings, where there is one of each kind.
        tested, asked = ({part.snapshots[n] for part in readings} - {""} for n in range(2))
        silent = (min(tested) if len(tested) == 1 else "", min(asked) if len(asked) == 1 else "")
        yield known[0] if known else silent, readings
        return
    for snapshots in known:
        yield snapshots, [_only(reading, snapshots) for reading in readings]


def _only(reading: JudgedResponse, snapshots: tuple[str, str]) -> JudgedResponse:
    if reading.verdict.value is None or reading.snapshots == snapshots:
        return reading
    lost = Reason.UNSUPPORTED
    other = replace(reading.verdict, value=None, reason=lost, detail={}, shares=())
    return JudgedResponse(reading.row, other, is_other=True)
