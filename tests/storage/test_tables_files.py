"""Tables come in by column and go out as they came, with columns added; faults are told."""

import csv
import io
import json
from collections.abc import Sequence
from datetime import date

import pandas
import pyarrow
import pytest
from pyarrow import parquet
from support.each import each

from harness.errors import DataError
from harness.storage.tables import FileFormat, Table, column_of, detect_format, extended, read_table

HARD = ['He said "no", twice.', "two\nlines", "two\r\nlines", "שלום \U0001f642", "", "=1+1", "a\0b"]
SCORES = [0.1, None, 1 / 3, 2.0, None, 1e-17, 0.5]
FLAGS = [None, "empty", None, None, "nul", None, "cut"]
NONE = pandas.DataFrame()


def scores(*values: float | None) -> pandas.DataFrame:
    return pandas.DataFrame({"score": values}, dtype="float64")


ADDED = scores(*SCORES).assign(flag=FLAGS)


def csv_of(rows: Sequence[Sequence[str]], mark: str = ",") -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=mark).writerows(rows)
    return out.getvalue().encode()


def parquet_of(**columns: object) -> bytes:
    out = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table(columns), out, compression="gzip")
    found: bytes = out.getvalue().to_pybytes()
    return found


def hard_file(layout: FileFormat) -> bytes:
    """The texts above, with a number beside each."""
    match layout:
        case FileFormat.PARQUET:
            return parquet_of(id=range(len(HARD)), text=HARD)
        case FileFormat.JSONL:
            rows = [{"id": n, "text": text} for n, text in enumerate(HARD)]
            return "".join(f"{json.dumps(row)}\n" for row in rows).encode()
        case FileFormat.TSV:
            return csv_of([("id", "text"), *((str(n), t) for n, t in enumerate(HARD))], "\t")
        case _:
            return csv_of([("id", "text"), *((str(n), t) for n, t in enumerate(HARD))])


def columns(table: Table) -> dict[str, list[object]]:
    return {name: table.cells(place) for place, name in enumerate(table.columns)}


TABLES = [FileFormat.CSV, FileFormat.TSV, FileFormat.JSONL, FileFormat.PARQUET]


@pytest.mark.parametrize("layout", TABLES)
def test_texts_come_in_as_they_are(layout: FileFormat) -> None:
    table = read_table("file", hard_file(layout), layout)
    assert table.columns == ("id", "text")
    assert column_of(table, "text", where="file") == HARD


@each("target", TABLES)
@each("layout", TABLES)
def test_rows_go_out_with_all_columns_in_any_layout(layout: FileFormat, target: FileFormat) -> None:
    table = read_table("file", hard_file(layout), layout)

    again = columns(read_table("out", extended(table, ADDED, target), target))

    is_text = target in (FileFormat.CSV, FileFormat.TSV)
    is_new_there = is_text and layout in (FileFormat.JSONL, FileFormat.PARQUET)
    assert list(again) == ["id", "text", "score", "flag"]
    assert again["text"] == [f"'{t}" if is_new_there and t == "=1+1" else t for t in HARD]
    numbers = [None if cell in ("", None) else float(str(cell)) for cell in again["score"]]
    assert numbers == SCORES
    assert again["flag"] == ([flag or "" for flag in FLAGS] if is_text else FLAGS)


def test_parquet_keeps_its_types() -> None:
    days = pyarrow.array([date(2020, 1, 2), None])
    kinds = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 0]), ["a"])
    data = parquet_of(text=["x", "y"], day=days, kind=kinds)
    table = read_table("file", data, FileFormat.PARQUET)

    out = extended(table, scores(None, None), FileFormat.PARQUET)

    found = parquet.read_table(pyarrow.BufferReader(out))
    assert found.schema.field("day").type == pyarrow.date32()
    assert pyarrow.types.is_dictionary(found.schema.field("kind").type)
    assert found.schema.field("score").type == pyarrow.float64()


def test_lists_are_json_in_csv() -> None:
    data = '{"text": "a", "list": ["\u05e9", 1], "is": true, "none": null, "n": 1.5}'.encode()
    table = read_table("file", data, FileFormat.JSONL)
    out = extended(table, NONE, FileFormat.CSV).decode()

    assert out == 'text,list,is,none,n\na,"[""\u05e9"", 1]",True,,1.5\n'


