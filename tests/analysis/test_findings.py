"""What a comparison and agreement show, as sentences: each number is one of the row's."""

from collections.abc import Mapping

import pandas
import pytest

from harness.analysis import findings as sentences
from harness.analysis.agreement import COLUMNS as AGREED
from harness.analysis.compare import COLUMNS
from harness.analysis.findings import by_judge, judge_finding, pairs_finding, raters_finding
from harness.stats.clustered import detectable_difference
from harness.storage.frames import Row, records

ROW = {
    **{"comparison": "runs", "statistic": "difference", "group": "all"},
    **{"task_a": "t", "task_b": "t", "model_a": "ant", "model_b": "bee"},
    **{"variant_a": "base", "variant_b": "base", "judge_a": "near", "judge_b": "near"},
    **{"decoding_a": "T0+0.5", "decoding_b": "T0+0.5", "value": 0.075, "low": 0.04, "high": 0.11},
    **{"n": 112, "items": 112, "clusters": 56, "both": 60, "p": 0.003, "tests": 1, "p_holm": 0.003},
}


def findings(*rows: Mapping[str, object]) -> list[str]:
    return sentences.comparison_findings(pandas.DataFrame(rows, columns=[*COLUMNS]))


def finding(**changes: object) -> str:
    [said] = findings(ROW | changes)
    return said


def test_a_difference_that_is_sure_is_said_with_its_interval_in_points() -> None:
    assert finding() == (
        "A (ant) is better than B (bee) by 4 to 11 points, on 112 answers of 56 independent items "
        "(p .003)"
    )


def test_what_is_not_told_apart_says_what_would_have_been() -> None:
    # Half of the interval is .04; Student's t of 55 degrees at .975 and .8 are 2.004 and .848.
    said = finding(value=0.01, low=-0.03, high=0.05, p=0.6)
    assert said == (
        "A (ant) and B (bee) are not significantly different: the difference lies between -3 and "
        "5 points, on 112 answers of 56 independent items; a difference of 6 points would "
        "have been seen (80% power)"
    )

    said = finding(value=0.1, low=-0.9, high=1.0, p=0.8, clusters=3)
    assert said.endswith("; these are too few to see even one of 100 points (80% power)")
    rated = {"both": None, "signature_a": "t|d|base|m|T0|near:00|ratings-1-5|v"}
    said = finding(value=0.1, low=-3.9, high=4.0, p=0.8, clusters=3, **rated)
    assert said.endswith("; these are too few to see even one of 4 (80% power)")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tests": 15, "p_holm": 0.045}, "(p .003; p .045 corrected for 15 differences)"),
        ({"tests": 40, "p_holm": 0.12}, "; p .003; p .120 corrected for 40 differences"),
        (
            {"tests": 40, "p_holm": 0.12},
            "B (bee) are not significantly different: the difference lies between 4 and 11 points",
        ),
        ({"p": 0.00001}, "(p <.001)"),
        (
            {"missing_a": 2, "missing_b": 9, "least": -0.02, "most": 0.2},
            "A (ant) is better than B (bee) on what both answered by 4 to 11 points, on 112 "
            "answers of 56 independent items (p .003; the 11 missing verdicts could undo it)",
        ),
        ({"missing_b": 9, "least": 0.02, "most": 0.2}, "A (ant) is better than B (bee) by 4 to 11"),
        ({"worth": 20.4}, "of 56 independent items of unequal size (worth 20) (p .003)"),
        ({"low": 0.004}, "by 0.4 to 11.0 points"),
        ({"low": 0.0004}, "by 0.04 to 11.0 points"),
        ({"low": 1e-17, "p": 0.2}, "lies between 0.0 and 11.0 points"),
        ({"both": None}, "A (ant) scores higher than B (bee) by 0.04 to 0.11, on"),
        ({"variant_a": "cot5"}, "cot5 is better than base by 4 to 11 points"),
        (
            {"value": None, "low": None, "high": None, "reason": "too few"},
            "A (ant) and B (bee) cannot be compared: too few",
        ),
        (
            {"value": 0.0, "low": None, "high": None, "reason": "no interval: constant"},
            "A (ant) and B (bee) have the same verdicts, on 112 answers",
        ),
        (
            {"value": 0.5, "low": None, "high": None, "p": None, "reason": "too few"},
            "A (ant) and B (bee) are not significantly different: they differ by 50 points, on 112",
        ),
        (
            {"above_chance": 0.2, "above_chance_low": 0.1, "above_chance_high": 0.3,
             "p_above_chance": 0.01},
            "A (ant) is further above chance than B (bee) by 10 to 30 points",
        ),
    ],
)  # fmt: skip
def test_each_case_has_its_words(changes: dict[str, object], told: str) -> None:
    assert told in finding(**changes)


