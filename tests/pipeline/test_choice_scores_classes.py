"""Verdicts to scores by class: what counts where, and what is missing from it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs
from support.choice_cases import frame_of, task
from support.each import each

from harness.core import Sample
from harness.parts import Reason
from harness.pipeline.choice_scores import Number, class_numbers
from harness.specs.tasks import ClassesSpec
from harness.storage.run_tables import SampleRecord, StepRecord, VerdictRecord

LABELS = ("non", "open", "hidden")
SPEC = ClassesSpec(missed=("hidden",))


def read(gold: str, chosen: str | None, *properties: str) -> SampleRecord:
    references = {"labels": LABELS} | ({"properties": properties} if properties else {})
    name = "-".join((gold, str(chosen), *properties))
    sample = Sample(name, {"text": "x"}, references, choices=LABELS, gold=gold)
    detail = {f"chosen_label_{label}": float(label == chosen) for label in LABELS}
    verdict = (
        VerdictRecord(None, Reason.REFUSED)
        if chosen is None
        else VerdictRecord(float(gold == chosen), detail=detail)
    )
    return SampleRecord(
        sample, "base", "logprob", (StepRecord("answer", "k"),), chosen, verdicts={"gold": verdict}
    )


def told(rows: Sequence[SampleRecord], spec: ClassesSpec = SPEC) -> dict[tuple[str, str], Number]:
    frame = frame_of(rows, spec=structs.replace(task(), classes=spec))
    return {(one.group or "all", one.metric): one for one in class_numbers(frame, spec)}


READINGS = [
    *(read("non", "non"), read("open", "non"), read("hidden", "hidden", "irony", "context")),
    *(read("hidden", "non", "irony"), read("hidden", None, "irony")),
]


@each(
    ("metric", "value", "planned", "counted"),
    [
        ("precision_non", 1 / 3, (0, 1, 3, 4), (0, 1, 3)),
        *(("recall_non", 1.0, (0,), (0,)), ("precision_open", None, (4,), ())),
        *(("recall_open", 0.0, (1,), (1,)), ("recall_hidden", 0.5, (2, 3, 4), (2, 3))),
        ("f1_hidden", 2 / 3, (2, 3, 4), (2, 3)),
        ("macro_f1", (0.5 + 0 + 2 / 3) / 3, (0, 1, 2, 3, 4), (0, 1, 2, 3)),
        ("missed_hidden", 1.0, (2, 3, 4), (2, 3)),
        *(("two_f1_hidden_non", 2 / 3, (2, 3, 4), (2, 3)), ("two_f1_open_non", 0.0, (1,), (1,))),
        *(("two_recall_hidden_open", 1.0, (2, 4), (2,)), ("two_recall_open_hidden", None, (), ())),
    ],
)
def test_what_is_not_answered_is_missing_and_not_missed(
    metric: str, value: float | None, planned: tuple[int, ...], counted: tuple[int, ...]
) -> None:
    found = told(READINGS)["all", metric]
    assert found.value == (None if value is None else pytest.approx(value))
    assert (tuple(found.planned), tuple(found.planned[found.counted])) == (planned, counted)


def test_missed_texts_are_counted_by_each_of_their_properties() -> None:
    found = told(READINGS)
    assert found["properties irony", "missed_hidden"].value == 1.0
    assert found["properties context", "missed_hidden"].value == 0.0


def test_without_answers_nothing_has_a_value_and_without_labels_nothing_is_told() -> None:
    unanswered = told([read("hidden", None, "irony"), read("non", None)])
    assert {number.value for number in unanswered.values()} == {None}
    assert told([replace(read("non", "non"), sample=Sample("s", {"text": "x"}))]) == {}
