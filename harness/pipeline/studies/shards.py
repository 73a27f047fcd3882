"""A run in parts that several machines answer; a part makes calls, and writes no run."""

import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import gcd
from typing import Self

from harness.core import Sample
from harness.errors import SpecError, StoreError
from harness.models.vectors import chunks
from harness.parts import NO_REPLY, digest
from harness.pipeline import execute
from harness.pipeline.plan import samples_at
from harness.pipeline.preview import budget_of, planned_calls
from harness.pipeline.resolve import JudgePlan, RunPlan
from harness.pipeline.setup import smoke_test_judges
from harness.pipeline.walk import cases_of, questions
from harness.storage.run_tables import SampleRecord


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of a run: number `number` of `count`, from 1. A digest assigns the clusters."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The shard that is written i/N."""
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise SpecError(f"--shard {text!r}: give i/N, i from 1 to N, as in 2/4")
        return cls(int(found[1]), int(found[2]))

    def has(self, sample: Sample, seed: int) -> bool:
        """Whether a sample's cluster belongs to this shard of a run with a seed."""
        return _lot(sample, seed) % self.count + 1 == self.number

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def _lot(sample: Sample, seed: int) -> int:
    """A number of a sample's cluster; all of a shard have the same remainder by the count."""
    return int(digest((seed, sample.cluster))[:15], 16)


@dataclass(frozen=True, slots=True)
class ShardResult:
    """What a shard of a run has stored; `missing` counts answers and replies that failed."""

    task: str
    model: str
    shard: str
    answers: int
    questions: int
    missing: int


def run_part(plan: RunPlan, shard: Shard) -> ShardResult:
    """Make the calls of a shard of one run, whose share of the budget is set."""
    if not plan.client.terms.is_offline:
        smoke_test_judges(plan.plan, plan.judges)
    judging = JudgePlan(plan.file, plan.folder, plan.file.task, (), lambda _: {}, plan.judges)
    samples, seed = plan.plan.samples, plan.plan.run.seed
    own = [place for place, sample in enumerate(samples) if shard.has(sample, seed)]
    part = replace(plan.plan, samples=samples_at(samples, own))
    with plan.client as client:
        return _asked(judging, execute.answered(part, client), shard)


def judge_part(plan: JudgePlan, shard: Shard) -> ShardResult:
    """Make the calls of a shard of judges that are to read a stored run."""
    share_budget([plan], shard)
    own = (record for record in plan.records if shard.has(record.sample, plan.file.run.seed))
    return _asked(plan, chunks(own, execute.CHUNK), shard)


def _asked(plan: JudgePlan, chunks: Iterable[Sequence[SampleRecord]], shard: Shard) -> ShardResult:
    """Ask each question of the judges about records, which are not held, once."""
    answers, lost, asking = 0, 0, []
    with ExitStack() as opened:
        for setup, own in [(one, one.client) for one in plan.judges if one.client is not None]:
            client = opened.enter_context(own)
            shown = execute.GatheredProgress(client.progress)
            asking.append((setup, replace(client, progress=shown), shown, set[str]()))
        for records in chunks:
            answers += len(records)
            lost += sum(record.answer is None for record in records)
            responses = plan.responses(records)
            for setup, client, shown, asked in asking:
                shown.next_chunk()
                cases = cases_of(records, plan.task, step=setup.entry.step, responses=responses)
                each = (one for case in cases.values() for one in questions(case, setup.judge))
                wanted = {one.key: one for one in each if one.key not in asked}
                asked.update(wanted)
                replies = client.answer(wanted.values(), stage=f"judge {setup.judge.name}")
                failures = (reply.failure for reply in replies.values())
                lost += sum(why is not None and why.reason in NO_REPLY for why in failures)
    names = (plan.file.run.task, plan.file.model.name, str(shard))
    return ShardResult(*names, answers, sum(len(asked) for *_, asked in asking), lost)


def share_budget(plans: Sequence[RunPlan | JudgePlan], shard: Shard) -> None:
    """Give a shard its equal share of the budget of some runs, and count what it has stored."""
    budget = next(filter(None, map(budget_of, plans)), None)
    if budget is None:
        return
    budget.cap_usd /= shard.count
    for plan in plans:
        for client, asked in planned_calls(plan):
            own = (one for one in asked if shard.has(one.sample, plan.file.run.seed))
            client.count([one.longest for one in own])


def refuse_missing(plans: Iterable[RunPlan | JudgePlan]) -> None:
    """Raise StoreError where calls of some runs are not stored; later steps may need more."""
    found = {f"{p.file.run.task}, {p.file.model.name}": _missing_lots(p) for p in plans}
    if each := ", ".join(f"{len(lots)} of {run}" for run, lots in found.items() if lots):
        lost = [lot for lots in found.values() for lot in lots]
        raise StoreError(
            f"{len(lost)} calls are not stored ({each}): run {_shards_of(lost)}, or copy calls/ of "
            "the machine that has them into this results folder; --limit, --seed, --variant and "
            "--judge have to be those of the shards. Without --shard the run's own command makes "
            "what is left"
        )


def _missing_lots(plan: RunPlan | JudgePlan) -> list[int]:
    """The lot of each call of a run that is not stored."""
    seed, found = plan.file.run.seed, dict[tuple[int, str], int]()
    for client, asked in planned_calls(plan):
        known = {one.longest.key: one.sample for one in asked if not one.is_open}
        if client.ledger.is_missing_any(known):
            lost = known.keys() - client.ledger.find(known).keys()
            found |= {(id(client), key): _lot(known[key], seed) for key in lost}
    return [*found.values()]


def _shards_of(lots: Iterable[int]) -> str:
    """The shard of some lots, which differ by multiples of its count; or words for several."""
    first, *others = {*lots}
    count = gcd(*(lot - first for lot in others))
    # Of fewer lots the divisor may be a multiple of the count.
    is_one = count > 1 and len(others) > 6
    return f"shard {first % count + 1}/{count}" if is_one else "the shards that did not end"
