"""Texts without control characters, safe to show, and without halves of characters, storable."""

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def without_controls(text: str) -> str:
    """The text without control characters; tabs and line feeds stay."""
    return _CONTROL.sub("", text)


def repair_surrogates(text: str) -> str:
    """The text with U+FFFD for each lone half of a character, as of an emoji that was cut.

    No encoding can write such a half, so no file, digest or server takes the text.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
