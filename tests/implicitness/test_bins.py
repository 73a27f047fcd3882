"""Samples that say how implicit they are, by a scorer, by a column, or not at all."""

from collections.abc import Sequence

import pytest
from msgspec import structs
from support.hate_rows import SPEC, task
from support.impscore_heads import Standin
from support.sketches import task as texts

from harness.core import Sample
from harness.errors import DataError, SpecError
from harness.implicitness.open import add_implicitness, with_options
from harness.specs.tasks import ImplicitnessSpec, TaskSpec
from harness.storage.runs import DataEntry
from harness.text.dedup import fingerprint

DATA = DataEntry("toys", "released", "d1f3", {"a.csv": "00"})


def sample(name: str, text: str, **references: str) -> Sample:
    held = {key: (value,) for key, value in references.items()}
    return Sample(name, {"text": text}, held, ("yes", "no"), "yes")


def measured(
    *samples: Sample, by: Standin | None = None, spec: ImplicitnessSpec | None = SPEC
) -> tuple[Sequence[Sample], str]:
    found, data = add_implicitness(samples, DATA, spec=spec, scorer=lambda name: by or Standin())
    return found, data.label


def test_a_scorers_value_and_signature_go_with_the_samples() -> None:
    found, label = measured(sample("a", "abcde"))
    assert found[0].references["implicitness"] == ("0.5",)
    assert label == "d1f3+standin@00112233"


def test_texts_without_a_measure_or_bin_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    found, _ = measured(sample("a", "abcde"), sample("b", ""))
    assert (found[1].references, found[1].flags) == ({}, ("implicitness_empty",))
    assert "1 of 2 texts have no implicitness" in caplog.text

    measured(sample("a", "x" * 20), sample("b", "x" * 21))
    assert "1 of 2 values by standin@00112233 lie outside 0 to 2" in caplog.text


@pytest.mark.parametrize("scorer", ["standin", "column"])
def test_a_tables_own_column_goes_before_the_tasks_scorer(scorer: str) -> None:
    scorer_used = Standin()
    spec = structs.replace(SPEC, scorer=scorer)
    found, label = measured(sample("a", "abc", implicitness="1.25"), by=scorer_used, spec=spec)

    assert (found[0].references["implicitness"], label) == (("1.25",), "d1f3+column")
    assert scorer_used.heard == []


def test_a_column_that_is_not_there_is_named_with_its_key() -> None:
    with pytest.raises(DataError, match="no column of implicitness; name it in the column map"):
        measured(sample("a", "abc"), spec=structs.replace(SPEC, scorer="column"))


@pytest.mark.parametrize("spec", [None, structs.replace(SPEC, scorer="none")])
def test_nothing_is_measured_where_nothing_is_asked_for(spec: ImplicitnessSpec | None) -> None:
    held = sample("a", "abc")
    assert measured(held, spec=spec) == ((held,), "d1f3")


def test_texts_trained_on_are_flagged_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    trained = Standin(seen=frozenset({fingerprint("The kettle boils.")}))
    found, _ = measured(sample("a", "the KETTLE boils!"), sample("b", "It rains."), by=trained)

    assert [one.flags for one in found] == [("scorer_trained_on",), ()]
    assert "scorer standin@00112233 was trained on 1 of the 2 texts" in caplog.text
    assert "leave them out" in caplog.text


def test_unknown_training_texts_of_a_scorer_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    held, data = add_implicitness(
        [sample("a", "It rains.")], DATA, spec=SPEC, scorer=lambda name: Standin(seen=frozenset())
    )

    assert (held[0].flags, data.is_training_known) == ((), False)
    assert "nobody knows which texts scorer standin@00112233 was trained on" in caplog.text


TABLE = structs.replace(
    task(),
    data=structs.replace(
        task().data, reader="labelled_table", map="toys", choices={"hateful": "yes"}
    ),
)


def test_another_map_and_scorer_take_the_place_of_the_tasks() -> None:
    changed = with_options(TABLE, name="toy", table="mine.yaml", scorer="other")

    assert changed.data.map == "mine.yaml"
    assert changed.implicitness is not None
    assert (changed.implicitness.scorer, changed.implicitness.prefers_column) == ("other", False)


@pytest.mark.parametrize(
    ("spec", "table", "scorer", "error"),
    [
        (texts(), "toys", None, "--map toys: task toy reads no table"),
        (texts(), None, "other", "--scorer other: task toy reports nothing by implicitness"),
    ],
)
def test_what_a_task_has_no_use_for_is_refused(
    spec: TaskSpec, table: str | None, scorer: str | None, error: str
) -> None:
    with pytest.raises(SpecError, match=error):
        with_options(spec, name="toy", table=table, scorer=scorer)
