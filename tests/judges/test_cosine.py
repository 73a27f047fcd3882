"""The cosine judge: nearer to the accepted reference than to the rejected one."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.core import Case, Judge, Response, Sample
from harness.encoders import CharNgrams
from harness.errors import SpecError
from harness.judges.cosine import CosineJudge
from harness.parts import ChoiceScore, Reason
from harness.specs.judges import Contrast, CosineSpec, EncoderSpec

REFERENCES = {
    "true": ("She asks him to shut the window.", "She wants the window shut."),
    "literal": ("She tells him about the temperature.",),
}
NEAR_TRUE = "He should shut the window."
NEAR_LITERAL = "She speaks about the temperature."


class Angles:
    """Texts that are angles in degrees, as vectors of the plane; remembers its calls."""

    name = "angles"
    digest = "angles"

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls.append(list(texts))
        angles = np.radians([float(text) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def spec(accept: str = "true", reject: str = "literal", about: str = "Test.") -> CosineSpec:
    encoder = EncoderSpec(name="char-ngrams")
    return CosineSpec(about=about, encoder=encoder, options=Contrast(accept=accept, reject=reject))


def judge(**names: str) -> CosineJudge:
    return CosineJudge("ngram-cosine", spec(**names), CharNgrams())


def case(*texts: str, true: Sequence[str] | None = None, key: str = "k") -> Case:
    references = REFERENCES if true is None else {"true": tuple(true), "literal": ("90",)}
    sample = Sample(id="s1", fields={}, references=references)
    return Case(sample, Response(key=key, texts=texts))


@pytest.mark.parametrize(("answer", "value"), [(NEAR_TRUE, 1.0), (NEAR_LITERAL, 0.0)])
def test_an_answer_counts_where_it_is_nearer_to_the_accepted_reference(
    answer: str, value: float
) -> None:
    [verdict] = judge().read([case(answer)])

    assert (verdict.value, verdict.judge, verdict.response_key) == (value, "ngram-cosine", "k")
    assert (verdict.detail["margin"] > 0) == (value == 1.0)


def test_the_margin_is_the_difference_of_two_cosines() -> None:
    [verdict] = CosineJudge("angles", spec(), Angles()).read([case("0", true=["60"])])

    # By hand: cos 60 degrees less cos 90 degrees.
    assert verdict.detail["margin"] == pytest.approx(0.5)


def test_a_reference_is_as_near_as_its_nearest_text() -> None:
    [verdict] = CosineJudge("angles", spec(), Angles()).read([case("0", true=["180", "60"])])

    assert [verdict.value, verdict.detail["margin"]] == pytest.approx([1.0, 0.5])


@pytest.mark.parametrize("accepted", ["90", "270", "90.000001"])
def test_equally_near_references_are_a_tie(accepted: str) -> None:
    [verdict] = CosineJudge("angles", spec(), Angles()).read([case("0", true=[accepted])])

    assert (verdict.value, verdict.detail["margin"]) == (0.5, 0.0)


def test_several_answers_count_their_mean_without_the_blank_ones() -> None:
    [verdict] = judge().read([case(NEAR_TRUE, " \n", NEAR_LITERAL, NEAR_TRUE)])

    assert verdict.value == pytest.approx(2 / 3)


def test_a_failed_response_keeps_its_reason_and_message() -> None:
    response = Response.failed("k", Reason.REFUSED, "the server declined")

    [verdict] = judge().read([Case(case("x").sample, response)])

    assert (verdict.value, verdict.reason) == (None, Reason.REFUSED)
    assert verdict.note == "the server declined"


def test_a_blank_answer_is_empty_and_not_a_zero() -> None:
    [verdict] = judge().read([case("", "  \n")])

    assert (verdict.value, verdict.reason) == (None, Reason.EMPTY)


@pytest.mark.parametrize(
    "response",
    [
        Response(key="k", choice_scores=(ChoiceScore(-1.0, 1, 1),)),
        Response(key="k", vectors=((1.0, 0.0),)),
    ],
)
def test_a_response_without_texts_is_unsupported(response: Response) -> None:
    [verdict] = judge().read([Case(case("x").sample, response)])

    assert (verdict.value, verdict.reason) == (None, Reason.UNSUPPORTED)


def test_verdicts_come_in_the_order_of_the_cases() -> None:
    cases = [case(NEAR_TRUE, key="a"), case("", key="b"), case(NEAR_LITERAL, key="c")]

    verdicts = judge().read(cases)

    assert [(v.response_key, v.value) for v in verdicts] == [("a", 1.0), ("b", None), ("c", 0.0)]


def test_every_text_is_encoded_once_in_one_call() -> None:
    angles = Angles()

    CosineJudge("angles", spec(), angles).read([case("0", "1", true=["60"]), case("1", true=["0"])])

    assert [sorted(call) for call in angles.calls] == [["0", "1", "60", "90"]]


def test_no_case_gives_no_verdict() -> None:
    assert judge().read([]) == []


@pytest.mark.parametrize(
    ("references", "fact"),
    [
        ({"true": ("a",)}, r"s9 has no reference 'literal' \(it has: true\)"),
        ({}, r"s9 has no reference 'true' \(it has: none\)"),
        ({"true": (" ",), "literal": ("b",)}, r"s9 has a blank reference 'true'"),
    ],
)
def test_a_missing_reference_is_the_users_mistake(
    references: dict[str, tuple[str, ...]], fact: str
) -> None:
    sample = Sample(id="s9", fields={}, references=references)

    with pytest.raises(SpecError, match=fact):
        judge().read([Case(sample, Response(key="k", texts=("a",)))])


def test_it_asks_nothing() -> None:
    one = case("x")
    cosine: Judge = judge()

    assert cosine.ask(one.sample, one.response) == ()
    assert cosine.metric == "accuracy"


def test_the_recipe_changes_with_what_changes_a_verdict_only() -> None:
    recipe = judge().recipe

    assert recipe.startswith("ngram-cosine:")
    assert recipe.endswith("|char-ngrams")
    assert judge(about="Reworded.").recipe == recipe
    assert judge(accept="literal", reject="true").recipe != recipe
    assert CosineJudge("ngram-cosine", spec(), Angles()).recipe.split("|")[0] not in recipe
