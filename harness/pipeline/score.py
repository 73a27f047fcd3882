"""Verdicts to scores: means by group and decoding, with cluster intervals and what is missing.

The value of a verdict is the judge's headline metric; every detail it gives is a metric too.
Verdicts by different snapshots of a model never share a row.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from msgspec import UNSET

from harness.core import Score
from harness.lazy import DataFrame
from harness.parts import Reason, digest
from harness.pipeline import calls, choice_scores
from harness.pipeline import verdict_frame as frames
from harness.pipeline.records import missing_of
from harness.pipeline.verdict_frame import ALL as ALL
from harness.pipeline.verdict_frame import OF_CHOICE, REASONS, Block, Files, detail
from harness.stats.estimate import Clusters, Floats, Indices, Limits
from harness.stats.intervals import mean_interval
from harness.storage.runs import JudgeEntry, RunFile, RunFolder, ScoreRow
from harness.storage.signature import JudgeRecipe, Signature

RIGHT_OR_WRONG = "accuracy"  # the metric of judges whose verdict is 1, 0 or, for a tie, between
HEADLINES = frozenset({RIGHT_OR_WRONG, "mean_rating", "mean_f1"})
"""The metrics that a judge's verdicts may have."""
OF_SHARES = ("accuracy_", *OF_CHOICE)
SHARES = frozenset(
    {
        *("accuracy", "consistency", "slot1_share", "parsed_share", "prob_right"),
        *("identical_scores", "spans_boundary", *choice_scores.RATES),
    }
)
"""The metrics that are 0 to 1 by nature; others may be 0 or 1 throughout by accident."""
BINNED = frozenset({*choice_scores.RATES, choice_scores.AUC})
"""The metrics besides a judge's own that scores.csv has, also of each bin of implicitness."""
OVERALL = frozenset(
    {
        *(choice_scores.PERMUTED, choice_scores.FAVOURITE, choice_scores.MACRO),
        *("identical_scores", "parsed_share", "consistency", "slot1_share"),
    }
)
_UNSAID = REASONS.index("unsupported")
OF_CLASSES = ("precision_", "recall_", "f1_", "missed_")
"""The metrics that scores.csv has of all groups together, and how the names of others begin."""


def all_scores(folder: RunFolder) -> list[ScoreRow]:
    """Every score of a stored run, computed from its verdicts; scores.csv has the headlines."""
    return rows_of(folder.read(), folder.tables(), is_every=True)


def headlines(rows: Iterable[ScoreRow]) -> list[ScoreRow]:
    """The overall row of each run, variant and judge over all decodings together."""
    chosen: dict[tuple[str, ...], ScoreRow] = {}
    for row in rows:
        score = row.score
        if score.group == ALL and score.metric in HEADLINES:
            # All of a recipe but the temperatures of the decoding.
            rest = replace(row.parsed, decoding="").without("variant")
            key = (row.task, score.variant, score.judge, rest)
            other = chosen.setdefault(key, row)
            if score.decoding.count("+") > other.score.decoding.count("+"):
                chosen[key] = row
    return list(chosen.values())


def derived(run: RunFile, files: Files) -> tuple[RunFile, tuple[ScoreRow, ...]]:
    """What its tables say of a run: its file with costs and missing counts, and headline scores."""
    called = calls.call_frame(files)
    costs, redrawn = calls.costs(called, run), calls.redrawn(called)
    run = replace(run, costs=costs, redrawn=redrawn, missing=missing_of(files))
    charged = calls.charged(called, run)
    del called  # it has as many rows as there are answers
    return run, tuple(rows_of(run, files, charged))


def rows_of(
    run: RunFile, files: Files, paid: dict[str, DataFrame] | None = None, *, is_every: bool = False
) -> list[ScoreRow]:
    """The headline scores of a run, or every one; `paid` are the paid calls of each judge."""
    paid = calls.charged(calls.call_frame(files), run) if paid is None else paid
    return [
        row
        for judge in run.judges
        for row in _judge_rows(run, files, judge, paid[judge.name], is_every=is_every)
    ]


def _judge_rows(
    run: RunFile, files: Files, judge: JudgeEntry, charged: DataFrame, *, is_every: bool
) -> Iterator[ScoreRow]:
    """The scores by one judge; a generator, so that its verdicts are gone before the next one's."""
    verdicts = frames.verdict_frame(files, run.task, judge=judge.name)
    for made, block in signed_blocks(run, judge, verdicts):
        cost = calls.dollars(charged, block.verdicts) if len(charged) else None
        for score in block_scores(run, block, judge, is_every=is_every):
            # What boards rank, and what alarms are computed from.
            metric, is_all = score.metric, score.group == ALL
            is_overall = is_all and (metric in OVERALL or metric.startswith(OF_CLASSES))
            if is_every or is_overall or metric in {judge.metric, *BINNED}:
                chance = _chance(run, block, judge=judge, metric=metric)
                paid = cost if score.group == block.group else None
                yield ScoreRow(run.run.task, run.model.name, score, chance, paid, made)


def signed_blocks(
    run: RunFile, judge: JudgeEntry, verdicts: DataFrame, *, has_groups: bool = True
) -> Iterator[tuple[str, Block]]:
    """Each block of a judge's verdicts, by the snapshots behind them, with its signature."""
    judged = frames.rows_where(verdicts, verdicts["judge"] == judge.name)
    for snapshots, own in frames.by_snapshot(judged):
        for block in frames.blocks(own, run.task, has_groups=has_groups):
            way = {"variant": block.variant, "decoding": block.decoding}
            yield signature(run, judge, **way, snapshots=snapshots), block


