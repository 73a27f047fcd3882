"""Files of answers that other programs stored to one judged run, joined with earlier imports.

The content of a file shows its format, or a column map describes it. Samples without an answer
count as missing. Files that come one by one make the same run as all at once.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from harness.data.map_drafts import import_map
from harness.data.ratings import COLUMNS, ratings_text
from harness.errors import DataError, SpecError, StoreError
from harness.importers import run as replay_run
from harness.importers.formats.inspect_log import ZIPPED
from harness.importers.record import FileNote, SampleLookup, StoredAnswer
from harness.importers.run import KIND, Cells, ImportJob
from harness.lazy import pandas
from harness.pipeline.execute import RunResult, judge
from harness.pipeline.records import step_keys
from harness.pipeline.resolve import resolve_stored
from harness.specs import plugins
from harness.specs.data import MapSpec
from harness.specs.tasks import TaskSpec
from harness.storage.cells import decode_json
from harness.storage.files import write_whole
from harness.storage.ledger import Ledger
from harness.storage.runs import RUN, RunFolder, StoredRun
from harness.storage.tables import FileFormat, format_by_name, read_file, read_text
from harness.workspace import Workspace

# A layout is a module with LOOKS_FOR, recognises(text) and read(path, text, lookup, spec). Those of
# released data are named by the tasks they answer, as are those of entry points harness.importers;
# logs of other harnesses answer any.
LAYOUTS = {
    "rated_replies": "harness.importers.formats.topical_chat",
    "hu_choices": "harness.importers.formats.hu2022",
}
LOGS = {
    "lm_eval": "harness.importers.formats.lm_eval_log",
    "inspect": "harness.importers.formats.inspect_log",
}
COLUMN_MAP = "harness.importers.formats.column_map"
_log = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The options of `import`: files, the task that they answer, the name of their model.

    `map` is a column map: a name, or the path of a YAML file.
    """

    files: tuple[Path, ...]
    task: str
    model: str
    map: str | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of samples of one variant, and of those with an answer in the run."""

    variant: str
    found: int
    samples: int


@dataclass(frozen=True, slots=True)
class GroupCounted:
    """The same two numbers for the samples of one group."""

    variant: str
    group: str
    found: int
    samples: int


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import: a judged run, counts of answers, notes about the files.

    `ratings` is the file of people's ratings, None where the task has none. `replaced` are the
    removed folders of runs whose answers are all in this one.
    """

    done: RunResult
    counts: tuple[Counted, ...]
    groups: tuple[GroupCounted, ...]
    ratings: Path | None
    notes: tuple[FileNote, ...] = ()
    replaced: tuple[Path, ...] = ()


def import_answers(space: Workspace, options: ImportOptions) -> Imported:
    """Store the answers of some files, judge them with the task's judges, write a run folder.

    Repeated imports, in any order of files, change nothing. Raises DataError, before anything is
    written, for a file that contradicts what is stored.
    """
    if not _NAME.fullmatch(options.model):
        raise SpecError(
            f"--model {options.model!r}: give a name of letters, digits, dots, dashes, plus signs "
            "and underscores that begins with a letter or digit"
        )
    task = space.registry.load("tasks", options.task)
    spec = space.registry.load("configs/imports", options.map) if options.map else None
    layouts = _layouts(task, options.task, spec)
    sources = [_source(path, layouts, partial(_fields, space, task)) for path in options.files]
    samples, data = space.measured(*space.samples(task.data), task.implicitness)
    prompts = space.registry.prompts
    lookup = SampleLookup(options.task, task, samples=samples, prompts=prompts, data=data.mode)
    read = [layout.read(path, text, lookup, spec) for path, text, layout in sources]
    answers = [answer for part in read for answer in part.answers]
    _refuse_two_models(answers, task)
    temperature = spec.temperature if spec else None
    task = replay_run.as_answered(task, answers, temperature)
    job = ImportJob(options.task, task, tuple(samples), data, options.model)
    done, found, replaced = _stored(space, job, replay_run.cells(answers))
    groups = _group_counts(job, found)
    totals = {group.variant: [0, 0] for group in groups}
    for group in groups:
        totals[group.variant][0] += group.found
        totals[group.variant][1] += group.samples
    return Imported(
        done=done,
        counts=tuple(Counted(variant, *total) for variant, total in totals.items()),
        groups=groups,
        ratings=_write_ratings(space.results / "ratings" / f"{job.name}.csv", job),
        notes=tuple(note for part in read for note in part.notes),
        replaced=replaced,
    )


