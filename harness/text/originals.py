"""Texts that were made of others to the originals they were most likely made of.

Released augmentations do not say which message they come from. Each is laid beside all originals
and given to the one it shares most of its different words with. Pure.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.text.dedup import normal

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
    known = _presence(originals, vocabulary)
    asked = _presence(made, vocabulary)
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


def _presence(texts: Sequence[str], vocabulary: dict[str, int]) -> "csr_array":
    """Texts x words: 1 where a text has a word. New words are added to the vocabulary."""
    from scipy.sparse import csr_array

    words = [sorted(set(normal(text).split())) for text in texts]
    for word in (word for part in words for word in part):
        vocabulary.setdefault(word, len(vocabulary))
    columns = np.array([vocabulary[word] for part in words for word in part], dtype=np.int64)
    ends = np.cumsum([0, *map(len, words)])
    shape = (len(texts), len(vocabulary))
    return csr_array((np.ones(len(columns)), columns, ends), shape=shape)
