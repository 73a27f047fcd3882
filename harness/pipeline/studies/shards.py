"""Runs to parts that several machines answer, and what calls are left before they are put together.

A shard makes the calls of its own clusters, answers and questions of judges, and writes no run:
a run is computed from the ledgers of all shards, as if one process had made their calls.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from math import inf
from pathlib import Path
from secrets import token_hex
from shutil import copyfile
from typing import Self

from harness.core import Sample
from harness.errors import BudgetReached, SpecError, StoreError
from harness.judges.custom import JudgeLabel
from harness.models.client.cached import Budget
from harness.parts import NO_REPLY, digest
from harness.pipeline import execute
from harness.pipeline.plan import parted, samples_at
from harness.pipeline.preview import budget_of, by_client, planned_calls
from harness.pipeline.resolve import JudgePlan, RunOptions, RunPlan
from harness.pipeline.setup import JudgeSource, smoke_test_judges
from harness.pipeline.walk import cases_of, questions
from harness.registry import Registry
from harness.specs.judges import asked_model
from harness.storage.run_tables import SampleRecord


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
        return number_of(sample, seed, self.count) == self.number

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def number_of(sample: Sample, seed: int, count: int) -> int:
    """The number, from 1, of the shard that has a sample's cluster, of so many."""
    return int(digest((seed, sample.cluster))[:15], 16) % count + 1


Missing = Counter[tuple[str, str]]
"""Calls that are not stored, by run and by the shard that should have made them ("": unknown)."""


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
    judging = JudgePlan(plan.file, plan.folder, plan.file.task, (), lambda _: {}, plan.judges)
    samples, seed = plan.plan.samples, plan.plan.run.seed
    own = [place for place, sample in enumerate(samples) if shard.has(sample, seed)]
    part = replace(plan.plan, samples=samples_at(samples, own))
    with plan.client as client:
        return _asked(judging, execute.answered(part, client), shard, budget_of(plan))


def judge_part(plan: JudgePlan, shard: Shard) -> ShardResult:
    """Make the calls of a shard of judges that are to read a stored run."""
    share_budget([plan], shard)
    own = (record for record in plan.records if shard.has(record.sample, plan.file.run.seed))
    return _asked(plan, parted(own, execute.CHUNK), shard, budget_of(plan))


def _asked(
    plan: JudgePlan, chunks: Iterable[Sequence[SampleRecord]], shard: Shard, budget: Budget | None
) -> ShardResult:
    """Have the models of judges answer all that these ask about records, which are not held.

    Each question is asked once.
    """
    answers, lost, asking = 0, 0, []
    with ExitStack() as opened, _naming_share(shard, budget):
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
    questioned = sum(len(asked) for *_, asked in asking)
    names = (plan.file.run.task, plan.file.model.name, str(shard))
    return ShardResult(*names, answers, questioned, lost)


@contextmanager
def _naming_share(shard: Shard, budget: Budget | None) -> Iterator[None]:
    """Say of a budget that is used up that it was a shard's share of it."""
    try:
        yield
    except BudgetReached as error:
        share = f"{budget.cap_usd:.4g} USD" if budget else "none"
        raise BudgetReached(f"shard {shard} (its share of the budget: {share}): {error}") from error


def share_budget(plans: Sequence[RunPlan | JudgePlan], shard: Shard) -> None:
    """Lower the budget that some runs share to a shard's share, what it has stored counted.

    All shares together are the whole, whatever order and machines the shards are run in.
    """
    budget = next(filter(None, map(budget_of, plans)), None)
    if budget is None:
        return
    counted = [budget if n == shard.number else Budget(inf) for n in range(1, shard.count + 1)]
    for plan in plans:
        for client, asked in (pair for some in planned_calls(plan) for pair in by_client(some)):
            for number, into in enumerate(counted, 1):
                part, seed = Shard(number, shard.count), plan.file.run.seed
                own = [one.longest for one in asked if part.has(one.sample, seed)]
                replace(client, terms=replace(client.terms, budget=into)).count(own)
    budget.cap_usd = share_of(budget.cap_usd, [one.spent_usd for one in counted], shard.number)


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


def unstored_calls(plan: RunPlan | JudgePlan) -> Missing:
    """The calls of a run, or of judges that are to read a stored one, that are not stored.

    There may be more: what a second step asks is known when the first is answered.
    """
    run, missing, seen = plan.file.run, Missing(), set[tuple[int, str]]()
    name = f"{run.task}, {plan.file.model.name}"
    count = max((client.ledger.shards for client in plan.clients), default=0)
    for client, asked in (pair for some in planned_calls(plan) for pair in by_client(some)):
        known = [one.longest.key for one in asked if not one.is_open]
        if len(known) == len(asked) and not client.ledger.is_missing_any(known):
            continue
        stored = client.ledger.find(known)
        for one in asked:
            place = (id(client), one.longest.key)
            if place[1] not in stored and place not in seen:
                seen.add(place)
                number = number_of(one.sample, run.seed, count) if count else 0
                missing[name, f"{number}/{count}" if count else ""] += 1
    return missing


def refuse_missing(found: Iterable[Missing]) -> None:
    """Raise StoreError where calls are not stored: how many, and which shards have them."""
    missing = sum(found, Missing())
    if not missing:
        return
    lost, runs = Counter[str](), {run for run, _ in missing}
    for (_, shard), count in sorted(missing.items(), key=lambda one: one[0][1]):
        lost[shard] += count
    each = ", ".join(f"{n} of {f'shard {s}' if s else 'no known shard'}" for s, n in lost.items())
    where = runs.pop() if len(runs) == 1 else f"{len(runs)} runs"
    shards = ", ".join(f"--shard {shard}" for shard in lost if shard)
    again = f"run the command again with {shards}" if shards else "run its shards first"
    raise StoreError(
        f"{where}: {lost.total()} calls are not stored ({each}): {again}, or name the results "
        "folder of the machine that has them with --from; --limit, --seed, --variant and --judge "
        "have to be those of the shards. A call is counted in each run that needs it. Where no "
        "machine has them, as shards had different answers to one prompt, run that on these "
        "--results"
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


def asked_models(
    registry: Registry, tested: str, judges: Iterable[JudgeSource], judge_model: str | None = None
) -> list[str]:
    """The models, by name, whose calls a run is made of; SpecError for a name that is none.

    No identity is found out: what is stored may be all that says it.
    """
    registry.load("configs/models", tested)
    names = [tested]
    for judge in (JudgeLabel.parse(one) for one in judges if isinstance(one, str)):
        own = asked_model(registry.load("configs/judges", judge.name))
        names += [judge.model or judge_model or own] if own else []
    return list(dict.fromkeys(names))


def asked_of(registry: Registry, chosen: Iterable[RunOptions]) -> list[str]:
    """The models, by name, whose calls the runs of some options are made of."""
    named = [(one, one.judges or registry.load("tasks", one.task).judges) for one in chosen]
    found = [
        asked_models(registry, one.model, judges, one.judge_model)
        for one, judges in named
        if isinstance(one.model, str)
    ]
    return list(dict.fromkeys(chain.from_iterable(found)))