def _stored(
    space: Workspace, job: ImportJob, new: Cells
) -> tuple[RunResult, Cells, tuple[Path, ...]]:
    replay_run.check_choices(job, new)
    ledger = Ledger(space.results / "calls" / job.model)
    replay_run.refuse_others(ledger, job, new)
    earlier = _earlier_runs(space.results, job, ledger)
    found = _joined(new, earlier)
    file, records = replay_run.file_of(job, found), replay_run.records(ledger, job, found)
    folder = RunFolder(space.results / "runs" / job.name / job.model / file.digest[:16])
    if before := _whole(folder):  # judges that have read it before keep their verdicts
        file = replace(file, judges=before.file.judges)
        pairs = zip(records, before.rows, strict=True)
        records = [replace(row, verdicts=old.verdicts) for row, old in pairs]
    folder.write(file, records)
    done = judge(resolve_stored(space, folder, job.task.judges))
    gone = [
        run.folder.path
        for run in earlier
        if len(run.cells) < len(found)
        and _is_within(run.cells, found)
        and run.judges <= set(job.task.judges)
    ]
    if folder.tag is None and (tags := [run.folder.tag for run in earlier if run.folder.tag]):
        folder.write_tag(tags[-1])
    for old in gone:  # other files in its folder stay
        RunFolder(old).remove()
    return done, found, tuple(gone)


def _layouts(task: TaskSpec, name: str, spec: MapSpec | None) -> dict[str, ModuleType]:
    if spec is not None:
        return {spec.format: import_module(LOGS.get(spec.format, COLUMN_MAP))}
    own = {layout: _layout(layout, task=name) for layout in task.imports}
    return {**own, **{layout: import_module(module) for layout, module in LOGS.items()}}


def _layout(name: str, *, task: str) -> ModuleType:
    if name in LAYOUTS:
        return import_module(LAYOUTS[name])
    where = f"task {task}: `imports`"
    layout = plugins.plugin("harness.importers", name, known=LAYOUTS, where=where).value
    members = ("LOOKS_FOR", "recognises", "read")
    if missing := [member for member in members if not hasattr(layout, member)]:
        raise SpecError(
            f"{where}: layout {name!r} ({layout!r}) has no {', '.join(missing)}; add it"
        )
    module: ModuleType = layout
    return module


def _source(
    path: Path, layouts: Mapping[str, ModuleType], fields: Callable[[], Sequence[str]]
) -> tuple[Path, str, Any]:
    if path.is_dir():
        raise DataError(f"{path}: a folder; name the files in it")
    with path.open("rb") if path.is_file() else BytesIO() as file:
        is_zipped = file.read(len(ZIPPED)) == ZIPPED.encode("latin-1")
    # A zipped log is read by its own library, and so is Parquet.
    is_parquet = format_by_name(path.name) is FileFormat.PARQUET
    text = ZIPPED if is_zipped else "" if is_parquet else read_text(path)
    for layout in layouts.values():
        if layout.recognises(text):
            return path, text, layout
    known = "; ".join(f"{name}: {layout.LOOKS_FOR}" for name, layout in layouts.items())
    raise DataError(
        f"{path}: {_why_unknown(text)}; layouts known: {known}; for others, say with --map which "
        f"column is what{_draft(path, fields)}"
    )


def _fields(space: Workspace, task: TaskSpec) -> list[str]:
    """The fields of a task's samples."""
    path = space.registry.resource(task.data.sample)
    samples = space.registry.read("samples_jsonl", [path], None)
    return sorted({name for sample in samples[:1] for name in sample.fields})


def _draft(path: Path, fields: Callable[[], Sequence[str]]) -> str:
    """A map to fill in, where the file is a table."""
    kind = format_by_name(path.name)
    if kind not in (FileFormat.CSV, FileFormat.JSONL, FileFormat.PARQUET):
        return ""
    try:
        columns = [name for name in read_file(path).columns if name]
    except DataError:
        return ""
    draft = import_map(path, columns, fields=fields(), form=kind)
    return f"; a map to fill in, for --map FILE.yaml:\n\n{draft}\n"