def block_scores(
    run: RunFile, block: Block, judge: JudgeEntry, *, is_every: bool
) -> Iterator[Score]:
    """The scores of one judge in one block: its metric, and each detail its verdicts have.

    Unless `is_every`, those that are no headline are left out where they take time.
    """
    columns = block.verdicts["cluster"].to_numpy(), frames.numbers(block.verdicts["reason"])
    for found in _numbers(run, block, judge, is_every=is_every):
        clusters, reasons = (column[found.planned] for column in columns)
        # Without a reason: the verdict has a value, but not this number.
        lost = reasons[~found.counted]
        lost = np.bincount(np.where(lost < 0, _UNSAID, lost), minlength=len(REASONS)).tolist()
        count = Clusters.named(clusters[found.counted]).clusters
        missing = {reason: lost[at] for at, reason in enumerate(Reason)}
        of = (judge.name, block.variant, block.decoding, found.group or block.group, found.metric)
        ends = (found.value, found.low, found.high)
        yield Score(*of, *ends, int(found.counted.sum()), count, missing)


def _numbers(
    run: RunFile, block: Block, judge: JudgeEntry, *, is_every: bool
) -> Iterator[choice_scores.Number]:
    verdicts, task, is_all = block.verdicts, run.task, block.group == ALL
    values = verdicts["value"].to_numpy()
    yield _mean(block, judge, metric=judge.metric, values=values)
    for metric in block.details:
        if is_every or (is_all and metric in OVERALL):
            own = values if metric == judge.metric else detail(verdicts, metric)
            yield _mean(block, judge, metric=metric, values=own)
    if not task.has_choices or not (is_every or is_all):
        return
    if block.is_average:
        permuted = choice_scores.permuted(verdicts)
        yield _mean(block, judge, metric=choice_scores.PERMUTED, values=permuted)
    yield from choice_scores.over_all(verdicts)
    if task.implicitness is not None and is_all:
        flags = choice_scores.flags(verdicts, task.implicitness.positive)
        for part in choice_scores.parts(flags, task.implicitness, everything=ALL):
            found = [
                _mean(block, judge, metric=rate, values=own["flagged"].to_numpy(), places=own.index)
                for rate in choice_scores.RATES
                for own in [choice_scores.of_rate(part, rate)]
                if choice_scores.is_enough(part, own, task.implicitness.least)
            ]
            found += choice_scores.detection_numbers(part, task.implicitness)
            yield from (number._replace(group=part.group) for number in found)
    if task.classes is not None and is_all:
        yield from choice_scores.class_numbers(verdicts, task.classes)


def _mean(
    block: Block, judge: JudgeEntry, *, metric: str, values: Floats, places: Indices | None = None
) -> choice_scores.Number:
    counted = ~np.isnan(values)
    places = np.arange(len(values)) if places is None else np.asarray(places)
    interval = mean_interval(
        values[counted],
        block.verdicts["cluster"].to_numpy()[places[counted]],
        is_share=metric in SHARES or metric.startswith(OF_SHARES),
        limits=value_range(judge, metric),
    )
    ends = (interval.low, interval.high)
    return choice_scores.Number(metric, interval.value, places, counted, *ends)


def value_range(judge: JudgeEntry, metric: str) -> Limits | None:
    """The least and the greatest that a judge's values of a metric can be; None if not known."""
    if metric in SHARES or metric.startswith(OF_SHARES):
        return 0.0, 1.0
    return JudgeRecipe.parse(judge.recipe).scale if metric == judge.metric else None


def _chance(run: RunFile, block: Block, *, judge: JudgeEntry, metric: str) -> float | None:
    """The expected value of a blind answer on a metric; None where it is not known."""
    is_choice = run.task.has_choices and judge.chance is UNSET
    if metric != judge.metric and not (is_choice and metric.startswith(RIGHT_OR_WRONG)):
        return None
    # Of the samples behind the value, or of all without one.
    choices = block.verdicts["sample_choices"].to_numpy()
    counted = choices[block.verdicts["value"].notna().to_numpy()]
    return chance_level(run, judge, counted if len(counted) else choices)


def chance_level(run: RunFile, judge: JudgeEntry, choices: Indices) -> float | None:
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


def signature(
    run: RunFile, judge: JudgeEntry, *, variant: str, decoding: str, snapshots: tuple[str, str]
) -> str:
    """The recipe of a score in one line: task, data, variant, model, decoding, judge, version."""
    served, judged_by = snapshots
    recipe = JudgeRecipe.parse(judge.recipe)
    made = Signature(
        task=run.run.task,
        prompts=_words(run, variant, run.variants),
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


def _words(run: RunFile, variant: str, words: Mapping[str, str]) -> str:
    """How a signature names the words of a variant, or of an average over variants."""
    members = frames.averages(run.task).get(variant, ())
    return (words.get(variant) or digest([words[member] for member in members]))[:8]


def written_words(run: RunFile) -> dict[str, str]:
    """The words of a run's signatures as they would be had its choices been written."""
    known = run.written.keys() & run.variants.keys()
    names = known | {name for name, own in frames.averages(run.task).items() if known >= {*own}}
    return {_words(run, name, run.variants): _words(run, name, run.written) for name in names}
