"""An import and the earlier ones of the same model and task, to one set of answers.

Answers that come file by file end as one run, as if they had come together. Other prompts for
what is stored already make a run of their own. Nothing here judges.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.importers.answers import StoredAnswer
from harness.importers.run import KIND, Cells, ImportJob
from harness.pipeline.records import step_keys
from harness.storage.ledger import Ledger
from harness.storage.runs import RunFile, RunFolder


@dataclass(frozen=True, slots=True)
class Earlier:
    """A run of earlier imports: its folder, the judges that have read it, its answers."""

    folder: RunFolder
    judges: frozenset[str]
    cells: Cells


def earlier_runs(results: Path, job: ImportJob, ledger: Ledger) -> list[Earlier]:
    """The runs of earlier imports that were answered in the same way on the same data."""
    folders = sorted((results / "runs" / job.name / job.model).glob("*/run.json"))
    found = []
    for folder in (RunFolder(path.parent) for path in folders):
        file = folder.read()
        cells = _cells(folder, ledger) if _is_alike(file, job) else None
        if cells is not None:
            judges = frozenset(entry.name for entry in file.judges)
            found.append(Earlier(folder, judges, cells))
    return found


def joined(new: Cells, earlier: Sequence[Earlier]) -> Cells:
    """The new answers with those of the one earlier run that they go on, if there is one.

    A run that holds them all is that one. Several that they might go on are none.
    """
    for run in earlier:
        if _is_within(new, run.cells):
            return run.cells
    whole = [
        run
        for run in earlier
        if not any(run is not other and _is_within(run.cells, other.cells) for other in earlier)
    ]
    fitting = [run for run in whole if not _is_asked_otherwise(new, run.cells)]
    return {**fitting[0].cells, **new} if len(fitting) == 1 else new


def superseded(
    earlier: Sequence[Earlier], found: Cells, *, judges: Sequence[str]
) -> list[RunFolder]:
    """The folders of runs whose answers all stand in a later one, judged by the same judges."""
    return [
        run.folder
        for run in earlier
        if len(run.cells) < len(found)
        and _is_within(run.cells, found)
        and run.judges <= set(judges)
    ]


def remove(folder: RunFolder) -> None:
    """Remove the files of a run that a later one holds; what others put there stays."""
    for name in ("samples.jsonl", "scores.csv", "run.json"):
        (folder.path / name).unlink(missing_ok=True)
    if not any(folder.path.iterdir()):
        folder.path.rmdir()


def _is_alike(file: RunFile, job: ImportJob) -> bool:
    here = (KIND, job.data.label, job.task.mode, job.task.decodings)
    there = (file.model.kind, file.data.label, file.task.mode, file.task.decodings)
    return here == there and set(file.run.variants) <= set(job.task.variants)


def _is_within(cells: Cells, others: Cells) -> bool:
    return all(
        place in others and others[place].question == answer.question
        for place, answer in cells.items()
    )


def _is_asked_otherwise(cells: Cells, others: Cells) -> bool:
    return any(
        place in others and others[place].question != answer.question
        for place, answer in cells.items()
    )


def _cells(folder: RunFolder, ledger: Ledger) -> Cells | None:
    """The answers of a run, as they were imported; null where the ledger lacks one."""
    rows = folder.read_rows()
    keys = step_keys(rows)
    found, asked = ledger.find(keys), ledger.asked(keys)
    if len(found) < len(set(keys)):
        return None
    return {
        (row.variant, row.sample.id): StoredAnswer(
            place="an earlier import",
            sample_id=row.sample.id,
            variant=row.variant,
            messages=asked[key].messages,
            texts=found[key].texts or (),
            choices=asked[key].choices,
            scores=found[key].choice_scores or (),
        )
        for row, key in zip(rows, keys, strict=True)
        if found[key].failure is None
    }