def test_several_differences_are_told_by_variant_over_all_decodings() -> None:
    rows = [
        ROW | {"decoding_a": "T0", "decoding_b": "T0", "low": 0.01},
        ROW,
        ROW | {"group": "irony"},
        ROW | {"variant_a": "cot0", "variant_b": "cot0"},
    ]

    said = findings(*rows)

    assert [one.partition(":")[0] for one in said] == ["base", "cot0"]
    assert all("by 4 to 11 points" in one for one in said)


def test_the_detectable_difference_is_found_as_often_as_is_said() -> None:
    from scipy.stats import nct, t

    # The chance that |t| passes the threshold where the truth is so large, in standard errors.
    for clusters, tests in ((12, 1), (60, 1), (400, 1), (60, 4)):
        reach, threshold = (t.ppf(1 - 0.025 / of, clusters - 1) for of in (1, tests))
        shift = detectable_difference(reach, clusters, tests=tests)
        assert nct.sf(threshold, clusters - 1, shift) == pytest.approx(0.8, abs=0.015)
    row = {"low": -0.02, "high": 0.04, "p": 0.5, "p_holm": 0.8, "tests": 4}
    assert "a difference of 5 points would have been seen" in findings(ROW | row)[0]
    # Of pairs p is McNemar's exact one, which takes one of 56 items more: 5.1 and 1.8 points.
    assert "a difference of 7 points would" in findings(ROW | row | {"n": 56, "ties": 0})[0]
    assert detectable_difference(1.96, 10**6) == pytest.approx(1.96 + 0.8416, abs=0.001)
    with pytest.raises(ValueError, match="give two or more"):
        detectable_difference(0.1, 1)


def agreement(statistic: str, value: float | None, judge: str = "near", **more: object) -> Row:
    names = {"task": "t", "model": "all", "variant": "base", "judge": judge, "n": 24}
    row = {**names, "statistic": statistic, "value": value, **more}
    return records(pandas.DataFrame([row], columns=list(AGREED)))[0]


def test_the_raters_are_said_once_with_what_they_allow_a_judge() -> None:
    rows = [
        agreement("alpha_raters", 0.33, low=0.24, high=0.42),
        agreement("agreement_pairwise_raters", 0.667),
        agreement("noise_ceiling", 0.597),
        agreement("attainable_r", 0.773),
    ]

    assert raters_finding(rows) == (
        "raters: alpha 0.33 (0.24 to 0.42); two of them rate 67% alike; their means have a "
        "reliability of 0.60, so that a judge without errors would reach r 0.77"
    )
    assert raters_finding([agreement("alpha_raters", None, reason="one rater")]).endswith(
        "one rater"
    )


@pytest.mark.parametrize(
    ("wins", "losses", "told"),
    [
        (0.5, 0.0, "may replace a rater (at least as near to the others as 50% of raters, give or "
         "take 0.1)"),
        (0.2, 0.6, "may not replace a rater (farther from the others than 60% of raters, by more "
         "than 0.1)"),
        (0.4, 0.4, "these ratings cannot say whether it may replace a rater (surely as near to "
         "the others as 40% of raters, give or take 0.1)"),
    ],
)  # fmt: skip
def test_a_judge_is_said_in_one_sentence(wins: float, losses: float, told: str) -> None:
    rows = [
        agreement("pearson_dataset", 0.61, low=0.52, high=0.69),
        agreement("attainable_r", 0.773),
        agreement("agreement_pairwise_judge", 0.656),
        agreement("agreement_pairwise_raters", 0.667),
        agreement("annotator_winning_rate", wins, epsilon=0.1),
        agreement("annotator_losing_rate", losses),
    ]

    assert judge_finding("near", rows) == (
        "near: r 0.61 (0.52 to 0.69) of 0.77 attainable, on 24 cells; rates 66% as a rater does "
        f"(two raters: 67%); {told}"
    )
    none = [agreement("pearson_dataset", None, reason="constant")]
    assert judge_finding("near", none) == "near: no correlation with the raters: constant"


def test_pairs_of_judges_are_told_apart_by_the_corrected_p() -> None:
    rows = [
        agreement("difference_pearson", -0.11, "a vs b", p=0.001, p_holm=0.01),
        agreement("difference_pearson", 0.05, "a vs c", p=0.04, p_holm=0.08),
        agreement("difference_pearson", None, "b vs c"),
    ]

    assert pairs_finding(rows) == [
        "b agrees better than a: r by 0.11 (p .010)",
        "1 of 2 pairs are not significantly different by r (p .080)",
    ]
    assert pairs_finding(rows[1:]) == ["a and c are not significantly different by r (p .080)"]


def test_a_judge_of_two_snapshots_is_two_judges() -> None:
    signatures = [f"t|d|v|m|T0|near:00{at}|way|r|v1" for at in ("", "@snap-2")]
    rows = [agreement("pearson_dataset", 0.5, signature=one) for one in signatures]

    assert [*by_judge(rows)] == ["near:00", "near:00@snap-2"]
    assert [*by_judge(rows[:1])] == ["near"]
