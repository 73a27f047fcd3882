"""The layout of Hu et al.: probabilities by place, the order named by the row and its seed."""

from math import log
from pathlib import Path

import pytest
from support import posed_files
from support.posed_files import ORDERS, Cells, answered, control, pair, same, spaced, write
from support.quiz import Quiz

from harness.errors import DataError
from harness.importers.import_files import Imported
from harness.storage.run_tables import SampleRecord

TASK = "intent_detection"


@pytest.fixture
def quiz(tmp_path: Path) -> Quiz:
    return posed_files.build(tmp_path)


def take(quiz: Quiz, *files: list[Cells]) -> Imported:
    """Import files of these rows."""
    paths = [write(quiz.folder / f"{at}.csv", *rows) for at, rows in enumerate(files)]
    return quiz.take(*paths, task=TASK)


def only(quiz: Quiz) -> SampleRecord:
    [row] = quiz.rows()
    return row


def test_the_probability_of_each_place_is_its_score(quiz: Quiz) -> None:
    take(quiz, [answered(2, (0.1, 0.7, 0.2))])

    [step] = only(quiz).steps
    assert [part.logprob for part in step.choice_scores] == [log(0.1), log(0.7), log(0.2)]
    assert {(part.tokens, part.bytes) for part in step.choice_scores} == {(None, 1)}


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_a_row_is_its_variant(quiz: Quiz, seed: int) -> None:
    right = ORDERS[seed].index(2)  # the second option is the right one
    take(quiz, [answered(seed, [0.8 if at == right else 0.1 for at in range(3)])])

    row = only(quiz)
    assert (row.variant, row.sample.id, row.answer) == (f"order{seed}", "irony-7", str(right + 1))
    assert row.verdicts["gold"].value == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_orders_that_coincide_are_separated_by_the_seed(quiz: Quiz, seed: int) -> None:
    take(quiz, [pair(seed)])

    assert only(quiz).variant == f"order{seed}"


def test_a_seed_that_is_not_that_of_the_order_is_refused(quiz: Quiz) -> None:
    with pytest.raises(DataError, match=r"0\.csv:\d+: options in order 3, 1, 2, while order 1"):
        take(quiz, [answered(0) | {"seed": "1"}])

    assert not quiz.results.exists()


def test_a_row_without_the_story_is_named_by_its_content(quiz: Quiz) -> None:
    take(quiz, [control(3)])

    assert only(quiz).variant == "no-story:order3"


def test_items_that_read_alike_have_their_story_where_all_others_have(quiz: Quiz) -> None:
    take(quiz, [answered(0), same(0), spaced(0)])

    assert {row.variant for row in quiz.rows()} == {"order0"}
    assert len(quiz.rows()) == 3


def test_story_and_control_in_one_file_are_separated(quiz: Quiz) -> None:
    later = {"distribution": "{'1': 0.3, '2': 0.3, '3': 0.4}"}

    take(quiz, [answered(0), same(0), spaced(0), control(0), same(0, **later), spaced(0, **later)])

    kept = {(row.variant, row.sample.id): row.answer for row in quiz.rows()}
    assert [kept["order0", "irony-8"], kept["order0", "irony-9"]] == ["2", "2"]
    assert kept["no-story:order0", "irony-9"] == "3"
    assert len(kept) == 5


def test_the_probabilities_count_and_not_what_the_file_says_of_them(quiz: Quiz) -> None:
    take(quiz, [answered(0) | {"answer": "1", "correct": "True"}, pair(0, (0.5, 0.5))])

    irony, coherence = quiz.rows()
    assert irony.answer == "2"  # place 2 is likeliest, place 3 right
    assert coherence.verdicts["gold"].value == 0.5


@pytest.mark.parametrize("cell", ["", "nan", "None", "{'1': nan, '2': nan}", "{}"])
def test_a_row_without_probabilities_is_missing(quiz: Quiz, cell: str) -> None:
    found = take(quiz, [answered(0), pair(0, distribution=cell)])

    assert only(quiz).sample.id == "irony-7"
    assert found.notes.to_numpy().tolist()[0][1:] == ["without probabilities: missing", 1]


def test_an_example_of_a_prompt_is_no_question(quiz: Quiz) -> None:
    found = take(quiz, [answered(0), answered(1, is_example="True")])

    assert only(quiz).variant == "order0"
    assert found.notes.to_numpy().tolist()[0][1:] == ["of examples in prompts: left out", 1]


@pytest.mark.parametrize(
    ("row", "fact"),
    [
        (answered(0, distribution="{'1': 0.5, '2': 0.5}"), "numbers for places 1, 2, not"),
        (answered(0, distribution="{'1': 2, '2': 0, '3': 0}"), "2.0 is no probability"),
        (answered(0, distribution="open('x')"), "no mapping of places"),
        (answered(0, phenomenon="XV"), "not those of an item ('XV')"),
        (answered(0, content="She leaves."), "does not hold the content"),
        (same(0, "Pia sings. What does she mean?"), "not among the 4 samples"),
        (answered(0, randomized_true_answer="1"), "another label is the right one"),
    ],
)
def test_a_row_that_cannot_be_right_is_named(quiz: Quiz, row: Cells, fact: str) -> None:
    with pytest.raises(DataError, match=r"0\.csv:2: ") as caught:
        take(quiz, [row])

    assert fact in str(caught.value)


def test_of_two_items_that_read_alike_the_number_tells(quiz: Quiz) -> None:
    path = quiz.home / "tasks/samples/intent_detection.jsonl"
    first = path.read_text("utf-8").splitlines()[0]
    twin = first.replace("irony-7", "irony-3")
    path.write_text("\n".join([twin, first, twin.replace("irony-3", "irony-9")]), "utf-8")

    take(quiz, [answered(0)])

    assert only(quiz).sample.id == "irony-7"
