"""Plans to records, scores and run folders: answer what is not stored, then judge and score.

Every stage is what is planned minus what is stored, so that repeating a run resumes it. Knows no
workspace, no back end and no way of judging.
"""

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from harness import __version__
from harness.core import Case, Judge, Request, Response, Verdict
from harness.errors import HarnessError, SpecError, StoreError
from harness.models.client.cached import CachedClient, Stage
from harness.parts import Failure, Reason
from harness.pipeline.items import items_text
from harness.pipeline.plan import Plan, check_templates, request
from harness.pipeline.preview import charge_stored_calls, charge_stored_replies
from harness.pipeline.records import (
    MissingItem,
    count_missing,
    count_truncated,
    verdict_record,
    with_costs,
    with_earlier_verdicts,
    with_verdicts,
)
from harness.pipeline.resolve import JudgePlan, RunPlan
from harness.pipeline.score import score_rows
from harness.pipeline.setup import JudgeSetup, joined, smoke_test_judges, warn_left_out
from harness.pipeline.walk import cases_of, questions, rebuild, sample_record, walk
from harness.specs.tasks import TaskSpec
from harness.storage.data_paths import write_data_paths
from harness.storage.files import write_whole
from harness.storage.runs import (
    NAMES,
    SCORES,
    RunFile,
    RunFolder,
    SampleRecord,
    ScoreRow,
    StoredRun,
    VerdictRecord,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a command leaves: the run's folder, its scores, and what is missing.

    `truncated` counts answers cut at their token limit, `again` the replies without an answer that
    this command asked for again.
    """

    folder: RunFolder
    file: RunFile
    scores: tuple[ScoreRow, ...]
    missing: Counter[MissingItem]
    truncated: int
    again: int = 0


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """A verdict that is read otherwise today than it is stored."""

    row: SampleRecord
    judge: str
    before: VerdictRecord
    after: VerdictRecord


@dataclass(frozen=True, slots=True)
class RereadResult:
    """A run read anew: the verdicts that change, and how many questions of each judge would.

    `altered` names what was changed since the run was scored: how its task reads answers, a judge's
    recipe. The verdicts are then of another recipe, and nothing is written.
    """

    changes: tuple[VerdictChange, ...]
    stale: Counter[str]
    altered: tuple[str, ...]


def run_each(plans: Iterable[RunPlan]) -> Iterator[RunResult]:
    """Carry out plans one after the other, all made before the first call.

    What is stored of any of them counts against the budget first.
    """
    left = deque(plans)
    for plan in left:
        prepare(plan)
    while left:
        # Taken off first: a plan may hold weights, which are freed when its run ends.
        try:
            yield run_one(left.popleft())
        except HarnessError as error:
            rest = ", ".join(f"{p.client.model.name} on {p.file.run.task}" for p in left)
            raise type(error)(f"{error}; not run: {rest}" if rest else str(error)) from error


def prepare(plan: RunPlan) -> None:
    """Refuse a run that cannot be written, and count what is stored of it against the budget."""
    plan.folder.check()
    charge_stored_calls(plan.plan, plan.client, plan.judges)


def run_one(plan: RunPlan) -> RunResult:
    """Carry out a prepared plan: answer what is not stored, judge and score."""
    smoke_test_judges(plan.plan, plan.judges, plan.client)
    with plan.client as client:
        records = answer(plan.plan, client)
    file, records = _with_earlier(plan, records)
    result = _judge(JudgePlan(file, plan.folder, file.task, records, {}, plan.judges))
    write_data_paths(plan.folder, plan.sources)
    return result


def _with_earlier(plan: RunPlan, records: list[SampleRecord]) -> tuple[RunFile, list[SampleRecord]]:
    """The run with the verdicts that other judges gave before; read anew where any was changed."""
    if not any((plan.folder.path / name).exists() for name in NAMES):
        return plan.file, records
    try:
        earlier = StoredRun.read_all(plan.folder)
    except StoreError as error:
        _log.warning("%s; rebuilt from the stored calls", str(error).partition(";")[0])
        return _again(plan, records)
    file = replace(plan.file, redrawn=earlier.file.redrawn)
    judged = with_earlier_verdicts(records, earlier.rows)
    if judged is not None:
        return replace(file, judges=earlier.file.judges), judged
    named = {setup.entry.name for setup in plan.judges}
    for entry in earlier.file.judges:
        if entry.name not in named:
            warn_left_out(entry.name, "they are of other answers than are stored now")
    return file, records


def _again(plan: RunPlan, records: list[SampleRecord]) -> tuple[RunFile, list[SampleRecord]]:
    file = plan.file
    for setup in plan.again:
        try:
            file, records = with_judge(file, records, file.task, setup, {})
        except HarnessError as error:
            warn_left_out(setup.entry.name, error)
        else:
            _log.warning("judge %s: its verdicts are derived anew", setup.entry.name)
    return file, records


def answer(plan: Plan, client: CachedClient) -> list[SampleRecord]:
    """The record of every planned response; what is stored already is not asked."""
    check_templates(plan)
    planned = plan.cells
    first: dict[str, int] = {}
    for place, cell in enumerate(planned):
        first.setdefault(cell.sample.id, place)
    # Those of a sample together: they share most of their prompts.
    order = sorted(range(len(planned)), key=lambda place: (first[planned[place].sample.id], place))
    steps = max((len(plan.task.variants[cell.variant].steps) for cell in planned), default=1)
    calls = walk(
        plan.task,
        [planned[place] for place in order],
        ask=lambda cell, step, earlier: request(plan, cell, step=step, earlier=earlier),
        answer=lambda asked, wave: client.answer(
            asked, stage=Stage("answers", client.model.name, wave + 1, steps)
        ),
    )
    found = dict(zip(order, calls, strict=True))
    return [sample_record(cell, found[place], plan.task) for place, cell in enumerate(planned)]


def judge(plan: JudgePlan) -> RunResult:
    """Have further judges read a stored run; the model under test is neither loaded nor called."""
    plan.folder.check()
    charge_stored_replies(plan)
    return _judge(plan)


def _judge(plan: JudgePlan) -> RunResult:
    file, records = plan.file, list(plan.records)
    for setup in plan.judges:
        file, records = with_judge(file, records, plan.task, setup, plan.responses)
    return _write(plan.folder, file, records)


def with_judge(
    file: RunFile,
    records: list[SampleRecord],
    task: TaskSpec,
    setup: JudgeSetup,
    responses: Mapping[str, Response],
) -> tuple[RunFile, list[SampleRecord]]:
    """A run and its records with the verdicts of one more judge, whose model is asked if need be.

    `responses` are whole ones by key, for records of which a step had several texts.
    """
    cases = cases_of(records, task, step=setup.entry.step, responses=responses)
    with setup.client or nullcontext() as client:
        verdicts = ask(list(cases.values()), setup.judge, client)
    records = with_verdicts(records, setup.judge.name, dict(zip(cases, verdicts, strict=True)))
    return replace(file, judges=joined(file.judges, setup.entry)), records


def ask(cases: Sequence[Case], judge: Judge, client: CachedClient | None) -> list[VerdictRecord]:
    """A judge's verdicts on some cases; its questions go to the client of its own model."""
    asked = [questions(case, judge) for case in cases]
    wanted = [question for part in asked for question in part]
    if wanted and client is None:
        raise SpecError(
            f"judge {judge.name} asks a model, which a judge given as an object cannot; "
            "describe it in configs/judges/ (docs/adding.md)"
        )
    replies = client.answer(wanted, stage=f"judge {judge.name}") if client else {}
    return read(cases, judge, keys=[tuple(q.key for q in part) for part in asked], replies=replies)


def read(
    cases: Sequence[Case],
    judge: Judge,
    *,
    keys: Sequence[tuple[str, ...]],
    replies: Mapping[str, Response],
) -> list[VerdictRecord]:
    """A judge's verdicts by stored replies, without a call; `keys` are each case's questions."""
    answered = [tuple(replies[key] for key in part) for part in keys]
    readable = {
        place: replace(case, replies=answered[place])
        for place, case in enumerate(cases)
        if case.response.failure is None
    }
    read = judge.read(list(readable.values())) if readable else []
    if len(read) != len(readable) or not all(isinstance(one, Verdict) for one in read):
        fact = f"judge {judge.name} gave {len(read)} verdicts on {len(readable)} cases"
        raise SpecError(f"{fact}; `read` returns a list with one Verdict a case")
    verdicts = dict(zip(readable, read, strict=True))
    for place, case in enumerate(cases):
        why = case.response.failure or Failure(Reason.UNSUPPORTED, "the judge gave no verdict")
        none = Verdict(case.response.key, judge.name, None, why.reason, note=why.message)
        verdicts[place] = verdicts.get(place) or none
    return [verdict_record(verdicts[n], keys[n], answered[n]) for n in range(len(cases))]


def _write(folder: RunFolder, file: RunFile, records: Sequence[SampleRecord]) -> RunResult:
    scores = tuple(score_rows(file, records))
    before, file = file.redrawn, with_costs(file, records)
    if SCORES in folder.changed():  # the other files are told of where they are read
        _log.warning("%s: changed since it was written; computed anew", folder.scores)
    folder.write(file, records, scores)
    write_whole(folder.items, items_text(file, records).encode("utf-8", "replace"))
    missing, truncated = count_missing(records), count_truncated(records)
    return RunResult(folder, file, scores, missing, truncated, again=file.redrawn - before)


def reread(plan: JudgePlan) -> RereadResult:
    """Read a run's stored replies with today's parsers; no call is made."""
    altered = [] if plan.task == plan.file.task else [f"the cut of task {plan.file.run.task}"]
    records = [rebuild(record, plan.responses, plan.task) for record in plan.records]
    changes, stale = list[VerdictChange](), Counter[str]()
    for setup in plan.judges:
        name = setup.entry.name
        altered += [] if setup.judge.recipe == setup.entry.recipe else [f"judge {name}"]
        cases = cases_of(records, plan.task, step=setup.entry.step, responses=plan.responses)
        cases = {place: c for place, c in cases.items() if name in plan.records[place].verdicts}
        stored = {place: plan.records[place].verdicts[name] for place in cases}
        asked = {place: questions(case, setup.judge) for place, case in cases.items()}
        stale[name] = sum(
            tuple(question.key for question in asked[place]) != verdict.keys
            for place, verdict in stored.items()
        )
        verdicts = _reread(setup, cases, stored, asked)
        changes += [
            VerdictChange(plan.records[place], name, stored[place], verdict)
            for place, verdict in verdicts.items()
            if (stored[place].value, stored[place].reason) != (verdict.value, verdict.reason)
        ]
        records = with_verdicts(records, name, verdicts)
    plan.folder.check_rows(records)
    if not altered:
        _write(plan.folder, replace(plan.file, version=__version__), records)
    return RereadResult(tuple(changes), stale, tuple(altered))


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
