"""Files of other people's stored answers to a judged run.

A file's layout is told by its content, or by a column map. What the files lack counts as
missing. Nothing here asks a model anything.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import msgspec

from harness.data.ratings import Rating, ratings_text
from harness.errors import DataError, SpecError
from harness.importers import merge
from harness.importers import run as replay_run
from harness.importers.answers import FileAnswers, StatedAnswer, StoredAnswer
from harness.importers.formats import column_map, hu2022, inspect_log, lm_eval_log, topical_chat
from harness.importers.lookup import SampleLookup
from harness.importers.run import Cells, ImportJob
from harness.pipeline.execute import RunResult, judge
from harness.pipeline.resolve import resolve_stored
from harness.specs.imports import MapSpec
from harness.specs.tasks import TaskSpec
from harness.storage.files import write_whole
from harness.storage.ledger import Ledger
from harness.storage.runs import RunFile, RunFolder, SampleRecord
from harness.storage.tables import read_text
from harness.workspace import Workspace

# A layout is a module with LOOKS_FOR, recognises(text) and read(path, text, posed, spec). Those of
# released data are named by the tasks they answer; logs of other harnesses answer any.
LAYOUTS = {"rated_replies": topical_chat, "hu_choices": hu2022}
LOGS = {"lm_eval": lm_eval_log, "inspect": inspect_log}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What `import` is told: files, the task they answer, the name of the model that answered.

    `map` is a column map: a name, or the path of a YAML file.
    """

    files: tuple[Path, ...]
    task: str
    model: str
    map: str | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """How many samples the run holds an answer to, under one variant."""

    variant: str
    found: int
    samples: int


@dataclass(frozen=True, slots=True)
class GroupCounted:
    """How many samples of one group the run holds an answer to, under one variant."""

    variant: str
    group: str
    found: int
    samples: int


