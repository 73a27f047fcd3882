"""Rates and errors from the command line, on a table of the user's own."""

import csv
import json
import re
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.toy import MY_TEXTS, Lines, Toy, csv_rows

import harness as ph
from harness.cli import main

COLUMNS = ("nr", "body", "verdict", "aimed_at", "source", "note, with comma")


@pytest.fixture
def mine(toy: Toy) -> tuple[Toy, Path]:
    """A table of texts, of which two have the same words, and its column map."""
    toy.write("configs/tables/mine.yaml", MY_TEXTS)
    path = toy.folder / "mine.csv"
    rows = [
        [str(n), f"Text number {n}.", str(n % 2), "abc"[n % 3], "xy"[n // 12], f'=note "{n}"']
        for n in range(24)
    ]
    rows.append(["24", "TEXT number 3", "1", "a", "x", "again"])
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    options = ("--data", str(path), "--map", "mine", "--scorer", "none")
    assert toy.main("run", "--task", "hate_speech", "--model", "constant-no", *options) == 0
    return toy, path


def command(toy: Toy, *words: str) -> int:
    [run] = toy.runs()
    first = 2 if words[0] == "export" else 1
    where = ("--results", str(toy.results), "--home", str(toy.home))
    return main([*words[:first], str(run), *words[first:], *where])


def test_rates_are_shown_and_written_by_kept_columns_and_by_those_of_the_data(
    mine: tuple[Toy, Path], capsys: Lines
) -> None:
    toy, _ = mine
    capsys.readouterr()

    assert command(toy, "rates", "--by", "target,source", "--all") == 0

    out = capsys.readouterr().out
    assert "constant-no by target" in out
    assert "constant-no by source" in out
    head = out.split("gaps by target\n")[1].splitlines()[0]
    assert re.split("  +", head) == ["rate", "groups", "gap", "95% interval", "p", "Holm"]
    assert command(toy, "rates", "--by", "target,source") == 0
    short = capsys.readouterr().out
    assert "gaps by" not in short
    assert re.search(r"\n\d+ more gaps have no Holm-corrected p below 0.1 \(--all\)\n", short)
    [table] = [p for p in (toy.results / "rates").glob("*.csv") if "gaps" not in p.name]
    rows = csv_rows(table)
    assert {(r["column"], r["group"]) for r in rows} == {
        ("", "all"),
        *(("target", name) for name in "abc"),
        *(("source", name) for name in "xy"),
    }
    [row] = [r for r in rows if (r["group"], r["rate"]) == ("y", "fpr")]
    assert (row["value"], row["n"]) == ("0.0", "6")


def test_data_that_was_changed_or_moved_is_asked_for(mine: tuple[Toy, Path], capsys: Lines) -> None:
    toy, path = mine
    path.rename(elsewhere := path.with_name("elsewhere.csv"))

    assert command(toy, "rates", "--by", "source") == 2
    said = capsys.readouterr().err
    assert "is not at hand" in said
    assert str(path) in said
    assert "--data FILE (in Python data=FILE)" in said
    assert "`keep: {NAME: COLUMN}`" in said
    elsewhere.rename(path)
    path.write_text(path.read_text("utf-8").replace("Text number 5", "Text number five"), "utf-8")
    assert command(toy, "rates", "--by", "source", "--data", str(path)) == 2
    assert "the data of this run" in capsys.readouterr().err


def again(toy: Toy, path: Path, capsys: Lines) -> bool:
    """Whether the run of a table is told again: it then shows no progress."""
    options = ("--data", str(path), "--map", "mine", "--scorer", "none")
    capsys.readouterr()
    assert toy.main("run", "--task", "hate_speech", "--model", "constant-no", *options) == 0
    return "answers of constant-no" not in capsys.readouterr().err


def test_moved_data_is_found_where_the_repeat_had_it(mine: tuple[Toy, Path], capsys: Lines) -> None:
    toy, path = mine
    (toy.folder / "moved").mkdir()
    path.rename(moved := toy.folder / "moved/mine.csv")

    assert again(toy, moved, capsys)

    assert command(toy, "rates", "--by", "source") == 0
    assert "constant-no by source" in capsys.readouterr().out


def test_errors_come_out_with_all_columns_of_my_file_and_what_was_said(
    mine: tuple[Toy, Path], tmp_path: Path, capsys: Lines
) -> None:
    toy, path = mine
    out = tmp_path / "missed.csv"
    words = ("export", "errors", "--kind", "missed", "-o", str(out))

    assert command(toy, *words) == 0

    rows, mine_ = csv_rows(out), csv_rows(path)
    assert [{name: row[name] for name in COLUMNS} for row in rows] == mine_[1:24:2]
    assert {(r["harness_error"], r["harness_verdict"], r["harness_answer"]) for r in rows} == {
        ("missed", "not flagged", "no")
    }
    assert rows[0]["harness_row"] == "mine.csv:3"
    assert "wrote 12 missed among 24 answers" in capsys.readouterr().out


def test_errors_are_written_as_json_by_a_threshold(mine: tuple[Toy, Path], tmp_path: Path) -> None:
    toy, path = mine
    out = tmp_path / "errors.jsonl"
    words = ("export", "errors", "--threshold", "0", "--data", str(path), "-o", str(out))

    assert command(toy, *words) == 0

    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert {row["harness_error"] for row in rows} == {"false-alarm"}
    assert [row["nr"] for row in rows] == [str(n) for n in range(0, 24, 2)]
    assert all(isinstance(row["harness_score"], float) for row in rows)


def test_no_error_of_a_kind_is_said_and_nothing_is_written(
    mine: tuple[Toy, Path], tmp_path: Path, capsys: Lines
) -> None:
    toy, path = mine
    words = ("export", "errors", "--kind", "false-alarm", "-o", str(tmp_path / "none.csv"))
    assert command(toy, *words, "--data", str(path)) == 0

    assert "no false-alarm among 24 answers; nothing written" in capsys.readouterr().out
    assert not (tmp_path / "none.csv").exists()


@pytest.mark.parametrize(
    ("out", "fact"), [("mine.csv", "is the file that is read"), ("errors.doc", "end its name in")]
)
def test_an_output_that_cannot_be_meant_is_refused(
    mine: tuple[Toy, Path], out: str, fact: str, capsys: Lines
) -> None:
    toy, path = mine
    before = path.read_bytes()
    words = ("export", "errors", "--data", str(path), "-o", str(path.with_name(out)))

    assert command(toy, *words) == 2

    assert fact in capsys.readouterr().err
    assert path.read_bytes() == before


def test_options_that_need_one_another_are_told(mine: tuple[Toy, Path], capsys: Lines) -> None:
    toy, path = mine

    assert command(toy, "rates", "--score", "implicitness") == 2
    assert "--score: give --threshold or --fpr with it" in capsys.readouterr().err
    assert command(toy, "rates", "--fpr", "0.1", "--threshold", "0.5") == 2
    assert "give one of the two" in capsys.readouterr().err

    more = ("--data", str(path), "--map", "mine", "--scorer", "none", "--variant", "base,bare")
    assert toy.main("run", "--task", "hate_speech", "--model", "constant-no", *more) == 0
    runs = map(str, toy.runs())
    assert main(["rates", *runs, "--results", str(toy.results), "--home", str(toy.home)]) == 2
    assert "several runs have answers of one recipe" in capsys.readouterr().err


def test_why_nothing_is_flagged_is_told_there_alone(mine: tuple[Toy, Path], capsys: Lines) -> None:
    toy, _ = mine  # the control gives every text the same probability

    assert command(toy, "rates", "--fpr", "0.1") == 0
    out = capsys.readouterr().out
    assert "chosen on 6 benign texts of 6 originals (half of this run, by seed 0)" in out
    assert "no text is flagged: none scores so high" in out
    assert command(toy, "rates", "--threshold", "2") == 0
    assert "no text is flagged: none scores so high" in capsys.readouterr().out
    assert command(toy, "rates", "--threshold", "0", "--positive", "hateful,benign") == 0
    out = capsys.readouterr().out  # texts of one kind have no precision, and all are flagged
    assert "1.000" in out
    assert "no text is flagged" not in out


def test_python_has_the_columns_of_the_data_too_also_where_it_was_moved(
    mine: tuple[Toy, Path],
) -> None:
    toy, path = mine
    [run] = ph.load_runs(toy.results, ph.Workspace.open(toy.home, toy.results))

    rates = run.rates(by=["source"])
    missed = run.errors("missed")

    assert set(rates[rates["column"] == "source"]["group"]) == {"x", "y"}
    assert missed["note, with comma"].tolist() == [
        row["note, with comma"] for row in csv_rows(path)[1:24:2]
    ]
    assert missed["harness_row"].tolist()[0] == "mine.csv:3"
    with pytest.raises(ph.HarnessError, match="no such file"):
        run.errors("missed", data="absent.csv")
    (toy.folder / "elsewhere").mkdir()
    path.rename(moved := toy.folder / "elsewhere/mine.csv")
    with pytest.raises(ph.HarnessError, match="data=FILE"):
        run.rates(by=["source"])
    assert set(run.rates(by=["source"], data=moved)["group"]) == {"all", "x", "y"}


def test_no_bundle_has_the_path_of_the_data(mine: tuple[Toy, Path], tmp_path: Path) -> None:
    toy, path = mine
    [run] = toy.runs()
    out = tmp_path / "x.zip"

    where = ("--results", str(toy.results), "--home", str(toy.home))
    assert main(["bundle", str(run), "-o", str(out), *where]) == 0

    with ZipFile(out) as bundle:
        assert not any(str(path).encode() in bundle.read(name) for name in bundle.namelist())


def test_items_show_kept_columns_and_one_id(mine: tuple[Toy, Path], capsys: Lines) -> None:
    toy, _ = mine
    [run] = toy.runs()
    capsys.readouterr()

    assert main(["items", str(run), "--limit", "1", "--results", str(toy.results)]) == 0

    head, *lines = capsys.readouterr().out.splitlines()
    assert head.count("mine-") == 1
    assert ["target", "a"] in [line.split() for line in lines]


def test_a_table_of_ones_own_is_not_called_released(mine: tuple[Toy, Path], capsys: Lines) -> None:
    toy, path = mine
    changed = path.with_name("june.csv")
    changed.write_text(path.read_text("utf-8").replace("Text", "A text"), "utf-8")
    options = ("--data", str(changed), "--map", "mine")
    assert toy.main("run", "--task", "hate_speech", "--model", "constant-no", *options) == 0
    capsys.readouterr()

    assert main(["leaderboard", "--all", "--results", str(toy.results)]) == 0

    out = capsys.readouterr().out
    assert "data: mine, file mine.csv (24)" in out
    assert "data: mine, file june.csv (25)" in out
    assert "released" not in out
    assert ", )" not in out
    assert ", no implicitness)" in out
