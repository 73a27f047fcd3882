"""Tables of scores: the columns scripts rely on, and nothing lost on the way to disk and back."""

import csv
from dataclasses import replace
from math import nextafter, pi
from pathlib import Path

import pytest
from support.each import each

from harness.core import Score
from harness.errors import StoreError
from harness.parts import Reason
from harness.storage.cells import formula_safe
from harness.storage.runs import COLUMNS, ScoreRow, read_table, table_text

SIGNATURE = "toy:9f31c2ab|data:d1f3,all|base|small:scripted@a1|T0.3,n1,s0|near:00|minilm|v0.1.0"


def scored(**changes: object) -> ScoreRow:
    missing = {reason: place for place, reason in enumerate(Reason)}
    score = Score("near", "base", "T0.3", "irony", "accuracy", 0.5, 0.25, 0.75, 4, 3, missing)
    changed = replace(score, **changes)  # type: ignore[arg-type]  # checked where it is built
    return ScoreRow("toy", "small", changed, 0.5, None, SIGNATURE)


def read_back(folder: Path, *rows: ScoreRow) -> list[ScoreRow]:
    path = folder / "scores.csv"
    path.write_bytes(table_text(rows).encode())
    return read_table(path)


def cells(row: ScoreRow) -> dict[str, str]:
    """A row as any program that knows CSV sees it."""
    [found] = csv.DictReader(table_text([row]).splitlines())
    return found


def test_the_columns_are_those_that_scripts_rely_on() -> None:
    assert table_text([]) == (
        "task,model,variant,decoding,group,judge,metric,value,low,high,n,clusters,"
        "missing_failed,missing_refused,missing_filtered,missing_empty,missing_truncated,"
        "missing_unparsed,missing_unsupported,chance,cost_usd,signature\n"
    )


def test_each_value_stands_under_its_name() -> None:
    assert table_text([scored()]).splitlines()[1] == (
        f'toy,small,base,T0.3,irony,near,accuracy,0.5,0.25,0.75,4,3,0,1,2,3,4,5,6,0.5,,"{SIGNATURE}"'
    )


def test_a_missing_number_is_an_empty_cell_and_no_zero(tmp_path: Path) -> None:
    row = replace(scored(value=None, low=None, high=None, n=0, clusters=0), chance=None)

    found = cells(row)

    assert [found[name] for name in ("value", "low", "high", "chance", "cost_usd")] == [""] * 5
    assert (found["n"], found["clusters"]) == ("0", "0")
    assert read_back(tmp_path, row) == [row]


def test_a_reason_that_is_not_named_counts_none() -> None:
    found = cells(scored(missing={Reason.EMPTY: 3}))

    counts = {reason: found[f"missing_{reason}"] for reason in Reason}
    assert counts == {**dict.fromkeys(Reason, "0"), Reason.EMPTY: "3"}


@pytest.mark.parametrize(
    "value", [0.0, 1.0, -1.0, 1 / 3, pi, 0.1 + 0.2, nextafter(0.5, 1), 5e-324, 1e300, -2.5e-8]
)
def test_floats_come_back_to_the_last_bit(tmp_path: Path, value: float) -> None:
    row = replace(scored(value=value, low=value, high=value), chance=value, cost_usd=value)

    assert read_back(tmp_path, row) == [row]
    assert float(cells(row)["value"]) == value


@each("name", ["=1+1", "+1", "-1", "@x", "\tx", "\rx", '=HYPERLINK("x")'])
def test_no_name_is_a_formula(name: str) -> None:
    row = replace(scored(group=name), model=name)

    found = next(csv.DictReader([*table_text([row]).splitlines(keepends=True)]))

    assert (found["model"], found["group"]) == (f"'{name}", f"'{name}")


@each("name", ["=1+1", "-1", "@x", "'quoted", "plain"])
def test_a_group_is_read_by_the_name_that_its_samples_have(tmp_path: Path, name: str) -> None:
    row = scored(group=name)

    assert read_back(tmp_path, row) == [row]
    assert table_text(read_back(tmp_path, row)) == table_text([row])


def test_a_negative_number_stays_a_number() -> None:
    found = cells(scored(value=-0.25, low=-1.0, high=-0.0))

    assert [found[name] for name in ("value", "low", "high")] == ["-0.25", "-1.0", "-0.0"]


@each("name", ["plain", "a=b", "", "'quoted", "a-b", " =x", "1"])
def test_other_names_stay_as_they_are(name: str) -> None:
    assert formula_safe(name) == name


@pytest.mark.parametrize(
    "name",
    ["a,b", 'say "so"', "'", "two\nlines", "two\r\nlines", "a\rb", "é \u2028 \x85", "\x00", " x "],
)
def test_names_come_back_whatever_they_hold(tmp_path: Path, name: str) -> None:
    row = replace(scored(group=name, judge=name), model=name)

    assert read_back(tmp_path, row, scored()) == [row, scored()]


def test_a_table_that_was_read_is_written_in_the_same_bytes(tmp_path: Path) -> None:
    text = table_text([replace(scored(), model="=x"), scored(value=1 / 3), scored(group="a\rb")])
    (tmp_path / "scores.csv").write_bytes(text.encode())

    assert table_text(read_table(tmp_path / "scores.csv")) == text


@pytest.mark.parametrize(
    "damage",
    [
        (",".join(COLUMNS), ",".join(COLUMNS[1:])),
        (",4,3,", ",four,3,"),
        (",0.5,0.25", ",half,0.25"),
        (",0.5,0.25", ",,0.25"),
        ("near,accuracy,0.5,0.25,0.75,4", "near"),
    ],
)
def test_a_damaged_table_is_an_error_naming_the_file(
    tmp_path: Path, damage: tuple[str, str]
) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(table_text([scored()]).replace(*damage), "utf-8")

    with pytest.raises(StoreError, match=r"scores\.csv: not a table of scores .*repeat the run"):
        read_table(path)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", None])
def test_what_is_no_table_at_all_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "scores.csv"
    path.mkdir() if content is None else path.write_bytes(content)

    with pytest.raises(StoreError, match=r"not a (table of scores|plain file)"):
        read_table(path)


def test_a_recipe_is_the_signature_without_the_model() -> None:
    other = replace(scored(), signature=SIGNATURE.replace("small:scripted@a1", "big:vllm@b2"))

    assert scored().recipe == other.recipe
    assert scored().recipe == SIGNATURE.replace("|small:scripted@a1", "")


@each("place", [0, 1, 2, 4, 5, 6, 7])
def test_every_other_field_of_a_signature_is_part_of_the_recipe(place: int) -> None:
    fields = SIGNATURE.split("|")
    fields[place] = "another"

    assert replace(scored(), signature="|".join(fields)).recipe != scored().recipe
