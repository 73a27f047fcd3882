"""Declared languages and letters to whether texts are in a language that something reads."""

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import islice

_CODES = """
am ar be bg bn el fa gu he hi hy ja ka km kn ko lo mk ml mn mr my ne or pa ps ru sa si sr ta te
th ti uk ur yi zh
"""
NOT_LATIN = frozenset(_CODES.split())
"""Languages, by their codes of ISO 639-1, that are mostly not written in Latin letters."""
MOST_LETTERS = 20_000
_WITHOUT_BLANKS = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")


def mismatch(languages: Sequence[str], declared: str | None, texts: Iterable[str]) -> str | None:
    """Why texts are in none of some languages; None if they may be, or where none is named.

    `declared` is the language that the texts are said to be in, such as de or en-GB; without it,
    texts are foreign to languages in Latin letters if most of their letters are of another script.
    """
    known = {_base(language) for language in languages}
    if not known:
        return None
    if declared is not None:
        return None if _base(declared) in known else f"declared as {declared}"
    is_read = known & NOT_LATIN or not is_foreign(texts)
    return None if is_read else "mostly not in Latin letters"


def is_foreign(texts: Iterable[str]) -> bool:
    """Whether most letters of some texts are of another script than Latin; False without any."""
    letters = list(islice((c for text in texts for c in text if c.isalpha()), MOST_LETTERS))
    others = sum(not unicodedata.name(letter, "").startswith("LATIN") for letter in letters)
    return others * 2 > len(letters)


def is_one_word(text: str) -> bool:
    """Whether a text has at most one word: parts between blanks with a letter or a digit."""
    words = 0
    for part in text.split():
        unparted = sum(unicodedata.name(c, "").startswith(_WITHOUT_BLANKS) for c in part)
        words += unparted or any(map(str.isalnum, part))
        if words > 1:
            return False
    return True


def _base(language: str) -> str:
    """The language of a tag, without its region or script."""
    return language.replace("_", "-").partition("-")[0].casefold()
