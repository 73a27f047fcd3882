"""One function a command: from names and options to stored answers, verdicts and scores.

The stages are pipeline's; this module resolves what they need and writes what they give. It
prints nothing.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from msgspec import structs

from harness import __version__
from harness.core import Judge, Model, Run
from harness.errors import HarnessError
from harness.implicitness.bins import with_options
from harness.parts import digest
from harness.pipeline import rows as evidence
from harness.pipeline import stages
from harness.pipeline.answer_modes import AnswerMode, with_mode
from harness.pipeline.classifiers import TaskContext, model_of
from harness.pipeline.judge_sessions import (
    JudgeModelOptions,
    JudgeSetup,
    check_judges,
    joined,
    judge_of,
    resolve,
    set_up_judges,
    smoke_test_judges,
    stored_replies,
)
from harness.pipeline.plan import (
    Plan,
    check_templates,
    chosen_variants,
    decodings,
    subsample,
    variant_digest,
)
from harness.pipeline.preview import charge_stored_calls, charge_stored_replies
from harness.pipeline.scores import score_rows
from harness.pipeline.stages import SampleResult
from harness.specs.models import Backend
from harness.specs.tasks import TaskSpec
from harness.storage.files import write_whole
from harness.storage.ledger import Ledger
from harness.storage.runs import (
    JudgeEntry,
    ModelEntry,
    RunFile,
    RunFolder,
    SampleRecord,
    VerdictRecord,
)
from harness.storage.score_table import ScoreRow, table_text
from harness.workspace import Workspace

OWN_MODELS = JudgeModelOptions()


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What `run` is told: names, and what to leave out."""

    task: str
    model: str
    judges: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    backend: Backend | None = None
    judge_model: str | None = None
    seed: int = 0
    limit: int | None = None
    is_self_judge_allowed: bool = False
    answers: AnswerMode | None = None
    table: str | None = None
    scorer: str | None = None


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A run ready to be answered and judged; nothing has been asked yet."""

    plan: Plan
    model: Model
    seats: tuple[JudgeSetup, ...]
    file: RunFile
    folder: RunFolder


@dataclass(frozen=True, slots=True)
class JudgePlan:
    """A stored run and the judges that are to read it; nothing has been asked yet."""

    file: RunFile
    rows: tuple[SampleRecord, ...]
    trials: tuple[SampleResult, ...]
    seats: tuple[JudgeSetup, ...]


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a command leaves: the run's folder, its scores, what is missing, how much was cut.

    `again` counts the replies without an answer that were asked for again since the last command.
    """

    folder: RunFolder
    file: RunFile
    scores: tuple[ScoreRow, ...]
    missing: Counter[evidence.MissingItem]
    cut: int
    again: int = 0


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """A verdict that reads differently than it is stored."""

    row: SampleRecord
    judge: str
    before: VerdictRecord
    after: VerdictRecord


@dataclass(frozen=True, slots=True)
class RereadResult:
    """A run read anew: what changed, and how many asks of each judge would be worded otherwise.

    `altered` names what says otherwise today than when the run was scored (the task's cut, a
    judge's recipe): the verdicts are then of another recipe, and nothing is written.
    """

    changes: tuple[VerdictChange, ...]
    stale: Counter[str]
    altered: tuple[str, ...]


def prepare(space: Workspace, options: RunOptions) -> RunPlan:
    """Resolve all that a run needs, so that what can fail does so before the first call."""
    task = _task(space, options)
    variants = chosen_variants(task, options.variants, name=options.task)
    spec = space.registry.model_spec(options.model, options.backend)
    judges = tuple(dict.fromkeys(options.judges or task.judges))
    check_judges(space, judges, task=task, name=options.task)
    samples, data = space.samples(task.data)
    taken = subsample(samples, options.limit, seed=options.seed)
    chosen, data = space.measured(taken, data, task.implicitness)
    model = model_of(space, options.model, spec, TaskContext(options.task, task, samples, chosen))
    task = with_mode(task, model.modes, options.answers, model=options.model)
    model = resolve(space, model, spec)
    prompts = space.registry.prompts
    words = {v: variant_digest(task, v, prompts=prompts, name=options.task) for v in variants}
    run = Run(
        task=options.task,
        variants=variants,
        model=model.identity,
        decodings=decodings(task),
        seed=options.seed,
        limit=options.limit,
        prompts=digest(words),
        data=data.label,
    )
    plan = Plan(run, task, chosen, prompts, model.identity)
    check_templates(plan)
    seats = set_up_judges(space, judges, asking=_asking(options), tested=model, samples=chosen)
    file = RunFile(
        digest=run.digest,
        run=run,
        task=task,
        model=ModelEntry(model.name, model.kind, model.identity, model.revision),
        data=data,
        variants=words,
        samples=len(chosen),
        planned=len(plan.cells),
        chance=task.chance,
        version=__version__,
    )
    path = space.results / "runs" / options.task / model.name / run.digest[:16]
    return RunPlan(plan, model, seats, file, RunFolder(path))


