"""Rows of agreement.csv are the statistics of the tables they were made of, or say why not."""

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import t
from support.each import each
from support.rated_runs import ANN, BOB, FAR, NEAR, Rating, Table, panels_of, ratings, runs
from support.rating_tables import OF_SYSTEMS, tau_zero

from harness.analysis.agreement import COLUMNS, AgreementSettings, agreement
from harness.analysis.panels import AgreementQuery, Panel
from harness.stats import correlation
from harness.stats.agreement import agreement_stats, alpha, percent_agreement
from harness.stats.clustered import jackknife_interval
from harness.stats.comparison import annotator_test, holm
from harness.stats.estimate import Bools, Estimate, Floats, Resamples
from harness.stats.reliability import reliability_of_means
from harness.storage.frames import Row, frame_csv, records

HUMAN = (np.array(ANN) + np.array(BOB)) / 2
UNITS = np.stack([ANN, BOB], axis=2).reshape(-1, 2)
CLUSTERS = ("c0", "c0", "c1", "c1")
METHOD = AgreementSettings(draws=200)
FLAT = ((1.0,) * 3,) * 4
LEVELS = {
    "pearson_dataset": correlation.dataset_pearson,
    "kendall_document": correlation.document_tau,
    "kendall_document_zero": tau_zero,
    **OF_SYSTEMS,
}


def panel(people: list[Rating] | None = None, **judges: Table) -> Panel:
    people = ratings(ann=ANN, bob=BOB) if people is None else people
    [found] = panels_of(runs(**judges), people, AgreementQuery(variants=("base",)))
    return found


def rows(found: Panel, method: AgreementSettings = METHOD) -> dict[tuple[str, str], Row]:
    return {(row.judge, row.statistic): row for row in records(agreement(found, method))}


Statistic = Callable[[Floats, Floats], Estimate]
BOTH = cache(lambda: rows(panel(near=NEAR, far=FAR)))


def wide(documents: int = 24, raters: int = 3, **changes: object) -> Panel:
    """A panel of documents in twelve clusters, four systems, raters and two judges."""
    random = np.random.default_rng(2)
    truth = random.normal(3, 1, (documents, 4))
    ratings = np.clip(
        np.round(truth[:, :, None] + random.normal(0, 1, (documents, 4, raters))), 1, 5
    )
    made = panel(near=NEAR, far=FAR)
    tables = [
        replace(judge, values=_judged(truth, random.normal(0, spread, truth.shape)))
        for judge, spread in zip(made.judges, (1.5, 0.7), strict=True)
    ]
    whole = replace(
        made,
        rows=tuple((f"s{n}", "") for n in range(documents)),
        clusters=tuple(f"c{n // 2:02}" for n in range(documents)),
        systems=tuple("wxyz"),
        raters=tuple("abcdef"[:raters]),
        ratings=ratings,
        judges=tuple(tables),
    )
    return replace(whole, **changes)  # type: ignore[arg-type]  # fields of a panel


def _judged(truth: Floats, noise: Floats) -> Floats:
    return np.asarray(np.clip(np.round(truth + noise), 1, 5))


def human_of(found: Panel) -> Floats:
    return np.asarray(np.nanmean(found.ratings, axis=2))


@pytest.mark.slow
@each("statistic", LEVELS)
@each("judge", ["near", "far"])
def test_correlations_are_those_of_the_tables(judge: str, statistic: str) -> None:
    row = BOTH()[judge, statistic]

    values = np.array({"near": NEAR, "far": FAR}[judge])
    found = LEVELS[statistic](HUMAN, values)
    assert (row.value, row.n, row.skipped) == (found.value, found.n, found.skipped)
    coefficient = statistic.removesuffix("_system")
    if coefficient != statistic:  # of few systems there is the exact p
        means = correlation.system_means(HUMAN, values)
        assert row.p == correlation.permutation_p(*means, coefficient).value  # type: ignore[arg-type]  # as named


def test_intervals_are_of_whole_clusters() -> None:
    made = wide()

    row = rows(made)["near", "pearson_dataset"]

    found = agreement_stats(
        human_of(made), made.judges[1].values, Resamples.of(made.clusters, seed="0")
    )
    ends = found["pearson_dataset"]
    assert (row.low, row.high) == (ends.low, ends.high) != (None, None)
    four = replace(made, clusters=tuple(f"c{n // 6}" for n in range(24)))
    few = rows(four)["near", "pearson_dataset"]
    assert (few.low, few.value, few.reason) == (None, row.value, "no interval: too few")


