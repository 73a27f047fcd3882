"""Imported choices as a run: what is planned, what is missing, and what its signature says."""

from pathlib import Path

import pytest
from support import quiz as quiz_module
from support.quiz import Quiz, value

from harness.errors import DataError
from harness.importers.import_files import Imported
from harness.importers.run import as_answered
from harness.registry import Registry, shipped_home

SCORES = {"tea": "-1;-2;-3", "ice": "-2;-1;", "fog": "-1;-2;"}


@pytest.fixture
def quiz(tmp_path: Path) -> Quiz:
    return quiz_module.build(tmp_path)


def take(quiz: Quiz, *places: tuple[str, str], kind: str = "logprobs") -> Imported:
    rows = "\n".join(f"{way};{item};{SCORES[item]}".replace(";", ",") for way, item in places)
    said = (
        "{about: x, format: csv, sample: {id: item}, variant_column: way, "
        f"answer: {{kind: {kind}, columns: [a, b, c]}}}}"
    )
    column_map = quiz.put("map.yaml", said)
    return quiz.take(quiz.put("in.csv", f"way,item,a,b,c\n{rows}\n"), column_map=str(column_map))


def test_all_variants_of_a_pool_are_planned_once_one_is_found(quiz: Quiz) -> None:
    found = take(quiz, ("order1", "tea"))

    counts = found.counts.groupby("variant")[["found", "samples"]].sum()
    assert counts.to_numpy().tolist() == [[0, 3], [1, 3], [0, 3]]
    assert found.done.file.planned == 9
    assert found.done.missing == 8


def test_a_variant_without_a_pool_is_planned_alone_for_the_samples_it_has(quiz: Quiz) -> None:
    found = take(quiz, ("bare:order0", "tea"))
    rows = found.counts.to_numpy().tolist()
    assert rows == [["bare:order0", "warm", 1, 1], ["bare:order0", "cold", 0, 1]]


def test_a_complete_pool_has_its_rows_and_nothing_missing(quiz: Quiz) -> None:
    places = [(f"order{n}", item) for n in range(3) for item in SCORES]

    found = take(quiz, *places)

    assert not found.done.missing
    # by hand: tea is right in order0 alone, ice in order0 and order2, fog in order1
    assert value(found.done.scores, "order0") == pytest.approx(2 / 3)
    assert value(found.done.scores, "all") == pytest.approx(4 / 9)
    assert value(found.done.scores, "all", "accuracy_permuted") is not None


def test_stored_choices_are_read_unchanged(quiz: Quiz, capsys: pytest.CaptureFixture[str]) -> None:
    folder = take(quiz, ("order0", "tea"), ("order0", "ice")).done.folder
    assert quiz.main("read", str(folder.path)) == 0
    assert "0 verdicts changed; no model was called" in capsys.readouterr().out


def test_two_answers_to_one_place_are_refused(quiz: Quiz) -> None:
    said = "way,item,a,b,c\norder0,ice,-1,-2,\norder0,ice,-2,-1,\n"
    take(quiz, ("order0", "tea"))

    with pytest.raises(DataError, match=r"in\.csv:3: another prompt or other replies on order0"):
        quiz.take(quiz.put("in.csv", said), column_map=str(quiz.folder / "map.yaml"))


def test_every_task_that_ships_can_be_answered_by_its_last_steps() -> None:
    registry = Registry((shipped_home(),), {}, Path())

    for name in registry.names("tasks"):
        task = as_answered(registry.load("tasks", name), [], None)
        assert all(len(variant.steps) == 1 for variant in task.variants.values()), name
