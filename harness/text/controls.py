"""Texts to texts without control characters, safe to show on a terminal or in a prompt."""

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def without_controls(text: str) -> str:
    """The text without control characters; tabs and line feeds stay."""
    return _CONTROL.sub("", text)
