"""Texts that are compared, and how near their vectors are."""

import numpy as np
import pytest
from support.each import each

from harness.core import Response, Sample
from harness.errors import SpecError
from harness.judges.nearness import (
    answers_of,
    missing_verdict,
    nearest_cosine,
    preferred,
    reference_of,
)
from harness.parts import ChoiceScore, Reason

VECTORS = {
    "a": np.array([1, 0], dtype=np.float32),
    "b": np.array([0.6, 0.8], dtype=np.float32),
    "c": np.array([-1, 0], dtype=np.float32),
}


def test_the_nearest_of_several_texts_counts() -> None:
    assert nearest_cosine("a", ("c", "b"), VECTORS) == pytest.approx(0.6)


@each(
    ("margin", "value"), [(0.1, 1.0), (-0.1, 0.0), (0.0, 0.5), (4e-7, 0.5), (-4e-7, 0.5), (6e-7, 1)]
)
def test_a_margin_below_six_decimals_is_a_tie(margin: float, value: float) -> None:
    assert preferred(margin) == value


def test_blank_texts_are_no_answers_and_no_references() -> None:
    sample = Sample("s", {}, {"true": (" ", "b")})

    assert answers_of(Response("k", (" ", "a", "\n"))) == ("a",)
    assert reference_of(sample, "true", judge="j") == ("b",)


@pytest.mark.parametrize(("name", "fact"), [("gold", "no reference"), ("blank", "a blank")])
def test_a_reference_without_text_names_judge_sample_and_what_there_is(
    name: str, fact: str
) -> None:
    sample = Sample("s", {}, {"true": ("a",), "blank": (" ",)})

    with pytest.raises(SpecError, match=rf"judge j: sample s has {fact}.*it has: blank, true"):
        reference_of(sample, name, judge="j")


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (Response.failed("k", Reason.FILTERED, "held"), Reason.FILTERED),
        (Response("k", choice_scores=(ChoiceScore(-1.0, 1, 1),)), Reason.UNSUPPORTED),
        (Response("k", ("", " ")), Reason.EMPTY),
        (Response("k", ("", "a")), None),
    ],
)
def test_what_cannot_be_read_has_its_reason(response: Response, reason: Reason | None) -> None:
    why = missing_verdict(response)

    assert (why.reason if why else None) == reason
