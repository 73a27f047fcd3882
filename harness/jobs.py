"""One function a command: from names and options to stored answers, verdicts and scores.

The stages are pipeline's; this module resolves what they need and writes what they give. It
prints nothing.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from msgspec import structs

from harness import __version__, evidence, pipeline
from harness.backends import Backend
from harness.classifiers import model_of
from harness.core import Judge, Model, Response, Run, Sample
from harness.costs import run_costs
from harness.errors import StoreError
from harness.foresight import count_replies, count_stored
from harness.implicitness import as_told
from harness.ledger import Ledger
from harness.parts import digest
from harness.pipeline import Trial
from harness.planning import (
    Plan,
    check_templates,
    chosen_variants,
    decodings,
    take,
    variant_digest,
)
from harness.runs import JudgeEntry, ModelEntry, Row, RunFile, RunFolder, VerdictRow, write_whole
from harness.scores import ScoreRow, table_text
from harness.scoring import score_rows
from harness.seats import Asking, Seat, check_judges, judge_of, resolve, seat_judges, try_judges
from harness.specs.tasks import TaskSpec
from harness.ways import Way, answered_by
from harness.workspace import Workspace

OWN_MODELS = Asking()


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
    answers: Way | None = None
    table: str | None = None
    scorer: str | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run ready to be answered and judged; nothing has been asked yet."""

    plan: Plan
    model: Model
    seats: tuple[Seat, ...]
    file: RunFile
    folder: RunFolder


@dataclass(frozen=True, slots=True)
class Done:
    """What a command leaves: the run's folder, its scores, what is missing, how much was cut."""

    folder: RunFolder
    file: RunFile
    scores: tuple[ScoreRow, ...]
    missing: Counter[evidence.Lost]
    cut: int


@dataclass(frozen=True, slots=True)
class Change:
    """A verdict that reads differently than it is stored."""

    row: Row
    judge: str
    before: VerdictRow
    after: VerdictRow


@dataclass(frozen=True, slots=True)
class Reread:
    """A run read anew: what changed, and how many asks of each judge would be worded otherwise.

    `altered` names what says otherwise today than when the run was scored (the task's cut, a
    judge's recipe): the verdicts are then of another recipe, and nothing is written.
    """

    changes: tuple[Change, ...]
    stale: Counter[str]
    altered: tuple[str, ...]


def prepare(space: Workspace, options: RunOptions) -> Prepared:
    """Resolve all that a run needs, so that what can fail does so before the first call."""
    task = _task(space, options)
    variants = chosen_variants(task, options.variants, name=options.task)
    spec = space.registry.model_spec(options.model, options.backend)
    judges = tuple(dict.fromkeys(options.judges or task.judges))
    check_judges(space, judges, task=task, name=options.task)
    samples, data = space.samples(task.data)
    taken = take(samples, options.limit, seed=options.seed)
    chosen, data = space.measured(taken, data, task.implicitness)
    model = model_of(space, options.model, spec, task=(options.task, task), samples=samples)
    task = answered_by(task, model.modes, options.answers, model=options.model)
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
    seats = seat_judges(space, judges, asking=_asking(options), tested=model, samples=chosen)
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
    return Prepared(plan, model, seats, file, RunFolder(path))


def run(space: Workspace, options: RunOptions) -> Done:
    """Answer, judge and score one task by one model; what is stored already is not asked."""
    [done] = run_each(space, [options])
    return done


def run_each(space: Workspace, each: Sequence[RunOptions]) -> Iterator[Done]:
    """One run after the other; what they need, and what is stored of them, is seen to first."""
    ready = deque(prepare(space, options) for options in each)
    for one in ready:
        count_stored(one.plan, space.desk(one.model), one.seats)
    while ready:  # none is held longer than it runs: it may have weights
        yield _run(space, ready.popleft())


