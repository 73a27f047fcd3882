"""Rows of tokens to their prefix tree, in packs small enough to attend within.

Rows that open alike share the nodes of what they have in common, so that a node stands for a
token behind all that precedes it, and each is computed once. Pure: knows no model.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class ScoredRow:
    """Token ids of context and choice; those from place `first` on are scored."""

    tokens: tuple[int, ...]
    first: int

    def __post_init__(self) -> None:
        if not 1 <= self.first < len(self.tokens):
            raise ValueError(
                f"a row is scored from its place {self.first} of {len(self.tokens)} on: there must "
                "be a token before it, to be conditioned on, and one to score"
            )

    @property
    def fed(self) -> int:
        """How many of its tokens a model is given: all but the last, which nothing follows."""
        return len(self.tokens) - 1


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """Nodes in depth-first order: what follows a node stands before its `ends`, and only that.

    `reads` are the distinct pairs of a node and a token whose log-probability behind it is
    wanted, ordered by node; `reads_of` names, for each row, those that it sums.
    """

    tokens: tuple[int, ...]
    depths: tuple[int, ...]
    ends: tuple[int, ...]
    reads: tuple[tuple[int, int], ...]
    reads_of: tuple[tuple[int, ...], ...]

    def read_within(self, start: int, stop: int) -> range:
        """The places in `reads` of what is read at nodes from `start` to before `stop`."""
        return range(bisect_left(self.reads, (start,)), bisect_left(self.reads, (stop,)))


@dataclass(frozen=True, slots=True)
class Pack:
    """Nodes from `start` to before `stop`; they attend to one another and to the packs `above`.

    Packs above hold what all its nodes stand behind, in order. A pack `is_above` others if
    some attend to it.
    """

    start: int
    stop: int
    above: tuple[int, ...]
    is_above: bool

    @property
    def size(self) -> int:
        """How many nodes it has."""
        return self.stop - self.start


def prefix_tree(rows: Sequence[ScoredRow]) -> PrefixTree:
    """The tree of the rows' tokens but the last of each, which nothing stands behind."""
    tokens, depths, ends = list[int](), list[int](), list[int]()
    wanted = dict[int, list[tuple[int, int]]]()
    path, before = list[int](), tuple[int, ...]()
    for place in sorted(range(len(rows)), key=lambda place: rows[place].tokens):
        row, first = rows[place].tokens, rows[place].first
        shared = _common(before, row[:-1])
        for node in path[shared:]:
            ends[node] = len(tokens)
        fresh = range(len(tokens), len(tokens) + len(row) - 1 - shared)
        path[shared:] = fresh
        tokens += row[shared:-1]
        depths += range(shared, len(row) - 1)
        ends += fresh
        wanted[place] = list(zip(path[first - 1 :], row[first:], strict=True))
        before = row[:-1]
    for node in path:
        ends[node] = len(tokens)
    reads = sorted({pair for pairs in wanted.values() for pair in pairs})
    number = {pair: at for at, pair in enumerate(reads)}
    reads_of = (tuple(number[pair] for pair in wanted[place]) for place in range(len(rows)))
    return PrefixTree(tuple(tokens), tuple(depths), tuple(ends), tuple(reads), tuple(reads_of))


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two rows open with alike."""
    for place, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return place
    return min(len(left), len(right))


def packs(tree: PrefixTree, cap: int) -> list[Pack]:
    """The tree cut into packs; those of more than `cap` nodes are unbranched.

    A branch that fits is never cut. Of one that does not, the stem up to its first fork becomes
    a pack of its own, which those of what follows attend to.
    """
    found = list[Pack]()
    waiting: list[tuple[int, int, tuple[int, ...]]] = [(0, len(tree.ends), ())]
    while waiting:
        start, stop, above = waiting.pop()
        for first, last in _gathered(tree, start, stop, cap):
            fork = _fork(tree, first) if last - first > cap else last
            found.append(Pack(first, fork, above, is_above=fork < last))
            if fork < last:
                waiting.append((fork, last, (*above, len(found) - 1)))
    return found


def _gathered(tree: PrefixTree, start: int, stop: int, cap: int) -> Iterator[tuple[int, int]]:
    """Neighbouring branches put together up to `cap` nodes; a larger one stays by itself."""
    first = node = start
    while node < stop:
        end = tree.ends[node]
        if end - first > cap and first < node:
            yield first, node
            first = node
        node = end
    if first < stop:
        yield first, stop


def _fork(tree: PrefixTree, node: int) -> int:
    """The first node behind the stem that begins at a node: its branches begin there."""
    end = tree.ends[node]
    while node + 1 < end and tree.ends[node + 1] == end:
        node += 1
    return node + 1


def passes(
    tree: PrefixTree, parts: Sequence[Pack], *, most_nodes: int, most_reads: int
) -> Iterator[list[int]]:
    """Which packs to compute together, in depth-first order: those above are there already.

    None holds more nodes, or reads tokens at more of them, than told, unless it is one pack.
    """
    batch, nodes, reads = list[int](), 0, 0
    for place in sorted(range(len(parts)), key=lambda place: parts[place].start):
        size, read = parts[place].size, _read_nodes(tree, parts[place])
        if batch and (nodes + size > most_nodes or reads + read > most_reads):
            yield batch
            batch, nodes, reads = [], 0, 0
        batch.append(place)
        nodes, reads = nodes + size, reads + read
    if batch:
        yield batch


def _read_nodes(tree: PrefixTree, part: Pack) -> int:
    return len({tree.reads[at][0] for at in tree.read_within(part.start, part.stop)})
