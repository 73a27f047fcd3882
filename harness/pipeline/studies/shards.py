"""Runs to parts that several machines answer, and what calls are left before they are put together.

A shard makes the calls of its own clusters, answers and questions of judges, and writes no run:
a run is computed from the ledgers of all shards, as if one process had made their calls.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from math import inf
from pathlib import Path
from secrets import token_hex
from shutil import copyfile
from typing import Self

import numpy as np
from numpy.typing import NDArray

from harness.core import Case, Response, Sample
from harness.errors import BudgetReached, SpecError, StoreError
from harness.judges.custom import JudgeLabel
from harness.models.client.cached import Budget, CachedClient, CallPolicy
from harness.parts import NO_REPLY, digest
from harness.pipeline import execute
from harness.pipeline.plan import parted, samples_at
from harness.pipeline.preview import (
    MOST_HELD,
    PlannedCall,
    charge_stored_calls,
    charge_stored_replies,
    judge_calls,
    preview,
    stored_questions,
)
from harness.pipeline.resolve import JudgePlan, RunOptions, RunPlan
from harness.pipeline.setup import JudgeSetup, JudgeSource, smoke_test_judges
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
    with _naming_share(shard, plan.client.terms.budget), plan.client as client:
        return _asked(judging, execute.answered(part_of(plan, shard).plan, client), shard)


def judge_part(plan: JudgePlan, shard: Shard) -> ShardResult:
    """Make the calls of a shard of judges that are to read a stored run."""
    seed, budget = plan.file.run.seed, _budget([one.client for one in plan.judges])

    def charge(budgets: Sequence[Budget]) -> None:
        for records in parted(plan.records, execute.CHUNK):
            numbers = [number_of(record.sample, seed, shard.count) for record in records]
            for number, into in enumerate(budgets, 1):
                own = [record for record, at in zip(records, numbers, strict=True) if at == number]
                judges = _judges_on(plan.judges, CallPolicy(budget=into))
                charge_stored_replies(replace(plan, records=own, judges=judges))

    if budget is not None:
        _share(budget, shard, charge)
    with _naming_share(shard, budget):
        own = (record for record in plan.records if shard.has(record.sample, seed))
        return _asked(plan, parted(own, execute.CHUNK), shard)


def part_of(plan: RunPlan, shard: Shard) -> RunPlan:
    """The run with the samples of a shard alone."""
    return _with_samples(plan, numbers_of(plan, shard.count) == shard.number)


def numbers_of(plan: RunPlan, count: int) -> NDArray[np.int64]:
    """The number of the shard, of so many, that each sample of a run belongs to."""
    samples, seed = plan.plan.samples, plan.plan.run.seed
    each = (number_of(sample, seed, count) for sample in samples)
    return np.fromiter(each, dtype=np.int64, count=len(samples))


def _with_samples(plan: RunPlan, is_own: NDArray[np.bool_]) -> RunPlan:
    samples = samples_at(plan.plan.samples, np.flatnonzero(is_own).tolist())
    return replace(plan, plan=replace(plan.plan, samples=samples))


def _asked(plan: JudgePlan, chunks: Iterable[Sequence[SampleRecord]], shard: Shard) -> ShardResult:
    """Have the models of judges answer all that these ask about records, which are not held."""
    answers = lost = 0
    with ExitStack() as opened:
        asking = [
            _Asking(setup, opened.enter_context(setup.client))
            for setup in plan.judges
            if setup.client is not None
        ]
        for records in chunks:
            answers += len(records)
            lost += sum(record.answer is None for record in records)
            responses = plan.responses(records)
            for one in asking:
                cases = cases_of(records, plan.task, step=one.setup.entry.step, responses=responses)
                lost += one.failed(cases.values())
    run, model = plan.file.run, plan.file.model
    asked = sum(len(one.asked) for one in asking)
    return ShardResult(run.task, model.name, str(shard), answers, asked, lost)


class _Asking:
    """A judge whose model is asked about cases as they come, each question once."""

    def __init__(self, setup: JudgeSetup, client: CachedClient) -> None:
        self._shown = execute.GatheredProgress(client.progress)
        self.setup, self._client = setup, replace(client, progress=self._shown)
        self.asked = set[str]()

    def failed(self, cases: Iterable[Case]) -> int:
        """Ask about some cases; how many questions got no reply."""
        self._shown.next_chunk()
        each = (question for case in cases for question in questions(case, self.setup.judge))
        wanted = {one.key: one for one in each if one.key not in self.asked}
        self.asked.update(wanted)
        stage = f"judge {self.setup.judge.name}"
        return sum(map(_is_failed, self._client.answer(wanted.values(), stage=stage).values()))


def _is_failed(response: Response) -> bool:
    return response.failure is not None and response.failure.reason in NO_REPLY


@contextmanager
def _naming_share(shard: Shard, budget: Budget | None) -> Iterator[None]:
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

    def charge(budgets: Sequence[Budget]) -> None:
        for plan in plans:
            numbers = numbers_of(plan, shard.count)
            for number, into in enumerate(budgets, 1):
                part = on_terms(_with_samples(plan, numbers == number), CallPolicy(budget=into))
                charge_stored_calls(part.plan, part.client, part.judges)

    _share(budget, shard, charge)


def _share(budget: Budget, shard: Shard, charge: Callable[[Sequence[Budget]], None]) -> None:
    """Lower a budget to a shard's share; `charge` counts what each shard has stored, from 1."""
    counted = [budget if n == shard.number else Budget(inf) for n in range(1, shard.count + 1)]
    charge(counted)
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