def run(space: Workspace, options: RunOptions) -> RunResult:
    """Answer, judge and score one task by one model; what is stored already is not asked."""
    [done] = run_each(space, [options])
    return done


def run_each(space: Workspace, each: Sequence[RunOptions]) -> Iterator[RunResult]:
    """One run after the other; what they need, and what is stored of them, is seen to first."""
    ready = deque(prepare(space, options) for options in each)
    for one in ready:
        charge_stored_calls(one.plan, space.desk(one.model), one.seats)
    while ready:
        yield _next(space, ready)


def _next(space: Workspace, ready: deque[RunPlan]) -> RunResult:
    """The next run, which is held no longer than it runs: it may have weights."""
    try:
        return _run(space, ready.popleft())
    except HarnessError as error:
        rest = ", ".join(one.model.name for one in ready)
        raise type(error)(f"{error}; not run: {rest}" if rest else str(error)) from error


def _run(space: Workspace, ready: RunPlan) -> RunResult:
    smoke_test_judges(space, ready.plan, seats=ready.seats, ledger=space.desk(ready.model).ledger)
    with space.desk(ready.model) as desk:
        trials = stages.answer(ready.plan, desk)
    rows = [evidence.from_trial(trial) for trial in trials]
    file, rows = _with_earlier(ready.folder, ready.file, rows)
    return _judge_and_write(ready.folder, file, rows=rows, trials=trials, seats=ready.seats)


def judge(
    space: Workspace,
    folder: RunFolder,
    names: Sequence[str],
    *,
    asking: JudgeModelOptions = OWN_MODELS,
) -> RunResult:
    """Have further judges read a stored run; the model under test is neither loaded nor called."""
    ready = plan_judging(space, folder, names, asking=asking)
    file, trials, seats = ready.file, ready.trials, ready.seats
    charge_stored_replies(trials, seats, task=file.task)
    return _judge_and_write(folder, file, rows=list(ready.rows), trials=trials, seats=seats)


def plan_judging(
    space: Workspace,
    folder: RunFolder,
    names: Sequence[str],
    *,
    asking: JudgeModelOptions = OWN_MODELS,
) -> JudgePlan:
    """Resolve all that further judges of a stored run need; nothing is asked."""
    file, rows = folder.read(), folder.read_rows()
    check_judges(space, names, task=file.task, name=file.run.task)
    trials = _stored_trials(space, file, rows, task=file.task)
    samples = evidence.samples(rows)
    seats = set_up_judges(space, names, asking=asking, tested=file.model, samples=samples)
    return JudgePlan(file, tuple(rows), tuple(trials), seats)


def read(space: Workspace, folder: RunFolder) -> RereadResult:
    """Read a run's stored replies with today's parsers and cut; no call is made."""
    file, rows = folder.read(), folder.read_rows()
    task = structs.replace(file.task, cut=space.registry.task(file.run.task).cut)
    trials = _stored_trials(space, file, rows, task=task)
    altered = [] if task == file.task else [f"the cut of task {file.run.task}"]
    fresh, changes, stale = evidence.rebuild(rows, trials), list[VerdictChange](), Counter[str]()
    for entry in file.judges:
        samples = evidence.samples(rows)
        judge = judge_of(space, entry.name, identity=entry.identity, samples=samples)
        altered += [] if judge.recipe == entry.recipe else [f"judge {entry.name}"]
        viewed = _seen(trials, entry, task=task)
        held = {place: rows[place].verdicts[entry.name] for place in viewed}
        today = stages.questions(list(viewed.values()), judge)
        stale[entry.name] = sum(
            tuple(question.key for question in asked) != verdict.keys
            for asked, verdict in zip(today, held.values(), strict=True)
        )
        verdicts = _reread(space, entry, judge=judge, held=held, trials=viewed)
        changes += [
            VerdictChange(rows[place], entry.name, held[place], verdict)
            for place, verdict in verdicts.items()
            if _differs(held[place], verdict)
        ]
        fresh = evidence.with_verdicts(fresh, entry.name, verdicts)
    if not altered:
        _write(folder, replace(file, version=__version__), fresh)
    return RereadResult(tuple(changes), stale, tuple(altered))


