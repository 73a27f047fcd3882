"""Texts to normal forms, fingerprints and near-duplicates, to compare texts by their words."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING, Final, TypeVar
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from harness.lazy import DataFrame, pandas

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_T = TypeVar("_T")
Words = frozenset[str]
HASH_LENGTH: Final = 16
"""Hex digits of a fingerprint: two of a million different texts share one with a probability of
1 in 37 million."""
LIKENESS: Final = 0.6
"""The least Jaccard index, 0 to 1, of the words of two sentences that count as near-duplicates.
95 % of the published augmentations of implicit hate reach it with their original."""
_SHARED: Final = 2  # words shared among the rarest; enough because LIKENESS is above 1 / 2
_ROUNDING: Final = 1e-9
_BLOCK: Final = 2048
_CELLS: Final = 1 << 23  # edited texts x originals compared at a time: 32 MiB
SKETCH: Final = 128
"""Bytes of a sketch: of two of LIKENESS 0.6 the estimate has a standard error of 0.043."""
MOST_SKETCHES: Final = 1 << 17  # 16 MiB
_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")


def normal(text: str) -> str:
    """The words of a text, case folded, one blank between them; without words, its marks."""
    folded = normalize("NFKC", text).casefold()
    return _BETWEEN_WORDS.sub(" ", folded).strip() or " ".join(folded.split())


def fingerprint(text: str) -> str:
    """The first HASH_LENGTH hex digits of the sha256 of a text's normal form."""
    words = normal(text).encode("utf-8", "surrogatepass")
    return hashlib.sha256(words).hexdigest()[:HASH_LENGTH]


