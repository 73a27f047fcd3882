"""Boards to sentences: what was asked, who is better by how much, and what to beware of."""

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.analysis.boards.alarms import Row
from harness.analysis.boards.alarms import alarms as alarms_of
from harness.analysis.boards.views import board_notes
from harness.analysis.findings import difference_words
from harness.analysis.run_views import ComparedRun
from harness.lazy import DataFrame
from harness.parts import Mode
from harness.present.page.items import PageParts
from harness.present.page.tables import best, first, known
from harness.specs.models import CLASSIFIERS
from harness.storage.find_runs import data_words, is_trial, owner
from harness.storage.runs import RunFile

_ANSWERED = {
    Mode.CHOOSE: "chosen by log-probability",
    Mode.CHOOSE_TOKEN: "chosen by the log-probabilities of the likeliest next tokens",
    Mode.GENERATE: "written",
}
ALARMING_CUT = 0.1
"""The share of a model's answers that were cut, above which that is an alarm."""


def asked(files: Sequence[RunFile], called: Sequence[str] = ()) -> Iterator[str]:
    """Sentences a task: what it is about, its data, variants, models, ways of answering, judges.

    `called` has the tag and the day of each run.
    """
    by_task: dict[str, list[RunFile]] = {}
    for file in files:
        by_task.setdefault(file.run.task, []).append(file)
    days: dict[str, dict[str, None]] = {}
    for file, day in zip(files, called, strict=False):
        days.setdefault(file.run.task, {})[day] = None
    for task, own in by_task.items():
        variants = list(dict.fromkeys(name for file in own for name in file.run.variants))
        models = list(dict.fromkeys(file.model.name for file in own))
        judges = list(dict.fromkeys(judge.name for file in own for judge in file.judges))
        data = _sources(own)
        yield (
            f"{task}: {own[0].task.about} {_listed('Data', data)} "
            f"{_listed('Variants', variants)} {_listed('Models', models)} "
            f"{_listed('Answers', _answered(own))} "
            f"{_listed('Judges', judges)} {_listed('Dates', sorted(days.get(task, ())))}"
        ).removesuffix(" Dates: none.")


def _answered(files: Sequence[RunFile]) -> list[str]:
    """How answers were given; where models differ in it, by which of them."""
    ways: dict[str, dict[str, None]] = {}
    for file in files:
        is_label = file.model.kind in CLASSIFIERS
        way = "labels of a classifier" if is_label else _ANSWERED[file.task.mode]
        ways.setdefault(way, {})[file.model.name] = None
    return [f"{way} ({', '.join(own)})" if len(ways) > 1 else way for way, own in ways.items()]


def _sources(files: Sequence[RunFile]) -> list[str]:
    """How many samples of what; the label of the data only where words are the same."""
    made = dict.fromkeys((_source(file), file.data.label) for file in files)
    words = Counter(said for said, _ in made)
    return [f"{said} ({label})" if words[said] > 1 else said for said, label in made]


def _source(file: RunFile) -> str:
    data = file.data
    _, _, scorer = data.label.partition("+")
    made = data_words(file)
    if data.mode == "sample":
        made = f"{owner(data.files)}'s own{', for trying and not for measuring' * is_trial(file)}"
    measured = f", implicitness by {scorer.partition('@')[0]}" if scorer else ""
    return f"{file.samples} samples of {made}{measured}"


def _listed(name: str, parts: Sequence[str]) -> str:
    return f"{name}: {', '.join(parts) or 'none'}."


def unranked(boards: Sequence[DataFrame]) -> list[str]:
    """The tasks of boards on which no model is ranked, and why: a line a reason."""
    tasks: dict[str, dict[str, None]] = {}
    for board in boards:
        is_any = not board["is_control"].all()
        why = board_notes(board, has_ends=False) if is_any else ["Only controls have answered."]
        tasks.setdefault(" ".join(why), {})[first(board).task] = None
    return [f"No model is ranked on {', '.join(own)}. {why}" for why, own in tasks.items()]


def headline(board: DataFrame, compared: Sequence[Row], pick: str) -> str:
    """Who leads a board that ranks a model, and by how much, in words; `pick` is its name.

    `compared` has the leader less each other model; its p are corrected for all of them.
    """
    lines = best(board)
    where = f"On {first(board).task} ({pick})"
    if len(lines) == 1:
        return f"{where} one model is ranked. {_alone(lines[0])}"
    facts = [difference_words(row, (row.model_a, row.model_b)) for row in compared[:1]] or [
        f"{lines[0].model} has the highest value; no difference was computed"
    ]
    top = [row.model for row in lines if row.rank_group == 1]
    if len(top) > 2:
        words = f"not all of the first {len(top)} are significantly different"
        facts.append(f"{words}: {', '.join(top)}")
    return f"{where}, {'; '.join(facts)}."


def _alone(row: Row) -> str:
    said = f"{row.model} has {row.value:.3f}"
    if known(row.low) is not None:
        said += f" ({row.low:.3f} to {row.high:.3f})"
    low, high, chance = known(row.score_low), known(row.score_high), known(row.chance)
    if chance is None or low is None or high is None:
        return f"{said}."
    if low > chance:
        return f"{said}: above chance, which is {chance:.3f}."
    side = "below" if high < chance else "not significantly different from"
    return f"{said}: {side} chance, which is {chance:.3f}."


def alarms(made: PageParts, fitness: DataFrame) -> Iterator[str]:
    """What makes a number untrustworthy: constant, cut or missing answers, and unfit judges."""
    for alarm in alarms_of(made.scores).itertuples():
        yield f"{_where(made, alarm)}: {alarm.words}."
    for one in fitness[fitness["finding"] != "fit"].itertuples():
        yield f"Judge {one.judge} {one.words}: {one.task}, {one.variant}."
    for run, cut in zip(made.stored, made.cut, strict=True):
        if cut > ALARMING_CUT * run.answers:
            where = f"{run.file.model.name} on {run.file.run.task}"
            yield (
                f"{where}: {cut} of {run.answers} answers reached their token limit and were "
                "cut; they are judged as they are."
            )
        yield from _gaps(run)


def _where(made: PageParts, row: Row) -> str:
    """The model, task and variant of a score, and its data where the task was asked on several."""
    data = {
        run.file.data.label: data_words(run.file)
        for run in made.stored
        if run.file.run.task == row.task
    }
    own = f", {data.get(row.data, '')}" if len(data) > 1 else ""
    return f"{row.model} on {row.task}, {row.variant}{own}"


def _gaps(run: ComparedRun) -> Iterator[str]:
    where = f"{run.file.model.name} on {run.file.run.task}"
    for gap in run.file.missing or ():
        what = f"verdicts by {gap.judge}" if gap.judge else "answers"
        said = f" (most often: {gap.said[0].message})" if gap.said else ""
        yield f"{where}: {gap.count} {what} are missing, {gap.reason}{said}."