def _run(space: Workspace, ready: Prepared) -> Done:
    try_judges(space, ready.plan, seats=ready.seats, ledger=space.desk(ready.model).ledger)
    with space.desk(ready.model) as desk:
        trials = pipeline.answer(ready.plan, desk)
    rows = [evidence.row(trial) for trial in trials]
    file, rows = _with_earlier(ready.folder, ready.file, rows)
    return _judge_and_write(ready.folder, file, rows=rows, trials=trials, seats=ready.seats)


def judge(
    space: Workspace, folder: RunFolder, names: Sequence[str], *, asking: Asking = OWN_MODELS
) -> Done:
    """Have further judges read a stored run; the model under test is neither loaded nor called."""
    file, rows = folder.read(), folder.read_rows()
    check_judges(space, names, task=file.task, name=file.run.task)
    trials = _stored_trials(space, file, rows, task=file.task)
    seats = seat_judges(
        space,
        names,
        asking=asking,
        tested=file.model,
        samples=_samples(rows),
    )
    count_replies(trials, seats, task=file.task)
    return _judge_and_write(folder, file, rows=rows, trials=trials, seats=seats)


def read(space: Workspace, folder: RunFolder) -> Reread:
    """Read a run's stored replies with today's parsers and cut; no call is made."""
    file, rows = folder.read(), folder.read_rows()
    task = structs.replace(file.task, cut=space.registry.task(file.run.task).cut)
    trials = _stored_trials(space, file, rows, task=task)
    altered = [] if task == file.task else [f"the cut of task {file.run.task}"]
    fresh, changes, stale = _fresh(rows, trials), list[Change](), Counter[str]()
    for entry in file.judges:
        judge = judge_of(space, entry.name, identity=entry.identity, samples=_samples(rows))
        altered += [] if judge.recipe == entry.recipe else [f"judge {entry.name}"]
        viewed = _seen(trials, entry, task=task)
        held = {place: rows[place].verdicts[entry.name] for place in viewed}
        today = pipeline.questions(list(viewed.values()), judge)
        stale[entry.name] = sum(
            tuple(question.key for question in asked) != verdict.keys
            for asked, verdict in zip(today, held.values(), strict=True)
        )
        verdicts = _reread(space, entry, judge=judge, held=held, trials=viewed)
        changes += [
            Change(rows[place], entry.name, held[place], verdict)
            for place, verdict in verdicts.items()
            if _differs(held[place], verdict)
        ]
        fresh = _add(fresh, entry.name, verdicts)
    if not altered:
        _write(folder, replace(file, version=__version__), fresh)
    return Reread(tuple(changes), stale, tuple(altered))


def _judge_and_write(
    folder: RunFolder,
    file: RunFile,
    *,
    rows: list[Row],
    trials: Sequence[Trial],
    seats: Sequence[Seat],
) -> Done:
    for seat in seats:
        viewed = _seen(trials, seat.entry, task=file.task)
        with seat.desk or nullcontext() as desk:
            judged = pipeline.ask(list(viewed.values()), seat.judge, desk)
        verdicts = map(evidence.verdict_row, judged)
        rows = _add(rows, seat.judge.name, dict(zip(viewed, verdicts, strict=True)))
        others = tuple(entry for entry in file.judges if entry.name != seat.judge.name)
        ordered = sorted((*others, seat.entry), key=lambda entry: entry.name)
        file = replace(file, judges=tuple(ordered))
    return _write(folder, file, rows)


def _write(folder: RunFolder, file: RunFile, rows: Sequence[Row]) -> Done:
    scores = tuple(score_rows(file, rows))
    file = replace(file, costs=run_costs(rows, file.judges), redrawn=evidence.redrawn(rows))
    folder.write(file, rows)
    write_whole(folder.scores, table_text(scores).encode())
    return Done(folder, file, scores, evidence.lost(rows), evidence.cut_answers(rows))


def _task(space: Workspace, options: RunOptions) -> TaskSpec:
    """The task of a run, with the table and the scorer that it is told."""
    task = space.registry.task(options.task)
    return as_told(task, name=options.task, table=options.table, scorer=options.scorer)


def _asking(options: RunOptions) -> Asking:
    return Asking(options.judge_model, options.is_self_judge_allowed)


