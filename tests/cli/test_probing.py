"""impscore probe: which kinds of implicitness a scorer knows, and where its plain texts lie."""

import json
from pathlib import Path

import pytest
from support.impscore_heads import random_head
from support.toy import Lines, csv_rows

from harness.cli import main
from harness.implicitness.probe import probe_texts
from harness.implicitness.scorer import save_head

CSV = "text\nThe ferry is late.\nTea please.\nThe bees are out again.\nNo\n"


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
    assert len(irony.split()) == 1 + 2 * 4
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


def test_profile_counts_thin_texts(home: Path) -> None:
    assert main(["impscore", "profile", "in.csv", "--scorer", "./random.json", "-o", "out"]) == 0

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
