"""Plans to records, scores and run folders: answer what is not stored, then judge and score.

Every stage is what is planned minus what is stored, so that repeating a run resumes it.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from harness.core import Case, Judge, Request, Response, Verdict
from harness.errors import SpecError, StoreError
from harness.judges.custom import reads_each_alone
from harness.models.client.cached import CachedClient, Progress
from harness.models.vectors import chunks
from harness.pipeline import records, repeats, setup
from harness.pipeline.plan import Plan, PlannedResponse, check_templates, request
from harness.pipeline.preview import charge_stored
from harness.pipeline.resolve import JudgePlan, ResponsesOf, RunPlan
from harness.pipeline.score import derived
from harness.pipeline.setup import JudgeSetup
from harness.pipeline.walk import Call, cases_of, questions, sample_record, walk
from harness.specs.tasks import TaskSpec
from harness.storage.environment import versions_here, write_data_paths
from harness.storage.run_tables import RunTables, SampleRecord, VerdictRecord
from harness.storage.runs import NAMES, SCORES, JudgeEntry, RunFile, RunFolder, ScoreRow, StoredRows

_log = logging.getLogger(__name__)
CHUNK = 8_000  # the responses that are asked, judged and written together
Chunk = list[SampleRecord]
Counts = tuple[float, ...]
_NOTHING = (0.0,) * 4


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run that was written; `truncated` counts answers cut at their token limit."""

    folder: RunFolder
    file: RunFile
    scores: tuple[ScoreRow, ...]
    truncated: int

    @property
    def missing(self) -> int:
        """How many answers and verdicts are missing."""
        return sum(gap.count for gap in self.file.missing or ())


def run(plan: RunPlan) -> RunResult:
    """Carry out a plan, what is stored of it counted against the budget first."""
    prepare(plan)
    return run_one(plan)


def prepare(plan: RunPlan) -> None:
    """Refuse a run that cannot be written, and count what is stored against the budget."""
    if plan.repeat is None:
        plan.folder.check()
        charge_stored(plan)


def run_one(plan: RunPlan) -> RunResult:
    """Carry out a prepared plan: answer what is not stored, judge and score."""
    if plan.repeat is not None:
        write_data_paths(plan.folder, plan.sources)  # they may have been moved
        scores = tuple(plan.folder.read_scores())
        return RunResult(plan.folder, plan.file, scores, plan.repeat.truncated)
    models = [client.ledger.name for client in plan.clients]
    segments = repeats.stored_segments(plan.folder.path.parents[3], models)
    result, retried = _carried_out(plan, _stored(plan))
    write_data_paths(plan.folder, plan.sources)
    if plan.inputs is not None:
        truncated = result.truncated
        repeats.record(plan.folder, plan.inputs, segments, retried=retried, truncated=truncated)
    return result


def _stored(plan: RunPlan) -> StoredRows | None:
    """The records of the run as they are stored; None where there are none, or changed ones."""
    folder = plan.folder
    if not any((folder.path / name).exists() for name in NAMES):
        return None
    try:
        with folder.held():
            return StoredRows(folder)
    except StoreError as error:
        _log.warning("%s; rebuilt from the stored calls", str(error).partition(";")[0])
        _warn_left_out(_others(plan, folder.judges_before()), "the run was changed")
        return None


def _others(plan: RunPlan, entries: Iterable[JudgeEntry]) -> list[JudgeEntry]:
    named = {setup.entry.name for setup in plan.judges}
    return [entry for entry in entries if entry.name not in named]


def _warn_left_out(judges: Iterable[JudgeEntry], why: str) -> None:
    said = "judge %s: its verdicts are left out (%s); have it judge again with `harness judge`"
    for entry in judges:
        _log.warning(said, entry.name, why)


