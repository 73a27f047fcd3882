"""What a judge makes of each sample, by variant and decoding, and by all orders together."""

from dataclasses import replace
from math import isnan

import pytest
from support.paired_runs import GOLD, NEAR, THOUGHT, chosen, stored, views, words_task
from support.run_tables import score_rows

from harness.analysis.run_views import RunView
from harness.core import Score
from harness.errors import StoreError
from harness.storage.runs import StoredRun

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


def test_each_variant_and_decoding_is_a_view_of_its_own() -> None:
    found = by_key(views(stored(words_task(), TWO_WAYS), NEAR))

    assert found == {("base", "T0.3"): [1, 0, 0.5, None], ("base", "T0.5"): [1, 1, 1, 1]}


def test_rows_that_a_judge_has_not_read_are_in_no_view() -> None:
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
def test_a_pool_without_probabilities_takes_the_mean_of_its_verdicts(
    letters: str, value: float
) -> None:
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


def test_several_snapshots_behind_one_judge_are_refused_with_their_names() -> None:
    run = served(stored(words_task(), TWO_WAYS), "gpt-9-0101", "gpt-9-0202")

    with pytest.raises(StoreError, match=r"gpt-9-0101; .*gpt-9-0202.*model's YAML"):
        views(run, NEAR)


def test_a_missing_verdict_has_no_say_in_whose_snapshot_it_is() -> None:
    run = served(stored(words_task(), {("base", "T0.3", "near"): "1.1."}), "gpt-9-0101", None)

    assert views(run, NEAR)[0].snapshots == ("", "gpt-9-0101")
