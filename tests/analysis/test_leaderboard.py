"""Only what was made by one recipe is ranked together, and each score once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pandas import DataFrame
from support.each import each
from support.run_tables import scores_of, verdicts_on
from support.sketches import run_file

from harness.analysis.boards.ranked import standings
from harness.analysis.boards.scores import board_scores, headlines, judge_fitness, score_text
from harness.core import Score
from harness.parts import Reason
from harness.stats.intervals import mean_interval
from harness.storage.frames import plain_rows
from harness.storage.runs import RunFolder, ScoreRow

FIELDS = "toy:9f31|data:d1f3,all|base|{model}:{kind}@a1|{decoding},n1,s0|near:00|minilm|v0.1.0"


def scored(
    model: str,
    value: float | None = 0.5,
    *,
    low: float | None = None,
    high: float | None = None,
    decoding: str = "T0.3",
    **changes: object,
) -> ScoreRow:
    n = 0 if value is None else 10
    missing = dict.fromkeys(Reason, 0)
    score = Score("near", "base", decoding, "all", "accuracy", value, low, high, n, n, missing)
    changed = replace(score, **changes)  # type: ignore[arg-type]  # checked where it is built
    kind = "scripted" if model in ("oracle", "literal") else "vllm"
    signature = FIELDS.format(model=model, decoding=decoding, kind=kind)
    return ScoreRow("toy", model, changed, 0.5, None, signature)


def boards(rows: list[ScoreRow]) -> list[list[Any]]:
    """The rows of each board of scores whose verdicts were not read."""
    made = standings(scores_of(rows), verdicts_on({}))
    return [[*own.itertuples()] for _, own in made.groupby("board")]


def collect(folders: Iterable[RunFolder]) -> DataFrame:
    return board_scores({folder.path.name: score_text(folder) for folder in folders})


def signed(row: ScoreRow, place: int, field: str) -> ScoreRow:
    """A row with another field in its signature."""
    fields = row.signature.split("|")
    fields[place] = field
    return replace(row, signature="|".join(fields))


def run(results: Path, name: str, *rows: ScoreRow) -> RunFolder:
    folder = RunFolder(results / name)
    folder.write(run_file(), [], rows)
    return folder


def models(rows: list[ScoreRow]) -> list[list[str]]:
    return [[row.model for row in board] for board in boards(rows)]


@each(
    ("place", "field"),
    [
        *((0, "toy:77ab"), (1, "data:sample,all"), (1, "data:d1f3,20"), (2, "cot3")),
        *((4, "T0.5,n1,s0"), (4, "T0.3,n1,s1"), (5, "near:77"), (5, "near:00@j-2")),
        *((6, "both-orders"), (7, "v0.2.0")),
    ],
)
def test_what_differs_in_more_than_the_model_is_not_ranked_together(place: int, field: str) -> None:
    other = signed(scored("b"), place, field)
    assert models([scored("a"), other]) == [["a"], ["b"]]


@pytest.mark.parametrize("field", ["b:vllm@a1", "a:openai@a1", "a:vllm@b2"])
def test_what_differs_in_the_model_alone_is_ranked_together(field: str) -> None:
    [board] = boards([scored("a", 0.4), signed(scored("b", 0.6), 3, field)])
    assert [row.model for row in board] == ["b", "a"]
    assert "vllm" not in board[0].recipe


def test_the_best_comes_first_and_the_headline_is_over_all_temperatures() -> None:
    rows = [scored("none", None), scored("low", -0.5), scored("zero", 0.0), scored("top", 0.9)]
    assert models(rows) == [["top", "zero", "low", "none"]]

    rows = [scored("a", 0.1), scored("a", 0.3, decoding="T0.3+0.5"), scored("a", decoding="T0.5")]
    [found] = headlines(scores_of(rows)).itertuples()
    assert (found.decoding, found.value) == ("T0.3+0.5", 0.3)


@pytest.mark.parametrize("metric", ["accuracy", "mean_rating", "mean_f1"])
def test_headline_metrics_are_ranked(metric: str) -> None:
    assert models([scored("a", metric=metric)]) == [["a"]]


@pytest.mark.parametrize("row", [scored("a", metric="margin"), scored("a", group="irony")])
def test_details_and_groups_are_not_ranked(row: ScoreRow) -> None:
    assert boards([row]) == []


def test_no_or_equal_runs_make_an_empty_table_or_each_score_once(tmp_path: Path) -> None:
    folders = [run(tmp_path, name, scored("a"), scored("b")) for name in ("one", "two")]
    assert collect(folders)["model"].tolist() == ["a", "b"]

    assert len(collect([])) == len(collect([RunFolder(tmp_path / "unscored")])) == 0
    assert boards([]) == []


@pytest.mark.parametrize("order", [("small", "large"), ("large", "small")])
def test_of_two_holders_of_a_score_the_fuller_wins(tmp_path: Path, order: tuple[str, ...]) -> None:
    held = {"small": scored("a", 0.2, n=5), "large": scored("a", 0.8, n=9)}
    found = collect(run(tmp_path, name, held[name]) for name in order)
    assert found[["value", "n"]].to_numpy().tolist() == [[0.8, 9]]


def test_all_rows_of_all_runs_stand_in_one_order_whatever_came_first(tmp_path: Path) -> None:
    rows = [
        *(scored("a"), scored("a", group="irony"), scored("b"), scored("b", metric="margin")),
        scored("a", decoding="T0.3+0.5"),
    ]
    folders = [run(tmp_path, str(n), row) for n, row in enumerate(rows)]

    found = collect(folders)

    assert plain_rows(collect(reversed(folders))) == plain_rows(found)
    assert [(r.decoding, r.model, r.group, r.metric) for r in found.itertuples()] == [
        *(("T0.3", "a", "all", "accuracy"), ("T0.3", "a", "irony", "accuracy")),
        *(("T0.3", "b", "all", "accuracy"), ("T0.3", "b", "all", "margin")),
        ("T0.3+0.5", "a", "all", "accuracy"),
    ]


SIGNATURE = "toy:9f31|data:d1f3,all|base|{}:scripted@a1|T0.3,n1,s0|near:00|minilm|v0.1.0"
Ends = tuple[float | None, float | None, float | None]
CONTROLS = ("oracle", "literal")
FIT, UNSURE, UNFIT, WEAK, UNREAD = "fit", "cannot tell", "unfit", "weak", "unread"


def control(model: str, ends: Ends, *, clusters: int = 40, judge: str = "near") -> ScoreRow:
    n = 0 if ends[0] is None else clusters
    missing = dict.fromkeys(Reason, 0)
    score = Score(judge, "base", "T0.3", "all", "accuracy", *ends, n, n, missing)
    return ScoreRow("toy", model, score, 0.5, None, SIGNATURE.format(model))


def fitness(
    rows: list[ScoreRow], verdicts: Mapping[str, Sequence[float]] | None = None
) -> list[Any]:
    held = verdicts_on(verdicts or {})
    return [*judge_fitness(standings(scores_of(rows), held), held).itertuples()]


@pytest.mark.slow
@each(
    ("oracle", "literal", "chance", "finding"),
    [
        ("1" * 36 + "0" * 4, "0" * 36 + "1" * 4, 0.5, FIT),
        ("1" * 30 + "0" * 10, "0" * 30 + "1" * 10, 0.5, UNSURE),  # exactly half of the scale
        ("1" * 260 + "0" * 140, "0" * 260 + "1" * 140, 0.5, WEAK),
        ("1" * 39 + "0", "01" * 20, 0.5, UNSURE),  # literal may be below chance
        ("1" * 40, "1" * 30 + "0" * 10, 0.5, UNFIT),  # literal is above it
        ("10" * 200, "01" * 200, 0.5, UNFIT),
        ("1" * 25 + "0" * 15, "0" * 25 + "1" * 15, 0.5, UNSURE),
        ("1" * 30 + "0" * 10, "0" * 30 + "1" * 10, None, FIT),
        ("1" * 22 + "0" * 18, "01" * 20, None, UNSURE),
        ("0" * 36 + "1" * 4, "1" * 36 + "0" * 4, 0.5, UNFIT),
        ("0" * 36 + "1" * 4, "1" * 36 + "0" * 4, None, UNFIT),
        ("1" * 40, "0" * 40, None, FIT),  # a gap without spread is its own interval
        ("10" * 20, "10" * 20, None, UNFIT),
    ],
)
def test_the_gap_of_the_controls_decides(
    oracle: str, literal: str, chance: float | None, finding: str
) -> None:
    sides = (np.array([*map(float, side)]) for side in (oracle, literal))
    assert read(*sides, chance=chance).finding == finding


@pytest.mark.parametrize("lost", CONTROLS)
def test_a_judge_of_which_no_verdict_on_a_control_could_be_read_is_unread(lost: str) -> None:
    ends: dict[str, Ends] = dict.fromkeys(CONTROLS, (0.9, 0.8, 1.0)) | {lost: (None, None, None)}
    [found] = fitness([control(name, own) for name, own in ends.items()])
    assert (found.finding, np.isnan(found.low)) == (UNREAD, True)


@pytest.mark.parametrize(("clusters", "finding"), [(1, "few"), (9, "few"), (10, UNSURE)])
def test_fewer_than_ten_items_are_too_few_to_tell(clusters: int, finding: str) -> None:
    rows = [
        control("oracle", (1.0, 0.7, 1.0), clusters=clusters),
        control("literal", (0.0, 0.0, 0.3)),
    ]

    assert [part.finding for part in fitness(rows)] == [finding]


def test_nothing_is_said_of_a_judge_without_both_controls_of_one_recipe() -> None:
    ends = (0.5, 0.4, 0.6)
    other = control("literal", ends)
    strange = replace(other, signature=other.signature.replace("|base|", "|cot3|"))

    for rest in ("oracle", "literal"):
        assert fitness([control(rest, ends), control("other", ends)]) == []
    assert fitness([control("oracle", ends), strange]) == []


def read(oracle: np.ndarray, literal: np.ndarray, *, chance: float | None = 0.5) -> Any:  # noqa: ANN401 - a row of a frame
    """What verdicts on the same items show, each item a cluster."""
    rows, verdicts = [], {}
    for model, values in (("oracle", oracle), ("literal", literal)):
        found = mean_interval(values.tolist(), [*map(str, range(len(values)))], is_share=True)
        row = control(model, (found.value, found.low, found.high), clusters=len(values))
        rows.append(replace(row, chance=chance))
        verdicts[row.signature] = values.tolist()
    [one] = fitness(rows, verdicts)
    return one


def test_verdicts_on_the_same_items_narrow_the_gap() -> None:
    # The judge misses the same hard stories for both: 12 of 40 by .5 and the others by 1.
    oracle = np.array([0.5] * 12 + [1.0] * 28)
    literal = np.array([0.0] * 40)
    literal[12:20] = 0.5

    found = read(oracle, literal)

    assert found.low > 0.5
    assert found.finding == FIT


def shares(finding: str, right: float, *, count: int) -> float:
    """How often a judge that is right so often about both controls has a finding."""
    draw = np.random.default_rng(count)
    pairs = [
        ((draw.random(count) < right) * 1.0, (draw.random(count) >= right) * 1.0)
        for _ in range(200)
    ]
    return float(np.mean([read(*pair).finding == finding for pair in pairs]))


@pytest.mark.slow
@pytest.mark.parametrize("count", [10, 20, 56])
@pytest.mark.parametrize("right", [0.8, 0.9])
def test_a_judge_that_tells_controls_apart_is_not_called_unfit(right: float, count: int) -> None:
    assert shares(UNFIT, right, count=count) + shares(WEAK, right, count=count) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("count", [10, 20, 56])
def test_a_judge_that_flips_a_coin_is_never_fit_and_unfit_where_items_suffice(count: int) -> None:
    assert shares(FIT, 0.5, count=count) == 0
    assert count < 56 or shares(UNFIT, 0.5, count=count) >= 0.9
