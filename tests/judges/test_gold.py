"""Choices to verdicts: every number against one worked out by hand."""

from dataclasses import replace
from math import log

import pytest
from support.choice_cases import LABELS, Scores, case, judge, judged, sample, scores, spec
from support.each import each

from harness.core import Response
from harness.judges.gold import normalised
from harness.parts import ChoiceScore, Option, Reason

U, E, R, T = Reason.UNPARSED, Reason.EMPTY, Reason.REFUSED, Reason.TRUNCATED
SAKE = ("Où est le saké ?", "D'accord.")
# Behind a space: 17 characters in 19 bytes, and 10 in 10.
SIZES = [(len(f" {text}"), len(f" {text}".encode())) for text in SAKE]


def sized(*parts: tuple[float, int | None, int]) -> Scores:
    return tuple(ChoiceScore(*part) for part in parts)


def neutral(*logprobs: float, **flags: int) -> Response:
    return Response("n", choice_scores=scores(*logprobs, **flags))


def without_neutral(failure: Reason = Reason.FILTERED) -> Response:
    return Response.failed("n", failure, "held back")


@each(
    ("logprobs", "value"),
    [
        *(((-1.0, -2.0, -3.0), 1.0), ((-2.0, -1.0, -3.0), 0.0), ((-1.0, -1.0, -3.0), 1 / 2)),
        *(((-1.0, -1.0, -1.0), 1 / 3), ((-2.0, -1.0, -1.0), 0.0), ((-1e4, -2e4, -3e4), 1.0)),
        *(((-1e4, -1e4 - 1e-9, -2e4), 1.0), ((0.0, -50.0, -50.0), 1.0)),
    ],
)
def test_the_likeliest_choice_counts_and_of_equal_ones_each_its_share(
    logprobs: tuple[float, ...], value: float
) -> None:
    assert judged(case(scores(*logprobs))).value == value


@pytest.mark.parametrize(
    ("order", "logprobs", "value"),
    [
        *((("1", "2", "3"), (-1, -2, -3), 1.0), (("2", "3", "1"), (-1, -2, -3), 0.0)),
        *((("2", "3", "1"), (-3, -2, -1), 1.0), (("3", "1", "2"), (-2, -1, -3), 1.0)),
    ],
)
def test_a_score_belongs_to_the_choice_that_was_shown_at_its_place(
    order: tuple[str, ...], logprobs: tuple[float, ...], value: float
) -> None:
    asked = sample(order0=order, labels=LABELS)
    verdict = judged(case(scores(*logprobs), asked=asked, layout=spec(order=0)))

    assert (verdict.value, verdict.detail["chosen_label_Right"]) == (value, value)
    shown = [verdict.shares[int(number) - 1] for number in order]
    assert sorted(shown, reverse=True) == [shown[logprobs.index(one)] for one in (-1, -2, -3)]


WAYS = ["raw", "per_token", "per_byte", "per_character", "pmi"]


# Sums -6 and -4 over 6 and 2 tokens: raw prefers the second, per token the first (-1 to -2).
TWO = sized((-6.0, 6, SIZES[0][1]), (-4.0, 2, SIZES[1][1]))


@each(
    ("way", "first", "second"),
    [
        *(("raw", -6.0, -4.0), ("per_token", -6 / 6, -4 / 2), ("per_byte", -6 / 19, -4 / 10)),
        *(("per_character", -6 / 17, -4 / 10), ("pmi", -6 - -9, -4 - -3)),
    ],
)
def test_each_normalisation_does_as_it_is_named(way: str, first: float, second: float) -> None:
    options = [Option(at, f" {text}") for at, text in enumerate(SAKE)]
    found = normalised(TWO, options, neutral(-9.0, -3.0).choice_scores)
    assert found[way] == [pytest.approx(first), pytest.approx(second)]


@each("way", WAYS)
def test_the_headline_is_of_the_judges_normalisation_and_all_others_go_with_it(way: str) -> None:
    read = case(TWO, asked=sample(SAKE), layout=spec("text"), neutral=neutral(-9.0, -3.0))

    verdict = judged(read, way)

    expected = {"raw": 0.0, "per_token": 1.0, "per_byte": 1.0, "per_character": 1.0, "pmi": 1.0}
    others = {f"accuracy_{name}": value for name, value in expected.items() if name != way}
    assert verdict.value == expected[way]
    assert {k: v for k, v in verdict.detail.items() if k.startswith("accuracy_")} == others
    assert verdict.detail["chosen_place_1"] == expected[way]


@pytest.mark.parametrize("held", [None, without_neutral(), neutral(-1.0, -2.0)])
def test_without_neutral_scores_the_correction_alone_is_missing(held: Response | None) -> None:
    verdict = judged(case(scores(-1.0, -2.0, -3.0), neutral=held))

    assert verdict.value == 1.0
    assert "accuracy_pmi" not in verdict.detail
    assert "prob_right" in verdict.detail