def _samples(rows: Sequence[Row]) -> tuple[Sample, ...]:
    """The samples of some rows, each once."""
    return tuple({row.sample.id: row.sample for row in rows}.values())


def _with_earlier(folder: RunFolder, file: RunFile, rows: list[Row]) -> tuple[RunFile, list[Row]]:
    """The verdicts of judges that read this run before, where the answers are still the same."""
    if not (folder.path / "run.json").is_file():
        return file, rows
    earlier = {(r.sample.id, r.variant, r.decoding): r for r in folder.read_rows()}
    held = [earlier.get((r.sample.id, r.variant, r.decoding)) for r in rows]
    pairs = [(row, old) for row, old in zip(rows, held, strict=True) if old is not None]
    if len(pairs) < len(rows) or any(_said(row) != _said(old) for row, old in pairs):
        return file, rows
    kept = [replace(row, verdicts=old.verdicts) for row, old in pairs]
    return replace(file, judges=folder.read().judges), kept


def _said(row: Row) -> tuple[object, ...]:
    return row.answer, [step.key for step in row.steps], [step.reason for step in row.steps]


def _stored_trials(
    space: Workspace, file: RunFile, rows: Sequence[Row], *, task: TaskSpec
) -> list[Trial]:
    ledger = Ledger(space.results / "calls" / file.model.name)
    return evidence.trials(rows, ledger.find(evidence.row_keys(rows)), task=task)


def _stored_replies(
    space: Workspace, entry: JudgeEntry, keys: Sequence[tuple[str, ...]]
) -> dict[str, Response]:
    wanted = [key for part in keys for key in part]
    if entry.asks is None:
        return {}
    found = Ledger(space.results / "calls" / entry.asks).find(wanted)
    if lost := [key for key in wanted if key not in found]:
        raise StoreError(
            f"{len(lost)} replies to judge {entry.name} are not in the calls ledger (first: "
            f"{lost[0][:12]}); copy its folder back, or have it judge again"
        )
    return found


def _seen(trials: Sequence[Trial], entry: JudgeEntry, *, task: TaskSpec) -> dict[int, Trial]:
    """The trials as a judge sees them, by place; those without the step it reads are left out."""
    viewed = ((i, pipeline.seen(part, entry.step, task=task)) for i, part in enumerate(trials))
    return {place: part for place, part in viewed if part is not None}


def _reread(
    space: Workspace,
    entry: JudgeEntry,
    *,
    judge: Judge,
    held: Mapping[int, VerdictRow],
    trials: Mapping[int, Trial],
) -> dict[int, VerdictRow]:
    """A judge's verdicts on stored replies; the stored ones where it asks more or less today."""
    asked = dict(zip(trials, pipeline.questions(list(trials.values()), judge), strict=True))
    same = [
        place
        for place, part in trials.items()
        if part.response.failure is not None or len(asked[place]) == len(held[place].keys)
    ]
    judged = pipeline.read(
        [trials[place] for place in same],
        judge,
        keys=[held[place].keys for place in same],
        replies=_stored_replies(space, entry, [verdict.keys for verdict in held.values()]),
    )
    return {**held, **dict(zip(same, map(evidence.verdict_row, judged), strict=True))}


def _fresh(rows: Sequence[Row], trials: Sequence[Trial]) -> list[Row]:
    """Rows built anew from trials, the verdicts so far kept."""
    pairs = zip(rows, trials, strict=True)
    return [replace(evidence.row(trial), verdicts=row.verdicts) for row, trial in pairs]


def _add(rows: Sequence[Row], judge: str, verdicts: Mapping[int, VerdictRow]) -> list[Row]:
    """The rows, those at the places of the verdicts with them."""
    added = list(rows)
    for place, verdict in verdicts.items():
        others = {**rows[place].verdicts, judge: verdict}
        added[place] = replace(rows[place], verdicts=dict(sorted(others.items())))
    return added


def _differs(before: VerdictRow, after: VerdictRow) -> bool:
    return (before.value, before.reason) != (after.value, after.reason)
