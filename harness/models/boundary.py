"""Where choices begin among the tokens of context and choice: one rule for every back end.

The choices of a request are scored from the first token that ends beyond the context in any of
them, or from the first token in which they differ, if that comes earlier (docs/choices.md).
"""

from collections.abc import Hashable, Sequence

# First character of each token in the text and the one after its last; (n, n) for markers.
Offsets = Sequence[tuple[int, int]]


def choice_starts(
    offsets: Sequence[Offsets], boundary: int, *, tokens: Sequence[Sequence[Hashable]] | None = None
) -> tuple[tuple[int, ...], int]:
    """For each choice the index of its first scored token; how many context characters it covers.

    `offsets` has the offsets of context and choice together, one entry a choice; `tokens`, if
    given, the tokens' ids or texts, which are compared like their offsets. `boundary` is the
    length of the context in characters. The first scored index is equal for all choices.
    ValueError for a choice without a token.
    """
    rows = [covers_text(row) for row in offsets]
    first = min(_shared(entries) for entries in (rows, tokens) if entries is not None)
    start = boundary
    while True:
        first = min(first, *(_first_beyond(row, start) for row in rows))
        earliest = min(row[first][0] for row in rows)
        if earliest >= start:
            return (first,) * len(rows), boundary - start
        start = earliest


def covers_text(offsets: Offsets) -> list[tuple[int, int]]:
    """Offsets without gaps: a space that a tokenizer drops belongs to the next token."""
    covering, end = list[tuple[int, int]](), 0
    for first, last in offsets:
        covering.append((min(first, end), last))
        end = max(end, last)
    return covering


def _shared(rows: Sequence[Sequence[Hashable]]) -> int:
    """How many entries all rows share at their start."""
    for index, entries in enumerate(zip(*rows, strict=False)):
        if len(set(entries)) > 1:
            return index
    return min(map(len, rows))


def _first_beyond(offsets: Offsets, start: int) -> int:
    for index, (_, end) in enumerate(offsets):
        if end > start:
            return index
    raise ValueError(f"no token ends beyond character {start}: a choice must not be empty")
