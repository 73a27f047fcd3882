"""Stored runs to views: what one judge makes of each sample, under one variant and decoding.

The variants of a pool, which are orders of the same choices, are one more view together. Nothing
here compares two views.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from harness.analysis.panels import StoredRun
from harness.analysis.run_judges import called
from harness.core import Sample
from harness.errors import StoreError
from harness.pipeline import choice_scores
from harness.pipeline.scores import pools, signature
from harness.storage.runs import JudgeEntry, Row, RunFile, VerdictRow


@dataclass(frozen=True, slots=True)
class Reading:
    """What a judge makes of one sample; `value` is null where the verdict is missing."""

    sample: Sample
    value: float | None


@dataclass(frozen=True, slots=True)
class View:
    """One run as one judge reads it under a variant or pool; its readings by sample id.

    `snapshots` are those of the model under test and of the judge model, empty where unknown.
    """

    file: RunFile
    judge: JudgeEntry
    variant: str
    decoding: str
    readings: Mapping[str, Reading]
    snapshots: tuple[str, str]
    is_pool: bool = False

    def signature(self, decoding: str) -> str:
        """The recipe of these readings in one line, under the name of its decodings."""
        return signature(
            self.file,
            self.judge,
            variant=self.variant,
            decoding=decoding,
            snapshots=self.snapshots,
        )


def views(run: StoredRun, judge: JudgeEntry) -> list[View]:
    """Every view of a run by a judge: its variants, then the pools that are whole."""
    snapshots = _snapshots(run, judge)
    read: dict[tuple[str, str], dict[str, Reading]] = {}
    for row, verdict in _read(run.rows, judge):
        held = read.setdefault((row.variant, row.decoding), {})
        held[row.sample.id] = Reading(row.sample, verdict.value)
    found = [View(run.file, judge, *key, held, snapshots) for key, held in read.items()]
    for pool, members in pools(run.file.task).items():
        for decoding in dict.fromkeys(way for name, way in read if name in members):
            if all((name, decoding) in read for name in members):
                held = _pooled(run.rows, judge, members=members, decoding=decoding)
                found.append(View(run.file, judge, pool, decoding, held, snapshots, True))
    return found


def _read(rows: Sequence[Row], judge: JudgeEntry) -> Iterator[tuple[Row, VerdictRow]]:
    return ((row, row.verdicts[judge.name]) for row in rows if judge.name in row.verdicts)


def _snapshots(run: StoredRun, judge: JudgeEntry) -> tuple[str, str]:
    """The one pair of snapshots behind a judge's verdicts on a run; several are refused."""
    found = {
        (row.served or "", verdict.served or "")
        for row, verdict in _read(run.rows, judge)
        if verdict.value is not None
    }
    if len(found) > 1:
        told = "; ".join(" by ".join(part or "unknown" for part in pair) for pair in sorted(found))
        raise StoreError(
            f"{called(run.file)}, judge {judge.name}: several snapshots stand behind its verdicts "
            f"({told}), which share no row; name one in the model's YAML and repeat the run"
        )
    return found.pop() if found else ("", "")


def _pooled(
    rows: Sequence[Row], judge: JudgeEntry, *, members: Sequence[str], decoding: str
) -> dict[str, Reading]:
    """Each sample over the variants of a pool; it is missing where any of them is."""
    held: dict[str, list[tuple[Row, VerdictRow]]] = {}
    for row, verdict in _read(rows, judge):
        if row.variant in members and row.decoding == decoding:
            held.setdefault(row.sample.id, []).append((row, verdict))
    return {name: Reading(part[0][0].sample, _together(part)) for name, part in held.items()}


def _together(readings: Sequence[tuple[Row, VerdictRow]]) -> float | None:
    """The reading of a sample shown in several orders, by its averaged probabilities.

    Without probabilities, as of written answers, it is the mean of its verdicts.
    """
    values = [verdict.value for _, verdict in readings if verdict.value is not None]
    if len(values) < len(readings):
        return None
    if all(verdict.shares for _, verdict in readings):
        return choice_scores.permuted(readings)[0]
    return fsum(values) / len(values)
