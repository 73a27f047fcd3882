"""Texts are split into words and joined again; articles and capitals fit; WordNet synonyms."""

import pytest
from support.each import each

from harness.errors import SpecError
from harness.text.edits import (
    is_wordnet_installed,
    join_pieces,
    split_pieces,
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
