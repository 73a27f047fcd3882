"""Characters that cannot be shown or stored, and what is left of a text without them."""

import pytest

from harness.text.cleanup import for_display, repair_surrogates


@pytest.mark.parametrize(("text", "kept"), [("a\ud83d", "a\ufffd"), ("\U0001f600", "\U0001f600")])
def test_half_an_emoji_becomes_a_character_that_can_be_stored(text: str, kept: str) -> None:
    assert repair_surrogates(text) == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("gpt\U000e0041-4\u00ad", "gpt-4"),
        ("g\u200bp\u200dt\u200c\ufeff\u2060", "gpt"),
        (
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        ),
        ("\u0915\u094d\u200d\u0937", "\u0915\u094d\u200d\u0937"),
        ("\u0600\u0661", "\u0600\u0661"),
    ],
)
def test_what_shows_nothing_is_on_no_screen_and_scripts_keep_joiners(text: str, kept: str) -> None:
    assert for_display(text) == kept
