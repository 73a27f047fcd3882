"""Two runs of one task to a decision: passed, dropped by more than allowed, or not known.

Each variant and judge is decided by the interval of its drop, the mean of the first run less that
of the second on the items that both have. Nothing here prints, reads or writes.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from harness.analysis.pairings import Pairing, Pairings, of_one_task, unpaired
from harness.errors import SpecError
from harness.pipeline.columns.stored import ColumnRun
from harness.pipeline.score import RIGHT_OR_WRONG, averages, value_range
from harness.stats.clustered import clustered_mean, detectable_difference, paired_gap
from harness.stats.estimate import Estimate, Floats, Limits, Names, mean
from harness.storage.runs import StoredRun

LEVEL, POWER = 0.95, 0.8
SAME = "every answer is the same, word for word"
"""The reason of a pass that no interval decides."""


class Decision(StrEnum):
    """What a gate says."""

    PASS = "pass"  # noqa: S105 - no password
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class GateLimits:
    """What a gate allows: a drop in units of the metric, and a share of missing verdicts."""

    max_drop: float
    max_missing: float

    def __post_init__(self) -> None:
        if not (isfinite(self.max_drop) and self.max_drop >= 0):
            raise SpecError(f"--max-drop {self.max_drop}: give 0 or more, as .02 for two points")
        if not 0 <= self.max_missing <= 1:
            raise SpecError(f"--max-missing {self.max_missing}: give a share from 0 to 1")


@dataclass(frozen=True, slots=True)
class GateRow:
    """One variant by one judge: `base` and `new` are means over the `n` items that both have.

    `drop` is base less new, `low` to `high` its 95 % interval, None with the `reason`. `seen` is
    the true drop that would have been called a regression with a power of .8; None where it is
    not known, or above all that can be. `missing` is the share of the items whose verdict the new
    run lacks, `missing_base` that of the first. `items` are those of both runs, in `clusters`.
    `low_corrected` to `high_corrected` is the interval at the `level` that decides a regression:
    with one row the 95 % interval.
    """

    task: str
    variant: str
    decoding: str
    judge: str
    metric: str
    decision: Decision
    reason: str
    base: float | None
    new: float | None
    drop: float | None
    low: float | None
    high: float | None
    seen: float | None
    n: int
    items: int
    clusters: int
    missing: float
    missing_base: float
    level: float
    low_corrected: float | None
    high_corrected: float | None


@dataclass(frozen=True, slots=True)
class Gate:
    """The decision on every row, and on all of them together; `notes` are for the reader.

    `lacking` is what the base run has and the new one lacks: no row is of it, and nothing passes.
    """

    decision: Decision
    rows: tuple[GateRow, ...]
    notes: tuple[str, ...]
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Context:
    """What the decision on one row depends on beside the row: all rows, and both runs."""

    limits: GateLimits
    tests: int
    unmatched: float
    answers: tuple["_Answers", "_Answers"]


def gate(base: StoredRun, new: StoredRun, limits: GateLimits, *, judge: str | None = None) -> Gate:
    """Whether the second of two runs of one task has dropped.

    A regression is a drop whose interval lies above the limit, at a level corrected for the number
    of rows (Bonferroni), or too many missing verdicts; a pass one whose 95 % interval lies at or
    below it, or where no answer differs. All rows must pass, and one regression is enough. What
    the second run lacks of the first, a variant or a judge, decides nothing either.
    """
    ours, theirs = (ColumnRun.of(run.file, run.rows) for run in (base, new))
    found = of_one_task(ours, theirs, judge)
    pairings = _chosen(found)
    count = len({row.sample.id for run in (base, new) for row in run.rows})
    answers = _Answers(base), _Answers(new)
    context = _Context(limits, len(pairings), found.unmatched / count, answers)
    rows = tuple(_row(pairing, context) for pairing in pairings)
    said = [row.decision for row in rows]
    if lacking := tuple(unpaired(ours, found, judge)):
        said.append(Decision.INCONCLUSIVE)
    told = f"the new run lacks {', '.join(lacking)} of the base run, so it cannot pass"
    notes = [told] if lacking else []
    order = (Decision.REGRESSION, Decision.INCONCLUSIVE)
    whole = next((one for one in order if one in said), Decision.PASS)
    return Gate(whole, rows, (*found.notes, *notes), lacking)


def _chosen(found: Pairings) -> list[Pairing]:
    """A pairing a variant and judge: all decodings together, and pools for their members."""
    last = {(one.first.judge.name, one.first.variant): one for one in found.pairings}
    pooled = {
        (judge, member)
        for (judge, variant), one in last.items()
        if one.first.is_pool
        for member in averages(one.first.file.task)[variant]
    }
    return [one for key, one in last.items() if key not in pooled]


class _Answers:
    """The answers of a run as numbers of eight bytes, which are made when they are first wanted."""

    def __init__(self, run: StoredRun) -> None:
        self._run = run

    def of(self, names: Iterable[str], variants: Iterable[str]) -> NDArray[np.uint64] | None:
        """Those of some samples under some variants, sorted; None where one is missing."""
        wanted = np.fromiter(map(_number, names), dtype=np.uint64)
        parts = [self._by_variant[variant] for variant in variants]
        found = [part["answer"][np.isin(part["sample"], wanted)] for part in parts]
        each = np.sort(np.concatenate(found))
        return each if len(each) and each[0] else None

    @cached_property
    def _by_variant(self) -> dict[str, NDArray[np.void]]:
        made: dict[str, array[int]] = defaultdict(lambda: array("Q"))
        for row in self._run.rows:
            place = (row.sample.id, row.variant, row.decoding)
            answer = 0 if row.answer is None else _number(repr((place, row.answer)))
            made[row.variant].extend((_number(row.sample.id), answer))
        kinds = [("sample", np.uint64), ("answer", np.uint64)]
        return {name: np.frombuffer(each, dtype=kinds) for name, each in made.items()}


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big")


def _row(pairing: Pairing, context: _Context) -> GateRow:
    first, items = pairing.first, pairing.items
    read = items.at(items.is_read)
    base, new, clusters = read.first, read.second, read.clusters
    bounds = _bounds(pairing, base, new, clusters=clusters)
    lost, lost_base = (
        int(np.isnan(side).sum()) / len(items) if len(items) else 0.0
        for side in (items.second, items.first)
    )
    means = mean(base.tolist()), mean(new.tolist())
    drop = None if None in means else (means[0] or 0.0) - (means[1] or 0.0)
    corrected = 1 - (1 - LEVEL) / context.tests
    sure = _bounds(pairing, base, new, clusters=clusters, level=corrected)
    is_same = len(items) > 0 and np.array_equal(base, new) and _is_same(pairing, *context.answers)
    decision, reason = _decide(
        context, bounds=bounds, sure=sure, lost=(lost_base, lost), is_same=is_same
    )
    return GateRow(
        task=first.file.run.task,
        variant=first.variant,
        decoding=pairing.decodings[0],
        judge=first.judge.name,
        metric=first.judge.metric,
        decision=decision,
        reason=reason,
        base=means[0],
        new=means[1],
        drop=drop,
        low=bounds.low,
        high=bounds.high,
        seen=_seen(pairing, sure, context.limits, level=corrected),
        n=len(read),
        items=len(items),
        clusters=len(np.unique(clusters)),
        missing=lost,
        missing_base=lost_base,
        level=corrected,
        low_corrected=sure.low,
        high_corrected=sure.high,
    )


def _bounds(
    pairing: Pairing,
    base: Floats,
    new: Floats,
    *,
    clusters: Names,
    level: float = LEVEL,
) -> Estimate:
    if pairing.first.judge.metric == RIGHT_OR_WRONG:
        return paired_gap(base, new, clusters, level=level)
    return clustered_mean(base - new, clusters, level=level, limits=_limits(pairing))


def _limits(pairing: Pairing) -> Limits | None:
    ends = value_range(pairing.first.judge, pairing.first.judge.metric)
    return ends and (ends[0] - ends[1], ends[1] - ends[0])


def _is_same(pairing: Pairing, base: _Answers, new: _Answers) -> bool:
    """Whether the two runs have the same words in every answer of a pairing."""
    task, view = pairing.first.file.task, pairing.first
    variants = averages(task)[view.variant] if view.is_pool else (view.variant,)
    names = {*pairing.items.names}
    ours, theirs = (run.of(names, variants) for run in (base, new))
    return ours is not None and theirs is not None and np.array_equal(ours, theirs)


def _decide(
    context: _Context,
    *,
    bounds: Estimate,
    sure: Estimate,
    lost: tuple[float, float],
    is_same: bool,
) -> tuple[Decision, str]:
    limits = context.limits
    if lost[1] > limits.max_missing:
        fact = f"{lost[1]:.1%} of the verdicts are missing"
        return Decision.REGRESSION, f"{fact}, more than {limits.max_missing:.1%}"
    if sure.low is not None and sure.low > limits.max_drop:
        return Decision.REGRESSION, f"the drop is more than {limits.max_drop:g}"
    if lost[0] > limits.max_missing:
        return Decision.INCONCLUSIVE, f"the base run lacks {lost[0]:.1%} of its verdicts"
    if context.unmatched > limits.max_missing:
        return Decision.INCONCLUSIVE, f"{context.unmatched:.1%} of the samples are in one run alone"
    if is_same:
        return Decision.PASS, SAME
    if bounds.high is None:
        return Decision.INCONCLUSIVE, f"no interval: {bounds.why}"
    if bounds.high <= limits.max_drop:
        return Decision.PASS, f"a drop of more than {limits.max_drop:g} is ruled out"
    if bounds.low is not None and bounds.low > limits.max_drop:
        fact = f"the drop is more than {limits.max_drop:g} by the {LEVEL:.0%} interval"
        needed = f"the one that {context.tests} rows need (Bonferroni)"
        return Decision.INCONCLUSIVE, f"{fact}, but not by {needed}"
    return Decision.INCONCLUSIVE, f"a drop of up to {bounds.high:.3f} is not ruled out"


def _seen(pairing: Pairing, sure: Estimate, limits: GateLimits, *, level: float) -> float | None:
    if sure.low is None or sure.high is None:
        return None
    reach = (sure.high - sure.low) / 2
    seen = limits.max_drop + detectable_difference(reach, sure.clusters, level=level, power=POWER)
    ends = _limits(pairing)
    return None if ends is not None and seen > ends[1] else seen
