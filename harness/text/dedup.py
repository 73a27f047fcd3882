"""Texts to what tells whether they are the same text: words alone, and a hash of them.

The one way in which duplicates, near-equal originals and texts that a metric was trained on are
told. Pure.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING, Final
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

if TYPE_CHECKING:
    from scipy.sparse import csr_array


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


LIKENESS: Final = 0.6
"""The Jaccard index of two sentences' words from which on they count as one. 95 % of the published
augmentations of implicit hate are as like as that to their original."""
_SHARED: Final = 2  # words shared among the rarest; LIKENESS above 1 / 2 makes it right
_ROUNDING: Final = 1e-9
_BLOCK: Final = 2048
Words = frozenset[str]


def near_duplicates(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of texts, taken for blank-separated words, with a Jaccard index of LIKENESS or more.

    Texts of one set of words are paired with the first of them alone, and only it with others.
    Two sets as alike as that share two words among the few rarest of each (prefix filtering
    after Chaudhuri et al. 2006, with the longer prefixes of Wang et al. 2012): only such pairs
    are compared, and none is missed.
    """
    first: dict[Words, str] = {}
    for text in dict.fromkeys(texts):
        other = first.setdefault(frozenset(text.split()), text)
        if other != text:
            yield other, text
    kept = list(first.values())
    for mine, theirs in _alike(list(first)):
        yield kept[mine], kept[theirs]


def _alike(sets: Sequence[Words]) -> Iterator[tuple[int, int]]:
    """The places of sets that are as alike as that."""
    counts = Counter(word for words in sets for word in words)
    rising = sorted(counts, key=lambda word: (counts[word], word))
    order = {word: place for place, word in enumerate(rising)}
    ranks = [sorted(order[word] for word in words) for words in sets]
    sizes = np.array([len(words) for words in sets], dtype=np.int64)
    every = _presence(ranks, len(order))
    rarest = _presence([row[: _prefix(len(row))] for row in ranks], len(order))
    turned = rarest.T.tocsr()
    for start in range(0, len(sets), _BLOCK):
        near = (rarest[start : start + _BLOCK] @ turned).tocoo()
        one, other = near.row + start, near.col
        is_near = (near.data >= _SHARED) & (one < other)
        one, other = one[is_near], other[is_near]
        small, large = np.minimum(sizes[one], sizes[other]), np.maximum(sizes[one], sizes[other])
        is_near = small >= LIKENESS * large - _ROUNDING
        yield from _compared(every, sizes, one[is_near], other[is_near])


def _compared(
    every: "csr_array", sizes: NDArray[np.int64], one: NDArray[np.int64], other: NDArray[np.int64]
) -> Iterator[tuple[int, int]]:
    """Those pairs of places whose whole sets are as alike as that."""
    for start in range(0, len(one), step := 1 << 16):
        mine, theirs = one[start : start + step], other[start : start + step]
        shared = every[mine].multiply(every[theirs]).sum(axis=1)
        is_alike = shared >= LIKENESS * (sizes[mine] + sizes[theirs] - shared) - _ROUNDING
        yield from zip(mine[is_alike].tolist(), theirs[is_alike].tolist(), strict=True)


def _prefix(size: int) -> int:
    """How many of a set's rarest words tell whether another may be like it."""
    return size - ceil(LIKENESS * size - _ROUNDING) + _SHARED


def _presence(ranks: Sequence[Sequence[int]], width: int) -> "csr_array":
    """Sets x words: 1 where a set has a word."""
    from scipy.sparse import csr_array

    columns = np.array([rank for row in ranks for rank in row], dtype=np.int64)
    ends = np.cumsum([0, *map(len, ranks)])
    ones = np.ones(len(columns), dtype=np.int32)
    return csr_array((ones, columns, ends), shape=(len(ranks), width))


_CELLS = 1 << 23  # made texts x originals compared at a time: 64 MiB


def nearest_originals(
    made: Sequence[str], originals: Sequence[str], *, likeness: float
) -> list[int | None]:
    """For each made text the place of its original; null where none is as like as `likeness`.

    Likeness is the Jaccard index of the two sets of words (Jaccard 1912): the words in both over
    the words in either, 0 to 1. Of originals that are equally like it is the first.
    """
    if not made or not originals:
        return [None] * len(made)
    vocabulary: dict[str, int] = {}
    known = _originals_presence(originals, vocabulary)
    asked = _originals_presence(made, vocabulary)
    known.resize((len(originals), len(vocabulary)))
    asked.resize((len(made), len(vocabulary)))
    sizes, other = known.sum(axis=1), known.T.tocsc()
    found: list[int | None] = []
    for start in range(0, len(made), step := max(1, _CELLS // len(originals))):
        part = asked[start : start + step]
        shared = (part @ other).toarray()
        # Two texts without a word would be divided by nothing; they are alike in nothing.
        either = np.maximum(part.sum(axis=1)[:, None] + sizes[None, :] - shared, 1)
        found += _best(shared / either, likeness)
    return found


def _best(alike: NDArray[np.float64], least: float) -> list[int | None]:
    """The place of the greatest value of each row, if it is not too small."""
    places = alike.argmax(axis=1)
    values = alike[np.arange(len(alike)), places]
    return [
        int(place) if value >= least - 1e-12 else None
        for place, value in zip(places, values, strict=True)
    ]


def _originals_presence(texts: Sequence[str], vocabulary: dict[str, int]) -> "csr_array":
    """Texts x words: 1 where a text has a word. New words are added to the vocabulary."""
    from scipy.sparse import csr_array

    words = [sorted(set(normal(text).split())) for text in texts]
    for word in (word for part in words for word in part):
        vocabulary.setdefault(word, len(vocabulary))
    columns = np.array([vocabulary[word] for part in words for word in part], dtype=np.int64)
    ends = np.cumsum([0, *map(len, words)])
    shape = (len(texts), len(vocabulary))
    return csr_array((np.ones(len(columns)), columns, ends), shape=shape)
