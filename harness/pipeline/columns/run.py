"""A run's records, taken in once and forgotten: all that its scores and its summary are made of."""

from collections.abc import Iterable
from dataclasses import replace

from harness.pipeline.columns.calls import RunCalls
from harness.pipeline.columns.readings import (
    AskedColumns,
    Readings,
    Samples,
    VerdictColumns,
    chunks,
)
from harness.pipeline.records import Missing
from harness.specs.tasks import TaskSpec
from harness.storage.runs import RunFile, SampleRecord


class RunColumns:
    """What scores need of records, in about a hundred bytes a record and judge.

    Records may come in chunks of any size, and in one order alone: that of the plan.
    """

    def __init__(self, task: TaskSpec) -> None:
        """Hold no record yet; `task` says by which reference missed texts are counted."""
        self._samples = AskedColumns(task.classes.by if task.classes else None)
        self._verdicts: dict[str, VerdictColumns] = {}
        self._made: Samples | None = None
        self.calls, self.missing = RunCalls(), Missing()

    @classmethod
    def of(cls, task: TaskSpec, records: Iterable[SampleRecord]) -> "RunColumns":
        """The columns of some records."""
        made = cls(task)
        made.add(records)
        return made

    @property
    def count(self) -> int:
        """How many records were added."""
        return self._samples.count

    def add(self, records: Iterable[SampleRecord]) -> None:
        """Add further records, which need not be kept."""
        self._made = None
        for chunk in chunks(records):
            start = self.count
            self.calls.add(start, chunk)
            self.missing.add(chunk)
            for name in dict.fromkeys(name for record in chunk for name in record.verdicts):
                read = [
                    (at, r.verdicts[name])
                    for at, r in enumerate(chunk, start)
                    if name in r.verdicts
                ]
                column = self._verdicts.setdefault(name, VerdictColumns())
                column.add([at for at, _ in read], [verdict for _, verdict in read])
            self._samples.add(chunk)

    @property
    def samples(self) -> Samples:
        """What is known of the sample behind each record."""
        self._made = self._made or self._samples.samples
        return self._made

    def readings(self, judge: str) -> Readings:
        """One judge's verdicts; none where it has read nothing."""
        return self._verdicts.get(judge, VerdictColumns()).readings(self.samples)

    def summed(self, file: RunFile) -> RunFile:
        """A run's file with the costs of its records, and with what is missing of them."""
        costs = self.calls.costs(file.judges, file.model.identity)
        missing = self.missing.summary
        check = self.calls.unbatched_check
        file = replace(file, costs=costs, redrawn=self.calls.redrawn, missing=missing)
        return replace(file, unbatched_check=check)