def _judge_and_write(
    folder: RunFolder,
    file: RunFile,
    *,
    rows: list[SampleRecord],
    trials: Sequence[SampleResult],
    seats: Sequence[JudgeSetup],
) -> RunResult:
    for part in seats:
        viewed = _seen(trials, part.entry, task=file.task)
        with part.desk or nullcontext() as desk:
            judged = stages.ask(list(viewed.values()), part.judge, desk)
        verdicts = map(evidence.verdict_row, judged)
        held = dict(zip(viewed, verdicts, strict=True))
        rows = evidence.with_verdicts(rows, part.judge.name, held)
        file = replace(file, judges=joined(file.judges, part.entry))
    return _write(folder, file, rows)


def _write(folder: RunFolder, file: RunFile, rows: Sequence[SampleRecord]) -> RunResult:
    scores = tuple(score_rows(file, rows))
    before, file = file.redrawn, evidence.with_costs(file, rows)
    folder.write(file, rows)
    write_whole(folder.scores, table_text(scores).encode())
    lost, cut = evidence.lost(rows), evidence.cut_answers(rows)
    return RunResult(folder, file, scores, lost, cut, again=file.redrawn - before)


def _task(space: Workspace, options: RunOptions) -> TaskSpec:
    """The task of a run, with the table and the scorer that it is told."""
    task = space.registry.task(options.task)
    return with_options(task, name=options.task, table=options.table, scorer=options.scorer)


def _asking(options: RunOptions) -> JudgeModelOptions:
    return JudgeModelOptions(options.judge_model, options.is_self_judge_allowed)


def _with_earlier(
    folder: RunFolder, file: RunFile, rows: list[SampleRecord]
) -> tuple[RunFile, list[SampleRecord]]:
    """The verdicts of judges that read this run before, where the answers are still the same."""
    if not (folder.path / "run.json").is_file():
        return file, rows
    earlier, kept = folder.read(), evidence.with_earlier(rows, folder.read_rows())
    file = replace(file, redrawn=earlier.redrawn)
    return (file, rows) if kept is None else (replace(file, judges=earlier.judges), kept)


def _stored_trials(
    space: Workspace, file: RunFile, rows: Sequence[SampleRecord], *, task: TaskSpec
) -> list[SampleResult]:
    ledger = Ledger(space.results / "calls" / file.model.name)
    return evidence.trials(rows, ledger.find(evidence.row_keys(rows)), task=task)


def _seen(
    trials: Sequence[SampleResult], entry: JudgeEntry, *, task: TaskSpec
) -> dict[int, SampleResult]:
    """The trials as a judge sees them, by place; those without the step it reads are left out."""
    viewed = ((i, stages.at_step(part, entry.step, task=task)) for i, part in enumerate(trials))
    return {place: part for place, part in viewed if part is not None}


def _reread(
    space: Workspace,
    entry: JudgeEntry,
    *,
    judge: Judge,
    held: Mapping[int, VerdictRecord],
    trials: Mapping[int, SampleResult],
) -> dict[int, VerdictRecord]:
    """A judge's verdicts on stored replies; the stored ones where it asks more or less today."""
    asked = dict(zip(trials, stages.questions(list(trials.values()), judge), strict=True))
    same = [
        place
        for place, part in trials.items()
        if part.response.failure is not None or len(asked[place]) == len(held[place].keys)
    ]
    judged = stages.read(
        [trials[place] for place in same],
        judge,
        keys=[held[place].keys for place in same],
        replies=stored_replies(space, entry, [verdict.keys for verdict in held.values()]),
    )
    return {**held, **dict(zip(same, map(evidence.verdict_row, judged), strict=True))}


def _differs(before: VerdictRecord, after: VerdictRecord) -> bool:
    return (before.value, before.reason) != (after.value, after.reason)
