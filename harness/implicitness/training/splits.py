"""Training pairs to parts that share no group and no sentence, not even a nearly equal one.

A random split of augmented data tests on what it trained on: nearly half of the pairs that the
metric's authors used are rewordings of one another. Here sentences with nearly the same words are
linked, and pairs that share a group or a linked sentence; linked pairs stay in one part. Pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from harness.errors import DataError
from harness.implicitness.pairs import TrainingPair, with_negatives
from harness.text.dedup import near_duplicates, normal

SHARES: Final = (8, 1, 1)


@dataclass(frozen=True, slots=True)
class Split:
    """Pairs to train on, to choose the epoch by, and to test on; the last two may be empty.

    `redrawn` counts given negatives that lay in another part than their pair and were replaced by
    drawn ones; `groups` counts the linked groups, which are never divided.
    """

    train: tuple[TrainingPair, ...]
    validation: tuple[TrainingPair, ...]
    test: tuple[TrainingPair, ...]
    groups: int
    redrawn: int


class Links:
    """Sentences, by their normal form, that must stay in one part (union-find)."""

    def __init__(self, pairs: Sequence[TrainingPair]) -> None:
        """Link the sentences of a pair, of a group, and nearly equal sentences."""
        self._above: dict[str, str] = {}
        groups: dict[str, str] = {}
        for pair in pairs:
            first, *others = (normal(text) for text in (*_own(pair), *(pair.negative or ())))
            for other in others[: len(_own(pair)) - 1]:
                self._join(first, other)
            for other in others[len(_own(pair)) - 1 :]:
                self.root(other)  # known, and linked to nothing by standing beside the pair
            if pair.group is not None:
                self._join(first, groups.setdefault(pair.group, first))
        for one, other in near_duplicates([*self._above]):
            self._join(one, other)

    def root(self, text: str) -> str:
        """The sentence that represents all that a normal form is linked to."""
        above = self._above
        above.setdefault(text, text)
        while above[text] != text:
            above[text] = above[above[text]]
            text = above[text]
        return text

    def of(self, pair: TrainingPair) -> str:
        """The sentence that represents all that a pair is linked to."""
        return self.root(normal(pair.implicit))

    def _join(self, one: str, other: str) -> None:
        first, second = sorted((self.root(one), self.root(other)))
        self._above[second] = first  # the first in order, so that no order of pairs shows


def split(
    pairs: Sequence[TrainingPair], *, seed: int, shares: tuple[int, int, int] = SHARES
) -> Split:
    """Split the pairs by their groups, and give each a negative of its part."""
    links = Links(pairs)
    return _split(deal(pairs, links, seed=seed, shares=shares), links, seed=seed)


def folds(
    pairs: Sequence[TrainingPair], *, seed: int, count: int, shares: tuple[int, int]
) -> Iterator[Split]:
    """Split the pairs as many times as there are folds: each fold is tested on once.

    The other folds are dealt, by `shares`, into training and the choice of the epoch.
    """
    links = Links(pairs)
    parts = deal(pairs, links, seed=seed, shares=(1,) * count)
    for held, test in enumerate(parts):
        rest = [pair for place, part in enumerate(parts) if place != held for pair in part]
        yield _split([*deal(rest, links, seed=seed, shares=shares), test], links, seed=seed)


def deal(
    pairs: Sequence[TrainingPair], links: Links, *, seed: int, shares: Sequence[int]
) -> list[list[TrainingPair]]:
    """Deal the pairs into parts, in the order of the pairs; linked pairs lie in one part.

    Groups are dealt in a seeded order, the large first, each to the part furthest below its share.
    A part that has a share and gets nothing is an error.
    """
    members: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs):
        members.setdefault(links.of(pair), []).append(place)
    order = sorted(members)
    Random(seed).shuffle(order)  # noqa: S311 - no secret
    parts: list[list[int]] = [[] for _ in shares]
    for root in sorted(order, key=lambda root: -len(members[root])):
        lacks = [
            share / sum(shares) * len(pairs) - len(part)
            for share, part in zip(shares, parts, strict=True)
        ]
        parts[lacks.index(max(lacks))] += members[root]
    if any(share and not part for share, part in zip(shares, parts, strict=True)):
        raise DataError(
            f"{len(pairs)} pairs in {len(members)} groups cannot be split "
            f"{':'.join(map(str, shares))}: give more, or less alike, pairs"
        )
    return [[pairs[place] for place in sorted(part)] for part in parts]


def _split(parts: Sequence[Sequence[TrainingPair]], links: Links, *, seed: int) -> Split:
    """Three parts, each with negatives from its own pairs."""
    owners = _owners(parts, links)
    kept = [_kept(part, links, place, owners) for place, part in enumerate(parts)]
    redrawn = sum(
        old.negative is not None and new.negative is None
        for part, again in zip(parts, kept, strict=True)
        for old, new in zip(part, again, strict=True)
    )
    train, validation, test = (tuple(with_negatives(part, seed)) for part in kept)
    groups = len({links.of(pair) for part in parts for pair in part})
    return Split(train, validation, test, groups, redrawn)


def _own(pair: TrainingPair) -> tuple[str, ...]:
    return (pair.implicit, pair.explicit, *pair.levels)


def _owners(parts: Sequence[Sequence[TrainingPair]], links: Links) -> dict[str, int]:
    """The part of each linked set of sentences; a negative's is its first pair's."""
    owners = {links.of(pair): place for place, part in enumerate(parts) for pair in part}
    for place, part in enumerate(parts):
        for pair in part:
            for text in pair.negative or ():
                owners.setdefault(links.root(normal(text)), place)
    return owners


def _kept(
    part: Sequence[TrainingPair], links: Links, place: int, owners: dict[str, int]
) -> list[TrainingPair]:
    return [
        pair
        if all(owners[links.root(normal(text))] == place for text in pair.negative or ())
        else replace(pair, negative=None)
        for pair in part
    ]
