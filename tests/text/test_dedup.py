"""Texts are equal by their words; edited texts find the originals that share most words."""

import pytest
from support.each import each

from harness.text.dedup import (
    are_like,
    fingerprint,
    near_copies,
    nearest_originals,
    normal,
    sketches,
)

ORIGINALS = ("the mill stood empty for years", "we walked two hours for flour", "two hours")


@each(
    ("made", "place"),
    [
        ("The mill stood empty for years.", 0),
        ("the old mill stood sadly empty for years", 0),  # 6 of 8 words
        ("we walked five hours for flour", 1),  # 5 of 7
        ("for two hours we walked", 1),  # 5 of 6, and 2 of 5
        ("nothing in common here", None),
        ("the mill stood", None),  # 3 of 6 is less than .6
        ("", None),
        ("!!!", None),
    ],
)
def test_likeness_is_words_in_both_over_words_in_either(made: str, place: int | None) -> None:
    assert nearest_originals([made], ORIGINALS, likeness=0.6) == [place]


def test_sketches_tell_near_copies_as_words_do() -> None:
    """At least .7 of the words is always told, .5 hardly ever; a byte says nothing of a word."""
    known = [" ".join(f"w{n}-{at}" for at in range(30)) for n in range(300)]
    kept = sketches(known)
    near = [text.rsplit(" ", 8)[0] for text in known]  # 22 of 30: Jaccard .73
    far = [text.rsplit(" ", 16)[0] for text in known]  # 14 of 30: Jaccard .47

    assert kept.nbytes == 128 * len(known)
    assert are_like(known, kept) == [True] * 300
    assert sum(are_like(near, kept)) >= 298
    assert sum(are_like(far, kept)) <= 3
    assert are_like(["", "!!!", "none of these"], kept) == [False] * 3
    assert are_like(["words"], sketches([])) == [False]


def test_a_likeness_that_is_just_reached_is_enough() -> None:
    # Three words in both, five in either.
    assert nearest_originals(["a b c d"], ["a b c e"], likeness=3 / 5) == [0]


def test_many_are_compared_as_few_are() -> None:
    originals = [f"w{n} w{n + 1} w{n + 2} w{n + 3}" for n in range(0, 4000, 10)]
    made = [f"{text} extra" for text in reversed(originals)]
    assert nearest_originals(made, originals, likeness=0.6) == list(reversed(range(400)))


@each(
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


def test_near_copies_are_linked_over_others_and_the_largest_group_is_the_first() -> None:
    texts = ["one two", "a b c d", "a b c d e", "ONE, two!", "c d e f b", "alone", "..."]

    found = near_copies(texts)

    assert found[["group", "size", "place"]].to_numpy().tolist() == [
        *([1, 3, 1], [1, 3, 2], [1, 3, 4], [2, 2, 0], [2, 2, 3])
    ]
    # The last of the first group is linked by the second: 3 words of 6 shared with the first.
    assert found["likeness"].round(2).tolist() == [1, 0.8, 0.5, 1, 1]
