"""Tables of graded sentences become items by the columns they have; faults are reported by row."""

import json

import pytest
from support.each import each

from harness.errors import DataError
from harness.implicitness.pairs import Item, Items, read_items
from harness.storage.tables import FileFormat, read_table


def items(*rows: dict[str, object]) -> Items:
    data = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    return read_items(read_table("file", data, FileFormat.JSONL), where="file")


def csv_items(text: str) -> Items:
    return read_items(read_table("file", text.encode(), FileFormat.CSV), where="file")


def test_lists_of_levels_and_choices_are_items() -> None:
    found = items({"topic": "rain", "levels": ["a", "b", "c"]}, {"levels": ["d", "e"]})
    assert found.rankings == (
        Item("rain", ("a", "b", "c"), (0.0, 1.0, 2.0)),
        Item("row 2", ("d", "e"), (0.0, 1.0)),
    )

    found = items({"sentence": "a", "choices": ["b", "c", "d"], "answer": 2})
    assert found == Items(choices=(Item("row 1", ("a", "b", "c", "d"), answer=2),))


def test_a_row_has_an_item_of_each_kind_whose_columns_it_fills() -> None:
    found = items(
        {"topic": "rain", "implicit": "a", "explicit": "b", "levels": None},
        {"topic": "sun", "implicit": "c", "explicit": "d", "levels": ["e", "f"]},
    )

    assert found.pairs == (Item("rain", ("a", "b")), Item("sun", ("c", "d")))
    assert found.rankings == (Item("sun", ("e", "f"), (0.0, 1.0)),)


def test_sentences_a_row_become_a_ranking_a_topic() -> None:
    found = csv_items("topic,level,text\nrain,2,b\nsun,1,c\nrain,0.5,a\nsun,3,d\nrain,2,e\n")

    assert found.rankings == (
        Item("rain", ("b", "a", "e"), (2.0, 0.5, 2.0)),
        Item("sun", ("c", "d"), (1.0, 3.0)),
    )


def test_blank_cells_are_absent_and_a_level_needs_a_topic() -> None:
    found = csv_items(
        "topic,implicit,explicit,level,text,levels\n,a,b,,,\n ,c,d, ,,\nrain,e,,1,f,\nrain,,,2,g,\n"
    )
    assert found.pairs == (Item("row 1", ("a", "b")), Item("row 2", ("c", "d")))
    assert found.rankings == (Item("rain", ("f", "g"), (1.0, 2.0)),)

    with pytest.raises(DataError, match="file: row 2: a level without a topic"):
        csv_items("topic,level,text\nrain,1,a\n,1,b\n,2,c\n")


def test_a_number_names_a_topic_however_it_is_written() -> None:
    found = items(
        {"topic": 17, "level": 1, "text": "a"},
        {"topic": 17.0, "level": 2, "text": "b"},
        {"topic": 17, "implicit": "c", "explicit": "d"},
    )

    assert [one.topic for one in found.all] == ["17", "17"]


@each(
    ("row", "message"),
    [
        ({"levels": "a"}, "row 1: levels is 'a', no list of two"),
        ({"levels": ["a"]}, "row 1: levels is .*no list of two"),
        ({"sentence": "a", "choices": ["b", "c"]}, "answer None is no place among 2"),
        ({"sentence": "a", "choices": ["b", "c"], "answer": 2}, "answer 2 is no place"),
        ({"sentence": "a", "choices": ["b", "c"], "answer": True}, "answer True is no place"),
        ({"topic": "t", "level": 1, "text": "a"}, "topic 't' has one level alone"),
        ({"topic": "t", "level": "high", "text": "a"}, "level 'high' is not a number"),
        ({"topic": "t", "level": [1], "text": "a"}, r"level \[1\] is not a number"),
        ({"topic": "t", "level": "nan", "text": "a"}, "level 'nan' is not a number"),
        ({"words": "a"}, r"nothing to evaluate on .*words; there must be levels \(a list"),
        ({"implicit": "a"}, "nothing to evaluate on"),
    ],
)
def test_what_is_no_item_is_reported(row: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=f"file: .*{message}"):
        items(row)


def test_the_authors_layout_is_pairs_with_their_negatives() -> None:
    columns = ("pos_implicit", "pos_explicit", "neg_implicit", "neg_explicit")
    text = ",".join(columns) + "\nBrr.,Shut it.,Brr.,I am late.\n"
    table = read_table("released.csv", text.encode(), FileFormat.CSV)
    (pair,) = read_items(table, where="released.csv").pairs

    assert pair.sentences == ("Brr.", "Shut it.", "Brr.", "I am late.")
