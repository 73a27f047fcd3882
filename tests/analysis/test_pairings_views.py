"""What a judge makes of each sample, by variant and decoding, and by all orders together."""

from dataclasses import replace
from math import isnan

import pytest
from support import paired_runs
from support.each import each
from support.paired_runs import GOLD, NEAR, THOUGHT, between, chosen, stored, views, words_task
from support.run_tables import score_rows

from harness.analysis.pairings import Pairings, RunView, judge_named, response_judges
from harness.core import Score
from harness.errors import SpecError, StoreError
from harness.storage.runs import JudgeEntry, ModelEntry, StoredRun

TWO_WAYS = {("base", "T0.3", "near"): "10=.", ("base", "T0.5", "near"): "1111"}


def by_key(found: list[RunView]) -> dict[tuple[str, str], list[float | None]]:
    return {
        (v.variant, v.decoding): [None if isnan(value) else value for value in v.scores["value"]]
        for v in found
    }


def served(run: StoredRun, *names: str | None) -> StoredRun:
    """The run, its judge's verdicts by these snapshots in turn."""
    rows = [
        replace(row, verdicts={n: replace(v, served=name) for n, v in row.verdicts.items()})
        for row, name in zip(run.rows, names * len(run.rows), strict=False)
    ]
    return StoredRun(run.file, rows)


def test_views_are_by_variant_and_decoding_where_a_judge_has_read() -> None:
    found = by_key(views(stored(words_task(), TWO_WAYS), NEAR))
    assert found == {("base", "T0.3"): [1, 0, 0.5, None], ("base", "T0.5"): [1, 1, 1, 1]}

    readings = {("base", "T0.3", "near"): "11", ("cot0", "T0.3", "near-thought"): "01"}
    run = stored(words_task(), readings, judges=(NEAR, THOUGHT))
    assert list(by_key(views(run, THOUGHT))) == [("cot0", "T0.3")]


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [(0.9, 0.4, 1.0), (0.6, 0.1, 0.0), (0.7, 0.3, 0.5), (0.9, None, None)],
    ids=["likelier on average", "less likely", "tie", "an order is missing"],
)
def test_a_pool_reads_a_sample_by_its_probability_over_the_orders(
    first: float, second: float | None, value: float | None
) -> None:
    found = by_key(views(chosen([[first], [second]]), GOLD))
    assert found[("all", "logprob")] == [value]


@pytest.mark.parametrize(("letters", "value"), [("11", 1.0), ("00", 0.0), ("10", 0.5)])
def test_a_pool_without_probabilities_takes_its_verdicts_mean(letters: str, value: float) -> None:
    run = chosen([[0.9 if letter == "1" else 0.1] for letter in letters])
    plain = [
        replace(row, verdicts={"gold": replace(row.verdicts["gold"], shares=())})
        for row in run.rows
    ]

    assert by_key(views(StoredRun(run.file, plain), GOLD))[("all", "logprob")] == [value]


def test_a_pool_is_a_view_only_where_all_its_orders_ran() -> None:
    run = chosen([[0.9, 0.8], [0.7, 0.2]])
    half = StoredRun(run.file, [row for row in run.rows if row.variant == "order0"])

    assert list(by_key(views(half, GOLD))) == [("order0", "logprob")]
    assert [view.is_pool for view in views(run, GOLD)] == [False, False, True]


def test_a_pools_mean_is_the_accuracy_permuted_of_the_scores() -> None:
    run = chosen([[0.9, 0.8, 0.3, 0.6], [0.7, 0.1, 0.4, 0.4]])
    [score] = [part for part in scores(run) if part.metric == "accuracy_permuted"]

    values = by_key(views(run, GOLD))[("all", "logprob")]
    assert score.value == sum(value or 0 for value in values) / 4 == 0.375


def scores(run: StoredRun) -> list[Score]:
    rows = [row.score for row in score_rows(run.file, run.rows)]
    return [score for score in rows if (score.variant, score.group) == ("all", "all")]


def test_a_view_is_signed_as_the_scores_are() -> None:
    run = served(stored(words_task(), TWO_WAYS), "gpt-9-0101")
    signatures = {row.signature for row in score_rows(run.file, run.rows)}

    [view, _] = views(run, NEAR)
    assert {view.signature("T0.3"), view.signature("T0.3+0.5")} < signatures


def test_snapshots_of_a_judge_are_one_or_refused() -> None:
    run = served(stored(words_task(), TWO_WAYS), "gpt-9-0101", "gpt-9-0202")
    with pytest.raises(StoreError, match=r"gpt-9-0101; .*gpt-9-0202.*model's YAML"):
        views(run, NEAR)

    run = served(stored(words_task(), {("base", "T0.3", "near"): "1.1."}), "gpt-9-0101", None)
    assert views(run, NEAR)[0].snapshots == ("", "gpt-9-0101")


FAR = JudgeEntry("far", "accuracy", "far:00|char-ngrams")
ASKED = JudgeEntry("asked", "accuracy", "asked:00|both-orders", asks="gpt-4", identity="g@1")
ONCE = JudgeEntry("once", "accuracy", "once:00|single-order", asks="gpt-4", identity="g@1")
ASKED_THOUGHT = JudgeEntry(
    "asked-thought", "accuracy", "asked-thought:00|both-orders", "gpt-4", "g@1", "thought"
)
STRANGER = JudgeEntry("stranger", "accuracy", "stranger:00|both-orders", "x", "x@1")
RATED = JudgeEntry("rated", "mean_rating", "rated:00|strict")
OTHER_RECIPE = JudgeEntry("near", "accuracy", "near:99|minilm")
ALL = (ASKED, ASKED_THOUGHT, FAR, NEAR, THOUGHT, ONCE, RATED)
OTHER = ModelEntry("other", "scripted", "o@1", "r2")


def read_by(*judges: JudgeEntry, model: ModelEntry = paired_runs.SMALL) -> StoredRun:
    """A run whose only answer some judges have read."""
    readings = {("base", "T0.3", judge.name): "1" for judge in judges}
    task = words_task(gaps={})
    return stored(task, readings or {("base", "T0.3", "none"): "1"}, judges=judges, model=model)


def names(entries: list[JudgeEntry]) -> list[str]:
    return [entry.name for entry in entries]


def paired(found: Pairings) -> list[tuple[str, str]]:
    return [(one.first.judge.name, one.second.judge.name) for one in found[0]]


def test_response_judges_are_the_tasks_own_first() -> None:
    assert names(response_judges(read_by(*ALL).file)) == ["near", "asked", "far", "once"]
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
    assert paired(paired_runs.within(read_by(judge, *others))) == [(judge.name, expected)]


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
