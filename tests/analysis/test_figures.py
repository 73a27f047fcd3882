"""Scores, ratings and verdicts to charts: what stands in them, and what is refused."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from support.hate_rows import planted, stored, text
from support.rated_runs import ANN, BOB, FAR, NEAR
from support.rated_runs import ratings as rated
from support.rated_runs import runs as judged

from harness.analysis.figures import comparisons, detection, people, style
from harness.analysis.figures.chart import Chart, Plot, Series, chart_csv, checked
from harness.analysis.figures.comparisons import Layout, ScoreFilter
from harness.analysis.figures.named import ALIASES, FIGURES, figure_named
from harness.analysis.leaderboard import BoardRow
from harness.analysis.panels import AgreementQuery, Panel, match_ratings
from harness.core import Score
from harness.errors import SpecError, StoreError
from harness.parts import Reason
from harness.stats.classification import auc
from harness.stats.estimate import Clusters
from harness.storage.runs import JudgeEntry, StoredRun

NAN = float("nan")


def row(
    model: str = "small",
    value: float | None = 0.5,
    *,
    task: str = "toy",
    variant: str = "base",
    judge: str = "near",
    group: str = "all",
) -> BoardRow:
    """A stored score of forty texts, with an interval of a tenth to either side."""
    low, high = (None, None) if value is None else (max(value - 0.1, 0.0), min(value + 0.1, 1.0))
    n = 40 if value is not None else 0
    missing = dict.fromkeys(Reason, 0)
    score = Score(judge, variant, "T0", group, "accuracy", value, low, high, n, n, missing)
    signature = f"{task}:aa|data:d1,all|{variant}|{model}:scripted@1|T0,n1,s0|{judge}:00|way|v1"
    return BoardRow(task, model, score, 0.5, None, signature)


def rows_of(chart: Chart) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(chart_csv(chart))))


# The rules of every chart


def test_what_fewer_than_ten_texts_stand_behind_is_not_drawn_but_written() -> None:
    series = Series("s", "bars", [1, 2], [0.5, 0.6], to=[1.5, 2.5], n=[10, 9])
    chart = Chart("t", (Plot("p", "x", "y", (series,), x_names=("one", "two")),))

    drawn = checked(chart)

    assert np.array(drawn.plots[0].series[0].y).tolist()[0] == 0.5
    assert np.isnan(drawn.plots[0].series[0].y[1])
    assert drawn.notes == ("1 value of fewer than 10 texts not drawn",)
    assert [(r["x_name"], r["y"], r["n"], r["note"]) for r in rows_of(chart)] == [
        ("one", "0.5", "10", ""),
        ("two", "0.6", "9", "not drawn: fewer than 10 texts"),
    ]


@pytest.mark.parametrize(("count", "is_drawn"), [(9, False), (10, True)])
@pytest.mark.parametrize("form", ["points", "violin"])
def test_a_group_of_few_texts_is_not_drawn(form: str, count: int, is_drawn: bool) -> None:
    series = Series("s", form, [1.0] * count, [0.5] * count)  # type: ignore[arg-type]  # both are forms

    drawn = checked(Chart("t", (Plot("p", "x", "y", (series,)),)))

    assert bool(drawn.labels) == is_drawn


@pytest.mark.parametrize(("count", "panels"), [(6, 1), (7, 7)])
def test_more_than_six_series_get_a_panel_each(count: int, panels: int) -> None:
    series = tuple(Series(f"m{n}", "line", [1, 2], [0, 1], n=[20, 20]) for n in range(count))

    drawn = checked(Chart("t", (Plot("p", "x", "y", series),)))

    assert len(drawn.plots) == panels
    assert drawn.plots[-1].title == ("p" if panels == 1 else "p | m6")
    assert all(len(plot.labels) <= 6 for plot in drawn.plots)


def test_no_cell_of_the_data_is_a_formula_or_stands_for_missing() -> None:
    series = Series("=1+1", "points", [1], [NAN], n=[20])

    (found,) = rows_of(Chart("t", (Plot("@p", "x", "y", (series,)),)))

    assert (found["panel"], found["series"], found["y"]) == ("'@p", "'=1+1", "")


def test_text_is_shown_as_it_is_without_control_characters() -> None:
    assert style.shown("a\x1b[31m $x^2$\n\\frac\ud800") == "a[31m $x^2$ \\frac\ufffd"


# Scores


def test_a_layout_draws_each_score_where_its_properties_say() -> None:
    rows = [
        row(m, v, judge=j)
        for m, j, v in [("a", "near", 0.2), ("a", "far", 0.4), ("b", "near", 0.6)]
    ]

    chart = comparisons.comparison(rows, Layout("model", "", "judge"), "")

    (plot,) = chart.plots
    assert plot.x_names == ("a", "b")
    assert {part.label: list(part.y) for part in plot.series} == {"near": [0.2, 0.6], "far": [0.4]}
    assert plot.line == (0.5, "chance")


def test_several_scores_at_one_place_are_refused_and_never_averaged() -> None:
    rows = [row("a", 0.2, judge="near"), row("a", 0.4, judge="far")]

    with pytest.raises(SpecError, match=r"differ in judge \(near, far\); give --judge"):
        comparisons.comparison(rows, Layout("model"), "")


def test_an_unknown_property_is_refused() -> None:
    with pytest.raises(SpecError, match="--panel 'colour': give one of task, model, variant"):
        Layout("model", "colour")


def test_a_missing_score_is_not_drawn_as_zero() -> None:
    chart = comparisons.comparison([row("a", 0.2), row("b", None)], Layout("model"), "")

    assert np.isnan(chart.plots[0].series[0].y[1])
    assert rows_of(chart)[1]["y"] == ""


def test_figure_2_has_a_panel_a_model_and_both_tasks_by_phenomenon() -> None:
    tasks = {comparisons.RESOLUTION: "base", comparisons.DETECTION: "all"}
    rows = [
        row(model, value, task=task, variant=variant, group=group)
        for model, value in (("a", 0.3), ("b", 0.6))
        for task, variant in tasks.items()
        for group in ("irony", "maxims")
    ]

    chart = comparisons.understanding(rows, ScoreFilter())

    assert [plot.title for plot in chart.plots] == ["a", "b"]
    assert chart.labels == [*tasks]
    assert chart.plots[0].x_names == ("irony", "maxims")


def test_figure_3_has_a_line_a_model_over_the_levels() -> None:
    rows = [
        row(model, 0.5, task=comparisons.RESOLUTION, variant=level)
        for level in ("cot1", "base", "cot0")
        for model in ("a", "b")
    ]

    (plot,) = comparisons.levels(rows, ScoreFilter()).plots

    assert plot.x_names == ("base", "cot0", "cot1")
    assert [(part.label, part.form, len(part.y)) for part in plot.series] == [
        ("a", "line", 3),
        ("b", "line", 3),
    ]


def test_a_forest_orders_the_models_of_a_board_and_says_of_how_many() -> None:
    rows = [row("low", 0.2), row("high", 0.8), row("middle", 0.5)]

    (plot,) = comparisons.forest(rows, ScoreFilter()).plots

    assert plot.y_names == ("high (n=40)", "middle (n=40)", "low (n=40)")
    assert list(plot.series[0].low) == pytest.approx([0.7, 0.4, 0.1])


def test_the_panels_of_a_forest_are_named_by_what_differs_and_share_the_rest() -> None:
    rows = [row(judge="near"), row(judge="far"), row(judge="far", variant="cot")]

    chart = comparisons.forest(rows, ScoreFilter())

    assert [plot.title for plot in chart.plots] == ["base, near", "base, far", "cot, far"]
    assert chart.notes == ("task toy",)


def test_boards_on_other_data_have_other_titles_and_what_is_missing_is_last() -> None:
    worse = replace(row("worse"), score=replace(row().score, value=-0.2))
    other = replace(row(), signature=row().signature.replace("d1,all", "d2,all"))

    first, second = comparisons.forest(
        [row("none", None), worse, row(), other], ScoreFilter()
    ).plots

    assert first.title == "toy, base, near (data d1)"
    assert second.title == "toy, base, near (data d2)"
    assert [name.partition(" ")[0] for name in first.y_names] == ["small", "worse", "none"]


def test_the_list_of_figures_fits_a_terminal() -> None:
    widest = max(map(len, FIGURES))

    assert [name for name, one in FIGURES.items() if widest + 2 + len(one.about) > 80] == []


# People and judges


def panel_of_talk() -> list[Panel]:
    return match_ratings(
        judged(near=NEAR, far=FAR), rated("base", ann=ANN, bob=BOB), AgreementQuery()
    )


def test_judges_stand_against_people_with_r_and_tau() -> None:
    chart = people.judges_against_people(panel_of_talk())

    human = (np.array(ANN) + np.array(BOB)) / 2
    r = np.corrcoef(human.ravel(), np.array(NEAR).ravel())[0, 1]
    plot = next(plot for plot in chart.plots if plot.title == "near")
    assert plot.note.startswith(f"r {r:.2f}, tau ")
    assert plot.note.endswith("n 12")
    assert sum(plot.series[0].z) == 12


def test_curves_of_several_tasks_are_named_by_their_tasks() -> None:
    run = stored([text(f"t{n}", is_hateful=n < 20, at=1.0, said=n % 2, sure=n / 40)
                  for n in range(40)])  # fmt: skip
    other = replace(run, file=replace(run.file, run=replace(run.file.run, task="posts")))

    labels = [part.label for part in detection.roc([run, other], "gold").plots[0].series]

    task, model = run.file.run.task, run.file.model.name
    assert labels == [f"{task}, {model}", f"posts, {model}"]


def test_a_matrix_has_each_pair_of_raters_and_judges_once() -> None:
    chart = people.rater_agreement(panel_of_talk()[0])

    names = {plot.title: plot for plot in chart.plots}
    plot = names["Pearson's r"]
    assert (plot.x_names, plot.y_names) == (("ann", "bob", "far"), ("bob", "far", "near"))
    assert len(plot.series[0].z) == 6
    r = np.corrcoef(np.array(ANN).ravel(), np.array(BOB).ravel())[0, 1]
    assert plot.series[0].z[0] == pytest.approx(r)


def test_judges_of_runs_are_compared_on_what_both_have_read() -> None:
    chart = people.judge_agreement(judged(near=NEAR, far=FAR))

    r = np.corrcoef(np.array(NEAR).ravel(), np.array(FAR).ravel())[0, 1]
    assert chart.plots[1].series[0].z[0] == pytest.approx(r)
    assert list(chart.plots[1].series[0].n) == [12]


def test_one_judge_alone_makes_no_matrix() -> None:
    with pytest.raises(StoreError, match="a matrix needs two"):
        people.judge_agreement(judged(near=NEAR))


# Verdicts on labelled texts


def sure_run(count: int = 60) -> StoredRun:
    draw = np.random.default_rng(1)
    rows = []
    for n in range(count):
        sure = float(np.clip(0.3 + 0.4 * (n % 2 == 0) + draw.normal(0, 0.2), 0.01, 0.99))
        made = text(f"t{n}", is_hateful=n % 2 == 0, at=0.5, said=float(sure > 0.5), sure=sure)
        verdict = replace(made.verdicts["gold"], shares=(sure, 1 - sure))
        rows.append(replace(made, verdicts={"gold": verdict}))
    return stored(rows, judges=(JudgeEntry("gold", "accuracy", "gold:00|raw"),))


def test_a_confusion_counts_each_text_once_and_tells_of_those_without_an_answer() -> None:
    rows = [text(f"t{n}", is_hateful=n < 12, at=0.1, said=float(n % 3 == 0)) for n in range(24)]
    rows.append(text("lost", is_hateful=True, at=0.1, said=Reason.REFUSED))

    chart = detection.confusion([stored(rows)], "gold")

    (plot,) = chart.plots
    assert plot.x_names == ("benign", "hateful")
    assert plot.y_names == ("benign (n=12)", "hateful (n=12)")
    assert list(plot.series[0].names) == ["8", "4", "8", "4"]
    assert "1 texts without an answer" in chart.notes[-1]


def test_the_area_below_a_roc_curve_is_its_auc() -> None:
    run = sure_run()

    chart = detection.roc([run], "gold")

    curve = chart.plots[0].series[0]
    area = float(np.trapezoid(curve.y, curve.x))
    sure = np.array([r.verdicts["gold"].detail["prob_label_hateful"] for r in run.rows])
    truth = [n % 2 == 0 for n in range(60)]
    expected = auc(sure, truth, Clusters.named([r.sample.cluster for r in run.rows]))
    assert area == pytest.approx(expected.value)
    assert chart.notes[0].startswith(f"small: AUC {area:.2f} (")
    assert chart.plots[1].series[0].y[-1] == pytest.approx(0.5)  # all flagged: the base rate
    assert chart.plots[1].line == (0.5, "share of positive texts")


def test_reliability_holds_every_probability_in_its_bin() -> None:
    run = sure_run()

    (plot,) = detection.reliability([run], "gold").plots

    assert plot.columns is not None
    assert sum(plot.columns.n) == 60
    sures = [max(row.verdicts["gold"].shares) for row in run.rows]
    assert np.average(plot.series[0].x, weights=plot.series[0].n) == pytest.approx(np.mean(sures))


def test_verdicts_without_probabilities_have_no_roc() -> None:
    with pytest.raises(StoreError, match="no run has probabilities"):
        detection.roc([stored(planted(40))], "gold")


def test_a_judge_that_has_read_nothing_is_told() -> None:
    with pytest.raises(StoreError, match="no run was read by judge other"):
        detection.confusion([stored(planted(40))], "other")


# Names


def test_every_alias_is_of_a_figure_and_unknown_names_are_told() -> None:
    assert set(ALIASES.values()) <= set(FIGURES)
    assert figure_named("impscore-16") is FIGURES["impscore-7"]
    with pytest.raises(SpecError, match="no figure 'impscore-99'; did you mean"):
        figure_named("impscore-99")
