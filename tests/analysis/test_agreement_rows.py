"""Rows of agreement.csv are the statistics of the tables they were made of, or say why not."""

import csv
import io
from dataclasses import fields, replace

import numpy as np
import pytest
from support.each import each
from support.rated_runs import ANN, BOB, FAR, NEAR, Table, group_runs, ratings, runs

from harness.analysis.agreement import (
    AgreementRow,
    AgreementSettings,
    agreement_rows,
)
from harness.analysis.panels import AgreementQuery, Panel, match_ratings
from harness.data.ratings import Rating
from harness.stats.agreement import agreement_stats, alpha, percent_agreement
from harness.stats.comparison import annotator_test, holm, permutation_test, williams_test
from harness.stats.correlation import (
    cross_fitted_acc_eq,
    dataset_pearson,
    document_tau,
    pearson,
    permutation_p,
    system_means,
    system_pearson,
    system_spearman,
    tie_rate,
)
from harness.stats.estimate import Resamples
from harness.storage.cells import records_csv

HUMAN = (np.array(ANN) + np.array(BOB)) / 2
UNITS = np.stack([ANN, BOB], axis=2).reshape(-1, 2)
CLUSTERS = ("c0", "c0", "c1", "c1")
METHOD = AgreementSettings(draws=200)
FLAT = ((1.0,) * 3,) * 4
LEVELS = {
    "pearson_dataset": dataset_pearson,
    "kendall_document": document_tau,
    "spearman_system": system_spearman,
    "pearson_system": system_pearson,
}


def panel(people: list[Rating] | None = None, **judges: Table) -> Panel:
    """The panel of some judges, rated by two people."""
    people = ratings(ann=ANN, bob=BOB) if people is None else people
    [found] = match_ratings(runs(**judges), people, AgreementQuery(variants=("base",)))
    return found


def rows(found: Panel, method: AgreementSettings = METHOD) -> dict[tuple[str, str], AgreementRow]:
    """The rows of a panel by judge and statistic."""
    return {(row.judge, row.statistic): row for row in agreement_rows(found, method)}


@each("statistic", LEVELS)
@each("judge", ["near", "far"])
def test_correlations_are_those_of_the_tables(judge: str, statistic: str) -> None:
    row = rows(panel(near=NEAR, far=FAR))[judge, statistic]

    found = LEVELS[statistic](HUMAN, np.array({"near": NEAR, "far": FAR}[judge]))
    assert (row.value, row.n, row.skipped) == (found.value, found.n, found.skipped)


def test_pearson_is_what_a_sum_by_hand_gives() -> None:
    row = rows(panel(near=NEAR))["near", "pearson_dataset"]

    assert row.value == pytest.approx(np.corrcoef(HUMAN.ravel(), np.ravel(NEAR))[0, 1])


def test_intervals_are_drawn_by_cluster_from_the_seed() -> None:
    found = rows(panel(near=NEAR), replace(METHOD, seed=5))["near", "pearson_dataset"]

    drawn = agreement_stats(HUMAN, NEAR, Resamples.of(CLUSTERS, seed="5", draws=200))
    assert (found.low, found.high) == (
        drawn.dataset_pearson.bounds.low,
        drawn.dataset_pearson.bounds.high,
    )


@pytest.mark.parametrize("coefficient", ["pearson", "spearman"])
def test_correlations_of_few_systems_have_their_exact_p(coefficient: str) -> None:
    row = rows(panel(near=NEAR))["near", f"{coefficient}_system"]

    means = system_means(HUMAN, NEAR)
    assert row.p == permutation_p(*means, coefficient).value  # type: ignore[arg-type]  # as parametrized


def test_acc_eq_is_cross_fitted_and_tells_its_epsilon() -> None:
    row = rows(panel(near=NEAR))["near", "acc_eq"]

    found, _ = cross_fitted_acc_eq(HUMAN, NEAR, CLUSTERS, seed="0")
    assert row.value == found.estimate.value
    assert row.epsilon == pytest.approx(np.mean(found.epsilons))


