"""Records to the flat table of answers: one row an answer, a value and a reason for each judge."""

from collections.abc import Sequence

from harness.core import Sample
from harness.parts import Reason
from harness.pipeline.plan import options
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
