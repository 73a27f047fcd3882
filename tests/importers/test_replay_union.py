"""Imports that come file by file: one run in the end, and nobody's verdicts lost on the way."""

from itertools import permutations
from pathlib import Path

import pytest
from support import quiz as quiz_module
from support.each import rest_slow
from support.quiz import Quiz

from harness.parts import Reason
from harness.storage.runs import RunFolder

MAP = (
    "{about: x, format: jsonl, sample: {id: item}, variant: {column: way}, prompt: asked, "
    "answer: {kind: logprobs, column: said}}"
)
ANSWERS = {
    "tea": {"item": "tea", "way": "order0", "asked": "Tea?", "said": [-1.0, -2.0, -3.0]},
    "ice": {"item": "ice", "way": "order0", "asked": "Ice?", "said": [-2.0, -1.0]},
    "bare": {"item": "ice", "way": "bare:order0", "asked": "Bare?", "said": [-2.0, -1.0]},
}


@pytest.fixture
def quiz(tmp_path: Path) -> Quiz:
    return quiz_module.build(tmp_path)


def take(quiz: Quiz, *lines: object) -> Path:
    """Import these lines; the folder of the run."""
    column_map = quiz.put("map.yaml", MAP)
    found = quiz.take(quiz.put("in.jsonl", list(lines)), column_map=str(column_map))
    return found.done.folder.path


def runs(quiz: Quiz) -> dict[str, bytes]:
    """Every file of every run."""
    return {name: data for name, data in quiz.bytes().items() if name.startswith("runs/")}


@pytest.mark.parametrize(
    "order", rest_slow([(order,) for order in permutations(ANSWERS)], kept=slice(None, None, 3))
)
def test_one_at_a_time_in_any_order_is_as_good_as_all_at_once(
    quiz: Quiz, tmp_path: Path, order: tuple[str, ...]
) -> None:
    other = quiz_module.build(tmp_path / "other")
    take(other, *ANSWERS.values())

    for name in order:
        take(quiz, ANSWERS[name])

    assert runs(quiz) == runs(other)


@pytest.mark.parametrize("names", [["tea"], ["ice", "tea"], ["bare", "ice", "tea"]])
def test_what_is_there_already_changes_no_byte(quiz: Quiz, names: list[str]) -> None:
    take(quiz, *ANSWERS.values())
    before = quiz.bytes()

    take(quiz, *(ANSWERS[name] for name in names))

    assert quiz.bytes() == before


def test_a_missing_answer_that_comes_later_is_no_longer_missing(quiz: Quiz) -> None:
    take(quiz, ANSWERS["tea"])
    take(quiz, ANSWERS["ice"])

    [path] = quiz.results.glob("runs/*/*/*")
    rows = {r.sample.id: r for r in RunFolder(path).read_rows() if r.variant == "order0"}
    reasons = {name: row.verdicts["gold"].reason for name, row in rows.items()}
    assert reasons == {"tea": None, "ice": None, "fog": Reason.FAILED}


def test_other_prompts_make_a_run_of_their_own(quiz: Quiz) -> None:
    one = take(quiz, ANSWERS["tea"])

    other = take(quiz, {**ANSWERS["tea"], "asked": "Which tea?", "said": [-3.0, -2.0, -1.0]})

    assert one != other
    assert (one / "run.json").is_file()


def test_what_two_runs_might_take_goes_to_neither(quiz: Quiz) -> None:
    take(quiz, ANSWERS["tea"])
    take(quiz, {**ANSWERS["tea"], "asked": "Which tea?"})

    take(quiz, ANSWERS["ice"])

    assert len(list(quiz.results.glob("runs/*/*/*"))) == 3


def test_a_run_that_other_judges_have_read_stays(quiz: Quiz) -> None:
    quiz.put("home/configs/judges/bytes.yaml", "{about: x, kind: gold, normalisation: per_byte}")
    first = take(quiz, ANSWERS["tea"])
    quiz.main("judge", str(first), "--judge", "bytes")

    take(quiz, ANSWERS["ice"])
    last = take(quiz, ANSWERS["bare"])

    assert sorted(quiz.results.glob("runs/*/*/*")) == sorted([first, last])
    assert "bytes" in RunFolder(first).read_rows()[0].verdicts


def test_what_somebody_put_into_a_run_folder_stays(quiz: Quiz) -> None:
    first = take(quiz, ANSWERS["tea"])
    (first / "notes.txt").write_text("mine", "utf-8")

    take(quiz, ANSWERS["ice"])

    assert [path.name for path in first.iterdir()] == ["notes.txt"]


def test_a_run_whose_calls_are_gone_is_left_alone(quiz: Quiz) -> None:
    first = take(quiz, ANSWERS["tea"])
    for path in quiz.results.glob("calls/*/*"):
        path.unlink()

    second = take(quiz, ANSWERS["ice"])

    assert (first / "run.json").is_file()
    assert len([r for r in RunFolder(second).read_rows() if r.answer]) == 1
