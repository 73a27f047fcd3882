"""Runs to parts that several machines answer, and what calls are left before they are put together.

A shard makes the calls of its own clusters, answers and questions of judges, and writes no run:
a run is computed from the ledgers of all shards, as if one process had made their calls.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from math import inf
from pathlib import Path
from secrets import token_hex
from shutil import copyfile
from typing import Self

from harness.core import Response, Sample
from harness.errors import BudgetReached, SpecError, StoreError
from harness.models.client.cached import Budget, CachedClient, CallPolicy
from harness.parts import NO_REPLY, digest
from harness.pipeline import execute
from harness.pipeline.preview import (
    PlannedCall,
    charge_stored_calls,
    charge_stored_replies,
    judge_calls,
    preview,
    stored_questions,
)
from harness.pipeline.resolve import JudgePlan, RunPlan
from harness.pipeline.setup import JudgeSetup, smoke_test_judges
from harness.pipeline.walk import cases_of, questions


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of a run: number `number` of `count`, from 1. Clusters are dealt out by a digest."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The shard that is written i/N; SpecError for another text."""
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise SpecError(f"--shard {text!r}: give i/N, i from 1 to N, as in 2/4")
        return cls(int(found[1]), int(found[2]))

    def has(self, sample: Sample, seed: int) -> bool:
        """Whether a sample's cluster belongs to this shard of a run with a seed."""
        return int(digest((seed, sample.cluster))[:15], 16) % self.count == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


@dataclass(frozen=True, slots=True)
class ShardResult:
    """What a shard of a run has stored: its answers and its questions to judges.

    `missing` counts those of them that have no answer.
    """

    task: str
    model: str
    shard: str
    answers: int
    questions: int
    missing: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Calls of a run that are not stored; `shard` should have made them, None where none is known.

    There may be more: what a second step asks is known when the first is answered.
    """

    task: str
    model: str
    shard: str | None
    calls: int


def run_each(plans: Sequence[RunPlan], shard: Shard) -> Iterator[ShardResult]:
    """Make the calls of a shard of some runs, one after the other."""
    share_budget(plans, shard)
    for plan in plans:
        yield run_part(plan, shard)


def run_part(plan: RunPlan, shard: Shard) -> ShardResult:
    """Make the calls of a shard of one run, whose share of the budget is set."""
    plan.client.ledger.make_folder()  # a shard may have no sample, or no calls to make
    if not plan.client.terms.is_offline:
        smoke_test_judges(plan.plan, plan.judges)
    with _share_told(shard, plan.client.terms.budget):
        with plan.client as client:
            records = execute.answered(part_of(plan, shard).plan, client)
        judging = JudgePlan(
            plan.file, plan.folder, plan.file.task, records, lambda _: {}, plan.judges
        )
        return _asked(judging, shard)


def judge_part(plan: JudgePlan, shard: Shard) -> ShardResult:
    """Make the calls of a shard of judges that are to read a stored run."""
    seed, budget = plan.file.run.seed, _budget([one.client for one in plan.judges])

    def part(one: Shard) -> JudgePlan:
        records = [record for record in plan.records if one.has(record.sample, seed)]
        return replace(plan, records=records)

    def charge(one: Shard, into: Budget) -> None:
        terms = CallPolicy(budget=into)
        charge_stored_replies(replace(part(one), judges=_judges_on(plan.judges, terms)))

    if budget is not None:
        _share(budget, shard, charge)
    with _share_told(shard, budget):
        return _asked(part(shard), shard)


def part_of(plan: RunPlan, shard: Shard) -> RunPlan:
    """The run with the samples of a shard alone."""
    samples = tuple(s for s in plan.plan.samples if shard.has(s, plan.plan.run.seed))
    return replace(plan, plan=replace(plan.plan, samples=samples))


def _asked(plan: JudgePlan, shard: Shard) -> ShardResult:
    """Have the models of judges answer all that these ask about some records."""
    records, asked = list(plan.records), 0
    lost, whole = sum(record.answer is None for record in records), plan.responses(records)
    for setup in plan.judges:
        if setup.client is None:
            continue
        cases = cases_of(records, plan.task, step=setup.entry.step, responses=whole).values()
        wanted = {q.key: q for case in cases for q in questions(case, setup.judge)}
        with setup.client as client:
            replies = client.answer(wanted.values(), stage=f"judge {setup.judge.name}")
        asked += len(wanted)
        lost += sum(_is_failed(reply) for reply in replies.values())
    run, model = plan.file.run, plan.file.model
    return ShardResult(run.task, model.name, str(shard), len(records), asked, lost)


def _is_failed(response: Response) -> bool:
    return response.failure is not None and response.failure.reason in NO_REPLY


@contextmanager
def _share_told(shard: Shard, budget: Budget | None) -> Iterator[None]:
    """Say of a budget that is used up that it was a shard's share of it."""
    try:
        yield
    except BudgetReached as error:
        share = f"{budget.cap_usd:.4g} USD" if budget else "none"
        raise BudgetReached(f"shard {shard} (its share of the budget: {share}): {error}") from error