FORMULAS = ['=HYPERLINK("x")', "+1", "-1", "@x", "1-1", -1, -1.5]
SAFE = ['\'=HYPERLINK("x")', "'+1", "'-1", "'@x", "1-1", "-1", "-1.5"]


@pytest.mark.parametrize("target", [FileFormat.CSV, FileFormat.TSV])
def test_texts_in_csv_are_no_formulas_and_numbers_stay_numbers(target: FileFormat) -> None:
    data = "".join(f"{json.dumps({'text': text, '=a': 1})}\n" for text in FORMULAS).encode()
    out = extended(read_table("file", data, FileFormat.JSONL), NONE, target)

    found = read_table("out", out, target)
    assert (found.cells(0), found.columns) == (SAFE, ("text", "'=a"))


@pytest.mark.parametrize("target", [FileFormat.CSV, FileFormat.TSV])
@pytest.mark.parametrize("layout", [FileFormat.CSV, FileFormat.TSV])
def test_cells_that_come_from_csv_are_not_changed(layout: FileFormat, target: FileFormat) -> None:
    mark = "," if layout is FileFormat.CSV else "\t"
    cells = [str(text) for text in FORMULAS]
    table = read_table("file", csv_of([["=a"], *([cell] for cell in cells)], mark), layout)
    found = read_table("out", extended(table, NONE, target), target)

    assert (found.cells(0), found.columns) == (cells, ("=a",))


def test_numbers_that_json_cannot_say_are_null_there_and_nan_is_empty_in_csv() -> None:
    nested = [[float("nan")], [1.5], None]
    data = parquet_of(n=[float("nan"), float("inf"), 1.5], m=nested)
    table = read_table("file", data, FileFormat.PARQUET)

    lines = extended(table, NONE, FileFormat.JSONL).decode().splitlines()

    assert lines == ['{"n": null, "m": [null]}', '{"n": null, "m": [1.5]}', '{"n": 1.5, "m": null}']
    assert extended(table, NONE, FileFormat.CSV) == b"n,m\n,[null]\ninf,[1.5]\n1.5,\n"


@each(
    ("name", "data", "has_column", "layout"),
    [
        *(("a.csv", b"x", False, FileFormat.CSV), ("a.TSV", b"x", False, FileFormat.TSV)),
        *(("a.ndjson", b"x", False, FileFormat.JSONL), ("a.txt", b"x", True, FileFormat.LINES)),
        ("a.parquet.gzip", b"PAR1", False, FileFormat.PARQUET),
        ("-", b"PAR1", False, FileFormat.PARQUET),
        ("-", b' \n{"a": 1}', False, FileFormat.JSONL),
        ("data.json", b'\xef\xbb\xbf{"a": 1}', False, FileFormat.JSONL),
        ("a.txt", b"[laughs] Hello.", False, FileFormat.LINES),
        ("-", b"a,b", True, FileFormat.CSV),
        ("-", b"a,b", False, FileFormat.LINES),
        ("noending", b"", False, FileFormat.LINES),
    ],
)
def test_a_layout_is_told_by_content_then_name(
    name: str, data: bytes, has_column: bool, layout: FileFormat
) -> None:
    assert detect_format(name, data, has_column=has_column) is layout


@each("name", ["data.json", "noending", "stdin"])
@each("has_column", [True, False])
def test_a_list_of_json_is_not_taken_for_lines_or_csv(name: str, has_column: bool) -> None:
    with pytest.raises(DataError, match=rf"{name}: begins with '\['.*one object a line"):
        detect_format(name, b' [{"text": "a"}]', has_column=has_column)


