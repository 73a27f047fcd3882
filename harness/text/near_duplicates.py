"""Sentences to the pairs of them whose words are nearly the same. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
