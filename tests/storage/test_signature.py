"""A signature is read back as it was printed, whatever its parts."""

from dataclasses import fields, replace
from random import Random

import pytest
from support.each import each

from harness.errors import SpecError, StoreError
from harness.judges.custom import JudgeLabel
from harness.storage.signature import JudgeRecipe, Signature

PRINTED = (
    "intent_resolution:9f31c2ab|data:sample:d1f3+near@77ab,all|text:order0|"
    "small:openai@a1+snap-2|T0.3+0.5,n1,s0|choice/beta:swapped:0011aabb@j-1|both-orders|v0.1.0"
)
MADE = Signature(
    *("intent_resolution", "9f31c2ab", "sample:d1f3+near@77ab", "all", "text:order0"),
    *("small", "openai", "a1+snap-2", "T0.3+0.5", "1", "0"),
    *("choice/beta:swapped:0011aabb@j-1", "both-orders", "0.1.0"),
)


@pytest.mark.parametrize(
    ("way", "scale"),
    [
        ("ratings-1-5-x20", (1, 5)),
        ("ratings--2-2-x1", (-2, 2)),
        ("strict-0-100", (0, 100)),
        ("strict-by-variant", None),
        ("first_digit-any-scale", None),
        ("minilm-1-5", None),
    ],
)
def test_a_way_of_judging_tells_the_scale_of_its_ratings(
    way: str, scale: tuple[int, int] | None
) -> None:
    assert JudgeRecipe("own:00", way).scale == scale


def test_a_signature_is_printed_and_read() -> None:
    assert str(MADE) == PRINTED
    assert Signature.parse(PRINTED) == MADE
    assert MADE.without("model", "judge", "way").count("|") == 4


@each("seed", range(20))
def test_what_is_printed_is_read_back(seed: int) -> None:
    draw = Random(seed)
    made = Signature(*("".join(draw.choices("ab1.+-_", k=draw.randrange(1, 6))) for _ in range(14)))

    assert Signature.parse(str(made)) == made


@each("name", [field.name for field in fields(Signature)])
def test_no_part_ends_its_field_or_the_line(name: str) -> None:
    changed = replace(MADE, **{name: "a|b c\nd"})

    assert str(changed).count("|") == 7
    assert "a_b_c_d" in str(changed)


@pytest.mark.parametrize("text", ["", "a|b", PRINTED + "|"])
def test_other_texts_are_no_signature(text: str) -> None:
    with pytest.raises(StoreError, match="is no signature"):
        Signature.parse(text)


@each("text", ["", "near:00", "near:00|", "|way", "near:00|way|more"])
def test_other_texts_are_no_recipe(text: str) -> None:
    with pytest.raises(SpecError, match="name:digest"):
        JudgeRecipe.parse(text)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("near", JudgeLabel("near")),
        ("choice/beta", JudgeLabel("choice", "beta")),
        ("near:swapped", JudgeLabel("near", is_swapped=True)),
        ("choice/b/c:swapped", JudgeLabel("choice", "b/c", is_swapped=True)),
    ],
)
def test_the_label_of_a_judge_is_read_and_printed(text: str, label: JudgeLabel) -> None:
    assert JudgeLabel.parse(text) == label
    assert str(label) == text
