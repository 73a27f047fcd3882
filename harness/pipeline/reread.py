"""Stored runs to what today's parsers make of their stored replies; nothing is asked."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness import __version__
from harness.core import Case, Request
from harness.errors import StoreError
from harness.judges.custom import reads_each_alone
from harness.pipeline.execute import CHUNK, put_run, read
from harness.pipeline.plan import parted
from harness.pipeline.records import with_verdicts
from harness.pipeline.resolve import JudgePlan
from harness.pipeline.setup import JudgeSetup
from harness.pipeline.walk import cases_of, questions, rebuild
from harness.storage.run_tables import RunTables, SampleRecord, VerdictRecord


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """A verdict that is read otherwise today than it is stored."""

    row: SampleRecord
    judge: str
    before: VerdictRecord
    after: VerdictRecord


@dataclass(frozen=True, slots=True)
class RereadResult:
    """A run read again: the verdicts that change, and how many questions of each judge would.

    `altered` names what was changed since the run was scored: how its task reads answers, a judge's
    recipe. The verdicts are then of another recipe, and nothing is written.
    """

    changes: tuple[VerdictChange, ...]
    stale: Counter[str]
    altered: tuple[str, ...]


def reread(plan: JudgePlan) -> RereadResult:
    """Read a run's stored replies with today's parsers; no call is made."""
    found = _Reread(plan, Counter({setup.entry.name: 0 for setup in plan.judges}))
    altered = [] if plan.task == plan.file.task else [f"the cut of task {plan.file.run.task}"]
    for setup in plan.judges:
        altered += [] if setup.judge.recipe == setup.entry.recipe else [f"judge {setup.entry.name}"]
    is_alone = all(reads_each_alone(setup.judge) for setup in plan.judges)
    file = replace(plan.file, version=__version__)
    tables = RunTables(plan.folder.path)
    for chunk in parted(plan.records, CHUNK if is_alone else max(len(plan.records), 1)):
        records = found.read(chunk)
        tables.add(records)
    for name in ("samples", "answers"):  # verdicts are derived again
        if tables.digests[name] != file.tables.get(name):
            plan.folder.check_sum(f"{name}.parquet")
    if not altered:
        put_run(plan.folder, file, tables)
    return RereadResult(tuple(found.changes), found.stale, tuple(altered))


@dataclass(slots=True)
class _Reread:
    """Records read again in chunks; the verdicts that change, and how many questions would."""

    plan: JudgePlan
    stale: Counter[str]
    changes: list[VerdictChange] = field(default_factory=list)

    def read(self, rows: Sequence[SampleRecord]) -> list[SampleRecord]:
        """Some records as the plan's task and judges read them now."""
        task, responses = self.plan.task, self.plan.responses(rows)
        records = [rebuild(row, responses, task) for row in rows]
        for setup in self.plan.judges:
            name, step = setup.entry.name, setup.entry.step
            cases = cases_of(records, task, step=step, responses=responses)
            cases = {place: c for place, c in cases.items() if name in rows[place].verdicts}
            stored = {place: rows[place].verdicts[name] for place in cases}
            asked = {place: questions(case, setup.judge) for place, case in cases.items()}
            self.stale[name] += sum(
                tuple(question.key for question in asked[place]) != verdict.keys
                for place, verdict in stored.items()
            )
            verdicts = _reread(setup, cases, stored, asked)
            self.changes += [
                VerdictChange(rows[place], name, stored[place], verdict)
                for place, verdict in verdicts.items()
                if (stored[place].value, stored[place].reason) != (verdict.value, verdict.reason)
            ]
            records = with_verdicts(records, name, verdicts)
        return records


def _reread(
    setup: JudgeSetup,
    cases: Mapping[int, Case],
    stored: Mapping[int, VerdictRecord],
    asked: Mapping[int, tuple[Request, ...]],
) -> dict[int, VerdictRecord]:
    same = [
        place
        for place, case in cases.items()
        if case.response.failure is not None or len(asked[place]) == len(stored[place].keys)
    ]
    keys = [key for verdict in stored.values() for key in verdict.keys]
    replies = setup.client.ledger.find(keys) if setup.client else {}
    if setup.client and (lost := [key for key in keys if key not in replies]):
        raise StoreError(
            f"{len(lost)} replies to judge {setup.entry.name} are not in the calls ledger (first: "
            f"{lost[0][:12]}); copy its folder back, or have it judge again"
        )
    verdicts = read(
        [cases[place] for place in same],
        setup.judge,
        keys=[stored[place].keys for place in same],
        replies=replies,
    )
    return {**stored, **dict(zip(same, verdicts, strict=True))}
