"""Scores, ratings and verdicts to figures: what is in them, and what is refused."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.packages import needs
from support.rated_runs import ANN, BOB, FAR, NEAR, panels_of
from support.rated_runs import ratings as rated
from support.rated_runs import runs as judged
from support.run_tables import score_rows

from harness.analysis.boards.scores import BOARD_COLUMNS
from harness.analysis.panels import AgreementQuery, Panel
from harness.errors import SpecError, StoreError
from harness.models.encoders.encoders import CharNgrams
from harness.present.figures import marks, scores
from harness.present.figures.figure import Figure, Subplot, data_csv, drawable, values
from harness.present.figures.named import FIGURES, figure_of
from harness.present.figures.scores import ScoreFilter
from harness.present.figures.texts import Placed, embedding_map
from harness.storage.runs import JudgeEntry, RunFolder, StoredRun
from harness.storage.signature import Signature
from harness.workspace import Workspace

if TYPE_CHECKING:
    from pandas import DataFrame

NAN = float("nan")
Cells = dict[str, object]


def row(model: str = "small", value: float = 0.5, **changes: object) -> Cells:
    """A stored score of forty texts, with an interval of a tenth to either side."""
    found: Cells = {"task": "toy", "variant": "base", "judge": "near", "group": "all", "data": "d1"}
    found |= {"model": model, "value": value, "low": value - 0.1, "high": value + 0.1} | changes
    found |= {"n": 40.0 if value == value else 0.0, "decoding": "T0", "metric": "accuracy"}
    found |= {"chance": 0.5, "limit": "all", "seed": "0", "version": "scripted@1"}
    found["signature"] = (
        f"{found['task']}:aa|data:{found['data']},all|{found['variant']}|{model}:scripted@1|"
        f"T0,n1,s0|{found['judge']}:00|way|v1"
    )
    found["recipe"] = Signature.parse(str(found["signature"])).without("model")
    return found


def frame(rows: Iterable[Cells]) -> "DataFrame":
    import pandas

    return pandas.DataFrame(list(rows)).reindex(columns=[*BOARD_COLUMNS, "recipe", "answers"])


def rows_of(figure: Figure) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data_csv(figure))))


def folders(results: Path, runs: Sequence[StoredRun]) -> list[RunFolder]:
    """Runs as folders on disk."""
    numbers = count()
    found = []
    for run in runs:
        folder = RunFolder(results / "runs" / run.file.run.task / "m" / f"{next(numbers):04d}")
        folder.write(run.file, run.rows, score_rows(run.file, run.rows))
        found.append(folder)
    return found


# The rules of every figure


def test_what_has_fewer_than_ten_texts_is_not_drawn_but_written() -> None:
    rows = values("s", [1, 2], [0.5, 0.6], "bars", to=[1.5, 2.5], n=[10, 9])
    figure = Figure("t", (Subplot("p", rows, x_names=("one", "two")),))

    drawn = drawable(figure)

    assert drawn.panels[0].rows.y.fillna(-1).tolist() == [0.5, -1]
    assert drawn.notes == ("1 value of fewer than 10 texts not drawn",)
    assert [(r["x_name"], r["y"], r["n"], r["note"]) for r in rows_of(figure)] == [
        ("one", "0.5", "10", ""),
        ("two", "0.6", "9", "not drawn: fewer than 10 texts"),
    ]


@pytest.mark.parametrize(("number", "panels"), [(6, 1), (7, 7)])
def test_more_than_six_series_get_a_panel_each(number: int, panels: int) -> None:
    import pandas

    rows = pandas.concat([values(f"m{n}", [1, 2], [0, 1], "curve", n=20) for n in range(number)])

    drawn = drawable(Figure("t", (Subplot("p", rows),)))

    assert len(drawn.panels) == panels
    assert drawn.panels[-1].title == ("p" if panels == 1 else "p | m6")
    assert all(panel.rows.series.nunique() <= 6 for panel in drawn.panels)


def test_cells_and_texts_are_shown_as_they_are_and_safe() -> None:
    (found,) = rows_of(Figure("t", (Subplot("@p", values("=1+1", [1], [NAN], "curve", n=20)),)))
    assert (found["panel"], found["series"], found["y"]) == ("'@p", "'=1+1", "")
    assert marks.shown("a\x1b[31m $x^2$\n\\frac\ud800") == "a[31m $x^2$ \\frac\ufffd"


# Scores


def test_a_layout_draws_each_score_at_its_properties() -> None:
    made = [("a", "near", 0.2), ("a", "far", 0.4), ("b", "near", 0.6)]

    figure = scores.comparison(frame(row(m, v, judge=j) for m, j, v in made), "model", "", "judge")

    (panel,) = figure.panels
    assert list(panel.x_names) == ["a", "b"]
    by_series = panel.rows.groupby("series").y.apply(list).to_dict()
    assert by_series == {"near": [0.2, 0.6], "far": [0.4]}


def test_missing_and_several_scores_are_never_zero_or_averaged() -> None:
    rows = frame([row("a", 0.2, judge="near"), row("a", 0.4, judge="far")])
    with pytest.raises(SpecError, match=r"differ in judge \(near, far\); give --judge"):
        scores.comparison(rows, "model")
    with pytest.raises(SpecError, match="--x 'colour': give one of task, model"):
        scores.comparison(rows, "colour")

    figure = scores.comparison(frame([row("a", 0.2), row("b", NAN)]), "model")
    assert np.isnan(figure.panels[0].rows.y.iloc[1])
    assert rows_of(figure)[1]["y"] == ""


def test_figure_2_has_a_panel_a_model_and_both_tasks_by_phenomenon() -> None:
    tasks = {scores.RESOLUTION: "base", scores.DETECTION: "all"}
    rows = frame(
        row(model, value, task=task, variant=variant, group=group)
        for model, value in (("a", 0.3), ("b", 0.6))
        for task, variant in tasks.items()
        for group in ("irony", "maxims")
    )

    figure = scores.understanding(rows, ScoreFilter())

    assert [panel.title for panel in figure.panels] == ["a", "b"]
    assert figure.labels == [*tasks]
    assert list(figure.panels[0].x_names) == ["irony", "maxims"]


def test_figure_3_has_a_line_a_model_over_the_levels() -> None:
    rows = frame(
        row(model, 0.5, task=scores.RESOLUTION, variant=level)
        for level in ("cot1", "base", "cot0")
        for model in ("a", "b")
    )

    (panel,) = scores.levels(rows, ScoreFilter()).panels

    assert list(panel.x_names) == ["base", "cot0", "cot1"]
    assert panel.rows.groupby("series").size().to_dict() == {"a": 3, "b": 3}


def test_figure_4_is_one_panel_of_all_models_without_controls() -> None:
    rows = frame(
        row(f"m{at}", value, task=scores.RESOLUTION, variant="cot0", judge=judge)
        | ({} if at == 7 else {"version": "vllm@1"})
        for at, value in enumerate([0.1, 0.5, 0.2, 0.7, 0.4, 0.9, 0.3, 1.0])
        for judge in ("thought", "near")
    )
    steps = {"thought": "intention", "near": None}
    judges = {name: JudgeEntry(name, "accuracy", name, step=step) for name, step in steps.items()}

    figure = scores.intentions(rows, ScoreFilter(), judges)

    assert len(drawable(figure).panels) == 1
    assert "m7" not in figure.labels
    assert figure.panels[0].note == "r = 1.00, 7 points"


@pytest.mark.slow
@needs("sklearn")
def test_a_map_has_a_marker_a_kind_and_shows_gold_and_predicted_labels() -> None:
    texts = [
        Placed(f"text {at}", f"topic {at % 8}", "ab"[at % 2], predicted="x") for at in range(16)
    ]

    (gold, predicted) = embedding_map(texts, CharNgrams(), lambda *_: None).panels

    assert (gold.title, predicted.title) == ("by label", "by prediction")
    assert gold.rows.series.nunique() == 8
    assert gold.rows.z.value_counts().to_dict() == {1.0: 8, 2.0: 8}


def test_a_forest_orders_the_models_of_a_board_and_says_of_how_many() -> None:
    rows = [row("low", 0.2), row("none", NAN), row("worse", -0.2), row("high", 0.8)]
    rows += [row("two", 0.1, answers=way, prompts=way) for way in ("written", "logprob")]
    (panel,) = scores.forest(frame(rows), ScoreFilter()).panels

    both = ["two written (n=40)", "two logprob (n=40)"]
    assert panel.y_names == ["high (n=40)", "low (n=40)", *both, "worse (n=40)", "none (n=0)"]
    assert panel.rows.low.iloc[:2].tolist() == pytest.approx([0.7, 0.1])


@pytest.mark.parametrize(
    ("rows", "titles"),
    [
        ([row(judge="near"), row(judge="far")], ["toy, base, near", "toy, base, far"]),
        ([row(), row(data="d2")], ["toy, base, near (data d1)", "toy, base, near (data d2)"]),
    ],
)
def test_panels_of_a_forest_are_named_by_what_differs(rows: list[Cells], titles: list[str]) -> None:
    assert [panel.title for panel in scores.forest(frame(rows), ScoreFilter()).panels] == titles


# People and judges


def panel_of_talk() -> Panel:
    runs, ratings = judged(near=NEAR, far=FAR), rated("base", ann=ANN, bob=BOB)
    return panels_of(runs, ratings, AgreementQuery())[0]


def correlation(first: object, second: object) -> float:
    return float(np.corrcoef(np.array(first).ravel(), np.array(second).ravel())[0, 1])


def test_judges_are_drawn_against_people_with_r_and_tau() -> None:
    figure = scores.judges_against_people([panel_of_talk()])

    r = correlation((np.array(ANN) + np.array(BOB)) / 2, NEAR)
    panel = next(panel for panel in figure.panels if panel.title == "near")
    assert panel.note.startswith(f"r {r:.2f}, tau ")
    assert panel.note.endswith("n 12")
    assert panel.rows.z.sum() == 12


def test_a_matrix_has_each_pair_of_raters_and_judges_once() -> None:
    figure = scores.rater_agreement(panel_of_talk())

    panel = next(panel for panel in figure.panels if panel.title == "Pearson's r")
    assert (panel.x_names, panel.y_names) == (["ann", "bob", "far"], ["bob", "far", "near"])
    assert len(panel.rows) == 6
    assert panel.rows.z.iloc[0] == pytest.approx(correlation(ANN, BOB))


def test_one_rater_alone_makes_no_matrix() -> None:
    alone = replace(panel_of_talk(), raters=("ann",), judges=())
    with pytest.raises(StoreError, match=r"nothing to draw: 1 raters or judges, .* needs two"):
        scores.rater_agreement(alone)


# Names


def test_the_list_of_figures_fits_a_terminal() -> None:
    widest = max(map(len, FIGURES))

    assert [name for name, one in FIGURES.items() if widest + 2 + len(one[1]) > 80] == []
    with pytest.raises(SpecError, match="no figure 'impscore-99'; did you mean"):
        figure_of("impscore-99", [], Workspace.open())
