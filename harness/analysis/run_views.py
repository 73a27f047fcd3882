"""Stored runs to views: one judge's score of each sample, under one variant and decoding.

The variants of a pool, which are orders of the same choices, are one more view together. Also
here: the choice of the judges whose views are compared. Nothing here compares two views.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.analysis.stored_runs import StoredRun
from harness.core import Sample
from harness.errors import SpecError, StoreError, did_you_mean
from harness.judges.label import JudgeLabel
from harness.pipeline import choice_scores
from harness.pipeline.score import averages, signature
from harness.stats.estimate import mean
from harness.storage.runs import JudgeEntry, RunFile, SampleRecord, VerdictRecord
from harness.storage.signature import JudgeRecipe

RIGHT_OR_WRONG = "accuracy"
"""The metric of judges whose verdict is 1, 0 or, for a tie, between."""


@dataclass(frozen=True, slots=True)
class ItemScore:
    """One judge's score of one sample; `value` is None where the verdict is missing."""

    sample: Sample
    value: float | None


@dataclass(frozen=True, slots=True)
class RunView:
    """One judge's scores of a run under a variant or pool, by sample id.

    `snapshots` are those of the model under test and of the judge model, empty where unknown.
    """

    file: RunFile
    judge: JudgeEntry
    variant: str
    decoding: str
    scores: Mapping[str, ItemScore]
    snapshots: tuple[str, str]
    is_pool: bool = False

    def signature(self, decoding: str) -> str:
        """The recipe of these scores in one line, under the name of its decodings."""
        recipe = {"variant": self.variant, "decoding": decoding}
        return signature(self.file, self.judge, **recipe, snapshots=self.snapshots)


def views(run: StoredRun, judge: JudgeEntry) -> list[RunView]:
    """Every view of a run by a judge: its variants, then the pools that are whole."""
    snapshots = _snapshots(run, judge)
    scores: dict[tuple[str, str], dict[str, ItemScore]] = {}
    for row, verdict in _read(run.rows, judge):
        own = scores.setdefault((row.variant, row.decoding), {})
        own[row.sample.id] = ItemScore(row.sample, verdict.value)
    result = [RunView(run.file, judge, *key, own, snapshots) for key, own in scores.items()]
    for average, members in averages(run.file.task).items():
        for decoding in dict.fromkeys(label for name, label in scores if name in members):
            if all((name, decoding) in scores for name in members):
                own = _pooled(run.rows, judge, members=members, decoding=decoding)
                result.append(RunView(run.file, judge, average, decoding, own, snapshots, True))
    return result


def _read(
    rows: Sequence[SampleRecord], judge: JudgeEntry
) -> Iterator[tuple[SampleRecord, VerdictRecord]]:
    return ((row, row.verdicts[judge.name]) for row in rows if judge.name in row.verdicts)


def _snapshots(run: StoredRun, judge: JudgeEntry) -> tuple[str, str]:
    """The one pair of snapshots behind a judge's verdicts on a run; several are refused."""
    pairs = {
        (row.served or "", verdict.served or "")
        for row, verdict in _read(run.rows, judge)
        if verdict.value is not None
    }
    if len(pairs) > 1:
        names = "; ".join(" by ".join(name or "unknown" for name in pair) for pair in sorted(pairs))
        raise StoreError(
            f"{describe_run(run.file)}, judge {judge.name}: its verdicts are of several snapshots "
            f"({names}), which share no row; name one in the model's YAML and repeat the run"
        )
    return pairs.pop() if pairs else ("", "")


def _pooled(
    rows: Sequence[SampleRecord], judge: JudgeEntry, *, members: Sequence[str], decoding: str
) -> dict[str, ItemScore]:
    """Each sample over the variants of a pool; it is missing where any of them is."""
    by_sample: dict[str, list[tuple[SampleRecord, VerdictRecord]]] = {}
    for row, verdict in _read(rows, judge):
        if row.variant in members and row.decoding == decoding:
            by_sample.setdefault(row.sample.id, []).append((row, verdict))
    return {name: ItemScore(own[0][0].sample, _together(own)) for name, own in by_sample.items()}