def share_budget(plans: Sequence[RunPlan], shard: Shard) -> None:
    """Lower the budget that some runs share to a shard's share, what it has stored counted.

    All shares together are the whole, whatever order and machines the shards are run in.
    """
    budget = _budget([plan.client for plan in plans])
    if budget is None:
        return

    def charge(one: Shard, into: Budget) -> None:
        for plan in plans:
            part = on_terms(part_of(plan, one), CallPolicy(budget=into))
            charge_stored_calls(part.plan, part.client, part.judges)

    _share(budget, shard, charge)


def _share(budget: Budget, shard: Shard, charge: Callable[[Shard, Budget], None]) -> None:
    spent = []
    for number in range(1, shard.count + 1):
        charge(Shard(number, shard.count), counted := Budget(inf))
        spent.append(counted.spent_usd)
    budget.cap_usd = share_of(budget.cap_usd, spent, shard.number)
    charge(shard, budget)


def share_of(cap_usd: float, spent_usd: Sequence[float], number: int) -> float:
    """The share of a budget that shard `number`, from 1, may cost, by what is stored of each.

    All have the same, but one whose calls have cost more than that already, as before the run was
    sharded, keeps what it has spent; the others share what that leaves.
    """
    left, others = cap_usd, dict(enumerate(spent_usd, 1))
    while others:
        share = left / len(others)
        over = [one for one, spent in others.items() if spent > share]
        if not over:
            break
        left -= sum(others.pop(one) for one in over)
    return share if number in others else spent_usd[number - 1]


def _budget(clients: Iterable[CachedClient | None]) -> Budget | None:
    return next((one.terms.budget for one in clients if one and one.terms.budget), None)


def on_terms(plan: RunPlan, terms: CallPolicy) -> RunPlan:
    """The run with other terms for all of its calls."""
    client = replace(plan.client, terms=terms)
    return replace(plan, client=client, judges=_judges_on(plan.judges, terms))


def _judges_on(judges: Sequence[JudgeSetup], terms: CallPolicy) -> tuple[JudgeSetup, ...]:
    return tuple(
        replace(one, client=one.client and replace(one.client, terms=terms)) for one in judges
    )


def gaps(plan: RunPlan) -> list[Gap]:
    """The calls of a run that are not stored, by the shard that should have made them."""
    sequences = preview(plan.plan, plan.client)
    found, seed = _Unstored(), plan.plan.run.seed
    for part in sequences:
        found.add(plan.client, part.cell.sample, part.calls)
    for setup in plan.judges:
        if setup.client is not None:
            for part in sequences:
                found.add(setup.client, part.cell.sample, judge_calls(plan.plan, [part], setup))
    return found.by_shard(plan.plan.run.task, plan.client.model.name, seed)


