"""plot: runs, ratings and files in, a figure and its data out."""

import json
import sys
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.impscore_heads import random_head
from support.packages import needs
from support.toy import Lines, Toy, csv_rows

from harness.cli import main
from harness.implicitness.scorer import save_head

pytestmark = needs("matplotlib")


def said(path: Path) -> str:
    return "\n".join(ElementTree.fromstring(path.read_bytes()).itertext())


def test_scores_are_drawn_as_asked_and_written(toy: Toy, tmp_path: Path, capsys: Lines) -> None:
    toy.run("--model", "oracle,literal")
    out, results = tmp_path / "figure.svg", ("--results", str(toy.results))

    assert main(["plot", "--x", "model", "--series", "variant", "-o", str(out), *results]) == 0

    found = csv_rows(tmp_path / "figure.csv")
    drawn = {(r["series"], r["x_name"]) for r in found}
    assert drawn == {*product(("base", "think"), ("literal", "oracle"))}
    assert {(r["x_name"], r["y"]) for r in found} == {("literal", "0.0"), ("oracle", "1.0")}
    text = said(out)
    assert all(word in text for word in ("oracle", "literal", "base", "think", "accuracy"))
    assert main(["plot", "--x", "model", "-o", str(out), *results]) == 2
    assert "differ in variant (base, think); give --variant" in capsys.readouterr().err


def test_no_command_replaces_a_file_that_it_reads_or_another_table(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Lines
) -> None:
    toy.run("--variant", "base")
    monkeypatch.chdir(tmp_path)
    mine = "text,hate\nNice.,0\n"
    (tmp_path / "texts.csv").write_text(mine)
    (tmp_path / "map.yaml").write_text("mine")
    read, other = "texts.csv: is the file that is read", "texts.csv: is another table already"
    runs = f"--results {toy.results}"
    for words, told in [
        ("plot impscore-9 texts.csv -o texts.svg", read),
        ("plot impscore-9 graded.jsonl --ratings texts.csv -o texts.svg", read),
        (f"plot forest @last -o texts.png {runs}", other),
        ("drift texts.csv june.csv -o texts.csv", read),
        ("impscore collect mine texts.csv -o texts.jsonl -o texts.csv", "end its name in .jsonl"),
        (f"rates --card @last -o map.yaml {runs}", "-o map.yaml: end its name in .md"),
        (f"report -o texts.csv {runs}", "-o texts.csv: end its name in .html"),
        (f"table -o texts.csv {runs}", other),
        (f"items @last --csv texts.csv {runs}", other),
        ("data split texts.csv --shares 50,50 -o texts.csv", "-o names a folder"),
        ("bundle @last -o .", "-o .: is a folder; name a file in it"),
    ]:
        assert main(words.split()) == 2, words
        assert told in capsys.readouterr().err, words
        assert (tmp_path / "texts.csv").read_text() == mine, words
    assert (tmp_path / "map.yaml").read_text() == "mine"


def test_a_run_without_measures_has_nothing_to_draw(toy: Toy, capsys: Lines) -> None:
    toy.run("--variant", "base")
    out = str(toy.folder / "curve.svg")

    assert main(["plot", "curve", "-o", out, "--results", str(toy.results)]) == 2
    assert "nothing to draw" in capsys.readouterr().err


def test_without_a_name_the_figures_are_listed(capsys: Lines) -> None:
    assert main(["plot"]) == 0
    assert "intent-resolution-4" in capsys.readouterr().out


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_head(random_head(), tmp_path / "random.json")
    for name in ("ferries", "teas"):
        lines = [f'{"ab"[n % 2]},"The {name} number {n} wait."' for n in range(24)]
        (tmp_path / f"{name}.csv").write_text("kind,text\n" + "\n".join(lines), "utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["impscore-5", "impscore-6", "impscore-14"])
def test_several_data_sets_stand_in_one_figure(name: str, texts: Path) -> None:
    files = ("ferries.csv", "teas.csv")

    assert main(["plot", name, *files, "--scorer", "./random.json", "-o", "f.svg"]) == 0

    text = said(texts / "f.svg")
    assert "ferries" in text
    assert "teas" in text
    assert "n=24" in text or name == "impscore-6"
    assert "by random@" in text


@pytest.mark.slow
@needs("sklearn")
def test_levels_of_graded_sentences_are_the_markers_of_their_topics(texts: Path) -> None:
    lines = [
        {"topic": t, "levels": [f"{t} {n}" for n in range(4)]} for t in ("teas", "coats", "hats")
    ]
    (texts / "graded.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    words = ("--column", "levels", "--label", "topic", "--scorer", "./random.json")

    assert main(["plot", "impscore-11", "graded.jsonl", *words, "-o", "f.svg"]) == 0
    assert "12 texts" in said(texts / "f.svg")
    assert "coats (n=4)" in said(texts / "f.svg")


@pytest.mark.slow
@needs("sklearn")
@pytest.mark.parametrize("name", ["impscore-11", "ishate-2"])
def test_features_and_embeddings_are_placed_by_label(name: str, texts: Path) -> None:
    arguments = ("ferries.csv", "--label", "kind", "--scorer", "./random.json", "-o", "f.svg")

    made = []
    for _ in range(2):
        assert main(["plot", name, *arguments]) == 0
        made.append((texts / "f.svg").read_bytes())

    assert made[0] == made[1]
    assert {"a (n=12)", "b (n=12)"} <= set(said(texts / "f.svg").split("\n"))


@pytest.mark.slow
def test_without_an_ending_all_three_are_written(texts: Path) -> None:
    arguments = ("ferries.csv", "--scorer", "./random.json", "-o", "f", "--width", "9")
    assert main(["plot", "impscore-14", *arguments]) == 0
    assert {path.suffix for path in texts.glob("f.*")} == {".pdf", ".svg", ".png", ".csv"}


@pytest.mark.parametrize(
    ("arguments", "code", "data"),
    [
        (["impscore", "profile", "teas.csv", "-o", "out"], 0, "out/profile.csv"),
        (["plot", "impscore-14", "teas.csv", "-o", "f.pdf"], 2, "f.csv"),
    ],
)
def test_without_matplotlib_the_data_are_written_and_one_line_says_what_to_install(
    arguments: list[str],
    code: int,
    data: str,
    texts: Path,
    *,
    capsys: Lines,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # An empty entry in sys.modules is what Python takes for a package that is not there.
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main([*arguments, "--scorer", "./random.json"]) == code

    assert capsys.readouterr().err.count('pip install -e ".[plots]"') == 1
    assert (texts / data).is_file()
    assert not list(texts.rglob("*.svg"))


def test_labelled_texts_of_a_task_are_placed_by_a_named_encoder(
    tmp_path: Path, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    out = tmp_path / "places.svg"

    assert main(["plot", "ishate-2", "--encoder", "char-ngrams", "-o", str(out)]) == 0

    series = {row["series"] for row in csv_rows(tmp_path / "places.csv")}
    assert series == {"non (n=12)", "plain (n=12)", "subtle (n=12)"}
    assert "char-ngrams" in said(out)
    assert main(["plot", "ishate-1", "--label", "kind", "-o", str(out)]) == 2
    assert "--column and --label are of files" in capsys.readouterr().err
