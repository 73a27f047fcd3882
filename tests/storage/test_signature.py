"""A signature is read back as it was printed, whatever its parts."""

from collections.abc import Sequence
from dataclasses import fields, replace
from random import Random

import pytest
from support.each import each

from harness.errors import SpecError, StoreError
from harness.judges.custom import JudgeLabel
from harness.storage.signature import JudgeRecipe, Signature, short_labels

PRINTED = (
    "intent_resolution:9f31c2ab|data:sample:d1f3+near@77ab,all|text:order0|"
    "small:openai@a1+snap-2|T0.3+0.5,n1,s0|choice/beta:0011aabb@j-1|both-orders|v0.1.0"
)
MADE = Signature(
    *("intent_resolution", "9f31c2ab", "sample:d1f3+near@77ab", "all", "text:order0"),
    *("small", "openai", "a1+snap-2", "T0.3+0.5", "1", "0"),
    *("choice/beta:0011aabb@j-1", "both-orders", "0.1.0"),
)


@pytest.mark.parametrize(
    ("way", "scale"),
    [
        *(("ratings-1-5-x20", (1, 5)), ("ratings--2-2-x1", (-2, 2)), ("strict-0-100", (0, 100))),
        *(("strict-by-variant", None), ("first_digit-any-scale", None), ("minilm-1-5", None)),
    ],
)
def test_a_way_of_judging_tells_its_ratings_scale(way: str, scale: tuple[int, int] | None) -> None:
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
    ("text", "label"), [("near", JudgeLabel("near")), ("choice/beta", JudgeLabel("choice", "beta"))]
)
def test_the_label_of_a_judge_is_read_and_printed(text: str, label: JudgeLabel) -> None:
    assert JudgeLabel.parse(text) == label
    assert str(label) == text


PARTS = ("toy:9f31c2ab", "data:d1f3+near@77ab,all", "base", "small:openai@s1", "T0,n1,s0")
JUDGED = ("gold:00@j1", "raw", "v0.1.0")


def signed(**changes: str) -> str:
    """A signature of these parts, some of them others."""
    fields = ("words", "data", "variant", "model", "decoding", "judge", "way", "version")
    held = {**dict(zip(fields, (*PARTS, *JUDGED), strict=True)), **changes}
    return "|".join(held.values())


def names(*signatures: str, sources: Sequence[str] = ()) -> list[str]:
    of = sources or ["ishate"] * len(signatures)
    return list(short_labels(dict(zip(signatures, of, strict=True))).values())


@each(
    ("other", "expected"),
    [
        ({"model": "large:openai@s9"}, ["small", "large"]),
        ({"model": "small:vllm@s1"}, ["small, openai", "small, vllm"]),
        ({"model": "small:openai@s2"}, ["small, s1", "small, s2"]),
        ({"decoding": "logprob,n1,s0"}, ["small, T0", "small, logprob"]),
        ({"decoding": "T0,n3,s0"}, ["small, n1", "small, n3"]),
        ({"decoding": "T0,n1,s4"}, ["small, seed 0", "small, seed 4"]),
        ({"data": "data:d1f3+near@77ab,200"}, ["small, all samples", "small, 200 samples"]),
        ({"data": "data:sample:e4+near@77ab,all"}, ["small, data d1f3", "small, data sample:e4"]),
        ({"variant": "bare", "words": "toy:11"}, ["small, base", "small, bare"]),
        ({"decoding": "logprob,n1,s0", "words": "toy:11"}, ["small, T0", "small, logprob"]),
        ({"words": "toy:11"}, ["small, prompts 9f31c2ab", "small, prompts 11"]),
        ({"judge": "gold:00@j2"}, ["small, gold:00@j1", "small, gold:00@j2"]),
        ({"way": "pmi"}, ["small, raw", "small, pmi"]),
        ({"version": "v9"}, ["small, v0.1.0", "small, v9"]),
    ],
)
def test_a_name_says_what_differs_alone(other: dict[str, str], expected: list[str]) -> None:
    assert names(signed(), signed(**other)) == expected


def test_data_of_two_sources_is_called_by_them() -> None:
    other = signed(data="data:ee00+near@77ab,all")

    found = names(signed(), other, sources=("ishate", "toxigen"))
    assert found == ["small, ishate", "small, toxigen"]


def test_two_data_sets_of_one_source_have_their_digests_beside_it() -> None:
    data = [signed(data=f"data:{one}+near@77ab,all") for one in ("aa", "bb", "cc")]

    assert names(*data, sources=("ishate", "ishate", "toxigen")) == [
        "small, ishate, data aa",
        "small, ishate, data bb",
        "small, toxigen, data cc",
    ]


def test_two_models_on_different_data_say_so_both() -> None:
    other = signed(model="large:openai@s1", data="data:ee00+near@77ab,all")
    assert names(signed(), other) == ["small, data d1f3", "large, data ee00"]


def test_a_control_is_another_version_of_itself_on_other_data() -> None:
    control = signed(model="oracle:scripted@aa")
    other = signed(model="oracle:scripted@bb", data="data:ee00+near@77ab,all")

    assert names(control, other) == ["oracle, data d1f3", "oracle, data ee00"]
    assert names(control, signed(model="oracle:scripted@bb")) == ["oracle, aa", "oracle, bb"]


def test_a_model_that_is_served_otherwise_on_other_data_says_so() -> None:
    other = signed(model="small:openai@s2", data="data:ee00+near@77ab,all")
    assert names(signed(), other) == ["small, s1, data d1f3", "small, s2, data ee00"]


def test_one_signature_is_called_by_its_model() -> None:
    assert names(signed()) == ["small"]
    assert short_labels({}) == {}