def test_agreement_among_raters_and_with_the_judge() -> None:
    found = rows(panel(near=NEAR))

    assert found["near", "alpha_raters"].value == alpha(UNITS, "interval").value
    both = alpha(np.column_stack([UNITS, np.ravel(NEAR)]), "interval").value
    assert found["near", "alpha_judge_with_raters"].value == both
    assert found["near", "agreement_pairwise_raters"].value == percent_agreement(UNITS).value
    # ANN gives NEAR's value in 4 of 12 cells and BOB in 3: counted by hand.
    by_hand = (4 / 12 + 3 / 12) / 2
    assert found["near", "agreement_pairwise_judge"].value == pytest.approx(by_hand)


def test_pairwise_intervals_are_shares_of_the_drawn_documents() -> None:
    row = rows(panel(near=NEAR))["near", "agreement_pairwise_judge"]

    # Two clusters of six cells, drawn as one of them twice or as both; counted by hand.
    first, second = (2 / 6 + 1 / 6) / 2, (2 / 6 + 2 / 6) / 2
    assert [row.low, row.high] == pytest.approx([first, second])


def test_the_ceiling_follows_from_alpha_and_the_number_of_raters() -> None:
    found = rows(panel(near=NEAR))
    a = found["near", "alpha_raters"].value or 0.0

    ceiling = 2 * a / (1 + a)  # Spearman-Brown for two raters
    assert found["near", "noise_ceiling"].value == pytest.approx(ceiling)
    assert found["near", "attainable_r"].value == pytest.approx(ceiling**0.5)


def test_every_row_tells_sizes_ties_averaging_and_recipe() -> None:
    row = rows(panel(near=NEAR))["near", "kendall_document"]

    assert (row.task, row.model, row.variant, row.scale) == ("toy", "all", "base", "quality")
    assert (row.documents, row.systems, row.raters) == (4, 3, 2)
    assert row.tie_rate_human == tie_rate(HUMAN).value
    assert row.tie_rate_judge == tie_rate(NEAR).value
    assert row.averaging.startswith("mean over raters; mean over T0.3;")
    assert row.signature.split("|")[:3] == ["toy:9f31c2ab", "data:d1f3", "base"]
    assert "ant:scripted@r1+bee:scripted@r1+cat:scripted@r1|T0.3+0.5,n1,s0|near:00|way" in (
        row.signature
    )


def test_other_ratings_are_another_recipe() -> None:
    made = [rows(panel(people, near=NEAR)) for people in (ratings(a=ANN), ratings(a=BOB))]

    assert len({found["near", "acc_eq"].signature for found in made}) == 2


def test_a_difference_is_tested_by_permutation_and_by_williams() -> None:
    found = rows(panel(near=NEAR, far=FAR))
    pair = "far vs near"

    for name, statistic in (("pearson", dataset_pearson), ("kendall", document_tau)):
        test = permutation_test(HUMAN, (FAR, NEAR), statistic, seed="0", draws=200)
        row = found[pair, f"difference_{name}"]
        assert row.value == pytest.approx(test.statistic)
        assert row.p == test.p
    r = [
        pearson(np.ravel(a), np.ravel(b)).value
        for a, b in ((HUMAN, FAR), (HUMAN, NEAR), (FAR, NEAR))
    ]
    williams = found[pair, "difference_pearson_williams"]
    assert williams.p == williams_test(*map(float, r), n=12).p  # type: ignore[arg-type]  # not null here
    assert williams.value == pytest.approx((r[0] or 0) - (r[1] or 0))


def test_p_values_are_corrected_for_all_pairs_of_judges() -> None:
    third = tuple(tuple(5 - value for value in line) for line in ANN)
    tables = {"far": FAR, "near": NEAR, "third": third}

    found = rows(panel(None, **tables))

    names = [("far", "near"), ("far", "third"), ("near", "third")]
    raw = [
        permutation_test(HUMAN, (tables[a], tables[b]), dataset_pearson, seed="0", draws=200).p
        for a, b in names
    ]
    assert [found[f"{a} vs {b}", "difference_pearson"].p for a, b in names] == list(holm(raw))


