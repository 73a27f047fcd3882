"""People's ratings are read strictly, named by their lines, and written so that they come back."""

from importlib import import_module
from pathlib import Path

import pytest
from support.sketches import HOSTILE

from harness.data.ratings import (
    Conversion,
    Rating,
    SheetKey,
    Target,
    from_wide,
    ratings_text,
    read_ratings,
)
from harness.errors import DataError

HEAD = "task,sample_id,model,rater,value,scale"
KEY = SheetKey(
    {"r1": (Target("toy", "s1", "ant", "base"),), "r2": (Target("toy", "s2", "bee", "base"),)}
)


def written(folder: Path, *lines: str) -> Path:
    """A file of these lines."""
    path = folder / "ratings.csv"
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_a_blank_value_is_missing_and_no_zero(tmp_path: Path) -> None:
    path = written(
        tmp_path, HEAD, "toy,s1,ant,ann,,q", "toy,s1,ant,bob,0,q", "toy,s1,ant,cy,-1.5,q"
    )

    assert [rating.value for rating in read_ratings(path)] == [None, 0.0, -1.5]


@pytest.mark.parametrize("value", ["good", "nan", "inf", "1,5", "4/5"])
def test_a_value_that_is_no_number_is_named_with_its_line(tmp_path: Path, value: str) -> None:
    path = written(tmp_path, HEAD, "toy,s1,ant,ann,3,q", f'toy,s2,ant,ann,"{value}",q')

    with pytest.raises(DataError, match=rf"ratings.csv:3: rating '{value}' is not a number"):
        read_ratings(path)


def test_a_rating_given_twice_is_an_error_that_names_both_lines(tmp_path: Path) -> None:
    path = written(tmp_path, HEAD, "toy,s1,ant,ann,3,q", "toy,s1,bee,ann,3,q", "toy,s1,ant,ann,4,q")

    with pytest.raises(DataError, match=r"csv:4: rater 'ann' has rated .* at .*csv:2"):
        read_ratings(path)


@pytest.mark.parametrize(
    "other",
    ["toy,s2,ant,ann,3,q", "toy,s1,bee,ann,3,q", "toy,s1,ant,bob,3,q", "toy,s1,ant,ann,3,p"],
)
def test_what_differs_in_sample_model_rater_or_scale_is_no_repeat(
    tmp_path: Path, other: str
) -> None:
    assert len(read_ratings(written(tmp_path, HEAD, "toy,s1,ant,ann,3,q", other))) == 2


@pytest.mark.parametrize(
    ("line", "name"),
    [(",s1,ant,ann,3,q", "task"), ("toy,,ant,ann,3,q", "sample_id"), ("toy,s1,ant, ,3,q", "rater")],
)
def test_a_rating_without_task_sample_or_rater_is_refused(
    tmp_path: Path, line: str, name: str
) -> None:
    with pytest.raises(DataError, match=f"csv:2: no {name}"):
        read_ratings(written(tmp_path, HEAD, line))


def test_a_file_without_a_column_names_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column 'scale'"):
        read_ratings(written(tmp_path, "task,sample_id,model,rater,value", "toy,s1,ant,ann,3"))


@pytest.mark.parametrize("word", ["=1+1", "-x", "@me", "'quoted'", "+49", 'a "b", c', HOSTILE[3]])
def test_what_is_written_is_formula_safe_and_comes_back(tmp_path: Path, word: str) -> None:
    made = [Rating("toy", f"{word}1", word, word, 2.5, word), Rating("toy", "s", "", "b", None, "")]
    path = written(tmp_path, ratings_text(made))

    assert read_ratings(path) == made
    assert not any(cell.startswith(("=", "@", "+")) for cell in path.read_text("utf-8").split(","))


def test_a_wide_table_gives_a_rating_for_each_column_of_a_rater(tmp_path: Path) -> None:
    path = written(tmp_path, "sample_id,model,ann,bob", "s1,ant,3,4", "s2,ant,,5")

    found = from_wide(path, Conversion(task="toy", scale="base"))

    assert [(r.sample_id, r.rater, r.value) for r in found] == [
        ("s1", "ann", 3.0),
        ("s1", "bob", 4.0),
        ("s2", "ann", None),
        ("s2", "bob", 5.0),
    ]
    assert {(r.task, r.model, r.scale) for r in found} == {("toy", "ant", "base")}


def test_columns_of_raters_can_be_chosen_and_named(tmp_path: Path) -> None:
    path = written(tmp_path, "sample_id,model,note,x", "s1,ant,fine,3")

    [found] = from_wide(path, Conversion(task="toy", raters={"x": "ann"}))

    assert (found.rater, found.value) == ("ann", 3.0)


def test_words_count_as_the_numbers_they_are_said_to_mean(tmp_path: Path) -> None:
    path = written(tmp_path, "sample_id,ann", "s1,yes", "s2,no")

    found = from_wide(path, Conversion(task="toy", words={"yes": 1.0, "no": 0.0}))

    assert [rating.value for rating in found] == [1.0, 0.0]


def test_a_rated_sheet_is_restored_by_its_key(tmp_path: Path) -> None:
    path = written(tmp_path, "row,topic,answer,ann", "r2,tea,yes,4", "r1,rain,no,2")

    found = from_wide(path, Conversion(key=KEY))

    assert found == [
        Rating("toy", "s2", "bee", "ann", 4.0, "base"),
        Rating("toy", "s1", "ant", "ann", 2.0, "base"),
    ]


