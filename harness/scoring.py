"""Verdicts to scores: means by group and decoding, with cluster intervals and what is missing.

The value of a verdict is the judge's headline metric; every detail it gives is a metric too.
Verdicts that different snapshots stand behind never share a row.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.core import Score
from harness.parts import Reason
from harness.runs import JudgeEntry, Row, RunFile, VerdictRow
from harness.scores import ScoreRow
from harness.stats.intervals import mean_interval

ALL = "all"


@dataclass(frozen=True, slots=True)
class Reading:
    """One judge's verdict on one response."""

    row: Row
    verdict: VerdictRow

    @property
    def snapshots(self) -> tuple[str, str]:
        """The snapshots of the model under test and of the judge model; empty where unknown."""
        return self.row.served or "", self.verdict.served or ""


@dataclass(frozen=True, slots=True)
class Block:
    """The readings behind some scores: one variant, one or all decodings, one or all groups."""

    variant: str
    decoding: str
    group: str
    readings: tuple[Reading, ...]


def score_rows(run: RunFile, rows: Sequence[Row]) -> list[ScoreRow]:
    """The scores of a run by every judge that has read it."""
    return [
        ScoreRow(
            task=run.run.task,
            model=run.model.name,
            score=score,
            chance=run.chance if score.metric == judge.metric else None,
            cost_usd=None,
            signature=signature(run, judge, score, snapshots=snapshots),
        )
        for judge in run.judges
        for snapshots, readings in _by_snapshot(rows, judge)
        for score in scores(readings, judge, seed=run.run.seed)
    ]


def scores(readings: Sequence[Reading], judge: JudgeEntry, *, seed: int) -> Iterator[Score]:
    """Every score of one judge: variant by decoding by group by metric, overall first."""
    details = {name for reading in readings for name in reading.verdict.detail}
    for block in _blocks(readings):
        for metric in (judge.metric, *sorted(details)):
            yield _score(block, judge, metric=metric, seed=seed)


def headline_label(labels: Sequence[str]) -> str:
    """The name of several decodings taken together: T0.3 and T0.5 make T0.3+0.5."""
    return "+".join([labels[0], *(label.removeprefix("T") for label in labels[1:])])


def signature(run: RunFile, judge: JudgeEntry, score: Score, *, snapshots: tuple[str, str]) -> str:
    """The recipe of a score in one line: task, data, variant, model, decoding, judge, version."""
    served, judged_by = snapshots
    name, way = judge.recipe.split("|")
    limit = "all" if run.run.limit is None else run.run.limit
    version = "+".join(filter(None, (run.model.revision, served))) or "unknown"
    fields = (
        f"{run.run.task}:{run.variants[score.variant][:8]}",
        f"data:{run.data.label},{limit}",
        score.variant,
        f"{run.model.name}:{run.model.kind}@{version}",
        f"{score.decoding},n{run.run.decodings[0].n},s{run.run.seed}",
        f"{name}@{judged_by or judge.asks}" if judge.asks or judged_by else name,
        way,
        f"v{run.version}",
    )
    # A snapshot's name is a server's to choose: it ends neither the field nor the line.
    return "|".join(re.sub(r"[|\s]", "_", field) for field in fields)


def _blocks(readings: Sequence[Reading]) -> Iterator[Block]:
    """Each variant under each decoding and, last, under all of them; each group after `all`."""
    for variant in dict.fromkeys(reading.row.variant for reading in readings):
        members = [reading for reading in readings if reading.row.variant == variant]
        labels = list(dict.fromkeys(reading.row.decoding for reading in members))
        groups = sorted({reading.row.sample.group for reading in members} - {ALL})
        sets = [(label, [r for r in members if r.row.decoding == label]) for label in labels]
        sets += [(headline_label(labels), members)] if len(labels) > 1 else []
        for label, chosen in sets:
            yield Block(variant, label, ALL, tuple(chosen))
            for group in groups:
                part = tuple(reading for reading in chosen if reading.row.sample.group == group)
                yield Block(variant, label, group, part)


def _score(block: Block, judge: JudgeEntry, *, metric: str, seed: int) -> Score:
    found = [(_value(reading.verdict, judge, metric), reading) for reading in block.readings]
    held = [(value, reading.row.sample.cluster) for value, reading in found if value is not None]
    lost = Counter(
        reading.verdict.reason or Reason.UNSUPPORTED for value, reading in found if value is None
    )
    interval = mean_interval([v for v, _ in held], [c for _, c in held], seed=str(seed))
    return Score(
        judge=judge.name,
        variant=block.variant,
        decoding=block.decoding,
        group=block.group,
        metric=metric,
        value=interval.value,
        low=interval.low,
        high=interval.high,
        n=interval.n,
        clusters=interval.clusters,
        missing={reason: lost[reason] for reason in Reason},
    )


def _value(verdict: VerdictRow, judge: JudgeEntry, metric: str) -> float | None:
    return verdict.value if metric == judge.metric else verdict.detail.get(metric)


def _by_snapshot(
    rows: Sequence[Row], judge: JudgeEntry
) -> Iterator[tuple[tuple[str, str], list[Reading]]]:
    """The readings once for each pair of snapshots, those of other pairs set to missing."""
    readings = [Reading(row, row.verdicts[judge.name]) for row in rows]
    known = sorted({part.snapshots for part in readings if part.verdict.value is not None})
    if len(known) < 2:
        yield known[0] if known else _heard(readings), readings
        return
    for snapshots in known:
        yield snapshots, [_only(reading, snapshots) for reading in readings]


def _heard(readings: Sequence[Reading]) -> tuple[str, str]:
    """The snapshots behind readings without any value, where there is one of each kind."""
    tested, asked = ({part.snapshots[place] for part in readings} - {""} for place in range(2))
    return (
        min(tested) if len(tested) == 1 else "",
        min(asked) if len(asked) == 1 else "",
    )


def _only(reading: Reading, snapshots: tuple[str, str]) -> Reading:
    if reading.verdict.value is None or reading.snapshots == snapshots:
        return reading
    other = replace(reading.verdict, value=None, reason=Reason.UNSUPPORTED, detail={})
    return Reading(reading.row, other)