@each(
    ("data", "layout", "message"),
    [
        (b"", FileFormat.CSV, "file: the file is empty"),
        (b"", FileFormat.LINES, "file: the file is empty"),
        (b"a,b\n", FileFormat.CSV, "no rows below the column names"),
        (b"a,b\n1,2\n1,2,3\n", FileFormat.CSV, "file:3: 3 cells under 2 column names"),
        (b"a,b\n1\n", FileFormat.CSV, "file:2: 1 cells under 2 "),
        (b"a;b\n1,5;2\n", FileFormat.CSV, "file:2: 2 cells under 1 "),
        (b'"a";"b"\n"1";"2"\n', FileFormat.CSV, "file:1: not a CSV file"),
        (b'a\n"b', FileFormat.CSV, "file:2: not a CSV file"),
        (b"a\n\xff\n", FileFormat.CSV, "not UTF-8 at byte 2"),
        ("text\n".encode("utf-16"), FileFormat.CSV, "not UTF-8 at byte 0"),
        (b'{"a": 1}\n{"a"\n', FileFormat.JSONL, "file:2: not JSON"),
        (b"[1]\n", FileFormat.JSONL, "file:1: list, not an object"),
        (b"\n\n", FileFormat.JSONL, "the file is empty"),
        (b"PAR1 and no more", FileFormat.PARQUET, "not a Parquet file"),
        (parquet_of(text=[]), FileFormat.PARQUET, "file: no rows"),
    ],
)
def test_a_damaged_file_is_told_by_its_place(data: bytes, layout: FileFormat, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_table("file", data, layout)


@pytest.mark.parametrize(
    ("data", "layout", "column", "message"),
    [
        (b"words,n\na,1\n", FileFormat.CSV, None, "no column 'text'.*known: n, words"),
        (b"text,n\na,1\n", FileFormat.CSV, "txt", "no column 'txt'; did you mean text"),
        (b"a,a\n1,2\n", FileFormat.CSV, "a", "columns named twice: a; rename one"),
        (b'{"text": 1, "words": "a"}', FileFormat.JSONL, None, "'text' holds no text.*: words$"),
        (b'{"text": null}', FileFormat.JSONL, None, "no text; give a file with texts$"),
        (
            parquet_of(text=pyarrow.array([None, None], "string")),
            FileFormat.PARQUET,
            None,
            "'text' holds no text",
        ),
    ],
)
def test_a_column_that_is_missing_or_twice_or_without_text_is_reported(
    data: bytes, layout: FileFormat, column: str | None, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        column_of(read_table("file", data, layout), column, where="file")


def test_a_column_is_never_written_over() -> None:
    table = read_table("file", b"text,score\na,1\n", FileFormat.CSV)
    with pytest.raises(DataError, match=r"column 'score' already; .*--as"):
        extended(table, scores(1.0), FileFormat.CSV)


@pytest.mark.parametrize(
    ("data", "layout", "message"),
    [
        (b"a,a\n1,2\n", FileFormat.CSV, "columns named twice: a"),
        (b'{"a": 1}\n{"a": "x"}', FileFormat.JSONL, "column 'a' holds what .* cannot"),
        (b'{"a": 99999999999999999999}', FileFormat.JSONL, "column 'a' holds what .* cannot"),
    ],
)
def test_what_parquet_cannot_hold_is_refused(data: bytes, layout: FileFormat, message: str) -> None:
    table = read_table("file", data, layout)
    with pytest.raises(DataError, match=message):
        extended(table, NONE, FileFormat.PARQUET)


def test_long_cells_are_read_and_other_readers_keep_their_limit() -> None:
    before = csv.field_size_limit()
    found = read_table("a.csv", f"text\n{'x' * 200_000}\n".encode(), FileFormat.CSV)

    assert [len(str(cell)) for cell in found.cells(0)] == [200_000]
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (r'"half \ud83d"', "half \ufffd"),
        (r'["\udca9", {"k\ud83d": 1}]', ["\ufffd", {"k\ufffd": 1}]),
        (r'"whole \ud83d\ude42"', "whole \U0001f642"),
        (r'"told of: \\ud83d"', r"told of: \ud83d"),
    ],
)
def test_half_a_character_in_json_is_replaced(value: str, read: object) -> None:
    table = read_table("file", f'{{"text": {value}}}'.encode(), FileFormat.JSONL)
    assert table.cells(0) == [read]


def test_bytes_of_parquet_that_are_no_utf8_are_replaced() -> None:
    ends = pyarrow.array([0, 5, 5], pyarrow.int32()).buffers()[1]
    parts = [pyarrow.py_buffer(b"\x01"), ends, pyarrow.py_buffer(b"hi\xed\xa0\xbd")]
    column = pyarrow.Array.from_buffers(pyarrow.string(), 2, parts)
    [text, none] = read_table("file", parquet_of(text=column), FileFormat.PARQUET).cells(0)

    assert (text, none) == ("hi\ufffd\ufffd\ufffd", None)
