"""Other people's stored answers to ledger records and a run, which judges then read.

A file's layout is told by its content. What was asked and answered is kept as it stands; what
the files lack counts as missing. Nothing here asks a model anything.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import msgspec

from harness import __version__, evidence, jobs, pipeline
from harness.core import Request, Response, Run, Sample
from harness.errors import DataError, SpecError
from harness.ledger import Ledger
from harness.parts import Decoding, Reason, digest
from harness.pipeline import Taken, Trial
from harness.ratings import Rating, ratings_text
from harness.replays import rated_replies
from harness.replays.answer import StoredAnswer
from harness.runs import DataEntry, ModelEntry, Row, RunFile, RunFolder, write_whole
from harness.specs.tasks import TaskSpec
from harness.tables import read_text
from harness.ways import label
from harness.workspace import Workspace

# A layout is a module with LOOKS_FOR, recognises(text) and read(path, text, variants).
LAYOUTS = {"rated_replies": rated_replies}
KIND, ABSENT = "replay", "not in the imported files"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")

Cells = Mapping[tuple[str, str], StoredAnswer]


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What `import` is told: files, the task they answer, the name of the model that answered."""

    files: tuple[Path, ...]
    task: str
    model: str


@dataclass(frozen=True, slots=True)
class Counted:
    """How many samples of a task the files hold an answer to, under one variant."""

    variant: str
    found: int
    samples: int


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import leaves: a judged run, what was found, and people's ratings where known."""

    done: jobs.Done
    counts: tuple[Counted, ...]
    ratings: Path | None


@dataclass(frozen=True, slots=True)
class _Job:
    """A task, its samples and the model whose answers are imported."""

    name: str
    task: TaskSpec
    samples: tuple[Sample, ...]
    data: DataEntry
    model: str

    @property
    def identity(self) -> str:
        """The model's identity: all that is known of it is what it is called."""
        return f"{KIND}:{self.model}@{self.name}"


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
    layouts = _layouts(task, options.task)
    stored = [a for path in options.files for a in _read(path, task, layouts)]
    samples, data = space.samples(task.data)
    job = _Job(options.task, task, tuple(samples), data, options.model)
    cells = _cells(job, stored)
    run = _run(job, cells)
    trials = _kept(Ledger(space.results / "calls" / job.model), job, run=run, cells=cells)
    folder = RunFolder(space.results / "runs" / job.name / job.model / run.digest[:16])
    file = _file(job, run, _words(job, run.variants, cells))
    _write(folder, file, [evidence.row(trial) for trial in trials])
    return Imported(
        done=jobs.judge(space, folder, task.judges),
        counts=tuple(
            Counted(name, sum(v == name for v, _ in cells), len(samples)) for name in run.variants
        ),
        ratings=_write_ratings(space.results / "ratings" / f"{job.name}.csv", job),
    )


def _layouts(task: TaskSpec, name: str) -> dict[str, ModuleType]:
    """The layouts in which answers to a task are known to be stored."""
    if unknown := [layout for layout in task.imports if layout not in LAYOUTS]:
        raise SpecError(
            f"task {name}: no layout {unknown[0]!r} in `imports`; known: {', '.join(LAYOUTS)}"
        )
    if not task.imports:
        raise SpecError(
            f"task {name} names no layout of stored answers in `imports`; known: "
            f"{_described(LAYOUTS)}"
        )
    return {layout: LAYOUTS[layout] for layout in task.imports}


def _read(path: Path, task: TaskSpec, layouts: Mapping[str, ModuleType]) -> list[StoredAnswer]:
    """The answers of one file, in the one layout that recognises it."""
    if path.is_dir():
        raise DataError(f"{path}: a folder; name the files in it")
    text = read_text(path)
    for layout in layouts.values():
        if layout.recognises(text):
            return list(layout.read(path, text, tuple(task.variants)))
    raise DataError(f"{path}: {_why_unknown(text)}; layouts known: {_described(layouts)}")


def _described(layouts: Mapping[str, ModuleType]) -> str:
    return "; ".join(f"{name}: {layout.LOOKS_FOR}" for name, layout in layouts.items())


def _why_unknown(text: str) -> str:
    """What keeps a file from being in any layout, as far as can be told."""
    if not text.lstrip().startswith(("[", "{")):
        return "of no layout known here"
    try:
        content = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        return f"not JSON ({error})"
    return "of no layout known here" if content else "nothing in it"


def _cells(job: _Job, stored: Sequence[StoredAnswer]) -> Cells:
    """Each answer by its variant and sample; one that fits none, or two that differ, are errors."""
    known = {_mark(sample.group, sample.fields): sample.id for sample in job.samples}
    cells: dict[tuple[str, str], StoredAnswer] = {}
    for answer in stored:
        sample = known.get(_mark(answer.group, answer.fields))
        if sample is None:
            raise DataError(
                f"{answer.place}: of {answer.group!r}, not among the {len(known)} samples of task "
                f"{job.name} ({job.data.mode} data); name the data it belongs to with --data"
            )
        held = cells.setdefault((answer.variant, sample), answer)
        if (held.messages, held.texts) != (answer.messages, answer.texts):
            raise DataError(
                f"{answer.place}: another prompt or other replies on {answer.variant} of sample "
                f"{sample} than {held.place}; import them apart, under models of their own"
            )
    if not cells:
        raise DataError("no answer in any of the files; name files that hold some")
    return cells