def test_agreement_among_raters_and_with_the_judge() -> None:
    found = rows(panel(near=NEAR))

    fitted, epsilons, _ = correlation.cross_fitted_acc_eq(HUMAN, NEAR, CLUSTERS, seed="0")
    assert found["near", "acc_eq"].value == fitted.value
    assert found["near", "acc_eq"].epsilon == pytest.approx(np.mean(epsilons))
    assert found["near", "alpha_raters"].value == alpha(UNITS, "interval").value
    assert found["near", "agreement_pairwise_raters"].value == percent_agreement(UNITS).value
    # ANN gives NEAR's value in 4 of 12 cells and BOB in 3: counted by hand.
    by_hand = (4 / 12 + 3 / 12) / 2
    assert found["near", "agreement_pairwise_judge"].value == pytest.approx(by_hand)


def test_pairwise_agreement_has_the_spread_and_interval_of_its_pairs() -> None:
    made = wide()
    row = rows(made)["near", "agreement_pairwise_judge"]

    judge = made.judges[1].values
    alike = made.ratings == judge[:, :, None]
    shares = alike.mean(axis=(0, 1))
    assert row.value == pytest.approx(shares.mean())
    assert row.sd == pytest.approx(shares.std(ddof=1))
    by_cluster = alike.reshape(12, -1).sum(axis=1)
    without = (alike.sum() - by_cluster) / (alike.size * 11 / 12)
    ends = jackknife_interval(Estimate(shares.mean(), n=3), without, range_="share")
    assert [row.low, row.high] == pytest.approx([ends.low, ends.high])


def test_the_ceiling_is_the_reliability_of_the_mean_and_names_what_it_bounds() -> None:
    made = wide()
    found = rows(made)

    expected = reliability_of_means(made.ratings, Resamples.of(made.clusters, seed="0"))
    ceiling, root = found["near", "noise_ceiling"], found["near", "attainable_r"]
    assert (ceiling.value, ceiling.low) == (expected.value, expected.low)
    assert root.value == pytest.approx((ceiling.value or 0) ** 0.5)
    assert [root.low, root.high] == pytest.approx(
        [(ceiling.low or 0) ** 0.5, (ceiling.high or 0) ** 0.5]
    )
    assert "of pearson_dataset" not in ceiling.note
    assert "of pearson_dataset" in root.note
    # A judge that misses what people rate low can reach less than one that rates all.
    near = made.judges[1]
    some = np.where(made.human < np.median(made.human), np.nan, near.values)
    few = rows(replace(made, judges=(replace(near, values=some),)))
    own = np.where(np.isnan(some)[..., None], np.nan, made.ratings)
    attainable = reliability_of_means(own, Resamples.of(made.clusters, seed="0")).value or 0
    assert few["near", "attainable_r"].value == pytest.approx(attainable**0.5)
    assert attainable < (ceiling.value or 0)
    assert few["near", "noise_ceiling"].value == ceiling.value
    nominal = rows(made, replace(METHOD, level="nominal"))["near", "attainable_r"]
    assert (nominal.value, nominal.low) == (None, None)
    assert nominal.reason.startswith("nominal ratings have no mean; --level interval")


def test_systems_with_other_raters_are_warned_of() -> None:
    made = wide(raters=6)
    apart = made.ratings.copy()
    apart[:, :2, :3], apart[:, 2:, 3:] = np.nan, np.nan

    found = rows(replace(made, ratings=apart))

    for name in ("pearson_system", "spearman_system", "noise_ceiling"):
        assert "systems had different raters" in found["near", name].note
        assert "different raters" not in rows(made)["near", name].note
    assert "so it is too high" in found["near", "attainable_r"].note


def test_a_judge_value_that_no_rater_gave_is_told_to_agree_with_nobody() -> None:
    made = wide()
    half = made.judges[1].values.copy()
    half[:5, 0] = 2.5
    judge = replace(made.judges[1], values=half, split=5)

    found = rows(replace(made, judges=(judge,)))

    row = found["near", "agreement_pairwise_judge"]
    assert row.note.startswith("5 of 96 judge values are no rater's and equal no rating")
    assert "5 verdicts are .5, two orders that disagree: see --orders" in row.note
    assert "two orders that disagree are .5" in row.averaging
    assert found["near", "alpha_judge_with_each"].note == row.note


def test_a_document_rated_at_two_temperatures_counts_once() -> None:
    made = wide(documents=24)
    names = tuple(f"s{n // 2}" for n in range(24))
    pairs = tuple((name, ("T0", "T0.5")[n % 2]) for n, name in enumerate(names))
    both = replace(made, rows=pairs, clusters=names)

    found = rows(both)

    kendall = found["near", "kendall_document"]
    assert (kendall.documents, kendall.n) == (12, 12)
    assert found["near", "acc_eq"].n == 12
    assert found["near", "pearson_dataset"].n == 96
    assert "each answer at T0+T0.5 by itself" in kendall.averaging