def unstored_calls(plan: RunPlan) -> Missing:
    """The calls of a run that are not stored.

    There may be more: what a second step asks is known when the first is answered.
    """
    asking = [(setup, setup.client) for setup in plan.judges if setup.client is not None]
    clients = [plan.client, *(client for _, client in asking)]
    run = plan.plan.run
    found = _Unstored(clients, f"{run.task}, {plan.client.model.name}", run.seed)
    for cells in plan.plan.chunks(MOST_HELD):
        sequences = preview(plan.plan, plan.client, cells=cells)
        found.add(plan.client, [(one.cell.sample, call) for one in sequences for call in one.calls])
        for setup, client in asking:
            each = [(part.cell.sample, judge_calls(plan.plan, [part], setup)) for part in sequences]
            found.add(client, [(sample, call) for sample, calls in each for call in calls])
    return found.missing


def unstored_questions(plan: JudgePlan) -> Missing:
    """The questions of judges about a stored run that have no stored reply."""
    asking = [(setup, setup.client) for setup in plan.judges if setup.client is not None]
    run, name = plan.file.run, f"{plan.file.run.task}, {plan.file.model.name}"
    found = _Unstored([client for _, client in asking], name, run.seed)
    for setup, client in asking:
        for asked in stored_questions(plan, setup):
            found.add(client, [(record.sample, PlannedCall(q, q)) for record, q in asked])
    return found.missing


class _Unstored:
    """Counts planned calls that are not stored, each once, by the shard of its sample."""

    def __init__(self, clients: Sequence[CachedClient], run: str, seed: int) -> None:
        self._count = max((c.ledger.shards for c in clients), default=0)
        self._run, self._seed = run, seed
        self._seen = {id(client): set[str]() for client in clients}
        self.missing: Missing = Counter()

    def add(self, client: CachedClient, calls: Sequence[tuple[Sample, PlannedCall]]) -> None:
        """Count those of some calls of one client; open ones are not stored."""
        known = [call.longest.key for _, call in calls if not call.is_open]
        if len(known) == len(calls) and not client.ledger.is_missing_any(known):
            return
        stored, seen = client.ledger.find(known), self._seen[id(client)]
        for sample, call in calls:
            if (key := call.longest.key) not in stored and key not in seen:
                seen.add(key)
                number = number_of(sample, self._seed, self._count) if self._count else 0
                shard = f"{number}/{self._count}" if number else ""
                self.missing[self._run, shard] += 1


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
    names = list[str]()
    for one in chosen:
        judges = one.judges or registry.load("tasks", one.task).judges
        if isinstance(one.model, str):
            names += asked_models(registry, one.model, judges, one.judge_model)
    return list(dict.fromkeys(names))
