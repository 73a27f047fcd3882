"""Rows to batches under a budget of tokens, and batches to smaller ones when memory runs out.

Which rows share a batch must never change an answer; nothing here knows what a row holds.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def windows(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in lists of `size`, taken only as they are needed."""
    source = iter(items)
    while window := list(islice(source, size)):
        yield window


def by_budget(
    rows: Iterable[Item], budget: int, *, shape: Callable[[Item], tuple[int, int]]
) -> Iterator[list[Item]]:
    """Batches of like rows, longest first, none above the budget unless it is a single row.

    `shape` tells a row's tokens to draw and its prompt tokens. Rows of one batch draw equally
    many; a batch costs its number of rows times its longest row, since the rest is padded.
    """
    batch: list[Item] = []
    drawn, cost = 0, 0
    for row in sorted(rows, key=shape, reverse=True):
        if batch and (shape(row)[0] != drawn or (len(batch) + 1) * cost > budget):
            yield batch
            batch = []
        if not batch:
            drawn, cost = shape(row)[0], sum(shape(row))
        batch.append(row)
    if batch:
        yield batch


def halved(
    batch: Sequence[Item],
    run: Callable[[Sequence[Item]], Sequence[Result]],
    *,
    too_big: type[Exception],
) -> Iterator[tuple[Item, Result | None]]:
    """Each row with its result; a batch for which `run` raises `too_big` is halved and run again.

    The result is null for a row that is too big by itself.
    """
    waiting = [batch]
    while waiting:
        part = waiting.pop()
        results = _attempt(part, run, too_big)
        if results is not None:
            yield from zip(part, results, strict=True)
        elif len(part) == 1:
            yield part[0], None
        else:
            waiting += [part[len(part) // 2 :], part[: len(part) // 2]]


def _attempt(
    part: Sequence[Item],
    run: Callable[[Sequence[Item]], Sequence[Result]],
    too_big: type[Exception],
) -> Sequence[Result] | None:
    """What a run returns, null if it is too big; the exception, and what it holds, is let go."""
    try:
        return run(part)
    except too_big:
        return None