def near_duplicates(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of texts, as blank-separated words, with a Jaccard index of LIKENESS or more.

    A text with the words of an earlier one is paired with that one alone. Two such sets share two
    words among the few rarest of each (prefix filtering after Chaudhuri et al. 2006, with the
    longer prefixes of Wang et al. 2012): only such pairs are compared, and none is missed.
    """
    first: dict[Words, str] = {}
    for text in dict.fromkeys(texts):
        other = first.setdefault(frozenset(text.split()), text)
        if other != text:
            yield other, text
    kept = list(first.values())
    for mine, theirs in _alike(list(first)):
        yield kept[mine], kept[theirs]


def near_copies(texts: Sequence[str]) -> DataFrame:
    """The texts that have a near copy, by group, the largest groups first, in their order there.

    A row has the number of its `group` from 1, its `size`, the `place` of the text from 0 and its
    `likeness` to the group's first text. A group is all that links lead to; texts without a word
    are in none.
    """
    words = pandas.Series([normal(text) for text in texts], dtype=object)
    words = words[words != ""]
    first = words.map(linked(words, near_duplicates(list(words))))
    found = words.to_frame("words").assign(place=words.index)
    found["lead"] = found["place"].groupby(first).transform("min")
    found["size"] = found["place"].groupby(first).transform("size")
    found = found[found["size"] > 1]
    found = found.sort_values(["size", "lead", "place"], ascending=[False, True, True])
    found["group"] = found.groupby("lead", sort=False).ngroup() + 1
    pairs = zip(words[found["lead"]], found["words"], strict=True)
    found["likeness"] = [likeness_of(one, other) for one, other in pairs]
    return found[["group", "size", "place", "likeness"]].reset_index(drop=True)


def linked(members: Iterable[_T], pairs: Iterable[tuple[_T, _T]]) -> dict[_T, _T]:
    """The first member of all that each one is linked to by pairs, directly or over others."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    place = {member: at for at, member in enumerate(dict.fromkeys(members))}
    ends = [(place[one], place[other]) for one, other in pairs]
    links = np.array(ends, dtype=int).reshape(-1, 2).T
    graph = coo_array((np.ones(links.shape[1]), links), shape=(len(place), len(place)))
    first: dict[int, _T] = {}
    found = zip(place, connected_components(graph, directed=False)[1].tolist(), strict=True)
    return {member: first.setdefault(group, member) for member, group in found}


def likeness_of(one: str, other: str) -> float:
    """The Jaccard index of the words of two normal forms, 0 to 1; 0 where neither has a word."""
    first, second = set(one.split()), set(other.split())
    return len(first & second) / max(1, len(first | second))


def _alike(sets: Sequence[Words]) -> Iterator[tuple[int, int]]:
    counts = Counter(word for words in sets for word in words)
    rising = sorted(counts, key=lambda word: (counts[word], word))
    order = {word: place for place, word in enumerate(rising)}
    ranks = [sorted(order[word] for word in words) for words in sets]
    sizes = np.array([len(words) for words in sets], dtype=np.int64)
    every = _presence(ranks, len(order))
    # So many of a set's rarest words decide whether another set may be like it.
    decisive = [size - ceil(LIKENESS * size - _ROUNDING) + _SHARED for size in map(len, ranks)]
    rows = [row[:count] for row, count in zip(ranks, decisive, strict=True)]
    rarest = _presence(rows, len(order))
    transposed = rarest.T.tocsr()
    for start in range(0, len(sets), _BLOCK):
        near = (rarest[start : start + _BLOCK] @ transposed).tocoo()
        one, other = near.row + start, near.col
        is_near = (near.data >= _SHARED) & (one < other)
        one, other = one[is_near], other[is_near]
        small, large = np.minimum(sizes[one], sizes[other]), np.maximum(sizes[one], sizes[other])
        is_near = small >= LIKENESS * large - _ROUNDING
        yield from _compared(every, sizes, one[is_near], other[is_near])


def _compared(
    every: "csr_array", sizes: NDArray[np.int64], one: NDArray[np.int64], other: NDArray[np.int64]
) -> Iterator[tuple[int, int]]:
    for start in range(0, len(one), step := 1 << 16):
        mine, theirs = one[start : start + step], other[start : start + step]
        shared = every[mine].multiply(every[theirs]).sum(axis=1)
        is_alike = shared >= LIKENESS * (sizes[mine] + sizes[theirs] - shared) - _ROUNDING
        yield from zip(mine[is_alike].tolist(), theirs[is_alike].tolist(), strict=True)


def _presence(ranks: Sequence[Sequence[int]], width: int) -> "csr_array":
    from scipy.sparse import csr_array

    columns = np.array([rank for row in ranks for rank in row], dtype=np.int64)
    ends = np.cumsum([0, *map(len, ranks)])
    ones = np.ones(len(columns), dtype=np.int32)
    return csr_array((ones, columns, ends), shape=(len(ranks), width))


def nearest_originals(
    edited: Sequence[str], originals: Sequence[str], *, likeness: float
) -> list[int | None]:
    """The index of each edited text's original; None where none reaches `likeness`.

    Likeness is the Jaccard index of the two sets of words, 0 to 1; of equals the first one counts.
    """
    if not edited or not originals:
        return [None] * len(edited)
    word_sets = [sorted(set(normal(text).split())) for text in (*originals, *edited)]
    ranks: dict[str, int] = {}
    rows = [[ranks.setdefault(word, len(ranks)) for word in words] for words in word_sets]
    every = _presence(rows, len(ranks))
    known, asked = every[: len(originals)], every[len(originals) :]
    sizes, transposed = known.sum(axis=1), known.T.tocsc()
    found: list[int | None] = []
    for start in range(0, len(edited), step := max(1, _CELLS // len(originals))):
        part = asked[start : start + step]
        shared = (part @ transposed).toarray()
        # At least 1: two texts without a word are alike in nothing.
        either = np.maximum(part.sum(axis=1)[:, None] + sizes[None, :] - shared, 1)
        alike = shared / either
        best = zip(alike.argmax(axis=1).tolist(), alike.max(axis=1).tolist(), strict=True)
        found += [index if value >= likeness - 1e-12 else None for index, value in best]
    return found


def sketches(texts: Iterable[str]) -> NDArray[np.uint8]:
    """What shows near copies of texts and holds no word of them: [texts, SKETCH], in their order.

    One byte of the least of the words' hashes by each of SKETCH functions: two texts share each
    with a probability of about their Jaccard index (b-bit minwise hashing, Li and Koenig 2010).
    """
    words = [sorted({*normal(text).split()}) or [text] for text in texts]
    hashes = {word: _hash(word) for own in words for word in own}
    drawn = [[_hash(f"{kind} {at}") for at in range(SKETCH)] for kind in ("factor", "term")]
    factors, terms = np.array(drawn, dtype=np.uint64)
    found = np.empty((len(words), SKETCH), dtype=np.uint8)
    for row, own in zip(found, words, strict=True):
        values = np.array([[hashes[word]] for word in own], dtype=np.uint64)
        # A byte from its middle, for the first ones of a least value are near 0.
        row[:] = (values * (factors | np.uint64(1)) + terms).min(axis=0) >> np.uint64(24)
    return found


def are_like(texts: Sequence[str], known: NDArray[np.uint8]) -> list[bool]:
    """Whether each text shares about LIKENESS of its words, or more, with one of some sketches."""
    transposed, found = _marked(known).T.tocsr(), list[bool]()
    # Bytes of different hashes are equal once in 256.
    least = SKETCH * (LIKENESS + (1 - LIKENESS) / 256)
    for start in range(0, len(texts), step := max(1, _CELLS // max(1, len(known)))):
        shared = _marked(sketches(texts[start : start + step])) @ transposed
        found += (shared.toarray() >= least).any(axis=1).tolist()
    return found


def _marked(rows: NDArray[np.uint8]) -> "csr_array":
    """A 1 for each byte of each sketch: [sketches, SKETCH x 256]."""
    from scipy.sparse import csr_array

    columns = (rows + 256 * np.arange(SKETCH)).ravel()
    ends = np.arange(len(rows) + 1) * SKETCH
    ones = np.ones(rows.size, dtype=np.int16)
    return csr_array((ones, columns, ends), shape=(len(rows), SKETCH << 8))


def _hash(word: str) -> int:
    found = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(found.digest(), "little")
