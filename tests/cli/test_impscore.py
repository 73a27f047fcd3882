"""impscore score and evaluate: files in, files out, one line on what was done."""

import csv
import io
import json
import subprocess
import sys

import pytest
from support.each import rest_slow
from support.impscore_heads import random_head, random_scorer
from support.toy import Lines, Toy

from harness.cli import main
from harness.implicitness.scorer import save_head

pytest.importorskip("safetensors")

TEXTS = ["It is cold.", "", "שלום \U0001f642", "a\0b", "It is cold.", "word " * 2000]
SIGNATURE = random_scorer().signature
EXPECTED = [one.value for one in random_scorer().score(TEXTS)]


@pytest.fixture
def home(toy: Toy) -> Toy:
    """A toy home with a scorer without weights, and files of texts beside it."""
    save_head(random_head(), toy.home / "configs/scorers/random")
    toy.write("configs/scorers/random.yaml", "{about: a test, kind: head, head: random}")
    out = io.StringIO(newline="")
    csv.writer(out).writerows([("id", "text"), *((n, text) for n, text in enumerate(TEXTS))])
    toy.write("texts.csv", "")
    (toy.home / "texts.csv").write_text(out.getvalue(), "utf-8", newline="")
    save_head(random_head(seen=["it is cold", "x", "Other."]), toy.home / "trained")
    toy.write("configs/scorers/trained.yaml", "{about: a test, kind: head, head: ../../trained}")
    toy.write("lines.txt", "It is cold.\n\nNice.")
    toy.write("list.json", '[{"text": "a"}]')
    toy.write("mixed.jsonl", '{"text": "a", "n": 1}\n{"text": 7}\n{"n": 2}')
    return toy


def impscore(toy: Toy, command: str, file: str, *options: str, scorer: str = "random") -> int:
    path = file if file == "-" else str(toy.home / file)
    named = ["--scorer", scorer, "--home", str(toy.home)]
    return main(["impscore", command, path, *options, *named])


def cells(text: str, column: str) -> list[str]:
    return [row[column] for row in csv.DictReader(io.StringIO(text, newline=""))]


def test_scores_and_columns_go_to_stdout_and_the_summary_to_stderr(home: Toy, capfd: Lines) -> None:
    assert impscore(home, "score", "texts.csv", "--column", "text") == 1

    out, err = capfd.readouterr()
    assert out.splitlines()[0] == "id,text,implicitness,implicitness_flag,implicitness_scorer"
    assert [float(v) if v else None for v in cells(out, "implicitness")] == EXPECTED
    assert cells(out, "implicitness_flag") == ["", "empty", "thin", "nul", "", ""]
    assert set(cells(out, "implicitness_scorer")) == {SIGNATURE}
    assert f"{SIGNATURE}: 4 of 6 rows have a value, mean" in err
    assert "without: 1 empty, 1 nul" in err
    assert "; 1 of one word, or of letters that the encoder does not know" in err


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_scores_go_to_a_file_of_the_kind_it_says(ending: str, home: Toy, capfd: Lines) -> None:
    out = home.folder / f"new/out.{ending}"

    assert impscore(home, "score", "texts.csv", "-o", str(out)) == 1
    assert f"in {out}" in capfd.readouterr().out
    assert impscore(home, "score", str(out), "--as", "again", "--json") == 1

    rows = json.loads(capfd.readouterr().out)["rows"]
    assert [row["value"] for row in rows] == EXPECTED


@pytest.mark.parametrize(
    ("data", "options"),
    rest_slow(
        [
            (b"It is cold.\nNice.\n", []),
            (b"n,said\n1,It is cold.\n2,Nice.\n", ["--column", "said"]),
        ],
        kept=slice(1, None),
    ),
)
def test_stdin_is_read_as_what_it_looks_like(data: bytes, options: list[str], home: Toy) -> None:
    path = str(home.home / "configs/scorers/random.json")
    command = [sys.executable, "-m", "harness", "impscore", "score", "-", "--scorer", path]
    done = subprocess.run([*command, *options, "--json"], input=data, capture_output=True)

    expected = [one.value for one in random_scorer().score(["It is cold.", "Nice."])]
    assert [row["value"] for row in json.loads(done.stdout)["rows"]] == expected


def test_a_column_of_mixed_types_is_flagged_row_by_row(home: Toy, capfd: Lines) -> None:
    out = home.folder / "out.csv"
    assert impscore(home, "score", "mixed.jsonl", "--json") == 1

    found = json.loads(capfd.readouterr().out)
    assert [row["flag"] for row in found["rows"]] == ["thin", "not_text", "absent"]
    assert found["summary"]["missing"] == {"absent": 1, "not_text": 1}
    assert (found["summary"]["cut"], found["summary"]["thin"]) == (0, 1)
    assert found["summary"]["scorer"] == SIGNATURE
    impscore(home, "score", "mixed.jsonl", "--json", "-o", str(out))
    assert json.loads(capfd.readouterr().out)["rows"] is None, "with a file: the summary alone"
    assert cells(out.read_text("utf-8"), "implicitness_flag") == ["thin", "not_text", "absent"]


