"""Stored runs to views: what one judge makes of each sample, under one variant and decoding.

The variants of a pool, which are orders of the same choices, are one more view together. Nothing
here compares two views.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from harness.analysis.panels import StoredRun
from harness.core import Sample
from harness.errors import SpecError, StoreError, did_you_mean
from harness.judges.label import JudgeLabel
from harness.pipeline import choice_scores
from harness.pipeline.score import averages, signature
from harness.storage.runs import JudgeEntry, RunFile, SampleRecord, VerdictRecord
from harness.storage.signature import JudgeRecipe


@dataclass(frozen=True, slots=True)
class ItemScore:
    """What a judge makes of one sample; `value` is null where the verdict is missing."""

    sample: Sample
    value: float | None


@dataclass(frozen=True, slots=True)
class RunView:
    """One run as one judge reads it under a variant or pool; its readings by sample id.

    `snapshots` are those of the model under test and of the judge model, empty where unknown.
    """

    file: RunFile
    judge: JudgeEntry
    variant: str
    decoding: str
    readings: Mapping[str, ItemScore]
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


def views(run: StoredRun, judge: JudgeEntry) -> list[RunView]:
    """Every view of a run by a judge: its variants, then the pools that are whole."""
    snapshots = _snapshots(run, judge)
    read: dict[tuple[str, str], dict[str, ItemScore]] = {}
    for row, verdict in _read(run.rows, judge):
        held = read.setdefault((row.variant, row.decoding), {})
        held[row.sample.id] = ItemScore(row.sample, verdict.value)
    found = [RunView(run.file, judge, *key, held, snapshots) for key, held in read.items()]
    for pool, members in averages(run.file.task).items():
        for decoding in dict.fromkeys(way for name, way in read if name in members):
            if all((name, decoding) in read for name in members):
                held = _pooled(run.rows, judge, members=members, decoding=decoding)
                found.append(RunView(run.file, judge, pool, decoding, held, snapshots, True))
    return found


def _read(
    rows: Sequence[SampleRecord], judge: JudgeEntry
) -> Iterator[tuple[SampleRecord, VerdictRecord]]:
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
            f"{describe_run(run.file)}, judge {judge.name}: several snapshots stand "
            "behind its verdicts "
            f"({told}), which share no row; name one in the model's YAML and repeat the run"
        )
    return found.pop() if found else ("", "")


def _pooled(
    rows: Sequence[SampleRecord], judge: JudgeEntry, *, members: Sequence[str], decoding: str
) -> dict[str, ItemScore]:
    """Each sample over the variants of a pool; it is missing where any of them is."""
    held: dict[str, list[tuple[SampleRecord, VerdictRecord]]] = {}
    for row, verdict in _read(rows, judge):
        if row.variant in members and row.decoding == decoding:
            held.setdefault(row.sample.id, []).append((row, verdict))
    return {name: ItemScore(part[0][0].sample, _together(part)) for name, part in held.items()}


def _together(readings: Sequence[tuple[SampleRecord, VerdictRecord]]) -> float | None:
    """The reading of a sample shown in several orders, by its averaged probabilities.

    Without probabilities, as of written answers, it is the mean of its verdicts.
    """
    values = [verdict.value for _, verdict in readings if verdict.value is not None]
    if len(values) < len(readings):
        return None
    if all(verdict.shares for _, verdict in readings):
        return choice_scores.permuted(readings)[0]
    return fsum(values) / len(values)


RIGHT_OR_WRONG = "accuracy"


def judge_named(run: StoredRun, name: str) -> JudgeEntry:
    """The judge of a name, which must have read the run."""
    entries = {entry.name: entry for entry in run.file.judges}
    if name not in entries:
        raise SpecError(
            f"{describe_run(run.file)} was not read by judge "
            f"{name!r}{did_you_mean(name, list(entries))}; "
            f"have it read: harness judge {run.file.digest[:12]} --judge {name}"
        )
    return entries[name]


def response_judges(run: StoredRun) -> list[JudgeEntry]:
    """The judges that say right or wrong of a run's responses, the task's own first."""
    own = list(run.file.task.judges)

    def place(entry: JudgeEntry) -> int:
        plain = JudgeLabel.parse(entry.name).name
        return own.index(plain) if plain in own else len(own)

    found = [
        entry
        for entry in run.file.judges
        if entry.metric == RIGHT_OR_WRONG and not entry.step and not _is_swapped(entry)
    ]
    return sorted(found, key=place)


def _is_swapped(entry: JudgeEntry) -> bool:
    return JudgeLabel.parse(entry.name).is_swapped


def step_judges(run: StoredRun) -> list[JudgeEntry]:
    """The judges that say right or wrong of what an earlier step came to."""
    return [entry for entry in run.file.judges if entry.step and not _is_swapped(entry)]


def closest_judge(judge: JudgeEntry, others: Sequence[JudgeEntry]) -> JudgeEntry | None:
    """The judge most like another: one that asks the same model, then one of the same way.

    The way is what a recipe says last: the encoder, or in how many orders a model is asked.
    """

    def likeness(other: JudgeEntry) -> tuple[bool, bool]:
        way = JudgeRecipe.parse(judge.recipe).way == JudgeRecipe.parse(other.recipe).way
        return judge.identity == other.identity, way

    return max(others, key=likeness, default=None)


def describe_run(file: RunFile) -> str:
    """How messages name a run."""
    return f"run {file.digest[:12]} ({file.model.name} on {file.run.task})"


def right_or_wrong_judges(run: StoredRun, name: str | None) -> list[JudgeEntry]:
    """The judges of a run that say right or wrong: the one named, or all that read responses."""
    found = response_judges(run) if name is None else [judge_named(run, name)]
    if bad := [entry for entry in found if entry.metric != RIGHT_OR_WRONG]:
        raise SpecError(
            f"judge {bad[0].name} gives {bad[0].metric}, not right or wrong, and cannot be laid "
            "beside another task's; name another judge"
        )
    if not found:
        raise SpecError(
            f"{describe_run(run.file)}: no judge has said right or wrong of its "
            "responses; have one: "
            f"harness judge {run.file.digest[:12]} --judge NAME"
        )
    return found


def intention_judges(run: StoredRun, name: str | None) -> list[JudgeEntry]:
    """The judges of a run that read an earlier step: the one named, or all."""
    if name is None:
        return step_judges(run)
    if (entry := judge_named(run, name)).step is None:
        raise SpecError(
            f"judge {name} reads responses, not what was spelled out before; name one that has a "
            "`step`"
        )
    return [entry]


def judges_of_both(
    runs: tuple[StoredRun, StoredRun], judges: tuple[str | None, str | None]
) -> tuple[list[tuple[JudgeEntry, JudgeEntry]], list[str]]:
    """The judges that have read two runs of one task by one recipe, and which have not."""
    names = (judges[0] or judges[1], judges[1] or judges[0])
    if names[0] is not None and names[1] is not None:
        pairs = [(judge_named(runs[0], names[0]), judge_named(runs[1], names[1]))]
    else:
        theirs = {entry.name: entry for entry in runs[1].file.judges}
        ours = [entry for entry in runs[0].file.judges if not _is_swapped(entry)]
        pairs = [(entry, theirs[entry.name]) for entry in ours if entry.name in theirs]
    alike = [(one, other) for one, other in pairs if _recipe(one) == _recipe(other)]
    told = [
        f"recipes differ: {one.recipe} read {describe_run(runs[0].file)}, {other.recipe} read "
        f"{describe_run(runs[1].file)}"
        for one, other in pairs
        if _recipe(one) != _recipe(other)
    ]
    if not alike:
        read = [", ".join(entry.name for entry in run.file.judges) or "nobody" for run in runs]
        fact = told[0] if told else f"read by no judge alike: {read[0]}; {read[1]}"
        raise SpecError(f"{fact}; have one judge read both: harness judge RUN --judge NAME")
    return alike, told


def _recipe(judge: JudgeEntry) -> tuple[str | None, ...]:
    return judge.recipe, judge.identity, judge.step
