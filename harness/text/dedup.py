"""Texts to what tells whether they are the same text: words alone, and a hash of them.

The one way in which duplicates, near-equal originals and texts that a metric was trained on are
told. Pure.
"""

import hashlib
import re
from unicodedata import normalize

_BETWEEN_WORDS = re.compile(r"[\W_]+")
HASH_LENGTH = 16
"""Hex digits of a fingerprint: among a million texts two differing ones share it by chance once
in 37 million."""


def normal(text: str) -> str:
    """The words of a text, case folded, one blank between them; for want of words, its marks.

    Letters of every script are words; width and composition of characters do not matter (NFKC).
    """
    folded = normalize("NFKC", text).casefold()
    return _BETWEEN_WORDS.sub(" ", folded).strip() or " ".join(folded.split())


def fingerprint(text: str) -> str:
    """The first HASH_LENGTH hex digits of the sha256 of a text's normal form.

    Texts are equal by it where their normal forms are; it does not give the text away.
    """
    words = normal(text).encode("utf-8", "surrogatepass")
    return hashlib.sha256(words).hexdigest()[:HASH_LENGTH]
