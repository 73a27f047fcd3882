"""Stored runs to what today's parsers make of their stored replies; nothing is asked."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness import __version__
from harness.core import Case
from harness.errors import StoreError
from harness.judges.custom import reads_each_alone
from harness.models.vectors import chunks
from harness.pipeline.execute import CHUNK, put_run, read
from harness.pipeline.records import with_verdicts
from harness.pipeline.repeats import is_read_by_this_program
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

    `altered` names what was changed since the run was scored: then nothing is written.
    """

    changes: tuple[VerdictChange, ...]
    stale: Counter[str]
    altered: tuple[str, ...]


def reread(plan: JudgePlan) -> RereadResult:
    """Read a run's stored replies with today's parsers; no call is made.

    If neither the calls nor the program's own source changed, nothing can be read otherwise.
    """
    changes, stale = list[VerdictChange](), Counter({one.entry.name: 0 for one in plan.judges})
    altered = [] if plan.task == plan.file.task else [f"the cut of task {plan.file.run.task}"]
    for setup in plan.judges:
        altered += [] if setup.judge.recipe == setup.entry.recipe else [f"judge {setup.entry.name}"]
    if not altered and is_read_by_this_program(plan.folder):
        return RereadResult((), stale, ())
    is_alone = all(reads_each_alone(setup.judge) for setup in plan.judges)
    tables = RunTables(plan.folder.path)
    for rows in chunks(plan.records, CHUNK if is_alone else max(len(plan.records), 1)):
        responses = plan.responses(rows)
        records = [rebuild(row, responses, plan.task) for row in rows]
        of_step: dict[str | None, dict[int, Case]] = {}
        for setup in plan.judges:
            name, step = setup.entry.name, setup.entry.step
            if step not in of_step:
                of_step[step] = cases_of(records, plan.task, step=step, responses=responses)
            cases = of_step[step]
            stored = {at: rows[at].verdicts[name] for at in cases if name in rows[at].verdicts}
            verdicts, changed = _reread(setup, {at: cases[at] for at in stored}, stored)
            stale[name] += changed
            changes += [
                VerdictChange(rows[at], name, stored[at], verdict)
                for at, verdict in verdicts.items()
                if (stored[at].value, stored[at].reason) != (verdict.value, verdict.reason)
            ]
            records = with_verdicts(records, name, verdicts)
        tables.add(records)
    for name in ("samples", "answers"):  # verdicts are derived again
        if tables.digests[name] != plan.file.tables.get(name):
            plan.folder.check_sum(f"{name}.parquet")
    if not altered:
        put_run(plan.folder, replace(plan.file, version=__version__), tables)
    return RereadResult(tuple(changes), stale, tuple(altered))


def _reread(
    setup: JudgeSetup, cases: Mapping[int, Case], stored: Mapping[int, VerdictRecord]
) -> tuple[dict[int, VerdictRecord], int]:
    """The verdicts as they are read today, and how many cases would be asked about otherwise."""
    asked = {place: questions(case, setup.judge) for place, case in cases.items()}
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
    stale = sum(tuple(one.key for one in asked[at]) != stored[at].keys for at in cases)
    return {**stored, **dict(zip(same, verdicts, strict=True))}, stale