def _why_unknown(text: str) -> str:
    if not text.lstrip().startswith(("[", "{")):
        return "of no layout known here"
    try:
        content = decode_json(text)
    except msgspec.DecodeError as error:
        return f"not JSON ({error})"
    return "of no layout known here" if content else "nothing in it"


def _refuse_two_models(answers: Sequence[StoredAnswer], task: TaskSpec) -> None:
    first: dict[str, StoredAnswer] = {}
    for answer in answers:
        if not answer.model:
            continue
        average = task.variants[answer.variant].averaged_over or answer.variant
        other = first.setdefault(average, answer)
        if other.model != answer.model:
            raise DataError(
                f"{answer.place}: an answer of {answer.model}, while {other.place} is one of "
                f"{other.model}; import each model separately, under its own --model"
            )


def _group_counts(job: ImportJob, found: Cells) -> tuple[GroupCounted, ...]:
    answered: dict[tuple[str, str], list[bool]] = {}
    for variant, sample in replay_run.planned(job, found):
        answered.setdefault((variant, sample.group), []).append((variant, sample.id) in found)
    return tuple(GroupCounted(*key, sum(flags), len(flags)) for key, flags in answered.items())


def _write_ratings(path: Path, job: ImportJob) -> Path | None:
    ratings = [
        (job.name, sample.id, sample.group, "mean", float(value), scale)
        for sample in job.samples
        for scale in job.task.rated
        for value in sample.references.get(scale, ())
    ]
    if ratings:
        frame = pandas.DataFrame(ratings, columns=list(COLUMNS))
        write_whole(path, ratings_text(frame).encode())
    return path if ratings else None


@dataclass(frozen=True, slots=True)
class _EarlierRun:
    folder: RunFolder
    judges: Set[str]
    cells: Cells


def _earlier_runs(results: Path, job: ImportJob, ledger: Ledger) -> list[_EarlierRun]:
    runs, task = [], job.task
    for path in sorted((results / "runs" / job.name / job.model).glob("*/run.json")):
        folder = RunFolder(path.parent)
        if (whole := _whole(folder)) is None:
            continue
        file = whole.file
        here = (KIND, job.data.label, task.mode, task.decodings)
        there = (file.model.kind, file.data.label, file.task.mode, file.task.decodings)
        is_like = here == there and set(file.run.variants) <= set(task.variants)
        cells = _stored_cells(folder, ledger) if is_like else None
        if cells is not None:
            runs.append(_EarlierRun(folder, {entry.name for entry in file.judges}, cells))
    return runs


def _whole(folder: RunFolder) -> StoredRun | None:
    """The run of a folder; None where there is none, or, after a warning, where it is damaged."""
    if not (folder.path / RUN).exists():
        return None
    try:
        return StoredRun.read_all(folder)
    except StoreError as error:
        _log.warning("%s, as by importing its files again", error)
        return None


def _joined(new: Cells, earlier: Sequence[_EarlierRun]) -> Cells:
    """The new answers with those of the one earlier run that they continue, if there is one.

    A run that has all of them is that one; where they could continue several, they continue none.
    """
    for run in earlier:
        if _is_within(new, run.cells):
            return run.cells
    whole = [
        run
        for run in earlier
        if not any(run is not other and _is_within(run.cells, other.cells) for other in earlier)
    ]
    fitting = [run for run in whole if not _has_other_questions(new, run.cells)]
    return {**fitting[0].cells, **new} if len(fitting) == 1 else new


def _is_within(cells: Cells, others: Cells) -> bool:
    return cells.keys() <= others.keys() and not _has_other_questions(cells, others)


def _has_other_questions(cells: Cells, others: Cells) -> bool:
    return any(
        place in others and others[place].question != answer.question
        for place, answer in cells.items()
    )


def _stored_cells(folder: RunFolder, ledger: Ledger) -> Cells | None:
    rows = folder.read_rows()
    keys = step_keys(rows)
    responses, requests = ledger.find(keys), ledger.asked(keys)
    if len(responses) < len(set(keys)):
        return None
    return {
        (row.variant, row.sample.id): StoredAnswer(
            place="an earlier import",
            sample_id=row.sample.id,
            variant=row.variant,
            messages=requests[key].messages,
            texts=responses[key].texts or (),
            choices=requests[key].choices,
            scores=responses[key].choice_scores or (),
        )
        for row, key in zip(rows, keys, strict=True)
        if responses[key].failure is None
    }
