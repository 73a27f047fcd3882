"""Where choices begin among the tokens of context and choice: one rule for every back end.

Context and choice are tokenised together. The choices of a request are scored from the first
token that ends beyond the context in any of them, or from the first in which they differ, should
that come earlier: each is then given the very same tokens. Characters of the context from there
on, held by a token that reaches across the boundary, count as part of every choice. Pure; knows
no tokenizer.
"""

from collections.abc import Hashable, Sequence

Offsets = Sequence[tuple[int, int]]
"""First character of each token in the text and the one after its last; (n, n) for markers."""


def choice_starts(
    offsets: Sequence[Offsets],
    boundary: int,
    *,
    tokens: Sequence[Sequence[Hashable]] | None = None,
) -> tuple[tuple[int, ...], int]:
    """For each choice the first token that is scored, and how many context characters are too.

    `offsets` are those of context and choice together, one entry a choice, and `tokens` their
    ids or texts, which distinguish tokens of equal offsets; `boundary` is the length of the
    context in characters. The first scored place is equal for all choices. A choice that has
    no token is an error.
    """
    tiled = [covers_text(part) for part in offsets]
    first = min(_shared(rows) for rows in (tiled, tokens) if rows is not None)
    start = boundary
    while True:
        first = min(first, *(_first_beyond(part, start) for part in tiled))
        earliest = min(part[first][0] for part in tiled)
        if earliest >= start:
            return (first,) * len(tiled), boundary - start
        start = earliest


def covers_text(offsets: Offsets) -> list[tuple[int, int]]:
    """Offsets that leave nothing out: a space that a tokenizer drops belongs to the next token."""
    found, end = list[tuple[int, int]](), 0
    for first, last in offsets:
        found.append((min(first, end), last))
        end = max(end, last)
    return found


def _shared(rows: Sequence[Sequence[Hashable]]) -> int:
    """How many entries all rows open with."""
    for place, entries in enumerate(zip(*rows, strict=False)):
        if len(set(entries)) > 1:
            return place
    return min(map(len, rows))


def _first_beyond(offsets: Offsets, start: int) -> int:
    for place, (_, end) in enumerate(offsets):
        if end > start:
            return place
    raise ValueError(f"no token ends beyond character {start}: a choice must not be empty")