def judge_gaps(plan: JudgePlan) -> list[Gap]:
    """The questions of judges about a stored run that have no stored reply, by shard."""
    found = _Unstored()
    for setup in plan.judges:
        if setup.client is not None:
            for record in plan.records:
                asked = stored_questions(replace(plan, records=[record]), setup)
                found.add(setup.client, record.sample, [PlannedCall(q, q) for q in asked])
    return found.by_shard(plan.file.run.task, plan.file.model.name, plan.file.run.seed)


class _Unstored:
    """Planned calls by the client that would make them, each with the sample it is about."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[CachedClient, dict[str, tuple[Sample, bool]]]] = {}

    def add(self, client: CachedClient, sample: Sample, calls: Iterable[PlannedCall]) -> None:
        _, own = self._calls.setdefault(id(client), (client, {}))
        for call in calls:
            own.setdefault(call.longest.key, (sample, call.is_open))

    def by_shard(self, task: str, model: str, seed: int) -> list[Gap]:
        lost, count = Counter[int | None](), 0
        for client, _ in self._calls.values():
            count = max(count, client.ledger.shards)
        for client, own in self._calls.values():
            stored = client.ledger.find([key for key, (_, is_open) in own.items() if not is_open])
            left = (sample for key, (sample, _) in own.items() if key not in stored)
            lost.update(_number(sample, seed, count) for sample in left)
        return [
            Gap(task, model, f"{number}/{count}" if number else None, calls)
            for number, calls in sorted(lost.items(), key=lambda pair: pair[0] or 0)
        ]


def _number(sample: Sample, seed: int, count: int) -> int | None:
    known = (n for n in range(1, count + 1) if Shard(n, count).has(sample, seed))
    return next(known, None)


def refuse_gaps(found: Sequence[Gap]) -> None:
    """Raise StoreError where calls are not stored: how many, and which shards have them."""
    if not found:
        return
    each = "; ".join(
        f"{gap.task}, {gap.model}: {gap.calls}" + (f" of shard {gap.shard}" if gap.shard else "")
        for gap in found
    )
    shards = list(dict.fromkeys(f"--shard {gap.shard}" for gap in found if gap.shard))
    again = f"run the command again with {', '.join(shards)}" if shards else "run its shards first"
    raise StoreError(
        f"at least {sum(gap.calls for gap in found)} calls are not stored ({each}); {again}, or "
        "name the results folder of the machine that has them with --from"
    )


def gather(folders: Sequence[Path], results: Path, models: Iterable[str]) -> int:
    """Copy the ledgers of some models from other results folders; how many segments are new.

    A segment that was copied before it was whole is replaced.
    """
    names, copied = list(dict.fromkeys(models)), 0
    for folder in folders:
        if not (folder / "calls").is_dir():
            raise StoreError(
                f"--from {folder}: no folder calls/ in it; name a results folder, or a copy of one"
            )
        paths = chain.from_iterable(sorted((folder / "calls" / n).glob("*.jsonl")) for n in names)
        for path in paths:
            to = results / "calls" / path.parent.name / path.name
            if not to.is_file() or to.stat().st_size < path.stat().st_size:
                _copy(path, to)
                copied += 1
    return copied


def _copy(path: Path, to: Path) -> None:
    part = to.with_name(f".{to.name}.{token_hex(4)}")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        copyfile(path, part)
        part.replace(to)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StoreError(
            f"{path}: cannot be copied to {to.parent} ({error.strerror}); free some space or "
            "choose another --results"
        ) from error


def asked_models(plans: Iterable[RunPlan | JudgePlan]) -> list[str]:
    """The models whose calls some runs are made of."""
    names = []
    for plan in plans:
        judges = [one.client.model.name for one in plan.judges if one.client]
        names += [plan.file.model.name, *judges]
    return list(dict.fromkeys(names))