def _carried_out(plan: RunPlan, rows: StoredRows | None) -> tuple[RunResult, set[str]]:
    """The run as it is written, and the ways of retrying that would make calls.

    Verdicts of other judges, in `rows`, are kept if all answers are those that they read; else the
    run is made once more without them.
    """
    others = [] if rows is None else _others(plan, plan.folder.read().judges)
    retried, changed, earlier = set[str](), list[Chunk](), iter(rows or ())
    tables = RunTables(plan.folder.path)

    def kept(chunk: Chunk) -> Chunk:
        judged = records.with_earlier_verdicts(chunk, list(islice(earlier, len(chunk))))
        changed.extend([chunk] if judged is None else [])
        return chunk if judged is None else judged

    def seen(chunk: Chunk) -> Chunk:
        retried.update(repeats.retried_ways(chunk))
        return chunk

    with ExitStack() as opened:
        client = opened.enter_context(plan.client)
        smoked = () if client.terms.is_offline else plan.judges
        first = partial(setup.smoke_test_judges, plan.plan, smoked)
        chunks: Iterable[Chunk] = answered(plan.plan, client, first=first)
        if others:
            chunks = map(kept, chunks)
        file = replace(plan.file, judges=tuple(others))
        chunks, file = _all_judged(chunks, file, plan.judges, opened)
        tables.fill(map(seen, chunks))
    if changed:
        _warn_left_out(others, "they are of other answers than are stored now")
        return _carried_out(plan, None)
    return put_run(plan.folder, file, tables), retried


def answer(plan: Plan, client: CachedClient) -> list[SampleRecord]:
    """The record of every planned response; what is stored already is not asked."""
    check_templates(plan)
    return [record for chunk in answered(plan, client) for record in chunk]


def answered(
    plan: Plan, client: CachedClient, *, first: Callable[[], None] = lambda: None
) -> Iterator[Chunk]:
    """The records of every planned response, in chunks; `first` is called before any call is made.

    If there are several chunks and ways of asking, all are asked first: those of a sample
    together, which share most of their prompts.
    """
    planned, todo = plan.planned, [first]

    def calls(cells: Sequence[PlannedResponse], shown: GatheredProgress) -> list[list[Call]]:
        shown.next_chunk(len(cells))
        asking = replace(client, progress=shown)

        def answer_wave(asked: Sequence[Request], wave: int) -> Mapping[str, Response]:
            if todo and client.ledger.is_missing_any([part.key for part in asked]):
                todo.pop()()
            return asking.answer(asked, stage=f"answers of {client.model.name}, step {wave + 1}")

        at: dict[str, int] = {}
        places = [at.setdefault(cell.sample.id, place) for place, cell in enumerate(cells)]
        order = sorted(range(len(cells)), key=places.__getitem__)
        together = [cells[place] for place in order]
        made = walk(plan.task, together, ask=partial(request, plan), answer=answer_wave)
        found = dict(zip(order, made, strict=True))
        return [found[place] for place in range(len(cells))]

    # A provider's batches take a day each: they are handed in at once.
    size = planned if client.is_batch else CHUNK
    if planned > size and len(plan.run.variants) * len(plan.task.decodings) > 1:
        shown = GatheredProgress(client.progress, planned)
        for cells in plan.chunks_by_sample(size):
            calls(cells, shown)
    shown = GatheredProgress(client.progress, planned)
    for cells in plan.chunks(size):
        yield list(map(partial(sample_record, task=plan.task), cells, calls(cells, shown)))


def judge(plan: JudgePlan) -> RunResult:
    """Have further judges read a stored run; the model under test is neither loaded nor called."""
    plan.folder.check()
    charge_stored(plan)
    tables = RunTables(plan.folder.path)
    with ExitStack() as opened:
        stored = chunks(plan.records, CHUNK)
        judged, file = _all_judged(stored, plan.file, plan.judges, opened, plan.responses)
        tables.fill(judged)
    return put_run(plan.folder, file, tables)


def _all_judged(
    chunks: Iterable[Chunk],
    file: RunFile,
    setups: Sequence[JudgeSetup],
    opened: ExitStack,
    responses: ResponsesOf = lambda _: {},
) -> tuple[Iterable[Chunk], RunFile]:
    for one in setups:
        opened.enter_context(one.client or nullcontext())
        chunks = _judged(chunks, file.task, one, responses)
        file = replace(file, judges=setup.joined(file.judges, one.entry))
    return chunks, file