@pytest.mark.parametrize(
    ("lines", "how", "message"),
    [
        (("row,answer,ann", "r9,yes,4"), Conversion(key=KEY), "'r9' is not in the key"),
        (("sample_id,ann", "s1,4"), Conversion(raters={"bo": "bo"}), "no column 'bo'"),
        (("sample_id,model", "s1,ant"), Conversion(task="toy"), "no column of a rater"),
        (("sample_id,ann", "s1,4"), Conversion(), "no task"),
    ],
)
def test_a_table_that_cannot_be_understood_says_what_is_missing(
    tmp_path: Path, lines: tuple[str, ...], how: Conversion, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        from_wide(written(tmp_path, *lines), how)


def test_a_file_that_excel_saved_in_europe_is_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        f"\ufeff{HEAD.replace(',', ';')}",
        "toy;s1;ant;ann;4,5;q",
        "toy;s2;ant;ann;;q",
        ";;;;;",
    )

    assert [(r.sample_id, r.value) for r in read_ratings(path)] == [("s1", 4.5), ("s2", None)]


def test_a_rated_sheet_with_semicolons_is_restored_by_its_key(tmp_path: Path) -> None:
    lines = ("\ufeffrow;item;answer;ann", 'r2;"Is it; tea?";yes, it is;4', "r1;rain;no;2,5")
    path = written(tmp_path, *lines)

    found = from_wide(path, Conversion(key=KEY))

    assert [(r.sample_id, r.rater, r.value) for r in found] == [
        ("s2", "ann", 4.0),
        ("s1", "ann", 2.5),
    ]


def test_a_table_with_tabs_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, "sample_id\tmodel\tann", "s1\tant, the\t3")

    [found] = from_wide(path, Conversion(task="toy"))

    assert (found.model, found.value) == ("ant, the", 3.0)


def test_a_column_still_called_rating_is_of_the_rater_whom_the_file_is_named_for(
    tmp_path: Path,
) -> None:
    (tmp_path / "bob.csv").write_text("row,answer,rating\nr1,no,2\n", "utf-8")

    [found] = from_wide(tmp_path / "bob.csv", Conversion(key=KEY))

    assert (found.rater, found.value) == ("bob", 2.0)


def test_a_column_rater_names_who_rated_each_row(tmp_path: Path) -> None:
    path = written(tmp_path, "row,answer,rating,rater", "r1,no,2,ann", "r1,no,3,bob")

    found = from_wide(path, Conversion(key=KEY))

    assert [(r.rater, r.value) for r in found] == [("ann", 2.0), ("bob", 3.0)]


def test_the_marks_of_a_sheet_are_read_as_their_numbers(tmp_path: Path) -> None:
    key = SheetKey(KEY.targets, {"yes": 1.0, "no": 0.0})
    path = written(tmp_path, "row,answer,ann", "r1,a,YES", "r2,b,0")

    assert [r.value for r in from_wide(path, Conversion(key=key))] == [1.0, 0.0]


@pytest.mark.parametrize("wrong", ["7", "-1", "maybe", "nan"])
def test_a_rating_off_the_scale_of_the_sheet_is_named_with_its_line(
    tmp_path: Path, wrong: str
) -> None:
    key = SheetKey(KEY.targets, {"0": 0.0, "5": 5.0})
    path = written(tmp_path, "row,answer,ann", "r1,a,5", f"r2,b,{wrong}")

    with pytest.raises(DataError, match=f"csv:3, column 'ann': rating '{wrong}' is none of 0, 5"):
        from_wide(path, Conversion(key=key))


def test_a_sheet_saved_as_xlsx_is_read(tmp_path: Path) -> None:
    openpyxl = import_module("openpyxl")  # of the extra `sheets`, which `dev` has
    book = openpyxl.Workbook()
    sheet = book.active
    for cells in (["row", "answer", "ann"], ["r2", "yes,\nit is", 4.5], [], ["r1", "no", None]):
        sheet.append(cells)
    book.save(tmp_path / "rated.xlsx")

    found = from_wide(tmp_path / "rated.xlsx", Conversion(key=KEY))

    assert [(r.sample_id, r.value, r.place.rpartition("/")[2]) for r in found] == [
        ("s2", 4.5, "rated.xlsx:2, column 'ann'"),
        ("s1", None, "rated.xlsx:4, column 'ann'"),
    ]


def test_what_only_is_called_xlsx_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rated.xlsx").write_text("row,answer,ann\n", "utf-8")

    with pytest.raises(DataError, match=r"rated.xlsx: not an XLSX file .*save it again"):
        from_wide(tmp_path / "rated.xlsx", Conversion(key=KEY))


@pytest.mark.parametrize(("marks", "value"), [("012345", "4.5"), ("01", ".5"), ("135", "2")])
def test_a_mark_that_the_sheet_does_not_have_is_refused_with_those_it_has(
    tmp_path: Path, marks: str, value: str
) -> None:
    path = written(tmp_path, "row,answer,ann", "r1,x,1", f"r2,y,{value}")
    how = Conversion(key=SheetKey(KEY.targets, {mark: float(mark) for mark in marks}))

    with pytest.raises(DataError, match=rf"ratings.csv:3.* is none of {', '.join(marks)};"):
        from_wide(path, how)
