"""Files of answers that other programs stored to one judged run; no model is asked."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

from harness.data.map_drafts import import_map
from harness.data.ratings import COLUMNS, MEAN, ratings_text
from harness.errors import DataError, SpecError, StoreError, did_you_mean
from harness.importers.formats.inspect_log import ZIPPED
from harness.importers.record import SampleLookup, StoredAnswer
from harness.importers.run import ImportJob, as_answered, file_of, joined, records
from harness.lazy import DataFrame, pandas
from harness.pipeline.execute import RunResult, judge
from harness.pipeline.resolve import resolve_stored
from harness.specs.data import MapSpec
from harness.specs.tasks import TaskSpec
from harness.storage.files import write_whole
from harness.storage.ledger import Ledger
from harness.storage.runs import RUN, RunFolder, StoredRun
from harness.storage.tables import FileFormat, format_by_name, read_file, read_text
from harness.workspace import Workspace

# A layout is a module with LOOKS_FOR, recognises(text) and read(path, text, lookup, spec). Those of
# released data are named by the tasks they answer; logs of other harnesses answer any.
RELEASED = {"rated_replies": "topical_chat"}
LOGS = {"lm_eval": "lm_eval_log", "inspect": "inspect_log"}
_log = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True, slots=True)
class Imported:
    """A judged run of imported answers, and what was in the files.

    `counts` has variant, group, `found` answers and planned `samples`, `notes` has path, what and
    rows. `ratings` is the file of people's ratings, None where the task has none.
    """

    done: RunResult
    counts: DataFrame
    notes: DataFrame
    ratings: Path | None


def import_answers(
    space: Workspace, files: Sequence[Path], name: str, model: str, column_map: str | None = None
) -> Imported:
    """Store the answers of some files to a task, judge them with its judges, write a run folder.

    `column_map` is a name or the path of a YAML file. Raises DataError, before anything is
    written, for a file that contradicts what is stored.
    """
    if not _NAME.fullmatch(model):
        raise SpecError(
            f"--model {model!r}: give a name of letters, digits, dots, dashes, plus signs and "
            "underscores that begins with a letter or digit"
        )
    task = space.registry.load("tasks", name)
    spec = space.registry.load("configs/imports", column_map) if column_map else None
    layouts = _layouts(task, name, spec)
    texts = [_content(path) for path in files]
    every = layouts.values()
    chosen = [next((one for one in every if one.recognises(text)), None) for text in texts]
    if None in chosen:
        raise _unknown(space, task, files[chosen.index(None)], layouts)
    samples, data = space.measured(*space.samples(task.data), task.implicitness)
    lookup = SampleLookup(name, task, samples, space.registry.prompts, data.mode)
    answers: list[StoredAnswer] = []
    notes = []
    for layout, path, text in zip(filter(None, chosen), files, texts, strict=True):
        own, counts = layout.read(path, text, lookup, spec)
        answers += own
        notes += [(path, what, rows) for what, rows in counts.items() if rows]
    task = as_answered(task, answers, spec.temperature if spec else None)
    job = ImportJob(name, task, samples, data, model, joined(answers))
    return Imported(
        done=_stored(space, job),
        counts=_counts(job),
        notes=pandas.DataFrame(notes, columns=["path", "what", "rows"]),
        ratings=_write_ratings(space.results / "ratings" / f"{name}.csv", job),
    )


def _stored(space: Workspace, job: ImportJob) -> RunResult:
    """The run of a job, judged; an earlier import of the same answers keeps its verdicts."""
    ledger = Ledger(space.results / "calls" / job.model)
    file, rows = file_of(job), records(ledger, job)
    folder = RunFolder(space.results / "runs" / job.name / job.model / file.digest[:16])
    if (folder.path / RUN).exists():
        try:
            before = StoredRun.read(folder)
        except StoreError as error:
            _log.warning("%s, as by importing its files again", error)
        else:
            file = replace(file, judges=before.file.judges)
            pairs = zip(rows, before.rows, strict=True)
            rows = [replace(row, verdicts=old.verdicts) for row, old in pairs]
    folder.write(file, rows)
    return judge(resolve_stored(space, folder, job.task.judges))


def _layouts(task: TaskSpec, name: str, spec: MapSpec | None) -> dict[str, ModuleType]:
    """The layouts that a file may have: that of a map, else those of the task and all logs."""
    if spec is not None:
        known = {str(spec.format): LOGS.get(spec.format, "column_map")}
    else:
        if strange := [one for one in task.imports if one not in RELEASED]:
            near = did_you_mean(strange[0], [*RELEASED])
            raise SpecError(f"task {name}: `imports`: no layout {strange[0]!r}{near}")
        known = {one: RELEASED[one] for one in task.imports} | LOGS
    return {one: import_module(f"harness.importers.formats.{at}") for one, at in known.items()}


def _content(path: Path) -> str:
    """The text of a file; of a zipped log its first bytes, of Parquet nothing."""
    if format_by_name(path.name) is FileFormat.PARQUET:
        return ""
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(ZIPPED)) == ZIPPED.encode("latin-1"):
                return ZIPPED
    return read_text(path)


def _unknown(
    space: Workspace, task: TaskSpec, path: Path, layouts: Mapping[str, ModuleType]
) -> DataError:
    """The error for a file of no layout; it ends in a map to fill in, where the file is a table."""
    known = "; ".join(f"{name}: {layout.LOOKS_FOR}" for name, layout in layouts.items())
    fact = (
        f"{path}: of no layout known here, or cut; layouts known: {known}; for others, say with "
        "--map which column is what"
    )
    kind = format_by_name(path.name)
    if kind not in (FileFormat.CSV, FileFormat.JSONL, FileFormat.PARQUET):
        return DataError(fact)
    try:
        columns = [name for name in read_file(path).columns if name]
    except DataError:
        return DataError(fact)
    source = space.registry.resource(task.data.sample)
    samples = space.registry.read("samples_jsonl", [source], None)
    fields = sorted({name for sample in samples[:1] for name in sample.fields})
    draft = import_map(path, columns, fields=fields, form=kind)
    return DataError(f"{fact}; a map to fill in, for --map FILE.yaml:\n\n{draft}\n")


def _counts(job: ImportJob) -> DataFrame:
    rows = [
        (cell.variant, cell.sample.group, (cell.variant, cell.sample.id) in job.answers)
        for cell in job.planned
    ]
    frame = pandas.DataFrame(rows, columns=["variant", "group", "is_found"])
    by = frame.groupby(["variant", "group"], sort=False)["is_found"]
    return by.agg(found="sum", samples="size").reset_index()


def _write_ratings(path: Path, job: ImportJob) -> Path | None:
    ratings = [
        (job.name, sample.id, sample.group, MEAN, float(value), scale)
        for sample in job.samples
        for scale in job.task.rated
        for value in sample.references.get(scale, ())
    ]
    if ratings:
        frame = pandas.DataFrame(ratings, columns=list(COLUMNS))
        write_whole(path, ratings_text(frame).encode())
    return path if ratings else None
