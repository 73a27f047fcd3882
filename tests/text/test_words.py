"""Texts are split into words and joined again; articles fit."""

from support.each import each

from harness.text.edits import join_pieces, split_pieces, takes_an


@each(
    "text",
    [
        *("", " ", "@you #tea", "a\x00b"),
        "It's  a tea-pot,\n\nisn't it? ",
        "\u0645\u0631\u062d\u0628\u0627, \U0001f600!",
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
