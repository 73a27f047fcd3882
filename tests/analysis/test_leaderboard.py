"""Only what was made by one recipe is ranked together, and each score once."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.each import each
from support.sketches import run_file

from harness.analysis.leaderboard import BoardRow, collect, headlines, pair_sensitivities
from harness.analysis.standings import JudgeMatrix, RankedTable, judge_matrices, ranked_tables
from harness.core import Score
from harness.parts import Reason
from harness.storage.runs import RunFolder

FIELDS = "toy:9f31|data:d1f3,all|base|{model}:{kind}@a1|{decoding},n1,s0|near:00|minilm|v0.1.0"


def scored(
    model: str,
    value: float | None = 0.5,
    *,
    low: float | None = None,
    high: float | None = None,
    decoding: str = "T0.3",
    **changes: object,
) -> BoardRow:
    """A row of the table; `changes` replace what else its score holds."""
    n = 0 if value is None else 10
    missing = dict.fromkeys(Reason, 0)
    score = Score("near", "base", decoding, "all", "accuracy", value, low, high, n, n, missing)
    changed = replace(score, **changes)  # type: ignore[arg-type]  # checked where it is built
    kind = "scripted" if model in ("oracle", "literal") else "vllm"
    signature = FIELDS.format(model=model, decoding=decoding, kind=kind)
    return BoardRow("toy", model, changed, 0.5, None, signature)


def boards(rows: list[BoardRow]) -> list[RankedTable]:
    """The boards of rows whose verdicts are not at hand."""
    return ranked_tables(rows, {})


def matrices(rows: list[BoardRow]) -> list[JudgeMatrix]:
    return judge_matrices(boards(rows))


def plain(rows: list[BoardRow]) -> list[BoardRow]:
    """Rows without the name of their run."""
    return [replace(row, run="") for row in rows]


def signed(row: BoardRow, place: int, field: str) -> BoardRow:
    """A row with another field in its signature."""
    fields = row.signature.split("|")
    fields[place] = field
    return replace(row, signature="|".join(fields))


def run(results: Path, name: str, *rows: BoardRow) -> RunFolder:
    folder = RunFolder(results / name)
    folder.write(run_file(), [], rows)
    return folder


def models(rows: list[BoardRow]) -> list[list[str]]:
    return [[row.model for row in board.rows] for board in boards(rows)]


@each(
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


@pytest.mark.parametrize("field", ["b:vllm@a1", "a:openai@a1", "a:vllm@b2"])
def test_what_differs_in_the_model_alone_is_ranked_together(field: str) -> None:
    [board] = boards([scored("a", 0.4), signed(scored("b", 0.6), 3, field)])

    assert [row.model for row in board.rows] == ["b", "a"]
    assert "vllm" not in board.recipe


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
def test_details_and_groups_are_not_ranked(row: BoardRow) -> None:
    assert boards([row]) == []


def test_a_score_that_two_runs_hold_appears_once(tmp_path: Path) -> None:
    folders = [run(tmp_path, name, scored("a"), scored("b")) for name in ("one", "two")]

    assert plain(collect(folders)) == [scored("a"), scored("b")]


@pytest.mark.parametrize("order", [("small", "large"), ("large", "small")])
def test_of_two_holders_of_one_score_the_fuller_wins(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    held = {"small": scored("a", 0.2, n=5), "large": scored("a", 0.8, n=9)}

    found = collect(run(tmp_path, name, held[name]) for name in order)

    assert plain(found) == [held["large"]]


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
    assert (boards([]), headlines([])) == ([], [])


def by(judge: str, model: str, value: float | None = 0.5) -> BoardRow:
    """A row of a judge with a recipe of its own."""
    row = signed(scored(model, value), 5, f"{judge}:{len(judge):02}")
    return replace(row, score=replace(row.score, judge=judge))


def ranks(rows: list[BoardRow]) -> list[tuple[str, list[tuple[float | None, int | None]]]]:
    """The lines of the only table, a judge that has not read a model left out."""
    [table] = matrices(rows)
    return [
        (model, [(part.value, part.rank) for part in ranks if part]) for model, ranks in table.lines
    ]


def test_models_stand_side_by_side_with_a_rank_by_each_judge() -> None:
    # ChatGPT, Claude 3 Sonnet and Llama2-7B by BERTf1 and auto-gpt4, Lin and Lee 2024, table 1.
    table = {"chatgpt": (88.7, 3.83), "claude": (88.5, 3.86), "llama2": (86.3, 1.85)}
    rows = [by(judge, m, v[n]) for m, v in table.items() for n, judge in enumerate(("bert", "gpt"))]

    assert ranks(rows) == [
        ("chatgpt", [(88.7, 1), (3.83, 2)]),
        ("claude", [(88.5, 2), (3.86, 1)]),
        ("llama2", [(86.3, 3), (1.85, 3)]),
    ]


def test_models_of_equal_value_share_the_better_rank() -> None:
    rows = [by("near", name, value) for name, value in (("a", 0.2), ("b", 0.7), ("c", 0.7))]

    assert ranks(rows) == [("b", [(0.7, 1)]), ("c", [(0.7, 1)]), ("a", [(0.2, 3)])]


def test_a_model_without_a_value_has_no_rank_and_takes_none() -> None:
    rows = [by("near", "a", None), by("near", "b", -0.1)]

    assert ranks(rows) == [("b", [(-0.1, 1)]), ("a", [(None, None)])]


def test_a_judge_that_has_not_read_a_model_leaves_its_cell_empty() -> None:
    [table] = matrices([by("far", "a"), by("near", "a"), by("near", "b", 0.9)])

    assert table.judges == ("far", "near")
    found = {model: [part and part.rank for part in ranks] for model, ranks in table.lines}
    assert found == {"a": [1, 2], "b": [None, 1]}


@each(("place", "field"), [(0, "toy:7"), (1, "data:d,2"), (2, "c"), (4, "T,n1,s0"), (7, "v")])
def test_judges_stand_side_by_side_only_for_answers_made_alike(place: int, field: str) -> None:
    tables = matrices([by("near", "a"), signed(by("far", "a"), place, field)])

    assert [table.judges for table in tables] == [("near",), ("far",)]
    assert field in tables[1].recipe.split("|")


def test_two_judges_of_one_name_stand_under_their_recipes() -> None:
    [table] = matrices([by("near", "a"), signed(by("near", "a"), 5, "near:99@j-2")])

    assert table.judges == ("near:04|minilm", "near:99@j-2|minilm")


def test_two_revisions_of_a_model_stand_on_lines_of_their_own() -> None:
    rows = [by("near", "a"), signed(by("near", "a", 0.9), 3, "a:vllm@b2")]

    assert ranks(rows) == [("a", [(0.9, 1)]), ("a", [(0.5, 2)])]


def test_a_swapped_judge_has_no_column() -> None:
    [table] = matrices([by("near", "a"), signed(by("near:swapped", "a"), 5, "near:swapped:04")])

    assert table.judges == ("near",)


def swapped(model: str, value: float | None = 0.5) -> BoardRow:
    """A row of the judge `near` under swapped samples."""
    return signed(by("near:swapped", model, value), 5, "near:swapped:04")


@each(
    ("value", "other", "difference"),
    [(0.75, 0.25, 0.5), (0.25, 0.75, -0.5), (0.5, 0.5, 0.0), (None, 0.5, None), (0.5, None, None)],
)
def test_sensitivity_is_the_judge_less_the_same_judge_swapped(
    value: float | None, other: float | None, difference: float | None
) -> None:
    [found] = pair_sensitivities([by("near", "a", value), swapped("a", other), by("near", "b")])

    assert (found.model, found.judge, found.difference) == ("a", "near", difference)


@pytest.mark.parametrize(("place", "field"), [(2, "cot3"), (3, "b:x@1"), (5, "near:swapped:99")])
def test_a_judge_swapped_under_another_recipe_says_nothing(place: int, field: str) -> None:
    assert pair_sensitivities([by("near", "a"), signed(swapped("a"), place, field)]) == []
