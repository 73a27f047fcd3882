from random import Random

import pytest
from support.each import each

from harness.models.local.prefix_tree import Pack, PrefixTree, ScoredRow, packs, passes, prefix_tree

FORKED = [ScoredRow((7, 8, 1, 5), 2), ScoredRow((7, 8, 2), 2), ScoredRow((7, 8, 1, 6), 3)]
"""A context 7 8 with the choices 1 5 and 2, and a context 7 8 1 with the choice 6."""


def random_rows(seed: int, count: int) -> list[ScoredRow]:
    """Rows of few different tokens, so that many open alike."""
    random, rows = Random(seed), []
    for _ in range(count):
        tokens = tuple(random.choices(range(3), k=random.randint(2, 14)))
        rows.append(ScoredRow(tokens, random.randint(1, len(tokens) - 1)))
    return rows


MANY = [random_rows(seed, count) for seed, count in [(1, 1), (2, 5), (3, 60), (4, 200)]]


def ancestors(tree: PrefixTree, node: int) -> list[int]:
    """What a node stands behind, and itself."""
    return [above for above in range(node + 1) if node < tree.ends[above]]


def test_what_rows_share_is_there_once() -> None:
    tree = prefix_tree(FORKED)

    assert tree.tokens == (7, 8, 1)
    assert tree.depths == (0, 1, 2)
    assert tree.ends == (3, 3, 3)


def test_each_pair_of_node_and_token_is_read_once_and_a_row_sums_its_own() -> None:
    tree = prefix_tree(FORKED)

    assert tree.reads == ((1, 1), (1, 2), (2, 5), (2, 6))
    assert tree.reads_of == ((0, 2), (1,), (3,))


def test_choices_of_one_token_need_no_node_of_their_own() -> None:
    rows = [ScoredRow((4, 4, 9, choice), 3) for choice in range(5)]

    tree = prefix_tree(rows)

    assert tree.tokens == (4, 4, 9)
    assert tree.reads == tuple((2, choice) for choice in range(5))


@pytest.mark.parametrize("rows", MANY, ids=len)
def test_a_nodes_ancestors_are_the_opening_of_every_row_read_there(rows: list[ScoredRow]) -> None:
    tree = prefix_tree(rows)

    for row, ids in zip(rows, tree.reads_of, strict=True):
        assert [tree.reads[at][1] for at in ids] == list(row.tokens[row.first :])
        for place, at in enumerate(ids, row.first):
            above = ancestors(tree, tree.reads[at][0])
            assert tuple(tree.tokens[node] for node in above) == row.tokens[:place]
            assert [tree.depths[node] for node in above] == list(range(place))


@pytest.mark.parametrize("rows", MANY, ids=len)
def test_there_are_as_many_nodes_as_different_openings(rows: list[ScoredRow]) -> None:
    openings = {row.tokens[:end] for row in rows for end in range(1, len(row.tokens))}

    assert len(prefix_tree(rows).tokens) == len(openings)


@each("cap", [1, 3, 7, 1000])
@each("rows", MANY)
def test_a_node_finds_all_its_ancestors_in_its_pack_and_those_above(
    rows: list[ScoredRow], cap: int
) -> None:
    tree = prefix_tree(rows)
    parts = packs(tree, cap)

    assert sorted(node for p in parts for node in range(p.start, p.stop)) == list(
        range(len(tree.tokens))
    )
    for part in parts:
        above = [node for p in part.above for node in range(parts[p].start, parts[p].stop)]
        for node in range(part.start, part.stop):
            own = [other for other in ancestors(tree, node) if other >= part.start]
            assert above + own == ancestors(tree, node)


@each("cap", [1, 3, 7, 1000])
@each("rows", MANY)
def test_only_an_unbranched_pack_exceeds_the_cap(rows: list[ScoredRow], cap: int) -> None:
    tree = prefix_tree(rows)

    for part in packs(tree, cap):
        is_unbranched = len({tree.ends[node] for node in range(part.start, part.stop)}) == 1
        assert part.size <= cap or is_unbranched


def test_neighbouring_branches_share_a_pack_below_their_stem() -> None:
    rows = [ScoredRow((1, 1, 1, branch, branch, branch, 0), 6) for branch in range(2, 6)]

    parts = packs(prefix_tree(rows), 6)

    assert parts == [
        Pack(0, 3, (), is_above=True),
        Pack(3, 9, (0,), is_above=False),
        Pack(9, 15, (0,), is_above=False),
    ]


@each("most_nodes", [1, 9, 1000])
@each("most_reads", [1, 4, 1000])
@each("rows", MANY)
def test_passes_take_each_pack_once_within_both_budgets_those_above_first(
    rows: list[ScoredRow], most_nodes: int, most_reads: int
) -> None:
    tree = prefix_tree(rows)
    parts = packs(tree, 5)

    batches = list(passes(tree, parts, most_nodes=most_nodes, most_reads=most_reads))

    done = list[int]()
    for batch in batches:
        for place in batch:
            assert set(parts[place].above) <= set(done)
            done.append(place)
        reads = {node for node, _ in tree.reads if any(covers(parts[p], node) for p in batch)}
        assert len(batch) == 1 or sum(parts[place].size for place in batch) <= most_nodes
        assert len(batch) == 1 or len(reads) <= most_reads
    assert sorted(done) == list(range(len(parts)))


def covers(part: Pack, node: int) -> bool:
    return part.start <= node < part.stop


@pytest.mark.parametrize(("tokens", "first"), [((1, 2), 0), ((1, 2), 2), ((1,), 1), ((), 0)])
def test_a_row_has_a_token_before_and_one_after_where_it_is_scored(
    tokens: tuple[int, ...], first: int
) -> None:
    with pytest.raises(ValueError, match="a token before it"):
        ScoredRow(tokens, first)


def test_no_rows_make_an_empty_tree() -> None:
    tree = prefix_tree([])

    assert list(passes(tree, packs(tree, 9), most_nodes=9, most_reads=9)) == []
