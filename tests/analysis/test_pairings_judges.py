"""The judges of stored runs: which are meant, and what is said where none will do."""

import pytest
from support.paired_runs import NEAR, THOUGHT, stored, words_task

from harness.analysis.pairings import (
    closest_judge,
    intention_judges,
    judge_named,
    judges_of_both,
    response_judges,
    right_or_wrong_judges,
)
from harness.errors import SpecError
from harness.storage.runs import JudgeEntry, RunFile

FAR = JudgeEntry("far", "accuracy", "far:00|char-ngrams")
ASKED = JudgeEntry("asked", "accuracy", "asked:00|both-orders", asks="gpt-4", identity="g@1")
ONCE = JudgeEntry("once", "accuracy", "once:00|single-order", asks="gpt-4", identity="g@1")
ASKED_THOUGHT = JudgeEntry(
    "asked-thought", "accuracy", "asked-thought:00|both-orders", "gpt-4", "g@1", "thought"
)
STRANGER = JudgeEntry("stranger", "accuracy", "stranger:00|both-orders", "x", "x@1")
RATED = JudgeEntry("rated", "mean_rating", "rated:00|strict")
SWAPPED = JudgeEntry("near:swapped", "accuracy", "near:swapped:00|minilm")
ALL = (ASKED, ASKED_THOUGHT, FAR, NEAR, SWAPPED, THOUGHT, ONCE, RATED)


def read_by(*judges: JudgeEntry) -> RunFile:
    return stored(words_task(), {("base", "T0.3", "near"): "1"}, judges=judges).file


def names(entries: list[JudgeEntry]) -> list[str]:
    return [entry.name for entry in entries]


def test_response_judges_say_right_or_wrong_of_responses_the_tasks_own_first() -> None:
    assert names(response_judges(read_by(*ALL))) == ["near", "asked", "far", "once"]


def test_a_judge_of_the_task_that_asked_another_model_is_one_of_the_tasks_own() -> None:
    other = JudgeEntry("near/beta", "accuracy", "near/beta:00|both-orders", "beta", "b@1")

    assert names(response_judges(read_by(ASKED, FAR, other))) == ["near/beta", "asked", "far"]


@pytest.mark.parametrize(
    ("judge", "expected"),
    [(THOUGHT, "near"), (ASKED_THOUGHT, "asked")],
    ids=["the same encoder", "the same model, in as many orders"],
)
def test_an_intention_judge_goes_with_the_response_judge_most_like_it(
    judge: JudgeEntry, expected: str
) -> None:
    found = closest_judge(judge, response_judges(read_by(*ALL)))

    assert found is not None
    assert found.name == expected


@pytest.mark.parametrize(
    ("others", "expected"),
    [((NEAR, ONCE), "once"), ((FAR,), "far"), ((STRANGER, ONCE), "once")],
    ids=["the same model", "any", "the same model before as many orders"],
)
def test_the_next_best_judge_serves_where_the_like_one_has_not_read(
    others: tuple[JudgeEntry, ...], expected: str
) -> None:
    found = closest_judge(ASKED_THOUGHT, others)

    assert found is not None
    assert found.name == expected


def test_without_another_judge_there_is_none() -> None:
    assert closest_judge(THOUGHT, []) is None


def test_intention_judges_are_those_of_an_earlier_step() -> None:
    file = read_by(*ALL)

    assert names(intention_judges(file, None)) == ["asked-thought", "near-thought"]
    assert intention_judges(file, "near-thought") == [THOUGHT]


def test_a_judge_of_responses_is_no_intention_judge() -> None:
    with pytest.raises(SpecError, match=r"near reads responses.*`step`"):
        intention_judges(read_by(*ALL), "near")


def test_a_judge_that_has_not_read_a_run_is_told_with_the_command() -> None:
    file = read_by(NEAR)

    with pytest.raises(SpecError, match=rf"'naer'.*near.*harness judge {file.digest[:12]}"):
        judge_named(file, "naer")


@pytest.mark.parametrize(
    ("judges", "name", "message"),
    [
        ((RATED, NEAR), "rated", "gives mean_rating, not right or wrong"),
        ((RATED,), None, "no judge has said right or wrong.*harness judge"),
    ],
)
def test_a_judge_that_says_neither_right_nor_wrong_is_refused(
    judges: tuple[JudgeEntry, ...], name: str | None, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        right_or_wrong_judges(read_by(*judges), name)


@pytest.mark.parametrize(
    "other",
    [
        JudgeEntry("near", "accuracy", "near:99|minilm"),
        JudgeEntry("near", "accuracy", "near:00|minilm", identity="g@2"),
    ],
    ids=["recipe", "asked model"],
)
def test_one_judge_by_two_recipes_is_refused_with_the_remedy(other: JudgeEntry) -> None:
    files = read_by(NEAR), read_by(other)

    for wanted in ((None, None), ("near", None), (None, "near")):
        with pytest.raises(SpecError, match=r"recipes differ: near:00.*have one judge read both"):
            judges_of_both(files, wanted)


def test_two_judges_of_two_names_are_refused() -> None:
    with pytest.raises(SpecError, match=r"near:00\|minilm read .*, far:00"):
        judges_of_both((read_by(NEAR), read_by(FAR)), ("near", "far"))


def test_runs_without_a_judge_in_common_are_refused_with_who_read_them() -> None:
    with pytest.raises(SpecError, match="read by no judge alike: near; nobody"):
        judges_of_both((read_by(NEAR), read_by()), (None, None))


def test_judges_by_one_recipe_serve_and_others_are_told_of() -> None:
    other = JudgeEntry("near", "accuracy", "near:99|minilm")

    pairs, told = judges_of_both((read_by(NEAR, FAR), read_by(other, FAR)), (None, None))

    assert pairs == [(FAR, FAR)]
    assert "near:99" in told[0]


def test_a_swapped_judge_serves_only_by_name() -> None:
    files = read_by(NEAR, SWAPPED), read_by(NEAR, SWAPPED)

    assert judges_of_both(files, (None, None))[0] == [(NEAR, NEAR)]
    assert judges_of_both(files, ("near:swapped", None))[0] == [(SWAPPED, SWAPPED)]
