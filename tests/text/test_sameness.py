"""Texts are the same where their words are, in any script."""

import pytest

from harness.text.dedup import HASH_LENGTH, fingerprint, normal


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The Kettle boils!", "the kettle   boils"),
        ("It's late...", "it s late"),
        ("\uff36\uff45\uff53\uff53", "vess"),  # full width
        ("Stra\u00dfe", "STRASSE"),
        ("caf\u00e9", "cafe\u0301"),  # composed and decomposed
        ("snake_case", "snake case"),
    ],
)
def test_case_marks_and_composition_do_not_matter(one: str, other: str) -> None:
    assert normal(one) == normal(other)
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the kettle boils", "the kettle boiled"),
        (
            "\u05e9\u05dc\u05d5\u05dd",
            "\u05d1\u05d5\u05e7\u05e8",
        ),  # letters that are not Latin are words
        ("\U0001f642", "\U0001f641"),  # for want of words, the marks
        ("?", "!"),
    ],
)
def test_different_words_are_different_texts(one: str, other: str) -> None:
    assert normal(one) != normal(other)
    assert fingerprint(one) != fingerprint(other)


@pytest.mark.parametrize("text", ["", " ", "\0", "\ud800", "a" * 10_000, "\u202eabc"])
def test_every_text_has_a_fingerprint(text: str) -> None:
    assert len(fingerprint(text)) == HASH_LENGTH
    assert set(fingerprint(text)) <= set("0123456789abcdef")
