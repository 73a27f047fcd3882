"""People's ratings are read strictly, named by their lines, and written so that they come back."""

from importlib import import_module
from pathlib import Path

import pandas
import pytest
from support.sketches import HOSTILE

from harness.data.ratings import KEY_COLUMNS, RATED, ratings_text, read_rated, read_ratings
from harness.errors import DataError
from harness.storage.files import refuse_swollen

HEAD = "task,sample_id,model,rater,value,scale"
ANSWERS = [("r1", "toy", "s1", "ant"), ("r2", "toy", "s2", "bee")]


def key(marks: str = "") -> pandas.DataFrame:
    """The key of a sheet of two answers."""
    rows = [(*answer, "base", "T0", "base", "9f31", marks) for answer in ANSWERS]
    return pandas.DataFrame(rows, columns=list(KEY_COLUMNS))


def values(found: pandas.DataFrame) -> list[float | None]:
    """The values of ratings, null where one is missing."""
    return [None if pandas.isna(value) else value for value in found["value"]]


def written(folder: Path, *lines: str) -> Path:
    """A file of these lines."""
    path = folder / "ratings.csv"
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_a_blank_value_is_missing_and_no_zero(tmp_path: Path) -> None:
    path = written(
        tmp_path, HEAD, "toy,s1,ant,ann,,q", "toy,s1,ant,bob,0,q", "toy,s1,ant,cy,-1.5,q"
    )

    assert values(read_ratings(path)) == [None, 0.0, -1.5]


@pytest.mark.parametrize("value", ["good", "nan", "inf", "4/5"])
def test_a_value_that_is_no_number_is_named_with_its_line(tmp_path: Path, value: str) -> None:
    path = written(tmp_path, HEAD, "toy,s1,ant,ann,3,q", f'toy,s2,ant,ann,"{value}",q')
    with pytest.raises(DataError, match=rf"ratings.csv:3: rating '{value}' is not a number"):
        read_ratings(path)


def test_a_rating_given_twice_is_an_error_that_names_both_lines(tmp_path: Path) -> None:
    path = written(tmp_path, HEAD, "toy,s1,ant,ann,3,q", "toy,s1,bee,ann,3,q", "toy,s1,ant,ann,4,q")

    with pytest.raises(DataError, match=r"csv:4: rater 'ann' has rated .* at .*csv:2"):
        read_ratings(path)
    for other in (
        *("toy,s2,ant,ann,3,q", "toy,s1,bee,ann,3,q", "toy,s1,ant,bob,3,q", "toy,s1,ant,ann,3,p"),
    ):
        assert len(read_ratings(written(tmp_path, HEAD, "toy,s1,ant,ann,3,q", other))) == 2
    with pytest.raises(DataError, match="no column 'scale'"):
        read_ratings(written(tmp_path, "task,sample_id,model,rater,value", "toy,s1,ant,ann,3"))


@pytest.mark.parametrize(
    ("line", "name"),
    [(",s1,ant,ann,3,q", "task"), ("toy,,ant,ann,3,q", "sample_id"), ("toy,s1,ant, ,3,q", "rater")],
)
def test_a_rating_of_no_task_sample_or_rater_fails(tmp_path: Path, line: str, name: str) -> None:
    with pytest.raises(DataError, match=f"csv:2: no {name}"):
        read_ratings(written(tmp_path, HEAD, line))


@pytest.mark.parametrize("word", ["=1+1", "-x", "@me", "'quoted'", "+49", 'a "b", c', HOSTILE[3]])
def test_what_is_written_is_formula_safe_and_comes_back(tmp_path: Path, word: str) -> None:
    rows: list[tuple[object, ...]] = [("toy", f"{word}1", word, word, 2.5, word, word, "")]
    rows += [("toy", "s", "", "b", None, "", "", "")]
    made = pandas.DataFrame(rows, columns=list(RATED))
    path = written(tmp_path, ratings_text(made))

    assert ratings_text(read_ratings(path)) == ratings_text(made)
    assert read_ratings(path).sample_id.tolist() == [f"{word}1", "s"]
    assert not any(cell.startswith(("=", "@", "+")) for cell in path.read_text("utf-8").split(","))


def test_a_wide_table_gives_a_rating_for_each_column_of_a_rater(tmp_path: Path) -> None:
    path = written(tmp_path, "sample_id,model,ann,bob,scale", "s1,ant,3,4,base", "s2,ant,,5,base")

    found = read_rated(path, task="toy")

    assert [*zip(found.sample_id, found.rater, values(found), strict=True)] == [
        *(("s1", "ann", 3.0), ("s1", "bob", 4.0), ("s2", "ann", None), ("s2", "bob", 5.0))
    ]
    assert {*zip(found.task, found.model, found.scale, strict=True)} == {("toy", "ant", "base")}


