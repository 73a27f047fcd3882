"""Tables of pairs are read as they are, and negatives come from where they may."""

import re

import pytest
from support.each import each
from support.training_pairs import invented, table

from harness.errors import DataError
from harness.implicitness.pairs import TrainingPair, read_pairs
from harness.implicitness.splits import with_negatives
from harness.storage.tables import FileFormat, read_table

RELEASED = (
    "pos_implicit,pos_explicit,neg_implicit,neg_explicit,source\n"
    '"Nice of you, really.",You are late.,"Nice of you, really.",The soup is cold.,office\n'
)


def test_both_layouts_are_read_as_they_are() -> None:
    found = read_pairs(read_table("all.csv", RELEASED.encode(), FileFormat.CSV), where="all.csv")
    assert found == [
        TrainingPair(
            implicit="Nice of you, really.",
            explicit="You are late.",
            source="office",
            negative=("Nice of you, really.", "The soup is cold."),
        )
    ]

    row = {"topic": "tea", "intention": "warn", "implicit": "Blow first.", "explicit": "It is hot."}
    (ours,) = read_pairs(table(row | {"levels": ["a", "b", "c"]}), where="x")
    assert (ours.source, ours.group, ours.meaning) == ("tea", "tea", "warn")
    assert ours.levels == ("a", "b", "c")


SAMPLE: dict[str, object] = {
    "id": "s1",
    "group": "office",
    "cluster": "",
    "fields": {"sentence": "Nice of you to come at noon."},
    "references": {"explicit": ["You are late."]},
}


def test_the_sample_format_is_read_as_it_is_built() -> None:
    (found,) = read_pairs(table(SAMPLE), where="x")

    assert found == TrainingPair(
        implicit="Nice of you to come at noon.",
        explicit="You are late.",
        source="office",
        group="s1",
    )


@each(
    ("changes", "expected"),
    [
        ({"cluster": "c"}, ("office", "c", None)),
        (
            {"fields": {"sentence": "Nice.", "topic": "tea", "intention": "warn"}},
            ("tea", "tea", "warn"),
        ),
    ],
)
def test_a_samples_cluster_or_topic_is_never_divided(
    changes: dict[str, object], expected: tuple[str, str, str | None]
) -> None:
    (found,) = read_pairs(table(SAMPLE | changes), where="x")
    assert (found.source, found.group, found.meaning) == expected


def test_a_sample_without_its_counterpart_is_reported() -> None:
    with pytest.raises(DataError, match="x: row 2: explicit is None; give a sentence"):
        read_pairs(table(SAMPLE, SAMPLE | {"references": {}}), where="x")


@each(
    ("row", "error"),
    [
        ({"text": "a"}, "there must be implicit and explicit"),
        (
            SAMPLE | {"references": {"gold": ["a"]}},
            "or fields with a sentence and references with an explicit one",
        ),
        (
            {"implicit": "a", "explicit": "b", "topic": ["t"]},
            "topic is ['t']; give a text or a num",
        ),
        ({"implicit": "a", "explicit": None}, "row 1: explicit is None"),
        ({"implicit": "a", "explicit": "  "}, "row 1: explicit is None"),
        ({"implicit": "a", "explicit": 3}, "row 1: explicit is 3; give a sentence"),
        ({"implicit": "a\0", "explicit": "b"}, "row 1: implicit is"),
        ({"implicit": "a", "explicit": "b", "levels": ["c"]}, "no list of two sentences"),
        ({"implicit": "a", "explicit": "b", "levels": ["c", 4]}, "levels is 4"),
    ],
)
def test_a_row_that_is_no_pair_is_reported(row: dict[str, object], error: str) -> None:
    with pytest.raises(DataError, match=re.escape(error)):
        read_pairs(table(row), where="x")


def test_blank_cells_of_csv_are_absent_ones() -> None:
    data = b"implicit,explicit,levels,topic,intention,source\na,b,, ,,\n"
    found = read_pairs(read_table("a.csv", data, FileFormat.CSV), where="a.csv")
    assert found == [TrainingPair(implicit="a", explicit="b")]


@pytest.mark.parametrize(
    ("column", "field"),
    [("group", "group"), ("source", "source"), ("intention", "meaning"), ("topic", "group")],
)
def test_numbers_name_groups_and_the_like(column: str, field: str) -> None:
    row: dict[str, object] = {"implicit": "a", "explicit": "b"}
    found = read_pairs(table(*(row | {column: n} for n in (17, 17.0, 17.5, None))), where="x")
    assert [getattr(pair, field) for pair in found] == ["17", "17", "17.5", None]


def test_a_negative_is_of_the_same_source_and_of_another_meaning() -> None:
    pairs = invented()
    of = {pair.explicit: pair for pair in pairs}

    for pair in with_negatives(pairs, 0):
        assert pair.negative is not None
        other = of[pair.negative[1]]
        assert pair.negative[0] == pair.implicit
        assert (other.source, other.meaning != pair.meaning) == (pair.source, True)


def test_negatives_depend_on_the_seed_and_not_on_the_order() -> None:
    pairs = invented(each=8)
    drawn = with_negatives(pairs, 0)

    assert with_negatives(pairs[::-1], 0) == drawn[::-1]
    assert with_negatives(pairs, 1) != drawn


def test_negatives_come_from_where_they_may() -> None:
    alone = TrainingPair(implicit="It is late.", explicit="Go home.", source="lonely", meaning="go")
    (found, *_) = with_negatives([alone, *invented(2)], 0)
    assert found.negative is not None
    assert found.negative[1] in {pair.explicit for pair in invented(2)}

    pairs = [
        TrainingPair(implicit=side, explicit=f"{side}!", source="s", meaning="m") for side in "ab"
    ]
    with pytest.raises(DataError, match="no pair of another meaning"):
        with_negatives(pairs, 0)


def test_a_pair_has_its_plain_sentence_where_there_is_one() -> None:
    row: dict[str, object] = {"topic": "tea", "implicit": "Blow first.", "explicit": "It is hot."}
    rows = row | {"plain": "Tea is a plant."}, row | {"plain": None}
    full, blank = read_pairs(table(*rows), where="x")

    assert (full.plain, blank.plain) == ("Tea is a plant.", None)
    assert "Tea is a plant." in full.sentences