@dataclass(frozen=True, slots=True)
class _Source:
    """A file, its text and the layout it is in."""

    path: Path
    text: str
    layout: ModuleType

    def read(self, posed: SampleLookup, spec: MapSpec | None) -> FileAnswers:
        """Its answers."""
        found: FileAnswers = self.layout.read(self.path, self.text, posed, spec)
        return found


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import leaves: a judged run, what was found, and people's ratings where known.

    `told` is what is to be known of the files; `replaced` are the folders of runs whose answers
    all stand in this one, and which were removed for it.
    """

    done: RunResult
    counts: tuple[Counted, ...]
    groups: tuple[GroupCounted, ...]
    ratings: Path | None
    told: tuple[StatedAnswer, ...] = ()
    replaced: tuple[Path, ...] = ()


def import_answers(space: Workspace, options: ImportOptions) -> Imported:
    """Store the answers of some files, have the task's judges read them, write a run folder.

    Repeated, in whatever order of files, it changes nothing; a file that says otherwise than
    what is stored is refused before anything is written.
    """
    if not _NAME.fullmatch(options.model):
        raise SpecError(
            f"--model {options.model!r}: give a name of letters, digits, dots, dashes, plus signs "
            "and underscores that begins with a letter or digit"
        )
    task = space.registry.task(options.task)
    spec = space.registry.import_map(options.map) if options.map else None
    layouts = _layouts(task, options.task, spec)
    sources = [_source(path, layouts) for path in options.files]
    samples, data = space.measured(*space.samples(task.data), task.implicitness)
    prompts = space.registry.prompts
    posed = SampleLookup(options.task, task, samples=samples, prompts=prompts, data=data.mode)
    read = [source.read(posed, spec) for source in sources]
    answers = [answer for part in read for answer in part.answers]
    _refuse_two_models(answers, task)
    temperature = spec.temperature if spec else None
    task = replay_run.as_answered(task, answers, temperature)
    job = ImportJob(options.task, task, samples, data, options.model)
    done, found, replaced = _stored(space, job, replay_run.cells(answers))
    return Imported(
        done=done,
        counts=_counts(groups := _group_counts(job, found)),
        groups=groups,
        ratings=_write_ratings(space.results / "ratings" / f"{job.name}.csv", job),
        told=tuple(told for part in read for told in part.told),
        replaced=replaced,
    )


def _stored(
    space: Workspace, job: ImportJob, new: Cells
) -> tuple[RunResult, Cells, tuple[Path, ...]]:
    """The judged run of the answers and those of earlier imports, and what it replaces."""
    replay_run.check_choices(job, new)
    ledger = Ledger(space.results / "calls" / job.model)
    replay_run.refuse_others(ledger, job, new)
    earlier = merge.earlier_runs(space.results, job, ledger)
    found = merge.joined(new, earlier)
    run = replay_run.run_of(job, found)
    records = replay_run.records(ledger, job, found)
    folder = RunFolder(space.results / "runs" / job.name / job.model / run.digest[:16])
    _write(folder, replay_run.file_of(job, run, found), records)
    done = judge(resolve_stored(space, folder, job.task.judges))
    gone = merge.superseded(earlier, found, judges=job.task.judges)
    for old in gone:
        merge.remove(old)
    return done, found, tuple(old.path for old in gone)


def _layouts(task: TaskSpec, name: str, spec: MapSpec | None) -> dict[str, ModuleType]:
    """The layouts a file may be in: that of a map, else those of the task and all logs."""
    if spec is not None:
        return {spec.format: LOGS.get(spec.format, column_map)}
    if unknown := [layout for layout in task.imports if layout not in LAYOUTS]:
        raise SpecError(
            f"task {name}: no layout {unknown[0]!r} in `imports`; known: {', '.join(LAYOUTS)}"
        )
    return {**{layout: LAYOUTS[layout] for layout in task.imports}, **LOGS}


def _source(path: Path, layouts: Mapping[str, ModuleType]) -> _Source:
    """A file in the one layout that recognises it."""
    text = _text(path)
    for layout in layouts.values():
        if layout.recognises(text):
            return _Source(path, text, layout)
    raise DataError(f"{path}: {_why_unknown(text)}; layouts known: {_described(layouts)}")


def _text(path: Path) -> str:
    """The text of a file; of a zipped log, which its own library reads, how it begins."""
    if path.is_dir():
        raise DataError(f"{path}: a folder; name the files in it")
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(inspect_log.ZIPPED)) == inspect_log.ZIPPED.encode("latin-1"):
                return inspect_log.ZIPPED
    return read_text(path)


def _described(layouts: Mapping[str, ModuleType]) -> str:
    known = "; ".join(f"{name}: {layout.LOOKS_FOR}" for name, layout in layouts.items())
    return f"{known}; for others, say with --map which column is what"


def _why_unknown(text: str) -> str:
    """What keeps a file from being in any layout, as far as can be told."""
    if not text.lstrip().startswith(("[", "{")):
        return "of no layout known here"
    try:
        content = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        return f"not JSON ({error})"
    return "of no layout known here" if content else "nothing in it"


def _refuse_two_models(answers: Sequence[StoredAnswer], task: TaskSpec) -> None:
    """Refuse answers to variants that are averaged over that their files say two models gave."""
    first: dict[str, StoredAnswer] = {}
    for answer in answers:
        if not answer.model:
            continue
        average = task.variants[answer.variant].averaged_over or answer.variant
        held = first.setdefault(average, answer)
        if held.model != answer.model:
            raise DataError(
                f"{answer.place}: an answer of {answer.model}, while {held.place} is one of "
                f"{held.model}; import each model apart, under a --model of its own"
            )


def _group_counts(job: ImportJob, found: Cells) -> tuple[GroupCounted, ...]:
    """What was found of each group under each variant."""
    held: dict[tuple[str, str], list[bool]] = {}
    for variant, sample in replay_run.planned(job, found):
        held.setdefault((variant, sample.group), []).append((variant, sample.id) in found)
    return tuple(GroupCounted(*place, sum(parts), len(parts)) for place, parts in held.items())


def _counts(groups: Sequence[GroupCounted]) -> tuple[Counted, ...]:
    """What was found under each variant."""
    held: dict[str, list[GroupCounted]] = {}
    for part in groups:
        held.setdefault(part.variant, []).append(part)
    return tuple(
        Counted(variant, sum(p.found for p in parts), sum(p.samples for p in parts))
        for variant, parts in held.items()
    )


def _write(folder: RunFolder, file: RunFile, rows: Sequence[SampleRecord]) -> None:
    """Write the run folder, keeping the verdicts of judges that have read it before."""
    if (folder.path / "run.json").is_file():
        file = replace(file, judges=folder.read().judges)
        pairs = zip(rows, folder.read_rows(), strict=True)
        rows = [replace(row, verdicts=old.verdicts) for row, old in pairs]
    folder.write(file, rows)


def _write_ratings(path: Path, job: ImportJob) -> Path | None:
    """Write people's ratings of a task's samples, a line a rating; null where it has none."""
    ratings = [
        Rating(job.name, sample.id, sample.group, "mean", float(value), scale)
        for sample in job.samples
        for scale in job.task.rated
        for value in sample.references.get(scale, ())
    ]
    if not ratings:
        return None
    write_whole(path, ratings_text(ratings).encode())
    return path
