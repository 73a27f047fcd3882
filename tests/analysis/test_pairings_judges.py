"""The judges of stored runs: which are meant, and what is said where none will do."""

import pytest
from support.each import each
from support.paired_runs import NEAR, SMALL, THOUGHT, between, chosen, stored, within, words_task

from harness.analysis.pairings import Pairings, judge_named, response_judges
from harness.errors import SpecError
from harness.storage.runs import JudgeEntry, ModelEntry, StoredRun

FAR = JudgeEntry("far", "accuracy", "far:00|char-ngrams")
ASKED = JudgeEntry("asked", "accuracy", "asked:00|both-orders", asks="gpt-4", identity="g@1")
ONCE = JudgeEntry("once", "accuracy", "once:00|single-order", asks="gpt-4", identity="g@1")
ASKED_THOUGHT = JudgeEntry(
    "asked-thought", "accuracy", "asked-thought:00|both-orders", "gpt-4", "g@1", "thought"
)
STRANGER = JudgeEntry("stranger", "accuracy", "stranger:00|both-orders", "x", "x@1")
RATED = JudgeEntry("rated", "mean_rating", "rated:00|strict")
SWAPPED = JudgeEntry("near:swapped", "accuracy", "near:swapped:00|minilm")
OTHER_RECIPE = JudgeEntry("near", "accuracy", "near:99|minilm")
ALL = (ASKED, ASKED_THOUGHT, FAR, NEAR, SWAPPED, THOUGHT, ONCE, RATED)
OTHER = ModelEntry("other", "scripted", "o@1", "r2")


def read_by(*judges: JudgeEntry, model: ModelEntry = SMALL) -> StoredRun:
    """A run whose only answer some judges have read."""
    readings = {("base", "T0.3", judge.name): "1" for judge in judges}
    task = words_task(gaps={})
    return stored(task, readings or {("base", "T0.3", "none"): "1"}, judges=judges, model=model)


def names(entries: list[JudgeEntry]) -> list[str]:
    return [entry.name for entry in entries]


def paired(found: Pairings) -> list[tuple[str, str]]:
    return [(one.first.judge.name, one.second.judge.name) for one in found[0]]


def test_response_judges_say_right_or_wrong_of_responses_the_tasks_own_first() -> None:
    assert names(response_judges(read_by(*ALL).file)) == ["near", "asked", "far", "once"]


def test_a_judge_of_the_task_that_asked_another_model_is_one_of_the_tasks_own() -> None:
    other = JudgeEntry("near/beta", "accuracy", "near/beta:00|both-orders", "beta", "b@1")

    assert names(response_judges(read_by(ASKED, FAR, other).file)) == ["near/beta", "asked", "far"]


@each(
    ("judge", "others", "expected"),
    [
        (THOUGHT, (ASKED, FAR, NEAR, ONCE), "near"),  # the same encoder
        (ASKED_THOUGHT, (ASKED, FAR, NEAR, ONCE), "asked"),  # the same model, in as many orders
        (ASKED_THOUGHT, (NEAR, ONCE), "once"),  # the same model
        (ASKED_THOUGHT, (FAR,), "far"),  # any
        (ASKED_THOUGHT, (STRANGER, ONCE), "once"),  # the model before the number of orders
    ],
)
def test_an_intention_judge_goes_with_the_response_judge_most_like_it(
    judge: JudgeEntry, others: tuple[JudgeEntry, ...], expected: str
) -> None:
    assert paired(within(read_by(judge, *others))) == [(judge.name, expected)]


def test_a_judge_that_has_not_read_a_run_is_named_with_the_command() -> None:
    file = read_by(NEAR).file

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
        between(chosen([[0.9], [0.9]]), read_by(*judges), (None, name))


@pytest.mark.parametrize(
    "other",
    [OTHER_RECIPE, JudgeEntry("near", "accuracy", "near:00|minilm", identity="g@2")],
    ids=["recipe", "asked model"],
)
def test_one_judge_by_two_recipes_is_refused_with_the_remedy(other: JudgeEntry) -> None:
    runs = read_by(NEAR), read_by(other, model=OTHER)

    for wanted in ((None, None), ("near", None), (None, "near")):
        with pytest.raises(SpecError, match=r"recipes differ: near:00.*have one judge read both"):
            between(*runs, wanted)


@each(
    ("first", "second", "judges", "message"),
    [
        (read_by(NEAR), read_by(FAR, model=OTHER), ("near", "far"), r"near:00\|minilm .*, far:00"),
        (read_by(NEAR), read_by(model=OTHER), (None, None), "by no judge alike: near; nobody"),
    ],
)
def test_runs_without_a_judge_in_common_are_refused_with_who_read_them(
    first: StoredRun, second: StoredRun, judges: tuple[str | None, str | None], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        between(first, second, judges)


def test_judges_by_one_recipe_serve_and_others_are_named() -> None:
    found = between(read_by(NEAR, FAR), read_by(OTHER_RECIPE, FAR, model=OTHER))

    assert paired(found) == [("far", "far")]
    assert "near:99" in found[1][0]


def test_a_swapped_judge_serves_only_by_name() -> None:
    runs = read_by(NEAR, SWAPPED), read_by(NEAR, SWAPPED, model=OTHER)

    assert paired(between(*runs)) == [("near", "near")]
    assert paired(between(*runs, ("near:swapped", None))) == [("near:swapped", "near:swapped")]
