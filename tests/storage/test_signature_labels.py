"""Signatures to names that say what differs among them, and no more."""

from collections.abc import Sequence

from support.each import each

from harness.storage.signature import short_labels

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
def test_a_name_says_what_differs_and_nothing_else(
    other: dict[str, str], expected: list[str]
) -> None:
    assert names(signed(), signed(**other)) == expected


def test_data_of_two_sources_is_called_by_them() -> None:
    other = signed(data="data:ee00+near@77ab,all")

    assert names(signed(), other, sources=("ishate", "toxigen")) == [
        "small, ishate",
        "small, toxigen",
    ]


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
