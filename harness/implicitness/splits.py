"""Training pairs to parts that share no sentence, and negatives drawn within each part.

A random split of augmented data tests on what it trained on: nearly half of the pairs that the
metric's authors used are rewordings of one another. Here sentences with nearly the same words are
linked, and pairs that share a group or a linked sentence; linked pairs stay in one part. Nothing
here encodes or trains.
"""

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from random import Random
from typing import Final

from harness.errors import DataError
from harness.implicitness.pairs import TrainingPair
from harness.parts import digest
from harness.text.dedup import linked, near_duplicates, normal

SHARES: Final = (8, 1, 1)


def with_negatives(pairs: Sequence[TrainingPair], seed: int) -> list[TrainingPair]:
    """Give each pair without a negative one: its implicit sentence, another's explicit one.

    The other pair has the same source and another meaning; a source with one meaning only draws
    from all. The draw depends on the seed, the pair and its source, not on their order.
    """
    members: dict[str | None, dict[str, TrainingPair]] = {}
    for pair in sorted(pairs, key=lambda pair: (pair.explicit, pair.implicit)):
        members.setdefault(pair.source, {})[pair.explicit] = pair
    everyone = [pair for source in members.values() for pair in source.values()]
    near = {source: list(found.values()) for source, found in members.items()}
    return [
        pair
        if pair.negative
        else replace(
            pair, negative=(pair.implicit, _drawn(pair, near[pair.source], everyone, seed))
        )
        for pair in pairs
    ]


def data_digest(pairs: Sequence[TrainingPair]) -> str:
    """Digest the content of the pairs and their order."""
    return digest([astuple(pair) for pair in pairs])


def _drawn(
    pair: TrainingPair, near: list[TrainingPair], everyone: list[TrainingPair], seed: int
) -> str:
    draw = Random(f"{seed}:{pair.implicit}:{pair.explicit}")  # noqa: S311 - no secret
    for among in (near, everyone):
        for other in draw.sample(among, min(len(among), 16)):
            if not _has_same_meaning(pair, other):
                return other.explicit
    raise DataError(
        f"{pair.implicit!r} finds no pair of another meaning; give more pairs, or negatives"
    )


def _has_same_meaning(pair: TrainingPair, other: TrainingPair) -> bool:
    if pair.meaning is not None and pair.meaning == other.meaning:
        return pair.source == other.source
    theirs = {normal(text) for text in (other.implicit, other.explicit)}
    return not theirs.isdisjoint({normal(pair.implicit), normal(pair.explicit)})


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
    """Sentences, by their normal form, that must stay in one part."""

    def __init__(self, pairs: Sequence[TrainingPair]) -> None:
        """Link the sentences of a pair, of a group, and nearly equal sentences."""
        texts, groups, links = dict[str, None](), dict[str, str](), list[tuple[str, str]]()
        for pair in pairs:
            own = [normal(text) for text in pair.own]
            texts.update(dict.fromkeys((*own, *map(normal, pair.negative or ()))))
            links += [(own[0], other) for other in own[1:]]
            if pair.group is not None:
                links.append((own[0], groups.setdefault(pair.group, own[0])))
        self._first = linked(sorted(texts), [*links, *near_duplicates([*texts])])

    def of_text(self, text: str) -> str:
        """The sentence that represents all that a sentence is linked to."""
        return self._first[normal(text)]

    def of(self, pair: TrainingPair) -> str:
        """The sentence that represents all that a pair is linked to."""
        return self.of_text(pair.implicit)


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
        short = [
            share / sum(shares) * len(pairs) - len(part)
            for share, part in zip(shares, parts, strict=True)
        ]
        parts[short.index(max(short))] += members[root]
    if any(share and not part for share, part in zip(shares, parts, strict=True)):
        groups = "group" if len(members) == 1 else "groups"
        raise DataError(
            f"{len(pairs)} pairs in {len(members)} {groups} cannot be split "
            f"{':'.join(map(str, shares))}: give more, or less alike, pairs"
        )
    return [[pairs[place] for place in sorted(part)] for part in parts]


def _split(parts: Sequence[Sequence[TrainingPair]], links: Links, *, seed: int) -> Split:
    """Three parts, each with negatives from its own pairs; an owner is a sentence's part."""
    # The part of a negative is that of its first pair.
    owners = {links.of(pair): place for place, part in enumerate(parts) for pair in part}
    for place, part in enumerate(parts):
        for text in (text for pair in part for text in pair.negative or ()):
            owners.setdefault(links.of_text(text), place)
    kept = [
        [
            pair
            if all(owners[links.of_text(text)] == place for text in pair.negative or ())
            else replace(pair, negative=None)
            for pair in part
        ]
        for place, part in enumerate(parts)
    ]
    redrawn = sum(
        old.negative is not None and new.negative is None
        for part, again in zip(parts, kept, strict=True)
        for old, new in zip(part, again, strict=True)
    )
    train, validation, test = (tuple(with_negatives(part, seed)) for part in kept)
    groups = len({links.of(pair) for part in parts for pair in part})
    return Split(train, validation, test, groups, redrawn)
