"""Boards to sentences: what was asked, who is better by how much, and what to beware of."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.analysis.boards.alarms import Row
from harness.analysis.boards.alarms import alarms as alarms_of
from harness.analysis.boards.views import board_notes
from harness.analysis.findings import difference_words
from harness.lazy import DataFrame
from harness.parts import Mode
from harness.present.page.items import PageParts
from harness.present.page.tables import best, first, known
from harness.specs.models import CLASSIFIERS
from harness.storage.find_runs import data_words, is_trial
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
    for task in dict.fromkeys(file.run.task for file in files):
        own = [file for file in files if file.run.task == task]
        parts: dict[str, Iterable[str]] = {
            "Data": _sources(own),
            "Variants": dict.fromkeys(name for file in own for name in file.run.variants),
            "Models": dict.fromkeys(file.model.name for file in own),
            "Answers": _answered(own),
            "Judges": dict.fromkeys(judge.name for file in own for judge in file.judges),
        }
        days = {day for file, day in zip(files, called, strict=False) if file.run.task == task}
        parts |= {"Dates": sorted(days)} if days else {}
        said = [f"{name}: {', '.join(found) or 'none'}." for name, found in parts.items()]
        yield " ".join([f"{task}: {own[0].task.about}", *said])


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
    made: dict[tuple[str, str], None] = {}
    for file in files:
        scorer = file.data.label.partition("+")[2].partition("@")[0]
        said = data_words(file).removesuffix(" samples")
        said += ", for trying and not for measuring" * is_trial(file)
        said = f"{file.samples} samples of {said}"
        made[f"{said}, implicitness by {scorer}" if scorer else said, file.data.label] = None
    alike = Counter(said for said, _ in made)
    return [f"{said} ({label})" if alike[said] > 1 else said for said, label in made]


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
    side = "below" if high < chance else "not significantly different from"
    return f"{said}: {'above' if low > chance else side} chance, which is {chance:.3f}."


def alarms(made: PageParts, fitness: DataFrame) -> Iterator[str]:
    """What makes a number untrustworthy: constant, cut or missing answers, and unfit judges."""
    for alarm in alarms_of(made.scores).itertuples():
        yield f"{_where(made.files, alarm)}: {alarm.words}."
    for one in fitness[fitness["finding"] != "fit"].itertuples():
        yield f"Judge {one.judge} {one.words}: {one.task}, {one.variant}."
    for file, (cut, answers) in zip(made.files, made.cut, strict=True):
        where = f"{file.model.name} on {file.run.task}"
        if cut > ALARMING_CUT * answers:
            yield (
                f"{where}: {cut} of {answers} answers reached their token limit and were "
                "cut; they are judged as they are."
            )
        for gap in file.missing or ():
            what = f"verdicts by {gap.judge}" if gap.judge else "answers"
            said = f" (most often: {gap.said[0].message})" if gap.said else ""
            yield f"{where}: {gap.count} {what} are missing, {gap.reason}{said}."


def _where(files: Sequence[RunFile], row: Row) -> str:
    """The model, task and variant of a score, and its data where the task was asked on several."""
    own = [file for file in files if file.run.task == row.task]
    data: Mapping[str, str] = {file.data.label: data_words(file) for file in own}
    more = f", {data.get(row.data, '')}" if len(data) > 1 else ""
    return f"{row.model} on {row.task}, {row.variant}{more}"
