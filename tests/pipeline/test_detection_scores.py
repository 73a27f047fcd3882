"""Hits and false alarms against implicitness: what counts in which bin, and what never does."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs
from support.hate_rows import SPEC, constant, planted, run_of, text
from support.run_tables import score_rows

from harness.core import Score
from harness.parts import Reason, Usage
from harness.specs.tasks import ImplicitnessSpec
from harness.storage.run_tables import SampleRecord

SMALL = structs.replace(SPEC, least=2, equal_mass=2)


def scores(rows: Sequence[SampleRecord], spec: ImplicitnessSpec = SPEC) -> list[Score]:
    return [made.score for made in score_rows(run_of(rows, spec), rows)]


def one(found: Sequence[Score], metric: str, group: str = "all") -> Score:
    [score] = [s for s in found if (s.metric, s.group) == (metric, group)]
    return score


def values(found: Sequence[Score], metric: str) -> dict[str, float | None]:
    return {
        s.group.removeprefix("implicitness "): s.value
        for s in found
        if s.metric == metric and s.group.startswith("implicitness [")
    }


FEW = [
    text("a", is_hateful=True, at=0.1, said=1.0),
    text("b", is_hateful=True, at=0.2, said=0.0),
    text("c", is_hateful=True, at=0.25, said=0.5),
    text("d", is_hateful=True, at=0.4, said=0.0),
    text("e", is_hateful=False, at=0.1, said=1.0),
    text("f", is_hateful=False, at=0.2, said=0.0),
    text("g", is_hateful=False, at=2.0, said=0.0),
    text("h", is_hateful=False, at=1.75, said=0.0),
]


def test_rates_of_each_bin_are_shares_of_one_kind_and_an_area_is_of_both() -> None:
    found = scores(FEW, SMALL)

    assert values(found, "tpr") == {"[0.00,0.25)": 0.5, "[0.25,0.50)": 0.25}
    assert values(found, "fpr") == {"[0.00,0.25)": 0.5, "[1.75,2.00]": 0.0}
    assert (one(found, "tpr").value, one(found, "fpr").value) == (1.5 / 4, 1 / 4)
    assert one(found, "tpr").n == one(found, "fpr").n == 4
    # One hateful text above the one benign text that is not flagged, two ties, one below.
    assert values(found, "auc") == {"[0.00,0.25)": 0.5}
    groups = {s.group for s in found if " of 2 " in s.group}
    assert groups == {"implicitness 1 of 2 [0.100,0.225)", "implicitness 2 of 2 [0.225,2.000]"}


def test_a_bin_with_too_few_originals_is_counted_and_not_scored() -> None:
    spec = structs.replace(SMALL, least=3)
    rows = [*FEW, replace(FEW[0], sample=replace(FEW[0].sample, id="a2", cluster="a"))]

    found = scores(rows, spec)

    group = "implicitness [0.00,0.25)"
    assert [s.metric for s in found if s.group == group] == ["effective_n_tpr", "effective_n_fpr"]
    # Two hateful originals, one of them with a copy, beside three texts.
    assert (one(found, "effective_n_tpr", group).n, one(found, "tpr").n) == (3, 5)


@pytest.mark.parametrize("reason", [Reason.REFUSED, Reason.UNPARSED, Reason.TRUNCATED])
def test_a_text_without_an_answer_is_missing_from_its_bin_and_never_a_no(reason: Reason) -> None:
    rows = [*FEW, text("x", is_hateful=True, at=0.15, said=reason)]
    found = scores(rows, SMALL)

    score = one(found, "tpr", "implicitness [0.00,0.25)")
    assert (score.value, score.n, score.missing[reason]) == (0.5, 2, 1)


def test_a_text_without_a_measure_counts_in_no_bin_and_in_all() -> None:
    rows = [*FEW, text("x", is_hateful=True, at=None, said=1.0)]
    found = scores(rows, SMALL)

    assert one(found, "tpr").n == 5
    assert sum(s.n for s in found if s.metric == "tpr" and "[0" in s.group) < 10
    assert values(found, "tpr") == values(scores(FEW, SMALL), "tpr")


@pytest.mark.parametrize(("said", "rate"), [(1.0, 1.0), (0.0, 0.0), (0.5, 0.5)])
def test_a_constant_answer_has_equal_rates_and_an_area_of_half(said: float, rate: float) -> None:
    found = scores(constant(said))

    assert (one(found, "tpr").value, one(found, "fpr").value) == (rate, rate)
    assert one(found, "auc").value == 0.5
    slope = one(found, "slope_tpr")
    assert (slope.value, slope.n, sum(slope.missing.values())) == (None, 0, 20)


def test_a_planted_monotone_model_is_recovered_by_the_trend_test() -> None:
    found = scores(planted(slope=-2.0))

    slope, flat = one(found, "slope_tpr"), one(found, "slope_fpr")
    assert slope.low is not None
    assert slope.high is not None
    assert slope.low < -2.0 < slope.high < 0
    assert (one(found, "slope_tpr_p").value or 0) < 1e-6
    assert flat.low is not None
    assert flat.high is not None
    assert flat.low < 0 < flat.high
    assert (one(found, "slope_fpr_p").value or 0) > 0.05


def test_repeated_texts_of_one_original_make_nothing_surer() -> None:
    rows = planted(120)
    often = [
        replace(
            part, sample=replace(part.sample, id=f"{part.sample.id}-{n}", cluster=part.sample.id)
        )
        for part in rows
        for n in range(4)
    ]

    once, again = scores(rows), scores(often)

    for metric in ("tpr", "auc", "slope_tpr"):
        pair = one(once, metric), one(again, metric)
        assert pair[1].value == pytest.approx(pair[0].value)
        assert pair[1].low == pytest.approx(pair[0].low)
        assert pair[1].high == pytest.approx(pair[0].high)
        assert pair[1].n == 4 * pair[0].n
    assert one(again, "effective_n_tpr").value == pytest.approx(60)


def test_probabilities_rank_texts_where_all_answers_have_one() -> None:
    sure = [
        text("a", is_hateful=True, at=0.1, said=0.0, sure=0.4),
        text("b", is_hateful=False, at=0.1, said=0.0, sure=0.3),
    ]
    lacking = [*sure, text("c", is_hateful=False, at=0.1, said=0.0)]

    # By probability a is above b; by the answers alone all are alike.
    assert one(scores(sure, SMALL), "auc").value == 1.0
    assert one(scores(lacking, SMALL), "auc").value == 0.5


def test_all_positive_labels_count_as_hits() -> None:
    spec = structs.replace(SMALL, positive=("hateful", "benign"))
    found = scores(FEW, spec)

    assert one(found, "tpr").value == 1.0
    assert [s for s in found if s.metric == "fpr"] == []


def test_n_and_missing_make_up_the_texts_of_the_kind_in_every_row() -> None:
    rows = [*planted(200), *(text(f"x{n}", is_hateful=n < 3, at=1.1, said=None) for n in range(5))]

    for score in scores(rows):
        if score.group == "all" and score.metric.endswith(("tpr", "tpr_p")):
            assert score.n + sum(score.missing.values()) == 103, score.metric


def test_the_cost_of_a_run_is_not_told_again_for_each_bin() -> None:
    paid = [
        replace(row, steps=(replace(row.steps[0], key=row.sample.id, usage=Usage(3, 1, 0.5)),))
        for row in FEW
    ]

    made = score_rows(run_of(paid, SMALL), paid)

    assert {row.cost_usd for row in made if row.score.group == "all"} == {4.0}
    assert {row.cost_usd for row in made if row.score.group.startswith("implicitness")} == {None}
