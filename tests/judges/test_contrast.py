"""The contrast judge: does each answer of a pair go with its own reference."""

import os
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support.each import each

from harness.core import Case, Judge, Response, Sample
from harness.data.readers import emphasized_talk
from harness.judges.nearness import ContrastJudge
from harness.models.encoders.encoders import CharNgrams
from harness.parts import Reason
from harness.specs.implicitness import CharNgramsSpec
from harness.specs.judges import ContrastSpec

SPEC = ContrastSpec(about="a", encoder=CharNgramsSpec(), reference="implication")


class Angles:
    name = "angles"
    digest = "angles"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        angles = np.radians([float(text) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def case(answer: str | tuple[str, ...], *own: str, cluster: str = "c", block: str = "b") -> Case:
    texts = (answer,) if isinstance(answer, str) else answer
    key = f"{cluster} {own} {texts} {block}"
    sample = Sample(f"s{own}", {}, {"implication": own}, cluster=cluster)
    return Case(sample, Response(key, texts), block=block)


def judge() -> ContrastJudge:
    return ContrastJudge("angles", SPEC, Angles())


def values(*cases: Case) -> list[float | None]:
    return [verdict.value for verdict in judge().read(cases)]


@each(
    ("first", "second", "value"),
    [
        ("0", "90", 1.0),  # each its own reference
        ("90", "0", 0.0),  # each the other's
        ("45", "45", 0.5),  # between the two
        ("10", "10", 0.5),  # equal answers, both nearer to the first
        ("10", "20", 1.0),  # both nearer to the first, the second less so
        ("20", "10", 0.0),
    ],
)
def test_a_pair_counts_where_the_answers_go_with_their_own_references(
    first: str, second: str, value: float
) -> None:
    assert values(case(first, "0"), case(second, "90")) == [value, value]


def test_the_value_of_a_response_is_the_mean_over_its_pairs() -> None:
    # By hand: the first and second are swapped, both go well with the third.
    cases = [case("10", "0"), case("0", "10"), case("90", "90")]
    verdicts = judge().read(cases)

    assert [v.value for v in verdicts] == [0.5, 0.5, 1.0]
    assert [v.detail for v in verdicts] == [{"pairs": 2.0, "left_out": 0.0}] * 3


@each("other", ["90e0", " 90E0\n"])
def test_a_pair_that_shares_a_reference_text_is_left_out_and_counted(other: str) -> None:
    verdicts = judge().read([case("0", "0", "90e0"), case("90", other), case("180", "180")])
    assert verdicts[0].detail == {"pairs": 1.0, "left_out": 1.0}
    assert [v.value for v in verdicts] == [1.0, 1.0, 1.0]


def test_a_response_without_a_pair_says_why_and_is_not_a_zero() -> None:
    alone, shared = judge().read([case("0", "0"), case("0", "0", cluster="d")])

    assert (alone.value, alone.reason) == (None, Reason.UNSUPPORTED)
    assert alone.note == "no other answer of c to pair it with"
    assert shared.note == "no other answer of d to pair it with"


@pytest.mark.parametrize("field", ["cluster", "block"])
def test_pairs_are_formed_within_a_cluster_and_a_block(field: str) -> None:
    other = {field: "other"}

    apart = values(case("0", "0"), case("90", "90", **other))
    # In blocks of their own each pair is right; across them every second one would be wrong.
    blocks = values(
        case("0", "0"), case("90", "90"), case("0", "0", **other), case("90", "90", **other)
    )

    assert (apart, blocks) == ([None, None], [1.0] * 4)


def test_several_answers_are_each_paired_with_each() -> None:
    # Of two by one, by hand: ("0", "90") is right, ("90", "90") is a tie.
    assert values(case(("0", " ", "90"), "0"), case("90", "90")) == [0.75, 0.75]


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (Response.failed("k", Reason.REFUSED, "declined"), Reason.REFUSED),
        (Response("k", texts=(" \n",)), Reason.EMPTY),
        (Response("k", vectors=((1.0,),)), Reason.UNSUPPORTED),
    ],
)
def test_no_text_keeps_its_reason_and_makes_no_pair(response: Response, reason: Reason) -> None:
    whole = case("90", "90")
    broken = Case(case("0", "0").sample, response, block="b")
    verdicts = judge().read([broken, whole])

    assert [v.reason for v in verdicts] == [reason, Reason.UNSUPPORTED]


def test_it_asks_nothing_and_its_recipe_names_its_encoder() -> None:
    contrast: Judge = judge()
    one = case("0", "0")

    assert contrast.ask(one.sample, one.response) == ()
    assert contrast.metric == "accuracy"
    assert contrast.recipe.endswith("|angles")
    assert contrast.recipe != ContrastJudge("angles", SPEC, CharNgrams()).recipe
    assert judge().read([]) == []


# --- what the judge promises of any answers ---


def texts(seed: int, count: int) -> list[str]:
    draw = np.random.default_rng(seed)
    return [f"{angle:.1f}" for angle in draw.choice(3600, count, replace=False) / 10]


@each("seed", range(5))
def test_an_echo_of_its_references_is_right_and_a_blind_answer_a_half(seed: int) -> None:
    words = texts(seed, 12)
    sets = [words[start : start + 3] for start in range(0, 12, 3)]

    assert values(*(case(own[-1], *own) for own in sets)) == [1.0] * 4
    assert values(*(case("0.05", *own) for own in sets)) == [0.5] * 4


DATA = os.environ.get("HARNESS_DATA")


@pytest.fixture(scope="module")
def released() -> list[Sample]:
    if not DATA:
        pytest.skip("needs released data: HARNESS_DATA")
    return emphasized_talk.read([Path(DATA) / "emphasized_talk/data.json"], None)


def test_the_released_data_has_its_number_of_pairs(released: list[Sample]) -> None:
    clusters = Counter(sample.cluster for sample in released)
    pairs = sum(len(list(combinations(range(n), 2))) for n in clusters.values())
    cases = [Case(s, Response(s.id, ("x",))) for s in released]

    read = ContrastJudge("ngrams", SPEC, CharNgrams()).read(cases)

    assert (pairs, sum(v.detail.get("pairs", 0.0) for v in read) / 2) == (1293, 1290)
    assert Counter(v.value for v in read) == {0.5: 2064, None: 21}
    cases = [Case(s, Response(s.id, s.references["implication"][:1])) for s in released]
    read = ContrastJudge("ngrams", SPEC, CharNgrams()).read(cases)
    assert Counter(v.value for v in read) == {1.0: 2064, None: 21}
