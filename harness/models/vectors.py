"""Rows of vectors shared by all encoders: one a text, computed once for each distinct text.

Also the progress that long work reports. Nothing here knows what a text or a vector means.
"""

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


def rising_batches(
    order: Sequence[int], lengths: Sequence[int], *, budget: int
) -> Iterator[list[int]]:
    """Split `order`, whose lengths rise, into batches of at most `budget` padded tokens."""
    batch: list[int] = []
    for index in order:
        if batch and lengths[index] * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(index)
    yield batch


def without_surrogates(text: str) -> str:
    """Replace each lone surrogate, which no tokenizer accepts, by a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")
