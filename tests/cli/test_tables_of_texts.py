"""Tables of texts to tables: a stratified split, and cleaned texts."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.packages import DATA, needs_data
from support.toy import Lines, csv_rows

from harness.cli import main


def write(path: Path, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


@pytest.fixture
def posts(tmp_path: Path) -> Path:
    rows = [(f"=word{n} other{n}", "ab"[n % 2], f"g{n // 2}") for n in range(40)]
    return write(tmp_path / "posts.csv", ("text", "kind", "thread"), rows)


def test_a_table_of_ones_own_is_split_and_its_cells_stay_as_they_are(
    posts: Path, tmp_path: Path, capsys: Lines
) -> None:
    out = tmp_path / "parts"
    options = ("--by", "kind", "--group", "thread", "--shares", "70,15,15", "--seed", "42")

    assert main(["data", "split", str(posts), *options, "-o", str(out)]) == 0

    parts = [csv_rows(out / f"{name}.csv") for name in ("train", "dev", "test")]
    assert [len(part) for part in parts] == [28, 6, 6]
    texts = sorted(row["text"] for part in parts for row in part)
    assert texts == sorted(row["text"] for row in csv_rows(posts))
    threads = [{row["thread"] for row in part} for part in parts]
    assert not threads[0] & threads[1]
    shown = capsys.readouterr().out
    assert "40 rows in 20 units" in shown
    assert "Shared texts" in shown
    assert main(["data", "split", str(posts), *options, "-o", str(out), "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert card["parts"]["train"] == {"rows": 28, "strata": {"a": 14, "b": 14}}


def test_a_chain_of_templated_texts_that_becomes_one_group_is_told_with_a_remedy(
    tmp_path: Path, capsys: Lines
) -> None:
    """Each text of a template shares .6 of its words with the next one, the last few with none."""
    words = [f"word{n}" for n in range(33)]
    filled = [(" ".join(words[n : n + 4]),) for n in range(30)]
    own = [(f"alone{n} single{n}",) for n in range(70)]
    posts = write(tmp_path / "posts.csv", ("text",), [*filled, *own])

    assert main(["data", "split", str(posts), "-o", str(tmp_path / "near")]) == 0

    said = " ".join(capsys.readouterr().err.split())
    assert "one group holds 30 of 100 rows" in said
    assert "--link same" in said
    assert main(["data", "split", str(posts), "--link", "same", "-o", str(tmp_path / "same")]) == 0
    assert "one group holds" not in capsys.readouterr().err


def test_a_large_group_of_a_column_is_reported(tmp_path: Path, capsys: Lines) -> None:
    rows = [("", "ann" if n < 20 else f"writer{n}") for n in range(100)]
    posts = write(tmp_path / "posts.csv", ("text", "writer"), rows)

    options = ("--group", "writer", "-o", str(tmp_path / "parts"))
    assert main(["data", "split", str(posts), *options]) == 0

    said = " ".join(capsys.readouterr().err.split())
    assert "one group holds 20 of 100 rows" in said
    assert "linked by --group" in said


def test_texts_that_are_one_chain_are_refused_with_a_remedy(tmp_path: Path, capsys: Lines) -> None:
    rows = [(f"one two three {word}",) for word in ("four", "five", "six", "seven")]
    posts = write(tmp_path / "posts.csv", ("text",), rows)
    assert main(["data", "split", str(posts), "-o", str(tmp_path / "parts")]) == 2

    said = "(link 'near'); too few to split: give more rows, or link 'same' or 'none'"
    assert said in capsys.readouterr().err


def test_rows_in_two_files_are_counted_without_a_split(tmp_path: Path, capsys: Lines) -> None:
    train = write(tmp_path / "train.csv", ("text",), [("A cat sat.",), ("A dog ran off.",)])
    dev = write(tmp_path / "dev.csv", ("text",), [("a CAT sat",), ("Rain fell all day.",)])
    assert main(["data", "split", str(train), str(dev), "--check", "--json"]) == 1

    [found] = json.loads(capsys.readouterr().out)
    assert (found["part"], found["same_words"], found["near"]) == ("dev.csv", 1, 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--by", "kinds", "-o", "x"), "did you mean kind"),
        (("--group", "threads", "-o", "x"), "did you mean thread"),
        ((), "a folder with -o"),
        (("--link", "all", "-o", "x"), "near, same or none"),
        *(
            (("--shares", text, "-o", "x"), "numbers, such as 70,15,15")
            for text in ("70", "70,x", "70,0,30", "70,-1", "", "inf,1", "nan,1")
        ),
    ],
)
def test_what_cannot_be_split_is_said(
    posts: Path, options: tuple[str, ...], said: str, capsys: Lines
) -> None:
    assert main(["data", "split", str(posts), *options]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
@needs_data
def test_the_released_split_shares_texts_and_ours_none(tmp_path: Path, capsys: Lines) -> None:
    from pyarrow import compute, parquet

    folder = Path(DATA or ".") / "ishate"
    train = parquet.read_table(folder / "ishate_train.parquet.gzip")
    originals = tmp_path / "train.parquet"
    parquet.write_table(train.filter(compute.equal(train["aug_method"], "orig")), originals)
    dev = str(folder / "ishate_dev.parquet.gzip")

    assert main(["data", "split", str(originals), dev, "--check", "--json"]) == 1

    [found] = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["same_words"]) == (4367, 29)
    options = ("--by", "implicit_layer,source", "--seed", "42", "-o", str(tmp_path / "parts"))
    assert main(["data", "split", dev, *options, "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert [part["rows"] for part in card["parts"].values()] == [3057, 655, 655]
    assert [one["near"] for one in card["leaks"]] == [0, 0, 0]


def test_texts_are_cleaned_and_empty_ones_flagged_and_counted(
    tmp_path: Path, capsys: Lines
) -> None:
    rows = [("1", "@you See https://t.co/x, we'll go!"), ("2", "2024"), ("3", ""), ("4", "plain")]
    posts = write(tmp_path / "posts.csv", ("nr", "body"), rows)
    out = tmp_path / "cleaned.csv"

    assert main(["data", "clean", str(posts), "--column", "body", "-o", str(out)]) == 1

    found = csv_rows(out)
    assert [row["cleaned"] for row in found] == ["you see we will go !", "", "", "plain"]
    assert [row["cleaned_note"] for row in found] == ["", "emptied by numbers", "empty", ""]
    shown = capsys.readouterr()
    assert "1 emptied by numbers, 1 empty" in shown.err
    assert [row["body"] for row in found] == [text for _, text in rows]


def test_the_steps_of_cleaning_can_be_chosen(tmp_path: Path, capsys: Lines) -> None:
    posts = write(tmp_path / "posts.csv", ("text",), [("LOUD  #word",)])
    out = tmp_path / "cleaned.jsonl"

    assert main(["data", "clean", str(posts), "--steps", "spaces,lowercase", "-o", str(out)]) == 0

    assert json.loads(out.read_text("utf-8"))["cleaned"] == "loud #word"
    assert main(["data", "clean", str(posts), "--steps", "lower", "-o", str(out)]) == 2
    assert "did you mean lowercase" in capsys.readouterr().err
