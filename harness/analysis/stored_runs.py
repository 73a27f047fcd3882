"""Run folders to stored runs: what was run, with one record for each answer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.errors import StoreError, did_you_mean
from harness.storage.runs import RunFile, RunFolder, SampleRecord


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What was run, and its rows."""

    file: RunFile
    rows: Sequence[SampleRecord]

    @property
    def by_group(self) -> bool:
        """Whether the systems are the samples' groups, and the run's model a judge of them."""
        return self.file.task.unit.system == "group"


def stored_runs(folders: Iterable[RunFolder], task: str) -> list[StoredRun]:
    """The runs of a task, in the order of their folders."""
    found = [(folder, folder.read()) for folder in folders]
    runs = [StoredRun(file, folder.read_rows()) for folder, file in found if file.run.task == task]
    if not runs:
        known = sorted({file.run.task for _, file in found})
        raise StoreError(
            f"no run of task {task!r}{did_you_mean(task, known)}; "
            "`harness run` makes one, or see --results"
        )
    return runs
