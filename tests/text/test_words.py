"""Texts are split into words and joined again; articles and capitals fit; WordNet synonyms."""

import pytest
from support.each import each

from harness.errors import SpecError
from harness.text.edits import (
    Piece,
    fix_article,
    is_wordnet_installed,
    join_pieces,
    match_case,
    split_pieces,
    starts_sentence,
    synonyms,
    takes_an,
)


@each(
    "text",
    [
        "",
        " ",
        "It's  a tea-pot,\n\nisn't it? ",
        "\u0645\u0631\u062d\u0628\u0627, \U0001f600!",
        "@you #tea",
        "a\x00b",
    ],
)
def test_a_text_is_its_pieces_put_together(text: str) -> None:
    pieces, end = split_pieces(text)

    assert join_pieces(pieces, end) == text


@each(
    ("word", "is_an"),
    [
        *(("apple", True), ("hour", True), ("honest", True), ("ugly", True), ("unhappy", True)),
        *(("tea", False), ("useful", False), ("one", False), ("university", False)),
        *(("European", False), ("house", False), ("unusual", True), ("idle", True)),
    ],
)
def test_an_goes_before_the_sound_of_a_vowel(word: str, is_an: bool) -> None:
    assert takes_an(word) is is_an


@each(
    ("said", "at", "meant"),
    [
        ("a old cup", 1, "an old cup"),
        ("An tea", 1, "A tea"),
        ("A old cup", 1, "An old cup"),
        ("A OLD CUP", 1, "AN OLD CUP"),
        ("the old cup", 1, "the old cup"),
        ("a old", 0, "a old"),
    ],
)
def test_an_article_agrees_with_what_follows(said: str, at: int, meant: str) -> None:
    assert join_pieces(fix_article(split_pieces(said)[0], at)) == meant


@pytest.mark.parametrize(
    ("like", "found"), [("Big", "Large"), ("BIG", "LARGE"), ("big", "large"), ("I", "Large")]
)
def test_a_word_takes_the_capitals_of_the_one_it_replaces(like: str, found: str) -> None:
    assert match_case("large", like) == found


def test_a_sentence_starts_behind_a_full_stop_and_quotation_marks() -> None:
    pieces, _ = split_pieces('Tea. "Now" or later')

    assert [starts_sentence(pieces, at) for at in (0, 3, 5)] == [True, True, False]


def test_tags_and_names_of_a_network_are_no_words() -> None:
    assert [Piece("", word).is_word for word in ("tea", "@tea", "#tea", "!")] == [True] + [
        False
    ] * 3


@pytest.mark.skipif(is_wordnet_installed(), reason="a WordNet package is installed")
def test_without_a_wordnet_the_error_says_what_to_install() -> None:
    with pytest.raises(SpecError, match="no WordNet is installed; `pip install wn`"):
        synonyms("adjective")


@pytest.mark.skipif(not is_wordnet_installed(), reason="no WordNet is installed")
def test_a_word_is_no_synonym_of_its_own() -> None:
    try:
        lookup = synonyms("adjective")
    except SpecError as error:
        pytest.skip(f"the data of wn is missing: {error}")

    assert "big" not in lookup("big")
    assert "large" in lookup("big")