def test_columns_of_raters_can_be_chosen_and_named(tmp_path: Path) -> None:
    path = written(tmp_path, "sample_id\tmodel\tnote\tx", "s1\tant, the\tfine\t3")
    found = read_rated(path, task="toy", raters={"x": "ann"})
    assert found[["model", "rater", "value"]].to_numpy().tolist() == [["ant, the", "ann", 3.0]]


@pytest.mark.parametrize(
    ("lines", "is_sheet", "raters", "message"),
    [
        (("row,answer,ann", "r9,yes,4"), True, {}, "'r9' is not in the key"),
        (("sample_id,task,ann", "s1,t,4"), False, {"bo": "bo"}, "no column 'bo'"),
        (("sample_id,task,model", "s1,t,ant"), False, {}, "no column of a rater"),
        (("sample_id,ann", "s1,4"), False, {}, "no task"),
    ],
)
def test_a_table_that_cannot_be_understood_says_what_is_missing(
    tmp_path: Path, lines: tuple[str, ...], is_sheet: bool, raters: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_rated(written(tmp_path, *lines), key() if is_sheet else None, raters=raters)


def test_a_file_that_excel_saved_in_europe_is_read(tmp_path: Path) -> None:
    head = f"\ufeff{HEAD.replace(',', ';')}"
    path = written(tmp_path, head, "toy;s1;ant;ann;4,5;q", "toy;s2;ant;ann;;q", ";;;;;")
    assert values(read_ratings(path)) == [4.5, None]


def test_a_rated_sheet_is_restored_by_its_key(tmp_path: Path) -> None:
    lines = ("\ufeffrow;item;answer;ann", 'r2;"Is it; tea?";yes, it is;4', "r1;rain;no;2,5")

    found = read_rated(written(tmp_path, *lines), key())

    assert found.drop(columns="place").to_numpy().tolist() == [
        ["toy", "s2", "bee", "ann", 4.0, "base", "9f31"],
        ["toy", "s1", "ant", "ann", 2.5, "base", "9f31"],
    ]
    assert ratings_text(found).startswith(f"{HEAD},run\n")


@pytest.mark.parametrize(
    ("head", "line", "rater"),
    [
        ("row,answer,rating", "r1,no,2", "ratings"),
        ("row,answer,rating,rater", "r1,no,2,ann", "ann"),
        ("row,answer,id,rating,annotator,annotation_id,lead_time", "r1,no,7,2,ann,4,8.5", "ann"),
    ],
)
def test_a_column_rating_is_of_who_is_named_or_of_whom_the_file_is_named_for(
    tmp_path: Path, head: str, line: str, rater: str
) -> None:
    found = read_rated(written(tmp_path, head, line), key())
    assert (found.rater.tolist(), values(found)) == ([rater], [2.0])


def test_the_marks_of_a_sheet_are_read_as_their_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, "row,answer,ann", "r1,a,YES", "r2,b,0")
    assert values(read_rated(path, key("yes=1 no=0"))) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("marks", "wrong"),
    [("05", "7"), ("05", "-1"), ("05", "maybe"), ("05", "nan"), ("05", "4.5"), ("01", ".5")],
)
def test_a_rating_off_its_scale_is_named_by_line(tmp_path: Path, marks: str, wrong: str) -> None:
    path = written(tmp_path, "row,answer,ann", "r1,a,0", f"r2,b,{wrong}")

    message = f"csv:3, column 'ann': rating '{wrong}' is none of {', '.join(marks)};"
    with pytest.raises(DataError, match=message):
        read_rated(path, key(" ".join(f"{mark}={mark}" for mark in marks)))


def test_a_sheet_saved_as_xlsx_is_read(tmp_path: Path) -> None:
    openpyxl = import_module("openpyxl")  # of the extra `sheets`, which `dev` has
    book = openpyxl.Workbook()
    sheet = book.active
    for cells in (["row", "answer", "ann"], ["r2", "yes,\nit is", 4.5], [], ["r1", "no", None]):
        sheet.append(cells)
    book.save(tmp_path / "rated.xlsx")

    found = read_rated(tmp_path / "rated.xlsx", key())

    assert (found.sample_id.tolist(), values(found)) == (["s2", "s1"], [4.5, None])
    assert found.place.str.rpartition("/")[2].tolist() == [
        "rated.xlsx:2, column 'ann'",
        "rated.xlsx:4, column 'ann'",
    ]
    book.active["XFD1048576"] = 1
    book.save(tmp_path / "rated.xlsx")
    with pytest.raises(DataError, match=r"rated.xlsx: its sheet spans 17,179,869,184 cells, more"):
        read_rated(tmp_path / "rated.xlsx", key())
    with pytest.raises(DataError, match=r"rated.xlsx: unpacks to .* bytes, more than 9;"):
        refuse_swollen(tmp_path / "rated.xlsx", most=9)
    (tmp_path / "rated.xlsx").write_text("row,answer,ann\n", "utf-8")
    with pytest.raises(DataError, match=r"rated.xlsx: not an XLSX file .*save it again"):
        read_rated(tmp_path / "rated.xlsx", key())
