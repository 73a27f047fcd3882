"""Rows of vectors shared by all encoders: one a text, worked out once for each text that differs.

Nothing here knows what a text or a vector means.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


def row_of_each(texts: Sequence[str], rows: Callable[[list[str]], Vectors]) -> Vectors:
    """A row a text, from the rows of the texts that differ."""
    place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    if not place:
        return np.empty((0, 0), dtype=np.float32)
    return rows(list(place))[[place[text] for text in texts]]


def rising_batches(
    order: Sequence[int], lengths: Sequence[int], *, budget: int
) -> Iterator[list[int]]:
    """Runs of `order`, whose lengths rise, that hold at most `budget` tokens once padded."""
    batch: list[int] = []
    for index in order:
        if batch and lengths[index] * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(index)
    yield batch


def without_surrogates(text: str) -> str:
    """The text with a question mark for each lone surrogate, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode("utf-8")
