"""Nothing that is linked is parted: not by group, not by sentence, not by a few words."""

from itertools import combinations

import pytest
from support.training_pairs import invented

from harness.errors import DataError
from harness.implicitness.pairs import TrainingPair
from harness.implicitness.splits import Split, folds, split
from harness.text.dedup import LIKENESS, normal


def jaccard(one: str, other: str) -> float:
    first, second = set(one.split()), set(other.split())
    return len(first & second) / len(first | second)


def parts_of(found: Split) -> tuple[tuple[TrainingPair, ...], ...]:
    return found.train, found.validation, found.test


def augmented(count: int = 60) -> list[TrainingPair]:
    """Originals of twelve words of their own, each with two rewordings by one word, no groups."""
    pairs = []
    for n in range(count):
        own = [f"{side}{n}x{place}" for side in "ie" for place in range(12)]
        for swap in ("very", "rather", "quite"):
            implicit, explicit = " ".join([*own[:12], swap]), " ".join([*own[12:], swap])
            pairs.append(TrainingPair(implicit=implicit, explicit=explicit))
    return pairs


def test_no_group_straddles() -> None:
    found = split(invented(), seed=0)
    groups = [{pair.group for pair in part} for part in parts_of(found)]
    assert not any(one & other for one, other in combinations(groups, 2))


@pytest.mark.parametrize("seed", range(3))
def test_no_near_duplicate_straddles(seed: int) -> None:
    found = split(augmented(), seed=seed)

    sides = [[normal(t) for p in part for t in p.sentences] for part in parts_of(found)]
    assert all(sides)
    assert found.groups == 60
    for one, other in combinations(sides, 2):
        assert max(jaccard(a, b) for a in one for b in other) < LIKENESS


def test_the_seed_decides_the_parts() -> None:
    first, again, other = (split(augmented(), seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert {pair.own for pair in first.test} != {pair.own for pair in other.test}


def test_levels_link_as_sides_do() -> None:
    graded = TrainingPair(implicit="a b c", explicit="d e f", levels=("g h i", "j k l"))
    again = TrainingPair(implicit="m n o", explicit="j, k... L!")
    assert split([graded, again, *augmented()], seed=0).groups == 61


def test_shares_are_kept_as_far_as_groups_allow() -> None:
    found = split(augmented(100), seed=3)
    assert [len(part) for part in parts_of(found)] == [240, 30, 30]


def test_a_given_negative_from_another_part_is_drawn_again() -> None:
    pairs = augmented()
    given = [
        TrainingPair(implicit=p.implicit, explicit=p.explicit, negative=(q.implicit, q.explicit))
        for p, q in zip(pairs, pairs[30:] + pairs[:30], strict=True)
    ]

    found = split(given, seed=0)

    own = [{normal(t) for p in part for t in (p.implicit, p.explicit)} for part in parts_of(found)]
    assert found.redrawn > 0
    for part, known in zip(parts_of(found), own, strict=True):
        assert all(normal(text) in known for pair in part for text in pair.negative or ())


def test_what_is_all_alike_cannot_be_split() -> None:
    pairs = [TrainingPair(implicit=f"a b c {n}", explicit=f"d e f {n}") for n in range(9)]
    with pytest.raises(DataError, match="9 pairs in 1 group cannot be split 8:1:1"):
        split(pairs, seed=0)


def test_folds_test_on_each_pair_once() -> None:
    pairs = invented()

    found = list(folds(pairs, seed=0, count=4, shares=(9, 1)))

    tested = [pair.implicit for parts in found for pair in parts.test]
    assert sorted(tested) == sorted(pair.implicit for pair in pairs)
    for parts in found:
        groups = [{pair.group for pair in part} for part in parts_of(parts)]
        assert not any(one & other for one, other in combinations(groups, 2))
