"""The cosine judge: nearer to the accepted reference than to the rejected one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from numpy.typing import NDArray
from support.each import each

from harness.core import Case, Request, Response, Sample
from harness.errors import SpecError
from harness.judges.nearness import CosineJudge, nearest_cosine, preferred, reference_of
from harness.models.encoders.encoders import CharNgrams
from harness.parts import Mode, Reason
from harness.specs.implicitness import CharNgramsSpec
from harness.specs.judges import Contrast, CosineSpec, Prepended

REFERENCES = {
    "true": ("She asks him to shut the window.", "She wants the window shut."),
    "literal": ("She tells him about the temperature.",),
}
NEAR_TRUE = "He should shut the window."
NEAR_LITERAL = "She speaks about the temperature."


class Angles:
    name = "angles"
    digest = "angles"

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls.append(list(texts))
        angles = np.radians([float(text) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


BASE = CosineSpec(
    about="Test.", encoder=CharNgramsSpec(), options=Contrast(accept="true", reject="literal")
)


def spec(**changes: Any) -> CosineSpec:  # noqa: ANN401 - fields of CosineSpec
    return structs.replace(BASE, **changes)


def judge(**changes: Any) -> CosineJudge:  # noqa: ANN401 - fields of CosineSpec
    return CosineJudge("ngram-cosine", spec(**changes), CharNgrams())


def case(*texts: str, true: Sequence[str] | None = None, key: str = "k") -> Case:
    references = REFERENCES if true is None else {"true": tuple(true), "literal": ("90",)}
    sample = Sample(id="s1", fields={}, references=references)
    return Case(sample, Response(key=key, texts=texts))


@pytest.mark.parametrize(("answer", "value"), [(NEAR_TRUE, 1.0), (NEAR_LITERAL, 0.0)])
def test_an_answer_counts_if_nearer_to_the_accepted_reference(answer: str, value: float) -> None:
    [verdict] = judge().read([case(answer)])
    assert (verdict.value, verdict.judge, verdict.response_key) == (value, "ngram-cosine", "k")
    assert (verdict.detail["margin"] > 0) == (value == 1.0)


def test_the_margin_is_the_difference_of_two_cosines() -> None:
    angles = Angles()
    cases = [case("0", "1", true=["60"]), case("0", true=["60"])]

    verdict = CosineJudge("angles", spec(), angles).read(cases)[1]

    # By hand: cos 60 degrees less cos 90 degrees; every text is encoded once, in one call.
    assert verdict.detail["margin"] == pytest.approx(0.5)
    assert [sorted(call) for call in angles.calls] == [["0", "1", "60", "90"]]


def test_several_answers_count_their_mean_without_the_blank_ones() -> None:
    [verdict] = judge().read([case(NEAR_TRUE, " \n", NEAR_LITERAL, NEAR_TRUE)])
    assert verdict.value == pytest.approx(2 / 3)
    assert reference_of(Sample("s", {}, {"true": (" ", "b")}), "true", judge="j") == ("b",)


@pytest.mark.parametrize(
    ("references", "fact"),
    [
        (
            {"true": ("a",)},
            r"judge ngram-cosine: sample s9 has no reference 'literal' \(it has: true\)",
        ),
        ({}, r"judge ngram-cosine: sample s9 has no reference 'true' \(it has: none\)"),
        (
            {"true": (" ",), "literal": ("b",)},
            r"judge ngram-cosine: sample s9 has a blank reference 'true'",
        ),
    ],
)
def test_no_reference_is_the_users_fault(references: dict[str, tuple[str, ...]], fact: str) -> None:
    sample = Sample(id="s9", fields={}, references=references)
    with pytest.raises(SpecError, match=fact):
        judge().read([Case(sample, Response(key="k", texts=("a",)))])


def test_the_recipe_changes_with_what_changes_a_verdict_only() -> None:
    recipe = judge().recipe

    assert recipe.startswith("ngram-cosine:")
    assert recipe.endswith("|char-ngrams")
    assert judge(about="Reworded.").recipe == recipe
    assert judge(options=Contrast(accept="literal", reject="true")).recipe != recipe
    assert CosineJudge("ngram-cosine", spec(), Angles()).recipe.split("|")[0] not in recipe
    assert judge(prepend=Prepended(accept="scene")).recipe != recipe


def test_the_nearest_of_several_texts_counts() -> None:
    angles = {"a": (1.0, 0.0), "b": (0.6, 0.8), "c": (-1.0, 0.0)}
    vectors = {name: np.array(of, dtype=np.float32) for name, of in angles.items()}
    assert nearest_cosine("a", ("c", "b"), vectors) == pytest.approx(0.6)


@each(
    ("margin", "value"), [(0.1, 1.0), (-0.1, 0.0), (0.0, 0.5), (4e-7, 0.5), (-4e-7, 0.5), (6e-7, 1)]
)
def test_a_margin_below_six_decimals_is_a_tie(margin: float, value: float) -> None:
    assert preferred(margin) == value


# --- what is put before the texts compared ---

SCENE = {"true": ("t1", "t2"), "literal": ("l",), "scene": ("It is cold.",), "cue": ("a", "b")}


class Words:
    name = "words"
    digest = "words"

    def __init__(self) -> None:
        self.texts: set[str] = set()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts |= set(texts)
        return np.ones((len(texts), 1), dtype=np.float32)


@pytest.mark.parametrize(
    ("prepend", "expected"),
    [
        ({}, {"x", "t1", "t2", "l"}),
        ({"response": "scene"}, {"It is cold. x", "t1", "t2", "l"}),
        ({"accept": "scene"}, {"x", "It is cold. t1", "It is cold. t2", "l"}),
        ({"reject": "cue"}, {"x", "t1", "t2", "a b l"}),
    ],
)
def test_a_reference_is_before_its_texts(prepend: dict[str, str], expected: set[str]) -> None:
    words = Words()
    led = spec(prepend=Prepended(**prepend))
    CosineJudge("led", led, words).read([Case(Sample("s", {}, SCENE), Response("k", ("x",)))])

    assert words.texts == expected


# --- a hosted encoder ---

PLANE = {"0": (2.0, 0.0), "60": (0.5, 0.75**0.5), "90": (0.0, 0.5)}  # not of length 1


def hosted() -> CosineJudge:
    return CosineJudge("far", spec(), "openai|m")


def replies(asked: Sequence[Request]) -> list[Response]:
    return [Response(r.key, vectors=(PLANE[r.messages[0].content],), served="m-1") for r in asked]


def test_a_hosted_encoder_is_asked_for_each_text_once() -> None:
    one = case("0", " ", "60", true=["60"])

    asked = hosted().ask(one.sample, one.response)

    assert [r.messages[0].content for r in asked] == ["0", "60", "90"]
    assert {(r.mode, r.model, r.sample_id) for r in asked} == {(Mode.EMBED, "openai|m", "s1")}
    other = Sample("s2", {}, {"true": ("60",), "literal": ("90",)})
    again = hosted().ask(other, Response("k", ("0",)))
    assert {r.key for r in again} <= {r.key for r in asked}
    assert hosted().recipe.endswith("|hosted")
    assert CosineJudge("far", spec(), "openai|n").recipe != hosted().recipe


def test_the_replies_of_a_hosted_encoder_are_read_whatever_their_length() -> None:
    one, judge = case("0", true=["60"]), hosted()
    answers = replies(judge.ask(one.sample, one.response))

    [verdict] = judge.read([Case(one.sample, one.response, tuple(answers))])

    # By hand: cos 60 degrees less cos 90 degrees.
    assert [verdict.value, verdict.detail["margin"]] == pytest.approx([1.0, 0.5])
    assert verdict.served == "m-1"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_text_without_a_vector_leaves_its_reason_and_not_a_zero(place: int) -> None:
    one, judge = case("0", true=["60"]), hosted()
    answers = replies(judge.ask(one.sample, one.response))
    answers[place] = Response.failed(answers[place].key, Reason.FILTERED, "held back")
    [verdict] = judge.read([Case(one.sample, one.response, tuple(answers))])

    assert (verdict.value, verdict.reason, verdict.note) == (None, Reason.FILTERED, "held back")
