"""Records to what is shown of them: a row of the flat table of answers, and texts to read."""

from collections.abc import Iterator, Sequence
from typing import Literal

from harness.core import Sample
from harness.data.choices import LABELS
from harness.parts import Reason
from harness.pipeline.plan import options
from harness.pipeline.score import RIGHT_OR_WRONG
from harness.pipeline.verdict_frame import IMPLICITNESS
from harness.pipeline.walk import case_of
from harness.specs.tasks import TaskSpec
from harness.storage.run_tables import SampleRecord, VerdictRecord
from harness.storage.runs import JudgeEntry, RunFile

STRESSED = ("before", "emphasis", "after")
"""The fields that make one turn, the middle one stressed."""
TURN, STRESS = "turn", "*"
_NO_VERDICT = VerdictRecord(None)
COLUMNS = (
    *("task", "model", "run", "sample_id", "cluster", "group", "variant", "decoding"),
    *("item", "expected", "answer", "choice", "missing"),
)
"""The columns of every items table; those of its judges follow."""
_SHORT = 50  # the characters of choices that are in one line
_KNOWN = ("label", LABELS, IMPLICITNESS)
ShownText = tuple[Literal["text", "answer", "verdict"], str, str]
"""One line of a block as a reader sees it: what it is, its label and its text."""
ItemAnswer = tuple[RunFile, str, SampleRecord]
"""An answer: its run, the name of what it differs by from the others of its block, its record."""


def item_texts(sample: Sample) -> dict[str, str]:
    """The texts of an item by name, in the order of the data; stress is marked with asterisks."""
    fields = dict(sample.fields)
    if all(name in fields for name in STRESSED) and fields["emphasis"]:
        before, emphasis, after = (fields.pop(name) for name in STRESSED)
        fields[TURN] = f"{before}{STRESS}{emphasis}{STRESS}{after}"
    return {name: text for name, text in fields.items() if text.strip()}


def expected_texts(sample: Sample, task: TaskSpec, variant: str) -> tuple[str, ...]:
    """The right answers: the right choice, or what the control `oracle` answers at the last step.

    Without such a control, every text of the references; there may be none.
    """
    if sample.gold is not None:
        return (sample.gold,)
    last = task.variants[variant].steps[-1].name
    names = task.controls.get("oracle", {}).get(last, tuple(sample.references))
    return tuple(text for name in names for text in sample.references.get(name, ()))


def choice_text(record: SampleRecord, task: TaskSpec) -> str | None:
    """The words of the choice that an answer names; None where it names none."""
    for option in options(task, record.variant, record.sample):
        if record.answer is not None and option.answer.strip() == record.answer.strip():
            return record.sample.choices[option.index]
    return None


def missing_reason(record: SampleRecord, task: TaskSpec) -> Reason | None:
    """Why an answer is missing; None where there is one."""
    if record.answer is not None:
        return None
    case = case_of(record, task)
    return case.response.failure.reason if case and case.response.failure else Reason.UNSUPPORTED


def item_columns(judges: Sequence[JudgeEntry]) -> tuple[str, ...]:
    """The columns of a table: `value_J` and `reason_J` of a judge J, `reply_J` if J is a model."""
    columns = list(COLUMNS)
    for judge in judges:
        columns += [f"value_{judge.name}", f"reason_{judge.name}"]
        columns += [f"reply_{judge.name}"] if judge.asks else []
    return tuple(columns)


def item_cells(
    file: RunFile, record: SampleRecord, judges: Sequence[JudgeEntry]
) -> tuple[object, ...]:
    """One row of the table, in the order of `item_columns`; None is a missing value."""
    sample, task = record.sample, file.task
    item = "\n".join(f"{name}: {text}" for name, text in item_texts(sample).items())
    expected = "\n".join(expected_texts(sample, task, record.variant)) or None
    missing = missing_reason(record, task)
    cells: list[object] = [
        *(file.run.task, file.model.name, file.digest[:16]),
        *(sample.id, sample.cluster, sample.group, record.variant, record.decoding),
        *(item, expected, record.answer, choice_text(record, task), missing and str(missing)),
    ]
    for judge in judges:
        verdict = record.verdicts.get(judge.name, _NO_VERDICT)
        cells += [verdict.value, verdict.reason and str(verdict.reason)]
        if judge.asks:
            cells.append("\n".join(one for one in verdict.replies if one is not None) or None)
    return tuple(cells)


def entries(answers: Sequence[ItemAnswer], judges: Sequence[JudgeEntry]) -> Iterator[ShownText]:
    """What a reader sees of a block: the item, what was expected, each answer, its verdicts."""
    file, _, first = answers[0]
    for name, text in item_texts(first.sample).items():
        yield "text", name, text
    if file.task.data.map is not None and file.data.mode != "sample":
        # The columns of a table that its map keeps with text and label.
        for name, texts in first.sample.references.items():
            if name not in _KNOWN:
                yield "text", name, " / ".join(texts)
    choices = first.sample.choices
    if len(" / ".join(choices)) > _SHORT:
        yield from _choice_texts(answers)
    else:
        if choices:
            yield "text", "choices", " / ".join(choices)
        for text in expected_texts(first.sample, file.task, first.variant):
            yield "text", "expected", text
    for answer in answers:
        yield from _answer_entries(answer, judges, is_alone=len(answers) == 1)


def _choice_texts(answers: Sequence[ItemAnswer]) -> Iterator[ShownText]:
    """The choices as they were numbered; without numbers where the answers saw several orders."""
    sample = answers[0][2].sample
    orders = {
        tuple(option.index for option in options(file.task, record.variant, sample))
        for file, _, record in answers
    }
    has_one = len(orders) == 1
    order = orders.pop() if has_one else range(len(sample.choices))
    for place, index in enumerate(order, 1):
        label = f"choice {place}" if has_one else "choice"
        is_right = sample.choices[index] == sample.gold
        yield "text", f"{label}{', right' * is_right}", sample.choices[index]


def _answer_entries(
    answer: ItemAnswer, judges: Sequence[JudgeEntry], *, is_alone: bool
) -> Iterator[ShownText]:
    file, label, record = answer
    for step in () if file.task.has_choices else record.steps[:-1]:
        yield "text", step.step if is_alone else f"{label}: {step.step}", step.text or "-"
    if record.answer is None:
        said = f": {note}" if (note := record.steps[-1].note) else ""
        text = f"(no answer: {missing_reason(record, file.task)}{said})"
    else:
        words = choice_text(record, file.task)
        is_more = words is not None and words != record.answer
        text = f"{record.answer}: {words}" if is_more else record.answer
    yield "answer", label, text
    for judge in judges:
        if (verdict := record.verdicts.get(judge.name)) is not None:
            yield "verdict", judge.name, _said(verdict, judge)


def _said(verdict: VerdictRecord, judge: JudgeEntry) -> str:
    """A verdict, then what the judge replied or why there is none."""
    if verdict.value is None:
        value = f"missing, {verdict.reason}"
    else:
        words = {1.0: "right", 0.0: "wrong", 0.5: "tie"} if judge.metric == RIGHT_OR_WRONG else {}
        value = words.get(verdict.value, f"{verdict.value:.4g}")
    replies = [f'"{reply.strip()}"' for reply in verdict.replies if reply is not None]
    note = verdict.note if verdict.value is None else ""
    return ": ".join(filter(None, (value, "; ".join(replies) or note)))