def test_every_row_tells_sizes_ties_averaging_and_recipe() -> None:
    row = rows(panel(near=NEAR))["near", "kendall_document"]

    assert (row.task, row.model, row.variant, row.scale) == ("toy", "all", "base", "quality")
    assert (row.documents, row.systems, row.raters) == (4, 3, 2)
    assert row.tie_rate_human == correlation.tie_rate(HUMAN).value
    assert row.tie_rate_judge == correlation.tie_rate(NEAR).value
    assert row.averaging.startswith("mean over raters; mean over T0.3;")
    assert row.signature.split("|")[:3] == ["toy:9f31c2ab", "data:d1f3", "base"]
    models = "ant:scripted@r1+bee:scripted@r1+cat:scripted@r1"
    assert f"{models}|T0.3+0.5,n1,s0|near:00|way" in row.signature
    others = [rows(panel(people, near=NEAR)) for people in (ratings(a=ANN), ratings(a=BOB))]
    assert len({row.signature, *(found["near", "acc_eq"].signature for found in others)}) == 3


def test_differences_are_tested_by_leaving_out_each_cluster_and_corrected() -> None:
    made = wide()
    found, human, clusters = rows(made), human_of(made), np.array(made.clusters)
    for name, statistic in (("pearson", correlation.dataset_pearson), ("kendall", tau_zero)):

        def apart(kept: Bools, statistic: Statistic = statistic) -> float:
            far, near = (statistic(human[kept], one.values[kept]).value for one in made.judges)
            return (far or 0) - (near or 0)

        value = apart(clusters != "")
        without = np.array([apart(clusters != left) for left in sorted(set(clusters))])
        error = np.sqrt(11 / 12 * ((without - without.mean()) ** 2).sum())
        row = found["far vs near", f"difference_{name}"]
        assert row.value == pytest.approx(value)
        assert row.p == pytest.approx(2 * t.sf(abs(value / error), 11))
        ends = value + error * np.array([-1, 1]) * t.ppf(0.975, 11)
        assert [row.low, row.high] == pytest.approx(ends)

    third = replace(made.judges[0], judge="third", values=6 - made.judges[0].values)
    three = records(agreement(replace(made, judges=(*made.judges, third)), METHOD))
    for name in ("pearson", "kendall"):
        tested = [row for row in three if row.statistic == f"difference_{name}"]
        assert len(tested) == 3
        assert [row.p_holm for row in tested] == list(holm([row.p for row in tested]))


@pytest.mark.slow
def test_ten_judges_are_told_apart_whatever_the_number_of_draws() -> None:
    made, random = wide(documents=40), np.random.default_rng(5)
    human = human_of(made)
    judges = [
        replace(made.judges[0], judge=f"j{n}", values=human + random.normal(0, 0.1 * 2**n, (40, 4)))
        for n in range(10)
    ]

    found = rows(replace(made, judges=tuple(judges)), AgreementSettings(draws=20))

    for name in ("pearson", "kendall"):
        assert found["j0 vs j8", f"difference_{name}"].p_holm < 0.001
        assert found["j8 vs j9", f"difference_{name}"].p_holm > 0.05


def test_judges_that_read_the_same_replies_are_not_tested_and_equal_ones_do_not_differ() -> None:
    made = wide()
    far, near = (replace(judge, model=f"m{n}") for n, judge in enumerate(made.judges))
    same = replace(near, model=far.model)

    other, alike, equal = (
        rows(replace(made, judges=pair))["far vs near", "difference_pearson"]
        for pair in ((far, near), (far, same), (far, replace(far, judge="near", model="m1")))
    )

    assert (alike.value, alike.low, alike.high) == (other.value, other.low, other.high)
    assert (alike.p, alike.p_holm) == (None, None)
    assert alike.note == "no test: both read the same replies"
    assert (other.p is None, other.note) == (False, "")
    assert (equal.value, equal.low, equal.p) == (0, None, None)
    assert equal.reason == "no interval: constant"


@each("statistic", [*sorted(LEVELS.keys() - {"kendall_document_zero"}), "difference_pearson"])
def test_a_constant_judge_has_no_correlation_and_says_why(statistic: str) -> None:
    found = rows(panel(flat=FLAT, near=NEAR))

    row = found["flat vs near" if "difference" in statistic else "flat", statistic]
    assert (row.value, row.low, row.p, row.reason) == (None, None, None, "constant")
    zero = found["flat", "kendall_document_zero"]  # it orders nothing where people do
    assert (zero.value, zero.n) == (0.0, 4)
    apart = found["flat vs near", "difference_kendall"].value
    assert apart == -found["near", "kendall_document_zero"].value


