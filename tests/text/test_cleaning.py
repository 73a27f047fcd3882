"""Texts of social media to cleaned texts: each step alone, and what is never lost silently."""

import pytest

from harness.errors import SpecError
from harness.text.cleaning import RELEASED_STEPS, STEPS, chosen_steps, clean


@pytest.mark.parametrize(
    ("step", "text", "cleaned"),
    [
        ("entities", "M &amp; M &gt; all", "M & M > all"),
        ("urls", "see https://t.co/aW79X or www.a.org now", "see  or  now"),
        ("mentions", "@you_2 said, mail me@home.org", " said, mail me@home.org"),
        ("mention_marks", "@you_2 said", "you_2 said"),
        ("hashtag_marks", "#wakeup now, room #4", "wakeup now, room 4"),
        ("emojis", "so \U0001f602\U0001f602 happy \u2764\ufe0f!", "so  happy !"),
        ("emojis", "\U0001f468\u200d\U0001f469\u200d\U0001f467 two \U0001f1e9\U0001f1ea", " two "),
        ("emojis", "\u0646\u0645\u06cc\u200c\u062f\u0627\u0646\u0645", None),
        (
            "contractions",
            "I don't, can't, WON'T and ca n't",
            "I do not, cannot, WILL NOT and cannot",
        ),
        (
            "contractions",
            "we'll see; they\u2019re here, I'm not",
            "we will see; they are here, I am not",
        ),
        (
            "contractions",
            "It's late. It's been cold. Let's go.",
            "It is late. It has been cold. Let us go.",
        ),
        ("contractions", "its tail, the dog's bone, I'd go, ain't", None),
        ("elongations", "sooooo good, World War III, aaa", "so good, World War III, a"),
        ("signs", "R&B... a well-known 'x'; yes!!! no.", "RB a well known  x   yes !  no . "),
        ("numbers", "an 11 year-old in 1,776.5 at 10:30, v2", "an  year-old in  at , v2"),
        ("marks", "wait... what?! $5", "wait    what    5"),
        ("marks", "\u0939\u093f\u0928\u094d\u0926\u0940", None),
        ("lowercase", "LOUD Words", "loud words"),
        ("spaces", "  two\n\twords ", "two words"),
    ],
)
def test_a_step_changes_its_signs_alone(step: str, text: str, cleaned: str | None) -> None:
    found, _, changed = clean(text, [step])
    assert found == (text if cleaned is None else cleaned)
    assert changed == (() if cleaned is None else (step,))


def test_known_defects_of_the_released_cleaning_are_not_repeated() -> None:
    found, *_ = clean("The cat lost its toy, and ho ho, we'll find it.", RELEASED_STEPS)
    assert found == "the cat lost its toy , and ho ho , we will find it ."


@pytest.mark.parametrize(
    ("text", "released"),
    [
        (
            "@You lost 2 of its toys!!! #sad\nlol :)",
            "you lost of it is toys ! #sad . laugh out loud  smile",
        ),
        (
            "I'm sure we'll see, don\u2019t: a-b & so.long... www.x.org",
            "I am sure we will see , don  t : a b so.long .",
        ),
    ],
)
def test_the_rule_of_the_released_column_is_taken_with_its_defects(
    text: str, released: str
) -> None:
    assert clean(text, ["released"])[0] == released


def test_an_emptied_text_is_no_text_and_names_the_step() -> None:
    steps = ["urls", "mentions", "emojis"]

    assert clean("@you \U0001f602 https://t.co/x", steps)[:2] == (None, "emptied by emojis")
    assert clean("2024", ["numbers"])[0] is None
    assert clean(" \n", ["spaces"])[:2] == (None, "empty")


def test_steps_are_taken_in_one_order_and_an_unknown_one_is_an_error() -> None:
    assert chosen_steps(["spaces", "urls"]) == ("urls", "spaces")
    assert chosen_steps([]) == RELEASED_STEPS
    assert set(RELEASED_STEPS) <= set(STEPS)
    with pytest.raises(SpecError, match="did you mean urls"):
        chosen_steps(["url"])
