"""Rows of vectors, one a text, computed once for each distinct text; and progress reports."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")
Vectors = NDArray[np.float32]
Progress = Callable[[str, int, int], None]
"""Called with the name of a stage, how many of its parts are done, and of how many."""


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Split items into lists of `size`; no more items are read than are returned."""
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk


def reported_chunks(
    items: Sequence[Item], size: int, progress: Progress | None, *, stage: str = "texts"
) -> Iterator[list[Item]]:
    """Split items into lists of `size`; report progress after each list is worked on."""
    done = 0
    for chunk in chunks(items, size):
        yield chunk
        done += len(chunk)
        if progress is not None:
            progress(stage, done, len(items))


def row_of_each(texts: Sequence[str], rows: Callable[[list[str]], Vectors]) -> Vectors:
    """Return a row a text; `rows` computes them for the distinct texts."""
    place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    if not place:
        return np.empty((0, 0), dtype=np.float32)
    return rows(list(place))[[place[text] for text in texts]]


def short_first(texts: Sequence[str], compute: Callable[[list[str]], Iterable[Vectors]]) -> Vectors:
    """One row a text; `compute` gets the texts by length, so that neighbours are as long."""
    order = sorted(range(len(texts)), key=lambda at: (len(texts[at]), texts[at]))
    found = np.concatenate([*compute([texts[at] for at in order])])
    rows = np.empty(found.shape, dtype=np.float32)
    rows[order] = found
    return rows


def rows_in_batches(
    items: Sequence[Item],
    keys: Sequence[tuple[int, str]],
    compute: Callable[[Iterable[list[Item]]], Iterable[Vectors]],
    *,
    width: int,
    budget: int,
) -> Vectors:
    """The rows of some items, computed in batches of at most `budget` padded tokens.

    `keys` has the length of each item and its text, by which they are ordered.
    """
    batches = list[list[int]]()
    for at in sorted(range(len(items)), key=keys.__getitem__):
        if not batches or keys[at][0] * (len(batches[-1]) + 1) > budget:
            batches.append([])
        batches[-1].append(at)
    rows = np.empty((len(items), width), dtype=np.float32)
    found = compute([items[at] for at in batch] for batch in batches)
    for batch, vectors in zip(batches, found, strict=True):
        rows[batch] = vectors
    return rows


def without_surrogates(text: str) -> str:
    """Replace each lone surrogate, which no tokenizer accepts, by a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")
