"""The stated judge: responses that are ratings, averaged over their readable texts."""

from typing import Any

import pytest
from msgspec import structs

from harness.core import Case, Response, Sample, Verdict
from harness.judges.asking import StatedJudge
from harness.parts import Reason
from harness.specs.judges import Scale, StatedSpec

SPEC = StatedSpec(about="a toy", scale=Scale(low=1, high=3))
SAMPLE = Sample("s1", {"source": "a dialogue"})


def read(*texts: str, spec: StatedSpec = SPEC) -> Verdict:
    [verdict] = StatedJudge("toy", spec).read([Case(SAMPLE, Response("key", texts=texts))])
    return verdict


@pytest.mark.parametrize(
    ("texts", "value", "share"),
    [
        (("2",), 2.0, 1.0),
        (("1", "2", "3", "3"), 2.25, 1.0),
        (("2", "Yes", "", "Analysis: good in 2002.\nRating: 3"), 2.5, 0.5),
        (("4", "0", "2.5", "1"), 1.0, 0.25),
    ],
)
def test_readable_texts_are_averaged_and_their_share_is_given(
    texts: tuple[str, ...], value: float, share: float
) -> None:
    verdict = read(*texts)
    assert (verdict.response_key, verdict.judge) == ("key", "toy")
    assert (verdict.value, verdict.detail) == (value, {"parsed_share": share})


@pytest.mark.parametrize("texts", [("Yes", "No"), ("4",), ("", ""), ("", "Yes")])
def test_where_no_text_can_be_read_there_is_no_number(texts: tuple[str, ...]) -> None:
    verdict = read(*texts)
    assert (verdict.value, verdict.reason) == (None, Reason.UNPARSED)
    assert (verdict.note, verdict.detail) == (texts[0], {})


def test_the_reading_of_the_released_scripts_is_there_for_their_replies_alone() -> None:
    released = structs.replace(SPEC, reading="first_digit")

    assert read("It was in 2002.", "2.5", spec=released).value == 2.0
    assert read("It was in 2002.", "2.5").reason == Reason.UNPARSED
    wide = structs.replace(released, scales={"": Scale(low=0, high=1)})
    assert read("1", "2", "0", "in the 60s", spec=wide).value == 2.25
    assert StatedJudge("toy", wide).recipe.endswith("|first_digit-any-scale")


@pytest.mark.parametrize(
    "changes", [{"scale": Scale(low=0, high=3)}, {"reading": "first_digit"}], ids=str
)
def test_the_recipe_changes_with_what_changes_a_verdict(changes: dict[str, Any]) -> None:
    before, after = (
        StatedJudge("toy", spec).recipe.split("|")[0]
        for spec in (SPEC, structs.replace(SPEC, **changes))
    )

    assert before != after
