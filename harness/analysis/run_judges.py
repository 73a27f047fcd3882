"""The judges of stored runs: by name, by what they read, and which of them two runs share.

A judge that has not read a run, or that cannot serve, is refused with the fact and the remedy.
Nothing here reads a verdict.
"""

from collections.abc import Sequence

from harness.analysis.panels import StoredRun
from harness.errors import SpecError
from harness.judges.swapped import SWAPPED
from harness.specs.schema import nearest
from harness.storage.runs import JudgeEntry, RunFile

RIGHT_OR_WRONG = "accuracy"
THROUGH = "/"
"""Stands in a judge's label before the model it asked in place of its own: choice/beta."""


def judge_named(run: StoredRun, name: str) -> JudgeEntry:
    """The judge of a name, which must have read the run."""
    entries = {entry.name: entry for entry in run.file.judges}
    if name not in entries:
        raise SpecError(
            f"{called(run.file)} was not read by judge {name!r}{nearest(name, list(entries))}; "
            f"have it read: harness judge {run.file.digest[:12]} --judge {name}"
        )
    return entries[name]


def response_judges(run: StoredRun) -> list[JudgeEntry]:
    """The judges that say right or wrong of a run's responses, the task's own first."""
    own = list(run.file.task.judges)

    def place(entry: JudgeEntry) -> int:
        plain = entry.name.partition(THROUGH)[0]
        return own.index(plain) if plain in own else len(own)

    found = [
        entry
        for entry in run.file.judges
        if entry.metric == RIGHT_OR_WRONG and not entry.step and not entry.name.endswith(SWAPPED)
    ]
    return sorted(found, key=place)


def step_judges(run: StoredRun) -> list[JudgeEntry]:
    """The judges that say right or wrong of what an earlier step came to."""
    return [entry for entry in run.file.judges if entry.step and not entry.name.endswith(SWAPPED)]


def likest(judge: JudgeEntry, others: Sequence[JudgeEntry]) -> JudgeEntry | None:
    """The judge most like another: one that asks the same model, then one of the same way.

    The way is what a recipe says last: the encoder, or in how many orders a model is asked.
    """

    def likeness(other: JudgeEntry) -> tuple[bool, bool]:
        way = judge.recipe.rpartition("|")[2] == other.recipe.rpartition("|")[2]
        return judge.identity == other.identity, way

    return max(others, key=likeness, default=None)


def called(file: RunFile) -> str:
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
            f"{called(run.file)}: no judge has said right or wrong of its responses; have one: "
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
        ours = [entry for entry in runs[0].file.judges if not entry.name.endswith(SWAPPED)]
        pairs = [(entry, theirs[entry.name]) for entry in ours if entry.name in theirs]
    alike = [(one, other) for one, other in pairs if _recipe(one) == _recipe(other)]
    told = [
        f"recipes differ: {one.recipe} read {called(runs[0].file)}, {other.recipe} read "
        f"{called(runs[1].file)}"
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