def _judged(
    chunks: Iterable[Chunk], task: TaskSpec, asked: JudgeSetup, responses: ResponsesOf
) -> Iterator[Chunk]:
    """The chunks with the verdicts of one more judge, in one where it compares answers."""
    if not reads_each_alone(asked.judge):
        chunks = [[record for chunk in chunks for record in chunk]]
    if asked.client is not None:
        shown = GatheredProgress(asked.client.progress)
        asked = replace(asked, client=replace(asked.client, progress=shown))
    for chunk in chunks:
        if asked.client is not None:
            shown.next_chunk()
        yield with_judge(chunk, task, asked, responses(chunk))


def with_judge(
    rows: Sequence[SampleRecord],
    task: TaskSpec,
    asked: JudgeSetup,
    responses: Mapping[str, Response],
) -> list[SampleRecord]:
    """The records with the verdicts of one more judge, whose model is asked if need be.

    `responses` are whole ones by key, for records with several texts of a step.
    """
    cases = cases_of(rows, task, step=asked.entry.step, responses=responses)
    verdicts = ask(list(cases.values()), asked.judge, asked.client)
    return records.with_verdicts(rows, asked.judge.name, dict(zip(cases, verdicts, strict=True)))


def ask(cases: Sequence[Case], judge: Judge, client: CachedClient | None) -> list[VerdictRecord]:
    """A judge's verdicts on some cases; its questions go to the client of its own model."""
    asked = [questions(case, judge) for case in cases]
    wanted = [question for part in asked for question in part]
    if wanted and client is None:
        fact = f"judge {judge.name} asks a model, which a judge given as an object cannot"
        raise SpecError(f"{fact}; describe it in configs/judges/ (docs/adding.md)")
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
    readable = [
        replace(case, replies=own) if own else case
        for case, own in zip(cases, answered, strict=True)
        if case.response.failure is None
    ]
    read = judge.read(readable) if readable else []
    if len(read) != len(readable) or not all(isinstance(one, Verdict) for one in read):
        fact = f"judge {judge.name} gave {len(read)} verdicts on {len(readable)} cases"
        raise SpecError(f"{fact}; `read` returns a list with one Verdict a case")
    verdicts, found = iter(read), []
    for case, asked, own in zip(cases, keys, answered, strict=True):
        if (why := case.response.failure) is None:
            verdict = next(verdicts)
        else:
            verdict = Verdict(case.response.key, judge.name, None, why.reason, note=why.message)
        found.append(records.verdict_record(verdict, asked, own))
    return found


def put_run(folder: RunFolder, file: RunFile, tables: RunTables) -> RunResult:
    """Write a run whose records were all added to its tables.

    Where the same run was made meanwhile, by another process or thread, that one stays.
    """
    files = tables.files
    file, scores = derived(replace(file, packages=versions_here()), files)
    truncated = records.truncated_of(files)
    made = RunResult(folder, file, scores, truncated)
    with folder.held() as other:
        if other is not None and other.judges == file.judges:
            theirs = RunResult(folder, other, tuple(folder.read_scores()), truncated)
            if theirs.missing <= made.missing:
                return theirs
        if SCORES in folder.changed():  # the tables are checked when they are read
            _log.warning("%s: changed since it was written; computed again", folder.scores)
        folder.put(file, tables, scores)
    return made


class GatheredProgress:
    """Progress over all chunks, for a line that would start again with each of them."""

    def __init__(self, show: Progress, planned: int = 0) -> None:
        """Report to `show`; `planned` is how many responses there are, 0 if not known."""
        self._show, self._rest = show, planned
        self._before, self._now = dict[str, Counts](), dict[str, Counts]()

    def next_chunk(self, responses: int = 0) -> None:
        """Go on to a chunk of so many responses."""
        self._rest = max(0, self._rest - responses)
        self._before |= {stage: self._so_far(stage) for stage in self._now}
        self._now = {}

    def _so_far(self, stage: str) -> Counts:
        before, now = self._before.get(stage, _NOTHING), self._now.get(stage, _NOTHING)
        return tuple(map(sum, zip(before, now, strict=True)))

    def __call__(
        self, stage: str, done: int, total: int, failed: int = 0, spent_usd: float | None = None
    ) -> None:
        """Show how far a stage is, with the chunks before; those to come count as planned."""
        self._now[str(stage)] = (done, total, failed, spent_usd or 0.0)
        found, known, lost, usd = self._so_far(str(stage))
        spent = None if spent_usd is None else usd
        self._show(stage, int(found), int(known) + self._rest, int(lost), spent)