def test_without_overlap_or_a_second_rater_rows_say_so() -> None:
    strange = [rating._replace(sample_id="gone") for rating in ratings(ann=ANN)[:3]]
    strangers = records(agreement(panel(strange, near=NEAR, far=FAR), METHOD))
    assert {(row.value, row.reason) for row in strangers} == {
        (None, "no overlap: none of 3 ratings matches a response")
    }

    found = rows(panel(ratings(ann=ANN), near=NEAR))
    of_people = ("alpha_raters", "agreement_pairwise_raters", "noise_ceiling", "attainable_r")
    assert {found["near", name].reason for name in of_people} == {"one rater"}
    assert found["near", "pearson_dataset"].value is not None
    assert found["near", "annotator_winning_rate"].reason == "one rater"


@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 3), (0.2, 3), (0.1, 2)])
def test_the_annotator_test_needs_three_raters_of_thirty_units(epsilon: float, count: int) -> None:
    random = np.random.default_rng(0)
    values = random.normal(3, 1, (40, 1))
    units = np.round(values + random.normal(0, 1, (40, count)))
    made = panel(near=NEAR)
    whole = replace(
        made,
        rows=tuple((f"s{n}", "") for n in range(40)),
        clusters=tuple(f"s{n}" for n in range(40)),
        systems=("ant",),
        raters=tuple("abc"[:count]),
        ratings=units[:, None, :],
        judges=(replace(made.judges[0], values=values),),
    )

    found = rows(whole, replace(METHOD, epsilon=epsilon))

    expected = annotator_test(units, values, alignment="rmse", epsilon=epsilon)
    for name, one in zip(("winning_rate", "losing_rate", "advantage"), expected, strict=True):
        row = found["near", f"annotator_{name}"]
        assert row.epsilon == epsilon
        assert row.value == (one.value if count == 3 else None)
        assert row.reason == (None if count == 3 else "too few")


def test_the_same_seed_gives_the_same_bytes_with_empty_cells_for_what_is_missing() -> None:
    first, again, other = (
        frame_csv(agreement(wide(40), AgreementSettings(seed, 200))) for seed in (0, 0, 1)
    )

    assert first == again
    assert first != other
    table = list(csv.DictReader(io.StringIO(frame_csv(agreement(panel(flat=FLAT), METHOD)))))
    assert list(table[0]) == [*COLUMNS]
    row = [table[0][name] for name in ("statistic", "value", "reason")]
    assert row == ["pearson_dataset", "", "constant"]


OF_VALUES = (
    *("alpha_judge_with_each", "agreement_pairwise_judge", "annotator_winning_rate"),
    *("annotator_losing_rate", "annotator_advantage"),
)
HALVES = ((0.0, 0.5, 1.0), (0.5, 0.5, 1.0), (1.0, 0.0, 0.5), (0.0, 0.0, 0.5))


@pytest.mark.parametrize("judge", [HALVES, tuple(tuple(v * 0.7 for v in one) for one in HALVES)])
def test_shares_and_cosines_are_not_compared_with_ratings_as_if_ratings(judge: Table) -> None:
    found = rows(panel(own=judge, near=NEAR))

    for name in OF_VALUES:
        row = found["own", name]
        assert (row.value, row.low, row.sd) == (None, None, None)
        assert row.reason == "the judge's scale is not the raters'"
        assert found["near", name].reason != row.reason
    assert found["own", "pearson_dataset"].value is not None


def test_means_over_raters_are_nobody_to_rate_alike_or_to_replace() -> None:
    made = agreement(panel(ratings(mean=ANN), near=NEAR), METHOD)
    found = {row.statistic: row for row in records(made)}

    assert made.attrs["title"].endswith("4 documents x 3 systems, means over raters")
    for name in OF_VALUES:
        assert (found[name].value, found[name].low, found[name].note) == (None, None, "")
        assert found[name].reason == "these ratings are means over raters"
    assert found["pearson_dataset"].value is not None


def test_a_judge_that_gives_one_value_or_only_low_ratings_is_still_compared() -> None:
    assert rows(panel(own=FLAT))["own", "alpha_judge_with_each"].value is not None
    found = panel(own=HALVES)
    rating = replace(found.judges[0], recipe="all|T0.3|own:00|ratings-0-5-x1")
    kept = rows(replace(found, judges=(rating,)))
    assert kept["own", "alpha_judge_with_each"].value is not None
    for low in (1, 0):  # yes or no by people, and a rating of 1 to 5 or of 0 to 5
        asked = panel(ratings(ann=HALVES, bob=HALVES), own=ANN)
        rating = replace(asked.judges[0], recipe=f"all|T0.3|own:00|ratings-{low}-5-x1")
        row = rows(replace(asked, judges=(rating,)))["own", "alpha_judge_with_each"]
        assert (row.value, row.reason) == (None, "the judge's scale is not the raters'")
