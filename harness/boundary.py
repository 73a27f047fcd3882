"""Where choices begin among the tokens of context and choice: one rule for every back end.

Context and choice are tokenised together, and a choice begins with the first token that ends
beyond the context. Where that token also holds characters of the context, the boundary moves
back to where it begins, for all choices of the request: each is then scored given the same
text, and the characters in between count as part of every choice. Pure; knows no tokenizer.
"""

from collections.abc import Sequence

Offsets = Sequence[tuple[int, int]]
"""First character of each token in the text and the one after its last; (n, n) for markers."""


def choice_starts(offsets: Sequence[Offsets], boundary: int) -> tuple[tuple[int, ...], int]:
    """For each choice the first token that is scored, and how many context characters are too.

    `offsets` are those of context and choice together, one entry a choice; `boundary` is the
    length of the context in characters. A choice that has no token is an error.
    """
    tiled = [tiles(part) for part in offsets]
    start = boundary
    while True:
        firsts = tuple(_first_beyond(part, start) for part in tiled)
        earliest = min(part[first][0] for part, first in zip(tiled, firsts, strict=True))
        if earliest >= start:
            return firsts, boundary - start
        start = earliest


def tiles(offsets: Offsets) -> list[tuple[int, int]]:
    """Offsets that leave nothing out: a space that a tokenizer trims off belongs to its token."""
    found, end = list[tuple[int, int]](), 0
    for first, last in offsets:
        found.append((min(first, end), last))
        end = max(end, last)
    return found


def _first_beyond(offsets: Offsets, start: int) -> int:
    for place, (_, end) in enumerate(offsets):
        if end > start:
            return place
    raise ValueError(f"no token ends beyond character {start}: a choice must not be empty")
