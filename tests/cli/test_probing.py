"""impscore probe and profile: what a scorer knows, and how implicit texts are."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pyarrow
import pytest
from pyarrow import parquet
from support.each import rest_slow
from support.impscore_heads import random_head
from support.toy import Lines, csv_rows

from harness.cli import main
from harness.implicitness.probe import probe_texts
from harness.implicitness.scorer import save_head

CSV = 'kind,text\na,The ferry is late.\nb,"Tea, please."\nb,\na,The bees are out.\n'
SAMPLE = (
    '{"group": "g", "fields": {"said": "Tea."}, "references": {"kind": ["a"], "b": ["c", "d"]}}\n'
    '{"group": "g", "fields": {"said": "It is late."}, "references": {"kind": ["b"]}}\n'
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    save_head(random_head(), tmp_path / "random.json")
    (tmp_path / "in.csv").write_text(CSV, "utf-8")
    return tmp_path


def test_the_matrix_marks_weak_cells(home: Path, capsys: Lines) -> None:
    assert main(["impscore", "probe", "random.json"]) == 0

    lines = capsys.readouterr().out.splitlines()
    (irony,) = (line for line in lines if line.startswith("irony"))
    assert len(irony.split()) == 1 + 2 * 5
    assert "*" in irony  # random weights know no irony
    assert any(line.startswith("all implicit") for line in lines)


def test_the_file_has_every_figure_and_json_its_columns(home: Path, capsys: Lines) -> None:
    assert main(["impscore", "probe", "random.json", "-o", "out.csv"]) == 0

    out = capsys.readouterr().out
    rows = csv_rows(home / "out.csv")
    assert f"wrote {len(rows)} rows to out.csv" in out
    areas = [row for row in rows if row["figure"] == "auc"]
    assert {(row["kind"], row["against"]) for row in areas} >= {
        ("irony", "request"),
        ("metaphor", "all plain"),
    }
    assert all(row["sets"] == str(len(probe_texts()) // 11) for row in areas)
    assert all(float(row["low"]) < float(row["value"]) < float(row["high"]) for row in areas)
    assert main(["impscore", "probe", "./random.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0].keys() == rows[0].keys()


def profile(*arguments: str) -> int:
    return main(["impscore", "profile", *arguments, "--scorer", "./random.json", "-o", "out"])


def test_thin_texts_are_counted_in_a_profile(home: Path) -> None:
    texts = ("The ferry is late.", "Tea please.", "The bees are out again.", "No")
    (home / "in.csv").write_text("\n".join(["text", *texts]), "utf-8")
    assert profile("in.csv") == 0

    (row,) = csv_rows(home / "out/profile.csv")
    assert (row["n"], row["thin"], row["cut"]) == ("4", "1", "0")


def test_a_run_counts_thin_texts(home: Path, capsys: Lines) -> None:
    save_head(random_head(), home / "configs/scorers/own")
    (home / "configs/scorers/own.yaml").write_text("{about: a, kind: head, head: own}", "utf-8")
    rows = [*("x" * n for n in (3, 4)), *(f"some text number {n}" for n in range(12))]
    lines = [f"{text},{'yes' if n % 2 else 'no'}" for n, text in enumerate(rows)]
    (home / "posts.csv").write_text("\n".join(["body,verdict", *lines]), "utf-8")
    (home / "mine.yaml").write_text(
        "{about: a, source: mine, text: body, label: {column: verdict, "
        "classes: {hateful: ['yes'], benign: ['no']}}}",
        "utf-8",
    )
    named = ["--data", "posts.csv", "--map", "mine.yaml", "--scorer", "own"]

    main(["run", "--task", "hate_speech", "--model", "constant-yes", *named])

    assert "of 14 texts 2 have one word" in capsys.readouterr().err


def test_the_table_and_the_picture_are_written(home: Path, capsys: Lines) -> None:
    assert profile("in.csv", "--label", "kind") == 1  # a text is missing

    rows = csv_rows(home / "out/profile.csv")
    assert [(row["label"], row["n"]) for row in rows] == [("all", "3"), ("a", "2"), ("b", "1")]
    assert rows[2]["sd"] == rows[2]["distance_mean"] == ""
    ElementTree.fromstring((home / "out/profile.svg").read_bytes())
    assert "1 empty" in capsys.readouterr().err


def test_texts_the_scorer_was_trained_on_are_counted_by_label(home: Path, capsys: Lines) -> None:
    save_head(random_head(seen=["tea please"]), home / "random.json")

    profile("in.csv", "--label", "kind", "--json")

    out, err = capsys.readouterr()
    found = {row["label"]: row["trained_on"] for row in json.loads(out)}
    assert found == {"all": 1, "a": 0, "b": 1}
    assert "trained on 1 of the 3 texts" in err


@pytest.mark.parametrize("form", rest_slow(["jsonl", "parquet"], kept=1))
def test_samples_of_our_own_format_have_their_fields_and_references_as_columns(
    home: Path, capsys: Lines, form: str
) -> None:
    path = home / f"in.{form}"
    if form == "jsonl":
        path.write_text(SAMPLE, "utf-8")
    else:
        rows = [json.loads(line) for line in SAMPLE.splitlines()]
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)

    assert profile(path.name) == 2
    assert "no column 'text'; known: b, fields, group, kind" in capsys.readouterr().err
    assert profile(path.name, "--column", "said", "--label", "kind", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["label"], row["n"]) for row in rows] == [("all", 2), ("a", 1), ("b", 1)]


def test_without_a_folder_tables_are_printed_and_nothing_written(home: Path, capsys: Lines) -> None:
    (home / "in.csv").write_text("text,fields,group,references\nTea.,a,b,c\n", "utf-8")
    assert main(["impscore", "profile", "in.csv", "--scorer", "./random.json"]) == 0

    out = capsys.readouterr().out
    assert "wrote" not in out
    assert not [path for path in home.iterdir() if path.stem not in ("in", "random")]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("nowhere.csv",), "nowhere.csv: cannot be read"),
        (("in.csv", "--column", "txt"), "did you mean text"),
        (("in.csv", "--label", "kinds"), "did you mean kind"),
    ],
)
def test_a_mistake_is_told_in_one_message(
    home: Path, capsys: Lines, arguments: tuple[str, ...], named: str
) -> None:
    assert profile(*arguments) == 2
    assert named in capsys.readouterr().err