def _together(orders: Sequence[tuple[SampleRecord, VerdictRecord]]) -> float | None:
    """The score of a sample shown in several orders, by its averaged probabilities.

    Without probabilities, as of written answers, it is the mean of its verdicts.
    """
    values = [verdict.value for _, verdict in orders if verdict.value is not None]
    if len(values) < len(orders):
        return None
    if all(verdict.shares for _, verdict in orders):
        return choice_scores.permuted(orders)[0]
    return mean(values)


def judge_named(run: StoredRun, name: str) -> JudgeEntry:
    """The judge of a name; SpecError where it has not read the run."""
    entries = {entry.name: entry for entry in run.file.judges}
    if name not in entries:
        raise SpecError(
            f"{describe_run(run.file)} was not read by judge {name!r}"
            f"{did_you_mean(name, list(entries))}; have it read: "
            f"harness judge {run.file.digest[:12]} --judge {name}"
        )
    return entries[name]


def response_judges(run: StoredRun) -> list[JudgeEntry]:
    """The judges whose verdict on a response is right or wrong, the task's own first."""
    own = list(run.file.task.judges)

    def place(entry: JudgeEntry) -> int:
        plain = JudgeLabel.parse(entry.name).name
        return own.index(plain) if plain in own else len(own)

    judges = [
        entry
        for entry in run.file.judges
        if entry.metric == RIGHT_OR_WRONG and not entry.step and not _is_swapped(entry)
    ]
    return sorted(judges, key=place)


def _is_swapped(entry: JudgeEntry) -> bool:
    return JudgeLabel.parse(entry.name).is_swapped


def closest_judge(judge: JudgeEntry, others: Sequence[JudgeEntry]) -> JudgeEntry | None:
    """The judge most like another: one that asks the same model, then one of the same method.

    The method ends a recipe: the encoder, or in how many orders a model is asked. None without
    others.
    """

    def likeness(other: JudgeEntry) -> tuple[bool, bool]:
        is_same_way = JudgeRecipe.parse(judge.recipe).way == JudgeRecipe.parse(other.recipe).way
        return judge.identity == other.identity, is_same_way

    return max(others, key=likeness, default=None)


def describe_run(file: RunFile) -> str:
    """A run in words, for messages."""
    return f"run {file.digest[:12]} ({file.model.name} on {file.run.task})"


def right_or_wrong_judges(run: StoredRun, name: str | None) -> list[JudgeEntry]:
    """The judges of a run that give right or wrong: the one named, or all that read responses."""
    judges = response_judges(run) if name is None else [judge_named(run, name)]
    if bad := [entry for entry in judges if entry.metric != RIGHT_OR_WRONG]:
        raise SpecError(
            f"judge {bad[0].name} gives {bad[0].metric}, not right or wrong, and cannot be "
            "compared with another task's; name another judge"
        )
    if not judges:
        raise SpecError(
            f"{describe_run(run.file)}: no judge has said right or wrong of its responses; have "
            f"one: harness judge {run.file.digest[:12]} --judge NAME"
        )
    return judges


def intention_judges(run: StoredRun, name: str | None) -> list[JudgeEntry]:
    """The judges of a run that read an earlier step: the one named, or all."""
    if name is None:
        own = run.file.judges
        return [entry for entry in own if entry.step and not _is_swapped(entry)]
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
    notes = [
        f"recipes differ: {one.recipe} read {describe_run(runs[0].file)}, {other.recipe} read "
        f"{describe_run(runs[1].file)}"
        for one, other in pairs
        if _recipe(one) != _recipe(other)
    ]
    if not alike:
        read = [", ".join(entry.name for entry in run.file.judges) or "nobody" for run in runs]
        fact = notes[0] if notes else f"read by no judge alike: {read[0]}; {read[1]}"
        raise SpecError(f"{fact}; have one judge read both: harness judge RUN --judge NAME")
    return alike, notes


def _recipe(judge: JudgeEntry) -> tuple[str | None, ...]:
    return judge.recipe, judge.identity, judge.step
