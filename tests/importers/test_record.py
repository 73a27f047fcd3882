"""Records of a file: their columns, and what they may be an answer to."""

from math import inf, nan
from pathlib import Path

import pytest
from support import quiz as quiz_module
from support.each import each

from harness.core import Sample
from harness.data.readers.samples_jsonl import read
from harness.errors import DataError
from harness.importers import record
from harness.importers.record import LEAST, ImportedRecord, SampleLookup, matches
from harness.registry import Registry

ONE, TWO = Sample("one", {}), Sample("two", {})
RECORD = ImportedRecord("f:1", {"a": "x", "b.c": 1, "d": {"e": [2], "f": 3.0, "g": None}, "h": " "})
ORDER0 = (
    "Which?\nThe lake cracks. Ben says: solid ground.\n1) He is safe.\n2) He is afraid.\nAnswer:"
)


@pytest.fixture
def posed(tmp_path: Path) -> SampleLookup:
    quiz = quiz_module.build(tmp_path)
    registry = Registry((quiz.home,), {}, tmp_path)
    task = registry.load("tasks", "quiz")
    samples = read([registry.resource(task.data.sample)], None)
    return SampleLookup("quiz", task, samples=samples, prompts=registry.prompts, data="sample")


@each(
    ("column", "fact"),
    [
        ("aa", "no column 'aa'; did you mean a?"),
        ("d.x", "no column 'd.x'; did you mean d.g or d.f or d.e?"),
        ("a.b", "no column 'a.b'"),
        ("d.e", "d.e holds list, not a text"),
        ("d", "d holds dict, not a text"),
    ],
)
def test_what_is_no_text_of_a_column_is_an_error(column: str, fact: str) -> None:
    with pytest.raises(DataError, match=r"^f:1: ") as caught:
        RECORD.text(column)
    assert fact in str(caught.value)


@each(
    ("found", "expected"),
    [
        ([], []),
        ([[("a", ONE), ("b", ONE)], [("b", TWO)]], ["b one", "b two"]),
        ([[("a", ONE), ("b", ONE)], [("a", TWO), ("b", TWO)]], ["a one", "a two"]),
        (
            [[("a", ONE), ("b", ONE)], [("c", ONE)], [("a", ONE), ("b", ONE)]],
            ["a one", "c one", "b one"],
        ),
        ([[("a", ONE), ("a", TWO)], [("a", ONE), ("a", TWO)]], ["a one", "a two"]),
        ([[("a", ONE)], [("a", ONE)]], ["a one", "a one"]),
    ],
)
def test_prompts_that_several_share_are_separated(
    found: list[list[tuple[str, Sample]]], expected: list[str]
) -> None:
    chosen = record.distinct_sources(found)
    assert [f"{variant} {sample.id}" for variant, sample in chosen] == expected


def test_a_prompt_names_all_that_it_may_be_of(posed: SampleLookup) -> None:
    found = matches(ImportedRecord("f:1", {}, (ORDER0 + "\n",)), posed, None)

    places = [(variant, sample.id) for variant, sample in found]
    assert places == [("order0", "ice"), ("order2", "ice")]


def test_the_variant_that_a_log_names_decides_between_equal_prompts(posed: SampleLookup) -> None:
    found = matches(ImportedRecord("f:1", {"doc": {"variant": "order2"}}, (ORDER0,)), posed, None)
    assert [variant for variant, _ in found] == ["order2"]


@pytest.mark.parametrize("content", [{"id": "ice"}, {"doc": {"id": "ice"}}, {"doc": {"id": 3}}])
def test_a_log_may_name_its_sample_too(posed: SampleLookup, content: dict[str, object]) -> None:
    found = matches(ImportedRecord("f:1", content, (ORDER0,)), posed, None)
    assert {sample.id for _, sample in found} == {"ice"}


def test_a_sample_and_the_prompt_of_another_do_not_go_together(posed: SampleLookup) -> None:
    with pytest.raises(DataError, match="of sample fog, while its prompt is that of order0 of sa"):
        matches(ImportedRecord("f:1", {"id": "fog"}, (ORDER0,)), posed, None)


def test_a_probability_printed_as_0_is_the_least_there_is() -> None:
    score = record.scores_of_probabilities([0.0, 1.0], ("1", "2"))[0]
    assert score.logprob == LEAST == pytest.approx(-744.44)


@each("values", [[1.2, 0.0], [-0.1, 0.5], [nan, 0.5], [0.6, 0.6], [inf, 0], [0, 0]])
def test_what_are_no_probabilities_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"is no probability|add up to|choice is 0"):
        record.scores_of_probabilities(values, ("1", "2"))


def test_an_impossible_choice_has_the_least_log_probability() -> None:
    assert [part.logprob for part in record.scores_of_logprobs([-inf, -1.5], ("a", "b"))] == [
        LEAST,
        -1.5,
    ]


@pytest.mark.parametrize("value", [0.3, nan, inf])
def test_a_positive_number_is_no_log_probability(value: float) -> None:
    with pytest.raises(ValueError, match="no log-probability in nats"):
        record.scores_of_logprobs([value, -1.0], ("a", "b"))