@pytest.mark.parametrize("reason", [Reason.FILTERED, Reason.FAILED])
def test_a_corrected_headline_is_missing_for_the_reason_of_the_neutral_step(reason: Reason) -> None:
    verdict = judged(case(scores(-1.0, -2.0, -3.0), neutral=without_neutral(reason)), "pmi")
    assert (verdict.value, verdict.reason) == (None, reason)
    assert verdict.note == "scored without the sample: held back"


@pytest.mark.parametrize(
    ("logprobs", "shares", "spanned"),
    [
        *(((-1, -2, -3), [1.0, 0.0, 0.0], 0), ((-2, -1, -3), [0.0, 1.0, 0.0], 1)),
        *(((-1, -1, -3), [0.5, 0.5, 0.0], 7), ((-1, -1, -1), [1 / 3, 1 / 3, 1 / 3], 0)),
    ],
)
def test_what_was_chosen_is_named_by_place_and_label_a_tie_in_shares(
    logprobs: tuple[float, ...], shares: list[float], spanned: int
) -> None:
    detail = judged(case(scores(*logprobs, spanned=spanned))).detail

    assert [detail[f"chosen_place_{place}"] for place in (1, 2, 3)] == shares
    assert [detail[f"chosen_label_{label}"] for label in LABELS] == shares
    assert detail["identical_scores"] == (len(set(logprobs)) == 1)
    assert detail["spans_boundary"] == (spanned > 0)


def test_two_choices_of_one_label_count_together() -> None:
    asked = sample(labels=("Right", "Wrong", "Wrong"))
    detail = judged(case(scores(log(0.2), log(0.4), log(0.4)), asked=asked)).detail

    assert (detail["chosen_label_Right"], detail["chosen_label_Wrong"]) == (0.0, 1.0)
    assert detail["prob_label_Wrong"] == pytest.approx(0.8)


def test_probability_and_brier_are_those_of_a_hand_calculation() -> None:
    # Of .05, .03 and .02: shares of .5, .3 and .2; (.5 - 1)^2 + .3^2 + .2^2 = .38.
    verdict = judged(case(scores(log(0.05), log(0.03), log(0.02))))

    assert verdict.shares == pytest.approx((0.5, 0.3, 0.2))
    assert verdict.detail["prob_right"] == pytest.approx(0.5)
    assert verdict.detail["brier"] == pytest.approx(0.38)
    assert [verdict.detail[f"prob_label_{one}"] for one in LABELS] == pytest.approx([0.5, 0.3, 0.2])


@each(
    ("logprobs", "right", "brier"),
    [
        *(((0.0, -1e4, -1e4), 1.0, 0.0), ((-1e4, 0.0, -1e4), 0.0, 2.0)),
        *(((-1e4, -1e4, -1e4), 1 / 3, 2 / 3), ((-1e4, -1e4 - log(2), -2e4), 2 / 3, 2 / 9)),
        ((-1e308, -1e308, -1e308), 1 / 3, 2 / 3),
    ],
)
def test_very_small_probabilities_make_no_surprise(
    logprobs: tuple[float, ...], right: float, brier: float
) -> None:
    verdict = judged(case(scores(*logprobs)))

    assert verdict.detail["prob_right"] == pytest.approx(right)
    assert verdict.detail["brier"] == pytest.approx(brier)
    assert sum(verdict.shares) == pytest.approx(1.0)


def bounded(*parts: float | tuple[float]) -> Scores:
    return tuple(
        ChoiceScore(part[0], 1, 2, is_bound=True)
        if isinstance(part, tuple)
        else ChoiceScore(part, 1, 2)
        for part in parts
    )


@each(
    ("held", "value"),
    [
        *((bounded(-1.0, (-5.0,), (-5.0,)), 1.0), (bounded((-5.0,), -1.0, (-5.0,)), 0.0)),
        *((bounded(-5.0, (-5.0,), (-5.0,)), 1.0), (bounded((-5.0,), -5.0, -9.0), 0.0)),
        (bounded(-1.0, -1.0, (-5.0,)), 0.5),
    ],
)
def test_a_choice_by_a_bound_has_an_accuracy_no_probability(held: Scores, value: float) -> None:
    verdict = judged(case(held))

    assert (verdict.value, verdict.shares) == (value, ())
    assert not {"prob_right", "brier", "prob_label_Right"} & set(verdict.detail)
    assert verdict.detail["chosen_label_Right"] == value


@each("way", ["raw", "per_byte", "pmi"])
@each("held", [bounded((-5.0,), (-5.0,), (-5.0,)), bounded(-6.0, (-5.0,), (-5.0,))])
def test_where_a_bound_might_hide_the_best_choice_nothing_is_known(held: Scores, way: str) -> None:
    verdict = judged(case(held, neutral=neutral(-1.0, -1.0, -1.0)), way)
    assert (verdict.value, verdict.reason) == (None, Reason.UNSUPPORTED)
    assert "known by a bound alone" in verdict.note


