"""Characters that cannot be shown or stored, and what is left of a text without them."""

import pytest

from harness.text.cleanup import repair_surrogates


@pytest.mark.parametrize(("text", "kept"), [("a\ud83d", "a\ufffd"), ("\U0001f600", "\U0001f600")])
def test_half_an_emoji_becomes_a_character_that_can_be_stored(text: str, kept: str) -> None:
    assert repair_surrogates(text) == kept
