"""PageNumbers to sentences: what was asked, who is better by how much, and what to beware of."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.analysis.findings import constant_words, difference_words, fitness_words
from harness.analysis.fitness import ControlFinding, JudgeFitness
from harness.analysis.leaderboard import constant_alarms, headlines, place_alarms
from harness.analysis.report.pairs import ComparedRuns
from harness.analysis.report.tables import PageNumbers, best
from harness.analysis.standings import RankedTable
from harness.storage.runs import RunFile, StoredRun


def asked(runs: Sequence[StoredRun]) -> Iterator[str]:
    """A sentence a task: what it is about, on which data, by which variants, models and judges."""
    by_task: dict[str, list[StoredRun]] = {}
    for run in runs:
        by_task.setdefault(run.file.run.task, []).append(run)
    for task, own in by_task.items():
        variants = list(dict.fromkeys(name for run in own for name in run.file.run.variants))
        models = list(dict.fromkeys(run.file.model.name for run in own))
        judges = list(dict.fromkeys(judge.name for run in own for judge in run.file.judges))
        data = _sources([run.file for run in own])
        yield (
            f"{task}: {own[0].file.task.about} {_listed('Data', data)} "
            f"{_listed('Variants', variants)} {_listed('Models', models)} "
            f"{_listed('Judges', judges)}"
        )


def _sources(files: Sequence[RunFile]) -> list[str]:
    """How many samples of what; the label of the data only where words do not tell two apart."""
    made = dict.fromkeys((_source(file), file.data.label) for file in files)
    words = Counter(said for said, _ in made)
    return [f"{said} ({label})" if words[said] > 1 else said for said, label in made]


def _source(file: RunFile) -> str:
    data = file.data
    _, _, scorer = data.label.partition("+")
    made = "our own" if data.mode == "sample" else f"{data.source}, {data.mode}"
    measured = f", implicitness by {scorer.partition('@')[0]}" if scorer else ""
    return f"{file.samples} samples of {made}{measured}"


def _listed(name: str, parts: Sequence[str]) -> str:
    return f"{name}: {', '.join(parts) or 'none'}."


def unranked(tasks: Sequence[str]) -> list[str]:
    """The tasks on which no model is ranked, in one sentence; none where there are none."""
    named = ", ".join(dict.fromkeys(tasks))
    why = "only controls have answered, or nothing could be read"
    return [f"No model is ranked on {named}: {why}."] if named else []


def headline(board: RankedTable, compared: Sequence[ComparedRuns], pick: str) -> str:
    """Who leads a board that ranks a model, and by how much, in words; `pick` is its name."""
    lines = best(board)
    where = f"On {board.rows[0].task} ({pick})"
    if len(lines) == 1:
        return f"{where} one model is ranked. {_alone(board)}"
    facts = [_difference(one, len(compared)) for one in compared[:1]] or [
        f"{lines[0].row.model} has the highest value; no difference was computed"
    ]
    first = [line.row.model for line in lines if line.group == 1]
    if len(first) > 2:
        facts.append(f"not all of the first {len(first)} are told apart: {', '.join(first)}")
    return f"{where}, {'; '.join(facts)}."


def _alone(board: RankedTable) -> str:
    [line] = best(board)
    score, chance = line.row.score, line.row.chance
    said = f"{line.row.model} has {line.value:.3f}"
    if line.low is not None:
        said += f" ({line.low:.3f} to {line.high:.3f})"
    if chance is None or score.low is None or score.high is None:
        return f"{said}."
    if score.low > chance:
        return f"{said}: above chance, which is {chance:.3f}."
    side = "below" if score.high < chance else "not told apart from"
    return f"{said}: {side} chance, which is {chance:.3f}."


def _difference(one: ComparedRuns, tests: int) -> str:
    """One model against another; p is corrected for the models that were compared with it."""
    row = one.overall
    first, second = one.pairing.first.file.model.name, one.pairing.second.file.model.name
    if row is None:
        return f"{first} and {second} cannot be compared: no interval"
    return difference_words(replace(row, p_holm=one.p, tests=tests), (first, second))


def alarms(numbers: PageNumbers, fitness: Sequence[JudgeFitness]) -> Iterator[str]:
    """What makes a number untrustworthy: constant answers, unfit judges, missing answers."""
    for place in place_alarms(numbers.rows):
        row = place.row
        yield f"{row.model} on {row.task}, {row.score.variant}: {place.words}."
    for alarm in constant_alarms(numbers.rows, headlines(numbers.rows)):
        row = alarm.row
        yield f"{row.model} on {row.task}, {row.score.variant}: {constant_words(alarm)}."
    for one in fitness:
        if one.finding is not ControlFinding.FIT:
            yield f"Judge {one.ceiling.judge} {fitness_words(one)}: {one.recipe}."
    for run in numbers.made.stored:
        yield from _gaps(run)


def _gaps(run: StoredRun) -> Iterator[str]:
    where = f"{run.file.model.name} on {run.file.run.task}"
    for gap in run.file.missing or ():
        what = f"verdicts by {gap.judge}" if gap.judge else "answers"
        said = f" (most often: {gap.said[0].message})" if gap.said else ""
        yield f"{where}: {gap.count} {what} are missing, {gap.reason}{said}."
