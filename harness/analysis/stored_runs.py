"""Run folders to stored runs: a run file with its records, one for each answer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.errors import StoreError, did_you_mean
from harness.storage.runs import RunFile, RunFolder, SampleRecord


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What was run, and its records: one for each sample, variant and decoding."""

    file: RunFile
    rows: Sequence[SampleRecord]

    @classmethod
    def read(cls, folder: RunFolder) -> "StoredRun":
        """The run of a folder."""
        return cls(folder.read(), folder.read_rows())

    @property
    def by_group(self) -> bool:
        """Whether the samples' groups are the systems, which the run's model judges."""
        return self.file.task.unit.system == "group"


def stored_runs(folders: Iterable[RunFolder], task: str) -> list[StoredRun]:
    """The runs of a task, in the order of their folders; StoreError without any."""
    files = [(folder, folder.read()) for folder in folders]
    runs = [StoredRun(file, folder.read_rows()) for folder, file in files if file.run.task == task]
    if not runs:
        known = sorted({file.run.task for _, file in files})
        raise StoreError(
            f"no run of task {task!r}{did_you_mean(task, known)}; "
            "`harness run` makes one, or see --results"
        )
    return runs