def _mark(group: str, fields: Mapping[str, str]) -> str:
    """What tells one sample from all others."""
    return digest((group, dict(fields)))


def _run(job: _Job, cells: Cells) -> Run:
    """The run that the answers make up: its digest covers the prompts stored with them."""
    variants = tuple(name for name in job.task.variants if any(v == name for v, _ in cells))
    drawn = job.task.decodings[0]
    most = max(len(answer.texts) for answer in cells.values())
    return Run(
        task=job.name,
        variants=variants,
        model=job.identity,
        decodings=(Decoding(drawn.temperature, drawn.max_tokens, n=most),),
        seed=0,
        limit=None,
        prompts=digest(_words(job, variants, cells)),
        data=job.data.label,
    )


def _words(job: _Job, variants: Sequence[str], cells: Cells) -> dict[str, str]:
    """Digest of all that shaped the answers, by variant."""
    asked: dict[str, dict[str, object]] = {name: {} for name in variants}
    for (name, sample), answer in cells.items():
        asked[name][sample] = (answer.messages, len(answer.texts))
    fixed = (job.task.cut, job.task.decodings[0])
    return {name: digest((fixed, part)) for name, part in asked.items()}


def _kept(ledger: Ledger, job: _Job, *, run: Run, cells: Cells) -> list[Trial]:
    """The trials of a run, their answers in the ledger; a missing answer is a failure there."""
    calls = [
        (sample, _request(job, variant, sample=sample, answer=cells.get((variant, sample.id))))
        for variant in run.variants
        for sample in job.samples
    ]
    found = ledger.find([request.key for _, request in calls])
    new: dict[str, tuple[Request, Response]] = {}
    for sample, request in calls:
        answer = cells.get((request.variant, sample.id))
        response = _response(request, answer)
        held = found.setdefault(request.key, response)
        if held is response:
            new[request.key] = (request, response)
        elif answer is not None and held.texts != response.texts:
            raise DataError(
                f"{answer.place}: other replies than those stored for the same prompt by model "
                f"{job.model}; import it under a --model of its own"
            )
    _add(ledger, list(new.values()))
    return [_trial(job, sample, request=request, held=found) for sample, request in calls]


def _add(ledger: Ledger, calls: Sequence[tuple[Request, Response]]) -> None:
    """Bring to disk what is not stored yet."""
    if not calls:
        return
    ledger.check()
    try:
        for request, response in calls:
            ledger.add(request, response)
    finally:
        ledger.close()


def _request(job: _Job, variant: str, *, sample: Sample, answer: StoredAnswer | None) -> Request:
    """What was asked; the sample is part of the model's name, since equal prompts may have been
    answered differently.
    """
    drawn, texts = job.task.decodings[0], answer.texts if answer else ("",)
    return Request(
        sample_id=sample.id,
        variant=variant,
        step=job.task.variants[variant].steps[-1].name,
        model=f"{job.identity}#{variant}/{sample.id}",
        messages=answer.messages if answer else (),
        decoding=Decoding(drawn.temperature, drawn.max_tokens, n=len(texts)),
    )


def _response(request: Request, answer: StoredAnswer | None) -> Response:
    if answer is None:
        return Response.failed(request.key, Reason.FAILED, ABSENT)
    return Response(key=request.key, texts=answer.texts)


def _trial(job: _Job, sample: Sample, *, request: Request, held: Mapping[str, Response]) -> Trial:
    part = Taken(request.step, request.key, request.messages, held[request.key])
    way = label(job.task, job.task.decodings[0])
    return pipeline.trial(sample, request.variant, decoding=way, taken=(part,), task=job.task)


def _file(job: _Job, run: Run, words: Mapping[str, str]) -> RunFile:
    return RunFile(
        digest=run.digest,
        run=run,
        task=job.task,
        model=ModelEntry(job.model, KIND, job.identity, None),
        data=job.data,
        variants=words,
        samples=len(job.samples),
        planned=len(job.samples) * len(run.variants),
        chance=job.task.chance,
        version=__version__,
    )


def _write(folder: RunFolder, file: RunFile, rows: Sequence[Row]) -> None:
    """Write the run folder, keeping the verdicts of judges that have read it before."""
    if (folder.path / "run.json").is_file():
        file = replace(file, judges=folder.read().judges)
        pairs = zip(rows, folder.read_rows(), strict=True)
        rows = [replace(row, verdicts=old.verdicts) for row, old in pairs]
    folder.write(file, rows)


def _write_ratings(path: Path, job: _Job) -> Path | None:
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