WORDS = [
    *(("Shut the window.", 1.0), ("shut  the window", 1.0), ("It is noon", 0.0)),
    *(("- Shut the window.", 1.0), ('"I like fresh air."', 0.0), ("SHUT THE WINDOW!", 1.0)),
    ("Shut the window. That is what is meant.", 1.0),
    ("Answer: It is noon.", 0.0),
    ("Shut the window. It is noon.", U),
    ('She says "Shut the window." and means it.', U),
    ("He wants: shut the window", U),
    *(("Shut the windows.", U), ("Shut the", U), ("1", U), ("neither", U), ("", E)),
]


NUMBERS = [
    *(("1", 1.0), ("2", 0.0), (" 1)", 1.0), ("Answer: 3", 0.0), ("Option 1.", 1.0)),
    *(("1) Shut the window.", 1.0), ("**2**", 0.0)),
    *(("1 or 2", U), ("neither", U), ("Option 7", U), ("0", U), ("10", U), ("1.5", U)),
    *(("Shut the window.", U), ("One.", U), ("I think it is 1", U), ("", E), (" \n", E)),
]


@each(
    ("way", "text", "expected"),
    [(way, *row) for way, rows in (("number", NUMBERS), ("text", WORDS)) for row in rows],
)
def test_a_written_number_or_text_is_read_where_it_opens_the_answer(
    way: str, text: str, expected: float | Reason
) -> None:
    verdict = judged(case(text, layout=spec("text")) if way == "text" else case(text))
    assert (verdict.value if verdict.reason is None else verdict.reason) == expected


@each(
    ("held", "way", "note"),
    [
        (scores(-1.0, -2.0, -3.0, tokens=None), "per_token", "no per_token scores"),
        (scores(-1.0, -2.0, -3.0, tokens=0), "per_token", "no per_token scores"),
        (scores(), "raw", "0 scores for 3 choices"),
        (scores(-1.0, -1.0, -1.0, -1.0), "raw", "4 scores for 3 choices"),
    ],
)
def test_a_headline_that_cannot_be_had_is_unsupported(held: Scores, way: str, note: str) -> None:
    verdict = judged(case(held), way)

    assert (verdict.value, verdict.reason, verdict.note) == (None, Reason.UNSUPPORTED, note)
    uncounted = judged(case(scores(-1.0, -2.0, -3.0, tokens=None)))
    assert (uncounted.value, "accuracy_per_token" in uncounted.detail) == (1.0, False)


def test_a_written_answer_has_no_probability_and_an_unread_one_is_quoted() -> None:
    verdict = judged(case("Well, " * 40))
    assert judged(case("1")).shares == ()
    assert (verdict.note, len(verdict.note)) == (("Well, " * 40)[:80], 80)


YES_NO = sample(("yes", "no"), labels=("hateful", "benign"))


@each(
    ("text", "stop", "expected"),
    [
        *(("yes", None, 1.0), ("No.", None, 0.0), ("Yes, it does", "length", 1.0)),
        ("No, it only", "length", 0.0),
        *(("I'm sorry,", "length", R), ("I cannot", "length", R), ("Sorry, I", "length", R)),
        *(("No, I can't help with that.", None, R), ("I refuse.", None, R)),
        *(("This text is", "length", T), ("This text is", None, U), ("yes or no", None, U)),
        *(("No, I", "length", T), ("No, I", None, 0.0), ("No, I'm", "length", T)),
        *(("Hateful", "length", T), ("?", None, U), ("yes yes", None, 1.0)),
    ],
)
def test_a_reply_that_declines_is_cut_or_is_unclear_is_missing_and_never_a_no(
    text: str, stop: str | None, expected: float | Reason
) -> None:
    read = case(text, asked=YES_NO, layout=spec("text"))
    verdict = judged(replace(read, response=replace(read.response, stop=stop)))

    assert expected in (verdict.value, verdict.reason)
    assert (verdict.value is None) == isinstance(expected, Reason)


def test_a_choice_may_open_as_one_declines() -> None:
    asked = sample(("I'm sorry, I can't come.", "I'll be there."))
    assert judged(case("I'm sorry, I can't come.", asked=asked, layout=spec("text"))).value == 1.0


def test_a_judge_of_choices_asks_nothing_and_reads_each_case_by_itself() -> None:
    cases = [case(scores(-1.0, -2.0, -3.0)), case("2"), case(scores(-3.0, -2.0, -1.0))]

    assert [part.value for part in judge().read(cases)] == [1.0, 0.0, 0.0]
    assert {judge().ask(part.sample, part.response) for part in cases} == {()}
    assert len({judge(way).recipe for way in WAYS}) == len(WAYS)