def test_one_rater_leaves_people_without_agreement_and_the_judge_with_it() -> None:
    found = rows(panel(ratings(ann=ANN), near=NEAR))

    for name in ("alpha_raters", "agreement_pairwise_raters", "noise_ceiling", "attainable_r"):
        assert (found["near", name].value, found["near", name].reason) == (None, "one rater")
    assert found["near", "pearson_dataset"].value is not None
    assert found["near", "annotator_winning_rate"].reason == "one rater"


@each("statistic", [*LEVELS, "difference_pearson", "difference_kendall"])
def test_a_constant_judge_has_no_correlation_and_says_why(statistic: str) -> None:
    found = rows(panel(flat=FLAT, near=NEAR))

    row = found["flat vs near" if "difference" in statistic else "flat", statistic]
    assert (row.value, row.low, row.p, row.reason) == (None, None, None, "constant")


def test_without_overlap_every_row_says_how_many_ratings_matched_nothing() -> None:
    strange = [replace(rating, sample_id="gone") for rating in ratings(ann=ANN)[:3]]

    found = agreement_rows(panel(strange, near=NEAR, far=FAR), METHOD)

    assert {(row.value, row.reason) for row in found} == {
        (None, "no overlap: 3 of 3 ratings match no response")
    }


def test_a_judge_without_any_verdict_is_null_throughout() -> None:
    found = rows(panel(none=((None,) * 3,) * 4))

    assert {found["none", name].value for name in LEVELS} == {None}
    assert found["none", "pearson_dataset"].reason == "too few"
    assert found["none", "acc_eq"].reason == "too few"


@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 3), (0.2, 3), (0.1, 2)])
def test_the_annotator_test_needs_three_raters_of_thirty_units(epsilon: float, count: int) -> None:
    random = np.random.default_rng(0)
    values = random.normal(3, 1, (40, 1))
    units = np.round(values + random.normal(0, 1, (40, count)))
    made = panel(near=NEAR)
    wide = replace(
        made,
        documents=tuple(f"s{n}" for n in range(40)),
        clusters=tuple(f"s{n}" for n in range(40)),
        systems=("ant",),
        raters=tuple("abc"[:count]),
        ratings=units[:, None, :],
        judges=(replace(made.judges[0], values=values),),
    )

    row = rows(wide, replace(METHOD, epsilon=epsilon))["near", "annotator_winning_rate"]

    expected = annotator_test(units, values, alignment="rmse", epsilon=epsilon)
    assert row.epsilon == epsilon
    assert row.value == (expected.winning_rate.value if count == 3 else None)
    assert row.reason == (None if count == 3 else "too few")


def test_models_that_judge_are_named_in_their_rows_and_pairs() -> None:
    people = [
        Rating("toy", row.sample.id, "", "ann", 1.0 + n % 3, "base")
        for n, row in enumerate(group_runs(one=NEAR)[0].rows)
    ]
    [made] = match_ratings(group_runs(one=NEAR, two=FAR), people, AgreementQuery())

    found = agreement_rows(made, METHOD)

    assert {(row.model, row.judge) for row in found} == {
        ("one", "stated"),
        ("two", "stated"),
        ("one vs two", "stated (one) vs stated (two)"),
    }


def test_the_table_has_its_columns_and_empty_cells_for_nulls() -> None:
    text = records_csv(AgreementRow, agreement_rows(panel(flat=FLAT), METHOD))

    table = list(csv.DictReader(io.StringIO(text)))
    assert list(table[0]) == [field.name for field in fields(AgreementRow)]
    assert (table[0]["statistic"], table[0]["value"], table[0]["reason"]) == (
        "pearson_dataset",
        "",
        "constant",
    )


def test_the_same_seed_gives_the_same_bytes() -> None:
    first, again, other = (
        records_csv(
            AgreementRow,
            agreement_rows(panel(near=NEAR, far=FAR), AgreementSettings(seed, 200)),
        )
        for seed in (0, 0, 1)
    )

    assert first == again
    assert first != other
