"""Tables in four formats give the same columns; what is wrong with one is told by its place."""

import csv
import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from support.each import each

from harness.errors import DataError
from harness.storage.cells import cell_text
from harness.storage.tables import (
    TableRow,
    is_table,
    read_columns,
    read_file,
    read_rows,
    read_spreadsheet,
)

ROWS: list[dict[str, str | None]] = [
    {"text": 'He said "no", twice.', "label": "1", "note": None},
    {"text": "two\nlines", "label": "0", "note": "x"},
    {"text": "\u05e9\u05dc\u05d5\u05dd \U0001f642", "label": "0", "note": None},
]


def table(folder: Path, name: str) -> Path:
    """The rows above in the format that a name tells."""
    path = folder / name
    if "parquet" in name.lower():
        parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    elif name.endswith("jsonl"):
        path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS), "utf-8")
    else:
        mark = "\t" if name.endswith("tsv") else ","
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(ROWS[0]), delimiter=mark)
            writer.writeheader()
            writer.writerows(ROWS)
    return path


def said(folder: Path, text: str, optional: list[str]) -> list[TableRow]:
    (folder / "a.csv").write_bytes(text.encode())
    return read_columns(folder / "a.csv", ["text"], optional=optional)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet", "A.Parquet.gzip"])
def test_every_format_gives_the_same_columns(tmp_path: Path, name: str) -> None:
    found = read_columns(table(tmp_path, name), ["text", "note"])

    wanted = [{key: row[key] for key in ("text", "note")} for row in ROWS]
    assert [row.cells for row in found] == wanted
    assert is_table(tmp_path / name)


@pytest.mark.parametrize(("name", "line"), [("a.csv", 5), ("a.jsonl", 3), ("a.parquet", 3)])
def test_a_row_is_placed_where_it_begins(tmp_path: Path, name: str, line: int) -> None:
    found = read_columns(table(tmp_path, name), ["text"])
    # In the CSV file names have a line, and the second row has two.
    assert found[2].place == f"{tmp_path / name}:{line}"


def test_an_optional_column_may_be_absent(tmp_path: Path) -> None:
    found = said(tmp_path, "text,a\nx,y\n", ["a", "b"])
    assert [row.cells for row in found] == [{"text": "x", "a": "y"}]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_a_missing_column_is_told_with_the_nearest_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"no column 'texts'; did you mean text\?.*column map"):
        read_columns(table(tmp_path, name), ["texts"])


def test_a_column_named_twice_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="named twice"):
        said(tmp_path, "text,text\nx,y\n", [])


def test_an_unknown_ending_is_told_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.xlsx: its name ends in none of \.parquet.*\.csv"):
        read_columns(tmp_path / "a.xlsx", ["text"])


def test_marks_that_quote_nothing_can_be_read_as_they_stand(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('text\tlabel\n"so it is\t1\nhe said "no\t0\n')
    found = read_file(tmp_path / "a.tsv", quotes="none")
    assert found.cells(0) == ['"so it is', 'he said "no']


@each(
    ("value", "text"),
    [(None, ""), (1.0, "1"), (1.5, "1.5"), (2, "2"), (" x ", "x"), (True, "True")],
)
def test_a_cell_as_text(value: object, text: str) -> None:
    assert cell_text(value) == text


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
        *(("word,,\nrain,wet,\n", ("wet", "")), ("word\nrain,wet\n", ("wet",))),
        *((",word\n0,rain\n", ("0",)), ("word,7,7\nrain,a,b\n", ("b",)), ("word,,\nrain\n", ())),
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
def test_a_faulty_file_has_its_fault_told(tmp_path: Path, content: str | bytes, fact: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(DataError) as caught:
        read_rows(path, ["word"])

    assert str(path) in str(caught.value)
    assert fact in str(caught.value)


def test_a_sheet_that_excel_saved_is_read_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path, "row;Antwort\n1;sch\u00f6n \u2013 ja\n".encode("cp1252"))

    [row] = read_spreadsheet(path, ["row"])

    assert row.cells["Antwort"] == "sch\u00f6n \u2013 ja"
    assert "not UTF-8 at byte 17; read as Windows-1252" in caplog.text
    with pytest.raises(DataError, match="not UTF-8"):
        read_spreadsheet(written(tmp_path, "row\n1\n".encode("utf-16")), ["row"])
