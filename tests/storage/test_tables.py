"""Text and CSV files to text and rows."""

from pathlib import Path

import pytest

from harness.errors import DataError
from harness.storage.tables import TableRow, read_rows, read_text


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "table.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_row_knows_the_line_it_starts_on(tmp_path: Path) -> None:
    path = written(tmp_path, 'word,note\nrain,"two\nlines"\n\nsun,one\n')

    rows = read_rows(path, ["word"])

    assert rows == [
        TableRow(path, 2, {"word": "rain", "note": "two\nlines"}),
        TableRow(path, 5, {"word": "sun", "note": "one"}),
    ]
    assert rows[1].place == f"{path}:5"


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    path = written(tmp_path, b"\xef\xbb\xbfword\r\nrain\r\n")

    assert read_rows(path, ["word"]) == [TableRow(path, 2, {"word": "rain"})]


@pytest.mark.parametrize(
    ("content", "overflow"),
    [
        ("word,,\nrain,wet,\n", ("wet", "")),
        ("word\nrain,wet\n", ("wet",)),
        (",word\n0,rain\n", ("0",)),
        ("word,7,7\nrain,a,b\n", ("b",)),
        ("word,,\nrain\n", ()),
    ],
)
def test_cells_under_no_name_overflow(
    tmp_path: Path, content: str, overflow: tuple[str, ...]
) -> None:
    [row] = read_rows(written(tmp_path, content), ["word"])

    assert (row.cells["word"], row.overflow) == ("rain", overflow)


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("word\n", "no rows"),
        ("wrd,note\nrain,x\n", "no column 'word'; did you mean wrd"),
        ("word,word\nrain,x\n", "named twice: word"),
        ("word,note\nrain,x\nsun\n", ":3: the row ends after 1 cells, before column 'note'"),
        ('word\n"rain\n', "not a CSV file"),
        (b"word\nr\xe9gion\n", "not UTF-8 at byte 6"),
        (b"\xef\xbb\xbfword\nr\xe9gion\n", "not UTF-8 at byte 9"),
    ],
)
def test_a_faulty_file_is_named_with_its_fault(
    tmp_path: Path, content: str | bytes, fact: str
) -> None:
    path = written(tmp_path, content)

    with pytest.raises(DataError) as caught:
        read_rows(path, ["word"])

    assert str(path) in str(caught.value)
    assert fact in str(caught.value)


def test_every_missing_column_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "word\nrain\n")

    with pytest.raises(DataError, match=r"no column 'note', 'tone'"):
        read_rows(path, ["word", "note", "tone"])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.csv: no such file"):
        read_text(tmp_path / "absent.csv")
