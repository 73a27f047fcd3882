"""Training pairs to parts that share no sentence, and negatives drawn within each part.

A random split of augmented data tests on what it trained on. Here sentences with nearly the same
words are linked, and pairs that share a group or a linked sentence; these stay in one part.
"""

from collections.abc import Iterator, Mapping, Sequence
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

    The other pair has another meaning and, if there is one, the same source. The draw depends on
    the seed, the pair and its source, not on their order.
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
    fact = f"{pair.implicit!r} finds no pair of another meaning"
    raise DataError(f"{fact}; give more pairs, or negatives")


def _has_same_meaning(pair: TrainingPair, other: TrainingPair) -> bool:
    if pair.meaning is not None and pair.meaning == other.meaning:
        return pair.source == other.source
    theirs = {normal(text) for text in (other.implicit, other.explicit)}
    return not theirs.isdisjoint({normal(pair.implicit), normal(pair.explicit)})


@dataclass(frozen=True, slots=True)
class Split:
    """Pairs to train on, to choose the epoch by, and to test on; the last two may be empty.

    `groups` counts the linked groups, `redrawn` given negatives that lay in another part.
    """

    train: tuple[TrainingPair, ...]
    validation: tuple[TrainingPair, ...]
    test: tuple[TrainingPair, ...]
    groups: int
    redrawn: int


def links_of(pairs: Sequence[TrainingPair]) -> dict[str, str]:
    """Of each sentence, by its normal form, the one that represents all that it is linked to.

    Linked are the sentences of a pair, of a group, and nearly equal sentences.
    """
    texts, groups, links = dict[str, None](), dict[str, str](), list[tuple[str, str]]()
    for pair in pairs:
        own = [normal(text) for text in pair.own]
        texts.update(dict.fromkeys((*own, *map(normal, pair.negative or ()))))
        links += [(own[0], other) for other in own[1:]]
        if pair.group is not None:
            links.append((own[0], groups.setdefault(pair.group, own[0])))
    return linked(sorted(texts), [*links, *near_duplicates([*texts])])


def split(
    pairs: Sequence[TrainingPair], *, seed: int, shares: tuple[int, int, int] = SHARES
) -> Split:
    """Split the pairs by their groups, and give each a negative of its part."""
    links = links_of(pairs)
    return _split(deal(pairs, links, seed=seed, shares=shares), links, seed=seed)


def folds(
    pairs: Sequence[TrainingPair], *, seed: int, count: int, shares: tuple[int, int]
) -> Iterator[Split]:
    """Split the pairs as many times as there are folds: each fold is tested on once.

    The other folds are dealt, by `shares`, into training and the choice of the epoch.
    """
    links = links_of(pairs)
    parts = deal(pairs, links, seed=seed, shares=(1,) * count)
    for held, test in enumerate(parts):
        rest = [pair for place, part in enumerate(parts) if place != held for pair in part]
        yield _split([*deal(rest, links, seed=seed, shares=shares), test], links, seed=seed)


def deal(
    pairs: Sequence[TrainingPair], links: Mapping[str, str], *, seed: int, shares: Sequence[int]
) -> list[list[TrainingPair]]:
    """Deal the pairs into parts, in the order of the pairs; linked pairs lie in one part.

    Groups are dealt in a seeded order, the large first, each to the part furthest below its share.
    A part that has a share and gets nothing is an error.
    """
    members: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs):
        members.setdefault(links[normal(pair.implicit)], []).append(place)
    order = sorted(members)
    Random(seed).shuffle(order)  # noqa: S311 - no secret
    parts: list[list[int]] = [[] for _ in shares]
    wanted = [share / sum(shares) * len(pairs) for share in shares]
    for root in sorted(order, key=lambda root: -len(members[root])):
        short = [share - len(part) for share, part in zip(wanted, parts, strict=True)]
        parts[short.index(max(short))] += members[root]
    if any(share and not part for share, part in zip(shares, parts, strict=True)):
        groups = "group" if len(members) == 1 else "groups"
        raise DataError(
            f"{len(pairs)} pairs in {len(members)} {groups} cannot be split "
            f"{':'.join(map(str, shares))}: give more, or less alike, pairs"
        )
    return [[pairs[place] for place in sorted(part)] for part in parts]


def _split(
    parts: Sequence[Sequence[TrainingPair]], links: Mapping[str, str], *, seed: int
) -> Split:
    """Three parts, each with negatives from its own pairs; a sentence is in that of its pair."""
    owners = {links[normal(p.implicit)]: place for place, part in enumerate(parts) for p in part}
    groups, redrawn, found = len(owners), 0, list[tuple[TrainingPair, ...]]()
    for place, part in enumerate(parts):
        for text in (text for pair in part for text in pair.negative or ()):
            owners.setdefault(links[normal(text)], place)  # of its first pair
    for place, part in enumerate(parts):
        kept = []
        for pair in part:
            is_own = all(owners[links[normal(text)]] == place for text in pair.negative or ())
            redrawn += not is_own
            kept.append(pair if is_own else replace(pair, negative=None))
        found.append(tuple(with_negatives(kept, seed)))
    train, validation, test = found
    return Split(train, validation, test, groups, redrawn)