@pytest.mark.parametrize(
    ("command", "file", "options", "message"),
    [
        ("score", "none.csv", [], r"none.csv: cannot be read (No such file"),
        ("score", "lines.txt", ["--column", "text"], "plain lines, which have no columns; if"),
        ("score", "texts.csv", ["--column", "text", "--format", "lines"], "have no columns"),
        ("evaluate", "lines.txt", [], "plain lines, which have no columns"),
        ("score", "list.json", [], "list.json: begins with '['"),
        ("score", "texts.csv", ["--column", "txt"], "no column 'txt'; did you mean text?"),
        ("score", "texts.csv", ["--as", " "], "--as ' ': give the new column a name"),
        ("score", "texts.csv", ["--as", "id"], "there is a column 'id' already"),
        ("score", "texts.csv", ["-o", "out"], "end its name in .parquet,"),
        ("score", "texts.csv", ["--format", "xls"], "--format 'xls': give one of csv, tsv"),
        ("score", "texts.csv", ["--scorer", "owl"], "no scorer 'owl'"),
        ("evaluate", "texts.csv", [], "nothing to evaluate on among the columns id, text"),
    ],
)
def test_a_mistake_is_told_before_anything_is_encoded(
    command: str, file: str, options: list[str], message: str, home: Toy, capfd: Lines
) -> None:
    path, named = str(home.home / file), ("--scorer", "random", "--home", str(home.home))

    assert main(["impscore", command, path, *named, *options]) == 2
    err = capfd.readouterr().err
    assert "encoded" not in err
    assert message in err


@pytest.mark.parametrize("spelling", ["texts.csv", "configs/../texts.csv", "link.csv"])
def test_a_file_that_is_read_is_never_written_over(spelling: str, home: Toy, capfd: Lines) -> None:
    (home.home / "link.csv").symlink_to(home.home / "texts.csv")
    before = (home.home / "texts.csv").read_bytes()
    code = impscore(home, "score", "texts.csv", "-o", str(home.home / spelling))

    assert (code, (home.home / "texts.csv").read_bytes()) == (2, before)
    assert "is the file that is read; choose another -o" in capfd.readouterr().err


def test_a_text_is_encoded_once_in_all_commands(home: Toy, capfd: Lines) -> None:
    impscore(home, "score", "texts.csv")
    first = capfd.readouterr()
    assert impscore(home, "score", "texts.csv") == 1
    again = capfd.readouterr()

    assert (again.out, "encoded" in again.err) == (first.out, False)
    assert "texts: 5 of 5 encoded" in first.err


@pytest.mark.parametrize(
    ("command", "file", "options", "told"),
    [
        ("score", "texts.csv", [], "trained on 2 of the 6 rows"),
        ("evaluate", "graded.csv", [], "trained on 1 of the 2 items"),
    ],
)
def test_what_the_scorer_was_trained_on_is_counted_and_told(
    command: str, file: str, options: list[str], told: str, home: Toy, capfd: Lines
) -> None:
    home.write("graded.csv", "implicit,explicit\na,x\nb,c\n")

    impscore(home, command, file, *options, "--json", scorer="trained")

    out, err = capfd.readouterr()
    found = json.loads(out)
    assert found.get("summary", found)["trained_on"] == int(told.split()[2])
    assert len([line for line in err.splitlines() if told in line]) == 1


def test_plain_lines_are_texts_and_nobody_knows_what_a_scorer_that_does_not_tell_was_trained_on(
    home: Toy, capfd: Lines
) -> None:
    assert impscore(home, "score", "lines.txt", "--as", "i") == 1
    assert cells(capfd.readouterr().out, "text") == ["It is cold.", "", "Nice."]

    impscore(home, "score", "lines.txt", "--json")

    out, err = capfd.readouterr()
    assert json.loads(out)["summary"]["trained_on"] is None
    assert f"nobody knows which texts scorer {SIGNATURE} was trained on" in err


GRADED = (
    '{"topic": "a", "levels": ["x", "y", "z"]}\n{"topic": "b", "implicit": "p", "explicit": "q"}\n'
)


def test_eval_prints_a_table_of_what_the_file_has(home: Toy, capfd: Lines) -> None:
    home.write("graded.jsonl", GRADED)

    assert impscore(home, "evaluate", "graded.jsonl") == 0

    out = capfd.readouterr().out
    assert out.startswith(f"{SIGNATURE} on ")
    heads = [[line.split()[0] for line in part.splitlines()[2:]] for part in out.split("\n\n")[:2]]
    assert heads[0] == ["tau", "rho", "ordered", "ends", "pairs"]
    assert heads[1] == ["implicit", "explicit", "pair", "negative"]


def test_eval_with_a_sentence_without_a_score_says_so(home: Toy, capfd: Lines) -> None:
    home.write("graded.jsonl", GRADED + '{"topic": "c", "levels": ["x", ""]}')
    assert impscore(home, "evaluate", "graded.jsonl", "--json") == 1

    found = json.loads(capfd.readouterr().out)
    assert {one["metric"]: one["missing"] for one in found["measured"]}["tau"] == 1
    assert found["rankings"][1]["scores"][1] is None
