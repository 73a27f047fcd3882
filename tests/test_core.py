"""The nouns: what stands in a key, and what cannot be built."""

from dataclasses import replace
from typing import Any

import pytest
from support.each import each

from harness.core import Request, Response, Run, Sample, Score, Verdict
from harness.parts import ChoiceScore, Decoding, Failure, Message, Mode, Reason, digest

REQUEST = Request(
    sample_id="s1",
    variant="base",
    step="response",
    model="m@1",
    messages=(Message("user", "What now?"),),
    decoding=Decoding(0.3, 30, seed=7),
)
RUN = Run("toy", ("base",), "m@1", (Decoding(0.3, 30),), 0, None, "p", "d")
SCORE = Score("j", "base", "T0.3", "all", "accuracy", 0.5, 0.1, 0.9, 2, 2, {})
FAILURE = Failure(Reason.FAILED, "no route")


def test_the_digest_is_the_sha256_of_canonical_json() -> None:
    # printf '["a",1,{"b":null,"c":0.5}]' | sha256sum
    expected = "9ee88e55c1e7fdfb1b74aa5669ea189620601102989cfec7a95aea570e03c71e"
    assert digest(("a", 1, {"c": 0.5, "b": None})) == expected


def test_the_order_of_a_mapping_is_not_in_its_digest() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})


def test_requests_of_equal_content_share_a_key() -> None:
    twin = Request("s1", "base", "response", "m@1", *(REQUEST.messages, REQUEST.decoding))
    assert twin is not REQUEST
    assert twin.key == REQUEST.key


@each(
    "change",
    [
        {"model": "m@2"},
        {"messages": (Message("user", "What now? "),)},
        {"messages": (Message("system", "What now?"),)},
        {"messages": (*REQUEST.messages, Message("assistant", ""))},
        *({"decoding": Decoding(0.5, 30, seed=7)}, {"decoding": Decoding(0.3, 31, seed=7)}),
        *({"decoding": Decoding(0.3, 30, seed=8)}, {"decoding": Decoding(0.3, 30)}),
        *({"decoding": Decoding(0.3, 30, n=2, seed=7)}, {"mode": Mode.CHOOSE}),
        *({"choices": ("yes", "no")}, {"repeat": 1}),
    ],
)
def test_what_changes_the_answer_changes_the_key(change: dict[str, Any]) -> None:
    assert replace(REQUEST, **change).key != REQUEST.key


def test_the_order_of_choices_and_of_messages_changes_the_key() -> None:
    turns = (Message("user", "a"), Message("user", "b"))
    asked = replace(REQUEST, choices=("yes", "no"), messages=turns)

    assert replace(asked, choices=("no", "yes")).key != asked.key
    assert replace(asked, messages=turns[::-1]).key != asked.key


@pytest.mark.parametrize("change", [{"sample_id": "s2"}, {"variant": "cot0"}, {"step": "think"}])
def test_a_prompt_under_another_name_shares_the_key(change: dict[str, str]) -> None:
    assert replace(REQUEST, **change).key == REQUEST.key  # type: ignore[arg-type]  # names are texts


@pytest.mark.parametrize("zero", [0, 0.0, -0.0])
def test_greedy_is_greedy_however_zero_is_written(zero: float) -> None:
    request = replace(REQUEST, decoding=Decoding(zero))
    assert request.key == replace(REQUEST, decoding=Decoding(0.0)).key


@each(
    "wrong",
    [
        *({"temperature": t} for t in (-0.1, float("nan"), float("inf"))),
        *({"max_tokens": 0}, {"n": 0}),
    ],
)
def test_a_decoding_that_draws_nothing_cannot_be_built(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="temperature >= 0, max_tokens >= 1 and n >= 1"):
        Decoding(**wrong)


def test_a_sample_without_an_id_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="needs an id"):
        Sample("", {"utterance": "Hm."})


def test_a_reference_never_stands_in_the_fields() -> None:
    with pytest.raises(ValueError, match=r"s1: \['gist'\] are in fields and in references"):
        Sample("s1", {"gist": "a"}, references={"gist": ("a",)})


def test_a_sample_is_its_own_cluster_unless_it_names_one() -> None:
    assert Sample("s1", {}).cluster == "s1"
    assert Sample("s1", {}, cluster="story 4").cluster == "story 4"


@each(
    "parts",
    [
        *({"texts": ("a",)}, {"texts": ("",)}, {"choice_scores": (ChoiceScore(-1.0, 1, 3),)}),
        *({"vectors": ((0.0,),)}, {"failure": FAILURE}),
    ],
)
def test_a_response_holds_one_kind_of_answer(parts: dict[str, Any]) -> None:
    assert Response("k", **parts).key == "k"


@pytest.mark.parametrize(
    "parts",
    [{}, {"texts": ()}, {"texts": ("a",), "failure": FAILURE}, {"texts": ("a",), "vectors": ()}],
    ids=str,
)
def test_a_response_of_no_or_two_kinds_cannot_be_built(parts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="give exactly one of"):
        Response("k", **parts)


def test_a_failed_response_has_a_reason_and_no_text() -> None:
    response = Response.failed("k", Reason.REFUSED, "rather not")
    assert response.failure == Failure(Reason.REFUSED, "rather not")
    assert response.texts is None


@pytest.mark.parametrize(("value", "reason"), [(None, None), (0.0, Reason.FAILED)])
def test_a_verdict_is_a_value_or_a_reason(value: float | None, reason: Reason | None) -> None:
    with pytest.raises(ValueError, match="give a value or a reason, not"):
        Verdict("k", "j", value, reason)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_verdict_holds_finite_numbers_only(number: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        Verdict("k", "j", number)
    with pytest.raises(ValueError, match="not finite"):
        Verdict("k", "j", 1.0, detail={"margin": number})


def test_a_zero_is_a_value() -> None:
    assert Verdict("k", "j", 0.0).value == 0.0


@pytest.mark.parametrize(("n", "value"), [(0, 0.0), (3, None)])
def test_a_score_of_nothing_is_null_and_no_other_is(n: int, value: float | None) -> None:
    with pytest.raises(ValueError, match="score accuracy of all"):
        replace(SCORE, n=n, value=value)


@each(
    "change",
    [
        *({"task": "other"}, {"variants": ("base", "cot0")}, {"model": "m@2"}),
        *({"decodings": (Decoding(0.5, 30),)}, {"seed": 1}, {"limit": 20}, {"prompts": "q"}),
        {"data": "e"},
    ],
)
def test_a_run_differs_by_each_of_its_fields(change: dict[str, Any]) -> None:
    assert replace(RUN, **change).digest != RUN.digest
