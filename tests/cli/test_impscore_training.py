"""The commands that train write what they say, twice the same, and tell mistakes in one message."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.packages import needs
from support.toy import Lines, csv_rows
from support.training_pairs import invented, write

from harness.cli import main
from harness.implicitness.scorer import load_head

pytestmark = needs("torch", "safetensors")

RECIPE = """\
about: A test's.
encoder: {kind: char-ngrams}
settings: {features: 4, epochs: 2}
members: 2
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write(tmp_path / "pairs.jsonl", invented())
    (tmp_path / "small.yaml").write_text(RECIPE, "utf-8")
    return tmp_path


def call(home: Path, command: str, *more: str) -> int:
    options = ["-o", str(home / "out"), "--recipe", str(home / "small.yaml")]
    return main(["impscore", command, str(home / "pairs.jsonl"), *options, *more])


def test_a_trained_head_is_told_as_json_and_scores(home: Path, capsys: Lines) -> None:
    assert call(home, "train", "--json") == 0

    head = home / "out" / "small.json"
    told = json.loads(capsys.readouterr().out)
    assert (told["metrics"]["test words"], Path(told["head"])) == (1, head)
    texts = home / "texts.txt"
    texts.write_text("one wonders\nI demand\n", "utf-8")
    assert main(["impscore", "score", str(texts), "--scorer", str(head), "--json"]) == 0
    assert f"small@{load_head(head).digest[:8]}" in capsys.readouterr().out


def test_the_same_command_writes_the_same_bytes_with_stored_vectors_and_without(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [home / "out" / "mine.json", home / "out" / "mine.safetensors"]

    written, stored = [], []
    for cache in ("cache", "cache", "other"):
        monkeypatch.setenv("HARNESS_CACHE", str(home / cache))
        assert call(home, "train", "--name", "mine") == 0
        written.append([path.read_bytes() for path in paths])
        stored.append({file.stat().st_mtime_ns for file in (home / cache).rglob("*.npy")})

    assert written[0] == written[1] == written[2]
    assert stored[0]
    assert stored[0] == stored[1]


@pytest.mark.slow
def test_an_ablation_writes_a_table(home: Path, capsys: Lines) -> None:
    assert call(home, "ablate", "--runs", "2") == 0

    rows = csv_rows(home / "out" / "ablation.csv")
    assert len(rows) == 2 * 12
    assert {row["recipe"].partition("@")[0] for row in rows} == {"small"}
    assert len({(row["data"], row["encoder"]) for row in rows}) == 1
    out = capsys.readouterr().out
    assert "p2s cosine euclidean" in out
    assert "on 4 test pairs, 2 of them with levels" in out


@pytest.mark.slow
def test_a_grid_writes_each_combination_and_is_drawn_again(home: Path, capsys: Lines) -> None:
    write(home / "pairs.jsonl", invented(16, 8))
    assert call(home, "ablate", "--runs", "1", "--grid") == 0
    assert "best: alpha = " in capsys.readouterr().out

    rows = csv_rows(home / "out" / "grid.csv")
    assert len({(r["margin"], r["pragmatic_margin"], r["pragmatic_weight"]) for r in rows}) == 120
    grid, out = str(home / "out" / "grid.csv"), str(home / "again.svg")
    assert main(["plot", "impscore-10", grid, "-o", out]) == 0
    said = "".join(ElementTree.fromstring((home / "again.svg").read_bytes()).itertext())
    assert "alpha 0.5" in said
    assert "gamma 2" in said


@pytest.mark.parametrize("command", ["train", "ablate"])
@pytest.mark.parametrize("place", ["out", "out/below"])
def test_a_file_in_place_of_the_folder_is_told_before_any_work(
    command: str, place: str, home: Path, capsys: Lines
) -> None:
    (home / "out").write_text("mine", "utf-8")

    assert call(home, command, "-o", str(home / place)) == 2
    out, err = capsys.readouterr()
    assert f"{home / 'out'}: is a file, and -o names a folder" in err
    assert "done" not in out + err


def test_the_name_of_a_head_is_no_path(home: Path, capsys: Lines) -> None:
    assert call(home, "train", "--name", "../mine") == 2
    assert "--name '../mine': use only letters" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("settings: {epochs: 0}", "small.yaml"),
        ("settings: {epoch: 3}", "did you mean epochs"),
        ("split: [8, 1, 0]", "keeps no pairs to test on"),
        ("members: 0", "small.yaml"),
    ],
)
def test_a_mistake_in_a_recipe_is_told(home: Path, change: str, told: str, capsys: Lines) -> None:
    key = change.split(":")[0]
    kept = [line for line in RECIPE.splitlines() if not line.startswith(key)]
    (home / "small.yaml").write_text("\n".join([*kept, change]), "utf-8")

    assert call(home, "ablate") == 2
    assert told in capsys.readouterr().err


def test_a_missing_file_and_an_unknown_recipe_are_told(home: Path, capsys: Lines) -> None:
    assert main(["impscore", "train", "no.jsonl", "-o", str(home)]) == 2
    assert "no.jsonl: cannot be read" in capsys.readouterr().err
    file = str(home / "pairs.jsonl")
    assert main(["impscore", "train", file, "-o", str(home), "--recipe", "impscor"]) == 2
    assert "did you mean impscore" in capsys.readouterr().err
