"""Letters of texts to their script, and to how many words they have."""

import unicodedata
from collections.abc import Iterable
from itertools import islice

MOST_LETTERS = 20_000
_WITHOUT_BLANKS = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")


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
