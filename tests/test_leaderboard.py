"""Only what was made by one recipe is ranked together, and each score once."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.core import Score
from harness.leaderboard import boards, collect, headlines, unfit
from harness.parts import Reason
from harness.runs import RunFolder, write_whole
from harness.scores import ScoreRow, table_text

FIELDS = "toy:9f31|data:d1f3,all|base|{model}:scripted@a1|{decoding},n1,s0|near:00|minilm|v0.1.0"


def scored(
    model: str,
    value: float | None = 0.5,
    *,
    low: float | None = None,
    high: float | None = None,
    decoding: str = "T0.3",
    **changes: object,
) -> ScoreRow:
    """A row of the table; `changes` replace what else its score holds."""
    n = 0 if value is None else 10
    missing = dict.fromkeys(Reason, 0)
    score = Score("near", "base", decoding, "all", "accuracy", value, low, high, n, n, missing)
    changed = replace(score, **changes)  # type: ignore[arg-type]  # checked where it is built
    signature = FIELDS.format(model=model, decoding=decoding)
    return ScoreRow("toy", model, changed, 0.5, None, signature)


def signed(row: ScoreRow, place: int, field: str) -> ScoreRow:
    """A row with another field in its signature."""
    fields = row.signature.split("|")
    fields[place] = field
    return replace(row, signature="|".join(fields))


def run(results: Path, name: str, *rows: ScoreRow) -> RunFolder:
    folder = RunFolder(results / name)
    write_whole(folder.scores, table_text(rows).encode())
    return folder


def models(rows: list[ScoreRow]) -> list[list[str]]:
    return [[row.model for row in board.rows] for board in boards(rows)]


@pytest.mark.parametrize(
    ("place", "field"),
    [
        (0, "toy:77ab"),
        (1, "data:sample,all"),
        (1, "data:d1f3,20"),
        (2, "cot3"),
        (4, "T0.5,n1,s0"),
        (4, "T0.3,n1,s1"),
        (5, "near:77"),
        (5, "near:00@j-2"),
        (6, "both-orders"),
        (7, "v0.2.0"),
    ],
)
def test_what_differs_in_more_than_the_model_is_not_ranked_together(place: int, field: str) -> None:
    other = signed(scored("b"), place, field)

    assert models([scored("a"), other]) == [["a"], ["b"]]


@pytest.mark.parametrize("field", ["b:scripted@a1", "a:vllm@a1", "a:scripted@b2"])
def test_what_differs_in_the_model_alone_is_ranked_together(field: str) -> None:
    [board] = boards([scored("a", 0.4), signed(scored("b", 0.6), 3, field)])

    assert [row.model for row in board.rows] == ["b", "a"]
    assert "scripted" not in board.recipe


def test_two_seeds_of_one_model_both_stand() -> None:
    other = signed(scored("a", 0.7), 4, "T0.3,n1,s1")

    assert len(headlines([scored("a"), other])) == 2


def test_the_best_comes_first_and_what_has_no_value_last() -> None:
    rows = [scored("none", None), scored("low", -0.5), scored("zero", 0.0), scored("top", 0.9)]

    assert models(rows) == [["top", "zero", "low", "none"]]


def test_models_of_equal_value_stand_in_the_order_of_their_names() -> None:
    assert models([scored("b"), scored("c"), scored("a")]) == [["a", "b", "c"]]


def test_the_headline_is_the_row_over_all_temperatures() -> None:
    rows = [scored("a", 0.1), scored("a", 0.3, decoding="T0.3+0.5"), scored("a", decoding="T0.5")]

    [found] = headlines(rows)

    assert (found.score.decoding, found.score.value) == ("T0.3+0.5", 0.3)


@pytest.mark.parametrize("metric", ["accuracy", "mean_rating", "mean_f1"])
def test_headline_metrics_are_ranked(metric: str) -> None:
    assert models([scored("a", metric=metric)]) == [["a"]]


@pytest.mark.parametrize("row", [scored("a", metric="margin"), scored("a", group="irony")])
def test_details_and_groups_are_not_ranked(row: ScoreRow) -> None:
    assert boards([row]) == []


def test_a_score_that_two_runs_hold_appears_once(tmp_path: Path) -> None:
    folders = [run(tmp_path, name, scored("a"), scored("b")) for name in ("one", "two")]

    assert collect(folders) == [scored("a"), scored("b")]


@pytest.mark.parametrize("order", [("small", "large"), ("large", "small")])
def test_of_two_holders_of_one_score_the_fuller_wins(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    held = {"small": scored("a", 0.2, n=5), "large": scored("a", 0.8, n=9)}

    found = collect(run(tmp_path, name, held[name]) for name in order)

    assert found == [held["large"]]


def test_all_rows_of_all_runs_stand_in_one_order_whatever_came_first(tmp_path: Path) -> None:
    rows = [
        scored("a"),
        scored("a", group="irony"),
        scored("b"),
        scored("b", metric="margin"),
        scored("a", decoding="T0.3+0.5"),
    ]
    folders = [run(tmp_path, str(n), row) for n, row in enumerate(rows)]

    found = collect(folders)

    assert collect(reversed(folders)) == found
    assert [(r.score.decoding, r.model, r.score.group, r.score.metric) for r in found] == [
        ("T0.3", "a", "all", "accuracy"),
        ("T0.3", "a", "irony", "accuracy"),
        ("T0.3", "b", "all", "accuracy"),
        ("T0.3", "b", "all", "margin"),
        ("T0.3+0.5", "a", "all", "accuracy"),
    ]


def test_no_runs_make_an_empty_table(tmp_path: Path) -> None:
    assert collect([]) == collect([RunFolder(tmp_path / "unscored")]) == []
    assert (boards([]), headlines([]), unfit([])) == ([], [], [])


@pytest.mark.parametrize(
    ("oracle", "literal", "is_unfit"),
    [
        ((0.9, 0.8, 1.0), (0.1, 0.0, 0.2), False),
        ((0.6, 0.4, 0.8), (0.4, 0.2, 0.6), True),
        ((0.6, 0.5, 0.7), (0.4, 0.3, 0.5), True),
        ((0.1, 0.0, 0.2), (0.9, 0.8, 1.0), True),
        ((None, None, None), (0.1, 0.0, 0.2), True),
        ((0.9, 0.8, 1.0), (None, None, None), True),
        ((5.0, None, None), (1.0, None, None), False),
        ((3.0, None, None), (3.0, None, None), True),
    ],
)
def test_a_judge_is_unfit_where_oracle_and_literal_overlap(
    oracle: tuple[float | None, ...], literal: tuple[float | None, ...], is_unfit: bool
) -> None:
    ceiling = scored("oracle", oracle[0], low=oracle[1], high=oracle[2])
    floor = scored("literal", literal[0], low=literal[1], high=literal[2])

    found = unfit([ceiling, floor, scored("other", 0.5, low=0.0, high=1.0)])

    assert [(part.judge, part.ceiling, part.floor) for part in found] == (
        [("near", oracle[0], literal[0])] if is_unfit else []
    )


def test_one_cluster_is_too_little_to_call_a_judge_fit() -> None:
    rows = [scored("oracle", 1.0, clusters=1), scored("literal", 0.0, clusters=1)]

    assert len(unfit(rows)) == 1


@pytest.mark.parametrize("missing", ["oracle", "literal"])
def test_a_judge_without_both_controls_is_not_called_unfit(missing: str) -> None:
    rows = [scored(name) for name in ("oracle", "literal", "other") if name != missing]

    assert unfit(rows) == []


def test_controls_of_another_recipe_say_nothing_of_a_judge() -> None:
    assert unfit([scored("oracle"), signed(scored("literal"), 2, "cot3")]) == []
